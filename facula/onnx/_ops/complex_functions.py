"""Translate functions of complex numbers, and ops that consist of products, comparisons and sizes of them."""

import math

from .._graph import Value
from . import _table
from .complex import PARTS, Pair, abs_of, both, div, each, leaves, mul, own, pair_of
from .elementwise import atan2

# functions of each element


@own("reciprocal")
def reciprocal(g, z):
    length = z.real * z.real + z.imag * z.imag
    return Pair(z.real / length, -z.imag / length)


@own("square")
def square(g, z):
    return mul(g, z, z)


@own("sgn")
def sgn(g, z):
    length = abs_of(g, z)
    safe = g.where(g.Equal(length, 0.0), 1.0, length)
    return Pair(z.real / safe, z.imag / safe)


@own("sqrt")
def sqrt(g, z):
    """Compute sqrt by half of the angle, without a difference of numbers that may be close."""
    large = g.Sqrt((g.Abs(z.real) + abs_of(g, z)) * 0.5)
    small = g.Abs(z.imag) / g.where(g.Equal(large, 0.0), 1.0, large * 2.0)
    right, sign = g.Less(z.real, 0.0), g.where(g.Less(z.imag, 0.0), -1.0, large * 0.0 + 1.0)
    return Pair(g.Where(right, small, large), g.Where(right, large, small) * sign)


@own("rsqrt")
def rsqrt(g, z):
    return reciprocal(g, sqrt(g, z))


@own("log")
def log(g, z):
    g.dtype = z.real.dtype
    return Pair(g.Log(abs_of(g, z)), atan2(g, z.imag, z.real))


@own("log1p")
def log1p(g, z):
    return log(g, Pair(z.real + 1.0, z.imag))


def _times(z, factor):
    return Pair(z.real * factor, z.imag * factor)


@own("log2")
def log2(g, z):
    return _times(log(g, z), 1 / math.log(2))


@own("log10")
def log10(g, z):
    return _times(log(g, z), 1 / math.log(10))


@own("exp")
def exp(g, z):
    length = g.Exp(z.real)
    return Pair(length * g.Cos(z.imag), length * g.Sin(z.imag))


@own("exp2")
def exp2(g, z):
    return exp(g, _times(z, math.log(2)))


@own("expm1")
def expm1(g, z):
    made = exp(g, z)
    return Pair(made.real - 1.0, made.imag)


@own("sin")
def sin(g, z):
    return Pair(g.Sin(z.real) * g.Cosh(z.imag), g.Cos(z.real) * g.Sinh(z.imag))


@own("cos")
def cos(g, z):
    return Pair(g.Cos(z.real) * g.Cosh(z.imag), -(g.Sin(z.real) * g.Sinh(z.imag)))


@own("sinh")
def sinh(g, z):
    return Pair(g.Sinh(z.real) * g.Cos(z.imag), g.Cosh(z.real) * g.Sin(z.imag))


@own("cosh")
def cosh(g, z):
    return Pair(g.Cosh(z.real) * g.Cos(z.imag), g.Sinh(z.real) * g.Sin(z.imag))


@own("tanh")
def tanh(g, z):
    """Compute tanh by the tangents of both parts, which stay small where exp does not."""
    t, tangent = g.Tanh(z.real), g.Tan(z.imag)
    both = tangent * tangent
    under = 1.0 + t * t * both
    return Pair(t * (1.0 + both) / under, tangent * (1.0 - t * t) / under)


@own("tan")
def tan(g, z):
    turned = tanh(g, Pair(-z.imag, z.real))
    return Pair(turned.imag, -turned.real)


@own("sigmoid")
def sigmoid(g, z):
    made = exp(g, Pair(-z.real, -z.imag))
    return reciprocal(g, Pair(made.real + 1.0, made.imag))


@own("silu")
def silu(g, z):
    return mul(g, z, sigmoid(g, z))


@own("pow")
def power(g, base, exponent):
    if exponent == 2:
        return square(g, base)
    dtype = PARTS[g.dtype]
    base, exponent = pair_of(g, base, dtype), pair_of(g, exponent, dtype)
    zero = g.And(g.Equal(base.real, 0.0), g.Equal(base.imag, 0.0))
    made = exp(g, mul(g, exponent, log(g, Pair(g.where(zero, 1.0, base.real), base.imag))))
    nothing = g.And(g.Equal(exponent.real, 0.0), g.Equal(exponent.imag, 0.0))
    ends = g.cast(nothing, dtype)
    return Pair(g.Where(zero, ends, made.real), g.Where(zero, ends * 0.0, made.imag))


