"""What a module can be asked and told when `fully_shard` has spread it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import distributed as dist
from facula.nn import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from facula import Event, Stream
    from facula.distributed._group import ProcessGroup


class UnshardHandle:
    """What `FSDPModule.unshard(async_op=True)` gives; a program does not make one.

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
        """Waits for the parameters; forward does so by itself."""
        if self._group is not None:
            self._group.unshard()
            self._group.by_hand, self._group = True, None


class FSDPModule(Module):
    """A module that `fully_shard` has spread: its class is derived from FSDPModule and from the class that it had.

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
        """Gathers the parameters of this module, until `reshard` or the end of its forward.

        Args:
            async_op: whether it only begins to; `wait` of the handle that is returned, or forward, waits.
        """
        if not async_op:
            UnshardHandle(self._fsdp_group).wait()
            return None
        if self._fsdp_group is not None:
            self._fsdp_group.begin_gather(asked=True)
        return UnshardHandle(self._fsdp_group)

    def reshard(self) -> None:
        """Lets go of gathered parameters: the module has its parts again."""
        if self._fsdp_group is not None:
            self._fsdp_group.let_go()

    def reset_iter_state(self) -> None:
        """Puts the outermost module and all inside back to the time before a pass that an exception ended."""
        for m in self._fsdp_modules():
            m._fsdp_calls.clear()
        self._fsdp_passes.forget()
        self._fsdp_passes.forget_orders()
        for group in self._fsdp_groups():
            group.let_go()
            group.partial.clear()

    # ---- gradients

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward passes sum gradients over processes; else they are kept until one does.

        Args:
            requires_gradient_sync: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.sync = group.sync_replicas = bool(requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are summed over replicas, on a mesh of (replicas, shards); else sums over shards are kept.

        Args:
            requires_all_reduce: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.sync_replicas = bool(requires_all_reduce)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: gradients are there at the end of every pass.

        Args:
            is_last_backward: not looked at.
        """

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what the sum of this module's gradients is divided. `set_reduce_scatter_divide_factor` is the same method.

        Args:
            factor: a number. Default: the number of processes.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.divisor = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: messages always sum, and the division is a step of its own.

        Args:
            enable: not looked at.
        """

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Accepted: processes may use different parameters of a group, and what none has used gets no gradient.

        Args:
            reduce_scatter_unused_params, recurse: not looked at.
        """

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """How many messages that sum gradients may be under way and hold their input.

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
        """Whether sums of gradients go over a process group of their own, so that they need not queue behind gathers. All
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
        """A function in the place of reduce_scatter, for the gradients of this module.

        Args:
            comm: called as `comm(output_tensor=, input_tensor=, group=, op=, async_op=)`; gives a Work with `async_op`.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.reduce_scatter = lambda output, input, group, op, async_op: comm(
                output_tensor=output, input_tensor=input, group=group, op=op, async_op=async_op
            )

    def set_all_reduce_hook(self, hook: Callable[..., Any], *, stream: Stream | None = None) -> None:
        """A function that gets the gradients of this process's parts of this module, when they are summed.

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
        """Whether parameters are let go after forward, and gathered again for the backward pass.

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
        """Whether gathered parameters are let go at the end of a backward pass; else the next forward finds them.

        For several passes between two steps of the optimizer, which changes the parts only: the last one must let go.

        Args:
            reshard_after_backward: True at first.
            recurse: whether modules inside are meant too.
        """
        for group in self._fsdp_groups(recurse):
            group.reshard_after_backward = bool(reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules: Iterable[Module]) -> None:
        """Modules whose parameters begin to be gathered while this one computes. Default: that which was next last time.

        Args:
            modules: FSDPModules; ValueError for others.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.forward_next = _groups_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: Iterable[Module]) -> None:
        """Modules whose parameters begin to be gathered while this one runs backwards. Default: that which was next last time.

        Args:
            modules: FSDPModules; ValueError for others.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.backward_next = _groups_of("set_modules_to_backward_prefetch", modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether parameters may be gathered ahead in backward passes; those that autograd asks for always are.

        Args:
            unshard_in_backward: True at first.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.gathers_in_backward = bool(unshard_in_backward)

    def set_custom_all_gather(self, comm: Any) -> None:
        """A function in the place of all_gather, for the parameters of this module.

        Args:
            comm: called as `comm(output_tensor=, input_tensor=, group=, async_op=)`; gives a Work with `async_op`.
        """
        if self._fsdp_group is not None:
            self._fsdp_group.all_gather = lambda output, input, group, async_op: comm(
                output_tensor=output, input_tensor=input, group=group, async_op=async_op
            )

    def set_post_optim_event(self, event: Event) -> None:
        """An event that the next pass waits for before it gathers.

        Args:
            event: something with `synchronize()`, such as a `torch.cuda.Event` that was recorded behind the step; None for
                none.
        """
        self._fsdp_passes.event = event

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Not supported: MPI sends from any memory.

        Args:
            enable: False; NotImplementedError for True.
        """
        if enable:
            raise NotImplementedError("set_allocate_memory_from_process_group_for_comm: MPI has no memory of its own, got True")

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """Not supported: NotImplementedError.

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
    """Accepted: on the CPU there are no streams to share.

    Args:
        modules: FSDPModules; ValueError for others.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import fully_shard, share_comm_ctx
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> share_comm_ctx([fully_shard(nn.Linear(4, 2)), fully_shard(nn.Linear(4, 2))])
    >>> dist.destroy_process_group()
    """
    _groups_of("share_comm_ctx", modules)
