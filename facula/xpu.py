"""Devices of kind "xpu", which Facula does not support."""

from facula.compat import no_device

globals().update(no_device.names_of("xpu"))
