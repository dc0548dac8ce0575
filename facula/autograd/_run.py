"""Implement `backward` and `grad`: they check and convert arguments, and the engine in C++ does the rest."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula.autograd.graph import GradientEdge

Tensor = _C.Tensor


def _as_tuple(value, name):
    """Return a tensor, an edge of the graph or a sequence of them, as a tuple."""
    if isinstance(value, Tensor) or _is_edge(value):
        return (value,)
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: expected a Tensor or a sequence of Tensors, got {type(value).__name__}")
    return tuple(value)


def _is_edge(value):
    return isinstance(value, tuple) and hasattr(value, "output_nr")


def _gradients(given, count, name):
    """Return one gradient (or None) per output."""
    if given is None:
        return (None,) * count
    grads = (given,) if isinstance(given, Tensor) else tuple(given)
    if len(grads) != count:
        raise RuntimeError(f"{name}: got {count} tensors and {len(grads)} gradients")
    for gradient in grads:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"{name}: gradients can be either Tensors or None, got {type(gradient).__name__}")
    return grads


def _roots(outputs):
    """Return what a pass starts from: a class may have something else in the place of its tensors (`_as_root`)."""
    return tuple(t._as_root() if hasattr(type(t), "_as_root") else t for t in outputs)


def _shown(value, gradient):
    """Return a gradient as the class of its tensor shows it (`_as_gradient`)."""
    return value._as_gradient(gradient) if gradient is not None and hasattr(type(value), "_as_gradient") else gradient


def _check_values(tensors, name):
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor) and not _is_edge(tensor):
            raise TypeError(f"{name}: element {i} must be a Tensor or a GradientEdge, got {type(tensor).__name__}")


def backward(tensors: Tensor | GradientEdge | Sequence[Any], grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
             retain_graph: bool | None = None, create_graph: bool = False, grad_variables: Any = None,
             inputs: Tensor | GradientEdge | Sequence[Any] | None = None) -> None:  # fmt: skip
    """Add the gradients of `tensors` to ``.grad`` of the leaves they were made from.

    Args:
        tensors: a Tensor, a GradientEdge or a sequence of them.
        grad_tensors: gradients of the tensors, of their shapes; None stands for one, for tensors of one element.
        retain_graph: keeps saved values, so that the graph can be used again; the default is `create_graph`.
        create_graph: records the computation of the gradients.
        grad_variables: the earlier name of grad_tensors.
        inputs: only these accumulate; None for all leaves.

    Errors: RuntimeError for a tensor without history, a missing gradient of a tensor that is no scalar, a graph used
    twice and values that were written to since they were saved; TypeError for what is no tensor.

    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.autograd.backward(x * x, torch.tensor([1., 10.]))
    >>> x.grad
    tensor([ 2., 40.])
    """
    if grad_variables is not None:
        warnings.warn("backward: grad_variables is called grad_tensors now", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_tensors and grad_variables are the same argument, got both")
        grad_tensors = grad_variables
    tensors = _as_tuple(tensors, "backward")
    _check_values(tensors, "backward")
    tensors = _roots(tensors)
    if inputs is not None:
        inputs = _as_tuple(inputs, "backward")
        if not inputs:
            raise RuntimeError("backward: inputs cannot be empty, got ()")
        _check_values(inputs, "backward")
    grads = _gradients(grad_tensors, len(tensors), "backward")
    keep = create_graph if retain_graph is None else bool(retain_graph)
    if create_graph:
        _warn_of_cycle()
    captured = _C._run_backward(tensors, grads, inputs, keep, bool(create_graph), True)
    for tensor, gradient in zip(inputs or (), captured):
        # leaves accumulate in the engine; results of ops do it here
        if gradient is not None and isinstance(tensor, Tensor) and not tensor.is_leaf:
            _accumulate(tensor, gradient, create_graph)


_warned_of_cycle = False


def _warn_of_cycle():
    """Warn once, as the graph of a gradient in ``.grad`` refers to the leaf, which refers to the gradient."""
    global _warned_of_cycle
    from ..functions.settings import is_warn_always_enabled

    if not _warned_of_cycle or is_warn_always_enabled():
        _warned_of_cycle = True
        warnings.warn(
            "backward: Using backward() with create_graph=True makes a leaf and its gradient refer to each other, which can "
            "keep memory; use autograd.grad, or set .grad to None afterwards",
            stacklevel=4,
        )


def _accumulate(tensor, gradient, create_graph):
    if not create_graph:
        gradient = gradient.detach()
    before = tensor._grad
    # A clone, because the engine may have returned a tensor that the program or another result holds, too.
    tensor.grad = gradient.clone() if before is None else before + gradient


def _tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Do what Tensor.backward does when it is given arguments."""
    if _C._has_torch_function_variadic(self):
        from ..overrides import handle_torch_function

        return handle_torch_function(
            Tensor.backward,
            (self,),
            self,
            gradient=gradient,
            retain_graph=retain_graph,
            create_graph=create_graph,
            inputs=inputs,
        )
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_tensor_backward.__qualname__ = "backward"  # what errors of its arguments begin with


