"""How sparse tensors print: their parts one under the other, then what the parts do not show."""

from __future__ import annotations

from . import _C
from ._sparse_checks import COMPRESSED


def _parts(tensor):
    if tensor.layout is _C.sparse_coo:
        return [("indices", tensor._indices()), ("values", tensor._values())]
    bounds, plain, _, _ = COMPRESSED[tensor.layout]
    return [(name, getattr(tensor, name)()) for name in (bounds, plain, "values")]


def _part_text(name, part, indent, contents):
    start = f"{name}=tensor("
    if part.is_meta or part.numel() == 0:
        shown = "..." if part.is_meta else "[]"
        return f"{start}{shown}, size={tuple(part.shape)})"
    return f"{start}{contents(part, indent + len(start))})"


def sparse_contents(tensor, indent, obvious_dtypes, contents):
    """The text of the parts, and the suffixes; `contents` writes the elements of a strided tensor."""
    parts = _parts(tensor)
    text = (",\n" + " " * indent).join(_part_text(name, part, indent, contents) for name, part in parts)
    suffixes = [f"size={tuple(tensor.shape)}"]
    if not tensor.is_meta:
        suffixes.append(f"nnz={tensor._nnz()}")
    if tensor.dtype not in obvious_dtypes:
        suffixes.append(f"dtype={tensor.dtype}")
    return text, [*suffixes, f"layout={tensor.layout}"]
