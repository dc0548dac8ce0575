"""Batching rules by kind of op. A rule gets (func, level, size, args, kwargs) and runs the op once on values whose
first
dimension is the batch, or gives NotImplemented.
"""

from __future__ import annotations

from .. import _C

Tensor = _C.Tensor

# Ops that work on each element, with operands that broadcast.
ELEMENTWISE = set(
    """
    abs absolute neg negative positive sign sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal
    sin cos tan asin
    acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh sigmoid logit erf erfc
    erfinv lgamma
    digamma floor ceil round trunc fix frac isnan isinf isfinite logical_not bitwise_not relu relu6 silu gelu elu
    selu celu
    softplus hardtanh hardsigmoid hardswish mish leaky_relu threshold softsign tanhshrink softshrink hardshrink
    logsigmoid
    clamp clip clamp_min clamp_max nan_to_num deg2rad rad2deg angle conj resolve_conj i0 sinc
    add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power maximum
    minimum fmax fmin
    atan2 arctan2 hypot logaddexp logaddexp2 xlogy copysign nextafter heaviside eq ne lt le gt ge not_equal less
    less_equal greater
    greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift
    bitwise_right_shift
    where lerp addcmul addcdiv rsub ldexp clone contiguous detach
    to float double half bfloat16 int long bool type_as zeros_like ones_like full_like empty_like alias
    add_ sub_ mul_ div_ exp_ sin_ cos_ tanh_ relu_ sigmoid_ neg_ abs_ sqrt_ pow_ clamp_ zero_ fill_ copy_
    """.split()
)
OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "rsub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__pow__": "pow", "__neg__": "neg", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt", "__ge__": "ge", "__abs__": "abs", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__matmul__": "matmul",
}  # fmt: skip
# Ops with dimension arguments that are to be counted after the batch; None: all dimensions when left out.
REDUCTIONS = set(
    "sum mean prod amax amin logsumexp any all var std norm nansum nanmean count_nonzero max min argmax argmin "
    "median var_mean std_mean".split()
)
DIMENSIONED = set(
    """
    softmax log_softmax cumsum cumprod logcumsumexp cummax cummin sort argsort topk flip roll transpose swapaxes
    swapdims
    select narrow unsqueeze softmin diff movedim moveaxis chunk split unbind
    """.split()
)
MATRIX = {"matmul", "mm", "bmm", "mv", "dot", "inner_product", "linear"}
RANDOM = set(
    """
    rand_like randn_like randint_like bernoulli bernoulli_ dropout alpha_dropout feature_dropout normal_ uniform_
    multinomial
    exponential_ geometric_ log_normal_ cauchy_ random_ poisson rrelu
    """.split()
)
_DIM_NAMES = ("dim", "dims", "axis", "dim0", "dim1", "axis0", "axis1", "source", "destination")


def name_of(func):
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return OPERATORS.get(name, name)


def find(name):
    if name in ELEMENTWISE:
        return elementwise
    if name in REDUCTIONS:
        return reduction
    if name in DIMENSIONED:
        return dimensioned
    if name in MATRIX:
        return matrix
    return _BY_NAME.get(name)


def _batched(value, level):
    from ._vmap import is_batched

    return is_batched(value, level)


def _wrap_all(result, level):
    from ._vmap import map_tensors, wrap

    return map_tensors(lambda t: wrap(t, level), result)


def _value(value, level):
    return value._value if _batched(value, level) else value


def elementwise(func, level, size, args, kwargs):
    """Batches get ones after the batch dimension until all examples have as many dimensions."""
    if "out" in kwargs:
        return NotImplemented
    tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
    rank = max(t.ndim for t in tensors)
    in_place = name_of(func).endswith("_")
    if in_place and not _batched(args[0], level):
        raise RuntimeError(
            f"vmap: {name_of(func)}(self, *extra_args) is not possible because there exists a Tensor `other` in "
            f"extra_args that has more "
            "elements than `self`: self has no batch dimension, got an argument that has one"
        )

    def aligned(value):
        if not _batched(value, level):
            return value
        inner = value._value
        missing = rank - (inner.ndim - 1)
        return inner.reshape(inner.shape[0], *(1,) * missing, *inner.shape[1:]) if missing else inner

    if in_place and args[0].ndim < rank:
        return NotImplemented
    result = func(*map(aligned, args), **{k: aligned(v) for k, v in kwargs.items()})
    return args[0] if in_place else _wrap_all(result, level)


