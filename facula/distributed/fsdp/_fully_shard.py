"""`fully_shard`: a module whose parameters are spread over processes and gathered when it runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist

from ..device_mesh import init_device_mesh
from ..tensor import DTensor
from ._module import FSDPModule, UnshardHandle, share_comm_ctx
from ._param_group import MixedPrecisionPolicy, ParamGroup, pack, unpack
from ._passes import Passes
from ._spread_mesh import Whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.distributed.device_mesh import DeviceMesh
    from facula.nn import Module

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


@dataclass
class OffloadPolicy:
    """Parts stay on the device of the mesh: the default of `fully_shard`.

    >>> from torch.distributed.fsdp import OffloadPolicy
    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept on the CPU; not supported for meshes of GPUs (NotImplementedError of `fully_shard`).

    Args:
        pin_memory: accepted.

    >>> from torch.distributed.fsdp import CPUOffloadPolicy
    >>> CPUOffloadPolicy()
    CPUOffloadPolicy(pin_memory=True)
    """

    pin_memory: bool = True


def fully_shard(module: Module, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
                shard_placement_fn: Callable[..., Any] | None = None, mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008
                offload_policy: OffloadPolicy = OffloadPolicy(), ignored_params: set[Any] | None = None,  # noqa: B008
                dp_mesh_dims: Any = None) -> Any:
    """Spreads the parameters of a module over processes, but those of modules inside it that have been spread already.

    Call it for the parts of a model first (blocks of a transformer), for the model last. Every process must have the same
    values. The module's class becomes an `FSDPModule`; its parameters are DTensors, which optimizers take as they are.

    Args:
        module: a module, or several that are gathered together.
        mesh: the processes, in one dimension or as (replicas, shards). Default: all.
        reshard_after_forward: whether parameters are gathered again for the backward pass, or kept from forward on.
            Default: True but for the outermost module.
        shard_placement_fn: `shard_placement_fn(parameter)` gives the Shard along which it is cut. Default: Shard(0).
        mp_policy: in which dtypes the module computes.
        offload_policy: where parts are kept.
        ignored_params: parameters that are left alone.
        dp_mesh_dims: a DataParallelMeshDims: `mesh` is then the whole grid, on which parameters and inputs are DTensors, and
            these are the dimensions over which parameters are spread.
    Returns:
        the module.

    Errors: ValueError for a ModuleList or ModuleDict, a module that is spread already, a parameter without dimensions, and a
    mesh of three dimensions or more.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import fully_shard
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> for part in (model[0], model[2], model):
    ...     part = fully_shard(part)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> model(torch.ones(3, 4)).sum().backward()
    >>> optimizer.step()
    >>> model[0].weight.shape, model[0].weight.placements
    (torch.Size([8, 4]), (Shard(dim=0),))
    >>> dist.destroy_process_group()
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for m in modules:
        if isinstance(m, (facula.nn.ModuleList, facula.nn.ModuleDict)):
            raise ValueError(f"fully_shard: expected modules that have a forward, got {type(m).__name__}")
        if isinstance(m, FSDPModule):
            raise ValueError(f"fully_shard: the module is spread already, got {type(m).__name__}")
    if mesh is None:
        if not dist.is_initialized():
            dist.init_process_group()
        mesh = init_device_mesh(_device_of(modules), (dist.get_world_size(),))
    grid = None if dp_mesh_dims is None else Whole(mesh, dp_mesh_dims)
    mesh = mesh if grid is None else grid.of_data()
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard: expected a mesh of one dimension or (replicas, shards), got {mesh}")
    if isinstance(offload_policy, CPUOffloadPolicy) and mesh.device_type != "cpu":
        raise NotImplementedError("fully_shard: CPUOffloadPolicy is not supported for a mesh of GPUs, got one")
    dim_of = _dimension_by(shard_placement_fn)
    places = _places(modules, set(ignored_params or ()), mesh, grid)
    for p, [(_, name), *_] in places.items():
        if grid is not None:
            grid.check(name, p, dim_of(p))
    reshard = True if reshard_after_forward is None else bool(reshard_after_forward)
    group = ParamGroup(places, mesh, mp_policy, reshard, dim_of, grid) if places else None
    for m in modules:
        m.__class__ = _sharded_class(type(m))
        m._fsdp_group, m._fsdp_policy = group, mp_policy
        m._fsdp_reshard_given, m._fsdp_inside = reshard_after_forward is not None, None
        m._fsdp_passes, m._fsdp_calls = group.passes if group is not None else Passes(), []
        m.register_forward_pre_hook(_before_forward, prepend=True, with_kwargs=True)
        m.register_forward_hook(_after_forward, always_call=True)
    return module


