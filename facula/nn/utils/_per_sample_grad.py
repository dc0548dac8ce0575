"""Compute the gradients of each example of a batch, which `opacus` requests under the name "expanded weights"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.func import functional_call, vmap
from facula.utils._pytree import tree_flatten

from ..modules.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def call_for_per_sample_grads(module: Any, *, batch_size: int | None = None, loss_reduction: str = "sum",
                              batch_first: bool = True) -> Callable[..., Any]:  # fmt: skip
    """Return the module as a function whose backward pass leaves gradients of each example in `parameter.grad_sample`.

    The module runs under vmap, on batches of one example and with parameters of each example's own.

    Args:
        module: the module; what it does with an example must not depend on the others.
        batch_size: how many examples there are; by default as the arguments say.
        loss_reduction: "sum" or "mean": what the loss does with examples; gradients of a mean are multiplied by their number.
        batch_first: whether examples lie along the first dimension of arguments and results, or along the second.

    Errors: RuntimeError for what is no module, for arguments without a batch or with several sizes, and for parameters with
    gradients of an earlier call.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"call_for_per_sample_grads: loss_reduction is sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"call_for_per_sample_grads: expected an nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"call_for_per_sample_grads: batch_size is an integer or None, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"call_for_per_sample_grads: batch_size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(f"call_for_per_sample_grads: {name}.grad_sample must be None, got gradients of an earlier call")
    dim = 0 if batch_first else 1

    def call(*args, **kwargs):
        given, _ = tree_flatten((args, kwargs))
        sizes = {t.size(dim) for t in given if isinstance(t, facula.Tensor)} if batch_size is None else {batch_size}
        if len(sizes) != 1:
            raise RuntimeError(f"call_for_per_sample_grads: arguments must say one number of examples, got {sorted(sizes)}")
        return _run(module, args, kwargs, sizes.pop(), dim, loss_reduction)

    return call


def _run(module, args, kwargs, size, dim, loss_reduction):
    expanded = {}
    for name, parameter in module.named_parameters():
        own = parameter.detach().expand(size, *parameter.shape)
        if parameter.requires_grad:
            own = own.requires_grad_()
            own.register_hook(_keep_gradient(parameter, size if loss_reduction == "mean" else 1))
        expanded[name] = own

    def example(parameters, args, kwargs):
        args, kwargs = facula.utils._pytree.tree_map(_with_batch, (args, kwargs))
        result = functional_call(module, parameters, args, kwargs)
        return facula.utils._pytree.tree_map(lambda t: t.squeeze(dim), result)

    def _with_batch(value):
        return value.unsqueeze(dim) if isinstance(value, facula.Tensor) else value

    def _dims(value):
        return dim if isinstance(value, facula.Tensor) else None

    dims = facula.utils._pytree.tree_map(_dims, (args, kwargs))
    return vmap(example, in_dims=(0, *dims), out_dims=dim, randomness="different")(expanded, args, kwargs)


def _keep_gradient(parameter, factor):
    def keep(grad):
        found = grad * factor if factor != 1 else grad
        before = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = found.detach() if before is None else before + found.detach()

    return keep
