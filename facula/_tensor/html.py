"""Show tensors in notebooks: HTML without scripts, with everything escaped, of bounded size.

What cannot be shown so, such as a sparse tensor or a class with a `__repr__` of its own, is its `repr`.
"""

from __future__ import annotations

import html

from facula import _C

from .printing import ComplexFormat, NumberFormat

EDGE = 4  # rows and columns that are shown of either end
READ = 100_000_000  # elements from which on none is read
TEXT = 20_000  # characters of a repr

_TABLE = 'cellpadding="4" style="font-family:monospace;border-collapse:collapse;text-align:right"'
MUTED = "opacity:.65"
MONO = "font-family:monospace"


def escaped(text: object, most: int = 200) -> str:
    """Return a text for HTML, cut where it is longer than `most` characters."""
    text = str(text)
    return html.escape(text if len(text) <= most else text[:most] + "…")


def repr_html(thing: object) -> str:
    """Return the `repr` as HTML."""
    return f"<pre>{escaped(repr(thing), TEXT)}</pre>"


def _shape(tensor):
    return "(" + ", ".join(map(str, tensor.shape)) + ("," if tensor.dim() == 1 else "") + ")"


def facts_of(tensor):
    """Return the first line: shape, dtype, device, and what autograd knows."""
    facts = [f"shape {_shape(tensor)}", str(tensor.dtype).removeprefix("torch."), str(tensor.device)]
    if tensor.layout is not _C.strided:
        facts.append(str(tensor.layout).removeprefix("torch."))
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn={tensor.grad_fn.name()}")
    elif tensor.requires_grad:
        facts.append("requires_grad")
    return facts


def _shown(size):
    """Return the indices of a dimension that are shown; None stands for those left out."""
    if size <= 2 * EDGE + 1:
        return list(range(size))
    return [*range(EDGE), None, *range(size - EDGE, size)]


def _table(tensor):
    """Return the last two dimensions as a table, of more the first matrix."""
    index = (0,) * max(tensor.dim() - 2, 0)
    matrix = tensor[index] if index else tensor
    while matrix.dim() < 2:
        matrix = matrix.unsqueeze(0)
    rows, columns = (_shown(size) for size in matrix.shape)
    kept = _C.tensor([column for column in columns if column is not None], device=matrix.device)
    lines = {row: matrix[row].index_select(0, kept).tolist() for row in rows if row is not None}
    values = [value for line in lines.values() for value in line]
    floating = tensor.is_floating_point() or tensor.is_complex()
    number = (ComplexFormat if tensor.is_complex() else NumberFormat)(values, floating)
    written = []
    for row in rows:
        left = iter(lines.get(row, ()))
        cells = ["⋮" if row is None else "…" if column is None else escaped(number(next(left)).strip()) for column in columns]
        written.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    where = f'<div style="{MONO};{MUTED}">[{", ".join("0" * len(index))}, :, :]</div>' if index else ""
    return f"{where}<table {_TABLE}>{''.join(written)}</table>"


def _contents(tensor):
    if type(tensor) is not _C.Tensor and type(tensor).__qualname__ not in ("Parameter", "Buffer"):
        return repr_html(tensor)  # a class of a program knows best how to read itself
    if tensor.layout is not _C.strided or tensor.is_quantized or tensor.is_nested:
        return repr_html(tensor)
    if tensor.is_meta:
        return f'<div style="{MUTED}">no data on the device meta</div>'
    if tensor.numel() == 0:
        return f'<div style="{MUTED}">no elements</div>'
    if tensor.numel() > READ:
        return f'<div style="{MUTED}">{tensor.numel():,} elements, not read</div>'
    return _table(_C.Tensor.detach(tensor))


def tensor_html(tensor: _C.Tensor) -> str:
    """Return a tensor as HTML: shape, dtype, device, what autograd knows, and a few rows and columns."""
    before = _C._set_grad_enabled(False)
    _C._change_override_disabled(1)
    try:
        head = f"<b>{escaped(type(tensor).__name__)}</b> " + escaped(" · ".join(facts_of(tensor)))
        return f'<div><div style="{MONO}">{head}</div>{_contents(tensor)}</div>'
    except Exception:  # such as a batch inside of vmap, whose elements nobody can have
        return repr_html(tensor)
    finally:
        _C._change_override_disabled(-1)
        _C._set_grad_enabled(before)
