"""Provide `ao.quantization` under PyTorch's old name."""

from typing import TYPE_CHECKING

from facula.ao._old_names import same_modules
from facula.ao.quantization import *  # noqa: F403
from facula.ao.quantization import __all__ as _names

if TYPE_CHECKING:  # who do not read lists that are put together
    from facula.ao.quantization import observer as observer
    from facula.ao.quantization.fake_quantize import *  # noqa: F403
    from facula.ao.quantization.observer import *  # noqa: F403
    from facula.ao.quantization.qconfig import *  # noqa: F403
    from facula.ao.quantization.quantization_mappings import *  # noqa: F403

__all__ = sorted({*_names, *same_modules(__name__, "facula.ao.quantization")})
