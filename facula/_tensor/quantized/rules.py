"""Define what functions do when an argument is a quantized tensor.

Functions that only move elements run on the integers, and so do functions that preserve order, such as a maximum or a
limit. A few others compute on the values and round the result, with the scale of the input or with a scale of their
own. A rule is found by the name of its function.
"""

from __future__ import annotations

import facula
from facula import _C
from facula._operators.pointwise import is_inplace, plain_name

from .schemes import PerChannel, PerTensor
from .tensor import QuantizedTensor, levels_of, wrap

#: functions of places: the same on levels as on values
_PLACES = frozenset(
    """
    view reshape view_as reshape_as flatten unflatten ravel contiguous clone detach alias squeeze unsqueeze expand expand_as
    repeat tile transpose swapaxes swapdims t permute movedim moveaxis narrow select index_select gather chunk split
    tensor_split unbind flip roll take as_strided unfold diagonal adjoint cpu cuda pin_memory broadcast_to
    channel_shuffle pixel_shuffle pixel_unshuffle repeat_interleave hsplit vsplit dsplit split_with_sizes slice getitem
    functional_pixel_shuffle resolve_conj resolve_neg data
    """.split()
)
#: functions that keep order: what is greatest among levels is greatest among values
_ORDER = frozenset(
    """
    max_pool1d max_pool2d max_pool3d max min amax amin sort topk msort maximum minimum cummax cummin kthvalue median
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices
    """.split()
)
#: functions whose values are rounded to the levels of their input
_ROUNDED = frozenset(
    """
    mean std var avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d interpolate
    upsample upsample_nearest upsample_bilinear elu celu leaky_relu prelu hardswish masked_fill cat concat concatenate stack
    relu relu6 clamp clip clamp_min clamp_max hardtanh threshold dropout dropout1d dropout2d dropout3d
    alpha_dropout feature_alpha_dropout pad reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d where
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d upsample_trilinear3d
    upsample_bicubic2d instance_norm layer_norm group_norm softmax grid_sample
    """.split()
)
#: functions with levels of their own: (scale, zero point of quint8)
_OWN_LEVELS = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}
#: functions whose results are no values
_ANSWERS = frozenset("eq ne lt le gt ge greater less greater_equal less_equal not_equal equal allclose isclose".split())
_OBJECT = frozenset(
    """
    size dim ndimension numel nelement stride storage_offset is_contiguous element_size data_ptr untyped_storage is_pinned
    get_device is_floating_point is_complex is_same_size __len__ __hash__ is_shared share_memory_ _is_view is_set_to
    is_inference is_tensor has_names register_hook is_storage _version
    """.split()
)
_TURNED = frozenset(("T", "H", "mT", "mH"))
_REFUSED_CASTS = frozenset("float double half bfloat16 int long short bool char byte".split())


