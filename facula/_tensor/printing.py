"""Format tensors as text, character for character as PyTorch prints them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING

from facula import _C

from .sparse_checks import COMPRESSED

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- How sparse tensors print: their parts one under the other, then what the parts do not show


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
    """Return the text of the parts, and the suffixes; `contents` writes the elements of a strided tensor."""
    parts = _parts(tensor)
    text = (",\n" + " " * indent).join(_part_text(name, part, indent, contents) for name, part in parts)
    suffixes = [f"size={tuple(tensor.shape)}"]
    if not tensor.is_meta:
        suffixes.append(f"nnz={tensor._nnz()}")
    if tensor.dtype not in obvious_dtypes:
        suffixes.append(f"dtype={tensor.dtype}")
    return text, [*suffixes, f"layout={tensor.layout}"]


@dataclasses.dataclass
class PrintOptions:
    """Hold the settings of printing.

    Attributes:
        precision: the number of digits after the point.
        threshold: the number of elements above which only `edgeitems` at each end of a dimension are printed.
        linewidth: the number of characters in a line.
        sci_mode: whether numbers are written with an exponent; None decides by the values.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = PrintOptions()

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Set how tensors print; what is not named stays, except that sci_mode=None means to decide by the values.

    Args:
        profile: "default", "short" or "full", to start from.
    """
    chosen = {}
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile must be {_C._one_of(profile, _PROFILES)}")
        chosen.update(_PROFILES[profile])
    named = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen.update({name: value for name, value in named.items() if value is not None})
    for name, value in chosen.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions():
    """Return the current settings as a dict that set_printoptions takes."""
    return dataclasses.asdict(PRINT_OPTS)


@contextlib.contextmanager
def printoptions(**settings):
    """Set what set_printoptions sets, for the length of a block."""
    before = get_printoptions()
    set_printoptions(**settings)
    try:
        yield
    finally:
        set_printoptions(**before)


class NumberFormat:
    """Choose one format for all numbers of a tensor: fixed-point, scientific, or integers with a point.

    Args:
        values: the numbers that will be shown.
        floating: whether the tensor's dtype is floating-point.
    """

    def __init__(self, values, floating):
        self.floating = floating
        self.scientific = False
        self.whole = True
        self.width = 1
        if floating:
            self._choose([v for v in values if v and math.isfinite(v)])
        else:
            self.width = max([1, *(len(str(v)) for v in values)])

    def _choose(self, values):
        """Choose by the finite numbers other than zero; without any, everything is written as an integer."""
        if not values:
            return
        low, high = min(map(abs, values)), max(map(abs, values))
        self.whole = all(v == math.floor(v) for v in values)
        self.scientific = PRINT_OPTS.sci_mode
        if self.scientific is None:
            # The bounds are PyTorch's, so that tensors print alike.
            self.scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        self.width = max(len(self._text(v)) for v in values)

    def _text(self, value):
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{PRINT_OPTS.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{PRINT_OPTS.precision}f}"

    def __call__(self, value):
        return self._text(value).rjust(self.width)


class ComplexFormat:
    """Choose one format for the real parts of a tensor's numbers and another one for the imaginary parts."""

    def __init__(self, values, floating):
        self.real = NumberFormat([v.real for v in values], floating)
        self.imag = NumberFormat([v.imag for v in values], floating)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + (imag if imag[0] in "+-" else "+" + imag)


def _nested(tensor, summarize):
    """Return the values to show as nested lists; None stands for those left out."""
    if tensor.dim() == 0:
        return tensor.item()
    count, edge = tensor.size(0), PRINT_OPTS.edgeitems
    if not (summarize and count > 2 * edge):
        return tensor.tolist() if tensor.dim() == 1 else [_nested(row, summarize) for row in tensor.unbind(0)]
    shown = [tensor[i] for i in (*range(edge), *range(count - edge, count))]
    parts = [_nested(row, summarize) for row in shown]
    return [*parts[:edge], None, *parts[edge:]]


def _flat(nested):
    if isinstance(nested, list):
        return [value for part in nested if part is not None for value in _flat(part)]
    return [nested]


def _line_text(values, indent, number):
    """Return the innermost dimension, broken into lines."""
    per_line = max(1, math.floor((PRINT_OPTS.linewidth - indent) / (number.width + 2)))
    gap = "..." if len(values) == 1 else " ..."
    texts = [gap if value is None else number(value) for value in values]
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _block_text(nested, dim, indent, number):
    if dim == 0:
        return number(nested)
    if dim == 1:
        return _line_text(nested, indent, number)
    parts = ["..." if part is None else _block_text(part, dim - 1, indent + 1, number) for part in nested]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(parts) + "]"


