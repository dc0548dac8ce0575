"""Average the weights of a model over its training, and recompute the statistics of its batch normalizations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula.nn import Module
from facula.nn.modules.batchnorm import _BatchNorm

from .lr_scheduler import LRScheduler, _anneal_linear, _per_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Return a function (averages, values, number averaged) that moves a list of averages in place: ``decay * a + (1 - decay) *
    value``.

    Args:
        decay: the share of the average that stays, in [0, 1].

    Errors: ValueError for a decay out of range.

    >>> averages = [torch.tensor([1.0])]
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)(averages, [torch.tensor([5.0])], 1)
    >>> averages
    [tensor([2.])]
    """
    _check_decay("get_ema_multi_avg_fn", decay)
    average = get_ema_avg_fn(decay)

    def ema_update(ema_param_list, current_param_list, num_averaged):
        with facula.no_grad():
            for averaged, current in zip(ema_param_list, current_param_list, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return ema_update


def get_swa_multi_avg_fn() -> Any:
    """Return a function (averages, values, number averaged) that moves a list of equally weighted averages in place.

    >>> averages = [torch.tensor([1.0])]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [torch.tensor([5.0])], 3)
    >>> averages
    [tensor([2.])]
    """
    average = get_swa_avg_fn()

    def swa_update(averaged_param_list, current_param_list, num_averaged):
        with facula.no_grad():
            for averaged, current in zip(averaged_param_list, current_param_list, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Return a function (average, value, number averaged) that returns ``decay * average + (1 - decay) * value``.

    Args:
        decay: the share of the average that stays, in [0, 1].

    Errors: ValueError for a decay out of range.

    >>> torch.optim.swa_utils.get_ema_avg_fn(0.75)(torch.tensor([1.0]), torch.tensor([5.0]), 1)
    tensor([2.])
    """
    _check_decay("get_ema_avg_fn", decay)

    def ema_update(ema_param, current_param, num_averaged):
        with facula.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """Return a function (average, value, number averaged) that returns the mean of the averaged values and the new one.

    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor([1.0]), torch.tensor([5.0]), 3)
    tensor([2.])
    """

    def swa_update(averaged_param, current_param, num_averaged):
        with facula.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """Hold a copy of a model whose parameters are averages of those that are passed to `update_parameters`.

    Args:
        model: the model that is copied; a call of the copy calls its forward.
        device: the device of the copy. Default: that of the model.
        avg_fn: a function (average, value, number averaged) that returns the new average. By default all values weigh the same.
        multi_avg_fn: a function that does the same in place on lists.
        use_buffers: if True, average buffers, too, instead of copying them.

    Shapes: input and output are those of the model.

    Errors: AssertionError for both avg_fn and multi_avg_fn.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(torch.ones(1)), averaged.n_averaged
    (tensor([3.], grad_fn=<SqueezeBackward4>), tensor(3))
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
        """Return the averaged model's own forward."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present values of a model into the averages; the first time they are copied.

        Args:
            model: of the same structure as the one that was copied.

        >>> model = nn.Linear(1, 1)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> averaged.update_parameters(model)
        >>> bool((averaged.module.weight == model.weight).all())
        True
        """
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
    """Compute the running statistics of all batch normalizations of a model anew, in one pass over the data.

    Args:
        loader: an iterable of inputs, or of lists or tuples that begin with the input.
        model: the model, which is called with each input, in training mode; afterwards it is in the mode in which it was.
        device: the device to which inputs are moved first, or None.

    >>> model = nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
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
    try:
        for module in momenta:
            module.momentum = None  # a cumulative average
        with facula.no_grad():
            for batch in loader:
                batch = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(batch if device is None else batch.to(device))
    finally:  # a batch that fails must not leave averages that never forget
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


def _anneal_half_cosine(start, end, share):
    weight = (1 - math.cos(math.pi * share)) / 2
    return end * weight + start * (1 - weight)


class SWALR(LRScheduler):
    """Move the learning rate to ``swa_lr`` in ``anneal_epochs`` epochs, and hold it there.

    Args:
        optimizer: the optimizer whose rates are set.
        swa_lr: the last rate, one or a list with one for each group.
        anneal_epochs: the number of epochs that the move takes; 0 makes it at once.
        anneal_strategy: 'cos' along a cosine, 'linear' along a line.
        last_epoch: the epoch after which to resume; -1 starts anew.

    Errors: ValueError for another strategy, or anneal_epochs that are not a number of at least 0.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 4))
    0.6
    0.2
    0.2
    """

    anneal_epochs: int

    def __init__(self, optimizer: Optimizer, swa_lr: float | Sequence[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:  # fmt: skip
        for rate, group in zip(_per_group("SWALR", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be {_C._one_of(anneal_strategy, ('cos', 'linear'))}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an integer of at least 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, step: int) -> float:
        """Share of swa_lr after ``step`` steps."""
        share = max(0, min(1, step / max(1, self.anneal_epochs)))
        return _anneal_linear(0, 1, share) if self._anneal_strategy == "linear" else _anneal_half_cosine(0, 1, share)

    def get_lr(self) -> list[float]:
        """Return the rates of all groups for ``last_epoch``: see the class."""
        self._check_called_by_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._weight(step - 1), self._weight(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, target = group["lr"], group["swa_lr"]
            # The rate before the annealing, computed from the present one: another scheduler may have changed it.
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
