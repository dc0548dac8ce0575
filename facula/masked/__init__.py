"""Reduce and normalize only the elements at which a boolean mask is True.

Elements that are masked out take the value that leaves the operation unchanged (0 for sums, 1 for products,
-inf for a maximum, ...). Every function takes `mask`, of any shape that broadcasts with the input, `None` for all
True, and `dtype`, in which it is computed. A reduction over nothing but masked-out elements gives that neutral
value, or NaN for a mean. Long because twenty short functions tell of their arguments one by one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula as _f
from facula._shared.dims import counted_dims

from . import _sparse
from ._elements import (
    _COMPLEX,
    _FLOATS,
    _INTEGER_LIMITS,
    _count,
    _dims,
    _filled,
    _highest,
    _lowest,
    _require_inexact,
    _shown,
    _sum_dtype,
)

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula import Tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip

def sum(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
        mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the sum over dimensions of the elements not masked out; 0 of none.

    Args:
        input: the tensor, strided, or COO or CSR, of which the elements that are not there count as masked out.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input, int64 for integers and bool.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for another sparse layout.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.sum(x, 1, mask=mask)
    tensor([4., 9.])
    """
    dtype = dtype or _sum_dtype(input.dtype)
    if _sparse.is_sparse(input):
        return _sparse.reduce("sum", input, _dims(input, dim), keepdim, dtype, mask, 0)
    return _f.sum(_filled("sum", input.to(dtype), mask, 0), _dims(input, dim), keepdim)


def prod(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
         mask: Tensor | None = None) -> Any:  # fmt: skip
    """Return the product over dimensions of the elements not masked out; 1 of none.

    Args:
        input: the tensor, strided, or COO or CSR, of which the elements that are not there count as masked out.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input, int64 for integers and bool.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for another sparse layout.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.prod(x, 1, mask=mask)
    tensor([ 3., 20.])
    """
    dtype = dtype or _sum_dtype(input.dtype)
    if _sparse.is_sparse(input):
        return _sparse.reduce("prod", input, _dims(input, dim), keepdim, dtype, mask, 1)
    result = _filled("prod", input.to(dtype), mask, 1)
    # A product takes one dimension; from the last one on, the numbers of the others stay right.
    for d in sorted(counted_dims("prod", _dims(input, dim), input.dim()), reverse=True):
        result = _f.prod(result, d, keepdim)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the running sum along a dimension, in which masked-out elements count as 0.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.cumsum(x, 1, mask=mask)
    tensor([[1., 1., 4.],
            [4., 9., 9.]])
    """
    dtype = dtype or input.dtype
    return _f.cumsum(_filled("cumsum", input.to(dtype), mask, 0), dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the running product along a dimension, in which masked-out elements count as 1.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.cumprod(x, 1, mask=mask)
    tensor([[ 1.,  1.,  3.],
            [ 4., 20., 20.]])
    """
    dtype = dtype or input.dtype
    return _f.cumprod(_filled("cumprod", input.to(dtype), mask, 1), dim, dtype=dtype)


