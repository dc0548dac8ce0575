"""Jacobians for programs that were written before gradcheck was all there is to call."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import _C
from . import _finite_differences as parts

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


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
    for one in parts.varied_inputs(tuple(inputs), False):
        if wanted is None or any(one.x is t for t in wanted):
            rows = [parts.difference(lambda *args: fn(args), one, u, eps)[0] for u in parts.units(one.size, one.x)]
            found.append(_C.stack(rows))
    return tuple(found)


def get_analytical_jacobian(inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0) -> Any:
    """Return what backward says of the derivative of `output` by each input; kept for old programs.

    Args:
        inputs: the tensors that it was made from.
        output: the result.
        nondet_tol: how much a second backward may differ from the first.
        grad_out: must be 1.0.

    Returns (matrices as of `get_numerical_jacobian`, whether backward gave the same twice, whether the gradients have the
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
    for one in parts.varied_inputs(tuple(inputs), False):
        columns = []
        for unit in parts.units(parts.count(output), output):
            pair = [parts.pulled(output, one.x, parts.shaped(unit, output.detach())) for _ in range(2)]
            first, second = (one.row(g) for g in pair)
            same = same and parts.close(second, first, 0.0, nondet_tol)
            shapes = shapes and (pair[0] is None or pair[0].shape == one.x.shape)
            dtypes = dtypes and (pair[0] is None or pair[0].dtype == one.x.dtype)
            columns.append(first)
        matrices.append(_C.stack(columns, 1))
    return tuple(matrices), same, shapes, dtypes
