"""Construct sparse tensors, and define products of sparse tensors under the additional names that PyTorch has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._tensor.sparse_checks import (
    COMPRESSED,
    check_compressed,
    check_coo,
    check_index_dtypes,
    check_lines,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.types import Device

_NAMES = {
    _C.sparse_csr: "sparse_csr_tensor", _C.sparse_csc: "sparse_csc_tensor",
    _C.sparse_bsr: "sparse_bsr_tensor", _C.sparse_bsc: "sparse_bsc_tensor",
}  # fmt: skip


def _part(op, name, data, dtype=None, device=None):
    """Return indices or values as a tensor, with their history."""
    made = data if isinstance(data, _C.Tensor) else _C.tensor(data, dtype=dtype, device=device)
    if device is not None and made.device != _C.device(device):
        made = made.to(device)
    if dtype is not None and made.dtype is not dtype:
        made = made.to(dtype)
    if made.layout is not _C.strided:
        raise RuntimeError(f"{op}: {name} must be strided, got layout {made.layout}")
    return made


def _index(op, name, data, device, dtype=_C.int64):
    made = data if isinstance(data, _C.Tensor) else _C.tensor(data, device=device)
    if made.dtype is _C.bool or made.is_complex():
        raise RuntimeError(f"{op}: {name} must be of an integer dtype, got {made.dtype}")
    return _part(op, name, made, dtype, device)


def _size(op, size):
    try:
        size = tuple(size)
        if all(isinstance(s, int) for s in size):
            return size
        return tuple(s.__index__() for s in size)
    except (TypeError, AttributeError):
        raise TypeError(f"{op}: size must be a tuple of ints, got {size!r}") from None


def _finish(tensor, requires_grad, pin_memory):
    if pin_memory and tensor.device.type == "cuda":
        raise RuntimeError(f"sparse tensor: only memory of the CPU can be pinned, got {tensor.device}")
    return tensor.requires_grad_() if requires_grad else tensor


def _inferred_size(op, indices, values):
    if indices.dim() != 2:
        raise RuntimeError(f"{op}: indices must be sparse_dim x nnz, got indices of shape {tuple(indices.shape)}")
    if indices.size(1) == 0:
        return (0,) * indices.size(0) + tuple(values.shape[1:])
    if bool((indices < 0).any()):
        dim = int((indices < 0).any(1).to(_C.int64).argmax())
        raise RuntimeError(f"{op}: found negative index {int(indices[dim].min())} for dim {dim}")
    return tuple((indices.amax(1) + 1).tolist()) + tuple(values.shape[1:])


def _no_entries(op, size, dtype, device, requires_grad):
    made = _C._ops._sparse_zeros(_size(op, size), dtype, device, _C.sparse_coo)
    return _finish(made, requires_grad, False)


def _given(*values):
    return ", ".join(type(value).__name__ for value in values if value is not None) or "nothing"


def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Sequence[int] | None = None, *,
                      dtype: facula.dtype | None = None, device: Device = None, pin_memory: bool = False,
                      requires_grad: bool = False, check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor in the layout COO: values, and an index for each in every sparse dimension.

    Called with a size only, a tensor without entries.

    Args:
        indices: (sparse dimensions, entries), a tensor or nested lists.
        values: (entries, dense sizes ...).
        size: the shape; without it the smallest that has room for the indices.
        dtype, device: of the values; those of `values` by default.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked against the size; by default what
            ``sparse.check_sparse_tensor_invariants`` says.
        is_coalesced: whether every position comes once, in order.

    Errors: RuntimeError for parts whose shapes do not fit, and indices outside of the size, where they are checked; TypeError
    where neither indices with values nor a size alone are given.

    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    op = "sparse_coo_tensor"
    if values is None:
        if (indices is None) == (size is None):
            raise TypeError(f"{op}: indices and values, or a size alone, are needed, got {_given(indices, values, size)}")
        return _no_entries(op, indices if size is None else size, dtype, device, requires_grad)
    if indices is None:
        raise TypeError(f"{op}: values come with indices, got {_given(indices, values, size)}")
    values = _part(op, "values", values, dtype, device)
    indices = _index(op, "indices", indices, values.device)
    if values.dim() == 0:
        values = values.expand(indices.size(1) if indices.dim() == 2 else 1)
    size = _inferred_size(op, indices, values) if size is None else _size(op, size)
    if requires_grad and values.requires_grad:
        values = values.detach()
    made = _C._sparse_coo_tensor_unsafe(indices, values, size, is_coalesced)
    if wanted(check_invariants):
        check_coo(op, indices, size, bool(is_coalesced))
    return _finish(made, requires_grad, pin_memory)


def _inferred_compressed_size(op, compressed, plain, values, layout):
    _, _, by_row, blocked = COMPRESSED[layout]
    batch = compressed.dim() - 1
    if batch < 0 or values.dim() < batch + 1 + 2 * blocked or compressed.size(-1) == 0:
        raise RuntimeError(f"{op}: indices and values whose sizes can be inferred are needed, got {tuple(values.shape)}")
    block = tuple(values.shape[batch + 1 : batch + 3]) if blocked else (1, 1)
    across = compressed.size(-1) - 1
    along = int(plain.max()) + 1 if plain.numel() else 0
    rows, columns = (across, along) if by_row else (along, across)
    dense = tuple(values.shape[batch + 1 + 2 * blocked :])
    return (*compressed.shape[:batch], rows * block[0], columns * block[1], *dense)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                             dtype: facula.dtype | None = None, layout: facula.layout | None = None, device: Device = None,
                             pin_memory: bool = False, requires_grad: bool = False,
                             check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor in one of the layouts CSR, CSC, BSR and BSC.

    Args:
        compressed_indices: (batch ..., rows or columns of blocks + 1), where each begins among the values.
        plain_indices: (batch ..., entries), the index in the other dimension.
        values: (batch ..., entries, two block sizes for BSR and BSC, dense sizes ...).
        size: the shape; inferred without it.
        dtype, device: of the values; those of `values` by default.
        layout: which one; must be given.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked; by default what ``sparse.check_sparse_tensor_invariants`` says.

    Errors: RuntimeError for a layout of another kind, parts whose shapes do not fit, and wrong indices where they are checked.

    >>> torch.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2), layout=torch.sparse_csr).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    op = _NAMES.get(layout, "sparse_compressed_tensor")
    if layout not in COMPRESSED:
        kind = "none" if layout is None else layout
        raise RuntimeError(f"sparse_compressed_tensor: expected a compressed layout, got {kind}")
    values = _part(op, "values", values, dtype, device)
    narrow = all(isinstance(i, _C.Tensor) and i.dtype is _C.int32 for i in (compressed_indices, plain_indices))
    kind = _C.int32 if narrow else _C.int64
    bounds, other, _, blocked = COMPRESSED[layout]
    if wanted(check_invariants):
        given = [i.dtype for i in (compressed_indices, plain_indices) if isinstance(i, _C.Tensor)]
        check_index_dtypes(op, bounds, other, given)
    compressed = _index(op, bounds, compressed_indices, values.device, kind)
    plain = _index(op, other, plain_indices, values.device, kind)
    if wanted(check_invariants):
        check_lines(op, bounds, compressed)
        check_lines(op, other, plain)
    size = _inferred_compressed_size(op, compressed, plain, values, layout) if size is None else _size(op, size)
    if requires_grad and values.requires_grad:
        values = values.detach()
    made = _C._ops._sparse_compressed_tensor_unsafe(compressed, plain, values, size, layout=layout)
    if wanted(check_invariants):
        at = compressed.dim()
        block = tuple(values.shape[at : at + 2]) if blocked else (1, 1)
        check_compressed(op, compressed, plain, size, layout, block)
    return _finish(made, requires_grad, pin_memory)


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: facula.dtype | None = None, layout: facula.layout | None = None, device: Device = None,
                      pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor in the layout CSR: rows are compressed.

    Args:
        crow_indices: (batch ..., rows + 1), where each row begins among the values.
        col_indices: (batch ..., entries), the column of each value.
        values: (batch ..., entries, dense sizes ...), a tensor or nested lists.
        size: the shape; inferred without it.
        dtype, device: of the values; those of `values` by default.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked; by default what ``sparse.check_sparse_tensor_invariants`` says.
        layout: nothing else than None or sparse_csr.

    Errors: RuntimeError for parts whose shapes do not fit, for another layout, and for wrong indices where they are checked.

    >>> torch.sparse_csr_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2)).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    return _of_layout(facula.sparse_csr, crow_indices, col_indices, values, size, layout, dtype=dtype, device=device,
                      pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants)  # fmt: skip


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: facula.dtype | None = None, layout: facula.layout | None = None, device: Device = None,
                      pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor in the layout CSC: columns are compressed.

    Args:
        ccol_indices: (batch ..., columns + 1), where each column begins among the values.
        row_indices: (batch ..., entries), the row of each value.
        values: (batch ..., entries, dense sizes ...), a tensor or nested lists.
        size: the shape; inferred without it.
        dtype, device: of the values; those of `values` by default.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked; by default what ``sparse.check_sparse_tensor_invariants`` says.
        layout: nothing else than None or sparse_csc.

    Errors: RuntimeError for parts whose shapes do not fit, for another layout, and for wrong indices where they are checked.

    >>> torch.sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2)).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    return _of_layout(facula.sparse_csc, ccol_indices, row_indices, values, size, layout, dtype=dtype, device=device,
                      pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants)  # fmt: skip


def sparse_bsr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: facula.dtype | None = None, layout: facula.layout | None = None, device: Device = None,
                      pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor in the layout BSR: rows of blocks are compressed.

    Args:
        crow_indices: (batch ..., rows of blocks + 1), where each row of blocks begins among the values.
        col_indices: (batch ..., blocks), the column of each block.
        values: (batch ..., blocks, two block sizes, dense sizes ...), a tensor or nested lists.
        size: the shape; inferred without it.
        dtype, device: of the values; those of `values` by default.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked; by default what ``sparse.check_sparse_tensor_invariants`` says.
        layout: nothing else than None or sparse_bsr.

    Errors: RuntimeError for parts whose shapes do not fit, for another layout, and for wrong indices where they are checked.

    >>> torch.sparse_bsr_tensor([0, 1], [1], [[[5.0], [6.0]]], (2, 2)).to_dense()
    tensor([[0., 5.],
            [0., 6.]])
    """
    return _of_layout(facula.sparse_bsr, crow_indices, col_indices, values, size, layout, dtype=dtype, device=device,
                      pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants)  # fmt: skip


