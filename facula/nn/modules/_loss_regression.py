"""Losses of numbers and of distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from ._loss_base import _Loss

if TYPE_CHECKING:
    from typing import ClassVar

    from facula import Tensor


class L1Loss(_Loss):
    """The absolute difference ``|input - target|``.

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); the result is one number, or for 'none' of
    that shape.

    >>> nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(1.5000)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference ``(input - target) ** 2``.

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); the result is one number, or for 'none' of
    that shape.

    >>> nn.MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(4.5000)
    >>> nn.MSELoss(reduction="none")(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor([0., 9.])
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """With ``d = |input - target|``: ``0.5 * d ** 2 / beta`` where d is below beta, else ``d - 0.5 * beta``. It punishes
    outliers less than `MSELoss` (Girshick 2015).

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        beta: where the square ends; 0 gives `L1Loss`.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); the result is one number, or for 'none' of
    that shape.

    Errors: RuntimeError, when called, for a negative beta.

    >>> nn.SmoothL1Loss(reduction="none")(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor([0.1250, 2.5000])
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """With ``d = |input - target|``: ``0.5 * d ** 2`` where d is below delta, else ``delta * (d - 0.5 * delta)`` (Huber
    1964): delta times the `SmoothL1Loss` with that beta.

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        delta: where the square ends; greater than 0.

    Shapes: input and target of one shape (others broadcast, with a warning); the result is one number, or for 'none' of
    that shape.

    Errors: TypeError for a delta that is no number; RuntimeError, when called, for one that is not positive.

    >>> nn.HuberLoss(reduction="none", delta=2.0)(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor([0.1250, 4.0000])
    """

    __constants__: ClassVar[list[str]] = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"HuberLoss: expected delta to be a number, got {type(delta).__name__}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence, ``target * (log(target) - input)``, of the target from a distribution whose
    logarithm is the input.

    Args:
        reduction: 'batchmean', which is the divergence: the sum divided by the size of the batch; 'mean' over the
            elements (with a warning), 'sum', or 'none' for each element.
        log_target: whether the target has logarithms, too.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target that broadcast to one another; the result is one number, or for 'none' of the common shape.

    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> nn.KLDivLoss(reduction="batchmean")(q.log(), p)
    tensor(0.1438)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts under Poisson distributions: ``exp(input) - target * input``, or for rates
    ``input - target * log(input + eps)``, without ``log(target!)``.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's formula for ``log(target!)`` is added where the target exceeds 1.
        eps: keeps the logarithm of a rate finite.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target that broadcast to one another; the result is one number, or for 'none' of the common shape.

    >>> nn.PoissonNLLLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
    tensor(0.8591)
    """

    __constants__: ClassVar[list[str]] = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: bool, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of the target under normal distributions whose mean is the input: ``0.5 * (log(max(var,
    eps)) + (input - target) ** 2 / max(var, eps))``.

    Args:
        full: whether ``0.5 * log(2 * pi)`` is added.
        eps: the least variance.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Shapes: called with input, target and var of one shape; var may also be a number, or have size 1 in, or lack, the last
    dimension. The result is one number, or for 'none' of the input's shape.

    Errors: ValueError for a negative var and for one that does not fit.

    >>> nn.GaussianNLLLoss()(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 0.0]), torch.ones(2))
    tensor(1.)
    """

    __constants__: ClassVar[list[str]] = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
