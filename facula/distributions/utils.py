"""Helpers of the families: broadcasting of parameters, probabilities and logits, properties computed on demand."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING

import facula
from facula.nn.functional import softmax
from facula.overrides import is_tensor_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor

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
    """The values as tensors of one shape; numbers take dtype and device of the first tensor.

    Raises:
        ValueError: a value is neither a number nor a tensor (or something like it).
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
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def clamp_probs(probs: Tensor | float) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's eps, so that their logarithms are finite."""
    eps = facula.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor | float, is_binary: bool = False) -> Tensor:
    """Sigmoid of log-odds (binary), or softmax over the last dimension."""
    return facula.sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor | float, is_binary: bool = False) -> Tensor:
    """Log-odds of clamped probabilities (binary), or their logarithms."""
    clamped = clamp_probs(probs)
    return facula.log(clamped) - facula.log1p(-clamped) if is_binary else facula.log(clamped)


class lazy_property:
    """A method as an attribute that is computed when first asked for, with gradients, and then kept."""

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
    """What the class shows: documentation tools look for properties."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Tensor:
    """The elements of (..., n, n) on and below diagonal `diag`, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag must lie in [{-n}, {n - 1}], got {diag}")
    rows, columns = facula.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of tril_matrix_to_vec; the other elements are zero."""
    # len = n (n + 1 + 2 diag) / 2, less a triangle above the matrix' edge for diag < 0 or beside it for diag > 0
    length, step = vec.shape[-1], 1 + 2 * diag
    n = round((-step + (step * step + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = facula.tril_indices(n, n, diag, device=vec.device)
    if len(rows) != length:
        raise ValueError(f"vec_to_tril_matrix: no triangle with diagonal {diag} has that many elements, got {length}")
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat
