"""Placements of distributed tensors. The tensors themselves need several processes and are not supported."""

from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.distributed.tensor", name)
