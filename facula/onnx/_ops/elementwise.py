"""Translate element-wise ops: arithmetic, comparisons, rounding, selection."""

import math

from .._graph import FLOATING, Value
from ._table import op

_SAME = {
    "abs": "Abs", "absolute": "Abs", "neg": "Neg", "negative": "Neg", "ceil": "Ceil", "floor": "Floor", "sign": "Sign",
    "sgn": "Sign", "relu": "Relu",
}  # fmt: skip
_FLOAT = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "arcsin": "Asin",
    "acos": "Acos", "arccos": "Acos", "atan": "Atan", "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh",
    "asinh": "Asinh", "arcsinh": "Asinh", "acosh": "Acosh", "arccosh": "Acosh", "atanh": "Atanh", "arctanh": "Atanh",
    "erf": "Erf", "special_erf": "Erf", "sigmoid": "Sigmoid", "special_expit": "Sigmoid", "reciprocal": "Reciprocal",
    "softsign": "Softsign",
}  # fmt: skip


def floating(g, value):
    """Return the value as the dtype of the result, or float32 where the result has none."""
    return g.cast(value, g.dtype if g.dtype in FLOATING else "float32")


def _simple():
    for name, onnx in _SAME.items():
        op(name)(lambda g, self, onnx=onnx: _kept(g, onnx, self))
    for name, onnx in _FLOAT.items():
        op(name)(lambda g, self, onnx=onnx: getattr(g, onnx)(floating(g, self)))


def _kept(g, onnx, self):
    if onnx in ("Ceil", "Floor") and not self.is_floating():
        return self
    if onnx == "Relu" and self.dtype not in FLOATING:
        return g.Max(self, 0)
    if onnx == "Sign" and self.is_floating():
        return g.where(g.IsNaN(self), 0.0, g.Sign(self))
    return getattr(g, onnx)(self)


_simple()

_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def common_dtype(a, b):
    """Return the dtype in which two operands meet; numbers, and tensors without dimensions, follow the other one."""
    if not isinstance(a, Value):
        return common_dtype(b, a)
    if not isinstance(b, Value):
        if isinstance(b, bool) or (isinstance(b, int) and a.dtype != "bool") or a.is_floating():
            return a.dtype
        return "int64" if isinstance(b, int) else "float32"
    if a.dtype == b.dtype:
        return a.dtype
    if a.is_floating() == b.is_floating() and (a.shape == ()) != (b.shape == ()) and "bool" not in (a.dtype, b.dtype):
        return b.dtype if a.shape == () else a.dtype
    if a.is_floating() != b.is_floating():
        return a.dtype if a.is_floating() else b.dtype
    if {a.dtype, b.dtype} == {"uint8", "int8"}:
        return "int16"
    if {a.dtype, b.dtype} == {"float16", "bfloat16"}:
        return "float32"
    return max(a.dtype, b.dtype, key=_ORDER.index)


def pair(g, a, b, dtype=None):
    """Return both operands as tensors of one dtype: the given one, that of the result, or the one in which they meet."""
    a, b = (g.scalar(v) if isinstance(v, Value) and v.shape == (1,) and v.dtype == "int64" else v for v in (a, b))
    dtype = dtype or common_dtype(a, b)
    return g.tensor(a, dtype), g.tensor(b, dtype)


def is_size(value):
    return isinstance(value, int) or (isinstance(value, Value) and value.dtype == "int64" and value.shape == (1,))


def arithmetic(g, onnx, a, b):
    if is_size(a) and is_size(b) and g.dtype is None:  # of sizes
        return getattr(g, onnx)(g.sizes([a]), g.sizes([b]))
    dtype = g.dtype or common_dtype(a, b)
    a, b = pair(g, a, b, "int32" if dtype == "bool" else dtype)
    result = getattr(g, onnx)(a, b)
    return g.cast(result, "bool") if dtype == "bool" else result


def scaled(g, value, alpha):
    return value if isinstance(alpha, (int, float)) and alpha == 1 else arithmetic(g, "Mul", value, alpha)


@op("add _add")
def add(g, self, other, alpha=1):
    return arithmetic(g, "Add", self, scaled(g, other, alpha))


@op("sub subtract")
def sub(g, self, other, alpha=1):
    return arithmetic(g, "Sub", self, scaled(g, other, alpha))


@op("rsub")
def rsub(g, self, other, alpha=1):
    return arithmetic(g, "Sub", other, scaled(g, self, alpha))


