"""Define layers on quantized tensors; `dynamic` has those on float tensors with quantized weights."""

from . import dynamic, functional, modules
from .modules import *  # noqa: F403
from .modules import __all__

__all__ = [*__all__, "dynamic", "functional", "modules"]
