"""Optimizers for several processes."""

from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def __getattr__(name):
    if name == "DistributedOptimizer":  # which needs remote calls, and they need more
        from .optimizer import DistributedOptimizer

        return DistributedOptimizer
    from facula.compat import placeholders

    found = globals()[name] = placeholders.member("torch.distributed.optim", name)  # the same object each time
    return found
