"""Represent complex numbers within a model as pairs of tensors, because ONNX's runtimes have none.

Inputs and results of a model that are complex are its real tensors with both parts as the last dimension, as by `view_as_real`.
`find` gives translations of ops with complex numbers among their arguments or as results: of their own, or, for ops that only
move elements or add them up, that of the real op for both parts.
"""

from .._graph import Value
from . import _table
from .elementwise import atan2

PARTS = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
OWN = {}
#: ops that do the same to both parts, and which of their arguments are elements
EACH = dict.fromkeys(
    """neg clone contiguous alias detach reshape view flatten unflatten transpose permute t mT movedim squeeze
    unsqueeze expand expand_as select slice narrow index index_select gather cat stack hstack vstack split
    split_with_sizes chunk unbind tensor_split flip roll repeat tile sum mean cumsum diagonal fliplr flipud rot90
    t_copy transpose_copy swapaxes swapdims unfold select_scatter slice_scatter lift_fresh_copy
    view_as reshape_as _unsafe_view resolve_conj resolve_neg triu tril atleast_1d atleast_2d broadcast_to
    copy positive""".split(),
    (),
)
_ELEMENTS = ("value", "src", "fill_value", "other")


class Pair:
    """Represent a complex tensor by its real and its imaginary part."""

    def __init__(self, real, imag):
        self.real, self.imag = real, imag

    @property
    def dtype(self):
        return next(name for name, part in PARTS.items() if part == self.real.dtype)

    @property
    def shape(self):
        return self.real.shape

    @property
    def rank(self):
        return self.real.rank


def own(*names):
    """Decorate the translation of an op with complex numbers, with `@own("mul")`."""

    def note(function):
        for name in " ".join(names).split():
            OWN[name] = function
        return function

    return note


def each(names, elements=()):
    """Translate ops that do the same to both parts; `elements` are the places of arguments that may be numbers."""
    EACH.update(dict.fromkeys(names.split(), elements))


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def _part(value, which):
    """Return the real or the imaginary part of arguments; of tensors and numbers that are real, themselves and zeros."""
    if isinstance(value, (list, tuple)):
        return [_part(item, which) for item in value]
    return getattr(value, which) if isinstance(value, (Pair, complex)) else value


def find(name, overload):
    """Return the translation of an op with complex numbers, or None."""
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if plain in OWN:
        return OWN[plain]
    function = _table.find(name, overload)
    if plain not in EACH or function is None:
        return None
    return lambda g, *args, **kwargs: _each(g, function, EACH[plain], args, kwargs)


def _each(g, function, elements, args, kwargs):
    part = PARTS.get(g.dtype, "float32")

    def paired(value, element=False):
        if isinstance(value, (list, tuple)):
            return [paired(v) for v in value]
        if isinstance(value, (Value, Pair)):
            return pair_of(g, value, part) if element or isinstance(value, Pair) or value.is_floating() else value
        return complex(value) if element and value is not None else value

    args = [paired(value, i in elements) for i, value in enumerate(args)]
    kwargs = {key: paired(value, bool(elements) and key in _ELEMENTS) for key, value in kwargs.items()}
    g.dtype = part
    made = [function(g, *_part(args, w), **{k: _part(v, w) for k, v in kwargs.items()}) for w in ("real", "imag")]
    return [Pair(*p) for p in zip(*made)] if isinstance(made[0], (list, tuple)) else Pair(*made)


def pair_of(g, value, dtype=None):
    """Return a number or a tensor as a pair."""
    if isinstance(value, Pair):
        return Pair(g.cast(value.real, dtype), g.cast(value.imag, dtype)) if dtype else value
    if isinstance(value, Value):
        value = g.cast(value, dtype) if dtype else value
        return Pair(value, g.expand(g.constant(0.0, value.dtype), g.shape_of(value)))
    value = complex(value)
    return Pair(g.constant(value.real, dtype or "float32"), g.constant(value.imag, dtype or "float32"))


def both(g, a, b):
    dtype = next(v.real.dtype for v in (a, b) if isinstance(v, Pair))
    return pair_of(g, a, dtype), pair_of(g, b, dtype)


def _fitted(g, value):
    """Return a tensor in the dtype of the parts of the result."""
    if g.dtype not in PARTS or not isinstance(value, (Pair, Value)):
        return value
    return pair_of(g, value, PARTS[g.dtype]) if isinstance(value, Pair) else g.cast(value, PARTS[g.dtype])


@own("mul multiply")
def mul(g, self, other):
    self, other = _fitted(g, self), _fitted(g, other)
    if not isinstance(self, (Pair, complex)) and not isinstance(other, (Pair, complex)):
        return pair_of(g, self * other)
    if not isinstance(other, (Pair, complex)) or not isinstance(self, (Pair, complex)):  # one of them is real
        return Pair(_part(self, "real") * _part(other, "real"), _part(self, "imag") * _part(other, "imag"))
    a, b = both(g, self, other)
    return Pair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@own("div divide true_divide")
def div(g, self, other):
    self, other = _fitted(g, self), _fitted(g, other)
    if not isinstance(other, (Pair, complex)):
        return Pair(self.real / other, self.imag / other)
    a, b = both(g, self, other)
    size = b.real * b.real + b.imag * b.imag
    made = mul(g, a, Pair(b.real, -b.imag))
    return Pair(made.real / size, made.imag / size)


@own("conj conj_physical _conj")
def conj(g, self):
    return Pair(self.real, -self.imag)


@own("to _to_copy type_as _to_device")
def to(g, self, *_, **__):
    if g.dtype not in PARTS:
        return g.cast(self.real, g.dtype)
    part = PARTS[g.dtype]
    return Pair(g.cast(self.real, part), g.cast(self.imag, part)) if isinstance(self, Pair) else pair_of(g, self, part)


@own("real")
def real(g, self):
    return self.real


@own("imag")
def imag(g, self):
    return self.imag


@own("abs absolute")
def abs_of(g, self):
    return g.Sqrt(self.real * self.real + self.imag * self.imag)


@own("angle")
def angle(g, self):
    g.dtype = self.real.dtype
    return atan2(g, self.imag, self.real)


@own("complex")
def complex_(g, real, imag):
    zero = (real * 0.0, imag * 0.0) if real.shape != imag.shape else None
    return Pair(real + zero[1], imag + zero[0]) if zero else Pair(real, imag)


@own("polar")
def polar(g, abs, angle):
    return Pair(abs * g.Cos(angle), abs * g.Sin(angle))


@own("view_as_complex view_as_complex_copy")
def view_as_complex(g, self):
    return Pair(g.take(self, 0, -1), g.take(self, 1, -1))


@own("view_as_real view_as_real_copy")
def view_as_real(g, self):
    return stacked(g, self)


def stacked(g, value):
    rank = value.rank
    return g.concat([g.unsqueeze(value.real, rank), g.unsqueeze(value.imag, rank)], rank)
