"""Provide `facula.amp.autocast_mode` for CUDA. This module is deprecated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.amp import _shims

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["autocast", "custom_fwd", "custom_bwd"]

autocast: type[Any] = _shims.autocast_of("cuda", facula.float16, __name__)
custom_fwd: Callable[..., Any]
custom_bwd: Callable[..., Any]
custom_fwd, custom_bwd = _shims.cuda_custom_fwd, _shims.cuda_custom_bwd
