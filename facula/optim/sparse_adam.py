"""Define SparseAdam, which is Adam for gradients that touch few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative, check_rates
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Make steps of `Adam` for sparse gradients, such as those of ``nn.Embedding(..., sparse=True)``.

    Elements without gradient, and their averages, stay as they are.

    Args:
        params: strided parameters, or groups of them; their gradients have the layout sparse_coo.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the averages of g and of g ** 2, each in [0, 1).
        eps: a number added to the divisor.
        maximize: if True, go up the gradient, not down.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_avg_sq`` have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range, or a parameter that is not strided; RuntimeError, at a step, for a dense
    gradient.

    >>> layer = nn.Embedding.from_pretrained(torch.ones(3, 1), freeze=False, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(layer.parameters(), lr=0.1)
    >>> layer(torch.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> layer.weight.flatten()
    tensor([1.0000, 0.9000, 1.0000], grad_fn=<ViewBackward0>)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, maximize: bool = False) -> None:  # fmt: skip
        check_lr("SparseAdam", lr)
        if not 0.0 < lr:
            raise ValueError(f"SparseAdam: lr must be above 0, got {lr}")
        check_non_negative("SparseAdam", eps=eps)
        check_rates("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for index, param in enumerate(p for group in self.param_groups for p in group["params"]):
            if param.layout is not facula.strided:
                raise ValueError(f"SparseAdam: Sparse params at indices [{index}]: SparseAdam requires dense parameter tensors")

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update the touched rows of all parameters that have a gradient; return the closure's loss, or None."""
        loss = self._evaluate(closure)
        with facula.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(group, param, -param.grad if group["maximize"] else param.grad)
        return loss

    def _update(self, group, param, grad):
        if not param.grad.is_sparse:
            raise RuntimeError(
                f"SparseAdam: expected sparse gradients (Adam takes dense ones), got layout {param.grad.layout}"
            )
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = facula.zeros_like(param, memory_format=facula.preserve_format)
            state["exp_avg_sq"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        state["step"] += 1
        grad = grad.coalesce()
        values, (beta1, beta2), step = grad._values(), group["betas"], state["step"]
        if values.numel() == 0:
            return

        def at_places(new):
            return facula.sparse_coo_tensor(grad._indices(), new, grad.shape, is_coalesced=True)

        mean, square = (state[name].sparse_mask(grad)._values() for name in ("exp_avg", "exp_avg_sq"))
        mean_change = (values - mean) * (1 - beta1)
        square_change = (values * values - square) * (1 - beta2)
        state["exp_avg"].add_(at_places(mean_change))
        state["exp_avg_sq"].add_(at_places(square_change))
        size = float(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        param.add_(at_places((mean + mean_change) / ((square + square_change).sqrt() + group["eps"])), alpha=-size)
