"""Compute Jacobians, Hessians and their products with vectors, for functions from tensors to tensors."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from .. import _C
from ._run import grad as _grad
from .forward_ad import _set_fwd_grad_enabled, pushforward
from .grad_mode import enable_grad

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

Tensor = _C.Tensor


def _of_tensors(name, argument):
    return f"{name}: expected {argument} as a tensor or a tuple of tensors"


def _tuple_of(value, name, argument):
    single = isinstance(value, Tensor)
    items = (value,) if single else tuple(value) if isinstance(value, (tuple, list)) else value
    if not isinstance(items, tuple):
        raise TypeError(f"{_of_tensors(name, argument)}, got {type(value).__name__}")
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(f"{_of_tensors(name, argument)}, got {type(item).__name__} at index {i}")
    return items, single


def _own_inputs(inputs, create_graph):
    """Return inputs whose gradients are those of this call; with create_graph they stay connected to the caller's."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _call(func, inputs, name):
    return _tuple_of(func(*inputs), name, "results of func")


def _check_strict(outputs, strict, name):
    for i, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise RuntimeError(
                f"{name}: strict=True, and result {i} of func does not require gradients: each has to depend on the inputs"
            )


def _vector(v, like, name, argument, what="the input of func is"):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{name}: {argument}=None is for where {what} a single element, got shapes {[tuple(x.shape) for x in like]}"
            )
        return tuple(_C.ones_like(x.detach()) for x in like)
    items, _ = _tuple_of(v, name, argument)
    if len(items) != len(like):
        wanted = "a single Tensor" if len(like) == 1 else f"{len(like)} Tensors"
        raise RuntimeError(f"{name}: The given {argument} should contain {wanted}, got {len(items)}")
    for i, (item, x) in enumerate(zip(items, like)):
        if item.shape != x.shape:
            raise RuntimeError(
                f"{name}: element {i} of {argument} must have shape {tuple(x.shape)}, got {tuple(item.shape)}"
                if len(like) > 1
                else f"{name}: {argument} must have shape {tuple(x.shape)}, got {tuple(item.shape)}"
            )
    return items


def _filled(values, like, create_graph, strict, name):
    if strict:
        _check_dependent(values, name)
    filled = tuple(_C.zeros_like(x.detach()) if v is None else v for v, x in zip(values, like))
    if strict and create_graph:
        _check_recorded(filled, name)
    return filled if create_graph else tuple(v.detach() for v in filled)


def _check_dependent(derivatives, name, output="The output"):
    """Check that the outputs depend on every input, as strict mode asks."""
    for i, derivative in enumerate(derivatives):
        if derivative is None:
            raise RuntimeError(f"{name}: strict=True, and {output} of func is independent of input {i}")


def _check_recorded(derivatives, name):
    """Check, in strict mode with create_graph, that what is to be differentiated again depends on the inputs."""
    for i, derivative in enumerate(derivatives):
        if not derivative.requires_grad:
            raise RuntimeError(f"{name}: strict=True, and the jacobian of func is independent of input {i}")


def _checked_gradients(pulled, inputs, strict, name):
    """Return the gradients of the single output, zeros where it has none, which in strict mode is an error."""
    for i, gradient in enumerate(pulled):
        if strict and (gradient is None or not gradient.requires_grad):
            found = "zero" if gradient is None else "independent of the inputs"
            raise RuntimeError(f"{name}: strict=True, and the jacobian of func by input {i} is {found}")
    return tuple(_C.zeros_like(x.detach()) if g is None else g for g, x in zip(pulled, inputs))


def _shape_like(values, single):
    return values[0] if single else values


def _values(outputs, single, create_graph):
    return _shape_like(outputs if create_graph else tuple(o.detach() for o in outputs), single)


def _differentiable(tensors):
    return [i for i, t in enumerate(tensors) if t.requires_grad]


