"""Unscale gradients and update the scale of a GradScaler. On a device with a queue, the host reads no value."""

from __future__ import annotations

import math

import facula
from facula import _C

__all__ = ["_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"]


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale) -> None:
    """Multiply gradients by inv_scale in place; found_inf becomes 1 where one is infinite or NaN."""
    if not found_inf.is_cpu:
        _C._unscale(list(self), found_inf, inv_scale)
        return
    factor = inv_scale.item()
    for grad in self:
        if grad.numel() and not math.isfinite(facula.linalg.vector_norm(grad, math.inf).item()):
            found_inf.fill_(1.0)
        if factor != 1.0:
            grad.mul_(factor)


def _amp_update_scale_(
    self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval
):
    """Update the scale and the count of good steps once, in place."""
    if not self.is_cpu:
        _C._update_scale(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval)
        return self
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.zero_()
        return self
    steps = int(growth_tracker.item()) + 1
    if steps != growth_interval:
        growth_tracker.fill_(steps)
        return self
    grown = self * scale_growth_factor
    if math.isfinite(grown.item()):
        self.copy_(grown)
    growth_tracker.zero_()
    return self
