"""Provide the module under the name that it has in PyTorch; the class is in `muon`."""

from .muon import Muon as Muon
