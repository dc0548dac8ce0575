"""Implement stage 1 of ZeRO: every process holds the optimizer state of its share of the parameters only.

A step updates the share and sends it to the others. Shares are formed by size, largest parameter first, to the process
that has least; all processes compute the same shares.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.distributed.algorithms.join import Joinable, JoinHook
from facula.optim import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Shard the state of an optimizer over processes: each process steps its share of the parameters and sends it to
    the others.

    Args:
        params: all parameters, the same in every process. ValueError without any.
        optimizer_class: the optimizer of each share.
        process_group: the processes. Default: all.
        parameters_as_bucket_view: accepted; parameters travel through a buffer of each share.
        overlap_with_ddp: whether steps happen inside the backward pass of DistributedDataParallel, by
            `algorithms.ddp_comm_hooks.ddp_zero_hook`, so that `step` does nothing.
        defaults: options of the optimizer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.consolidate_state_dict(to=0)
    >>> list(optimizer.state_dict()["state"])  # in process 0
    [0, 1]
    >>> dist.destroy_process_group()
    """

    world_size: int
    parameters_as_bucket_view: bool
    overlap_with_ddp: bool

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        params = list(params)
        if not params:
            raise ValueError("ZeroRedundancyOptimizer: expected parameters, got none")
        Joinable.__init__(self)
        self.process_group: ProcessGroup | None = process_group if process_group is not None else dist.group.WORLD
        self.world_size = dist.get_world_size(self.process_group)
        self.rank: int = dist.get_rank(self.process_group)
        self.parameters_as_bucket_view, self.overlap_with_ddp = parameters_as_bucket_view, overlap_with_ddp
        self._has_hook = False
        self._optimizer_class, self._optimizer_options = optimizer_class, defaults
        self._all_states: list[dict[Any, Any]] = []
        self.optim: Optimizer | None = None
        self._ready = False
        Optimizer.__init__(self, params, defaults)
        self._ready = True
        self._make_local()

    # ---- shares

    def _make_local(self) -> None:
        """Make the shares, and the optimizer of this process's own."""
        self._share_of = self._partition()
        self.optim = self._optimizer_class(self._local_groups(self.rank), **self._optimizer_options)
        for group, local in zip(self.param_groups, self.optim.param_groups):
            for key, value in local.items():
                if key != "params":
                    group.setdefault(key, value)

    def _partition(self) -> dict[int, int]:
        """Return {id of each parameter: rank of its process}."""
        sizes, share = [0] * self.world_size, {}
        for group in self.param_groups:
            for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = sizes.index(min(sizes))
                share[id(p)] = rank
                sizes[rank] += p.numel()
        return share

    def _of(self, rank: int, group) -> list:
        return [p for p in group["params"] if self._share_of[id(p)] == rank]

    def _local_groups(self, rank: int) -> list[dict]:
        return [{**{k: v for k, v in g.items() if k != "params"}, "params": self._of(rank, g)} for g in self.param_groups]

    def _partition_parameters(self, params_per_rank=None):
        """Return the groups of each rank, as PyTorch lists them."""
        if params_per_rank is not None:
            raise NotImplementedError("ZeroRedundancyOptimizer: shares chosen by the caller are not supported, got some")
        return [self._local_groups(rank) for rank in range(self.world_size)]

    def add_param_group(self, param_group: dict[Any, Any]) -> None:
        """Add a group; shares are formed anew for it.

        Args:
            param_group: a dict with `params` and options.
        """
        super().add_param_group(param_group)
        if not self._ready:
            return
        group = self.param_groups[-1]
        sizes = [0] * self.world_size
        for other in self.param_groups[:-1]:
            for p in other["params"]:
                sizes[self._share_of[id(p)]] += p.numel()
        for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            rank = sizes.index(min(sizes))
            self._share_of[id(p)] = rank
            sizes[rank] += p.numel()
        self.optim.add_param_group(self._local_groups(self.rank)[-1])

    # ---- steps

    def step(self, closure: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's share, then all get all shares.

        Args:
            closure: computes the loss again, and returns it.
            kwargs: further arguments of the step of the optimizer inside.

        Returns: the loss of the closure, or None.

        Errors: RuntimeError with overlap_with_ddp where the model has no hook of `hook_with_zero_step`.
        """
        from facula.distributed.algorithms.join import Join

        if self.overlap_with_ddp and self.world_size > 1:
            if not self._has_hook:
                raise RuntimeError(
                    "ZeroRedundancyOptimizer.step: with overlap_with_ddp the model needs a hook, by register_comm_hook(None, "
                    "hook_with_zero_step(...)), got none"
                )
            return closure() if closure is not None else None
        Join.notify_join_context(self)
        self._push_options()
        result = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        for message in self._send(range(self.world_size), lambda p: True):
            self._receive(message)
        self._pull_options()
        return result

    def _step_some(self, params) -> list:
        """Update parameters of this process's share, and send what others have updated; return messages for `_receive`."""
        chosen = {id(p) for p in params}
        hidden = [(p, p.grad) for group in self.optim.param_groups for p in group["params"] if id(p) not in chosen]
        for p, _ in hidden:
            p.grad = None
        try:
            if any(self._share_of[n] == self.rank for n in chosen):
                self.optim.step()
        finally:
            for p, grad in hidden:
                p.grad = grad
        return self._send(sorted({self._share_of[n] for n in chosen}), lambda p: id(p) in chosen)

    def _push_options(self) -> None:
        """Hand what a scheduler has set here to the optimizer of the share."""
        for group, local in zip(self.param_groups, self.optim.param_groups):
            local.update((key, value) for key, value in group.items() if key != "params")

    def _pull_options(self) -> None:
        for group, local in zip(self.param_groups, self.optim.param_groups):
            group.update((key, value) for key, value in local.items() if key != "params")

    def _send(self, ranks, is_sent) -> list:
        """Send what each process has of the given parameters, packed by dtype and device."""
        messages = []
        with facula.no_grad():
            for rank in ranks:
                kinds: dict[Any, Any] = {}
                for group in self.param_groups:
                    for p in self._of(rank, group):
                        if is_sent(p):
                            kinds.setdefault((p.dtype, p.device), []).append(p)
                root = dist.get_global_rank(self.process_group, rank)
                for members in kinds.values():
                    flat = facula.cat([p.detach().reshape(-1) for p in members])
                    work = dist.broadcast(flat, root, group=self.process_group, async_op=True)
                    messages.append((work, flat, members, rank))
        return messages

    def _receive(self, message) -> None:
        work, flat, members, rank = message
        work.wait()
        offset = 0
        with facula.no_grad():
            for p in members if rank != self.rank else ():
                p.detach().copy_(flat[offset : offset + p.numel()].view(p.shape))
                offset += p.numel()

    # ---- state

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all shares in one process, for its `state_dict`.

        Args:
            to: its rank in the group.
        """
        self._push_options()
        states = [None] * self.world_size if self.rank == to else None
        root = dist.get_global_rank(self.process_group, to)
        dist.gather_object(self.optim.state_dict(), states, dst=root, group=self.process_group)
        self._all_states = states or []

    def state_dict(self) -> dict[Any, Any]:
        """Return the state of all, in the numbers of this optimizer's parameters. RuntimeError before
        `consolidate_state_dict`."""
        if len(self._all_states) != self.world_size:
            raise RuntimeError(
                "ZeroRedundancyOptimizer.state_dict: call consolidate_state_dict(to=rank) in every process first, got the "
                f"state of {len(self._all_states)} of {self.world_size} processes"
            )
        number = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        state = super().state_dict()
        state["state"] = {}
        for rank, theirs in enumerate(self._all_states):
            for group, local in zip(self.param_groups, theirs["param_groups"]):
                for p, theirs_number in zip(self._of(rank, group), local["params"]):
                    if theirs_number in theirs["state"]:
                        state["state"][number[id(p)]] = theirs["state"][theirs_number]
        return state

    def load_state_dict(self, state_dict: dict[Any, Any]) -> None:
        """Load what `state_dict` gave in a job of any number of processes: each keeps its share.

        Args:
            state_dict: the dict.

        Errors: ValueError for a dict of another number of parameters.
        """
        params = [p for group in self.param_groups for p in group["params"]]
        local = {"state": {}, "param_groups": []}
        count = 0
        numbers: dict[int, int] = {}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            mine = self._of(self.rank, group)
            options = {key: value for key, value in saved.items() if key != "params"}
            local["param_groups"].append({**options, "params": list(range(count, count + len(mine)))})
            numbers.update((id(p), count + i) for i, p in enumerate(mine))
            count += len(mine)
            group.update(copy.deepcopy(options))
        saved_numbers = [n for saved in state_dict["param_groups"] for n in saved["params"]]
        if len(saved_numbers) != len(params):
            raise ValueError(
                f"ZeroRedundancyOptimizer.load_state_dict: expected {len(params)} parameters, got {len(saved_numbers)}"
            )
        for p, saved_number in zip(params, saved_numbers):
            if id(p) in numbers and saved_number in state_dict["state"]:
                local["state"][numbers[id(p)]] = state_dict["state"][saved_number]
        self.optim.load_state_dict(local)
        self._all_states = []

    # ---- uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook of a process that has no more inputs: it goes on stepping, for the others need its share."""
        optimizer = self

        class Step(JoinHook):
            def main_hook(self):
                optimizer.step()

        return Step()

    @property
    def join_device(self) -> Any:
        """Where the collectives of a `Join` put their tensors."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> ProcessGroup | None:
        """The processes."""
        return self.process_group
