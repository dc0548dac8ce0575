"""Check the indices of sparse tensors where a program requests it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

COMPRESSED = {
    _C.sparse_csr: ("crow_indices", "col_indices", True, False),
    _C.sparse_csc: ("ccol_indices", "row_indices", False, False),
    _C.sparse_bsr: ("crow_indices", "col_indices", True, True),
    _C.sparse_bsc: ("ccol_indices", "row_indices", False, True),
}


class check_sparse_tensor_invariants:
    """Set whether constructors of sparse tensors check their indices where a call does not say so; the default is that
    they do not.

    An instance is a context manager or decorator, which sets this for a block or a function. `enable()`, `disable()`
    and `is_enabled()` work on the whole process.

    Args:
        enable: whether they check inside.

    >>> check = torch.sparse.check_sparse_tensor_invariants
    >>> check.is_enabled()
    False
    >>> with check():
    ...     torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))
    Traceback (most recent call last):
        ...
    RuntimeError: sparse_coo_tensor: size is inconsistent with indices: for dim 0, size is 3 but found index 5, got size (3,)
    >>> check.enable()
    >>> check.disable()
    """

    _enabled = False

    @staticmethod
    def is_enabled() -> bool | None:
        """Return whether constructors check."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Make constructors check from now on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Let constructors not check from now on."""
        check_sparse_tensor_invariants._enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted, self._before = bool(enable), None

    def __enter__(self) -> None:
        if self._before is not None:
            raise RuntimeError("check_sparse_tensor_invariants: this context manager is entered already, got a second enter")
        self._before = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *exception: object) -> None:
        check_sparse_tensor_invariants._enabled, self._before = self._before, None

    def __call__(self, function: Callable[..., Any]) -> Any:
        import functools

        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked


def wanted(check_invariants):
    """Return what a call says, or else the setting."""
    return check_sparse_tensor_invariants.is_enabled() if check_invariants is None else bool(check_invariants)


def _refuse(op, text, got):
    raise RuntimeError(f"{op}: {text}, got {got}")


def check_coo(op, indices, size, coalesced):
    """Check that every index is within the size; coalesced ones are in order, none twice."""
    if indices.is_meta or indices.numel() == 0:
        return
    for dim, (low, high) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist())):
        if low < 0:
            _refuse(op, f"found negative index {low} for dim {dim}", f"size {tuple(size)}")
        if high >= size[dim]:
            text = f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {high}"
            _refuse(op, text, f"size {tuple(size)}")
    if coalesced and indices.size(1) > 1:
        place = _C.zeros(indices.size(1), dtype=_C.int64)
        for dim in range(indices.size(0)):
            # The position of every element in row-major order, which is the order of coalesced indices.
            place = place * size[dim] + indices[dim]
        if not bool((place[1:] > place[:-1]).all()):
            _refuse(op, "indices are not coalesced: positions must be in order and come once", f"{indices.size(1)} entries")


def check_lines(op, name, index):
    """Refuse indices of which those of one matrix do not lie side by side."""
    if index.dim() and index.stride(-1) != 1:
        raise RuntimeError(f"{op}: {name} must be contiguous within each matrix of a batch, got strides {index.stride()}")


def check_index_dtypes(op, bounds, other, dtypes):
    """Refuse indices that are not of one dtype, or of one that the layout cannot hold."""
    if any(dtype not in (_C.int32, _C.int64) for dtype in dtypes) or len(set(dtypes)) > 1:
        raise RuntimeError(f"{op}: {bounds} and {other} must both be int32 or both int64, got {' and '.join(map(str, dtypes))}")


def check_compressed(op, compressed, plain, size, layout, block):
    """Check what PyTorch calls the invariants of the compressed layouts; errors are in its words."""
    if compressed.is_meta:
        return
    bounds, indices, by_row, _ = COMPRESSED[layout]
    batch = compressed.dim() - 1
    rows, columns = size[batch] // block[0], size[batch + 1] // block[1]
    across, along = (rows, columns) if by_row else (columns, rows)
    counted, other = ("nrows", "ncols") if by_row else ("ncols", "nrows")
    nnz = plain.size(-1)
    steps = compressed[..., 1:] - compressed[..., :-1]
    if compressed.size(-1) and bool((compressed[..., 0] != 0).any()):
        _refuse(op, f"`{bounds}[..., 0] == 0` is not satisfied.", f"size {tuple(size)}")
    if compressed.size(-1) and bool((compressed[..., -1] != nnz).any()):
        _refuse(op, f"`{bounds}[..., -1] == nnz` is not satisfied.", f"{nnz} entries")
    if bool(((steps < 0) | (steps > along)).any()):
        text = f"`0 <= {bounds}[..., 1:] - {bounds}[..., :-1] <= {other}` is not satisfied."
        _refuse(op, text, f"size {tuple(size)}")
    if bool(((plain < 0) | (plain >= along)).any()):
        _refuse(op, f"`0 <= {indices} < {other}` is not satisfied.", f"size {tuple(size)}")
    row = _C.repeat_interleave(steps.reshape(-1).to(_C.int64))
    place = row * max(along, 1) + plain.reshape(-1)
    if place.numel() > 1 and not bool((place[1:] > place[:-1]).all()):
        text = (
            f"`{indices}[..., {bounds}[..., i - 1]:{bounds}[..., i]]` must rise strictly for each i from 1 to {counted}"
        )
        _refuse(op, text, f"{across} {counted}")


@contextlib.contextmanager
def unchecked():
    """Let constructors not check within it: for those who did."""
    with check_sparse_tensor_invariants(False):
        yield
