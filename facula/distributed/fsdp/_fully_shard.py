"""`fully_shard`: a module whose parameters are spread over processes and gathered when it runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import facula
from facula import _C
from facula import distributed as dist
from facula.nn import Module

from ..device_mesh import init_device_mesh
from ..tensor import DTensor
from ._param_group import MixedPrecisionPolicy, ParamGroup, pack, unpack

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
    """Parts stay on the device of the mesh."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept on the CPU; not supported for meshes of GPUs."""

    pin_memory: bool = True


class UnshardHandle:
    """What `FSDPModule.unshard(async_op=True)` gives: the parameters are there already."""

    def wait(self) -> None:
        """Nothing to wait for."""


def fully_shard(
    module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=MixedPrecisionPolicy(),  # noqa: B008
    offload_policy=OffloadPolicy(), ignored_params=None, dp_mesh_dims=None,  # noqa: B008
):  # fmt: skip
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
    Returns:
        the module.
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError(f"fully_shard: dp_mesh_dims is not supported, got {dp_mesh_dims}")
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
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard: expected a mesh of one dimension or (replicas, shards), got {mesh}")
    if isinstance(offload_policy, CPUOffloadPolicy) and mesh.device_type != "cpu":
        raise NotImplementedError("fully_shard: CPUOffloadPolicy is not supported for a mesh of GPUs, got one")
    places = _places(modules, set(ignored_params or ()))
    reshard = True if reshard_after_forward is None else bool(reshard_after_forward)
    group = ParamGroup(places, mesh, mp_policy, reshard, _dimension_by(shard_placement_fn)) if places else None
    for m in modules:
        m.__class__ = _sharded_class(type(m))
        m._fsdp_group, m._fsdp_policy = group, mp_policy
        m._fsdp_reshard_given, m._fsdp_inside = reshard_after_forward is not None, None
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


def _places(modules, ignored):
    """{parameter: [(module, name)]} of what no module inside has spread."""
    places: dict = {}
    seen = set()

    def walk(m):
        if id(m) in seen or isinstance(m, FSDPModule):
            return
        seen.add(id(m))
        for name, p in m._parameters.items():
            if p is not None and p not in ignored:
                if isinstance(p, DTensor):
                    raise NotImplementedError(f"fully_shard: parameters that are DTensors are not supported, got {name}")
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
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        args, kwargs = _cast((args, kwargs), policy.param_dtype)
    module._fsdp_pushed = False
    if group is not None:
        module._fsdp_was_gathered = group.is_gathered
        group.unshard()
        if group.reshard and facula.is_grad_enabled():
            _C._push_saved_hooks(pack, unpack)
            module._fsdp_pushed = True
    return args, kwargs


def _mark_inside(module) -> None:
    """The outermost module keeps its parameters between forward and backward: they are needed again at once."""
    if module._fsdp_inside is not None:
        return
    module._fsdp_inside = False
    for m in module.modules():
        if isinstance(m, FSDPModule) and m is not module:
            m._fsdp_inside = True
    if not module._fsdp_reshard_given and module._fsdp_group is not None:
        module._fsdp_group.reshard = False


def _after_forward(module, args, output):
    if module._fsdp_pushed:
        module._fsdp_pushed = False
        _C._pop_saved_hooks()
    if module._fsdp_group is not None and not module._fsdp_was_gathered:
        module._fsdp_group.shard()
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


class FSDPModule(Module):
    """A module that `fully_shard` has spread."""

    def __new__(cls, *args, **kwargs):
        original = cls.__mro__[2]  # modules made by the class, such as copies of a block, are plain ones
        return original(*args, **kwargs)

    def __deepcopy__(self, memo):
        raise NotImplementedError(
            f"fully_shard: copy a module before it is spread, or load its state_dict, got {type(self).__name__}"
        )

    def _fsdp_modules(self, recurse=True):
        return [m for m in (self.modules() if recurse else [self]) if isinstance(m, FSDPModule)]

    def _fsdp_groups(self, recurse=True):
        return [m._fsdp_group for m in self._fsdp_modules(recurse) if m._fsdp_group is not None]

    def unshard(self, async_op: bool = False):
        """Gathers the parameters of this module until `reshard`."""
        if self._fsdp_group is not None:
            self._fsdp_group.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Lets go of gathered parameters."""
        if self._fsdp_group is not None:
            self._fsdp_group.shard()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward passes sum gradients over processes; else they are kept until one does."""
        for group in self._fsdp_groups(recurse):
            group.sync = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are summed over replicas, on a mesh of (replicas, shards)."""
        for group in self._fsdp_groups(recurse):
            group.sync_replicas = requires_all_reduce

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: every pass finishes what it began."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are gathered again for the backward pass."""
        for m in self._fsdp_modules(recurse):
            m._fsdp_reshard_given = True
            if m._fsdp_group is not None:
                m._fsdp_group.reshard = bool(reshard_after_forward)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Accepted: parameters are let go when their gradients are there."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what the sum of gradients is divided. Default: the number of processes."""
        if self._fsdp_group is not None:
            self._fsdp_group.divisor = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_modules_to_forward_prefetch(self, modules) -> None:
        """Accepted: parameters are gathered when they are needed."""

    def set_modules_to_backward_prefetch(self, modules) -> None:
        """Accepted: parameters are gathered when they are needed."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: what the backward pass does not use is not gathered."""


def register_fsdp_forward_method(module, method_name: str) -> None:
    """Lets a method beside forward run with gathered parameters. AttributeError if there is none of that name."""
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


def share_comm_ctx(modules) -> None:
    """Accepted: there is nothing to share."""
    for m in modules:
        if not isinstance(m, FSDPModule):
            raise ValueError(f"share_comm_ctx: expected modules that fully_shard has spread, got {type(m).__name__}")