@own("float_power")
def float_power(g, base, exponent):
    wide = lambda v: pair_of(g, v, "float64") if isinstance(v, (Pair, Value)) else v
    return power(g, wide(base), wide(exponent))


@own("softsign")
def softsign(g, z):
    return div(g, z, abs_of(g, z) + 1.0)


@own("tanhshrink")
def tanhshrink(g, z):
    made = tanh(g, z)
    return Pair(z.real - made.real, z.imag - made.imag)


# sums of products


def _bilinear(g, function, a, b):
    """Compute what is linear in both of its tensors."""
    if isinstance(a, Pair) and isinstance(b, Pair):
        return Pair(
            function(a.real, b.real) - function(a.imag, b.imag), function(a.real, b.imag) + function(a.imag, b.real)
        )
    if isinstance(a, Pair):
        return Pair(function(a.real, b), function(a.imag, b))
    return Pair(function(a, b.real), function(a, b.imag))


def _products():
    for name in "matmul mm bmm mv dot inner outer ger tensordot kron cross linalg_cross".split():
        function = _table.find(name, "")
        own(name)(
            lambda g, a, b, *args, f=function, **kwargs: _bilinear(_of_parts(g), lambda x, y: f(g, x, y, *args, **kwargs), a, b)
        )
    for name in (f"{kind}{d}d" for kind in ("conv", "conv_transpose") for d in (1, 2, 3)):
        own(name)(lambda g, *args, f=name, **kwargs: _with_bias(g, f, *args, **kwargs))
    own("linear")(lambda g, *args, **kwargs: _with_bias(g, "linear", *args, **kwargs))
    for name, product in (("addmm", "mm"), ("baddbmm", "bmm"), ("addmv", "mv"), ("addbmm", "bmm"), ("addr", "outer")):
        own(name)(lambda g, *args, f=name, p=product, **kwargs: _added(g, f, p, *args, **kwargs))


def _of_parts(g):
    g.dtype = PARTS.get(g.dtype, g.dtype)
    return g


def _with_bias(g, name, input, weight, bias=None, *args, **kwargs):
    function = _table.find(name, "padding" if any(isinstance(a, str) for a in args) else "")
    made = _bilinear(_of_parts(g), lambda x, w: function(g, x, w, None, *args, **kwargs), input, weight)
    if bias is None:
        return made
    bias = pair_of(g, bias)
    if name != "linear":
        bias = Pair(*(g.unsqueeze(b, *range(1, weight.rank - 1)) for b in (bias.real, bias.imag)))
    return Pair(made.real + bias.real, made.imag + bias.imag)


def _added(g, name, product, self, a, b, beta=1, alpha=1):
    dtype = PARTS[g.dtype]
    made = _bilinear(_of_parts(g), lambda x, y: _table.find(product, "")(g, x, y), a, b)
    if name == "addbmm":
        made = Pair(g.reduce("Sum", made.real, [0]), g.reduce("Sum", made.imag, [0]))
    made = mul(g, made, alpha)
    if beta == 0:
        return made
    first = mul(g, pair_of(g, self, dtype), beta)
    return Pair(first.real + made.real, first.imag + made.imag)


_products()


@own("vdot linalg_vecdot")
def vdot(g, a, b, *args, **kwargs):
    function = _table.find("linalg_vecdot" if args or kwargs or a.rank > 1 else "dot", "")
    a = Pair(a.real, -a.imag) if isinstance(a, Pair) else a
    return _bilinear(_of_parts(g), lambda x, y: function(g, x, y, *args, **kwargs), a, b)


@own("einsum")
def einsum(g, equation, tensors, path=None):
    function = _table.find("einsum", "")
    _of_parts(g)
    if len(tensors) == 1:
        return Pair(*(function(g, equation, [getattr(tensors[0], w)]) for w in ("real", "imag")))
    if len(tensors) > 2:
        raise NotImplementedError(f"onnx.export: einsum of {len(tensors)} complex tensors: two at a time have a translation")
    return _bilinear(g, lambda x, y: function(g, equation, [x, y]), *tensors)


@own("addcmul")
def addcmul(g, self, tensor1, tensor2, value=1):
    return add(g, self, mul(g, mul(g, tensor1, tensor2), value))


