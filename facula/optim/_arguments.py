"""Check the options of optimizers, and derive from them which implementation a step uses."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import facula
from facula import Tensor
from facula.nn.parameter import Parameter


def check_non_negative(name: str, **options: Any) -> None:
    """Raise ValueError naming the optimizer for the first option below 0 (or NaN)."""
    for option, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"{name}: {option} must be at least 0, got {value}")


def check_rates(name: str, betas: tuple[float, float]) -> None:
    """Raise ValueError for decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"{name}: betas[{i}] must be in [0, 1), got {beta}")


def check_lr(name: str, lr: Tensor | float, foreach: bool | None = None, capturable: bool = True) -> None:
    """Raise ValueError for a negative learning rate, or a tensor that is not one number."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"{name}: a learning rate in a tensor is one element, got {lr.numel()}")
        if foreach and not capturable:
            raise ValueError(f"{name}: lr as a tensor does not go with foreach=True and capturable=False, got {lr}")
    if not 0.0 <= lr:
        raise ValueError(f"{name}: lr must be at least 0, got {lr}")


def check_flags(name: str, options: Mapping[str, Any]) -> None:
    for other in ("differentiable", "foreach"):
        if options.get("fused") and options.get(other):
            raise RuntimeError(f"{name}: fused and {other} exclude each other, got both")


def check_step(name: str, group: Mapping[str, Any], params: Any) -> None:
    """Raise AssertionError for options that a step of these parameters cannot have."""
    if group.get("capturable"):
        for param in params:
            if not param.is_cuda:
                place = str(param.device).upper()
                raise AssertionError(f"{name}: capturable=True is for parameters on an accelerator, got a step on the {place}")
    if group.get("foreach") and group.get("differentiable") and name != "SGD":
        raise AssertionError(f"{name}: a foreach step has no derivative, got foreach=True and differentiable=True")


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the kinds of devices on which a captured graph may have a step."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(params, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return (whether one kernel makes a step, whether ops on lists do) where the program does not say it."""
    if differentiable:
        return False, False
    fused = use_fused and all(p is None or type(p) in (Tensor, Parameter) and p.is_floating_point() for p in params)
    return fused, not fused and all(p is None or p.device.type == "cuda" for p in params)


def _use_grad_for_differentiable(step):
    """Let a step be recorded for gradients where the optimizer is `differentiable`, and only there."""

    @functools.wraps(step)
    def recorded(self, *args, **kwargs):
        with facula.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return recorded
