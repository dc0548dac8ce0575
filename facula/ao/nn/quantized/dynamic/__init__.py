"""Define layers on float tensors with weights of qint8. Inputs are quantized to eight bits by their range at every call."""

from . import modules
from .modules import *  # noqa: F403
from .modules import __all__

__all__ = [*__all__, "modules"]
