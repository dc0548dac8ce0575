"""Map classes of layers to those that replace them: in training with rounding, after training, and with dynamic scales."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import facula.ao.nn.intrinsic as nni
import facula.ao.nn.intrinsic.qat as nniqat
import facula.ao.nn.intrinsic.quantized as nniq
import facula.ao.nn.intrinsic.quantized.dynamic as nniqd
import facula.ao.nn.qat as nnqat
import facula.ao.nn.qat.dynamic as nnqatd
import facula.ao.nn.quantized as nnq
import facula.ao.nn.quantized.dynamic as nnqd
from facula import nn
from facula.nn.utils.parametrize import type_before_parametrizations

from .fake_quantize import default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS", "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings", "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings", "get_dynamic_quant_module_class", "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings", "get_static_quant_module_class", "no_observer_set",
]  # fmt: skip

_SAME_NAME = """
    BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d ELU Embedding
    EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU
    """.split()
_FUSED = """
    BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d LinearReLU LinearLeakyReLU LinearTanh
    """.split()
_QAT_FUSED = """
    ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d
    """.split()

DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    **{getattr(nn, name): getattr(nnqat, name) for name in ("Conv2d", "Conv3d", "Linear")},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqat.Linear,
    **{getattr(nni, name): getattr(nniqat, name) for name in _QAT_FUSED},
}

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq, name) for name in _SAME_NAME},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **{getattr(nni, name): getattr(nniq, name) for name in _FUSED},
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, name): getattr(nniq, name) for name in ("ConvReLU2d", "ConvReLU3d", "LinearReLU")},
    nniqat.LinearBn1d: nnq.Linear,
    **{getattr(nnqat, name): getattr(nnq, name) for name in ("Linear", "Conv2d", "Conv3d")},
}

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    **{getattr(nn, name): getattr(nnqd, name) for name in ("GRUCell", "Linear", "LSTM", "GRU", "LSTMCell", "RNNCell")},
    nnqatd.Linear: nnqd.Linear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqd.Linear,
    nni.LinearReLU: nniqd.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding,
}

_INCLUDE_QCONFIG_PROPAGATE_LIST = {nn.Sequential}

#: modules whose results have known bounds, while training
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_QAT_EMBEDDINGS = (nnqat.Embedding, nnqat.EmbeddingBag)
_QUANTIZED_EMBEDDINGS = (nnq.Embedding, nnq.EmbeddingBag)


def no_observer_set() -> set[Any]:
    """Return the classes that watch their own outputs, of which there are none here.

    >>> from torch.ao.quantization import no_observer_set
    >>> no_observer_set()
    set()
    """
    return set()


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Return what `convert` makes of each class.

    >>> from torch.ao.quantization import get_default_static_quant_module_mappings
    >>> get_default_static_quant_module_mappings()[nn.Linear].__name__
    'Linear'
    """
    return copy.copy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Return what `prepare_qat` makes of each class.

    >>> from torch.ao.quantization import get_default_qat_module_mappings
    >>> get_default_qat_module_mappings()[nn.Linear].__name__
    'Linear'
    """
    return copy.copy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Return what `quantize_dynamic` makes of each class.

    >>> from torch.ao.quantization import get_default_dynamic_quant_module_mappings
    >>> nn.LSTM in get_default_dynamic_quant_module_mappings()
    True
    """
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """Return `get_default_qat_module_mappings()` and embeddings.

    >>> from torch.ao.quantization import get_embedding_qat_module_mappings
    >>> nn.Embedding in get_embedding_qat_module_mappings()
    True
    """
    return {**DEFAULT_QAT_MODULE_MAPPINGS, **dict(zip(_EMBEDDINGS, _QAT_EMBEDDINGS))}


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """Return `get_default_static_quant_module_mappings()` and embeddings that were trained with rounding.

    >>> from torch.ao.quantization import get_embedding_qat_module_mappings, get_embedding_static_quant_module_mappings
    >>> get_embedding_qat_module_mappings()[nn.Embedding] in get_embedding_static_quant_module_mappings()
    True
    """
    return {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **dict(zip(_QAT_EMBEDDINGS, _QUANTIZED_EMBEDDINGS))}


def get_static_quant_module_class(float_module_class: type, additional_static_quant_mapping: Any = None,
                                  is_reference: bool = False) -> type:  # fmt: skip
    """Return the quantized class of a class.

    Args:
        float_module_class: of a layer.
        additional_static_quant_mapping: more classes, or others.
        is_reference: for layers that compute in floating point, which are not here.

    Errors: AssertionError for a class that has none, NotImplementedError for is_reference.

    >>> from torch.ao.quantization import get_static_quant_module_class
    >>> get_static_quant_module_class(nn.Linear).__name__
    'Linear'
    """
    if is_reference:
        raise NotImplementedError(
            f"get_static_quant_module_class: ao.nn.quantized.reference is not supported, got {is_reference=}"
        )
    mapping = get_combined_dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, additional_static_quant_mapping or {})
    return _class_of(float_module_class, mapping, "get_static_quant_module_class")


def get_dynamic_quant_module_class(float_module_class: type,
                                   additional_dynamic_quant_mapping: dict[type, type] | None = None) -> type:  # fmt: skip
    """Return the class with dynamic scales of a class.

    Args:
        float_module_class: of a layer.
        additional_dynamic_quant_mapping: more classes, or others.

    Errors: AssertionError for a class that has none.

    >>> from torch.ao.quantization import get_dynamic_quant_module_class
    >>> get_dynamic_quant_module_class(nn.LSTM).__name__
    'LSTM'
    """
    mapping = get_combined_dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping or {})
    return _class_of(float_module_class, mapping, "get_dynamic_quant_module_class")


def _class_of(kind, mapping, name):
    if mapping.get(kind) is None:
        raise AssertionError(f"{name}: expected a class that has a corresponding quantized module class, got {kind}")
    return copy.deepcopy(mapping[kind])


def get_default_qconfig_propagation_list() -> set[Any]:
    """Return the classes whose outputs `prepare` has watched.

    >>> from torch.ao.quantization import get_default_qconfig_propagation_list
    >>> nn.Linear in get_default_qconfig_propagation_list()
    True
    """
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
        *_INCLUDE_QCONFIG_PROPAGATE_LIST,
    }


def get_default_compare_output_module_list() -> set[Any]:
    """Return the classes, of floating point and quantized, whose outputs can be compared.

    >>> from torch.ao.quantization import get_default_compare_output_module_list
    >>> nn.Linear in get_default_compare_output_module_list()
    True
    """
    found = set()
    for mapping in (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS):
        found |= {*mapping, *mapping.values()}
    return found | _INCLUDE_QCONFIG_PROPAGATE_LIST


def _has_special_act_post_process(module) -> bool:
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS


def _get_special_act_post_process(module):
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))