def _contents(tensor, indent):
    summarize = tensor.numel() > PRINT_OPTS.threshold
    nested = _nested(tensor, summarize)
    values = _flat(nested)
    number = (ComplexFormat if tensor.is_complex() else NumberFormat)(
        values, tensor.is_floating_point() or tensor.is_complex()
    )
    return _block_text(nested, tensor.dim(), indent, number)


def _wrap_suffixes(text, suffixes, indent, new_line=False):
    """Append `, name=value` parts, each on a new line where the last one is full, the first one also with new_line."""
    length = len(text) - text.rfind("\n") + 1
    for i, suffix in enumerate(suffixes):
        if (new_line and i == 0) or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def _obvious_dtypes():
    default = _C.get_default_dtype()
    return (default, _C.complex128 if default is _C.float64 else _C.complex64, _C.int64, _C.bool)


def _describe_contents(tensor, indent, given):
    """Return the text of the elements, and the suffixes that say what it does not show."""
    if tensor.layout is not _C.strided:
        text, suffixes = sparse_contents(tensor, indent, _obvious_dtypes(), _contents)
        return given or text, suffixes
    suffixes = []
    size = f"size={tuple(tensor.shape)}"
    dtype = f"dtype={tensor.dtype}"
    if tensor.is_meta:
        suffixes.append(size)
        if tensor.dtype is not _C.get_default_dtype():
            suffixes.append(dtype)
        return given or "...", suffixes
    if tensor.numel() == 0:
        if tensor.dim() != 1:
            suffixes.append(size)
        if tensor.dtype is not _C.get_default_dtype():
            suffixes.append(dtype)
        return given or "[]", suffixes
    if not PRINT_OPTS.edgeitems:
        suffixes.append(size)
    if tensor.dtype not in _obvious_dtypes():
        suffixes.append(dtype)
    return given or _contents(tensor, indent), suffixes


def _history(tensor):
    node = tensor.grad_fn
    if node is not None:
        name = type(node).__name__
        return [f"grad_fn=<{node.name() if name == 'Node' else name}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


#: a dual tensor's tangent; autograd/forward_ad.py puts it here
tangent_of: Callable[[_C.Tensor], _C.Tensor | None] | None = None


def _tangent(tensor):
    tangent = tangent_of(tensor) if tangent_of is not None and _C._is_dual(tensor) else None
    return [] if tangent is None else [f"tangent={tangent}"]


def tensor_str(tensor, *, tensor_contents=None):
    """Return the text of a tensor; `tensor_contents` replaces the part that shows the elements."""
    if not _C._region_on():
        return _text(tensor, tensor_contents)
    _C._region_demand("repr")  # of a compiled function: what the text takes is no part of it
    state = _C._region_leave()
    try:
        return _text(tensor, tensor_contents)
    finally:
        _C._region_enter(state)


def _text(tensor, tensor_contents):
    if _C._has_torch_function_variadic():  # a mode is on
        from facula.overrides import DisableTorchFunction

        with DisableTorchFunction():
            return tensor_str(tensor, tensor_contents=tensor_contents)
    before = _C._set_grad_enabled(False)
    # The ops that printing uses must not reach `__torch_function__` of a subclass, which may print its arguments.
    _C._change_override_disabled(1)
    try:
        plain = type(tensor) is _C.Tensor or type(tensor).__qualname__ == "Parameter"
        prefix = "tensor(" if plain else f"{type(tensor).__name__}("
        device = [f"device='{tensor.device}'"] if tensor.device.type != "cpu" else []
        contents, suffixes = _describe_contents(_C.Tensor.detach(tensor), len(prefix), tensor_contents)
        new_line = tensor.layout is _C.sparse_coo
        suffixes = device + suffixes + _history(tensor) + _tangent(tensor)
        text = _wrap_suffixes(prefix + contents, suffixes, len(prefix), new_line)
        return text if plain or not getattr(tensor, "_is_param", False) else f"Parameter({text})"
    finally:
        _C._change_override_disabled(-1)
        _C._set_grad_enabled(before)


def _tensor_str(tensor, indent):
    return _contents(tensor, indent)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    if force_newline and suffixes:
        return _wrap_suffixes(f"{tensor_str},\n{' ' * indent}{suffixes[0]}", suffixes[1:], indent)
    return _wrap_suffixes(tensor_str, suffixes, indent)


_str = _str_intern = tensor_str
