"""Define helpers of observers: levels, scales, dtypes.

Long because PyTorch has what files of quantization share in one file of this name.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import facula
from facula.nn.utils.parametrize import is_parametrized

from .quant_type import QuantType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = [
    "DEPRECATION_WARNING", "MatchAllNode", "NodePattern", "Pattern", "activation_dtype", "activation_is_dynamically_quantized",
    "activation_is_int32_quantized", "activation_is_int8_quantized", "activation_is_statically_quantized",
    "calculate_qmin_qmax", "check_min_max_valid", "determine_qparams", "get_combined_dict",
    "get_fqn_to_example_inputs", "get_qconfig_dtypes", "get_qparam_dict", "get_quant_type", "get_swapped_custom_module_class",
    "getattr_from_fqn", "has_no_children_ignoring_parametrizations", "is_per_channel", "is_per_tensor",
    "op_is_int8_dynamically_quantized", "to_underlying_dtype", "validate_qmin_qmax", "weight_dtype", "weight_is_quantized",
    "weight_is_statically_quantized",
]  # fmt: skip


_INT8 = (facula.quint8, facula.qint8, facula.uint8, facula.int8)
_FLOAT8 = (facula.float8_e5m2, facula.float8_e4m3fn)
_STATIC = (*_INT8, facula.qint32, facula.int16, facula.int32, *_FLOAT8)


# ---- What qconfigs are asked: dtypes and kinds of quantization


def activation_dtype(qconfig: Any) -> facula.dtype:
    """Return the dtype of activations.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_dtype(torch.ao.quantization.default_qconfig)
    torch.quint8
    """
    return _activation(qconfig, "activation_dtype").dtype


def _activation(qconfig, name):
    if qconfig is None:
        raise AssertionError(f"{name}: expected a qconfig, got None")
    return qconfig.activation()


def weight_dtype(qconfig: Any) -> facula.dtype:
    """Return the dtype of weights.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.weight_dtype(torch.ao.quantization.default_qconfig)
    torch.qint8
    """
    if qconfig is None:
        raise AssertionError("weight_dtype: expected a qconfig, got None")
    return qconfig.weight().dtype


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Return True if activations have scales found before.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_statically_quantized(torch.ao.quantization.default_qconfig)
    True
    """
    return activation_dtype(qconfig) in (*_STATIC, facula.float16) and not activation_is_dynamically_quantized(qconfig)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Return True if activations get their scales with each input.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_dynamically_quantized(torch.ao.quantization.default_dynamic_qconfig)
    True
    """
    return bool(get_qconfig_dtypes(qconfig)[2])


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Return True if activations have levels of eight bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_int8_quantized(torch.ao.quantization.default_qconfig)
    True
    """
    return activation_dtype(qconfig) in _INT8


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Return True if activations have levels of 32 bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_int32_quantized(torch.ao.quantization.default_qconfig)
    False
    """
    return activation_dtype(qconfig) in (facula.qint32, facula.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    """Return True if weights are quantized at all, float16 among them.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.weight_is_quantized(torch.ao.quantization.float16_dynamic_qconfig)
    True
    """
    return weight_dtype(qconfig) in (*_INT8, facula.quint4x2, facula.int16, facula.int32, facula.float16, *_FLOAT8)


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Return True if weights have levels of eight bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.weight_is_statically_quantized(torch.ao.quantization.float16_dynamic_qconfig)
    False
    """
    return weight_dtype(qconfig) in _INT8


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Return True if activations are rounded to eight bits with each input and weights have eight bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.op_is_int8_dynamically_quantized(torch.ao.quantization.default_dynamic_qconfig)
    True
    """
    dtypes = (facula.quint8, facula.uint8)
    found = activation_dtype(qconfig), activation_is_dynamically_quantized(qconfig), weight_dtype(qconfig)
    return found[0] in dtypes and found[1] and found[2] in (facula.qint8, facula.int8)


def get_qconfig_dtypes(qconfig: Any) -> tuple[facula.dtype, facula.dtype, bool]:
    """Return (dtype of activations, dtype of weights, whether activations get their scales with each input).

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.get_qconfig_dtypes(torch.ao.quantization.default_dynamic_qconfig)
    (torch.quint8, torch.qint8, True)
    """
    activation = _activation(qconfig, "get_qconfig_dtypes")
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig: Any) -> QuantType:
    """Return the `QuantType` of a qconfig.

    Args:
        qconfig: says it.

    Errors: AssertionError for None; Exception for a combination that has none.

    >>> torch.ao.quantization.utils.get_quant_type(torch.ao.quantization.default_dynamic_qconfig)
    <QuantType.DYNAMIC: 0>
    """
    activation = _activation(qconfig, "get_quant_type")
    weight = qconfig.weight().dtype
    widths = (*_STATIC, facula.quint4x2)
    if weight in widths or weight is facula.float16:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype in ((facula.float16,) if weight is facula.float16 else _STATIC):
            return QuantType.STATIC
        if weight in widths:
            return QuantType.WEIGHT_ONLY
    raise Exception(f"get_quant_type: dtypes that go together are expected, got {activation.dtype} and {weight}")


def get_swapped_custom_module_class(custom_module: Any, custom_module_class_mapping: Any, qconfig: Any) -> Any:
    """Return what the mapping of the qconfig's kind has for a module's class.

    Args:
        custom_module: whose class is looked up.
        custom_module_class_mapping: {`QuantType`: {class: class}}.
        qconfig: says which kind.

    Errors: AssertionError where it has nothing.

    >>> from torch.ao.quantization import QuantType, default_qconfig
    >>> from torch.ao.quantization.utils import get_swapped_custom_module_class
    >>> get_swapped_custom_module_class(nn.ReLU(), {QuantType.STATIC: {nn.ReLU: nn.ReLU6}}, default_qconfig).__name__
    'ReLU6'
    """
    mapping = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in mapping:
        raise AssertionError(
            f"get_swapped_custom_module_class: expected one of {[cls.__name__ for cls in mapping]}, "
            f"got {type(custom_module).__name__}"
        )
    return mapping[type(custom_module)]


NodePattern = Any
Pattern = Any
DEPRECATION_WARNING = "torch.ao.quantization is deprecated in PyTorch; torchao has its successors"

_TENSOR_SCHEMES = (facula.per_tensor_affine, facula.per_tensor_symmetric)
_CHANNEL_SCHEMES = (facula.per_channel_affine, facula.per_channel_affine_float_qparams, facula.per_channel_symmetric)
#: dtype -> levels, levels of a reduced range
_SIGNED = ((-128, 127), (-64, 63))
_UNSIGNED = ((0, 255), (0, 127))
_WORD = ((-(2**31), 2**31 - 1),) * 2
_LEVELS = {
    facula.qint8: _SIGNED, facula.int8: _SIGNED, facula.quint8: _UNSIGNED, facula.uint8: _UNSIGNED,
    facula.qint32: _WORD, facula.int32: _WORD, facula.uint16: ((0, 65535),) * 2, facula.int16: ((-32768, 32767),) * 2,
}  # fmt: skip
#: dtype -> how many levels a range of one's own may have
_MOST_LEVELS = {facula.qint8: 2**8, facula.int8: 2**8, facula.qint32: 2**32, facula.int32: 2**32}

_UNDERLYING = {
    facula.quint8: facula.uint8, facula.qint8: facula.int8, facula.qint32: facula.int32, facula.quint4x2: facula.uint8,
    facula.quint2x4: facula.uint8,
}  # fmt: skip
_ITSELF = (
    facula.uint8, facula.int8, facula.uint16, facula.int16, facula.int32, facula.float8_e5m2, facula.float8_e4m3fn,
)  # fmt: skip


class MatchAllNode:
    """Match any node in a pattern: see `get_fuser_method_new`.

    >>> from torch.ao.quantization.utils import MatchAllNode
    >>> find = torch.ao.quantization.get_fuser_method_new
    >>> find((nn.ReLU, nn.Linear), {(nn.ReLU, MatchAllNode): max}) is max
    True
    """


def is_per_tensor(qscheme: Any) -> bool:
    """Return whether a scheme has one scale.

    Args:
        qscheme: such as ``torch.per_tensor_affine``.

    >>> torch.ao.quantization.utils.is_per_tensor(torch.per_tensor_symmetric)
    True
    """
    return qscheme in _TENSOR_SCHEMES


def is_per_channel(qscheme: Any) -> bool:
    """Return whether a scheme has a scale for each channel.

    Args:
        qscheme: such as ``torch.per_channel_affine``.

    >>> torch.ao.quantization.utils.is_per_channel(torch.per_tensor_symmetric)
    False
    """
    return qscheme in _CHANNEL_SCHEMES


def is_symmetric(qscheme: Any) -> bool:
    """Return whether a scheme has zero in the middle of its levels."""
    return qscheme in (facula.per_tensor_symmetric, facula.per_channel_symmetric)


def is_float_qparams(qscheme: Any) -> bool:
    """Return whether a scheme's zero points are no integers."""
    return qscheme in (facula.per_channel_affine_float_qparams,)


