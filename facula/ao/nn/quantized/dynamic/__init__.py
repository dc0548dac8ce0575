"""Layers on float tensors with weights of qint8: inputs are put on levels of eight bits by their range at every call."""

from . import modules
from .modules import *  # noqa: F403
from .modules import __all__

__all__ = [*__all__, "modules"]
