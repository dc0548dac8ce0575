"""Define what the source of an archive may name: ops, functions of numbers, lists, dicts and strings, and attributes.

TorchScript's types decide which op `torch.add` is; here the values decide. Dtypes, layouts and memory formats are
numbers in TorchScript, and become objects where an op takes one. An op is one of Facula's own (`_find`): a name never
leads to a module, a file or a Python builtin.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import facula
from facula import Tensor

from . import fused
from .errors import ScriptError

# The place in the list is the number; the dtypes in the gap are quantized ones, which archives of programs do not use
# here.
DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
    "complex128", "bool",
    None, None, None, "bfloat16",
)  # fmt: skip
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}


def dtype_of(number: int) -> Any:
    """Return the dtype of a number of TorchScript; None and dtypes stay."""
    if number is None or isinstance(number, facula.dtype):
        return number
    if not isinstance(number, int) or not 0 <= number < len(DTYPES) or DTYPES[number] is None:
        raise ScriptError(f"no dtype has the number {number!r}")
    return getattr(facula, DTYPES[number])


def number_of(dtype: facula.dtype) -> int:
    """Return the number of a dtype in TorchScript."""
    return DTYPES.index(str(dtype).rpartition(".")[2])


def _memory_format(number):
    return number if number is None or isinstance(number, facula.memory_format) else getattr(facula, _FORMATS[number])


_NAMED = {"dtype": dtype_of, "memory_format": _memory_format, "layout": lambda number: None}


# attributes and methods


class ScriptObject:
    """Represent an instance of a class of the archive that is not a module."""

    def __init__(self, cls: type) -> None:
        object.__setattr__(self, "_script_class", cls)

    def __repr__(self) -> str:
        return f"<{self._script_class.name}>"


_OF_TENSORS = {
    "shape": lambda t: list(t.shape), "dtype": lambda t: number_of(t.dtype), "device": lambda t: t.device,
    "requires_grad": lambda t: t.requires_grad, "is_cuda": lambda t: t.is_cuda, "T": lambda t: t.T, "mT": lambda t: t.mT,
    "H": lambda t: t.H, "data": lambda t: t.detach(), "ndim": lambda t: t.dim(), "grad": lambda t: t.grad,
    "layout": lambda t: 0, "is_sparse": lambda t: False, "is_quantized": lambda t: False, "is_meta": lambda t: t.is_meta,
    "itemsize": lambda t: t.dtype.itemsize, "nbytes": lambda t: t.nbytes, "real": lambda t: t.real,
    "imag": lambda t: t.imag,
    "is_mps": lambda t: False, "is_xpu": lambda t: False, "is_mkldnn": lambda t: False, "is_nested": lambda t: False,
    "name": lambda t: None, "is_leaf": lambda t: t.is_leaf,
}  # fmt: skip


def attribute(owner: Any, name: str) -> Any:
    """Return `owner.name` of a module, an object or a tuple of the archive, or of a tensor."""
    if isinstance(owner, Tensor):
        if name in _OF_TENSORS:
            return _OF_TENSORS[name](owner)
    elif isinstance(owner, facula.device):
        if name in ("type", "index"):
            return getattr(owner, name)
    elif hasattr(owner, "_script_class"):
        return owner._script_class.attribute(owner, name)
    elif isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        return getattr(owner, name)
    elif hasattr(owner, "_script_members"):
        return owner._script_members[name]
    raise ScriptError(f"{type(owner).__name__} has no attribute {name}")


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Do `owner.name = value`, of modules and objects of the archive."""
    if not hasattr(owner, "_script_class"):
        raise ScriptError(f"{type(owner).__name__} has no attribute {name} that can be set")
    owner._script_class.set_attribute(owner, name, value)


def method(owner: Any, name: str) -> Any:
    """Return the method `name` of a module, of an object of the archive or of a tensor."""
    if hasattr(owner, "_script_class"):
        return owner._script_class.bound(owner, name)
    if isinstance(owner, Tensor):
        return functools.partial(op("aten", name), owner)
    raise ScriptError(f"{type(owner).__name__} has no method {name}")


CALLABLE: list[type] = []  # functions and classes of the archive: walker.py and archive.py add theirs


def callable_here(value: Any) -> bool:
    """Return whether a program may call the value: functions and classes of the archive, ops, and the names in `NAMES`."""
    if isinstance(value, functools.partial):
        return callable_here(value.func)
    return isinstance(value, (*CALLABLE, Op)) or value in NAMES.values()


