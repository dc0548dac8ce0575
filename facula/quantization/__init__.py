"""PyTorch's old name for `ao.quantization`."""

from facula.ao._old_names import same_modules
from facula.ao.quantization import *  # noqa: F403
from facula.ao.quantization import __all__ as _names

__all__ = sorted({*_names, *same_modules(__name__, "facula.ao.quantization")})