def _shifted(dim, rank):
    """A dimension of an example as one of the batch."""
    if isinstance(dim, (tuple, list)):
        return type(dim)(_shifted(d, rank) for d in dim)
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise IndexError(
            f"vmap: Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})"
        )
    return dim % limit + 1


def reduction(func, level, size, args, kwargs):
    """Over the given dimensions, or all but the batch."""
    x = args[0] if args else kwargs.get("input")
    if not _batched(x, level) or "out" in kwargs or any(isinstance(v, Tensor) for v in args[1:]) or x.ndim == 0:
        return NotImplemented
    name = name_of(func)
    if name in ("norm",):
        return NotImplemented
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if isinstance(given, bool) or (name in ("var", "std", "var_mean", "std_mean") and given is None):
        return NotImplemented
    rest = {k: v for k, v in kwargs.items() if k not in ("dim", "axis", "input")}
    if given is None or given == () or given == []:
        if len(args) > 1 or name in ("max", "min", "median", "argmax", "argmin", "prod"):
            return (
                _flat_reduction(func, x, args, kwargs, level)
                if name in ("max", "min", "median", "prod") and len(args) == 1
                else NotImplemented
            )
        return _wrap_all(func(x._value, dim=tuple(range(1, x.ndim + 1)), **rest), level)
    return _wrap_all(func(x._value, _shifted(given, x.ndim), *args[2:], **rest), level)


def _flat_reduction(func, x, args, kwargs, level):
    result = func(x._value.reshape(x._value.shape[0], -1), 1, **kwargs)
    return _wrap_all(result if isinstance(result, Tensor) else result[0], level)


def dimensioned(func, level, size, args, kwargs):
    """Ops whose ints in known places are dimensions."""
    x = args[0] if args else kwargs.get("input")
    if (
        not _batched(x, level)
        or x.ndim == 0
        and name_of(func) != "unsqueeze"
        or any(isinstance(v, Tensor) for v in args[1:])
    ):
        return NotImplemented
    name = name_of(func)
    rank = x.ndim + (1 if name == "unsqueeze" else 0)
    places = _DIM_PLACES.get(name, (1,))
    new_args = [x._value, *args[1:]]
    for place in places:
        if place < len(new_args):
            if new_args[place] is None:
                return NotImplemented
            new_args[place] = _shifted(new_args[place], rank)
    new_kwargs = {
        k: _shifted(v, rank) if k in _DIM_NAMES and v is not None else v for k, v in kwargs.items() if k != "input"
    }
    if len(new_args) <= min(places) and not any(k in _DIM_NAMES for k in new_kwargs):
        default = _DIM_DEFAULTS.get(name)
        if default is None:
            return NotImplemented
        new_kwargs["dim"] = _shifted(default, rank)
    return _wrap_all(func(*new_args, **new_kwargs), level)


_DIM_PLACES = {
    "transpose": (1, 2), "swapaxes": (1, 2), "swapdims": (1, 2), "movedim": (1, 2),
    "moveaxis": (1, 2), "roll": (2,), "topk": (2,),
    "chunk": (2,), "split": (2,), "diff": (2,),
}  # fmt: skip
_DIM_DEFAULTS = {"sort": -1, "argsort": -1, "topk": -1, "chunk": 0, "split": 0, "unbind": 0, "diff": -1}


def matrix(func, level, size, args, kwargs):
    """Matrix products, as batched ones."""
    name = name_of(func)
    if kwargs or (name == "linear" and len(args) != 2):
        return _linear(func, level, args, kwargs) if name == "linear" else NotImplemented
    a, b = args
    if name == "linear":
        return _linear(func, level, args, kwargs)
    rank_a, rank_b = a.ndim, b.ndim
    if rank_a == 0 or rank_b == 0:
        return NotImplemented
    left, right = _value(a, level), _value(b, level)
    rank = max(rank_a, rank_b, 2)

    def raised(value, is_batch, own, column):
        if own == 1:
            value = value.unsqueeze(-1 if column else -2)
        missing = rank - max(own, 2)
        if is_batch and missing:
            value = value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:])
        return value

    product = _matmul(raised(left, _batched(a, level), rank_a, False), raised(right, _batched(b, level), rank_b, True))
    if rank_b == 1:
        product = product.squeeze(-1)
    if rank_a == 1:
        product = product.squeeze(-1 if rank_b == 1 else -2)
    return _wrap_all(product, level)


