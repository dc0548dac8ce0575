"""A schedule that follows a metric."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from ._lr_base import LRScheduler, check_optimizer, per_group, set_value, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate times ``factor`` when a metric has not improved for more than ``patience`` epochs. `step` takes the metric.

    Args:
        optimizer: whose rates are set.
        mode: 'min' or 'max', what an improvement is.
        factor: below 1.
        patience: how many epochs without improvement are waited for.
        threshold: how large an improvement must be.
        threshold_mode: 'rel' for a share of the best value, 'abs' for a difference.
        cooldown: epochs after a reduction during which nothing is counted.
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
        check_optimizer(name, optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"{name}: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{name}: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.factor, self.optimizer = factor, optimizer
        self.min_lrs = per_group(name, optimizer, min_lr)
        self.default_min_lr: float | Sequence[float] | None = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = values(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        """Forgets the metrics seen so far."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    def step(self, metrics: float | Tensor, epoch: int | None = None) -> None:
        """Takes note of the metric of an epoch."""
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
        self._last_lr = values(self.optimizer, "lr")

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
                set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction was so recent that nothing counts."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        margin = self.threshold if self.threshold_mode == "abs" else None
        bound = best + sign * margin if margin is not None else best * (1.0 + sign * self.threshold)
        return value < bound if self.mode == "min" else value > bound