@op("mul multiply")
def mul(g, self, other):
    return arithmetic(g, "Mul", self, other)


@op("div divide true_divide")
def div(g, self, other, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(g, self, other)
    if rounding_mode == "trunc" and g.dtype not in FLOATING:
        return g.Div(*pair(g, self, other, g.dtype))
    quotient = g.Div(*pair(g, self, other, g.dtype if g.dtype in FLOATING else "float32"))
    return trunc(g, quotient) if rounding_mode == "trunc" else quotient


@op("floor_divide")
def floor_divide(g, self, other):
    if is_size(self) and is_size(other) and g.dtype is None:
        return g.Div(g.sizes([self]), g.sizes([other]))
    a, b = pair(g, self, other, g.dtype)
    quotient = g.Div(a, b)
    if a.is_floating():
        return g.Floor(quotient)
    rest = g.Sub(a, g.Mul(quotient, b))
    # ONNX divides integers toward zero: one less is the floor where something remains and the signs differ.
    wrong = g.And(g.Not(g.Equal(rest, 0)), g.Xor(g.Less(rest, 0), g.Less(b, 0)))
    return g.Sub(quotient, g.cast(wrong, a.dtype))


@op("remainder")
def remainder(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Sub(a, g.Mul(g.Floor(g.Div(a, b)), b)) if a.is_floating() else g.Mod(a, b)


@op("fmod")
def fmod(g, self, other):
    return g.Mod(*pair(g, self, other, g.dtype), fmod=1)


@op("pow")
def pow(g, self, exponent):
    if isinstance(exponent, (int, float)) and exponent in (0.5, 2, -1) and g.dtype in FLOATING:
        self = g.cast(self, g.dtype)
        return g.Sqrt(self) if exponent == 0.5 else self * self if exponent == 2 else g.Reciprocal(self)
    return g.Pow(*pair(g, self, exponent, g.dtype))


@op("float_power")
def float_power(g, self, exponent):
    return g.Pow(*pair(g, self, exponent, "float64"))


@op("square")
def square(g, self):
    return g.Mul(self, self)


@op("rsqrt")
def rsqrt(g, self):
    return g.Reciprocal(g.Sqrt(floating(g, self)))


@op("exp2 special_exp2")
def exp2(g, self):
    return g.Exp(floating(g, self) * math.log(2))


@op("expm1 special_expm1")
def expm1(g, self):
    x = floating(g, self)  # (e^x - 1) without the loss of digits near 0: 2 tanh(x/2) / (1 - tanh(x/2)), where x is small
    t = g.Tanh(x * 0.5)
    return g.Where(g.Less(g.Abs(x), 0.5), t * 2.0 / (1.0 - t), g.Exp(x) - 1.0)


@op("log1p special_log1p")
def log1p(g, self):
    x = floating(g, self)  # 2 atanh(x / (2 + x)) where x is small
    series = g.Atanh(g.Where(g.Less(g.Abs(x), 0.5), x, g.constant(0.0, x.dtype)) / (x + 2.0)) * 2.0
    return g.Where(g.Less(g.Abs(x), 0.5), series, g.Log(x + 1.0))


@op("log2")
def log2(g, self):
    return g.Log(floating(g, self)) * (1 / math.log(2))


@op("log10")
def log10(g, self):
    return g.Log(floating(g, self)) * (1 / math.log(10))


@op("logaddexp")
def logaddexp(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    # The larger one is taken out of the sum, so that no exponential overflows.
    return g.Max(a, b) + g.Softplus(-g.Abs(a - b))


@op("logaddexp2")
def logaddexp2(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Max(a, b) + g.Softplus(-g.Abs(a - b) * math.log(2)) * (1 / math.log(2))


@op("round.decimals")
def round_decimals(g, self, decimals):
    scale = float(10**decimals)
    return g.Round(self * scale) / scale


@op("round")
def round(g, self):
    return g.Round(self) if self.is_floating() else self


@op("trunc fix")
def trunc(g, self):
    return g.Mul(g.Floor(g.Abs(self)), g.Sign(self)) if self.is_floating() else self


@op("frac")
def frac(g, self):
    return self - trunc(g, self)


@op("positive resolve_conj resolve_neg conj conj_physical real")
def same(g, self):
    return self


@op("maximum")
def maximum(g, self, other):
    return _extreme(g, "Max", self, other)


@op("minimum")
def minimum(g, self, other):
    return _extreme(g, "Min", self, other)


def _extreme(g, onnx, self, other):
    a, b = pair(g, self, other)
    if a.dtype == "bool":
        return g.Or(a, b) if onnx == "Max" else g.And(a, b)
    return getattr(g, onnx)(a, b)


op("max.other")(maximum)
op("min.other")(minimum)


@op("fmax")
def fmax(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Where(g.IsNaN(a), b, g.Where(g.IsNaN(b), a, g.Max(a, b))) if a.is_floating() else g.Max(a, b)


@op("fmin")
def fmin(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Where(g.IsNaN(a), b, g.Where(g.IsNaN(b), a, g.Min(a, b))) if a.is_floating() else g.Min(a, b)


@op("clamp clip")
def clamp(g, self, min=None, max=None):
    self = g.cast(self, g.dtype)
    tensors = [b for b in (min, max) if isinstance(b, Value) and b.shape != ()]
    if not tensors:
        return g.clip(self, min, max)
    if min is not None:
        self = g.Max(self, g.tensor(min, g.dtype))
    return g.Min(self, g.tensor(max, g.dtype)) if max is not None else self


@op("clamp_min")
def clamp_min(g, self, min):
    return clamp(g, self, min)


@op("clamp_max")
def clamp_max(g, self, max):
    return clamp(g, self, None, max)


@op("lerp")
def lerp(g, self, end, weight):
    return self + g.tensor(weight, self.dtype) * (end - self)


@op("addcmul")
def addcmul(g, self, tensor1, tensor2, value=1):
    return add(g, self, arithmetic(g, "Mul", tensor1, tensor2), value)


@op("addcdiv")
def addcdiv(g, self, tensor1, tensor2, value=1):
    return add(g, self, g.Div(*pair(g, tensor1, tensor2, g.dtype)), value)


@op("deg2rad")
def deg2rad(g, self):
    return floating(g, self) * (math.pi / 180)


@op("rad2deg")
def rad2deg(g, self):
    return floating(g, self) * (180 / math.pi)


@op("hypot")
def hypot(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    # If one side is infinite, so is the result, even if the other one is NaN.
    infinite = g.Or(g.Equal(g.Abs(a), math.inf), g.Equal(g.Abs(b), math.inf))
    return g.where(infinite, math.inf, g.Sqrt(a * a + b * b))


@op("ldexp")
def ldexp(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return a * g.Pow(g.constant(2.0, a.dtype), b)


@op("atan2 arctan2")
def atan2(g, self, other):
    y, x = pair(g, self, other, g.dtype)
    plain = g.Atan(y / x)
    # Atan covers the angles right of the y axis; those on the left are half a turn away.
    turned = plain + g.where(g.Less(y, 0.0), g.constant(-math.pi, x.dtype), math.pi)
    upright = g.Sign(y) * (math.pi / 2)
    flat = g.where(g.Less(x, 0.0), g.constant(math.pi, x.dtype), 0.0)
    result = g.Where(g.Less(x, 0.0), turned, plain)
    return g.Where(g.Equal(x, 0.0), upright, g.Where(g.Equal(y, 0.0), flat, result))


@op("xlogy special_xlogy")
def xlogy(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.where(g.And(g.Equal(a, 0.0), g.Not(g.IsNaN(b))), 0.0, a * g.Log(b))


@op("special_xlog1py")
def xlog1py(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.where(g.And(g.Equal(a, 0.0), g.Not(g.IsNaN(b))), 0.0, a * log1p(g, b))


@op("special_entr")
def entr(g, self):
    x = floating(g, self)
    return g.where(g.Equal(x, 0.0), 0.0, g.where(g.Less(x, 0.0), -math.inf, -x * g.Log(x)))


@op("sinc special_sinc")
def sinc(g, self):
    x = floating(g, self) * math.pi
    safe = g.where(g.Equal(x, 0.0), 1.0, x)
    return g.where(g.Equal(x, 0.0), 1.0, g.Sin(safe) / safe)


@op("erfc special_erfc")
def erfc(g, self):
    return 1.0 - g.Erf(floating(g, self))


@op("special_ndtr")
def ndtr(g, self):
    return (g.Erf(floating(g, self) * math.sqrt(0.5)) + 1.0) * 0.5


@op("logit special_logit")
def logit(g, self, eps=None):
    x = floating(g, self)
    x = x if eps is None else g.clip(x, float(eps), 1 - float(eps))
    return g.Log(x / (1.0 - x))
