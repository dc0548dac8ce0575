"""Optimizers for several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .apply_optimizer_in_backward import _apply_optimizer_in_backward as _apply_optimizer_in_backward
from .apply_optimizer_in_backward import _get_in_backward_optimizers as _get_in_backward_optimizers
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

if TYPE_CHECKING:
    from typing import Any

    from .optimizer import DistributedOptimizer
    from .utils import as_functional_optim

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]


def __getattr__(name: str) -> Any:
    if name == "DistributedOptimizer":  # which needs remote calls, and they need more
        from .optimizer import DistributedOptimizer

        return DistributedOptimizer
    if name == "as_functional_optim":  # which needs all optimizers
        from .utils import as_functional_optim

        return as_functional_optim
    from facula.compat import placeholders

    found = globals()[name] = placeholders.member("torch.distributed.optim", name)  # the same object each time
    return found
