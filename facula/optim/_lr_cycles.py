"""Cycles, of the learning rate and against it of the momentum."""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Any

from ._lr_base import LRScheduler, by_group, check_optimizer, per_group, set_value
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _uses_betas(name: str, optimizer: Optimizer) -> bool:
    """Whether momentum is betas[0]; raises ValueError for an optimizer without momentum."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"{name}: cycle_momentum needs an optimizer with momentum or betas, got neither")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], value: float, use_betas: bool) -> None:
    if use_betas:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The rate goes up and down between two bounds along lines; `step` comes after every batch.

    Args:
        optimizer: whose rates are set.
        base_lr: the lower bound, one or a list with one for each group.
        max_lr: the upper bound of the first cycle, one or a list with one for each group.
        step_size_up: how many steps go up.
        step_size_down: how many go down; default: as many.
        mode: 'triangular', 'triangular2' (half the height each cycle) or 'exp_range' (the height times ``gamma ** steps``).
        gamma: of 'exp_range'.
        scale_fn: a function for the height, 1 at first, in the place of mode.
        scale_mode: what scale_fn is given: 'cycle' the number of the cycle, from 1; 'iterations' that of the step.
        cycle_momentum: whether the momentum (or betas[0]) moves in the opposite direction.
        base_momentum: the lower bound of the momentum, one or a list.
        max_momentum: the upper bound of the momentum, one or a list.
        last_epoch: the step to resume after; -1 starts anew.

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
        check_optimizer("CyclicLR", optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("CyclicLR", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in by_group("CyclicLR", optimizer, base_lrs):
                set_value(group, "lr", lr)
        self.max_lrs: Any = per_group("CyclicLR", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size: float = up + down
        self.step_ratio: float = up / self.total_size
        if scale_fn is None and mode not in _CYCLE_SCALES:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(_CYCLE_SCALES)}, got {mode!r}")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode: Any = scale_mode if scale_fn is not None else _CYCLE_SCALES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_betas("CyclicLR", optimizer)
            self.base_momentums: Any = per_group("CyclicLR", optimizer, base_momentum)
            self.max_momentums: Any = per_group("CyclicLR", optimizer, max_momentum)
            if last_epoch == -1:
                bounds = by_group("CyclicLR", optimizer, self.base_momentums, self.max_momentums)
                for group, least, most in bounds:
                    _set_momentum(group, most, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = least, most
        super().__init__(optimizer, last_epoch)
        self.base_lrs: Any = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of the cycle.

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
        """See the class; moves the momentum too."""
        self._check_called_by_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = by_group("CyclicLR", self.optimizer, self.base_momentums, self.max_momentums)
            for group, least, most in bounds:
                _set_momentum(group, most - (most - least) * height, self.use_beta1)
        peaks = by_group("CyclicLR", self.optimizer, self.base_lrs, self.max_lrs)
        return [base + (top - base) * height for _, base, top in peaks]

    def state_dict(self) -> dict[str, float | list[float] | str]:
        """As for `LRScheduler`; of a scale_fn that is an object the attributes, of a function nothing."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else custom.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave; a scale_fn stays, with its attributes restored."""
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


def anneal_linear(start, end, share):
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """The rate goes up to ``max_lr`` and down far below where it began, once; `step` comes after every batch.

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate, one or a list with one for each group.
        total_steps: how many steps there are; or
        epochs, steps_per_epoch: their product.
        pct_start: the share of the steps that go up.
        anneal_strategy: 'cos' along half cosines, 'linear' along lines.
        cycle_momentum: whether the momentum (or betas[0]) moves in the opposite direction.
        base_momentum: the lower bound of the momentum, one or a list.
        max_momentum: the upper bound of the momentum, one or a list.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last rate is the first one over this.
        three_phase: whether it goes down to the first rate in as many steps as up, and then on to the last one.
        last_epoch: the step to resume after; -1 starts anew.

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
        check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps: int = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, top in by_group("OneCycleLR", optimizer, per_group("OneCycleLR", optimizer, max_lr)):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1: bool = _uses_betas("OneCycleLR", optimizer)
            least = per_group("OneCycleLR", optimizer, base_momentum)
            most = per_group("OneCycleLR", optimizer, max_momentum)
            if last_epoch == -1:
                for group, low, high in by_group("OneCycleLR", optimizer, least, most):
                    _set_momentum(group, high, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See the class; moves the momentum too."""
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
        anneal = _anneal_cos if self._anneal_func_type == "cos" else anneal_linear
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
    """Phases as the step they end at and the group's options that they go between."""

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
