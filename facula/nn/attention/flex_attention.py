"""Attention whose scores and mask are functions of the position.

A `score_mod` maps (score, batch, head, query index, key index) to a score; a `mask_mod` maps the four indices to True
where a query sees a key. Both are called once, with int64 tensors that broadcast to (B, H, Q_LEN, KV_LEN): they are written
in element-wise ops and may index other tensors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import facula
from facula import Tensor
from facula.nn.modules._home import belong_to

from ._block_mask import (
    _DEFAULT_BLOCK_SIZE,
    BlockMask,
    _indices,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions", "create_block_mask", "create_mask",
    "or_masks", "and_masks", "noop_mask",
]  # fmt: skip


_DEFAULT_SPARSE_BLOCK_SIZE = _DEFAULT_BLOCK_SIZE
belong_to(__name__, BlockMask)


class AuxRequest(NamedTuple):
    """What `flex_attention` gives besides the result.

    Args:
        lse: whether the logarithm of the sum of exponentials of the scores of each query.
        max_scores: whether the largest score of each query.

    >>> from torch.nn.attention.flex_attention import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for with an `AuxRequest`; None for the rest.

    Args:
        lse: (B, H, Q_LEN), the logarithm of the sum of exponentials of the scores.
        max_scores: (B, H, Q_LEN), the largest scores.

    >>> from torch.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> _, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux.lse, aux.max_scores
    (tensor([[[1.3863, 1.3863, 1.3863, 1.3863]]]), None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


FlexKernelOptions = TypedDict(
    "FlexKernelOptions",
    {
        **dict.fromkeys(
            "num_warps num_stages BLOCK_M BLOCK_N BLOCK_M1 BLOCK_N1 BLOCK_M2 BLOCK_N2 kpack matrix_instr_nonkdim "
            "waves_per_eu".split(),
            int,
        ),
        **dict.fromkeys(
            "PRESCALE_QK ROWS_GUARANTEED_SAFE BLOCKS_ARE_CONTIGUOUS WRITE_DQ FORCE_USE_FLEX_ATTENTION USE_TMA".split(), bool
        ),
        "BACKEND": str,
    },
    total=False,
)
FlexKernelOptions.__doc__ = """Options of PyTorch's compiled kernels, a dict: `flex_attention` takes and ignores them.

>>> from torch.nn.attention.flex_attention import FlexKernelOptions
>>> FlexKernelOptions(BLOCK_M=64, num_warps=4)
{'BLOCK_M': 64, 'num_warps': 4}
"""


def _check(query, key, value, block_mask, enable_gqa):
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError(
            f"flex_attention: query, key and value must have 4 dimensions, got {query.dim()}, {key.dim()} and {value.dim()}"
        )
    (b_q, h_q, q_len, e), (b_k, h_k, kv_len, _) = query.shape, key.shape
    if not enable_gqa and h_q != h_k:
        raise ValueError(f"flex_attention: as many key heads as query heads, or enable_gqa=True, got {h_q} and {h_k} heads")
    if enable_gqa and h_q % h_k:
        raise ValueError(f"flex_attention: the query heads must be a multiple of the key heads, got {h_q} and {h_k}")
    if b_q != b_k and not (b_k == 1 or (b_q == 1 and block_mask is not None)):
        raise ValueError(f"flex_attention: query and key of one batch size, got {b_q} and {b_k}")
    if key.shape[-1] != e or value.shape[:-1] != key.shape[:-1]:
        raise ValueError(
            f"flex_attention: query and key must have one head size, key and value one length, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if block_mask is not None and block_mask.shape[-2:] != (q_len, kv_len):
        raise ValueError(
            f"flex_attention: the block_mask is for lengths {tuple(block_mask.shape[-2:])}, got {(q_len, kv_len)}"
        )


def _seen(block_mask, indices, q_len, kv_len):
    """The bool mask of a BlockMask: within the blocks that are there, what mask_mod says."""
    rows, columns = block_mask.BLOCK_SIZE
    there = block_mask.to_dense().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    there = there[..., :q_len, :kv_len].to(facula.bool)
    return there & block_mask.mask_mod(*indices)


def flex_attention(query: Tensor, key: Any, value: Any, score_mod: Callable[..., Any] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Any = None, *,
                   return_aux: AuxRequest | None = None) -> Any:  # fmt: skip
    """``softmax(score_mod(query @ key.T * scale)) @ value``, where pairs that the mask hides are left out.

    Args:
        query: (B, H, Q_LEN, E).
        key: (B, H or fewer with enable_gqa, KV_LEN, E).
        value: (B, as key, KV_LEN, E_v).
        score_mod: (score, batch, head, query index, key index) -> score, or None. It is called once, with tensors.
        block_mask: a `BlockMask`, or None for everything.
        scale: a factor of scores; default: 1 / sqrt(E).
        enable_gqa: whether there may be fewer key than query heads, of which they are a divisor.
        return_lse: whether to give (result, logarithm of the sum of exponentials of the scores).
        kernel_options: of compiled kernels: accepted, and without effect.
        return_aux: an `AuxRequest`, to give (result, `AuxOutput`).

    A query that sees nothing gives zeros. Scores are computed in float32, for float64 in float64.

    Errors: NotImplementedError for other than 4 dimensions; ValueError for shapes that do not fit, or return_lse with
    return_aux.

    >>> from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> query = key = torch.zeros(1, 1, 3, 2)
    >>> value = torch.arange(3.0).reshape(1, 1, 3, 1)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 3, 3)
    >>> flex_attention(query, key, value, block_mask=causal).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    >>> flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + 100.0 * (k == 2)).flatten()
    tensor([2., 2., 2.])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_lse or return_aux, got both")
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    wide = facula.float64 if query.dtype == facula.float64 else facula.float32
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * scale
    indices = _indices(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *indices).to(wide)
    if block_mask is not None:
        seen = _seen(block_mask, indices, *scores.shape[-2:])
        scores = scores.masked_fill(~seen, -math.inf)
    top = scores.detach().amax(-1, keepdim=True)
    weights = (scores - top.masked_fill(top == -math.inf, 0.0)).exp()
    total = weights.sum(-1, keepdim=True)
    result = ((weights / total.masked_fill(total == 0, 1.0)) @ value.to(wide)).to(query.dtype)
    if not return_lse and return_aux is None:
        return result
    lse = (total.log() + top).squeeze(-1)
    if return_lse:
        return result, lse
    return result, AuxOutput(lse if return_aux.lse else None, top.squeeze(-1) if return_aux.max_scores else None)
