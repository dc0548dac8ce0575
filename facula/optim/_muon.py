"""The module under the name that PyTorch gives it; the class is in `muon`."""

from .muon import Muon as Muon
