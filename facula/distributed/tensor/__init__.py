"""Define tensors whose parts are in several processes."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

from ..device_mesh import DeviceMesh, init_device_mesh
from . import _rules_parts as _rules_parts
from ._dtensor import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard
from .placement_types import _StridedShard as _StridedShard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]

__getattr__ = _on_demand(__name__)
