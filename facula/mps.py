"""Devices of kind "mps", which Facula does not support."""

from facula import _no_device

globals().update(_no_device.names_of("mps"))
