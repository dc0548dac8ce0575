"""Define optimizers for several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

from .apply_optimizer_in_backward import _apply_optimizer_in_backward as _apply_optimizer_in_backward
from .apply_optimizer_in_backward import _get_in_backward_optimizers as _get_in_backward_optimizers
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

if TYPE_CHECKING:
    from .optimizer import DistributedOptimizer
    from .utils import as_functional_optim

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]

__getattr__ = _on_demand(__name__, DistributedOptimizer=f"{__name__}.optimizer", as_functional_optim=f"{__name__}.utils")
