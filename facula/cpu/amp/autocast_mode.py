"""Provide `facula.amp.autocast_mode` for the CPU. This module is deprecated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.amp import _shims

if TYPE_CHECKING:
    from typing import Any

autocast: type[Any] = _shims.autocast_of("cpu", facula.bfloat16, __name__)
