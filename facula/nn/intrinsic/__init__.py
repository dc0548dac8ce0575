"""Provide the names of `ao.nn.intrinsic` under PyTorch's old name."""

from typing import TYPE_CHECKING

from facula.ao._old_names import same_modules
from facula.ao.nn.intrinsic import *  # noqa: F403
from facula.ao.nn.intrinsic import __all__ as _names

if TYPE_CHECKING:  # who do not read lists that are put together
    from facula.ao.nn.intrinsic.modules.fused import *  # noqa: F403

__all__ = sorted({*_names, *same_modules(__name__, "facula.ao.nn.intrinsic")})
