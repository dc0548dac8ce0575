"""From the arguments of FullyShardedDataParallel to what it spreads."""

from __future__ import annotations

import os

import facula
from facula import distributed as dist
from facula.nn import Module

from ..device_mesh import DeviceMesh
from ..tensor import DTensor
from ._param_group import MixedPrecisionPolicy
from .api import ShardingStrategy


def _mesh(process_group, strategy, kind):
    if isinstance(process_group, tuple):
        shards, replicas = process_group
        ranks, rows = dist.get_process_group_ranks(shards), dist.get_process_group_ranks(replicas)
        table = facula.full((len(rows), len(ranks)), -1, dtype=facula.int64)
        everybody: list = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, (rows.index(dist.get_rank()), ranks))
        for row, columns in everybody:
            table[row] = facula.tensor(columns)
        return DeviceMesh.from_group([replicas, shards], kind, table, mesh_dim_names=("replicas", "shards"))
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    ranks = dist.get_process_group_ranks(process_group)
    if strategy is ShardingStrategy.NO_SHARD or hybrid:
        inside = int(os.environ.get("LOCAL_WORLD_SIZE", len(ranks))) if hybrid else 1
        return DeviceMesh(kind, facula.tensor(ranks).view(-1, inside), mesh_dim_names=("replicas", "shards"))
    group = process_group if process_group is not None else dist.group.WORLD
    return DeviceMesh.from_group(group, kind, mesh_dim_names=("shards",))


def _device(module, device_id):
    """(the device to move to, if one is given, the kind of device)."""
    if device_id is None:
        return None, next((p.device.type for p in module.parameters() if not p.is_meta), "cpu")
    device = facula.device(f"cuda:{device_id}" if isinstance(device_id, int) else device_id)
    return device, device.type


def _ignored_parameters(module, ignored_modules, ignored_states):
    found = set()
    for entry in [*(ignored_modules or ()), *(ignored_states or ())]:
        found.update(entry.parameters() if isinstance(entry, Module) else [entry])
    return found & set(module.parameters())


def _materialize(module, param_init_fn, device) -> None:
    for m in module.modules():
        if any(t is not None and t.is_meta for t in [*m._parameters.values(), *m._buffers.values()]):
            if param_init_fn is not None:
                param_init_fn(m)
            else:
                m.to_empty(device=device or "cpu", recurse=False)
                m.reset_parameters()
    if device is not None:
        module.to(device)


def _sync(module, ignored, mesh) -> None:
    with facula.no_grad():
        for t in [*module.parameters(), *module.buffers()]:
            if t not in ignored and not isinstance(t, DTensor):
                for number in range(mesh.ndim):
                    group = mesh.get_group(number)
                    dist.broadcast(t.detach(), dist.get_global_rank(group, 0), group=group)


def _policy(mixed_precision):
    if mixed_precision is None:
        return MixedPrecisionPolicy()
    cast = mixed_precision.cast_forward_inputs or mixed_precision.cast_root_forward_inputs
    return MixedPrecisionPolicy(mixed_precision.param_dtype, mixed_precision.reduce_dtype, None, cast)