def _matmul(a, b):
    return a @ b


def _linear(func, level, args, kwargs):
    given = dict(zip(("input", "weight", "bias"), args), **kwargs)
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    result = x @ weight.mT if weight.ndim > 1 else x @ weight
    return result if bias is None else result + bias


def reshape(func, level, size, args, kwargs):
    """reshape, view and flatten of one example."""
    x = args[0]
    if not _batched(x, level):
        return NotImplemented
    shape = kwargs.get("shape", kwargs.get("size", args[1:]))
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if not all(isinstance(s, int) for s in shape):
        return NotImplemented
    if -1 in shape:
        known = 1
        for s in shape:
            known *= s if s != -1 else 1
        shape = tuple(x.numel() // max(known, 1) if s == -1 else s for s in shape)
    return _wrap_all(x._value.reshape(x._value.shape[0], *shape), level)


def flatten(func, level, size, args, kwargs):
    x = args[0]
    if not _batched(x, level):
        return NotImplemented
    start = kwargs.get("start_dim", args[1] if len(args) > 1 else 0)
    end = kwargs.get("end_dim", args[2] if len(args) > 2 else -1)
    value = x._value.unsqueeze(-1) if x.ndim == 0 else x._value
    rank = max(x.ndim, 1)
    return _wrap_all(value.flatten(_shifted(start, rank), _shifted(end, rank)), level)


def permute(func, level, size, args, kwargs):
    x = args[0]
    dims = kwargs.get("dims", args[1:])
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        dims = dims[0]
    return _wrap_all(x._value.permute(0, *(_shifted(d, x.ndim) for d in dims)), level)


def expand(func, level, size, args, kwargs):
    x = args[0]
    sizes = kwargs.get("size", args[1:])
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    value = x._value
    missing = len(sizes) - x.ndim
    value = value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:])
    return _wrap_all(value.expand(value.shape[0], *sizes), level)


def transpose_t(func, level, size, args, kwargs):
    x = args[0]
    return _wrap_all(x._value.transpose(1, 2) if x.ndim == 2 else x._value, level)


def squeeze(func, level, size, args, kwargs):
    x = args[0]
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim is None:
        shape = tuple(s for s in x.shape if s != 1)
        return _wrap_all(x._value.reshape(x._value.shape[0], *shape), level)
    return _wrap_all(x._value.squeeze(_shifted(dim, x.ndim)), level)


def getitem(func, level, size, args, kwargs):
    x, key = args
    parts = key if isinstance(key, tuple) else (key,)
    basic = all(p is None or p is Ellipsis or isinstance(p, (int, slice)) and not isinstance(p, bool) for p in parts)
    if not _batched(x, level) or not basic:
        return NotImplemented
    return _wrap_all(x._value[(slice(None), *parts)], level)


def setitem(func, level, size, args, kwargs):
    x, key, value = args
    if not _batched(x, level):
        raise RuntimeError(
            "vmap: a tensor without batch dimension cannot be written with batched values (make it from a batched one)"
        )
    for i in range(size):
        pick = tuple(
            _value(k, level)[i] if _batched(k, level) else k for k in (key if isinstance(key, tuple) else (key,))
        )
        x._value[(i, *pick)] = value._value[i] if _batched(value, level) else value
    return None


def stack_or_cat(func, level, size, args, kwargs):
    tensors = list(args[0] if args else kwargs["tensors"])
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    rank = tensors[0].ndim + (1 if name_of(func) == "stack" else 0)
    values = [t._value if _batched(t, level) else t.expand(size, *t.shape) for t in tensors]
    return _wrap_all(func(values, _shifted(dim, rank)), level)


_BY_NAME = {
    "reshape": reshape, "view": reshape, "flatten": flatten, "permute": permute, "expand": expand, "t": transpose_t,
    "squeeze": squeeze,
    "__getitem__": getitem, "__setitem__": setitem, "stack": stack_or_cat, "cat": stack_or_cat, "concat": stack_or_cat,
    "concatenate": stack_or_cat,
}  # fmt: skip
