"""Provide `facula.amp.grad_scaler` for the CPU. This module is deprecated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.amp import _shims

if TYPE_CHECKING:
    from typing import Any

GradScaler: type[Any] = _shims.grad_scaler_of("cpu", __name__)
