"""Provide the names of `ao.nn.qat` under PyTorch's old name."""

from typing import TYPE_CHECKING

from facula.ao._old_names import same_modules
from facula.ao.nn.qat import *  # noqa: F403
from facula.ao.nn.qat import __all__ as _names

if TYPE_CHECKING:  # who do not read lists that are put together
    from facula.ao.nn.qat.modules import *  # noqa: F403

__all__ = sorted({*_names, *same_modules(__name__, "facula.ao.nn.qat")})
