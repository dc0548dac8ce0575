"""Batches in pieces."""

from __future__ import annotations

import facula
from facula.utils import _pytree as pytree

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Along which dimension a tensor is cut.

    Args:
        split_dim: the dimension.
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"


def _pieces(value, count: int, spec):
    """`count` pieces of nested tensors; what is no tensor is in each of them."""
    leaves, structure = pytree.tree_flatten(value)
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    cut = []
    for leaf in leaves:
        if not isinstance(leaf, facula.Tensor) or leaf.dim() == 0:
            cut.append([leaf] * count)
            continue
        if leaf.shape[dim] < count:
            shape = tuple(leaf.shape)
            raise ValueError(f"pipeline: a batch must have an element for each of {count} pieces, got shape {shape}")
        cut.append(facula.tensor_split(leaf, count, dim))
    return [pytree.tree_unflatten([leaf[i] for leaf in cut], structure) for i in range(count)]


def split_args_kwargs_into_chunks(args, kwargs, chunks: int, args_chunk_spec=None, kwargs_chunk_spec=None):
    """([args of each piece], [kwargs of each piece]), cut along dimension 0 or where the specs say."""
    specs = args_chunk_spec or (None,) * len(args)
    positional = [_pieces(a, chunks, spec) for a, spec in zip(args, specs)]
    named = {k: _pieces(v, chunks, (kwargs_chunk_spec or {}).get(k)) for k, v in (kwargs or {}).items()}
    return (
        [tuple(p[i] for p in positional) for i in range(chunks)],
        [{k: v[i] for k, v in named.items()} for i in range(chunks)],
    )


def merge_chunks(chunks, chunk_spec=None):
    """The pieces put together."""
    flat = [pytree.tree_flatten(c) for c in chunks]
    dim = chunk_spec.split_dim if isinstance(chunk_spec, TensorChunkSpec) else 0
    merged = [
        facula.cat(leaves, dim) if isinstance(leaves[0], facula.Tensor) and leaves[0].dim() else leaves[0]
        for leaves in zip(*(leaves for leaves, _ in flat))
    ]
    return pytree.tree_unflatten(merged, flat[0][1])