def call(func, args, kwargs):
    """Run a function whose arguments have quantized tensors."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        attribute = getattr(func.__self__, "__name__", "")
        if attribute in _TURNED:
            return args[0].transpose(-2, -1) if attribute.startswith("m") else args[0].permute(*reversed(range(args[0].dim())))
        value = _off(func, *args)
        return wrap(value, args[0]._scheme) if attribute == "data" else value
    if name in ("__set__", "__delete__") or name in _OBJECT:
        return _off(func, *args, **kwargs)
    short = plain_name(name)
    short = short.removeprefix("functional_")
    rule = RULES.get(name) or RULES.get(short)
    if rule is None:
        instead = "use dequantize() or ao.nn.quantized.QFunctional"
        raise NotImplementedError(f"{name}: not supported for quantized tensors, {instead}, got {_described(args)}")
    return rule(func, short, args, kwargs)


QuantizedTensor._call_by_rule = staticmethod(call)


def _off(func, *args, **kwargs):
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _described(args):
    found = [f"{x.dtype} of shape {tuple(x.shape)}" for x in _leaves(args) if isinstance(x, facula.Tensor)]
    return ", ".join(found)


def _leaves(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _first(args, kwargs):
    return next(x for x in _leaves([*args, *kwargs.values()]) if isinstance(x, QuantizedTensor))


def _mapped(value, change):
    if isinstance(value, QuantizedTensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(x, change) for x in value)
    return value


def _on(func, args, kwargs, change):
    return _off(func, *_mapped(tuple(args), change), **{k: _mapped(v, change) for k, v in kwargs.items()})


def _wrapped(result, scheme):
    """Make levels among results tensors of the scheme; indices and answers stay."""
    if isinstance(result, facula.Tensor):
        return wrap(result, scheme) if result.dtype is scheme.dtype._levels else result
    if isinstance(result, (list, tuple)):
        parts = [_wrapped(x, scheme) for x in result]
        return type(result)(parts)
    return result


def _per_tensor(name, x):
    if isinstance(x._scheme, PerChannel):
        raise NotImplementedError(f"{name}: not supported for tensors quantized per channel, got {_described([x])}")
    return x._scheme


# ---- places


def _places(func, name, args, kwargs):
    x = _first(args, kwargs)
    if is_inplace(getattr(func, "__name__", "")):
        raise NotImplementedError(f"{name}_: not supported for quantized tensors, got {_described(args)}")
    if isinstance(x._scheme, PerChannel):
        return _places_of_channels(func, name, args, kwargs, x)
    return _wrapped(_on(func, args, kwargs, levels_of), x._scheme)


def _places_of_channels(func, name, args, kwargs, x):
    """Return where channels lie along a dimension, which must be found again in the result."""
    scheme, dims = x._scheme, x.dim()
    levels = _on(func, args, kwargs, levels_of)
    if name in ("clone", "detach", "alias", "contiguous", "cpu", "data", "pin_memory"):
        return wrap(levels, scheme)
    if name in ("getitem", "select") and isinstance(args[1], int) and len(args) == (2 if name == "getitem" else 3):
        axis, index = (0, args[1]) if name == "getitem" else (args[1] % dims, args[2])
        if axis == scheme.axis:
            return wrap(levels, scheme.at(index))
        return wrap(levels, scheme.moved(scheme.axis - (axis < scheme.axis)))
    if name in ("transpose", "t", "permute", "swapaxes", "movedim") and levels.dim() == dims:
        # what a tensor of the dimensions' numbers as sizes becomes tells where they went
        ruler = _C.empty([i + 1 for i in range(dims)], device="meta")
        moved = _off(func, ruler, *args[1:], **kwargs)
        return wrap(levels, scheme.moved(list(moved.shape).index(scheme.axis + 1)))
    return _per_tensor(name, x)


def _copied(func, name, args, kwargs):
    """Copy as to() does: on another device; the dtype stays."""
    x = args[0]
    asked = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, (facula.dtype, facula.Tensor))]
    others = [v for v in asked if (v.dtype if isinstance(v, facula.Tensor) else v) is not x.dtype]
    if others:
        raise RuntimeError(f"to: a quantized tensor gives its values by dequantize(), got {others[0]}")
    rest = [v for v in args[1:] if not isinstance(v, (facula.dtype, facula.Tensor))]
    kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, (facula.dtype, facula.Tensor))}
    return wrap(levels_of(x).to(*rest, **kwargs), x._scheme) if rest or kwargs else x


def _refused_cast(func, name, args, kwargs):
    raise RuntimeError(f"{name}: a quantized tensor gives its values by dequantize(), got {_described(args)}")


# ---- order and values


def _order(func, name, args, kwargs):
    x = _first(args, kwargs)
    scheme = _per_tensor(name, x)
    others = [v for v in _leaves([*args, *kwargs.values()]) if isinstance(v, QuantizedTensor)]
    if not all(scheme.is_like(v._scheme) for v in others):
        return _rounded(func, name, args, kwargs)
    wide = scheme.dtype._levels
    # pooling and order know floating-point numbers at any rate, and those hold all levels of a byte
    result = _on(func, args, kwargs, lambda v: levels_of(v).to(_C.float64 if wide is _C.int32 else _C.float32))

    def back(value):
        if isinstance(value, facula.Tensor):
            return wrap(value.to(wide), scheme) if value.is_floating_point() else value
        return type(value)(map(back, value)) if isinstance(value, (list, tuple)) else value

    return back(result)


def _rounded(func, name, args, kwargs):
    x = _first(args, kwargs)
    scheme = _per_tensor(name, x)
    if is_inplace(getattr(func, "__name__", "")) or kwargs.get("inplace"):
        kwargs = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
        result = _on(func, args, kwargs, QuantizedTensor.dequantize)
        levels_of(x).copy_(scheme.levels(result))
        return x
    result = _on(func, args, kwargs, QuantizedTensor.dequantize)
    return wrap(scheme.levels(result.detach()), scheme)


def _own_levels(func, name, args, kwargs):
    x = args[0]
    _per_tensor(name, x)
    scale, zero = _OWN_LEVELS[name]
    if x.dtype is _C.qint8:
        zero -= 128
    scheme = PerTensor(x.dtype, scale, zero)
    return wrap(scheme.levels(_on(func, args, kwargs, QuantizedTensor.dequantize)), scheme)


def _answers(func, name, args, kwargs):
    return _on(func, args, kwargs, QuantizedTensor.dequantize)


def _equal(func, name, args, kwargs):
    x, y = args
    alike = isinstance(x, QuantizedTensor) and isinstance(y, QuantizedTensor) and x._scheme.is_like(y._scheme)
    return alike and _C.equal(levels_of(x), levels_of(y))


# ---- in place


def _fill(func, name, args, kwargs):
    x = args[0]
    value = facula.as_tensor(args[1] if len(args) > 1 else kwargs["value"], dtype=_C.float32)
    levels_of(x).copy_(x._scheme.levels(value.expand(x.shape)))
    return x


def _copy(func, name, args, kwargs):
    """Copy as copy_ does: values of a plain tensor are rounded; levels of a quantized one are taken with what they mean."""
    to, source = args[0], args[1]
    if not isinstance(to, QuantizedTensor):
        raise RuntimeError(f"copy_: a quantized tensor gives its values by dequantize(), got {_described(args)}")
    if not isinstance(source, QuantizedTensor):
        if source.dtype is not _C.float32:
            raise RuntimeError(f"copy_: a quantized tensor takes values of float32, got {source.dtype}")
        levels_of(to).copy_(to._scheme.levels(source.detach().expand(to.shape)))
        return to
    if source.dtype is not to.dtype or source.qscheme() is not to.qscheme():
        raise RuntimeError(f"copy_: expected tensors of one quantized dtype and scheme, got {_described(args)}")
    levels_of(to).copy_(levels_of(source))
    to._scheme, to._rows = source._scheme, None
    return to


def _set_item(func, name, args, kwargs):
    x, index, value = args
    target = x[index]
    if isinstance(value, QuantizedTensor):
        value = value.dequantize()
    value = facula.as_tensor(value, dtype=_C.float32)
    levels = target._scheme.levels(value.expand(target.shape))
    levels_of(x)[index] = levels


def _like(func, name, args, kwargs):
    """Make what empty_like and so on give: of the same levels, holding zero."""
    x = args[0]
    if name == "full_like":
        return wrap(x._scheme.levels(facula.full(x.shape, float(args[1]), dtype=_C.float32, device=x.device)), x._scheme)
    value = 1.0 if name == "ones_like" else 0.0
    return wrap(x._scheme.levels(facula.full(x.shape, value, dtype=_C.float32, device=x.device)), x._scheme)


RULES = {
    **dict.fromkeys(_PLACES, _places),
    **dict.fromkeys(_ORDER, _order),
    **dict.fromkeys(_ROUNDED, _rounded),
    **dict.fromkeys(_OWN_LEVELS, _own_levels),
    **dict.fromkeys(_ANSWERS, _answers),
    **dict.fromkeys(_REFUSED_CASTS, _refused_cast),
    **dict.fromkeys(("empty_like", "zeros_like", "ones_like", "full_like"), _like),
    "__getitem__": _places, "__setitem__": _set_item, "to": _copied, "equal": _equal, "fill_": _fill, "copy_": _copy,
}  # fmt: skip
