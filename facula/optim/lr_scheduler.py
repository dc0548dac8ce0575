"""Define schedules of learning rates: objects whose `step` sets the rate of every parameter group.

Most schedules compute the next rate from the present one, so that schedules chain; `_get_closed_form_lr` gives the
rate at an epoch directly. ``last_epoch`` counts the calls of `step`, the first of which the constructor makes.

Long because PyTorch has all schedules in one file of this name, and each stands there with its docstring and example.
"""

from __future__ import annotations

import functools
import math
import types
import warnings
import weakref
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from facula import _C, Tensor

from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
    "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "PolynomialLR", "LRScheduler",
]  # fmt: skip


EPOCH_DEPRECATION_WARNING = (
    "lr_scheduler.step: the argument epoch is deprecated and mostly not needed, as the scheduler counts its calls"
)


# ---- The base class of schedules of learning rates, and what schedules share


def _own(value):
    """Return a tensor as a copy, since groups and callers change theirs in place; anything else as it is."""
    return value.clone() if isinstance(value, Tensor) else value


def _values(optimizer: Optimizer, key: str) -> list:
    """Return an option of every group, in copies of its own."""
    return [_own(group[key]) for group in optimizer.param_groups]


def _set_value(group: dict[str, Any], key: str, value) -> None:
    if isinstance(group[key], Tensor):
        # In place, because a captured CUDA graph or a compiled step reads the tensor it has seen.
        group[key].fill_(float(value))
    else:
        group[key] = value


