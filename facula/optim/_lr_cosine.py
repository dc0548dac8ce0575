"""Schedules along a cosine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._lr_base import LRScheduler, by_group, set_value, values

if TYPE_CHECKING:
    from facula.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to ``eta_min`` in ``T_max`` epochs, and back again:
    ``eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Args:
        optimizer: whose rates are set.
        T_max: how many epochs a fall takes.
        eta_min: the lowest rate.
        last_epoch: the epoch to resume after; -1 starts anew.

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
        """See the class."""
        self._check_called_by_step()
        epoch, period, least = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (epoch - 1 - period) % (2 * period) == 0:  # at the lowest point the ratio below is 0 / 0
            rise = (1 - math.cos(math.pi / period)) / 2
            bases = by_group("CosineAnnealingLR", self.optimizer, self.base_lrs)
            return [g["lr"] + (base - least) * rise for g, base in bases]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (group["lr"] - least) + least for group in groups]

    def _get_closed_form_lr(self):
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to ``eta_min``, again and again.

    Args:
        optimizer: whose rates are set.
        T_0: how many epochs the first fall takes.
        T_mult: how many times as long each further one is.
        eta_min: the lowest rate.
        last_epoch: the epoch to resume after; -1 starts anew.

    `step` takes an epoch, too, which may be a fraction, for steps after each batch.

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
        """See the class."""
        self._check_called_by_step()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch, or of ``epoch``, which may be fractional."""
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
        for group, lr in by_group("CosineAnnealingWarmRestarts", self.optimizer, rates):
            set_value(group, "lr", lr)
        self._last_lr = values(self.optimizer, "lr")

    def _place(self, epoch: float) -> None:
        """Finds the fall that ``epoch`` belongs to, and how far into it that is."""
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
        self.T_i = self.T_0
        if epoch < self.T_0:
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            falls = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur: int = epoch - self.T_0 * (self.T_mult**falls - 1) / (self.T_mult - 1)
            self.T_i: int = self.T_0 * self.T_mult**falls
