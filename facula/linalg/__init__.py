"""Provide linear algebra. The ops are stated in ops/linalg.yaml and ops/matmul.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C
from .._C import Tensor  # noqa: F401

if TYPE_CHECKING:  # the names that are gathered below
    from .._C.linalg import *  # noqa: F403

LinAlgError = _C._LinAlgError
__all__ = sorted([*(name for name in vars(_C.linalg) if not name.startswith("_")), "LinAlgError"])
globals().update({name: getattr(_C.linalg, name) for name in __all__ if name != "LinAlgError"})