def to_underlying_dtype(qdtype: facula.dtype) -> facula.dtype:
    """Return the dtype of a quantized dtype's levels.

    Args:
        qdtype: such as quint8; dtypes of whole numbers are their own.

    Errors: AssertionError for others.

    >>> torch.ao.quantization.utils.to_underlying_dtype(torch.quint8)
    torch.uint8
    """
    if qdtype in _UNDERLYING:
        return _UNDERLYING[qdtype]
    if qdtype not in _ITSELF:
        raise AssertionError(f"to_underlying_dtype: a quantized dtype is expected, got {qdtype}")
    return qdtype


def get_combined_dict(default_dict: dict[Any, Any], additional_dict: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dictionary with entries of another one added or put in their places.

    Args:
        default_dict, additional_dict: stay as they are; the second one counts.

    >>> torch.ao.quantization.utils.get_combined_dict({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 3}
    """
    return {**default_dict, **additional_dict}


# ---- levels and scales


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Raise AssertionError unless ``quant_min <= 0 <= quant_max`` and they differ.

    Args:
        quant_min, quant_max: levels.

    >>> torch.ao.quantization.utils.validate_qmin_qmax(-8, 7)
    """
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"observer: Used-specified quantization range must include 0, got {quant_min} to {quant_max}")
    if quant_min >= quant_max:
        raise AssertionError(f"observer: qmin must be strictly less than qmax, got {quant_min} and {quant_max}")


def calculate_qmin_qmax(quant_min: int | None, quant_max: int | None, has_customized_qrange: bool, dtype: facula.dtype,
                        reduce_range: bool) -> tuple[int, int]:  # fmt: skip
    """Return (least level, greatest level).

    Args:
        quant_min, quant_max: levels of one's own, used with `has_customized_qrange`.
        has_customized_qrange: whether they count.
        dtype: whose levels are meant otherwise.
        reduce_range: if True, use half of them.

    Errors: AssertionError for more levels than the dtype has.

    >>> torch.ao.quantization.utils.calculate_qmin_qmax(None, None, False, torch.qint8, True)
    (-64, 63)
    """
    if not has_customized_qrange:
        # As in PyTorch, all other dtypes get the 16 levels of quint4x2.
        return _LEVELS.get(dtype, ((0, 15),) * 2)[reduce_range]
    low, high = (quant_min, quant_max) if None not in (quant_min, quant_max) else _LEVELS.get(dtype, _UNSIGNED)[0]
    most = _MOST_LEVELS.get(dtype)
    if most is not None and not 0 < high - low + 1 <= most:
        raise AssertionError(
            f"calculate_qmin_qmax: expected from 1 to {most} levels, got the range {low} to {high}"
        )
    return (low // 2, high // 2) if reduce_range else (low, high)


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Return whether an observer has seen values; warn where it has not.

    Args:
        min_val, max_val: tensors, infinite or empty before anything was seen.

    Errors: AssertionError where min is above max.

    >>> torch.ao.quantization.utils.check_min_max_valid(torch.tensor(-1.0), torch.tensor(2.0))
    True
    """
    unseen = min_val.dim() == 0 and min_val.item() == float("inf") and max_val.item() == float("-inf")
    if min_val.numel() == 0 or max_val.numel() == 0 or unseen:
        warnings.warn("calculate_qparams: nothing has been observed yet, so scale 1 and zero point 0", stacklevel=2)
        return False
    if not (min_val <= max_val).all():
        raise AssertionError(f"observer: min {min_val.tolist()} should be less than max, got {max_val.tolist()}")
    return True


def determine_qparams(min_val: Tensor, max_val: Tensor, quant_min: int, quant_max: int, dtype: facula.dtype, eps: Tensor,
                      has_customized_qrange: bool,
                      qscheme: Any = facula.per_tensor_affine) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return (scale, zero point) of values from min_val to max_val, one or one for each channel.

    Args:
        min_val, max_val: tensors of no dimension, or of one entry for each channel.
        quant_min, quant_max: the levels.
        dtype: of the quantized tensor; it says where the middle is of a symmetric scheme.
        eps: a tensor, the least scale.
        has_customized_qrange: whether the levels are not the dtype's own.
        qscheme: how levels are laid out.

    Example::

        >>> from torch.ao.quantization.utils import determine_qparams
        >>> low, high = torch.tensor(-1.0), torch.tensor(4.1)
        >>> scale, zero = determine_qparams(low, high, 0, 255, torch.quint8, torch.tensor([1e-7]), False)
        >>> round(scale.item(), 4), zero.item()
        (0.02, 50)
    """
    if not check_min_max_valid(min_val, max_val):
        return facula.tensor([1.0], device=min_val.device.type), facula.tensor([0], device=min_val.device.type)
    # Zero must be a level, because padding and ReLU produce exact zeros.
    low, high = min_val.clamp(max=0), max_val.clamp(min=0)
    if is_symmetric(qscheme):
        scale = facula.maximum(facula.maximum(-low, high) / (float(quant_max - quant_min) / 2), eps)
        # Zero lies in the middle of the levels: at 0 for signed dtypes, at 128 for unsigned ones of eight bits.
        middle = 0
        if dtype in (facula.uint8, facula.quint8):
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 128
        elif dtype is facula.uint16:
            middle = 2**15
        zero_point = facula.full_like(scale, middle, dtype=facula.int64)
    elif is_float_qparams(qscheme):
        scale = (max_val - min_val) / float(quant_max - quant_min)
        # A channel whose values are all equal has no range, so its scale is 1.
        scale = facula.where(scale > eps, scale, facula.ones_like(scale))
        zero_point = -min_val / scale
    else:
        scale = facula.maximum((high - low) / float(quant_max - quant_min), eps)
        zero_point = (quant_min - facula.round(low / scale).to(facula.int32)).clamp(quant_min, quant_max)
    return scale.reshape(-1), zero_point.reshape(-1)


def get_qparam_dict(observer_or_fake_quant: Module) -> dict:
    """Return what an observer says of a quantized tensor: qscheme, dtype, scale, zero_point, axis, quant_min, quant_max.

    Args:
        observer_or_fake_quant: one that has seen values.

    Errors: RuntimeError for another scheme.

    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> _ = observer(torch.tensor([0.0, 255.0]))
    >>> found = torch.ao.quantization.utils.get_qparam_dict(observer)
    >>> found["scale"], found["quant_max"], found["qscheme"]
    (tensor([1.]), 255, torch.per_tensor_affine)
    """
    qscheme = getattr(observer_or_fake_quant, "qscheme", None)
    found = {"qscheme": qscheme, "dtype": observer_or_fake_quant.dtype}
    if qscheme is None:
        return found
    if is_per_tensor(qscheme):
        qscheme = facula.per_tensor_affine
    elif is_per_channel(qscheme):  # in quantized tensors symmetric schemes are affine ones
        qscheme = facula.per_channel_affine
        found["axis"] = observer_or_fake_quant.ch_axis
    else:
        raise RuntimeError(f"get_qparam_dict: a qscheme that is known is expected, got {qscheme}")
    found["qscheme"] = qscheme
    found["scale"], found["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, name):
            found[name] = getattr(observer_or_fake_quant, name)
    return found


# ---- modules


def getattr_from_fqn(obj: Any, fqn: str) -> type:
    """Return the attribute of attributes that a name with dots says.

    Args:
        obj: where the name begins.
        fqn: the name.

    Errors: AttributeError for a name that does not exist.

    >>> torch.ao.quantization.utils.getattr_from_fqn(torch, "nn.functional.relu").__name__
    'relu'
    """
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Return whether a module has no submodules but those of `nn.utils.parametrize`.

    Args:
        module: any module.

    >>> torch.ao.quantization.utils.has_no_children_ignoring_parametrizations(nn.Sequential(nn.ReLU()))
    False
    """
    return not module._modules or (is_parametrized(module) and set(module._modules) == {"parametrizations"})


def get_fqn_to_example_inputs(model: Module, example_inputs: Sequence[Tensor]) -> dict:
    """Return the positional inputs of every submodule, by name, when the model is called with `example_inputs`.

    Example::

        >>> from torch.ao.quantization.utils import get_fqn_to_example_inputs
        >>> found = get_fqn_to_example_inputs(nn.Sequential(nn.ReLU(), nn.Tanh()), (torch.ones(2),))
        >>> sorted(found)
        ['', '0', '1']
    """
    found = {}
    names = {module: name for name, module in model.named_modules()}
    hooks = [
        module.register_forward_pre_hook(lambda module, inputs: found.__setitem__(names[module], inputs)) for module in names
    ]
    try:
        model(*example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
