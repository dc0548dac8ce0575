"""Define the activation functions of nn.functional.

Each is one native kernel (or a short formula). ``inplace=True`` writes the result into the input and returns
it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C import rrelu_

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["glu", "gumbel_softmax", "hardtanh", "log_softmax", "rrelu", "softmax", "softmin"]

_nn = _C.nn_functional


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Apply leaky ReLU with random slopes: ``x`` where it is at least 0, ``slope * x`` elsewhere.

    Args:
        input: the values, of any shape.
        lower, upper: in training every slope is drawn from U(lower, upper), otherwise all are their mean.
        training: if True, draw the slopes.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: RuntimeError for a lower greater than upper.

    >>> F.rrelu(torch.tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return (rrelu_ if inplace else facula.rrelu)(input, lower, upper, training)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``x`` limited to [min_val, max_val].

    Args:
        input: the values, of any shape.
        min_val, max_val: the limits.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a min_val greater than max_val.

    >>> F.hardtanh(torch.tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val, got {min_val} and {max_val}")
    return _nn.hardtanh(input, min_val, max_val, inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the gated linear unit: ``a * sigmoid(b)``, where a and b are the two halves of the input along ``dim``.

    Args:
        input: the values, of an even size along dim.
        dim: the dimension that is halved.

    Returns: a tensor of the shape of input with half the size along dim.

    Errors: RuntimeError for a tensor without dimensions or an odd size; IndexError for a dim that the input does not have.

    >>> F.glu(torch.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu: the input must have at least one dimension, got a 0-dimensional tensor")
    return _nn.glu(input, dim)


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    """Return the dimension that softmax and friends take when the caller gives none: 0 for 0, 1 and 3 dimensions,
    else 1.
    """
    warnings.warn(
        f"{name}: give dim explicitly; guessing it is deprecated, got dim=None", stacklevel=stacklevel
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: facula.dtype | None = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along a dimension: positive numbers whose sum is 1.

    Args:
        input: the values, of any shape.
        dim: the dimension of the sums. None is deprecated and warns: it stands for 0 with 0, 1 or 3 dimensions, otherwise for
            1.
        dtype: the dtype to which the input is converted first. Default: that of input.

    Returns: a tensor of the shape of input.

    Errors: IndexError for a dim that the input does not have.

    >>> F.softmax(torch.tensor([[0.0, 1.0], [2.0, 2.0]]), dim=1)
    tensor([[0.2689, 0.7311],
            [0.5000, 0.5000]])
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return _C.softmax(input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: facula.dtype | None = None) -> Tensor:
    """Return ``softmax(-input, dim)``: the smallest number gets the largest share.

    Args:
        input: the values, of any shape.
        dim: the dimension of the sums. None is deprecated and warns: it stands for 0 with 0, 1 or 3 dimensions, otherwise for
            1.
        dtype: the dtype to which the input is converted first. Default: that of input.

    Returns: a tensor of the shape of input.

    Errors: IndexError for a dim that the input does not have.

    >>> F.softmin(torch.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return _C.softmax(-input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: facula.dtype | None = None) -> Tensor:
    """Return ``x - log(sum(exp(x)))`` along a dimension: the logarithm of `softmax` without its overflow and loss of digits.

    Args:
        input: the values, of any shape.
        dim: the dimension of the sums. None is deprecated and warns: it stands for 0 with 0, 1 or 3 dimensions, otherwise for
            1.
        dtype: the dtype to which the input is converted first. Default: that of input.

    Returns: a tensor of the shape of input.

    Errors: IndexError for a dim that the input does not have.

    >>> F.log_softmax(torch.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return _C.log_softmax(input, dim, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a sample of the Gumbel-softmax distribution: ``softmax((logits + gumbel noise) / tau)`` along a dimension.

    Args:
        logits: unnormalized log-probabilities, (..., classes).
        tau: the temperature; the smaller, the nearer to one-hot.
        hard: if True, return a one-hot result, with the gradient of the soft sample.
        eps: without effect; another value than the default warns.
        dim: the dimension of the classes.

    Returns: a tensor of the shape of logits.

    Errors: IndexError for a dim that logits does not have; RuntimeError for integers.

    >>> sample = F.gumbel_softmax(torch.tensor([[0.1, 0.2, 0.7]]).log(), hard=True)
    >>> sample.sum(), sample.max()
    (tensor(1.), tensor(1.))
    """
    if eps != 1e-10:
        warnings.warn(f"gumbel_softmax: eps has no effect and is deprecated, got {eps}", stacklevel=2)
    # Minus the logarithm of an exponential value is a Gumbel value.
    gumbels = -facula.empty_like(logits, memory_format=facula.contiguous_format).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = facula.zeros_like(logits, memory_format=facula.contiguous_format).scatter_(dim, index, 1.0)
    # The value is one_hot, up to rounding; the gradient is that of soft.
    return one_hot - soft.detach() + soft
