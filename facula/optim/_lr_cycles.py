"""Cycles, of the learning rate and against it of the momentum."""

from __future__ import annotations

import math
import types
from typing import Any

from ._lr_base import LRScheduler, check_optimizer, per_group, set_value
from .optimizer import Optimizer


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
    """Between ``base_lr`` and ``max_lr``, up in ``step_size_up`` and down in ``step_size_down`` steps, every batch.

    Args:
        mode: 'triangular', 'triangular2' (half the height each cycle) or 'exp_range' (``gamma ** steps``).
        scale_fn: a function for the height in the place of mode, of the cycle or the iteration (``scale_mode``).
        cycle_momentum: move the momentum between its bounds in the opposite direction.
    """

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0,
        scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):  # fmt: skip
        check_optimizer("CyclicLR", optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("CyclicLR", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("CyclicLR", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if scale_fn is None and mode not in _CYCLE_SCALES:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(_CYCLE_SCALES)}, got {mode!r}")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _CYCLE_SCALES[mode][0]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_betas("CyclicLR", optimizer)
            self.base_momentums = per_group("CyclicLR", optimizer, base_momentum)
            self.max_momentums = per_group("CyclicLR", optimizer, max_momentum)
            if last_epoch == -1:
                bounds = zip(self.base_momentums, self.max_momentums, optimizer.param_groups, strict=True)
                for least, most, group in bounds:
                    _set_momentum(group, most, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = least, most
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Height of the cycle or iteration ``x``, 1 at first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _CYCLE_SCALES[self.mode][1](self.gamma, x)

    def get_lr(self):
        """See the class; moves the momentum too."""
        self._check_called_by_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True)
            for least, most, group in bounds:
                _set_momentum(group, most - (most - least) * height, self.use_beta1)
        return [base + (top - base) * height for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        """As for `LRScheduler`; of a scale_fn that is an object the attributes, of a function nothing."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else custom.__dict__.copy()
        return state

    def load_state_dict(self, state_dict):
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
    """Up to ``max_lr`` and down far below the start, once, every batch.

    Args:
        total_steps: all steps; or ``epochs * steps_per_epoch``.
        pct_start: share of the steps that go up.
        anneal_strategy: 'cos' or 'linear'.
        cycle_momentum: move the momentum between its bounds in the opposite direction.
        div_factor: the start is ``max_lr / div_factor``. final_div_factor: the end is the start over this.
        three_phase: go down to the start as fast as up, then further down.
    """

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
        anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
        final_div_factor=1e4, three_phase=False, last_epoch=-1,
    ):  # fmt: skip
        check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for top, group in zip(per_group("OneCycleLR", optimizer, max_lr), optimizer.param_groups, strict=True):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_betas("OneCycleLR", optimizer)
            least = per_group("OneCycleLR", optimizer, base_momentum)
            most = per_group("OneCycleLR", optimizer, max_momentum)
            if last_epoch == -1:
                for low, high, group in zip(least, most, optimizer.param_groups, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
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
        for group in self.optimizer.param_groups:
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
