"""The base class of schedules of learning rates, and what schedules share."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

from facula import Tensor

from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "lr_scheduler.step: the argument epoch is deprecated and mostly not needed, as the scheduler counts its calls"
)


def _own(value):
    """A tensor as a copy, since groups and callers change theirs in place; anything else as it is."""
    return value.clone() if isinstance(value, Tensor) else value


def values(optimizer: Optimizer, key: str) -> list:
    """An option of every group, in copies of its own."""
    return [_own(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value) -> None:
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value) -> list:
    """``value`` for every group, or the values of a list with one for each, in copies of its own."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [_own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(f"{name}: needs one value for each of {count} parameter groups, got {len(value)}")
    return [_own(v) for v in value]


def by_group(name: str, optimizer: Optimizer, *lists) -> Any:
    """Zip the parameter groups with lists that have an entry for each of them.

    A group that `Optimizer.add_param_group` added after the scheduler was made has none.
    """
    count = len(optimizer.param_groups)
    for values_ in lists:
        if len(values_) != count:
            raise ValueError(
                f"{name}: expected one value for each of {count} parameter groups, got {len(values_)} (a group was added or "
                "removed after the scheduler was made: make a new scheduler)"
            )
    return zip(optimizer.param_groups, *lists)


def check_optimizer(name: str, optimizer) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: needs an Optimizer, got {type(optimizer).__name__}")


class LRScheduler:
    """Base of schedules of learning rates: `step`, once after every epoch, sets the rate of every parameter group.

    A subclass states `get_lr`, the rates of all groups at ``self.last_epoch``.

    Args:
        optimizer: whose groups' ``lr`` is set; the first rates are set at once.
        last_epoch: the epoch to resume after, for which groups have ``initial_lr``; -1 starts anew, and there ``initial_lr`` is
            made from ``lr``.

    Errors: TypeError for something other than an optimizer; KeyError for resuming without ``initial_lr``.

    >>> class Halved(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halved(optimizer)
    >>> for epoch in range(3):
    ...     print(epoch, scheduler.get_last_lr())
    ...     optimizer.step()  # of all batches
    ...     scheduler.step()
    0 [1.0]
    1 [0.5]
    2 [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        check_optimizer(name, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", _own(lr))
            elif "initial_lr" not in group:
                raise KeyError(f"{name}: resuming needs 'initial_lr' in every parameter group, got none in group {i}")
        self.base_lrs: Any = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer, for a checkpoint beside ``optimizer.state_dict()``.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave. The optimizer's rates are not set: its own state dict has them.

        Args:
            state_dict: of a scheduler of this class.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> scheduler.load_state_dict({**scheduler.state_dict(), "last_epoch": 7})
        >>> scheduler.last_epoch
        7
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates of all groups that the last step set, a list.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> torch.optim.lr_scheduler.ConstantLR(optimizer, 0.25).get_last_lr()
        [0.25]
        """
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The rates of all groups for ``last_epoch``, a list. `step` calls it; for the present rates there is `get_last_lr`,
        and the
        schedules here warn about a direct call.

        Errors: NotImplementedError of the base class.

        >>> class Fixed(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [0.5 for _ in self.base_lrs]
        >>> Fixed(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)).get_lr()
        [0.5]
        """
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not implemented, got a call")

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch.

        Args:
            epoch: deprecated: sets the rates of this epoch, and warns.

        The first call warns where ``optimizer.step()`` was not called before, since then the first rate is never used.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn where the first rate was not used by a step of the optimizer."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            text = (
                "lr_scheduler.step: optimizer.step was replaced after the scheduler was made, so whether it came before "
                "lr_scheduler.step() cannot be told"
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            text = (
                "lr_scheduler.step: optimizer.step() comes before lr_scheduler.step(), else the first rate is never "
                "used; got no optimizer.step() yet"
            )
        else:
            return
        warnings.warn(text, UserWarning, stacklevel=3)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch: int | None = epoch
                rates = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in by_group(type(self).__name__, self.optimizer, rates):
            set_value(group, "lr", lr)
        self._last_lr = values(self.optimizer, "lr")

    # -- for subclasses

    def _check_called_by_step(self) -> None:
        if not self._get_lr_called_within_step:
            text = "get_lr: get_last_lr() gives the present rates, got a direct call"
            warnings.warn(text, UserWarning, stacklevel=3)

    def _scaled(self, factor: float) -> list:
        """The present rates times ``factor``."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list:
        return values(self.optimizer, "lr")


def _watch_steps(optimizer: Optimizer) -> None:
    """Makes ``optimizer.step`` note that it was called, for the warning about the wrong order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference, step = weakref.ref(optimizer), optimizer.step.__func__

    @functools.wraps(step)
    def noted(*args, **kwargs):
        self = reference()
        self._opt_called = True
        return step(self, *args, **kwargs)

    noted._wrapped_by_lr_sched = True
    optimizer.step = noted