@own("addcdiv")
def addcdiv(g, self, tensor1, tensor2, value=1):
    return add(g, self, mul(g, div(g, pair_of(g, tensor1), tensor2), value))


@own("lerp")
def lerp(g, self, end, weight):
    return add(g, self, mul(g, sub(g, end, self), weight))


@own("add")
def add(g, self, other, alpha=1):
    part = PARTS[g.dtype]
    a, b = pair_of(g, self, part), pair_of(g, other, part)
    b = mul(g, b, alpha) if alpha != 1 else b
    return Pair(a.real + b.real, a.imag + b.imag)


@own("sub")
def sub(g, self, other, alpha=1):
    return add(g, self, other, -alpha)


@own("rsub")
def rsub(g, self, other, alpha=1):
    return sub(g, other, self, alpha)


# results that are real


def _of_pair(g, value):
    """Return whether complex numbers are not zero; anything else as it is."""
    return g.Not(g.And(g.Equal(value.real, 0.0), g.Equal(value.imag, 0.0))) if isinstance(value, Pair) else value


def _of_truth():
    for name in "any all count_nonzero nonzero argwhere nonzero_static logical_not logical_and logical_or logical_xor".split():
        function = _table.find(name, "")
        own(name)(lambda g, *args, f=function, **kwargs: f(g, *(_of_pair(g, a) for a in args), **kwargs))
    for name, logic in (("isnan", "Or"), ("isinf", "Or"), ("isfinite", "And")):
        function = _table.find(name, "")
        own(name)(lambda g, z, f=function, logic=logic: getattr(g, logic)(f(g, z.real), f(g, z.imag)))
    for name in ("norm", "linalg_vector_norm"):
        own(name)(lambda g, z, *args, f=name, **kwargs: _table.find(f, "")(_of_parts(g), abs_of(g, z), *args, **kwargs))


_of_truth()


@own("eq")
def eq(g, self, other):
    a, b = both(g, self, other)
    return g.And(g.Equal(a.real, b.real), g.Equal(a.imag, b.imag))


@own("ne not_equal")
def ne(g, self, other):
    return g.Not(eq(g, self, other))


@own("sym_size")
def sym_size(g, z, dim):
    return _table.find("sym_size", "int")(g, z.real, dim)


@own("isreal")
def isreal(g, z):
    return g.Equal(z.imag, 0.0)


def _spread():
    for name in ("var", "std", "var_mean", "std_mean"):
        own(name)(lambda g, *args, f=name, **kwargs: _variance(g, f, *args, **kwargs))


def _variance(g, name, z, *args, **kwargs):
    (a, mean), (b, turned) = (_table.find("var_mean", "")(g, part, *args, **kwargs) for part in (z.real, z.imag))
    made = g.Sqrt(a + b) if name.startswith("std") else a + b
    return (made, Pair(mean, turned)) if name.endswith("mean") else made


_spread()


# new tensors


def _made():
    for name in """zeros ones full empty new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like zero
                   eye new_empty_strided empty_strided empty_permuted""".split():
        own(name)(lambda g, *args, f=name, **kwargs: _new(g, f, args, kwargs))


def _new(g, name, args, kwargs):
    if g.dtype not in PARTS:
        args = [a.real if isinstance(a, Pair) else a for a in args]
        return _table.find(name, "")(g, *args, **kwargs)
    g.dtype = PARTS[g.dtype]
    number = next((a for a in leaves([*args, *kwargs.values()]) if isinstance(a, complex)), None)
    plain = lambda v: v.real if isinstance(v, (Pair, complex)) else v
    made = _table.find(name, "")(g, *map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
    return Pair(made, made * 0.0 if number is None else made * 0.0 + number.imag)


_made()
each("""alias_copy as_strided as_strided_copy as_strided_scatter atleast_3d block_diag broadcast_tensors cartesian_prod
    column_stack combinations diag diag_embed diagflat diagonal_copy diagonal_scatter dsplit hsplit vsplit expand_copy
    index_add index_copy index_put view_copy permute_copy squeeze_copy unsqueeze_copy unbind_copy unfold_copy unsafe_chunk
    unsafe_split split_with_sizes_copy pixel_shuffle pixel_unshuffle channel_shuffle im2col put repeat_interleave scatter_add
    sum_to_size take take_along_dim trace meshgrid masked_select masked_scatter narrow_copy diff resize_ resize_as_""")
each("where", (1, 2))
each("fill", (1,))
each("masked_fill constant_pad_nd", (2,))
each("scatter index_fill pad", (3,))
