"""Train in mixed precision: `autocast` picks the dtype of each op, and `GradScaler` prevents small float16 gradients
from vanishing.
"""

from .autocast_mode import _enter_autocast, _exit_autocast, autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "GradScaler"]
