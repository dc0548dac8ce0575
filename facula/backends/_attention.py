"""Hold which implementations of attention a program allows, and their order; src/composite/attention_choice.cpp has the
policy.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
from typing import Any

from facula import _C
from facula._C import Tensor


class SDPBackend(enum.Enum):
    """Name the implementations of `scaled_dot_product_attention`, for `sdpa_kernel`; the numbers are PyTorch's.

    >>> nn.attention.SDPBackend.FLASH_ATTENTION
    <SDPBackend.FLASH_ATTENTION: 1>
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __hash__(self) -> int:
        return self.value


SDPBackend.__module__ = "facula.nn.attention"
LISTED = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
)
_PRESET = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)
_allowed = dict.fromkeys(LISTED, True)
_order = _PRESET


def is_allowed(backend):
    """Return whether the program allows it."""
    return _allowed[backend]


def allow(backend, whether):
    """Allow or forbid one."""
    if not isinstance(whether, bool):
        raise RuntimeError(f"attention: expected True or False, got {type(whether).__name__}")
    _allowed[backend] = whether
    _C._attention_allow(int(backend), whether)


def order():
    """Return all of them, first those that are preferred."""
    return _order


def set_order(first):
    """Put those of `first` first, in that order."""
    global _order
    first = [backend for backend in first if backend in LISTED]
    _order = (*first, *(backend for backend in _PRESET if backend not in first))
    _C._attention_order(tuple(map(int, _order)), True)


@contextlib.contextmanager
def kept():
    """Undo, at the end, what is set inside."""
    global _order
    allowed, before = dict(_allowed), _order
    try:
        yield
    finally:
        for backend, whether in allowed.items():
            allow(backend, whether)
        _order = before
        _C._attention_order(tuple(map(int, before)), before is not _PRESET)


class SDPAParams:
    """Describe a call of scaled_dot_product_attention, for `can_use_flash_attention` and related functions.

    Args:
        query, key, value: the tensors, of shape (batch, heads, length, width).
        attn_mask: a mask, or None.
        dropout: the probability of dropout.
        is_causal: whether a position sees only those before it.
        enable_gqa: whether `key` and `value` may have fewer heads.

    >>> x = torch.rand(1, 2, 4, 8)
    >>> params = torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False)
    >>> params.is_causal
    True
    """

    query: Tensor
    key: Any
    value: Any
    attn_mask: Tensor
    dropout: float
    is_causal: bool
    enable_gqa: Any

    def __init__(self, query: Tensor, key: Any, value: Any, attn_mask: Tensor, dropout: float, is_causal: bool,
                 enable_gqa: Any) -> None:  # fmt: skip
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use(backend, params, debug):
    """Return whether a backend can compute the call on a CUDA device; with debug a warning says why not."""
    p = params
    given = p.query, p.key, p.value, p.attn_mask, p.dropout, p.is_causal, p.enable_gqa
    why = "the query is not on a CUDA device"
    if p.query.is_cuda:
        why = _C._attention_why_not(int(backend), *given)
    if why and debug:
        warnings.warn(f"{backend.name} is not used: {why}", stacklevel=3)
    return not why
