"""Schedules of schedules."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from ._lr_base import LRScheduler, set_value, values
from ._lr_plateau import ReduceLROnPlateau

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from facula.optim.optimizer import Optimizer


def _check_schedulers(name: str, optimizer, schedulers) -> None:
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name}: schedulers must have an optimizer, got {type(scheduler).__name__} at {i}")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(f"{name}: ReduceLROnPlateau needs a metric at each step, got one at {i}")
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name}: all schedulers must have the same optimizer, got another at {i}")


class _Composite(LRScheduler):
    """Schedulers within a scheduler, and their state dicts within its own."""

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer; of the schedulers their state dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Composite):
    """One scheduler after another, each with its own count of epochs.

    Args:
        optimizer: that of all schedulers.
        schedulers: a list of them, not `ReduceLROnPlateau`.
        milestones: the epochs at which the next one takes over; one less than schedulers.
        last_epoch: the epoch to resume after; -1 starts anew.

    Errors: ValueError for no schedulers, another number of milestones, or schedulers of other optimizers.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.1]
    [0.1]
    [1.0]
    [0.5]
    """

    last_epoch: int

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Iterable[int],
                 last_epoch: int = -1) -> None:  # fmt: skip
        if len(schedulers) < 1:
            raise ValueError("SequentialLR: needs at least one scheduler, got none")
        _check_schedulers("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: needs one milestone less than its {len(schedulers)} schedulers, got {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler set the rates when it was made: start over with the first alone.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Takes back the step that every inner scheduler made when it was constructed. The constructor calls it.

        Args:
            sched: a scheduler, or one of schedulers; default: this one.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [decay], milestones=[])
        >>> scheduler.recursive_undo(decay)
        >>> decay.last_epoch
        -1
        """
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self) -> None:
        """Sets the rates of the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composite):
    """Steps all its schedulers, each of which changes the rates that the one before left.

    Args:
        schedulers: a list of them, not `ReduceLROnPlateau`, all of one optimizer.
        optimizer: default: that of the first scheduler.

    Errors: ValueError for no schedulers, or schedulers of other optimizers.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=2)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.ChainedScheduler([warm_up, decay])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.25]
    [0.125]
    [0.25]
    [0.125]
    """

    optimizer: Optimizer | None

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler: needs at least one scheduler, got none")
        optimizer = optimizer or schedulers[0].optimizer
        _check_schedulers("ChainedScheduler", optimizer, schedulers)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = values(optimizer, "lr")

    def step(self) -> None:
        """Sets the rates of the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values(self.optimizer, "lr")
