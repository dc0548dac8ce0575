"""What qconfigs are asked: dtypes and kinds of quantisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from .quant_type import QuantType

if TYPE_CHECKING:
    from typing import Any

_INT8 = (facula.quint8, facula.qint8, facula.uint8, facula.int8)
_FLOAT8 = (facula.float8_e5m2, facula.float8_e4m3fn)
_STATIC = (*_INT8, facula.qint32, facula.int16, facula.int32, *_FLOAT8)


def activation_dtype(qconfig: Any) -> facula.dtype:
    """The dtype of activations.

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
    """The dtype of weights.

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
    """Whether activations have scales found before.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_statically_quantized(torch.ao.quantization.default_qconfig)
    True
    """
    return activation_dtype(qconfig) in (*_STATIC, facula.float16) and not activation_is_dynamically_quantized(qconfig)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Whether activations get their scales with each input.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_dynamically_quantized(torch.ao.quantization.default_dynamic_qconfig)
    True
    """
    return bool(get_qconfig_dtypes(qconfig)[2])


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Whether activations have levels of eight bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_int8_quantized(torch.ao.quantization.default_qconfig)
    True
    """
    return activation_dtype(qconfig) in _INT8


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Whether activations have levels of 32 bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.activation_is_int32_quantized(torch.ao.quantization.default_qconfig)
    False
    """
    return activation_dtype(qconfig) in (facula.qint32, facula.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights are quantised at all, float16 among them.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.weight_is_quantized(torch.ao.quantization.float16_dynamic_qconfig)
    True
    """
    return weight_dtype(qconfig) in (*_INT8, facula.quint4x2, facula.int16, facula.int32, facula.float16, *_FLOAT8)


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Whether weights have levels of eight bits.

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.weight_is_statically_quantized(torch.ao.quantization.float16_dynamic_qconfig)
    False
    """
    return weight_dtype(qconfig) in _INT8


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Whether activations are rounded to eight bits with each input and weights have eight bits.

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
    """(dtype of activations, dtype of weights, whether activations get their scales with each input).

    Args:
        qconfig: says it.

    Errors: AssertionError for None.

    >>> torch.ao.quantization.utils.get_qconfig_dtypes(torch.ao.quantization.default_dynamic_qconfig)
    (torch.quint8, torch.qint8, True)
    """
    activation = _activation(qconfig, "get_qconfig_dtypes")
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig: Any) -> QuantType:
    """The `QuantType` of a qconfig.

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
    raise Exception(f"get_quant_type: Unrecognized dtype combination, got {activation.dtype} and {weight}")


def get_swapped_custom_module_class(custom_module: Any, custom_module_class_mapping: Any, qconfig: Any) -> Any:
    """What the mapping of the qconfig's kind has for a module's class.

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
