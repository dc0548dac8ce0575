"""Compute attention over sequences of different lengths that are packed one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import facula

from .flex_attention import AuxRequest as _FlexAux
from .flex_attention import create_block_mask, flex_attention

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["varlen_attn", "varlen_attn_out", "AuxRequest"]


class AuxRequest(NamedTuple):
    """Request what `varlen_attn` returns besides the result.

    Args:
        lse: if True, the logarithms of the sums of exponentials.

    >>> from torch.nn.attention.varlen import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True)
    """

    lse: bool = False


def varlen_attn(query: Tensor, key: Any, value: Any, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int, *,
                return_aux: AuxRequest | None = None, scale: float | None = None, window_size: Sequence[int] = (-1, -1),
                enable_gqa: bool = False, seqused_k: Any = None, block_table: Any = None,
                num_splits: Any = None) -> Tensor | Any:  # fmt: skip
    """Return `scaled_dot_product_attention` of sequences of different lengths, each by itself.

    Args:
        query: the queries, (sum of lengths, H, E).
        key, value: the keys and values, (sum of lengths, H_k, E).
        cu_seq_q, cu_seq_k: (N + 1): where each sequence starts, and the end; cu_seq_k None for the same as cu_seq_q.
        max_q, max_k: the longest lengths, accepted without effect.
        return_aux: an `AuxRequest`; with lse=True, also (H, sum of lengths): the logarithms of the sums of exponentials.
        scale: the factor of scores. Default: 1 / sqrt(E).
        window_size: the numbers of keys before and after its own position, counted from the end, that a query sees; -1: all.
            (-1, 0) is causal.
        enable_gqa: if True, there may be fewer key than query heads.
        seqused_k, block_table: a paged cache, which is not supported.
        num_splits: accepted without effect.

    Returns: (sum of lengths, H, E), or a pair with what return_aux requests.

    Errors: NotImplementedError for a paged cache (seqused_k, block_table); ValueError for other numbers of sequences.

    >>> from torch.nn.attention.varlen import varlen_attn
    >>> query = key = torch.zeros(5, 1, 2)
    >>> value = torch.arange(5.0).reshape(5, 1, 1)
    >>> ends = torch.tensor([0, 2, 5])
    >>> varlen_attn(query, key, value, ends, ends, 3, 3, window_size=(-1, 0)).flatten()
    tensor([0.0000, 0.5000, 2.0000, 2.5000, 3.0000])
    """
    for name, given in (("seqused_k", seqused_k), ("block_table", block_table)):
        if given is not None:
            raise NotImplementedError(f"varlen_attn: {name}, a paged cache, is not supported")
    ends_q = cu_seq_q.tolist()
    ends_k = ends_q if cu_seq_k is None else cu_seq_k.tolist()
    if len(ends_q) != len(ends_k):
        raise ValueError(f"varlen_attn: as many key as query sequences, got {len(ends_q) - 1} and {len(ends_k) - 1}")
    outputs, sums = [], []
    for q_from, q_to, k_from, k_to in zip(ends_q, ends_q[1:], ends_k, ends_k[1:]):
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (query[q_from:q_to], key[k_from:k_to], value[k_from:k_to]))
        mask = _window(q_to - q_from, k_to - k_from, window_size, query.device)
        out, aux = flex_attention(
            q, k, v, block_mask=mask, scale=scale, enable_gqa=enable_gqa, return_aux=_FlexAux(lse=True)
        )
        outputs.append(out.squeeze(0).transpose(0, 1))
        sums.append(aux.lse.squeeze(0))
    result = facula.cat(outputs) if outputs else query.new_empty(0, query.shape[1], value.shape[-1])
    return (result, facula.cat(sums, 1)) if return_aux is not None and return_aux.lse else result


def _window(q_len, kv_len, window_size, device):
    left, right = window_size
    if left < 0 and right < 0:
        return None
    shift = kv_len - q_len

    def seen(b, h, q, k):
        result = k == k
        result = result & (k >= q + shift - left) if left >= 0 else result
        return result & (k <= q + shift + right) if right >= 0 else result

    return create_block_mask(seen, 1, 1, q_len, kv_len, device)


def varlen_attn_out(out: Tensor, query: Tensor, key: Any, value: Any, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: Any,
                    max_k: int, **options: Any) -> Tensor | Any:  # fmt: skip
    """Compute `varlen_attn` into a tensor, and return it (with the logarithms, where they are requested).

    Args:
        out: the tensor into which the result is written, (sum of lengths, H, E).
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k: the arguments of `varlen_attn`.
        options: its other arguments, by name.

    Errors: those of `varlen_attn`.

    >>> from torch.nn.attention.varlen import varlen_attn_out
    >>> query = key = torch.zeros(2, 1, 2)
    >>> value, ends = torch.tensor([[[1.0]], [[3.0]]]), torch.tensor([0, 2])
    >>> varlen_attn_out(torch.empty(2, 1, 1), query, key, value, ends, ends, 2, 2).flatten()
    tensor([2., 2.])
    """
    result = varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **options)
    if isinstance(result, tuple):
        return out.copy_(result[0]), result[1]
    return out.copy_(result)
