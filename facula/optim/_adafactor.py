"""The module under the name that PyTorch gives it; the class is in `adafactor`."""

from .adafactor import Adafactor as Adafactor