def _per_group(name: str, optimizer: Optimizer, value) -> list:
    """Return ``value`` for every group, or the values of a list with one for each, in copies of its own."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [_own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(f"{name}: needs one value for each of {count} parameter groups, got {len(value)}")
    return [_own(v) for v in value]


def _by_group(name: str, optimizer: Optimizer, *lists) -> Any:
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


def _check_optimizer(name: str, optimizer) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: needs an Optimizer, got {type(optimizer).__name__}")


class LRScheduler:
    """Set the learning rate of every parameter group when `step` is called, once after every epoch. It is the base
    class of schedules.

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
        _check_optimizer(name, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", _own(lr))
            elif "initial_lr" not in group:
                raise KeyError(f"{name}: resuming needs 'initial_lr' in every parameter group, got none in group {i}")
        self.base_lrs: Any = _values(optimizer, "initial_lr")
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
        """Return all attributes but the optimizer, for a checkpoint beside ``optimizer.state_dict()``.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave. The optimizer's rates are not set: its own state dict has them.

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
        """Return the rates of all groups that the last step set, a list.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> torch.optim.lr_scheduler.ConstantLR(optimizer, 0.25).get_last_lr()
        [0.25]
        """
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``, a list. `step` calls it; for the present rates there is
        `get_last_lr`, and the schedules here warn about a direct call.

        Errors: NotImplementedError of the base class.

        >>> class Fixed(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [0.5 for _ in self.base_lrs]
        >>> Fixed(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)).get_lr()
        [0.5]
        """
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not implemented, got a call")

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch.

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
        # The first step came from the constructor, so this is the first call of the user's.
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
        for group, lr in _by_group(type(self).__name__, self.optimizer, rates):
            _set_value(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    # -- for subclasses

    def _check_called_by_step(self) -> None:
        if not self._get_lr_called_within_step:
            text = "get_lr: get_last_lr() gives the present rates, got a direct call"
            warnings.warn(text, UserWarning, stacklevel=3)

    def _scaled(self, factor: float) -> list:
        """Return the present rates times ``factor``."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list:
        return _values(self.optimizer, "lr")


def _watch_steps(optimizer: Optimizer) -> None:
    """Make ``optimizer.step`` note that it was called, for the warning about the wrong order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # A weak reference, since the wrapper becomes an attribute of the optimizer: a strong one would make a cycle.
    reference, step = weakref.ref(optimizer), optimizer.step.__func__

    @functools.wraps(step)
    def noted(*args, **kwargs):
        self = reference()
        self._opt_called = True
        return step(self, *args, **kwargs)

    noted._wrapped_by_lr_sched = True
    optimizer.step = noted


# ---- Schedules that multiply the learning rate by a factor


class _LambdaScheduler(LRScheduler):
    """Hold one function per parameter group. Only functions that are objects with attributes are part of the state dict."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
                 last_epoch: int = -1) -> None:  # fmt: skip
        name = type(self).__name__
        self.lr_lambdas: Any = _per_group(name, optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"{name}: lr_lambda must be callable, got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, int | list[float | None]]:
        """Return the state as for `LRScheduler`; of callable objects the attributes are saved, of functions nothing."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; functions stay as they are."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        name = f"{type(self).__name__}.load_state_dict"
        for _, function, saved in _by_group(name, self.optimizer, self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_LambdaScheduler):
    """Set the initial rate times a function of the epoch.

    Formula: lr = initial_lr * lr_lambda(epoch)

    Args:
        optimizer: the optimizer whose rates are set.
        lr_lambda: a function from the epoch to the factor, or a list with one for each group. The state dict has the attributes
            of a callable object, and nothing of a function.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: ValueError for a list of another length; TypeError for something that cannot be called, and for something other than
    an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.4]
    [0.2]
    [0.13333333333333333]
    """

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        lists = _by_group("LambdaLR", self.optimizer, self.lr_lambdas, self.base_lrs)
        return [base * f(self.last_epoch) for _, f, base in lists]


class MultiplicativeLR(_LambdaScheduler):
    """Multiply the rate by a function of the epoch.

    Args:
        optimizer: the optimizer whose rates are set.
        lr_lambda: a function from the epoch to the factor, or a list with one for each group. The state dict has the attributes
            of a callable object, and nothing of a function.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: ValueError for a list of another length; TypeError for something that cannot be called, and for something other than
    an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.4]
    [0.2]
    [0.1]
    """

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        if self._is_initial:
            return self._unchanged()
        functions = _by_group("MultiplicativeLR", self.optimizer, self.lr_lambdas)
        return [group["lr"] * f(self.last_epoch) for group, f in functions]


class StepLR(LRScheduler):
    """Multiply the rate by ``gamma`` every ``step_size`` epochs.

    Formula: lr = initial_lr * gamma ** (epoch // step_size)

    Args:
        optimizer: the optimizer whose rates are set.
        step_size: the number of epochs for which a rate holds.
        gamma: the factor.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: TypeError for something other than an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [1.0]
    [0.5]
    [0.5]
    """

    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if due else self._unchanged()

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by ``gamma`` at each of some epochs.

    Args:
        optimizer: the optimizer whose rates are set.
        milestones: the epochs; one that is listed twice counts twice.
        gamma: the factor.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: TypeError for something other than an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [0.5]
    [0.5]
    [0.25]
    """

    milestones: Counter[int]
    gamma: float

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        if self.last_epoch not in self.milestones:
            return self._unchanged()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the rate by ``factor`` during the first epochs, and then restore it.

    Formula: lr = initial_lr * factor if epoch < total_iters else initial_lr

    Args:
        optimizer: the optimizer whose rates are set.
        factor: the factor, in [0, 1]. The step that would undo a factor of 0 raises ZeroDivisionError.
        total_iters: the number of epochs for which the factor holds.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: ValueError for a factor outside [0, 1]; TypeError for something other than an optimizer; KeyError for resuming a
    group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.5]
    [1.0]
    """

    factor: float
    total_iters: int

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._unchanged()

    def _get_closed_form_lr(self):
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiply the rate by a factor that moves along a line, such as for a warm-up.

    Formula: lr = initial_lr * (start_factor + (end_factor - start_factor) * min(epoch, total_iters) / total_iters)

    Args:
        optimizer: the optimizer whose rates are set.
        start_factor: the first factor, in (0, 1].
        end_factor: the factor after ``total_iters`` epochs and later, in [0, 1].
        total_iters: the number of epochs that the line takes.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: ValueError for a factor out of range; TypeError for something other than an optimizer; KeyError for resuming a group
    without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.75]
    [1.0]
    [1.0]
    """

    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1) -> None:  # fmt: skip
        if not 0 < start_factor <= 1.0:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor}")
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1, got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by ``gamma`` every epoch.

    Formula: lr = initial_lr * gamma ** epoch

    Args:
        optimizer: the optimizer whose rates are set.
        gamma: the factor.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: TypeError for something other than an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [0.5]
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Tensor | float]:
        """Return the rates of all groups for ``last_epoch``: see the class.

        Returns: a list with one rate for each group, numbers or 0-d tensors.
        """
        self._check_called_by_step()
        return self._unchanged() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Move the rate along a polynomial from the initial one to 0.

    Formula: lr = initial_lr * (1 - min(epoch, total_iters) / total_iters) ** power

    Args:
        optimizer: the optimizer whose rates are set.
        total_iters: the number of epochs until the rate is 0.
        power: the power of the polynomial.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: TypeError for something other than an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> for _ in range(5):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [0.5625]
    [0.25]
    [0.0625]
    [0.0]
    """

    total_iters: int
    power: float

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._scaled((left / before) ** self.power)

    def _get_closed_form_lr(self):
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


# ---- Schedules along a cosine


class CosineAnnealingLR(LRScheduler):
    """Move the rate along half a cosine from the initial one to ``eta_min`` in ``T_max`` epochs, and back again.

    Formula: lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2

    Args:
        optimizer: the optimizer whose rates are set.
        T_max: the number of epochs that a fall takes.
        eta_min: the lowest rate.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: TypeError for something other than an optimizer; KeyError for resuming a group without ``initial_lr``.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.8536
    0.5
    0.1464
    0.0
    """

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        epoch, period, least = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._unchanged()
        # A schedule that is resumed has no previous rate to continue from.
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (epoch - 1 - period) % (2 * period) == 0:  # at the lowest point the ratio below is 0 / 0
            rise = (1 - math.cos(math.pi / period)) / 2
            bases = _by_group("CosineAnnealingLR", self.optimizer, self.base_lrs)
            return [g["lr"] + (base - least) * rise for g, base in bases]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (group["lr"] - least) + least for group in groups]

    def _get_closed_form_lr(self):
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Move the rate along half a cosine from the initial one to ``eta_min``, again and again (Loshchilov, Hutter 2017).

    Formula: lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2  # T_cur of the T_i epochs of a fall

    Args:
        optimizer: the optimizer whose rates are set.
        T_0: the number of epochs that the first fall takes.
        T_mult: the factor by which each further fall is longer.
        eta_min: the lowest rate.
        last_epoch: the epoch after which to resume; -1 starts anew.

    `step` also accepts an epoch, which may be a fraction, for steps after each batch.

    Errors: ValueError for a T_0 or T_mult that is not an integer of at least 1, or an eta_min that is no number.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(4):
    ...     print(round(scheduler.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.5
    1.0
    0.5
    """

    T_mult: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        name = "CosineAnnealingWarmRestarts"
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"{name}: T_0 must be a positive integer, got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"{name}: T_mult must be an integer of at least 1, got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"{name}: eta_min must be a number, got {type(eta_min).__name__}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may be fractional.

        Args:
            epoch: the epoch, an int or a float; None for the one after the last.

        Errors: ValueError for a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._place(epoch)
        self.last_epoch: int = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in _by_group("CosineAnnealingWarmRestarts", self.optimizer, rates):
            _set_value(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _place(self, epoch: float) -> None:
        """Find the fall that ``epoch`` belongs to, and how far into it that is."""
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
        self.T_i = self.T_0
        if epoch < self.T_0:
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # After k falls T_0 (T_mult^k - 1) / (T_mult - 1) epochs have passed, the sum of their lengths; here k is
            # solved for.
            falls = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur: int = epoch - self.T_0 * (self.T_mult**falls - 1) / (self.T_mult - 1)
            self.T_i: int = self.T_0 * self.T_mult**falls


# ---- A schedule that follows a metric


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by ``factor`` when a metric has not improved for more than ``patience`` epochs. `step` takes the
    metric.

    Args:
        optimizer: the optimizer whose rates are set.
        mode: 'min' or 'max', the direction of an improvement.
        factor: the factor of the rate, below 1.
        patience: the number of epochs without improvement that are accepted.
        threshold: the smallest improvement that counts.
        threshold_mode: 'rel' for a share of the best value, 'abs' for a difference.
        cooldown: the number of epochs after a reduction during which nothing is counted.
        min_lr: the smallest rate, one or a list with one for each group.
        eps: the smallest change of a rate that is made.

    Errors: ValueError for another mode or threshold_mode, a factor of 1 or more, or a list of another length; TypeError for
    something other than an optimizer.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0, 1.0):
    ...     scheduler.step(loss)
    ...     print(scheduler.get_last_lr(), scheduler.num_bad_epochs)
    [1.0] 0
    [1.0] 0
    [1.0] 1
    [0.5] 0
    [0.5] 0
    """

    factor: float
    optimizer: Optimizer
    patience: int
    cooldown: int
    eps: float
    threshold: float

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: float | Sequence[float] = 0,
                 eps: float = 1e-8) -> None:  # fmt: skip
        name = "ReduceLROnPlateau"
        if factor >= 1.0:
            raise ValueError(f"{name}: factor must be below 1, got {factor}")
        _check_optimizer(name, optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"{name}: mode must be {_C._one_of(mode, ('min', 'max'))}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{name}: threshold_mode must be {_C._one_of(threshold_mode, ('rel', 'abs'))}")
        self.factor, self.optimizer = factor, optimizer
        self.min_lrs = _per_group(name, optimizer, min_lr)
        self.default_min_lr: float | Sequence[float] | None = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = _values(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        """Forget the metrics seen so far."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    def step(self, metrics: float | Tensor, epoch: int | None = None) -> None:
        """Note the metric of an epoch, and reduce the rate where it is time to.

        Args:
            metrics: what is to become better, a number or a tensor of one element.
            epoch: the epoch; None for the one after the last.
        """
        current = float(metrics)
        if epoch is not None:
            warnings.warn(
                f"lr_scheduler.step: the epoch argument is deprecated, got {epoch}", UserWarning, stacklevel=2
            )
        self.last_epoch: int = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best: float = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter: int = self.cooldown
            self.num_bad_epochs: int = 0
        self._last_lr = _values(self.optimizer, "lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: a group was added, so min_lrs needs {len(groups)} values, got "
                    f"{len(self.min_lrs)}"
                )
            self.min_lrs: list[float | int | Sequence[float]] = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Return True if a reduction was so recent that nothing counts."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        margin = self.threshold if self.threshold_mode == "abs" else None
        bound = best + sign * margin if margin is not None else best * (1.0 + sign * self.threshold)
        return value < bound if self.mode == "min" else value > bound


# ---- Cycles, of the learning rate and against it of the momentum


def _uses_betas(name: str, optimizer: Optimizer) -> bool:
    """Return whether momentum is betas[0]; raise ValueError for an optimizer without momentum."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"{name}: cycle_momentum needs an optimizer with momentum or betas, got neither")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], value: float, use_betas: bool) -> None:
    if use_betas:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """Move the rate up and down between two bounds along lines (Smith 2017); `step` comes after every batch.

    Args:
        optimizer: the optimizer whose rates are set.
        base_lr: the lower bound, one or a list with one for each group.
        max_lr: the upper bound of the first cycle, one or a list with one for each group.
        step_size_up: the number of steps that go up.
        step_size_down: the number of steps that go down. Default: step_size_up.
        mode: 'triangular', 'triangular2' (half the height in each further cycle) or 'exp_range' (the height times
            ``gamma ** steps``).
        gamma: the base of 'exp_range'.
        scale_fn: a function that returns the height, 1 at first, and replaces mode.
        scale_mode: the argument of scale_fn: 'cycle', the number of the cycle from 1, or 'iterations', that of the step.
        cycle_momentum: if True, move the momentum (or betas[0]) in the opposite direction.
        base_momentum: the lower bound of the momentum, one or a list.
        max_momentum: the upper bound of the momentum, one or a list.
        last_epoch: the step after which to resume; -1 starts anew.

    Errors: ValueError for another mode, lists of another length, or cycle_momentum for an optimizer without momentum; TypeError
    for something other than an optimizer.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> for _ in range(5):
    ...     print(scheduler.get_last_lr(), round(optimizer.param_groups[0]["momentum"], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    [0.0] 0.9
    [0.5] 0.85
    [1.0] 0.8
    [0.5] 0.85
    [0.0] 0.9
    """

    mode: str
    gamma: float

    def __init__(self, optimizer: Optimizer, base_lr: float | Sequence[float], max_lr: float | Sequence[float],
                 step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
                 scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
                 base_momentum: float | Sequence[float] = 0.8, max_momentum: float | Sequence[float] = 0.9,
                 last_epoch: int = -1) -> None:  # fmt: skip
        _check_optimizer("CyclicLR", optimizer)
        self.optimizer = optimizer
        base_lrs = _per_group("CyclicLR", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in _by_group("CyclicLR", optimizer, base_lrs):
                _set_value(group, "lr", lr)
        self.max_lrs: Any = _per_group("CyclicLR", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size: float = up + down
        self.step_ratio: float = up / self.total_size
        if scale_fn is None and mode not in _CYCLE_SCALES:
            raise ValueError(f"CyclicLR: mode must be {_C._one_of(mode, _CYCLE_SCALES)}")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode: Any = scale_mode if scale_fn is not None else _CYCLE_SCALES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_betas("CyclicLR", optimizer)
            self.base_momentums: Any = _per_group("CyclicLR", optimizer, base_momentum)
            self.max_momentums: Any = _per_group("CyclicLR", optimizer, max_momentum)
            if last_epoch == -1:
                bounds = _by_group("CyclicLR", optimizer, self.base_momentums, self.max_momentums)
                for group, least, most in bounds:
                    _set_momentum(group, most, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = least, most
        super().__init__(optimizer, last_epoch)
        # The constructor has read the groups' initial rates into `base_lrs`; here they are the lower bounds.
        self.base_lrs: Any = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of the cycle.

        Args:
            x: the number of the cycle from 1, or of the step, as ``scale_mode`` says.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, mode="triangular2")
        >>> [scheduler.scale_fn(cycle) for cycle in (1, 2, 3)]
        [1.0, 0.5, 0.25]
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _CYCLE_SCALES[self.mode][1](self.gamma, x)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``, and move the momentum too: see the class."""
        self._check_called_by_step()
        # The cycles are counted from 1.
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = _by_group("CyclicLR", self.optimizer, self.base_momentums, self.max_momentums)
            for group, least, most in bounds:
                _set_momentum(group, most - (most - least) * height, self.use_beta1)
        peaks = _by_group("CyclicLR", self.optimizer, self.base_lrs, self.max_lrs)
        return [base + (top - base) * height for _, base, top in peaks]

    def state_dict(self) -> dict[str, float | list[float] | str]:
        """Return the state as for `LRScheduler`; of a scale_fn that is an object the attributes, of a function nothing."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else custom.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; a scale_fn stays, with its attributes restored.

        Args:
            state_dict: the dict.
        """
        saved = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)


# mode -> (scale_mode, height from gamma and x)
_CYCLE_SCALES = {
    "triangular": ("cycle", lambda gamma, x: 1.0),
    "triangular2": ("cycle", lambda gamma, x: 1 / (2.0 ** (x - 1))),
    "exp_range": ("iterations", lambda gamma, x: gamma**x),
}


def _anneal_cos(start, end, share):
    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))


def _anneal_linear(start, end, share):
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """Move the rate up to ``max_lr`` and down far below where it began, once (Smith, Topin 2019); `step` comes after every
    batch.

    Args:
        optimizer: the optimizer whose rates are set.
        max_lr: the highest rate, one or a list with one for each group.
        total_steps: the number of steps; or
        epochs, steps_per_epoch: their product.
        pct_start: the share of the steps that go up.
        anneal_strategy: 'cos' along half cosines, 'linear' along lines.
        cycle_momentum: if True, move the momentum (or betas[0]) in the opposite direction.
        base_momentum: the lower bound of the momentum, one or a list.
        max_momentum: the upper bound of the momentum, one or a list.
        div_factor: the highest rate divided by the first one.
        final_div_factor: the first rate divided by the last one.
        three_phase: if True, go down to the first rate in as many steps as up, and then on to the last one.
        last_epoch: the step after which to resume; -1 starts anew.

    Errors: ValueError for neither total_steps nor both others, options out of range, cycle_momentum for an optimizer without
    momentum, and at a step behind the last one; TypeError for something other than an optimizer.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(
    ...     optimizer, max_lr=1.0, total_steps=5, pct_start=0.6, anneal_strategy="linear", div_factor=4, final_div_factor=25
    ... )
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), round(optimizer.param_groups[0]["momentum"], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    0.25 0.95
    0.625 0.9
    1.0 0.85
    0.505 0.9
    0.01 0.95
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | Sequence[float], total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.85,
                 max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1) -> None:  # fmt: skip
        _check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps: int = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be {_C._one_of(anneal_strategy, ('cos', 'linear'))}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, top in _by_group("OneCycleLR", optimizer, _per_group("OneCycleLR", optimizer, max_lr)):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_betas("OneCycleLR", optimizer)
            least = _per_group("OneCycleLR", optimizer, base_momentum)
            most = _per_group("OneCycleLR", optimizer, max_momentum)
            if last_epoch == -1:
                for group, low, high in _by_group("OneCycleLR", optimizer, least, most):
                    _set_momentum(group, high, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``, and move the momentum too: see the class.

        Errors: ValueError after the last of total_steps; KeyError for a group that was added after the scheduler was made.
        """
        self._check_called_by_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: the schedule has {self.total_steps} steps, got step {step}")
        start = 0
        for i, phase in enumerate(self._schedule_phases):
            end = phase["end_step"]
            if step <= end or i == len(self._schedule_phases) - 1:
                break
            start = end
        share = (step - start) / (end - start)
        anneal = _anneal_cos if self._anneal_func_type == "cos" else _anneal_linear
        rates = []
        for i, group in enumerate(self.optimizer.param_groups):
            if phase["start_lr"] not in group:
                raise KeyError(
                    f"OneCycleLR: expected {phase['start_lr']!r} in every parameter group, got none in group {i} (a group that "
                    "was added after the scheduler was made)"
                )
            rates.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, momentum, self.use_beta1)
        return rates


def _total_steps(total_steps, epochs, steps_per_epoch) -> int:
    counts = {"total_steps": total_steps} if total_steps is not None else {
        "epochs": epochs, "steps_per_epoch": steps_per_epoch,
    }  # fmt: skip
    if any(count is None for count in counts.values()):
        raise ValueError("OneCycleLR: needs total_steps, or epochs and steps_per_epoch, got neither")
    for name, count in counts.items():
        if not isinstance(count, int) or count <= 0:
            raise ValueError(f"OneCycleLR: {name} must be a positive integer, got {count}")
    return math.prod(counts.values())


def _one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Return the phases as the step they end at and the group's options that they go between."""

    def phase(end, start_lr, end_lr, start_momentum, end_momentum):
        return {
            "end_step": float(end), "start_lr": start_lr, "end_lr": end_lr, "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }  # fmt: skip

    top = float(pct_start * total_steps) - 1
    up = phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, phase(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    return [
        up,
        phase(2 * pct_start * total_steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        phase(total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]


# ---- Schedules of schedules


def _check_schedulers(name: str, optimizer, schedulers) -> None:
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name}: schedulers must have an optimizer, got {type(scheduler).__name__} at {i}")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(f"{name}: ReduceLROnPlateau needs a metric at each step, got one at {i}")
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name}: all schedulers must have the same optimizer, got another at {i}")


class _Composite(LRScheduler):
    """Hold schedulers within a scheduler, and their state dicts within its own."""

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer; of the schedulers their state dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Composite):
    """Run one scheduler after another, each with its own count of epochs.

    Args:
        optimizer: the optimizer of all schedulers.
        schedulers: a list of schedulers, but not `ReduceLROnPlateau`.
        milestones: the epochs at which the next scheduler takes over, one less than schedulers.
        last_epoch: the epoch after which to resume; -1 starts anew.

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
            _set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the step that every inner scheduler made when it was constructed. The constructor calls it.

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
        """Set the rates of the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composite):
    """Step all its schedulers, each of which changes the rates that the one before left.

    Args:
        schedulers: a list of schedulers of one optimizer, but not `ReduceLROnPlateau`.
        optimizer: the optimizer. Default: that of the first scheduler.

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
        self._last_lr = _values(optimizer, "lr")

    def step(self) -> None:
        """Set the rates of the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")


_LRScheduler = LRScheduler
