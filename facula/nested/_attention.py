"""Compute `nn.MultiheadAttention` on nested tensors: sequences are padded to one length, and the padding is masked."""

from __future__ import annotations

import facula

from ._internal.nested_tensor import NestedTensor
from ._internal.rules import unpadded
from ._strided import StridedNestedTensor, strided_from_list


def _lengths(x):
    if isinstance(x, NestedTensor):
        return x._ragged.sizes
    return [shape[0] for shape in x._shapes]


def _padded(x):
    """Pad as `to_padded_tensor` does, but also tensors whose parts are all empty, which it refuses."""
    if isinstance(x, StridedNestedTensor) and x.numel() == 0:
        return x.values().new_zeros(len(x), 0, max(shape[1] for shape in x._shapes))
    return x.to_padded_tensor(0.0)


def multi_head(module, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights):
    """Return what `module` gives for nested tensors of shape (N, L, E).

    Returns:
        (a nested tensor like `query`, weights of sequences filled up with zeros, or None).

    Errors: AssertionError, as in PyTorch, for masks, other shapes and a module without `batch_first`.
    """
    whole = (query, key, value)
    refused = "MultiheadAttention: nested tensors can only take the fast path, which was refused: "
    if not module.batch_first:
        raise AssertionError(refused + "batch_first was not True, got False")
    if key_padding_mask is not None or attn_mask is not None:
        raise AssertionError(refused + "masks are not supported with NestedTensor, got one")
    if not all(isinstance(x, (NestedTensor, StridedNestedTensor)) and x.dim() == 3 for x in whole):
        raise AssertionError(f"{refused}all inputs must be nested and of 3 dimensions, got {[type(x).__name__ for x in whole]}")
    if len({len(x) for x in whole}) > 1 or _lengths(key) != _lengths(value):
        raise AssertionError(f"{refused}key and value differ, got lengths {[_lengths(x) for x in whole]}")
    # By identity: query, key and value are often one tensor, which is then padded once.
    padded = {id(x): _padded(x) for x in whole}
    query_lengths = facula.tensor(_lengths(query), device=query.device)
    places = facula.arange(padded[id(key)].size(1), device=query.device)
    absent = places >= facula.tensor(_lengths(key), device=query.device)[:, None]
    output, weights = module(
        *[padded[id(x)] for x in whole],
        key_padding_mask=absent, need_weights=need_weights, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    if weights is not None:
        present = facula.arange(weights.size(-2), device=query.device)[:, None] < query_lengths[:, None, None]
        weights = weights * (present if weights.dim() == 3 else present[:, None])
    if isinstance(query, NestedTensor):
        return unpadded(output, query._ragged, 1), weights
    return strided_from_list([row[:length] for row, length in zip(output, _lengths(query), strict=True)]), weights
