"""Define the linear functions of nn.functional, distances, and products of groups of matrices or of matrices with scales."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """Name how many elements share a scale in `scaled_mm`: all, those of a row, or those of a block whose size the name
    states.

    >>> F.ScalingType.RowWise
    <ScalingType.RowWise: 1>
    """

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.IntEnum):
    """Name how the scales of `scaled_mm` lie in memory: in their order, or in blocks of 32 x 4 x 4 that some GPUs read.

    >>> F.SwizzleType.NO_SWIZZLE.value
    0
    """

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
               out_dtype: facula.dtype | None = None) -> Tensor:  # fmt: skip
    """Return one product of matrices for each of G groups.

    Args:
        mat_a, mat_b: (G, n, k) and (G, k, m); or, with `offs`, one or both without the first dimension, which has the
            groups one after the other: the rows of mat_a, the columns of mat_b, or, of both, what is summed over.
        offs: (G,), int32: where each group ends.
        bias: a tensor added to each group's product, or None.
        out_dtype: the dtype of the result. Default: that of mat_a.

    Returns:
        (rows of mat_a, m), (n, columns of mat_b), or else (G, n, m). What lies behind the last offset is left out; of rows
        and columns the result has zeros there.

    Errors: RuntimeError for shapes that do not fit, or offsets without a 2-D operand.

    >>> rows, experts = torch.ones(3, 2), torch.tensor([[[1.0], [1.0]], [[5.0], [5.0]]])
    >>> F.grouped_mm(rows, experts, offs=torch.tensor([1, 3], dtype=torch.int32))
    tensor([[ 2.],
            [10.],
            [10.]])
    """
    for name, mat in (("mat_a", mat_a), ("mat_b", mat_b)):
        if mat.dim() not in (2, 3):
            raise RuntimeError(f"grouped_mm: {name} must have 2 or 3 dimensions, got {mat.dim()}")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError(
            f"grouped_mm: the inner dimensions must agree, got shapes {tuple(mat_a.shape)} and {tuple(mat_b.shape)}"
        )
    flat = mat_a.dim() == 2 or mat_b.dim() == 2
    if flat != (offs is not None):
        raise RuntimeError(f"grouped_mm: offs goes with a 2-D operand, got {'none' if offs is None else 'one without'}")
    dtype = mat_a.dtype if out_dtype is None else out_dtype
    if not flat:
        return _biased(facula.bmm(mat_a, mat_b), bias).to(dtype)
    ends = offs.tolist()
    groups = next((m.shape[0] for m in (mat_a, mat_b) if m.dim() == 3), len(ends))
    if len(ends) != groups:
        raise RuntimeError(f"grouped_mm: offs must have one entry for each of {groups} groups, got {len(ends)}")
    parts = []
    for i, (start, end) in enumerate(zip([0, *ends], ends)):
        a = mat_a[i] if mat_a.dim() == 3 else mat_a[:, start:end] if mat_b.dim() == 2 else mat_a[start:end]
        b = mat_b[i] if mat_b.dim() == 3 else mat_b[start:end] if mat_a.dim() == 2 else mat_b[:, start:end]
        parts.append(_biased(facula.mm(a, b), bias))
    if mat_a.dim() == mat_b.dim():
        return facula.stack(parts).to(dtype)
    dim = 0 if mat_a.dim() == 2 else 1
    left = (mat_a.shape[0] if dim == 0 else mat_b.shape[1]) - ends[-1]
    if left:
        shape = list(parts[0].shape)
        shape[dim] = left
        parts.append(parts[0].new_zeros(shape))
    return facula.cat(parts, dim).to(dtype)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_recipe_a: Any, scale_b: Tensor, scale_recipe_b: Any,
              swizzle_a: Any = None, swizzle_b: Any = None, bias: Tensor | None = None,
              output_dtype: facula.dtype = facula.bfloat16, contraction_dim: Any = (),
              use_fast_accum: bool = False) -> Tensor:  # fmt: skip
    """Return the product of two float8 matrices that stand for themselves times scales; it is computed in float32.

    Args:
        mat_a, mat_b: (m, k) and (k, n).
        scale_a, scale_b: the scales, or lists of one tensor of them.
        scale_recipe_a, scale_recipe_b: `ScalingType`s, or lists of one: TensorWise (1 element) or RowWise ((m, 1) or (m) and
            (1, n) or (n)), the same for both.
        swizzle_a, swizzle_b: None or `SwizzleType.NO_SWIZZLE`.
        bias: (n,), added to the product, or None.
        output_dtype: the dtype of the result.
        contraction_dim: the dimensions that are summed over; () or (1, 0), the only ones of matrices.
        use_fast_accum: accepted without effect: sums are in float32.

    Returns: (m, n), of output_dtype.

    Errors: NotImplementedError for other recipes; RuntimeError for shapes that do not fit.

    >>> a, b = torch.ones(16, 16).to(torch.float8_e4m3fn), torch.ones(16, 16).to(torch.float8_e4m3fn).t()
    >>> scale, recipe = torch.tensor(0.5), F.ScalingType.TensorWise
    >>> F.scaled_mm(a, b, scale, recipe, scale, recipe)[0, :4]
    tensor([4., 4., 4., 4.], dtype=torch.bfloat16)
    """
    recipes = [_only("scale_recipe", each) for each in (scale_recipe_a, scale_recipe_b)]
    if recipes[0] != recipes[1] or recipes[0] not in (ScalingType.TensorWise, ScalingType.RowWise):
        raise NotImplementedError(f"scaled_mm: both recipes must be TensorWise or RowWise, got {recipes}")
    for each in (swizzle_a, swizzle_b):
        if _only("swizzle", each) not in (None, SwizzleType.NO_SWIZZLE):
            raise NotImplementedError(f"scaled_mm: scales must lie in their order, got {each!r}")
    if tuple(contraction_dim) not in ((), (1, 0), (-1, -2), (1, -2), (-1, 0)):
        raise NotImplementedError(f"scaled_mm: matrices are summed over dimensions 1 and 0, got {tuple(contraction_dim)}")
    scales = [_only("scale", each) for each in (scale_a, scale_b)]
    if recipes[0] is ScalingType.RowWise:
        sizes = (mat_a.shape[0], 1), (1, mat_b.shape[-1])
        for name, scale, size in zip("ab", scales, sizes):
            if scale.numel() != size[0] * size[1]:
                raise RuntimeError(f"scaled_mm: scale_{name} must have {size[0] * size[1]} elements, got {tuple(scale.shape)}")
        scales = [scale.reshape(size) for scale, size in zip(scales, sizes)]
    made = facula._scaled_mm(mat_a, mat_b, *scales, out_dtype=facula.float32)
    return (made if bias is None else made + bias.float()).to(mat_a.dtype if output_dtype is None else output_dtype)


def _only(name, value):
    """Return the entry of a list of one."""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise NotImplementedError(f"scaled_mm: one {name} is supported, got {len(value)}")
        return value[0]
    return value


def _biased(product, bias):
    return product if bias is None else product + bias
