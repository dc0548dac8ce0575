"""Split batches into pieces, and join results."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import facula
from facula.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks", "sum_reducer"]


class TensorChunkSpec:
    """Name the dimension along which a tensor is cut.

    Args:
        split_dim: the dimension.

    >>> from torch.distributed.pipelining import TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    >>> TensorChunkSpec.from_dict({"mask": 1})
    {'mask': TensorChunkSpec(1)}
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: Any) -> Any:
        """Return one for each number of a tuple.

        Args:
            chunk_dims: numbers of dimensions, which may be nested.
        """
        return pytree.tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """Return one for each number of a dictionary.

        Args:
            chunk_dims: numbers of dimensions by name, which may be nested.
        """
        return pytree.tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Pass the whole value to every piece; of the pieces' values, the first one is the result."""


class _CustomReducer:
    """Join the outputs of the pieces by a function.

    Args:
        init_value: what it begins with.
        reduce_fn: `reduce_fn(so far, value of a piece)`.
    """

    init_value: float

    def __init__(self, init_value: float, reduce_fn: Callable[..., Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn

    def merged(self, values: Sequence[Tensor]) -> Tensor:
        """Return the values of the pieces as one."""
        so_far = self.init_value
        for value in values:
            so_far = self.reduce_fn(so_far, value)
        return so_far


class _LossReducer(_CustomReducer):
    """Join losses."""


sum_reducer: Any = _LossReducer(0.0, operator.add)


def _is_mask(value) -> bool:
    from facula.nn.attention.flex_attention import BlockMask

    return isinstance(value, BlockMask)


def _is_spec(value) -> bool:
    return value is None or value is _Replicate or isinstance(value, (TensorChunkSpec, _Replicate, _CustomReducer))


def _spec_of_each(spec, leaves, structure) -> list:
    """Return the spec of each leaf: one is for all below it."""
    if _is_spec(spec):
        return [spec] * len(leaves)
    found: list[Any] = []

    def spread(part, below):
        if _is_spec(below):
            found.extend([below] * len(pytree.tree_leaves(part)))
            return
        children = part.items() if isinstance(part, dict) else enumerate(part)
        for key, child in children:
            spread(child, below[key])

    try:
        spread(pytree.tree_unflatten(list(range(len(leaves))), structure), spec)
    except (TypeError, KeyError, IndexError):
        raise ValueError(f"pipeline: specs must be nested as the values are, got {spec} for {structure}") from None
    return found


def _cut_mask(mask, count: int) -> list:
    """Return the masks of pieces of a batch."""
    if mask.kv_num_blocks.shape[0] == 1:
        return [mask] * count
    names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
    parts = [[None] * count if getattr(mask, n) is None else facula.tensor_split(getattr(mask, n), count) for n in names]
    pieces, before = [], 0
    for blocks in zip(*parts):

        # The mask counts from the beginning of the whole batch; the default argument holds the value of this round.
        def inside(b, h, q, k, before=before):
            return mask.mask_mod(b + before, h, q, k)

        lengths = mask.seq_lengths
        pieces.append(type(mask).from_kv_blocks(*blocks, BLOCK_SIZE=mask.BLOCK_SIZE, mask_mod=inside, seq_lengths=lengths))
        before += blocks[0].shape[0]
    return pieces


def _cut_spread(tensor, count: int, dim: int) -> list:
    """Return the pieces of a DTensor: each process cuts its part, so that pieces lie as the whole does."""
    from ..tensor import DTensor

    sizes = [tensor.shape[dim] // count + (i < tensor.shape[dim] % count) for i in range(count)]
    return [
        DTensor.from_local(
            part, tensor.device_mesh, tensor.placements, run_check=False, stride=tensor.stride(),
            shape=facula.Size([*tensor.shape[:dim], size, *tensor.shape[dim + 1 :]]),
        )
        for part, size in zip(facula.tensor_split(tensor.to_local(), count, dim), sizes)
    ]  # fmt: skip


def _cut(leaf, count: int, spec) -> list:
    is_mask = _is_mask(leaf)
    whole = spec is _Replicate or isinstance(spec, _Replicate)
    if whole or not (is_mask or isinstance(leaf, facula.Tensor)) or (not is_mask and leaf.dim() == 0):
        return [leaf] * count
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    if is_mask and dim != 0:
        raise ValueError(f"pipeline: a BlockMask is cut along its batch, dimension 0, got {dim}")
    shape = tuple(leaf.shape)
    if shape[dim] < count and not (is_mask and shape[0] == 1):
        raise ValueError(f"pipeline: a batch must have an element for each of {count} pieces, got shape {shape}")
    if is_mask:
        return _cut_mask(leaf, count)
    return _cut_spread(leaf, count, dim % len(shape)) if hasattr(leaf, "placements") else facula.tensor_split(leaf, count, dim)


def _pieces(value, count: int, spec):
    """Return `count` pieces of nested tensors; what is no tensor is in each of them."""
    leaves, structure = pytree.tree_flatten(value, is_leaf=_is_mask)
    cut = [_cut(leaf, count, s) for leaf, s in zip(leaves, _spec_of_each(spec, leaves, structure))]
    return [pytree.tree_unflatten([leaf[i] for leaf in cut], structure) for i in range(count)]


def split_args_kwargs_into_chunks(args: Any, kwargs: Any, chunks: int, args_chunk_spec: Any = None,
                                  kwargs_chunk_spec: Any = None) -> tuple[list[tuple[Any, ...]], list[dict[Any, Any]]]:
    """Return ([args of each piece], [kwargs of each piece]) of a batch. What is no tensor, or has no dimension, is in each
    piece.

    Args:
        args: a tuple of arguments, which may be nested.
        kwargs: arguments by name, or None.
        chunks: how many pieces.
        args_chunk_spec: a TensorChunkSpec for each argument; None for dimension 0.
        kwargs_chunk_spec: the same by name.

    Errors: ValueError where a tensor has fewer elements than there are pieces, and for specs that do not fit.

    >>> from torch.distributed.pipelining import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((torch.arange(4),), {"scale": 3}, chunks=2)
    ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'scale': 3}, {'scale': 3}])
    """
    specs = args_chunk_spec or (None,) * len(args)
    if len(specs) != len(args):
        raise ValueError(f"pipeline: expected a spec for each of {len(args)} arguments, got {len(specs)}")
    positional = [_pieces(a, chunks, spec) for a, spec in zip(args, specs)]
    named = {k: _pieces(v, chunks, (kwargs_chunk_spec or {}).get(k)) for k, v in (kwargs or {}).items()}
    return (
        [tuple(p[i] for p in positional) for i in range(chunks)],
        [{k: v[i] for k, v in named.items()} for i in range(chunks)],
    )


def _merged(values, spec):
    if isinstance(spec, _CustomReducer):
        return spec.merged(values)
    whole = spec is _Replicate or isinstance(spec, _Replicate)
    if whole or not isinstance(values[0], facula.Tensor) or not values[0].dim():
        return values[0]
    return facula.cat(values, spec.split_dim if isinstance(spec, TensorChunkSpec) else 0)


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any = None) -> tuple[Tensor, Tensor]:
    """Return the pieces of a batch put together.

    Args:
        chunks: the values of the pieces, which may be nested.
        chunk_spec: a TensorChunkSpec, or several, nested as the values are; None for dimension 0.

    >>> from torch.distributed.pipelining import TensorChunkSpec, merge_chunks
    >>> merge_chunks([torch.zeros(2, 1), torch.ones(2, 1)], TensorChunkSpec(1))
    tensor([[0., 1.],
            [0., 1.]])
    """
    flat = [pytree.tree_flatten(c) for c in chunks]
    structure = flat[0][1]
    columns = list(zip(*(leaves for leaves, _ in flat)))
    specs = _spec_of_each(chunk_spec, columns, structure)
    return pytree.tree_unflatten([_merged(values, spec) for values, spec in zip(columns, specs)], structure)
