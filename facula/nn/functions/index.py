"""Define the embedding functions of nn.functional."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["embedding", "embedding_bag"]


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:  # fmt: skip
    """Return the rows of ``weight``: ``output[...] = weight[input[...]]``.

    Args:
        input: the row numbers, int64 or int32, of any shape.
        weight: the rows, (rows, features).
        padding_idx: the number of a row that gets no gradient.
        max_norm: rows that are picked and longer than this are scaled down to it in place first.
        norm_type: the power p of that norm.
        scale_grad_by_freq: if True, divide gradients by how often a row occurs in the input.
        sparse: if True, make the gradient of ``weight`` a COO tensor.

    Returns: (*input.shape, features).

    Errors: IndexError for a row that does not exist; AssertionError for such a padding_idx; RuntimeError for a weight that is
    no matrix, or row numbers of another dtype.

    >>> weight = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> F.embedding(torch.tensor([2, 1, 2]), weight)
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    if padding_idx is None and max_norm is None:
        return _C.embedding(weight, input, -1, scale_grad_by_freq, sparse)
    if weight.dim() != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {weight.dim()} dimensions")
    rows = weight.size(0)
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError(f"embedding: padding_idx must be within {rows} rows, got {padding_idx}")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        facula.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sums, means or maxima of bags of embeddings, without storing the single embeddings.

    Args:
        input: the row numbers, int64 or int32: (bags, length), or one dimension with ``offsets``.
        weight: the rows, (rows, features).
        offsets: where each bag begins in a one-dimensional input.
        max_norm: rows that are picked and longer than this are scaled down to it in place first.
        norm_type: the power p of that norm.
        scale_grad_by_freq: if True, divide gradients by how often a row occurs in the input.
        mode: 'sum', 'mean' or 'max'.
        sparse: if True, make the gradient of ``weight`` a COO tensor.
        per_sample_weights: factors of the input's shape, for 'sum' only.
        include_last_offset: if True, ``offsets`` ends with the number of all indices.
        padding_idx: the number of a row that bags leave out.

    Returns: (bags, features); zeros for an empty bag.

    Errors: ValueError for another mode, shapes that do not fit, or 'max' with scale_grad_by_freq or sparse;
    NotImplementedError for per_sample_weights of another mode than 'sum'.

    >>> weight = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> F.embedding_bag(torch.tensor([1, 2, 2]), weight, offsets=torch.tensor([0, 2]), mode="sum")
    tensor([[4., 6.],
            [3., 4.]])
    """
    if weight.dtype == facula.int64 and input.is_floating_point():
        warnings.warn("embedding_bag: takes (input, weight), got (weight, input)", stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: per_sample_weights must have the shape of input {tuple(input.shape)}, "
            f"got {tuple(per_sample_weights.shape)}"
        )
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight must have 2 dimensions, got {weight.dim()}")
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode must be {_C._one_of(mode, ('sum', 'mean', 'max'))}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError(
            "embedding_bag: mode 'max' has neither scale_grad_by_freq nor sparse, got one of them"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(f"embedding_bag: a 2-D input takes no offsets, got {type(offsets).__name__}")
        offsets = facula.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        include_last_offset = False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() != 1:
        raise ValueError(f"embedding_bag: input must have 1 or 2 dimensions, got {input.dim()}")
    elif offsets is None or offsets.dim() != 1:
        got = "None" if offsets is None else f"{offsets.dim()} dimensions"
        raise ValueError(f"embedding_bag: a 1-D input needs 1-D offsets, got {got}")
    if max_norm is not None:
        facula.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights needs mode 'sum', got {mode!r}")
    return _C.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