def amax(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
         mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the largest of the elements over dimensions that are not masked out; of none -inf, or the smallest number of an
    integer dtype.

    Args:
        input: the tensor, strided, or COO or CSR, of which the elements that are not there count as masked out.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for another sparse layout.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.amax(x, 1, mask=mask)
    tensor([3., 5.])
    """
    dtype = dtype or input.dtype
    if _sparse.is_sparse(input):
        return _sparse.reduce("amax", input, _dims(input, dim), keepdim, dtype, mask, _lowest(dtype))
    return _f.amax(_filled("amax", input.to(dtype), mask, _lowest(dtype)), _dims(input, dim), keepdim)


def amin(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
         mask: Tensor | None = None) -> Any:  # fmt: skip
    """Return the smallest of the elements over dimensions that are not masked out; of none inf, or the largest number of an
    integer dtype.

    Args:
        input: the tensor, strided, or COO or CSR, of which the elements that are not there count as masked out.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for another sparse layout.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.amin(x, 0, mask=mask)
    tensor([1., 5., 3.])
    """
    dtype = dtype or input.dtype
    if _sparse.is_sparse(input):
        return _sparse.reduce("amin", input, _dims(input, dim), keepdim, dtype, mask, _highest(dtype))
    return _f.amin(_filled("amin", input.to(dtype), mask, _highest(dtype)), _dims(input, dim), keepdim)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the position of the largest element that is not masked out.

    Args:
        input: the tensor, strided.
        dim: the dimension; None for the position in the flattened tensor.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which elements are compared, and that of the result; None for that of input, which differs from
            torch.argmax.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.argmax(x, 1, dtype=torch.int64, mask=mask)
    tensor([2, 1])
    """
    dtype = dtype or input.dtype
    return _f.argmax(_filled("argmax", input.to(dtype), mask, _lowest(dtype)), dim, bool(keepdim)).to(dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the position of the smallest element that is not masked out.

    Args:
        input: the tensor, strided.
        dim: the dimension; None for the position in the flattened tensor.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which elements are compared, and that of the result; None for that of input, which differs from
            torch.argmin.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.argmin(x, 1, dtype=torch.int64, mask=mask)
    tensor([0, 0])
    """
    dtype = dtype or input.dtype
    return _f.argmin(_filled("argmin", input.to(dtype), mask, _highest(dtype)), dim, bool(keepdim)).to(dtype)


def mean(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
         mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the mean over dimensions of the elements not masked out; NaN of none.

    Args:
        input: the tensor, strided, or COO or CSR, of which the elements that are not there count as masked out.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for integers and another sparse layout.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.mean(x, 1, mask=mask)
    tensor([2.0000, 4.5000])
    """
    dtype = dtype or input.dtype
    _require_inexact("mean", dtype)
    dims = _dims(input, dim)
    if _sparse.is_sparse(input):
        return _sparse.reduce("mean", input, dims, keepdim, dtype, mask, math.nan)
    if mask is None:
        return _f.mean(input.to(dtype), dims, keepdim)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, mask, dims, keepdim)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: facula.dtype | None = None,
           mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the median along a dimension of the elements not masked out, the lower of two; NaN of none.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; ValueError for integers, and for NaN where a mask is
    given.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.median(x, 1, mask=mask)
    tensor([1., 4.])
    """
    dtype = dtype or input.dtype
    if dtype not in _FLOATS:
        raise ValueError(f"median: expected a floating-point dtype, got {dtype}")
    x = input.to(dtype)
    if mask is None:
        return _f.median(x, dim, keepdim).values
    if bool(_f.any(_f.isnan(x))):
        raise ValueError("median: elements that are not NaN when a mask is given, got NaN")
    return _f.nanmedian(_filled("median", x, mask, math.nan), dim, keepdim).values


def logsumexp(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
              mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the logarithm of the sum over dimensions of the exponentials of the elements not masked out; -inf of none.

    Args:
        input: the tensor, strided.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.logsumexp(x, 1, mask=mask)
    tensor([3.1269, 5.3133])
    """
    dtype = dtype or input.dtype
    x = _filled("logsumexp", input.to(dtype), mask, _lowest(dtype))
    return _f.logsumexp(x, _dims(input, dim), keepdim).to(dtype)


def logaddexp(input: Tensor, other: Tensor, *, dtype: facula.dtype | None = None, input_mask: Any = None,
              other_mask: Any = None) -> Tensor:  # fmt: skip
    """Return ``log(exp(input) + exp(other))``, in which masked-out elements add nothing.

    Args:
        input: the first tensor, floating or complex.
        other: the second tensor, of a shape that broadcasts with the first's.
        dtype: in which it is computed; None for that of input.
        input_mask: bool, which elements of input count; None for all.
        other_mask: bool, which elements of other count; None for all.

    Errors: ValueError for another dtype; IndexError for a mask with more dimensions than its tensor.

    >>> x = torch.tensor([0., 1.])
    >>> torch.masked.logaddexp(x, x, other_mask=torch.tensor([True, False]))
    tensor([0.6931, 1.0000])
    """
    dtype = dtype or input.dtype
    if dtype not in _FLOATS and dtype not in _COMPLEX:
        raise ValueError(f"logaddexp: expected a floating-point dtype, got {dtype}")
    a = _filled("logaddexp", input.to(dtype), input_mask, -math.inf)
    return _f.logaddexp(a, _filled("logaddexp", other.to(dtype), other_mask, -math.inf))


def norm(input: Tensor, ord: float = 2.0, dim: int | None = None, *, keepdim: bool = False, dtype: facula.dtype | None = None,
         mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the vector norm over dimensions of the elements not masked out.

    Args:
        input: the tensor, strided.
        ord: the order, a number; 2 for the root of the sum of squares.
        dim: a dimension or several; None for all.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.norm(x, 1, 1, mask=mask)
    tensor([4., 9.])
    """
    dtype = dtype or input.dtype
    x = _filled("norm", input.to(dtype), mask, math.inf if ord < 0 else 0)
    return _f._C.linalg.vector_norm(x, ord, _dims(input, dim), bool(keepdim))


def _spread(op, input, dim, unbiased, correction, keepdim, dtype, mask, root):
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"{op}: unbiased and correction exclude each other, got both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dtype = dtype or (input.dtype if input.dtype not in _INTEGER_LIMITS else _f.get_default_dtype())
    _require_inexact(op, dtype)
    dims = _dims(input, dim)
    x = input.to(dtype)
    if mask is None:
        return (_f.std if root else _f.var)(x, dims, correction=correction, keepdim=keepdim).to(dtype)
    count = _count(input, mask, dims, True)
    average = sum(x, dims, keepdim=True, mask=mask) / count
    distance = _f.abs(x - average)
    total = sum(distance * distance, dims, keepdim=keepdim, mask=mask)
    count = count if keepdim else _count(input, mask, dims, False)
    result = total / _f.clamp(count - correction, min=0)
    return (_f.sqrt(result) if root else result).to(dtype)


def var(input: Tensor, dim: int | None = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: bool = False,
        dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Any:  # fmt: skip
    """Return the variance over dimensions of the elements not masked out, ``sum((x - mean)**2) / (count - correction)``.

    Args:
        input: the tensor, strided.
        dim: a dimension or several; None for all.
        unbiased: True for a correction of 1, False for 0; not together with correction.
        correction: what is subtracted from the count of the elements; None for 1.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input, the default dtype for integers.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; RuntimeError for both unbiased and correction.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.var(x, 1, mask=mask)
    tensor([2.0000, 0.5000])
    """
    return _spread("var", input, dim, unbiased, correction, bool(keepdim), dtype, mask, False)


def std(input: Tensor, dim: int | None = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: bool = False,
        dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Any:  # fmt: skip
    """Return the standard deviation over dimensions of the elements not masked out, the root of var.

    Args:
        input: the tensor, strided.
        dim: a dimension or several; None for all.
        unbiased: True for a correction of 1, False for 0; not together with correction.
        correction: what is subtracted from the count of the elements; None for 1.
        keepdim: if True, dimensions that are reduced stay, with size 1.
        dtype: in which it is computed; None for that of input, the default dtype for integers.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input; RuntimeError for both unbiased and correction.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.std(x, 1, mask=mask)
    tensor([1.4142, 0.7071])
    """
    return _spread("std", input, dim, unbiased, correction, bool(keepdim), dtype, mask, True)


def softmax(input: Tensor, dim: int, *, dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along a dimension; masked-out elements get 0 and do not count.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.softmax(x, 1, mask=mask)
    tensor([[0.1192, 0.0000, 0.8808],
            [0.2689, 0.7311, 0.0000]])
    """
    dtype = dtype or input.dtype
    return _f.softmax(_filled("softmax", input.to(dtype), mask, _lowest(dtype)), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of softmax along a dimension; masked-out elements get -inf and do not count.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.log_softmax(x, 1, mask=mask)
    tensor([[-2.1269,    -inf, -0.1269],
            [-1.3133, -0.3133,    -inf]])
    """
    dtype = dtype or input.dtype
    return _f.log_softmax(_filled("log_softmax", input.to(dtype), mask, _lowest(dtype)), dim)


def softmin(input: Tensor, dim: int, *, dtype: facula.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Return ``exp(-x) / sum(exp(-x))`` along a dimension; masked-out elements get 0 and do not count.

    Args:
        input: the tensor, strided.
        dim: the dimension; negative ones count from the end.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.softmin(x, 1, mask=mask)
    tensor([[0.8808, 0.0000, 0.1192],
            [0.7311, 0.2689, 0.0000]])
    """
    dtype = dtype or input.dtype
    return _f.softmax(-_filled("softmin", input.to(dtype), mask, _highest(dtype)), dim)


def normalize(input: Tensor, ord: Any, dim: int, *, eps: float = 1e-12, dtype: facula.dtype | None = None,
              mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the input divided by ``max(norm(input, ord), eps)`` along a dimension; masked-out elements get 0 and do not count.

    Args:
        input: the tensor, strided.
        ord: the order of the norm, a number.
        dim: a dimension or several.
        eps: what is divided by at least.
        dtype: in which it is computed; None for that of input.
        mask: bool, of a shape that broadcasts to that of input; only elements where it is True count. None for all.

    Errors: IndexError for a mask with more dimensions than input.

    >>> x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> torch.masked.normalize(x, 1, 1, mask=mask)
    tensor([[0.2500, 0.0000, 0.7500],
            [0.4444, 0.5556, 0.0000]])
    """
    dtype = dtype or input.dtype
    x = input.to(dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled("normalize", x, mask, 0) / _f.clamp(size, min=eps)


class MaskedTensor:
    """Exist for isinstance. Facula has no tensors that carry a mask, so there are no instances.

    Args:
        data, mask, requires_grad: what PyTorch's takes; refused.

    Errors: NotImplementedError when called; the functions of torch.masked take a mask beside the tensor.

    >>> isinstance(torch.ones(2), torch.masked.MaskedTensor)
    False
    """

    def __init__(self, data: Any, mask: Tensor, requires_grad: bool = False) -> None:
        raise NotImplementedError("masked.MaskedTensor: not supported; use the functions with mask=")


def is_masked_tensor(obj: Any) -> bool:
    """Return whether `obj` is a MaskedTensor: always False, as none can be made here.

    Args:
        obj: anything.

    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Any, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """Raise an error: there are no tensors that carry a mask here.

    Args:
        data, mask, requires_grad: what PyTorch's takes.

    Errors: NotImplementedError always; the functions of torch.masked take a mask beside the tensor.

    >>> torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))
    Traceback (most recent call last):
        ...
    NotImplementedError: masked.MaskedTensor: not supported; use the functions with mask=
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Tensor) -> MaskedTensor:
    """Raise an error: there are no tensors that carry a mask here.

    Args:
        data, mask: what PyTorch's takes.

    Errors: NotImplementedError always; the functions of torch.masked take a mask beside the tensor.

    >>> torch.masked.as_masked_tensor(torch.ones(2), torch.tensor([True, False]))
    Traceback (most recent call last):
        ...
    NotImplementedError: masked.MaskedTensor: not supported; use the functions with mask=
    """
    return MaskedTensor(data, mask)