def sparse_bsc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: facula.dtype | None = None, layout: facula.layout | None = None, device: Device = None,
                      pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Any:  # fmt: skip
    """Return a sparse tensor in the layout BSC: columns of blocks are compressed.

    Args:
        ccol_indices: (batch ..., columns of blocks + 1), where each column of blocks begins among the values.
        row_indices: (batch ..., blocks), the row of each block.
        values: (batch ..., blocks, two block sizes, dense sizes ...), a tensor or nested lists.
        size: the shape; inferred without it.
        dtype, device: of the values; those of `values` by default.
        pin_memory: accepted.
        requires_grad: whether the tensor is a leaf that wants a gradient.
        check_invariants: whether indices are checked; by default what ``sparse.check_sparse_tensor_invariants`` says.
        layout: nothing else than None or sparse_bsc.

    Errors: RuntimeError for parts whose shapes do not fit, for another layout, and for wrong indices where they are checked.

    >>> torch.sparse_bsc_tensor([0, 0, 1], [0], [[[5.0], [6.0]]], (2, 2)).to_dense()
    tensor([[0., 5.],
            [0., 6.]])
    """
    return _of_layout(facula.sparse_bsc, ccol_indices, row_indices, values, size, layout, dtype=dtype, device=device,
                      pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants)  # fmt: skip