def _pull(outputs, inputs, vectors, create_graph, retain_graph=True):
    """Return vector-Jacobian products; None for inputs that no output depends on."""
    used = _differentiable(outputs)
    if not used:
        return (None,) * len(inputs)
    return _grad([outputs[i] for i in used], inputs, [vectors[i] for i in used], retain_graph, create_graph, allow_unused=True)


def vjp(func: Callable[..., Any], inputs: Any, v: Tensor | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the value of ``func(*inputs)`` and the product of `v` with the Jacobian: v^T J.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: of the shapes of the outputs; may be left out where the output has one element.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.

    Returns: (outputs, products), the products of the shapes of the inputs.

    Errors: RuntimeError for a v of other shapes, or a missing one; TypeError for what are no tensors.

    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1., 2.]), torch.tensor([1., 10.]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        inputs, single_input = _tuple_of(inputs, "vjp", "inputs")
        own = _own_inputs(inputs, create_graph)
        outputs, single_output = _call(func, own, "vjp")
        _check_strict(outputs, strict, "vjp")
        products = _pull(outputs, own, _vector(v, outputs, "vjp", "v", "func returns"), create_graph)
        products = _filled(products, own, create_graph, strict, "vjp")
    return _values(outputs, single_output, create_graph), _shape_like(products, single_input)


def jvp(func: Callable[..., Any], inputs: Any, v: Tensor | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the value of ``func(*inputs)`` and the product of the Jacobian with `v`: J v, the derivative in direction v.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: of the shapes of the inputs; may be left out where the input has one element.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.

    Returns: (outputs, products), the products of the shapes of the outputs.

    Errors: RuntimeError for a v of other shapes, or a missing one; TypeError for what are no tensors.

    >>> torch.autograd.functional.jvp(lambda x: x * x, torch.tensor([1., 2.]), torch.tensor([1., 10.]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        inputs, _ = _tuple_of(inputs, "jvp", "inputs")
        own = _own_inputs(inputs, create_graph)
        vectors = _vector(v, inputs, "jvp", "v")
        outputs, single_output = _call(func, own, "jvp")
        _check_strict(outputs, strict, "jvp")
        used = _differentiable(outputs)
        tangents = dict(zip(used, pushforward([outputs[i] for i in used], own, vectors)))
        products = _filled([tangents.get(i) for i in range(len(outputs))], outputs, create_graph, strict, "jvp")
    return _values(outputs, single_output, create_graph), _shape_like(products, single_output)


def _jacobian_rows(number, output, inputs, create_graph, strict):
    """Return, per input, a tensor of shape (*output.shape, *input.shape)."""
    rows = []
    flat = output.reshape(-1)
    for i in range(flat.numel()):
        seed = _C.zeros_like(flat.detach())
        seed[i] = 1
        pulled = _pull((flat,), inputs, (seed,), create_graph) if flat.requires_grad else (None,) * len(inputs)
        if strict:
            _check_dependent(pulled, "jacobian", f"Output {number}")
        if strict and create_graph:
            _check_recorded(pulled, "jacobian")
        rows.append(pulled)
    return tuple(_stacked([row[k] for row in rows], output, x) for k, x in enumerate(inputs))


def _stacked(column, output, x):
    if not column:
        return _C.zeros((*output.shape, *x.shape), dtype=x.dtype, device=x.device)
    column = [_C.zeros_like(x.detach()) if c is None else c for c in column]
    return _C.stack(column).reshape((*output.shape, *x.shape))


def _jacobian_rows_at_once(output, inputs, create_graph):
    """Return what _jacobian_rows gives, in one backward pass over a batch of unit cotangents."""
    count = output.numel()
    if not output.requires_grad or count == 0:
        return tuple(_C.zeros((*output.shape, *x.shape), dtype=x.dtype, device=x.device) for x in inputs)
    units = _C.eye(count, dtype=output.dtype, device=output.device).reshape(count, *output.shape)
    rows = _grad([output], inputs, [units], True, create_graph, allow_unused=True, is_grads_batched=True)
    return tuple(
        _C.zeros((*output.shape, *x.shape), dtype=x.dtype, device=x.device)
        if row is None
        else row.reshape((*output.shape, *x.shape))
        for row, x in zip(rows, inputs)
    )


def _jacobian_columns(output, inputs):
    """Return what _jacobian_rows gives, one element of the inputs at a time."""
    blocks = []
    for x in inputs:
        columns = []
        for i in range(x.numel()):
            direction = _C.zeros(x.numel(), dtype=x.dtype, device=x.device)
            direction[i] = 1
            tangent = pushforward([output], [x], [direction.reshape(x.shape)], True)[0] if _C._is_dual(output) else None
            columns.append(_C.zeros_like(output.detach()) if tangent is None else tangent)
        if columns:
            blocks.append(_C.stack(columns, -1).reshape((*output.shape, *x.shape)))
        else:
            blocks.append(_C.zeros((*output.shape, *x.shape), dtype=x.dtype, device=x.device))
    return tuple(blocks)


def _jacobian_columns_at_once(output, inputs):
    """Return what _jacobian_columns gives, in one forward-mode pass per input over a batch of unit tangents."""
    from ..func import _vmap

    blocks = []
    for x in inputs:
        shape, count = (*output.shape, *x.shape), x.numel()
        if not _C._is_dual(output) or count == 0:
            blocks.append(_C.zeros(shape, dtype=x.dtype, device=x.device))
            continue
        units = _C.eye(count, dtype=x.dtype, device=x.device).reshape(count, *x.shape)
        with _vmap.new_level(count) as level:
            (tangent,) = pushforward([output], [x], [_vmap.wrap(units, level)], True)
            tangent = _C.zeros_like(output.detach()) if tangent is None else tangent
            blocks.append(_vmap.batch_of(tangent, level, count).movedim(0, -1).reshape(shape))
    return tuple(blocks)


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Tensor | Any:  # fmt: skip
    """Return the Jacobian: how every element of the output changes with every element of the input.

    Args:
        func: a function of tensors that gives a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.
        vectorize: computes all rows (or columns) in one pass.
        strategy: "reverse-mode", row by row, or "forward-mode", column by column, with vectorize.

    Returns: a tensor of shape (*output.shape, *input.shape); for several inputs a tuple of them, for several outputs a tuple of
    those.

    Errors: ValueError for an unknown strategy; RuntimeError for strict together with vectorize.

    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: expected strategy to be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("jacobian: create_graph with strategy='forward-mode' is not supported")
    if strict and vectorize:
        raise RuntimeError("jacobian: strict=True and vectorize=True are not supported together, got both")
    forward = strategy == "forward-mode"
    with enable_grad(), _set_fwd_grad_enabled(True) if forward else nullcontext():
        inputs, single_input = _tuple_of(inputs, "jacobian", "inputs")
        own = _own_inputs(inputs, create_graph)
        duals, own = zip(*map(_C._make_dual, own)) if forward and own else (own, own)
        outputs, single_output = _call(func, duals, "jacobian")
        rows = []
        _check_strict(outputs, strict, "jacobian")
        for number, output in enumerate(outputs):
            if forward:
                blocks = _jacobian_columns_at_once(output, own) if vectorize else _jacobian_columns(output, own)
            elif vectorize:
                blocks = _jacobian_rows_at_once(output, own, create_graph)
            else:
                blocks = _jacobian_rows(number, output, own, create_graph, strict)
            rows.append(blocks if create_graph else tuple(b.detach() for b in blocks))
    if single_output:
        return _shape_like(rows[0], single_input)
    return tuple(_shape_like(row, single_input) for row in rows)


def _scalar(output, name):
    _tuple_of(output, name, "results of func")
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{name}: func should return a single Tensor, got {len(output)}")
    if output.numel() != 1:
        returned = "the Tensor that func returns"
        raise RuntimeError(f"{name}: {returned} should contain a single element, got {tuple(output.shape)}")
    return output.reshape(())


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Tensor:  # fmt: skip
    """Return the matrix of second derivatives of a scalar function.

    Args:
        func: a function of tensors that gives a tensor of one element.
        inputs: a tensor or a tuple of them.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.
        vectorize: computes all rows in one pass.
        outer_jacobian_strategy: "reverse-mode" or "forward-mode", how the gradient is differentiated; the latter with
            vectorize.

    Returns: a tensor of shape (*input.shape, *input.shape), or for several inputs tuples of tuples.

    Errors: RuntimeError for an output of more elements; ValueError for another outer_jacobian_strategy.

    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    inputs, single_input = _tuple_of(inputs, "hessian", "inputs")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f"hessian: expected outer_jacobian_strategy to be 'reverse-mode' or 'forward-mode', got {outer_jacobian_strategy!r}"
        )

    def gradient(*own):
        output = _scalar(func(*own), "hessian")
        _check_strict((output,), strict, "hessian")
        pulled = _pull((output,), own, (_C.ones_like(output.detach()),), True)
        return _checked_gradients(pulled, own, strict, "hessian")

    blocks = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks[0][0] if single_input else blocks


def _gradient_for_products(func, inputs, create_graph, strict, name):
    own = _own_inputs(inputs, create_graph)
    output = _scalar(func(*own), name)
    _check_strict((output,), strict, name)
    pulled = _pull((output,), own, (_C.ones_like(output.detach()),), True)
    if strict:
        _check_dependent(pulled, name)
    return own, output, _checked_gradients(pulled, own, strict, name)


def vhp(func: Callable[..., Any], inputs: Any, v: Tensor | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:  # fmt: skip
    """Return the value of the scalar function and the product of `v` with its matrix of second derivatives: v^T H.

    Args:
        func: a function of tensors that gives a tensor of one element.
        inputs: a tensor or a tuple of them.
        v: of the shapes of the inputs; may be left out where the input has one element.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.

    Returns: (output, products), the products of the shapes of the inputs.

    Errors: RuntimeError for an output of more elements, and a v of other shapes.

    >>> torch.autograd.functional.vhp(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]), torch.tensor([1., 1.]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        inputs, single_input = _tuple_of(inputs, "vhp", "inputs")
        own, output, gradients = _gradient_for_products(func, inputs, create_graph, strict, "vhp")
        products = _pull(gradients, own, _vector(v, inputs, "vhp", "v"), create_graph)
        products = _filled(products, own, create_graph, strict, "vhp")
    return (output if create_graph else output.detach()), _shape_like(products, single_input)


def hvp(func: Callable[..., Any], inputs: Any, v: Tensor | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the value of the scalar function and the product of its matrix of second derivatives with `v`: H v.

    Args:
        func: a function of tensors that gives a tensor of one element.
        inputs: a tensor or a tuple of them.
        v: of the shapes of the inputs; may be left out where the input has one element.
        create_graph: records the computation, for further derivatives.
        strict: an output that does not depend on an input is a RuntimeError rather than zeros.

    Returns: (output, products), the products of the shapes of the inputs. As H is symmetric, vhp gives the same in less time.

    Errors: RuntimeError for an output of more elements, and a v of other shapes.

    >>> torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]), torch.tensor([1., 1.]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        inputs, single_input = _tuple_of(inputs, "hvp", "inputs")
        own, output, gradients = _gradient_for_products(func, inputs, create_graph, strict, "hvp")
        vectors = _vector(v, inputs, "hvp", "v")
        used = _differentiable(gradients)
        tangents = dict(zip(used, pushforward([gradients[i] for i in used], own, vectors)))
        products = _filled([tangents.get(i) for i in range(len(own))], own, create_graph, strict, "hvp")
    return (output if create_graph else output.detach()), _shape_like(products, single_input)
