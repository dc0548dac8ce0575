"""Define the namespace that `Tensor.__array_namespace__` returns: the Python Array API, version 2024.12.

A name is looked up here, then in `functions.array_api`, then in facula. What stands here has a name that PyTorch gives another
meaning or other arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import facula
from facula.functions import array_api as _array_api

from . import _elementwise, _reductions, _shapes, fft, linalg
from ._elementwise import *  # noqa: F403
from ._reductions import *  # noqa: F403
from ._shapes import *  # noqa: F403
from .linalg import matmul, tensordot  # noqa: F401

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_FUNCTIONS = [*_elementwise.__all__, *_reductions.__all__, *_shapes.__all__]
__all__ = sorted([*_FUNCTIONS, "fft", "linalg", "matmul", "namespace", "tensordot"])
__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version: str | None = None) -> ModuleType:
    """Return this module, if it follows a version of the standard; what a tensor's __array_namespace__ gives.

    Args:
        api_version: such as "2024.12"; None for the newest that it follows.

    Errors: ValueError for a version that it does not follow.

    >>> xp = torch.ones(2).__array_namespace__(api_version="2024.12")
    >>> xp.sum(torch.ones(2, 3), axis=1)
    tensor([3., 3.])
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"__array_namespace__: api_version is one of {', '.join(_VERSIONS)}, got {api_version!r}")
    return sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name in _array_api.__all__:
        return getattr(_array_api, name)
    return getattr(facula, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_array_api.__all__, *dir(facula)})
