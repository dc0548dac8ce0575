"""Placements of distributed tensors. The tensors themselves need several processes and are not supported."""

from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
