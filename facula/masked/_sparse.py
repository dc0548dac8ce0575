"""Reduce COO and CSR tensors; elements that are not stored count as masked out."""

from __future__ import annotations

import facula as _f
from facula import _C
from facula._shared.dims import counted_dims

_WAYS = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "mean": "mean"}


def is_sparse(tensor):
    """Return whether a reduction of `tensor` is found here; other sparse layouts have none."""
    if tensor.layout is _f.strided:
        return False
    if tensor.layout not in (_f.sparse_coo, _f.sparse_csr):
        raise ValueError(f"masked reduction: a strided, COO or CSR tensor is expected, got layout {tensor.layout}")
    return True


def _mask_of(op, input, mask):
    """Return the mask as a coalesced COO tensor of bool, with the dense dimensions of the input."""
    if mask.dim() > input.dim():
        raise IndexError(f"{op}: mask broadcasts to the shape {tuple(input.shape)} of the input, got shape {tuple(mask.shape)}")
    if mask.shape != input.shape:
        mask = mask.to_dense().expand(input.shape)
    if mask.layout is not _f.sparse_coo or mask.sparse_dim() != input.sparse_dim():
        mask = mask.to_dense().to_sparse(input.sparse_dim())
    return mask.to_sparse_coo().coalesce().to(_f.bool)


def _shown(op, input, mask, fill):
    """Return the elements that the mask shows, 0 where the input has none; within a row of values `fill` for the others."""
    mask = _mask_of(op, input, mask)
    shown = mask.values()
    if shown.dim() > 1:
        shown = shown.flatten(1).any(1)
    keep = shown.nonzero()[:, 0]
    indices, inner = mask.indices().index_select(1, keep), mask.values().index_select(0, keep)
    pattern = _f.sparse_coo_tensor(indices, inner, input.shape, is_coalesced=True)
    values = input.sparse_mask(pattern).values()
    if values.dim() > 1:
        values = _f.where(inner, values, _f.full((), fill, dtype=values.dtype))
    return indices, values


def _over_entries(way, values, fill):
    if values.size(0) == 0:
        return values.new_full(values.shape[1:], fill)
    return values.prod(0) if way == "prod" else getattr(values, way)(0)


def _over_inner(way, values, dims):
    for d in sorted(dims, reverse=True):
        values = values.prod(d, True) if way == "prod" else getattr(values, way)(d, True)
    return values


def _merged(way, indices, values):
    """Return the entries of one place made one."""
    places, inverse = indices.unique(dim=1, return_inverse=True)
    at = inverse.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    start = values.new_zeros((places.size(1), *values.shape[1:]))
    return places, start.scatter_reduce(0, at, values, way, include_self=False)


def reduce(op, input, dims, keepdim, dtype, mask, fill):
    """Return what `op` (sum, prod, amax, amin, mean) makes of the elements that are there, in the layout of the input.

    Args:
        op: the name of the function.
        input: a COO or CSR tensor; dims: a tuple of dimensions.
        keepdim: whether they stay, of size 1; for CSR they have to.
        dtype: of the result.
        mask: bool, or None.
        fill: the result over no element.
    """
    way, csr = _WAYS[op], input.layout is _f.sparse_csr
    if csr and not keepdim:
        raise AssertionError(f"{op}: reductions of CSR tensors keep their dimensions, got keepdim={keepdim}")
    coo = input.to_sparse_coo().coalesce()
    leading = coo.sparse_dim()
    dims = set(counted_dims(op, dims, coo.dim())) if coo.dim() else set()
    indices, values = (coo.indices(), coo.values()) if mask is None else _shown(op, coo, mask, fill)
    values = _over_inner(way, values.to(dtype), [d - leading + 1 for d in dims if d >= leading])
    sizes = [1 if d in dims else size for d, size in enumerate(input.shape)]
    if all(d in dims for d in range(leading)):
        made = _whole(way, values, fill, sizes, csr)
        return made if keepdim or csr or not dims else _C.squeeze(made.to_dense(), tuple(sorted(dims))).to_sparse()
    if dims:
        for d in dims:
            if d < leading:
                indices = indices.clone()
                # Elements that differ only in reduced dimensions get the same index, and _merged reduces them.
                indices[d] = 0
        indices, values = _merged(way, indices, values)
    if not keepdim:
        rows = [d for d in range(leading) if d not in dims]
        indices = indices.index_select(0, _f.tensor(rows, dtype=_f.int64))
        values = values.reshape(-1, *[size for d, size in enumerate(sizes) if d >= leading and d not in dims])
        sizes = [size for d, size in enumerate(sizes) if d not in dims]
    made = _f.sparse_coo_tensor(indices, values, tuple(sizes), is_coalesced=True)
    return made.to_sparse_csr() if csr else made


def _whole(way, values, fill, sizes, csr):
    """Return all entries made one, as a tensor of `sizes`."""
    count = values.size(0)
    whole = _over_entries(way, values, fill)
    if not csr:
        return whole.reshape(sizes).to_sparse()
    there = min(1, count)
    bounds, columns = _f.tensor([0, there]), _f.zeros(there, dtype=_f.int64)
    return _f.sparse_csr_tensor(bounds, columns, whole.reshape(-1)[:there], (1, there))
