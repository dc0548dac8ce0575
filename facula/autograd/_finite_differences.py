"""Compute the derivatives that gradcheck compares: by finite differences and by the two modes of autograd.

All derivatives are over real components. A complex number counts as two of them, so that a derivative is a real matrix
with a row for each component of an input and a column for each component of an output.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import _C
from ._run import grad as _grad
from .forward_ad import dual_level, make_dual, unpack_dual

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


# ---- Jacobians for programs that were written before gradcheck was all there is to call


def _warn_of_old_function(name, grad_out):
    warnings.warn(f"{name}: it is kept for old programs, use gradcheck", FutureWarning, stacklevel=3)
    if grad_out != 1.0:
        raise ValueError(f"{name}: grad_out must be 1.0, got {grad_out}")


def get_numerical_jacobian(fn: Any, inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0) -> Any:
    """Return the matrices of central differences of the first output, one for each tensor of `target`; kept for old programs.

    Args:
        fn: a function of `inputs`, a tuple, that gives a tensor or several.
        inputs: the tuple.
        target: the tensors among `inputs` by which it is derived; by default all that require gradients.
        eps: the width of the differences.
        grad_out: must be 1.0.

    Each matrix has a row for each element of the input and a column for each of the output.

    Errors: ValueError for another grad_out.

    >>> import sys, warnings
    >>> old = sys.modules[torch.autograd.gradgradcheck.__module__].get_numerical_jacobian
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     old(lambda inputs: 3 * inputs[0], (torch.ones(1, dtype=torch.float64, requires_grad=True),))[0].round()
    tensor([[3.]], dtype=torch.float64)
    """
    _warn_of_old_function("get_numerical_jacobian", grad_out)
    wanted = (target,) if isinstance(target, _C.Tensor) else target
    found = []
    for one in varied_inputs(tuple(inputs), False):
        if wanted is None or any(one.x is t for t in wanted):
            rows = [difference(lambda *args: fn(args), one, u, eps)[0] for u in units(one.size, one.x)]
            found.append(_C.stack(rows))
    return tuple(found)


def get_analytical_jacobian(inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0) -> Any:
    """Return what backward says of the derivative of `output` by each input; kept for old programs.

    Args:
        inputs: the tensors that it was made from.
        output: the result.
        nondet_tol: how much a second backward may differ from the first.
        grad_out: must be 1.0.

    Returns: (matrices as of `get_numerical_jacobian`, whether backward gave the same twice, whether the gradients have the
    shapes of the inputs, whether they have their dtypes).

    Errors: ValueError for another grad_out.

    >>> import sys, warnings
    >>> old = sys.modules[torch.autograd.gradgradcheck.__module__].get_analytical_jacobian
    >>> x = torch.ones(1, requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     old((x,), 3 * x)
    ((tensor([[3.]]),), True, True, True)
    """
    _warn_of_old_function("get_analytical_jacobian", grad_out)
    matrices, same, shapes, dtypes = [], True, True, True
    for one in varied_inputs(tuple(inputs), False):
        columns = []
        for unit in units(count(output), output):
            pair = [pulled(output, one.x, shaped(unit, output.detach())) for _ in range(2)]
            first, second = (one.row(g) for g in pair)
            same = same and close(second, first, 0.0, nondet_tol)
            shapes = shapes and (pair[0] is None or pair[0].shape == one.x.shape)
            dtypes = dtypes and (pair[0] is None or pair[0].dtype == one.x.dtype)
            columns.append(first)
        matrices.append(_C.stack(columns, 1))
    return tuple(matrices), same, shapes, dtypes


Tensor = _C.Tensor


def as_outputs(value):
    """Return the floating-point and complex tensors among the results of a function."""
    items = (value,) if isinstance(value, Tensor) else tuple(value)
    return tuple(o for o in items if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex()))


def components(tensor):
    """Return the real components of a tensor as a vector."""
    flat = _dense(tensor.detach()).reshape(-1)
    return _C.view_as_real(flat.resolve_conj()).reshape(-1) if tensor.is_complex() else flat


def shaped(vector, like):
    """Return the tensor of the shape and dtype of `like` that has the given real components."""
    if like.is_complex():
        vector = _C.view_as_complex(vector.reshape(-1, 2).contiguous())
    return vector.reshape(like.shape).to(like.dtype)


def count(tensor):
    """Return how many real components there are."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def real_dtype(tensor):
    """Return the dtype of the real components of a tensor."""
    return {_C.complex128: _C.float64, _C.complex64: _C.float32, _C.complex32: _C.float16}.get(tensor.dtype, tensor.dtype)


def _dense(tensor):
    return tensor if tensor.layout == _C.strided else tensor.to_dense()


class DenseInput:
    """Move the components of a dense argument in place, so that a function that reads the tensor elsewhere sees the
    change, too.
    """

    def __init__(self, inputs, index):
        self.inputs, self.index = inputs, index
        self.x = inputs[index]
        self.size = count(self.x)

    def moved(self, func, direction, step):
        """Return the results of `func` with the argument moved by `step` in a direction."""
        data = self.x.data  # writes to it are not counted: the graph at hand finds the argument as it was
        before = data.clone()
        data.copy_(before + shaped(direction, self.x) * step)
        try:
            return func(*self.inputs)
        finally:
            data.copy_(before)

    def row(self, gradient):
        """Return the components of a gradient of this argument."""
        return self._zeros() if gradient is None else components(gradient)

    def _zeros(self):
        return _C.zeros(self.size, dtype=real_dtype(self.x), device=self.x.device)

    def tangent(self, direction):
        """Return the tangent that moves the argument in a direction."""
        return shaped(direction, self.x)


class SparseInput(DenseInput):
    """Move all components of a sparse argument, including the places without a stored value, which are zero."""

    def moved(self, func, direction, step):
        dense = _dense(self.x.detach())
        new = _as_layout(dense + shaped(direction, dense) * step, self.x)
        return func(*self.inputs[: self.index], new.requires_grad_(), *self.inputs[self.index + 1 :])

    def tangent(self, direction):
        return _as_layout(shaped(direction, _dense(self.x.detach())), self.x)


class MaskedInput(SparseInput):
    """Move only the stored values of a sparse argument."""

    def __init__(self, inputs, index):
        super().__init__(inputs, index)
        self.values = _values(self.x)
        self.places = self._places()
        self.size = count(self.values)

    def _places(self):
        """Return the place of each value among the elements."""
        numbers = _C.arange(1, self.values.numel() + 1, device=self.x.device).reshape(self.values.shape)
        dense = _dense(_with_values(self.x.detach(), numbers)).reshape(-1)
        found = dense.nonzero().reshape(-1)
        places = _C.zeros(self.values.numel(), dtype=_C.int64, device=self.x.device)
        places[dense[found] - 1] = found
        return places

    def moved(self, func, direction, step):
        new = _with_values(self.x.detach(), self.values + shaped(direction, self.values) * step)
        return func(*self.inputs[: self.index], new.requires_grad_(), *self.inputs[self.index + 1 :])

    def row(self, gradient):
        if gradient is None:
            return self._zeros()
        return components(_dense(gradient.detach()).reshape(-1)[self.places])

    def tangent(self, direction):
        return _with_values(self.x.detach(), shaped(direction, self.values))


def _values(sparse):
    sparse = sparse.detach()
    return sparse._values() if sparse.layout == _C.sparse_coo else sparse.values()


def _with_values(sparse, values):
    """Return a sparse tensor of the same pattern."""
    from .. import sparse_compressed_tensor, sparse_coo_tensor

    if sparse.layout == _C.sparse_coo:
        return sparse_coo_tensor(sparse._indices(), values, sparse.shape, is_coalesced=sparse.is_coalesced())

    by_row = sparse.layout in (_C.sparse_csr, _C.sparse_bsr)
    outer = sparse.crow_indices() if by_row else sparse.ccol_indices()
    inner = sparse.col_indices() if by_row else sparse.row_indices()
    return sparse_compressed_tensor(outer, inner, values, sparse.shape, layout=sparse.layout)


def _as_layout(dense, like):
    if like.layout == _C.sparse_coo:
        return dense.to_sparse(like.sparse_dim())
    blocked = like.layout in (_C.sparse_bsr, _C.sparse_bsc)
    return dense.to_sparse(layout=like.layout, blocksize=tuple(like.values().shape[1:3]) if blocked else None)


def varied_inputs(inputs, masked):
    """Return what is moved: the arguments that require a gradient."""
    kinds = (MaskedInput if masked else SparseInput, DenseInput)
    return [
        kinds[x.layout == _C.strided](inputs, i)
        for i, x in enumerate(inputs)
        if isinstance(x, Tensor) and x.requires_grad
    ]


def difference(func, varied, direction, eps):
    """Return the derivative of each output in a direction, by central differences."""

    def described(*args):  # in copies: an output may be a view of the argument, which moves back
        return [(o.shape, o.dtype, components(o).clone()) for o in as_outputs(func(*args))]

    results = [varied.moved(described, direction, step) for step in (eps, -eps)]
    for high, low in zip(*results):
        for what, one, other in zip(("shape", "dtype"), high, low):
            if one != other:
                raise AssertionError(
                    f"gradcheck: func must return outputs with the same {what} when inputs are perturbed, got {one} and {other}"
                )
    return [(high[2] - low[2]) / (2 * eps) for high, low in zip(*results)]


def units(size, like):
    """Yield the directions of the components, one after the other."""
    for position in range(size):
        direction = _C.zeros(size, dtype=real_dtype(like), device=like.device)
        direction[position] = 1
        yield direction


def pulled(output, x, cotangent):
    """Return the product of a cotangent with the derivative of `output` by `x`, None where it does not depend on it."""
    if not output.requires_grad:
        return None
    return _grad([output], [x], [cotangent], retain_graph=True, allow_unused=True)[0]


def tangents(func, inputs, varied, direction, others=None):
    """Return the tangents of all outputs in forward mode, None where an output depends on no dual.

    No argument requires a gradient then. `others(x)` makes the tangents of the other arguments; they have none without it.
    """
    duals = [x.detach() if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
    with dual_level():
        duals[varied.index] = make_dual(duals[varied.index], varied.tangent(direction))
        for i, x in enumerate(inputs):
            if others and i != varied.index and isinstance(x, Tensor) and x.requires_grad:
                duals[i] = make_dual(duals[i], others(duals[i]))
        return [unpack_dual(o).tangent for o in as_outputs(func(*duals))]


def close(a, b, rtol, atol):
    """Return whether all components of `a` are those of `b`, up to atol + rtol * |b|."""
    return bool(_C.le((a - b).abs(), atol + rtol * b.abs()).all())
