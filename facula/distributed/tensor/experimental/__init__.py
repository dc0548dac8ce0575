"""Run functions of parts on DTensors, and treat plain tensors as whole in every process."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

import facula
from facula._shared.on_demand import _on_demand
from facula.utils import _pytree as pytree

from .. import _registered, _rules
from .._dtensor import DTensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.distributed.device_mesh import DeviceMesh

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


def local_map(func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None,
              in_grad_placements: Any = None, device_mesh: DeviceMesh | None = None, *,
              redistribute_inputs: bool = False) -> Any:  # fmt: skip
    """Return a function of DTensors that runs `func` on their parts. Without `func`, what decorates one.

    Args:
        func: the function of parts.
        out_placements: of each tensor that `func` returns, or of the only one; None for what stays as it is.
        in_placements: of each flattened argument, None for what is no tensor. Default: as they come.
        in_grad_placements: of the arguments' gradients. Default: as the arguments.
        device_mesh: the processes. Default: those of the first DTensor.
        redistribute_inputs: whether DTensors that lie otherwise are moved, instead of refused.

    Errors: ValueError, when called, for arguments that lie otherwise, and for another number of arguments or results.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torch.distributed.tensor.experimental import local_map
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = distribute_tensor(torch.tensor([1.0, 4.0]), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> root = local_map(lambda part: part.sqrt(), out_placements=[Shard(0)], in_placements=([Shard(0)],))
    >>> root(x).full_tensor()
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements, in_grad_placements=in_grad_placements,
            device_mesh=device_mesh, redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    def part(x, number, mesh):
        wanted = None if in_placements is None else in_placements[number]
        if not isinstance(x, DTensor):
            return x
        if in_placements is not None and wanted is None:
            raise ValueError(f"local_map: in_placements must say how a DTensor lies, got None for argument {number}")
        if wanted is not None and tuple(wanted) != x.placements:
            if not redistribute_inputs:
                raise ValueError(f"local_map: argument {number} must lie as {tuple(wanted)}, got {x.placements}")
            x = x.redistribute(mesh, wanted)
        grads = None if in_grad_placements is None else in_grad_placements[number]
        return x.to_local(grad_placements=grads)

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat, structure = pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise ValueError(f"local_map: expected in_placements for {len(flat)} arguments, got {len(in_placements)}")
        given = [x for x in flat if isinstance(x, DTensor)]
        mesh = device_mesh or (given[0].device_mesh if given else None)
        flat = [part(x, number, mesh) for number, x in enumerate(flat)]
        found, its = pytree.tree_flatten(func(*pytree.tree_unflatten(flat, structure), **kwargs))
        if not given:
            return pytree.tree_unflatten(found, its)
        layouts = [out_placements] if len(found) == 1 and not _is_nested(out_placements) else list(out_placements)
        if len(layouts) != len(found):
            raise ValueError(f"local_map: expected out_placements for {len(found)} results, got {len(layouts)}")
        return pytree.tree_unflatten([_whole(x, mesh, p) for x, p in zip(found, layouts)], its)

    return mapped


def _is_nested(placements) -> bool:
    return isinstance(placements, tuple) and any(p is None or isinstance(p, (tuple, list)) for p in placements)


def _whole(x, mesh, placements):
    if placements is None or not isinstance(x, facula.Tensor):
        return x
    return DTensor.from_local(x, mesh, placements)


@contextlib.contextmanager
def implicit_replication():
    """Return a context in which a Tensor that meets a DTensor counts as whole in every process. Outside of it they do not mix.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torch.distributed.tensor.experimental import implicit_replication
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = distribute_tensor(torch.tensor([1.0, 4.0]), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> with implicit_replication():
    ...     (x + torch.ones(2)).full_tensor()
    tensor([2., 5.])
    >>> dist.destroy_process_group()
    """
    before, _rules.mixes = _rules.mixes, True
    try:
        yield
    finally:
        _rules.mixes = before


def register_sharding(op: Any) -> Any:
    """Decorate a function that says which layouts an op takes, in the place of Facula's rule if there is one.

    It is called with the op's arguments, and gives a list of (placements of the results, placements of the arguments, None
    for what is no tensor) on one dimension of a mesh. Of these the one is taken that moves the least.

    Args:
        op: a custom op, an op of `facula.ops` or a function of Facula's, or a list of them.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
    >>> from torch.distributed.tensor.experimental import register_sharding
    >>> @torch.library.custom_op("examples::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return 2 * x
    >>> @register_sharding(torch.ops.examples.twice.default)
    ... def layouts(x):
    ...     return [([Shard(0)], [Shard(0)]), ([Replicate()], [Replicate()])]
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = distribute_tensor(torch.arange(4), init_device_mesh("cpu", (2,)), [Shard(0)])
    >>> twice(x)
    DTensor(local_tensor=tensor([0, 2]), device_mesh=DeviceMesh('cpu', [0, 1]), placements=(Shard(dim=0),))
    >>> dist.destroy_process_group()
    """

    def register(rule):
        for each in op if isinstance(op, (list, tuple)) else [op]:
            _registered.rules[_registered.name_of(each)] = rule
        return rule

    return register

__getattr__ = _on_demand(__name__)