# functions of numbers, lists, dicts and strings


def _plain(*values):
    """Return whether no value is a tensor."""
    return not any(isinstance(v, Tensor) or (isinstance(v, list) and v and isinstance(v[0], Tensor)) for v in values)


def _format(text, *values):
    pieces = text.split("{}")
    if len(pieces) - 1 > len(values):
        raise ScriptError(f"format: {len(pieces) - 1} places for {len(values)} values")
    return "".join(piece + str(value) for piece, value in zip(pieces, [*values[: len(pieces) - 1], ""]))


@functools.cache
def _raised(kind):
    """Return PyTorch's jit.Error, which is also the exception that the program names."""
    error = facula.jit.Error
    return type(kind.__name__, (error, kind), {"__module__": "torch.jit"}) if kind is not RuntimeError else error


_EXCEPTIONS = {
    k.__name__: k
    for k in (ValueError, RuntimeError, TypeError, IndexError, KeyError, NotImplementedError, AssertionError, StopIteration)
}


def _raise(text="", kind="builtins.RuntimeError"):
    raise _raised(_EXCEPTIONS.get(str(kind).rpartition(".")[2], RuntimeError))(text)


def _int_divided(a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return a // b if isinstance(a, int) and isinstance(b, int) else math.floor(a / b)
    if rounding_mode == "trunc":
        return math.trunc(a / b)
    return a / b


def _slice(of, *args, **kwargs):
    """Return the part of a list or text by `(start, end, step)`, of a tensor by `(dim, start, end, step)`."""
    if not isinstance(of, Tensor):
        start, end, step = (*args, *(None, None, 1)[len(args) :])
        return of[start:end:step]
    dim, start, end, step = (*args, *(0, None, None, 1)[len(args) :])
    return of[(slice(None),) * (dim % max(of.dim(), 1)) + (slice(start, end, step),)]


def _pow(a, b):
    return float(a) ** b if isinstance(b, float) or (isinstance(b, int) and b < 0) else a**b


def _sorted(items, reverse=False):
    return sorted(items, reverse=reverse)


def _sort_in_place(items, reverse=False):
    items.sort(reverse=reverse)


#: on what is no tensor; with tensors the op of the name is meant
_PLAIN = {
    "add": lambda a, b, alpha=1: a + (b if alpha == 1 else b * alpha), "sub": lambda a, b, alpha=1: a - b * alpha,
    "mul": lambda a, b: a * b, "div": _int_divided, "floordiv": lambda a, b: a // b, "remainder": lambda a, b: a % b,
    "fmod": math.fmod, "pow": _pow, "neg": lambda a: -a, "abs": abs, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "__and__": lambda a, b: a & b, "__or__": lambda a, b: a | b, "__xor__": lambda a, b: a ^ b,
    "__lshift__": lambda a, b: a << b,
    "__rshift__": lambda a, b: a >> b, "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
    "floor": math.floor, "ceil": math.ceil, "round": round, "sqrt": math.sqrt, "log": math.log, "log10": math.log10,
    "log1p": math.log1p, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin,
    "acos": math.acos, "atan": math.atan, "atan2": math.atan2, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "degrees": math.degrees, "radians": math.radians, "fabs": math.fabs, "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite, "copysign": math.copysign, "gcd": math.gcd, "factorial": math.factorial, "trunc": math.trunc,
    "min": min, "max": max, "any": any, "all": all, "sum": sum, "split": lambda text, *rest: text.split(*rest),
    "count": lambda items, value: items.count(value),
    "sort": _sort_in_place,
    "copy": lambda items: items.copy(), "clear": lambda items: items.clear(), "reverse": lambda items: items.reverse(),
    "list": list, "format": _format, "str": str, "join": lambda mark, items: mark.join(items), "ord": ord, "chr": chr,
    "hex": hex, "bin": bin, "oct": oct, "hash": hash, "divmod": divmod, "contiguous": lambda x: x,
}  # fmt: skip


def _of_dict(name):
    def call(of, *args):
        if not isinstance(of, dict):
            raise ScriptError(f"{name}: a dict is needed, got {type(of).__name__}")
        result = getattr(of, name)(*args)
        return list(result) if name in ("keys", "values", "items") else result

    return call


def _of_text(name):
    def call(of, *args):
        if not isinstance(of, str):
            raise ScriptError(f"{name}: text is needed, got {type(of).__name__}")
        return getattr(of, name)(*args)

    return call


def _extend(items, more):
    items.extend(more)


def _set_item(of, key, value):
    if isinstance(of, Tensor):
        raise ScriptError("_set_item: a list or a dict is needed, got a Tensor")
    of[key] = value
    return of


def _delete(of, key):
    del of[key]


def _append(items, value):
    items.append(value)
    return items


def _pop(of, *rest):
    return of.pop(*rest)


def _insert(items, at, value):
    items.insert(at, value)


def _to(self, *args, **kwargs):
    """Do `to` in its four forms, whose dtypes and memory formats are numbers."""
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        dtype, non_blocking, copy, form = (*args, *(None, False, False, None)[len(args) :])
        return self.to(dtype_of(dtype), non_blocking=bool(non_blocking), copy=bool(copy), **_form(form))
    if args and isinstance(args[0], Tensor):
        return self.to(args[0].device, args[0].dtype)
    if args:
        device, dtype, non_blocking, copy, form = (*args, *(None, None, False, False, None)[len(args) :])
        return self.to(device=device, dtype=dtype_of(dtype), non_blocking=bool(non_blocking), copy=bool(copy),
    **_form(form))
    kept = {key: _NAMED.get(key, lambda v: v)(v) for key, v in kwargs.items() if key not in ("layout", "pin_memory")}
    return self.to(**{key: v for key, v in kept.items() if v is not None})


def _form(number):
    return {} if number is None else {"memory_format": _memory_format(number)}


def _tensor(data, dtype=None, device=None, requires_grad=False):
    return facula.tensor(data, dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


def _size(of, dim=None):
    return list(of.shape) if dim is None else of.size(dim)


def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *flags):
    return facula.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _with_dtype_at(name, place):
    def call(*args, **kwargs):
        args = list(args)
        if len(args) > place:
            args[place] = dtype_of(args[place])
            kwargs["dtype"] = args.pop(place)
        kwargs = {key: v for key, v in kwargs.items() if v is not None}
        return getattr(facula, name)(*args, **kwargs)

    return call


def _upsampled(mode, linear):
    def call(input, output_size, *rest, **kwargs):
        align = rest[0] if linear and rest else None
        scales = rest[1:] if linear else rest
        scales = scales[0] if scales and isinstance(scales[0], list) else [s for s in scales if s is not None] or None
        if output_size is not None:
            return facula.nn.functional.interpolate(input, size=list(output_size), mode=mode, align_corners=align)
        return facula.nn.functional.interpolate(input, scale_factor=scales, mode=mode, align_corners=align)

    return call


def _index(of, what):
    """Return the place of a value in a list; of a tensor the elements at indices, of which None is a whole dimension."""
    if not isinstance(of, Tensor):
        return of.index(what)
    return of[tuple(slice(None) if i is None else i for i in what)]


def _unchanged(value, *rest):
    return value


def _warn(text, stacklevel=2):
    warnings.warn(text, stacklevel=3)


_TEXT = """strip lstrip rstrip replace startswith endswith upper lower find rfind isdigit isalpha isspace title capitalize zfill
    splitlines partition rpartition center ljust rjust swapcase islower isupper isalnum expandtabs isidentifier""".split()

#: whatever the values are
_ALWAYS = {
    "__is__": lambda a, b: a is b or (a is None and b is None), "__isnot__": lambda a, b: a is not b,
    "__not__": lambda a: not a,
    "__contains__": lambda of, item: item in of, "__getitem__": lambda of, at: of[at], "_set_item": _set_item,
    "Delete": _delete,
    "_native_multi_head_attention": fused.native_multi_head_attention,
    "_transformer_encoder_layer_fwd": fused.transformer_encoder_layer_fwd,
    "slice": _slice, "index": _index, "is_autocast_enabled": lambda *kind: False, "is_autocast_cpu_enabled": lambda: False,
    "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "len": len, "dim": lambda t: t.dim(),
    "size": _size,
    "Int": int, "Float": float, "Bool": bool, "IntImplicit": int, "FloatImplicit": float,
    "ScalarImplicit": lambda t: t.item(),
    "Complex": complex, "item": lambda t: t.item(), "tensor": _tensor, "as_tensor": _tensor, "to": _to, "warn": _warn,
    "device": lambda text: facula.device(text), "numel": lambda t: t.numel(),
    "is_floating_point": lambda t: t.is_floating_point(),
    "get_device": lambda t: t.get_device(), "stride": lambda t, d=None: list(t.stride()) if d is None else t.stride(d),
    "_convolution": _convolution,
    "_convolution_mode": lambda x, w, b, s, p, d, g: facula.ops.aten.conv2d(x, w, b, s, p, d, g),
    "softmax": _with_dtype_at("softmax", 2), "log_softmax": _with_dtype_at("log_softmax", 2),
    "upsample_nearest1d": _upsampled("nearest", False), "upsample_nearest2d": _upsampled("nearest", False),
    "upsample_nearest3d": _upsampled("nearest", False), "upsample_linear1d": _upsampled("linear", True),
    "upsample_bilinear2d": _upsampled("bilinear", True), "upsample_trilinear3d": _upsampled("trilinear", True),
    "upsample_bicubic2d": _upsampled("bicubic", True), "_upsample_nearest_exact2d": _upsampled("nearest-exact", False),
    "_no_grad_uniform_": _unchanged, "percentFormat": lambda text, *values: text % values,
    "type_as": lambda a, b: a.type_as(b),
    "detach": lambda t: t.detach(), "requires_grad_": lambda t, on=True: t.requires_grad_(on), "data": lambda t: t.detach(),
    "is_contiguous": lambda t, *rest: t.is_contiguous(), "element_size": lambda t: t.element_size(),
    "set_grad_enabled": lambda on: facula.set_grad_enabled(on), "is_grad_enabled": facula.is_grad_enabled,
    "keys": _of_dict("keys"), "values": _of_dict("values"), "items": _of_dict("items"), "get": _of_dict("get"),
    "setdefault": _of_dict("setdefault"), "update": _of_dict("update"), "popitem": _of_dict("popitem"),
    "is_scripting": lambda: True, "isinstance": lambda *args: True, "sorted": _sorted, "dict": dict,
    **{name: _of_text(name) for name in _TEXT},
}  # fmt: skip

_PRIM = {
    "RaiseException": _raise, "dtype": lambda t: number_of(t.dtype), "device": lambda t: t.device, "layout": lambda t: 0,
    "shape": _size, "data": lambda t: t.detach(), "min": lambda *v: min(*v), "max": lambda *v: max(*v), "abs": abs,
    "NumToTensor": facula.tensor, "requires_grad": lambda t: t.requires_grad, "is_cuda": lambda t: t.is_cuda,
    "TupleIndex": lambda t, i: t[i], "ListUnpack": list, "type": lambda d: d.type, "index": lambda d: d.index,
    "unchecked_unwrap_optional": lambda v: v, "is_meta": lambda t: t.is_meta, "grad": lambda t: t.grad,
    "itemsize": lambda t: t.itemsize,
    "Print": lambda *v: print(*v), "isinstance": lambda *v: True, "rangelist": lambda n: list(range(n)),
    "unchecked_cast": lambda v: v, "is_nested": lambda t: False, "is_quantized": lambda t: False,
    "is_sparse": lambda t: False,
    "AutogradAnyNonZero": lambda *v: any(v), "tolist": lambda t, *rest: t.tolist(), "id": id, "name": lambda t: None,
    "ConstantChunk": lambda t, chunks, dim: list(facula.chunk(t, chunks, dim)), "is_leaf": lambda t: t.is_leaf,
    "StringIndex": lambda s, i: s[i], "EnumName": lambda e: e.name, "EnumValue": lambda e: e.value,
    "retain_grad": lambda t: t.retain_grad(), "enumerate": lambda v: list(enumerate(v)), "zip": lambda *v: list(zip(*v)),
}  # fmt: skip

#: names without a module
NAMES: dict[Any, Any] = {
    "range": range, "int": int, "float": float, "bool": bool, "str": str, "len": len, "inf": math.inf, "nan": math.nan,
    "print": print, "list": list, "min": min, "max": max, "abs": abs, "round": round, "complex": complex, "sorted": sorted,
    "ord": ord, "chr": chr, "hash": hash,
}  # fmt: skip


# ops


class Op:
    """Call an op by its name: a function of plain values, or Facula's op."""

    __slots__ = ("name", "plain", "own")
    name: str
    plain: Any
    own: Any

    def __init__(self, name: str, plain: Any, own: Any) -> None:
        self.name, self.plain, self.own = name, plain, own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.plain is not None and _plain(*args):
            return self.plain(*args, **kwargs)
        if self.own is None:
            kinds = ", ".join(map(_kind, args))
            raise NotImplementedError(f"{self.name}: TorchScript's op is not there yet for {kinds}")
        for key in _NAMED.keys() & kwargs.keys():
            kwargs[key] = _NAMED[key](kwargs[key])
        kwargs = {key: v for key, v in kwargs.items() if v is not None or key in _WANT_NONE}
        result = self.own(*args, **kwargs)
        return list(result) if type(result) is tuple and self.name in _LISTS else result


_WANT_NONE = ("bias", "weight", "value", "approximate")
_LISTS = frozenset(
    """split split_with_sizes chunk unbind tensor_split hsplit vsplit dsplit meshgrid broadcast_tensors unsafe_split
    unsafe_chunk nonzero_numpy where""".split()
)
#: methods of tensors that are ops of TorchScript; others, which reach files or memory, are not to be had
_METHODS = frozenset(
    """view view_as reshape reshape_as expand expand_as permute contiguous clone copy_ fill_ zero_ masked_fill
    masked_fill_ repeat index_put index_put_ index_add index_add_ index_copy_ index_fill index_fill_ scatter scatter_
    scatter_add scatter_add_ type_as uniform_ normal_ bernoulli_ random_ exponential_ new_zeros new_ones new_full
    new_empty squeeze_ unsqueeze_ transpose_ t_ detach detach_ narrow select unfold sum_to_size float double half int
    long bool bfloat16 byte char short cpu cuda resize_ resize_as_ masked_scatter masked_scatter_ put_ take_along_dim
    diagonal unflatten swapaxes swapdims element_size is_complex is_signed clamp_ clip_ add_ sub_ mul_ div_ pow_ neg_
    abs_ exp_ log_ sqrt_ rsqrt_ floor_ ceil_ round_ sigmoid_ tanh_ relu_ lerp_ addcmul_ addcdiv_ addmm_ baddbmm_
    logical_and_ logical_or_ logical_not_ logical_xor_ bitwise_and_ bitwise_or_ bitwise_not_ eq_ ne_ lt_ le_ gt_ ge_
    tril_ triu_ unsafe_chunk nonzero_numpy remainder_ fmod_ clamp_min_ clamp_max_ reciprocal_ square_ sin_ cos_
    index_select masked_select is_same_size""".split()
)


#: files of facula/functions whose functions are ops
_TOPICS = frozenset("fft index linalg lobpcg loss matmul reduce resample rnn scaling shape".split())


def _kind(value):
    return f"Tensor{list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


_SETTINGS = frozenset(
    """set_num_threads set_default_dtype set_flush_denormal set_autocast_cache_enabled autocast_increment_nesting
    autocast_decrement_nesting clear_autocast_cache from_numpy to_dlpack""".split()
)


def _find(name):
    """Return Facula's op of this name of ATen, or None."""
    core = vars(facula._C).get(name) if name not in _SETTINGS else None
    if callable(core) and not name.startswith("_") and type(core).__name__ == "builtin_function_or_method":
        return core
    for prefix, module in (("linalg_", facula.linalg), ("fft_", facula.fft), ("special_", facula.special)):
        if name.startswith(prefix) and callable(found := getattr(module, name.removeprefix(prefix), None)):
            return found
    functional = vars(facula.nn.functional).get(name)
    if callable(functional) and not name.startswith("_") and not isinstance(functional, type):
        return functional
    if name in _METHODS:
        return getattr(Tensor, name, None)
    written = getattr(facula, name, None)
    home = getattr(written, "__module__", None) or ""
    if callable(written) and home.startswith("facula.functions.") and home.rpartition(".")[2] in _TOPICS:
        return written
    found = vars(facula._C._ops).get(name)
    if callable(found) and not name.startswith("__"):
        return found
    if name.endswith("_") and not name.endswith("__") and (plain := _find(name[:-1])) is not None:
        return lambda self, *args, **kwargs: self.copy_(plain(self, *args, **kwargs))
    return None


@functools.cache
def op(namespace, name):
    """Return the op `namespace::name`; an archive that names one which is not there says so when it is called."""
    if namespace == "prim":
        function = _PRIM.get(name)
        if function is None:
            raise ScriptError(f"prim::{name} is not known")
        return Op(f"ops.prim.{name}", None, function)
    if namespace != "aten":
        registered = facula.library.find(namespace, name)
        if registered is None:
            raise ScriptError(f"no operator {namespace}::{name} is registered")
        return Op(f"ops.{namespace}.{name}", None, registered)
    if name in _ALWAYS:
        return Op(name, None, _ALWAYS[name])
    return Op(name, _PLAIN.get(name), _find(name))
