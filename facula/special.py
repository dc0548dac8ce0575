"""Provide special functions. The ops are stated in ops/special.yaml and ops/elementwise.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _C

if TYPE_CHECKING:  # the names that are gathered below
    from ._C.special import *  # noqa: F403

globals().update({name: value for name, value in vars(_C.special).items() if not name.startswith("__")})
__all__ = sorted(name for name in vars(_C.special) if not name.startswith("_"))
