"""Train with uneven inputs: a process that has no more inputs joins, and takes part in the collectives of the others
until all have joined.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import facula

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """Define what a process that has joined does for the others. A subclass defines one of the methods or both.

    >>> from torch.distributed.algorithms import JoinHook
    >>> class Shown(JoinHook):
    ...     def post_hook(self, is_last_joiner):
    ...         print("all have joined, last:", is_last_joiner)
    >>> Shown().main_hook()
    >>> Shown().post_hook(True)
    all have joined, last: True
    """

    def main_hook(self) -> None:
        """Answer the collectives of one iteration; called again and again while others go on."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is left to do, once all have joined.

        Args:
            is_last_joiner: whether this process was among the last.
        """


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(abc.ABC):
    """Define a class whose iterations have collectives. It calls `Join.notify_join_context(self)` before them.

    It defines `join_hook`, `join_device` and `join_process_group`, and calls `Joinable.__init__`. DistributedDataParallel and
    ZeroRedundancyOptimizer are such classes.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms import Join, Joinable, JoinHook
    >>> class Counter(Joinable):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.count = torch.zeros(1)
    ...     def step(self):
    ...         Join.notify_join_context(self)
    ...         dist.all_reduce(self.count.add_(1))
    ...     def join_hook(self, **kwargs):
    ...         return JoinHook()  # its main_hook would answer the all_reduce of the others
    ...     join_device = property(lambda self: torch.device("cpu"))
    ...     join_process_group = property(lambda self: dist.group.WORLD)
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> counter = Counter()
    >>> with Join([counter]):
    ...     counter.step()
    >>> counter.count
    tensor([1.])
    >>> dist.destroy_process_group()
    """

    @abc.abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook of this object, a JoinHook.

        Args:
            kwargs: those of the `Join`.
        """

    @property
    @abc.abstractmethod
    def join_device(self) -> facula.device:
        """Where the collectives of a `Join` put their tensors."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


class Join:
    """Let processes have different numbers of inputs in a block: a process that has no more takes part in the
    collectives of the others until all of them have reached the end.

    Args:
        joinables: what takes part, in the order of its collectives; all of one group and device (else ValueError).
        enable: False turns the context off.
        throw_on_early_termination: all processes raise RuntimeError as soon as one has no more inputs.
        kwargs: passed to every `join_hook`.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms import Join
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> with Join([model]):
    ...     for batch in [torch.ones(3, 4)] * (5 + dist.get_rank()):
    ...         model(batch).sum().backward()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("Join: expected at least one joinable, got none")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        groups = {id(joinable.join_process_group): joinable.join_process_group for joinable in joinables}
        devices = {joinable.join_device for joinable in joinables}
        if len(groups) != 1 or len(devices) != 1:
            raise ValueError(f"Join: joinables must share a process group and a device, got {len(groups)} and {len(devices)}")
        (self._group,), (self._device,) = groups.values(), devices
        self._rank = facula.distributed.get_rank(self._group)
        for joinable in joinables:
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, joinable is joinables[0])

    def __enter__(self) -> None:
        """Do nothing: the joinables have been told."""

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if not self._enable or kind is not None:
            return
        last, rounds, warned = True, 0, False
        while (others := self._count_active()) > 0:
            if self._throw:
                self._tell_all_to_stop(1)
                raise RuntimeError(f"Join: rank {self._rank} has no more inputs, got {others} processes that have some")
            last, rounds = False, rounds + 1
            if rounds >= 1000 and not warned:
                warned = True
                warnings.warn(
                    f"Join: rank {self._rank} has waited for {rounds} iterations of the others: inputs differ much in number"
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _count_active(self) -> int:
        count = facula.zeros(1, device=self._device)
        facula.distributed.all_reduce(count, group=self._group)
        return int(count.item())

    def _tell_all_to_stop(self, stop: int) -> None:
        told = facula.full((1,), float(stop), device=self._device)
        facula.distributed.all_reduce(told, group=self._group)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Say that this process has one more iteration; the first joinable of a context calls it before its collectives.

        Args:
            joinable: who calls. RuntimeError where it has not called `Joinable.__init__`, or another process has no more inputs
                and `throw_on_early_termination` is set.
        Returns:
            the handle of an all_reduce that runs; None where no context has been entered, and for all joinables but the first.

        >>> import torch.distributed as dist
        >>> import torch.distributed.optim
        >>> from torch.distributed.algorithms import Join
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> zero = dist.optim.ZeroRedundancyOptimizer(nn.Linear(4, 2).parameters(), torch.optim.SGD, lr=0.1)
        >>> Join.notify_join_context(zero) is None
        True
        >>> dist.destroy_process_group()
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise RuntimeError(f"Join.notify_join_context: {type(joinable).__name__} must call Joinable.__init__, got none")
        if not config.is_first_joinable or not config.enable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        joinable._join_active = facula.ones(1, device=device)  # becomes the number of processes that have inputs
        work = facula.distributed.all_reduce(joinable._join_active, group=group, async_op=True)
        if config.throw_on_early_termination:
            stop = facula.zeros(1, device=device)
            facula.distributed.all_reduce(stop, group=group)
            if stop.item() > 0:
                raise RuntimeError("Join: another process has no more inputs, got throw_on_early_termination=True")
        return work
