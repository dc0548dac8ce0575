"""Provide the module under the name that it has in PyTorch; the class is in `adafactor`."""

from .adafactor import Adafactor as Adafactor