def _device_of(modules) -> str:
    for m in modules:
        for p in m.parameters():
            return "cpu" if p.device.type == "meta" else p.device.type
    return "cpu"


def _dimension_by(shard_placement_fn):
    def dimension(p):
        placement = None if shard_placement_fn is None else shard_placement_fn(p)
        return 0 if placement is None else placement.dim % max(p.dim(), 1)

    return dimension


def _check_meshes(name, inner, outer) -> None:
    """A parameter that is cut already must be so over other dimensions of the grid."""
    root, names = outer._get_root_mesh(), (*(outer.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    known = len(names) == outer.ndim + inner.ndim and all(n in (root.mesh_dim_names or ()) for n in names)
    if not known or inner._get_root_mesh() != root or len(set(names)) != len(names):
        raise ValueError(
            "fully_shard: a parameter that is a DTensor must lie on other dimensions, with names, of the grid that the mesh is "
            f"a part of, got {name} on {inner} and {outer}"
        )


def _places(modules, ignored, mesh, grid):
    """{parameter: [(module, name)]} of what no module inside has spread."""
    places: dict[Any, Any] = {}
    seen = set()

    def walk(m):
        if id(m) in seen or isinstance(m, FSDPModule):
            return
        seen.add(id(m))
        for name, p in m._parameters.items():
            if p is not None and p not in ignored:
                if isinstance(p, DTensor) and grid is None:
                    _check_meshes(name, p.device_mesh, mesh)
                if p.dim() == 0:
                    raise ValueError(f"fully_shard: a parameter without dimensions cannot be cut, got {name}")
                places.setdefault(p, []).append((m, name))
        for child in m.children():
            walk(child)

    for m in modules:
        walk(m)
    return places


@functools.cache
def _sharded_class(cls):
    return type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})


# ---- around forward


def _before_forward(module, args, kwargs):
    _mark_inside(module)
    group, policy = module._fsdp_group, module._fsdp_policy
    if not module._fsdp_inside:
        module._fsdp_passes.begin_forward()
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        args, kwargs = _cast((args, kwargs), policy.param_dtype)
    pushed = gathers = False
    if group is not None:
        gathers, group.by_hand = group.by_hand or not group.is_gathered, False
        group.unshard()
        module._fsdp_passes.after_gather_in_forward(group)
        if group.reshard and facula.is_grad_enabled():
            _C._push_saved_hooks(pack, unpack)
            pushed = True
    module._fsdp_calls.append((pushed, gathers))
    return args, kwargs


def _mark_inside(module) -> None:
    """The outermost module keeps its parameters between forward and backward: they are needed again at once."""
    if module._fsdp_inside is not None:
        return
    module._fsdp_inside = False
    passes = module._fsdp_passes
    for m in module.modules():
        if not isinstance(m, FSDPModule) or m is module:
            continue
        if m._fsdp_group is not None:
            if m._fsdp_inside is False and not m._fsdp_reshard_given:  # it has run alone before
                m._fsdp_group.reshard = True
            if m._fsdp_group.passes is not passes:
                m._fsdp_group.join(passes)
        m._fsdp_inside, m._fsdp_passes = True, passes
    if not module._fsdp_reshard_given and module._fsdp_group is not None:
        module._fsdp_group.reshard = False


def _after_forward(module, args, output):
    if not module._fsdp_calls:
        return None
    pushed, gathers = module._fsdp_calls.pop()
    if pushed:
        _C._pop_saved_hooks()
    if gathers:
        module._fsdp_group.end_forward()
    if not module._fsdp_inside:
        module._fsdp_passes.end_forward()
    dtype = module._fsdp_policy.output_dtype
    return _cast(output, dtype) if dtype is not None else None


def _cast(value, dtype):
    if isinstance(value, facula.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(v, dtype) for v in value)
    return value


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Lets a method beside forward run with gathered parameters. A module that is not spread is left as it is.

    Args:
        module: an FSDPModule.
        method_name: the method; AttributeError if there is none of that name.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
    >>> class Coder(nn.Linear):
    ...     def decode(self, x):
    ...         return x @ self.weight
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> coder = fully_shard(Coder(4, 2))
    >>> register_fsdp_forward_method(coder, "decode")
    >>> coder.decode(torch.ones(1, 2)).shape
    torch.Size([1, 4])
    >>> dist.destroy_process_group()
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(type(module), method_name)

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        args, kwargs = _before_forward(self, args, kwargs)
        output = None
        try:
            output = method(self, *args, **kwargs)
        finally:
            changed = _after_forward(self, args, output)
        return output if changed is None else changed

    setattr(module, method_name, wrapped.__get__(module, type(module)))
