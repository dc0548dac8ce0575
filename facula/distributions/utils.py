"""Define helpers of the families: broadcasting of parameters, probabilities and logits, properties computed on demand."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.nn.functional import softmax
from facula.overrides import is_tensor_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

euler_constant: float = 0.57721566490153286060  # Euler and Mascheroni's

__all__ = [
    "broadcast_all",
    "logits_to_probs",
    "clamp_probs",
    "probs_to_logits",
    "lazy_property",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Return the values as tensors of one shape.

    Args:
        values: numbers, which take dtype and device of the first tensor, and tensors.

    Returns: a tuple of tensors of the broadcast shape.

    Errors: ValueError for a value that is neither, nor something like a tensor; RuntimeError for shapes that do not broadcast.

    >>> from torch.distributions.utils import broadcast_all
    >>> broadcast_all(1.0, torch.tensor([2.0, 3.0]))
    (tensor([1., 1.]), tensor([2., 3.]))
    """
    for value in values:
        if not (is_tensor_like(value) or isinstance(value, Number)):
            raise ValueError(f"broadcast_all: expected numbers and tensors, got {type(value).__name__}")
    if not all(map(is_tensor_like, values)):
        model = next((v for v in values if isinstance(v, facula.Tensor)), None)
        options = {} if model is None else {"dtype": model.dtype, "device": model.device}
        if model is None:
            options["dtype"] = facula.get_default_dtype()
        values = [v if is_tensor_like(v) else facula.tensor(v, **options) for v in values]
    return facula.broadcast_tensors(*values)


def _standard_normal(shape, dtype, device):
    return facula.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """Return the sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def clamp_probs(probs: Tensor | float) -> Tensor:
    """Return probabilities kept away from 0 and 1 by the dtype's eps, so that their logarithms are finite.

    Args:
        probs: a floating-point tensor.

    Returns: a tensor of the shape of probs.

    >>> torch.distributions.utils.clamp_probs(torch.tensor([0.0, 0.5])).log()
    tensor([-15.9424,  -0.6931])
    """
    eps = facula.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor | float, is_binary: bool = False) -> Tensor:
    """Return the probabilities of log-odds or of logarithms of weights.

    Args:
        logits: a tensor.
        is_binary: if True, logits are log-odds, whose sigmoid is returned, otherwise logarithms, whose softmax over the last
            dimension is.

    Returns: a tensor of the shape of logits.

    >>> torch.distributions.utils.logits_to_probs(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return facula.sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor | float, is_binary: bool = False) -> Tensor:
    """Return the logarithms or log-odds of probabilities, which are kept away from 0 and 1.

    Args:
        probs: a floating-point tensor.
        is_binary: if True, return log-odds.

    Returns: a tensor of the shape of probs.

    >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.25, 0.75]))
    tensor([-1.3863, -0.2877])
    """
    clamped = clamp_probs(probs)
    return facula.log(clamped) - facula.log1p(-clamped) if is_binary else facula.log(clamped)


class lazy_property:
    """Make a method an attribute that is computed when it is first read, with gradients, and then stored.

    Args:
        wrapped: the method.

    >>> class Circle:
    ...     radius = 2.0
    ...     @torch.distributions.utils.lazy_property
    ...     def area(self):
    ...         print("computed")
    ...         return 3.0 * self.radius**2
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    24.0
    """

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        self.__name__: str = wrapped.__name__
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with facula.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """Appear as a property in the class, because documentation tools look for properties."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Tensor:
    """Return the elements of (..., n, n) on and below a diagonal, row by row.

    Args:
        mat: the matrices.
        diag: which diagonal, 0 for the main one, positive ones above it.

    Returns: (..., count), with count elements of each triangle.

    Errors: ValueError for a diag outside of [-n, n - 1].

    >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag must lie in [{-n}, {n - 1}], got {diag}")
    rows, columns = facula.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the inverse of tril_matrix_to_vec; the other elements are zero.

    Args:
        vec: the elements, (..., count).
        diag: which diagonal, 0 for the main one, positive ones above it.

    Returns: (..., n, n).

    Errors: ValueError where no triangle with that diagonal has so many elements.

    >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1, 3, 4]))
    tensor([[1, 0],
            [3, 4]])
    """
    # len = n (n + 1 + 2 diag) / 2, less a triangle above the matrix' edge for diag < 0 or beside it for diag > 0
    length, step = vec.shape[-1], 1 + 2 * diag
    n = round((-step + (step * step + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = facula.tril_indices(n, n, diag, device=vec.device)
    if len(rows) != length:
        raise ValueError(f"vec_to_tril_matrix: no triangle with diagonal {diag} has that many elements, got {length}")
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat
