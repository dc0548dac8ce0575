"""Optimizers for several processes."""

from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.distributed.optim", name)