def _of_layout(layout, compressed, plain, values, size, given, **keywords):
    if given not in (None, layout):
        raise RuntimeError(f"{_NAMES[layout]}: expected layout {layout}, got {given}")
    return sparse_compressed_tensor(compressed, plain, values, size, layout=layout, **keywords)


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=True):
    """Raise RuntimeError where the parts do not make a COO tensor."""
    sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=is_coalesced)


def _validate_sparse_compressed_tensor_args(compressed_indices, plain_indices, values, size, layout, check_pinning=True):
    """Raise RuntimeError where the parts do not make a tensor of the layout."""
    sparse_compressed_tensor(compressed_indices, plain_indices, values, size, layout=layout, check_invariants=True)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix, a strided one of shape (m, n).

    Args:
        input: the sparse matrix, (m, k).
        mat2: the strided matrix, (k, n).

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.spmm(a, torch.tensor([[1.], [3.]]))
    tensor([[6.],
            [0.]])
    """
    return _C.mm(input, mat2)


dsmm = spmm


def hsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix, as a sparse one whose rows are strided.

    Args:
        input: the COO matrix, (m, k).
        mat2: the strided matrix, (k, n).

    Errors: RuntimeError for other layouts and sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.hsmm(a, torch.tensor([[1.], [3.]])).to_dense()
    tensor([[6.],
            [0.]])
    """
    return hspmm(input, mat2)


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a strided matrix, as a COO tensor with one sparse dimension: its rows.

    Args:
        mat1: the COO matrix, (m, k).
        mat2: the strided matrix, (k, n).

    Errors: RuntimeError for other layouts and sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.hspmm(a, torch.tensor([[1.], [3.]])).to_dense()
    tensor([[6.],
            [0.]])
    """
    if not mat1.is_sparse or mat2.layout is not _C.strided:
        raise RuntimeError(f"hspmm: a COO and a strided matrix are expected, got {mat1.layout} and {mat2.layout}")
    rows = mat1.coalesce().indices()[0].unique()
    product = _C.mm(mat1, mat2)
    return sparse_coo_tensor(rows.unsqueeze(0), product.index_select(0, rows), product.shape, is_coalesced=True)


def smm(input: Tensor, mat: Any) -> Tensor:
    """Return the product of a sparse and a strided matrix, as a COO tensor.

    Args:
        input: the sparse matrix, (m, k).
        mat: the strided matrix, (k, n).

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.smm(a, torch.tensor([[1.], [3.]])).to_dense()
    tensor([[6.],
            [0.]])
    """
    return _C.mm(input, mat).to_sparse()


def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)``.

    Args:
        input: a strided matrix.
        mat1: a sparse matrix.
        mat2: a strided matrix.
        beta, alpha: the factors.

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.saddmm(torch.ones(2, 1), a, torch.tensor([[1.], [3.]]))
    tensor([[7.],
            [1.]])
    """
    return _C.sparse.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` as a COO tensor.

    Args:
        input: a COO matrix.
        mat1: a sparse matrix.
        mat2: a strided matrix.
        beta, alpha: the factors.

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> torch.sspaddmm(a, a, torch.ones(2, 2)).to_dense()
    tensor([[2., 4.],
            [0., 0.]])
    """
    return input * beta + _C.mm(mat1, mat2).to_sparse() * alpha


def _places(op, *tensors):
    for made in tensors:
        if made.dtype not in (_C.int32, _C.int64):
            raise RuntimeError(f"{op}: indices must be int32 or int64, got {made.dtype}")


def _convert_indices_from_coo_to_csr(self, size, *, out_int32=False):
    """Return where the entries of each row end, as the layout CSR says it.

    Args:
        self: (n), int32 or int64, in order: the row of each entry.
        size: how many rows there are.
        out_int32: whether the result is int32.

    Returns (size + 1), int64 or int32. Errors: RuntimeError for another dtype or shape, and for rows that are not in order or
    not within `size`.

    Example::

        >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
        tensor([0, 2, 2, 3, 3])
    """
    op = "_convert_indices_from_coo_to_csr"
    _places(op, self)
    if self.dim() != 1:
        raise RuntimeError(f"{op}: Input is supposed to be a vector, got {self.dim()} dimensions")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise RuntimeError(f"{op}: size must be a number of rows, got {size!r}")
    if self.numel() and (self[0] < 0 or self[-1] >= size or (self[1:] < self[:-1]).any()):
        raise RuntimeError(f"{op}: rows must be in order and below {size}, got {int(self.min())} to {int(self.max())}")
    # No entry is in a row up to -1, which gives the 0 that the bounds begin with.
    rows = facula.arange(-1, size, dtype=self.dtype, device=self.device)
    return facula.searchsorted(self.contiguous(), rows, right=True, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """Return the indices of the layout COO of those of CSR.

    Args:
        crow_indices: (..., rows + 1), where the entries of each row end.
        col_indices: (..., n), the columns of the entries.
        out_int32: whether the result is int32.
        transpose: whether columns come before rows.

    Returns (2, n), or with b dimensions in front (b + 2, all entries), int64 or int32. Errors: RuntimeError for other dtypes,
    and for ends that do not rise from 0 to n.

    Example::

        >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 0, 2]))
        tensor([[0, 0, 2],
                [1, 0, 2]])
    """
    op = "_convert_indices_from_csr_to_coo"
    _places(op, crow_indices, col_indices)
    shapes = tuple(crow_indices.shape), tuple(col_indices.shape)
    if crow_indices.dim() < 1 or shapes[0][:-1] != shapes[1][:-1] or shapes[0][-1] < 1 or len(shapes[0]) != len(shapes[1]):
        raise RuntimeError(f"{op}: the indices must have the same dimensions in front, got {shapes[0]} and {shapes[1]}")
    ends, entries = crow_indices.reshape(-1, shapes[0][-1]), shapes[1][-1]
    counts = ends[:, 1:] - ends[:, :-1]
    if (ends[:, 0] != 0).any() or (ends[:, -1] != entries).any() or (counts < 0).any():
        raise RuntimeError(f"{op}: ends must rise from 0 to {entries}, got {crow_indices.tolist()}")
    dtype = facula.int32 if out_int32 else facula.int64
    batches, rows = counts.shape
    row = facula.arange(rows, device=counts.device).repeat(batches).repeat_interleave(counts.reshape(-1).long())
    pair = [row, col_indices.reshape(-1)]
    front = facula.arange(batches, device=counts.device).repeat_interleave(entries)
    front = facula.unravel_index(front, shapes[0][:-1]) if len(shapes[0]) > 1 else ()
    return facula.stack([each.to(dtype) for each in (*front, *(pair[::-1] if transpose else pair))])
