"""List the functions that work element by element, for subclasses that run them directly on the tensor that they hold."""

from __future__ import annotations

POINTWISE = frozenset(
    """
    add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow float_power neg negative abs
    absolute exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh sigmoid logit erf erfc erfinv lgamma digamma ceil floor round trunc frac sign sgn signbit clamp clip
    clamp_min clamp_max relu relu6 gelu silu mish selu celu elu leaky_relu hardtanh hardswish hardsigmoid softplus softsign
    logsigmoid threshold tanhshrink hardshrink softshrink where maximum minimum fmax fmin lerp addcmul addcdiv hypot nextafter
    copysign xlogy eq ne lt le gt ge greater less greater_equal less_equal not_equal logical_and logical_or logical_not
    logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor isnan isinf isfinite isposinf isneginf isclose nan_to_num
    masked_fill to float double half bfloat16 int long short bool char byte type_as zeros_like ones_like empty_like full_like
    zero fill invert and or xor floordiv truediv mod copy data cpu cuda real imag conj angle clone deg2rad rad2deg
    """.split()
)

#: what only looks at the object, or works on its memory
RAW = frozenset(
    """
    requires_grad_ register_hook register_post_accumulate_grad_hook retain_grad is_floating_point is_complex is_signed dim
    ndimension data_ptr untyped_storage storage element_size get_device type is_contiguous is_pinned is_shared _is_view
    is_inference __hash__ is_same_size is_nonzero is_set_to has_names share_memory_ is_tensor is_storage numel
    """.split()
)

DRAWN_INPLACE = frozenset("uniform_ normal_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_ random_".split())


def plain_name(name: str) -> str:
    """Return the plain name of an op: `__radd__`, `__iadd__` and `add_` are add."""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        for prefix in ("r", "i"):
            if name[1:] in POINTWISE and name.startswith(prefix) and name not in ("round", "remainder", "rsub"):
                return name[1:]
        return name
    return name[:-1] if name.endswith("_") and not name.startswith("_") else name


def is_inplace(name: str) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
    return name.endswith("_")
