"""Register a program's own rules: which layouts of its inputs an op accepts, and the layouts of its results."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._operators import custom
from facula.utils import _pytree as pytree

from ._dtensor import DTensor
from ._plan import _bytes, _cost
from ._redistribute import redistribute, summed_gradient
from ._spec import Spec
from .placement_types import Replicate, Shard

if TYPE_CHECKING:
    from typing import Any

#: {name of the op: function that gives [(placements of results, placements of arguments)]}
rules: dict[Any, Any] = custom._over_processes


def name_of(op) -> str:
    """Return the key of an op: of custom ones "namespace::name", of others the name of Facula's function."""
    packet = getattr(op, "overloadpacket", op)
    qualified = getattr(packet, "_qualified_op_name", None) or getattr(packet, "_qualname", None)
    if qualified is None:
        return getattr(packet, "__name__", str(packet))
    namespace, _, name = qualified.partition("::")
    return name.lstrip("_") if namespace == "aten" else qualified


def run(name, func, args, kwargs):
    """Call an op that has a rule; NotImplemented where no argument is a DTensor."""
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    given = [x for x in leaves if isinstance(x, DTensor)]
    if not given:
        return NotImplemented
    acceptable = _asked(rules[name], args, kwargs)
    mesh = given[0].device_mesh
    ways = [_cheapest(name, acceptable, given, number) for number in range(mesh.ndim)]
    parts = iter([_part(x, [way[1][i] for way in ways]) for i, x in enumerate(given)])
    called = pytree.tree_unflatten([next(parts) if isinstance(x, DTensor) else x for x in leaves], structure)
    with _C.DisableTorchFunctionSubclass():
        results = func(*called[0], **called[1])
    found, its = pytree.tree_flatten(results)
    numbers = iter(range(len(found)))
    return pytree.tree_unflatten(
        [_whole(x, given, [way[0][next(numbers)] for way in ways]) if isinstance(x, facula.Tensor) else x for x in found], its
    )


custom._run_over_processes = run


def _asked(rule, args, kwargs):
    """Return the rule's answer; arguments that only PyTorch's op has are given as False."""
    parameters = [p for p in inspect.signature(rule).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    missing = [p for p in parameters[len(args) :] if p.default is p.empty and p.name not in kwargs]
    return rule(*args, **kwargs, **{p.name: False for p in missing})


def _cheapest(name, acceptable, given, number):
    """Return (placements of results, placements of the DTensors) on one dimension of the mesh."""
    best, least = None, math.inf
    for results, arguments in acceptable:
        wanted = [p for p in arguments if p is not None][: len(given)]
        if len(wanted) != len(given):
            raise ValueError(f"{name}: its rule must have a placement for each of {len(given)} DTensors, got {arguments}")
        size = given[0].device_mesh.size(number)
        cost = sum(_cost(x.placements[number], p, size, _bytes(x)) for x, p in zip(given, wanted))
        if cost < least:
            best, least = (list(results), wanted), cost
    if best is None:
        raise RuntimeError(f"{name}: its rule has no layout that the arguments can be brought to, got {acceptable}")
    varies = any(not isinstance(p, Replicate) for p in best[1])
    return best[0], [(p, varies) for p in best[1]]


def _part(x, wanted):
    local = redistribute(x._local_tensor, x._spec, [p for p, _ in wanted])
    for number, (p, varies) in enumerate(wanted):
        if varies and isinstance(p, Replicate) and facula.is_grad_enabled() and local.requires_grad:
            local = summed_gradient(local, x.device_mesh.get_group(number))
    return local


def _whole(local, given, placements):
    """Return a result: as long as an argument whose part is as long, along dimensions that are cut."""
    mesh, shape = given[0].device_mesh, list(local.shape)
    for number, p in enumerate(placements):
        if isinstance(p, Shard):
            alike = [x for x in given if _is_cut_alike(x, number, local.shape[p.dim])]
            length = next((x.shape[x.placements[number].dim] for x in alike), shape[p.dim] * mesh.size(number))
            shape[p.dim] = length
    return DTensor._wrap(local, Spec(mesh, tuple(placements), facula.Size(shape)))


def _is_cut_alike(x, number, length) -> bool:
    p = x.placements[number]
    return isinstance(p, Shard) and x._local_tensor.shape[p.dim] == length
