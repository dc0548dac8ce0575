"""Define `fully_shard`, which shards the parameters of a module over processes and gathers them when the module runs.

Long because it is the function and the class that it makes of modules.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.nn import Module

from ..device_mesh import init_device_mesh
from ..tensor import DTensor
from ._around_forward import _after_forward, _before_forward
from ._param_group import MixedPrecisionPolicy, ParamGroup
from ._passes import Passes
from ._spread_mesh import Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from facula import Event, Stream
    from facula.distributed._group import ProcessGroup
    from facula.distributed.device_mesh import DeviceMesh

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


# ---- What a module can be asked and told when `fully_shard` has spread it


class UnshardHandle:
    """Wait for parameters that are being gathered; `FSDPModule.unshard(async_op=True)` returns this object. Programs do
    not make it.

    Args:
        group: the parameters that are gathered together, or None.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import fully_shard
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> layer = fully_shard(nn.Linear(4, 2))
    >>> handle = layer.unshard(async_op=True)
    >>> handle.wait()
    >>> layer.weight.shape
    torch.Size([2, 4])
    >>> dist.destroy_process_group()
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait for the parameters; forward does so by itself."""
        if self._group is not None:
            self._group.unshard()
            self._group.by_hand, self._group = True, None


class FSDPModule(Module):
    """Add the methods of a module that `fully_shard` has sharded. The class of such a module derives from FSDPModule
    and from the class that it had before.

    What is not said of single modules holds for the one whose method is called; with `recurse` for those inside as well.

    Args:
        args, kwargs: the class makes modules of the former class, which are not spread.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import FSDPModule, fully_shard
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Sequential(fully_shard(nn.Linear(4, 8)), nn.ReLU(), fully_shard(nn.Linear(8, 2)))
    >>> isinstance(fully_shard(model), FSDPModule)
    True
    >>> model.set_requires_gradient_sync(False)  # the first of two batches: nothing is summed over processes
    >>> model(torch.ones(3, 4)).sum().backward()
    >>> model.set_requires_gradient_sync(True)
    >>> model(torch.ones(3, 4)).sum().backward()
    >>> model[0].weight.grad.shape
    torch.Size([8, 4])

    Gathering by hand, and when parameters are gathered:

    >>> model[0].unshard()
    >>> model[0].weight.shape
    torch.Size([8, 4])
    >>> model[0].reshard()
    >>> model.set_reshard_after_forward(False)
    >>> model.set_reshard_after_backward(True)
    >>> model.set_modules_to_forward_prefetch([model[0], model[2]])
    >>> model[2].set_modules_to_backward_prefetch([model[0]])
    >>> model[2].set_unshard_in_backward(True)
    >>> model.set_post_optim_event(None)
    >>> model.reset_iter_state()  # after an exception in a pass

    Gradients:

    >>> model[0].set_gradient_divide_factor(1.0)
    >>> model[0].set_reduce_scatter_divide_factor(1.0)
    >>> model.set_requires_all_reduce(True)
    >>> model.set_reduce_scatter_max_input_buffers(2)
    >>> model.set_separate_reduce_scatter_group(True)
    >>> model[0].set_all_reduce_hook(lambda flat: flat.clamp_(-1, 1))
    >>> model[0].set_custom_all_gather(dist.all_gather_into_tensor)
    >>> def summed(output_tensor, input_tensor, group, op, async_op):
    ...     return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
    >>> model[0].set_custom_reduce_scatter(summed)

    What programs for GPUs call, and what changes nothing here:

    >>> model.set_is_last_backward(True)
    >>> model.set_force_sum_reduction_for_comms(True)
    >>> model.set_reduce_scatter_unused_params(True)
    >>> model.set_allocate_memory_from_process_group_for_comm(False)
    >>> model(torch.ones(3, 4)).sum().backward()
    >>> dist.destroy_process_group()
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        original = cls.__mro__[2]  # modules made by the class, such as copies of a block, are plain ones
        return original(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise NotImplementedError(
            f"fully_shard: copy a module before it is spread, or load its state_dict, got {type(self).__name__}"
        )

    def _fsdp_modules(self, recurse=True):
        return [m for m in (self.modules() if recurse else [self]) if isinstance(m, FSDPModule)]

    def _fsdp_groups(self, recurse=True):
        return [m._fsdp_group for m in self._fsdp_modules(recurse) if m._fsdp_group is not None]

    def _apply(self, fn, recurse=True):
        for group in self._fsdp_groups(recurse):
            group.let_go()
        return super()._apply(fn, recurse)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module, until `reshard` or the end of its forward.

        Args:
            async_op: whether it only begins to; `wait` of the handle that is returned, or forward, waits.

        Returns: a handle with async_op, else None.
        """
        if not async_op:
            UnshardHandle(self._fsdp_group).wait()
            return None
        if self._fsdp_group is not None:
            self._fsdp_group.begin_gather(asked=True)
        return UnshardHandle(self._fsdp_group)

    def reshard(self) -> None:
        """Let go of gathered parameters: the module has its parts again."""
        if self._fsdp_group is not None:
            self._fsdp_group.let_go()

    def reset_iter_state(self) -> None:
        """Put the outermost module and all inside back to the time before a pass that an exception ended."""
        for m in self._fsdp_modules():
            m._fsdp_calls.clear()
        self._fsdp_passes.forget()
        self._fsdp_passes.forget_orders()
        for group in self._fsdp_groups():
            group.let_go()
            group.partial.clear()

    # ---- gradients

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward passes sum gradients over processes; else they are kept until one does.

        Args:
            requires_gradient_sync: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.sync = group.sync_replicas = bool(requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether gradients are summed over replicas, on a mesh of (replicas, shards); else sums over shards are kept.

        Args:
            requires_all_reduce: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.sync_replicas = bool(requires_all_reduce)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing: gradients are there at the end of every pass.

        Args:
            is_last_backward: not looked at.
        """

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set by what the sum of this module's gradients is divided. `set_reduce_scatter_divide_factor` is the same method.

        Args:
            factor: a number. Default: the number of processes.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.divisor = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Do nothing: messages always sum, and the division is a step of its own.

        Args:
            enable: not looked at.
        """

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Do nothing: processes may use different parameters of a group, and what none has used gets no gradient.

        Args:
            reduce_scatter_unused_params, recurse: not looked at.
        """

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Set how many messages that sum gradients may be under way and hold their input.

        Args:
            max_input_buffers: 1 at first; TypeError for what is no int, ValueError for less than 1.
            recurse: whether modules inside are meant too.
        """
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(
                f"set_reduce_scatter_max_input_buffers: expected an int, got {type(max_input_buffers).__name__}"
            )
        if max_input_buffers < 1:
            raise ValueError(f"set_reduce_scatter_max_input_buffers: must be positive, got {max_input_buffers}")
        for group in self._fsdp_groups(recurse):
            group.max_inputs = max_input_buffers

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Set whether sums of gradients go over a process group of their own, so that they need not queue behind gathers. All
        processes call it.

        Args:
            enable: False goes back to the group of the gathers.
            recurse: whether modules inside are meant too.
        """
        made: dict = {}
        for group in self._fsdp_groups(recurse):
            if enable and group.group not in made:
                made[group.group] = dist.new_group(
                    dist.get_process_group_ranks(group.group), use_local_synchronization=True, sort_ranks=False
                )
            group.scatter_group = made[group.group] if enable else group.group

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Set a function in the place of reduce_scatter, for the gradients of this module.

        Args:
            comm: called as `comm(output_tensor=, input_tensor=, group=, op=, async_op=)`; gives a Work with `async_op`.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.reduce_scatter = lambda output, input, group, op, async_op: comm(
                output_tensor=output, input_tensor=input, group=group, op=op, async_op=async_op
            )

    def set_all_reduce_hook(self, hook: Callable[..., Any], *, stream: Stream | None = None) -> None:
        """Set a function that gets the gradients of this process's parts of this module, when they are summed.

        Args:
            hook: `hook(flat)`, of one tensor, which it may change in place.
            stream: None; NotImplementedError for anything else.
        """
        if stream is not None:
            raise NotImplementedError(f"set_all_reduce_hook: the CPU has no streams, got {stream}")
        if self._fsdp_group is not None:
            self._fsdp_group.all_reduce_hook = hook

    # ---- when parameters are gathered

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether parameters are let go after forward, and gathered again for the backward pass.

        Args:
            reshard_after_forward: ValueError for what is no bool.
            recurse: whether modules inside are meant too.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"set_reshard_after_forward: expected a bool, got {type(reshard_after_forward).__name__}")
        for m in self._fsdp_modules(recurse):
            m._fsdp_reshard_given = True
            if m._fsdp_group is not None:
                m._fsdp_group.reshard = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether gathered parameters are let go at the end of a backward pass; else the next forward finds them.

        For several passes between two steps of the optimizer, which changes the parts only: the last one must let go.

        Args:
            reshard_after_backward: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.reshard_after_backward = bool(reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules: Iterable[Module]) -> None:
        """Set modules whose parameters begin to be gathered while this one computes. Default: that which was next last time.

        Args:
            modules: FSDPModules; ValueError for others.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.forward_next = _groups_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: Iterable[Module]) -> None:
        """Set modules whose parameters begin to be gathered while this one runs backwards. Default: that which was next last
        time.

        Args:
            modules: FSDPModules; ValueError for others.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.backward_next = _groups_of("set_modules_to_backward_prefetch", modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Set whether parameters may be gathered ahead in backward passes; those that autograd asks for always are.

        Args:
            unshard_in_backward: True at first.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.gathers_in_backward = bool(unshard_in_backward)

    def set_custom_all_gather(self, comm: Any) -> None:
        """Set a function in the place of all_gather, for the parameters of this module.

        Args:
            comm: called as `comm(output_tensor=, input_tensor=, group=, async_op=)`; gives a Work with `async_op`.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.all_gather = lambda output, input, group, async_op: comm(
                output_tensor=output, input_tensor=input, group=group, async_op=async_op
            )

    def set_post_optim_event(self, event: Event) -> None:
        """Set an event that the next pass waits for before it gathers.

        Args:
            event: something with `synchronize()`, such as a `torch.cuda.Event` that was recorded behind the step; None for
                none.
        """
        self._fsdp_passes.event = event

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accept False: MPI sends from any memory.

        Args:
            enable: False; NotImplementedError for True.
        """
        if enable:
            raise NotImplementedError("set_allocate_memory_from_process_group_for_comm: MPI has no memory of its own, got True")

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """Raise NotImplementedError: this is not supported.

        Args:
            backend: not looked at.

        >>> torch.distributed.fsdp.FSDPModule.set_symm_mem_for_comm(None)
        Traceback (most recent call last):
        NotImplementedError: set_symm_mem_for_comm: there is no symmetric memory on the CPU, got NCCL
        """
        raise NotImplementedError(f"set_symm_mem_for_comm: there is no symmetric memory on the CPU, got {backend}")


def _groups_of(caller: str, modules) -> list:
    for m in modules:
        if not isinstance(m, FSDPModule):
            raise ValueError(f"{caller}: expected modules that fully_shard has spread, got {type(m).__name__}")
    return [m._fsdp_group for m in modules if m._fsdp_group is not None]


def share_comm_ctx(modules: Iterable[Module]) -> None:
    """Do nothing: on the CPU there are no streams to share.

    Args:
        modules: FSDPModules; ValueError for others.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import fully_shard, share_comm_ctx
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> share_comm_ctx([fully_shard(nn.Linear(4, 2)), fully_shard(nn.Linear(4, 2))])
    >>> dist.destroy_process_group()
    """
    _groups_of("share_comm_ctx", modules)


@dataclass
class OffloadPolicy:
    """Leave the parts on the device of the mesh; this is the default of `fully_shard`.

    >>> from torch.distributed.fsdp import OffloadPolicy
    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Store the parts on the CPU. This is not supported for meshes of GPUs (NotImplementedError of `fully_shard`).

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
    """Spread the parameters of a module over processes, but those of modules inside it that have been spread already.

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
        # The class changes instead of wrapping the module, so that isinstance and the names of parameters stay as they
        # are.
        m.__class__ = _sharded_class(type(m))
        m._fsdp_group, m._fsdp_policy = group, mp_policy
        m._fsdp_reshard_given, m._fsdp_inside = reshard_after_forward is not None, None
        m._fsdp_passes, m._fsdp_calls = group.passes if group is not None else Passes(), []
        m.register_forward_pre_hook(_before_forward, prepend=True, with_kwargs=True)
        # Also after an exception, because the module must have its parts again.
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
    """Check that a parameter that is cut already is so over other dimensions of the grid."""
    root, names = outer._get_root_mesh(), (*(outer.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    known = len(names) == outer.ndim + inner.ndim and all(n in (root.mesh_dim_names or ()) for n in names)
    if not known or inner._get_root_mesh() != root or len(set(names)) != len(names):
        raise ValueError(
            "fully_shard: a parameter that is a DTensor must lie on other dimensions, with names, of the grid that the mesh is "
            f"a part of, got {name} on {inner} and {outer}"
        )


def _places(modules, ignored, mesh, grid):
    """Return {parameter: [(module, name)]} of what no module inside has spread."""
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


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method beside forward run with gathered parameters. A module that is not spread is left as it is.

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
