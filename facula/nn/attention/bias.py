"""Represent causal masks as objects. `scaled_dot_product_attention` accepts them as attn_mask and never builds the mask."""

from __future__ import annotations

import enum
import warnings
from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["causal_upper_left", "causal_lower_right", "CausalVariant", "CausalBias"]


class CausalVariant(enum.IntEnum):
    """Name the corner in which the diagonal of a causal mask ends when the mask is not square.

    >>> from torch.nn.attention.bias import CausalVariant
    >>> CausalVariant.LOWER_RIGHT
    <CausalVariant.LOWER_RIGHT: 2>
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """Represent a causal mask that `scaled_dot_product_attention` accepts as attn_mask; it prints as the bool tensor
    that it stands for.

    Args:
        variant: a `CausalVariant`.
        seq_len_q, seq_len_kv: the numbers of queries and keys.

    Shapes: a mask (seq_len_q, seq_len_kv).

    Errors: AssertionError for another variant; NotImplementedError for all functions but scaled_dot_product_attention. With
    more queries than keys, LOWER_RIGHT warns: the first queries see nothing.

    >>> from torch.nn.attention.bias import CausalBias, CausalVariant
    >>> mask = CausalBias(CausalVariant.LOWER_RIGHT, 2, 3)
    >>> mask
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    >>> q, k, v = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4), torch.arange(3.0).reshape(1, 1, 3, 1)
    >>> F.scaled_dot_product_attention(q, k, v, attn_mask=mask).flatten()
    tensor([0.5000, 1.0000])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Tensor:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: variant must be a CausalVariant, got {type(variant).__name__}")
        return facula.empty(0).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                f"CausalBias: with more queries than keys, {seq_len_q} and {seq_len_kv}, the first queries see nothing",
                stacklevel=2,
            )

    def _materialize(self, device=None):
        """Return the mask as a bool tensor (seq_len_q, seq_len_kv)."""
        shift = self.seq_len_kv - self.seq_len_q if self.variant == CausalVariant.LOWER_RIGHT else 0
        return facula.ones(self.seq_len_q, self.seq_len_kv, dtype=facula.bool, device=device).tril(shift)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Tensor:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            raise NotImplementedError("CausalBias: only scaled_dot_product_attention takes one")
        return _attention(func, *args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._materialize())


def _attention(
    func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):  # fmt: skip
    if is_causal:
        raise ValueError("scaled_dot_product_attention: a CausalBias and is_causal=True exclude each other, got both")
    options = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
    if attn_mask.variant == CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask._materialize(query.device), **options)


def _sizes(name, size):
    if len(size) != 2:
        raise AssertionError(f"{name}: two sizes, of queries and keys, are expected, got {len(size)}")
    return size


def causal_upper_left(*size: int) -> Tensor:
    """Return a mask whose diagonal starts at the first query and key.

    Args:
        size: the number of queries and the number of keys.

    Returns: a `CausalBias` of the shape (queries, keys).

    Errors: AssertionError for another number of sizes.

    >>> from torch.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_sizes("causal_upper_left", size))


def causal_lower_right(*size: int) -> Tensor:
    """Return a mask whose diagonal ends at the last query and key: queries are the last of the sequence.

    Args:
        size: the number of queries and the number of keys.

    Returns: a `CausalBias` of the shape (queries, keys).

    Errors: AssertionError for another number of sizes.

    >>> from torch.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_sizes("causal_lower_right", size))