def grad(
    outputs: Tensor | GradientEdge | Sequence[Any],
    inputs: Tensor | GradientEdge | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | Any, ...]:
    """Return the gradients of `outputs` with respect to `inputs`, as a tuple; nothing is accumulated.

    Args:
        outputs, inputs: a Tensor, a GradientEdge or a sequence of them.
        grad_outputs: gradients of the outputs, of their shapes; None stands for one.
        retain_graph: keeps saved values, so that the graph can be used again; the default is `create_graph`.
        create_graph: records the computation of the gradients, for derivatives of higher order.
        only_inputs: changes nothing.
        allow_unused: gives None for inputs that the outputs do not depend on, which is an error otherwise.
        is_grads_batched: grad_outputs have a first dimension more; so have the results.
        materialize_grads: gives zeros for unused inputs.

    Errors: RuntimeError as `backward`, and for unused inputs; ValueError for contradicting arguments.

    >>> x = torch.tensor(3., requires_grad=True)
    >>> (first,) = torch.autograd.grad(x ** 3, x, create_graph=True)
    >>> (second,) = torch.autograd.grad(first, x)
    >>> first, second
    (tensor(27., grad_fn=<MulBackward0>), tensor(18.))
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads needs allow_unused to be True or not given, got allow_unused=False")
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _as_tuple(outputs, "grad"), _as_tuple(inputs, "grad")
    _check_values(outputs, "grad")
    outputs = _roots(outputs)
    _check_values(inputs, "grad")
    if not only_inputs:
        warnings.warn("grad: only_inputs=False has no effect; use backward to accumulate", FutureWarning, stacklevel=2)
    keep = create_graph if retain_graph is None else bool(retain_graph)
    grads = _gradients(grad_outputs, len(outputs), "grad")
    if not inputs:
        raise RuntimeError("grad: inputs must not be empty, got none")
    if is_grads_batched:
        results = _batched(outputs, inputs, grads, keep, bool(create_graph), allow_unused)
    else:
        results = _C._run_backward(outputs, grads, inputs, keep, bool(create_graph), False)
    results = tuple(_shown(x, g) for x, g in zip(inputs, results))
    if materialize_grads:
        return tuple(_zeros_of(x, bool(create_graph)) if g is None else g for g, x in zip(results, inputs))
    if not allow_unused:
        for i, gradient in enumerate(results):
            if gradient is None:
                raise RuntimeError(
                    f"grad: every input must take part in the outputs, got unused input {i} "
                    "(allow_unused=True gives None for it)"
                )
    return results


def _zeros_of(value, recorded):
    if _is_edge(value):
        raise RuntimeError(
            "grad: materialize_grads makes zeros for tensors, not for a GradientEdge, got one that was not used"
        )
    return _C.zeros_like(value.detach()).requires_grad_(recorded)


def _batched(outputs, inputs, grads, keep, create_graph, allow_unused):
    """Run one pass over a batch of gradients."""
    from ..func import _vmap

    for gradient in grads:
        if gradient is None or not gradient.dim():
            if gradient is None and any(o.is_complex() for o in outputs):
                raise RuntimeError("grad: a gradient is implicit for real outputs only, got a complex one")
            got = "none for an output" if gradient is None else "one without dimensions"
            raise ValueError(f"grad: is_grads_batched needs gradients with a first dimension that counts them, got {got}")
    sizes = {g.shape[0] for g in grads}
    if len(sizes) != 1:
        raise RuntimeError(
            f"grad: is_grads_batched needs gradients with one common first dimension, got {sorted(sizes)}"
        )
    (count,) = sizes
    with _vmap.new_level(count) as level:
        seeds = tuple(None if g is None else _vmap.wrap(g, level) for g in grads)
        results = _C._run_backward(outputs, seeds, inputs, keep, create_graph, False)
        return tuple(None if g is None else _vmap.batch_of(g, level, count) for g in results)
