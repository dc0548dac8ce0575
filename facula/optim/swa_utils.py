"""Averages of the weights of a model over its training, and what belongs to them."""

from __future__ import annotations

import itertools
import math
from copy import deepcopy
from typing import TYPE_CHECKING

import facula
from facula.nn import Module
from facula.nn.modules.batchnorm import _BatchNorm

from .lr_scheduler import LRScheduler, _anneal_linear, _per_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from facula.optim.optimizer import Optimizer
    from facula.types import Device

__all__ = [
    "AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
    "get_swa_avg_fn",
]  # fmt: skip


def _check_decay(name: str, decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{name}: decay must be between 0 and 1, got {decay}")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Any:
    """A function that moves a list of averages towards the present values by ``1 - decay``."""
    _check_decay("get_ema_multi_avg_fn", decay)
    average = get_ema_avg_fn(decay)

    def ema_update(ema_param_list, current_param_list, num_averaged):
        with facula.no_grad():
            for averaged, current in zip(ema_param_list, current_param_list, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return ema_update


def get_swa_multi_avg_fn() -> Any:
    """A function that adds present values to a list of equally weighted averages."""
    average = get_swa_avg_fn()

    def swa_update(averaged_param_list, current_param_list, num_averaged):
        with facula.no_grad():
            for averaged, current in zip(averaged_param_list, current_param_list, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function giving ``decay * average + (1 - decay) * current``."""
    _check_decay("get_ema_avg_fn", decay)

    def ema_update(ema_param, current_param, num_averaged):
        with facula.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function giving the mean of ``num_averaged`` values in the average and the present one."""

    def swa_update(averaged_param, current_param, num_averaged):
        with facula.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of ``model`` whose parameters are averages of the ones that `update_parameters` is shown.

    Args:
        device: where the copy lives.
        avg_fn: (average, current, number averaged) -> new average. multi_avg_fn: the same in place on lists.
            By default all values weigh the same.
        use_buffers: average the buffers too, instead of copying them.
    """

    avg_fn: Callable[..., Any] | None
    multi_avg_fn: Callable[..., Any] | None
    use_buffers: bool

    def __init__(self, model: Module, device: Device = None, avg_fn: Callable[..., Any] | None = None,
                 multi_avg_fn: Callable[..., Any] | None = None, use_buffers: bool = False) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: avg_fn and multi_avg_fn exclude each other, got both")
        self.module = deepcopy(model)
        if device is not None:
            self.module: Module = self.module.to(device)
        self.register_buffer("n_averaged", facula.tensor(0, dtype=facula.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's own forward."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the present values of ``model`` into the averages."""
        pairs = list(zip(self._averaged_tensors(self), self._averaged_tensors(model), strict=False))
        averaged = [a.detach() for a, _ in pairs]
        current = [c.detach().to(a.device) for a, c in pairs]
        if self.n_averaged == 0:
            for a, c in zip(averaged, current, strict=True):
                a.copy_(c)
        elif averaged:
            self._average(averaged, current)
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1

    def _averaged_tensors(self, model):
        module = model.module if model is self else model
        return itertools.chain(module.parameters(), module.buffers()) if self.use_buffers else module.parameters()

    def _average(self, averaged, current) -> None:
        count = self.n_averaged
        if self.multi_avg_fn is not None:
            self.multi_avg_fn(averaged, current, count)
            return
        average = self.avg_fn or get_swa_avg_fn()
        for a, c in zip(averaged, current, strict=True):
            a.copy_(average(a, c, count.to(a.device)))


def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Computes the running statistics of all batch normalisations anew, in one pass over ``loader``.

    Args:
        loader: yields inputs, or lists or tuples that begin with the input.
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # a cumulative average
    with facula.no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


def _anneal_half_cosine(start, end, share):
    weight = (1 - math.cos(math.pi * share)) / 2
    return end * weight + start * (1 - weight)


class SWALR(LRScheduler):
    """Goes to ``swa_lr`` in ``anneal_epochs`` epochs along a cosine or a line ('cos', 'linear'), and stays there."""

    anneal_epochs: int

    def __init__(self, optimizer: Optimizer, swa_lr: float | Sequence[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:  # fmt: skip
        for rate, group in zip(_per_group("SWALR", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an integer of at least 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, step: int) -> float:
        """Share of swa_lr after ``step`` steps."""
        share = max(0, min(1, step / max(1, self.anneal_epochs)))
        return _anneal_linear(0, 1, share) if self._anneal_strategy == "linear" else _anneal_half_cosine(0, 1, share)

    def get_lr(self) -> list[float]:
        """See the class."""
        self._check_called_by_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._weight(step - 1), self._weight(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, target = group["lr"], group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
