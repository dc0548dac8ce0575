"""Provide mixed precision on the CPU under deprecated names: `facula.amp` with its device type filled in."""

from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
