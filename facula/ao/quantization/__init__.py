"""Quantize models layer by layer: after training, in training, or weights only.

Example::

    >>> from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare
    >>> model = QuantWrapper(nn.Sequential(nn.Linear(8, 4), nn.ReLU())).eval()
    >>> model.qconfig = get_default_qconfig("x86")
    >>> prepared = prepare(model)
    >>> for _ in range(4):
    ...     _ = prepared(torch.randn(16, 8))
    >>> convert(prepared)(torch.randn(2, 8)).shape
    torch.Size([2, 4])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fake_quantize import *  # noqa: F403
from .fake_quantize import __all__ as _fake_quantize
from .fuse_modules import fuse_modules, fuse_modules_qat
from .fuser_method_mappings import (
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
    get_fuser_method,
    get_fuser_method_new,
)
from .observer import *  # noqa: F403
from .observer import __all__ as _observer
from .observer import _PartialWrapper  # noqa: F401
from .qconfig import *  # noqa: F403
from .qconfig import __all__ as _qconfig
from .qconfig_mapping import (
    QConfigMapping,
    get_default_qat_qconfig_dict,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_dict,
    get_default_qconfig_mapping,
)
from .quant_type import QuantType
from .quantization_mappings import *  # noqa: F403
from .quantization_mappings import __all__ as _mappings
from .quantize import (
    add_quant_dequant,
    convert,
    get_default_custom_config_dict,
    prepare,
    prepare_qat,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
    quantize_qat,
    swap_module,
)
from .stubs import DeQuantStub, QuantStub, QuantWrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = [
    *_fake_quantize, *_observer, *_qconfig, *_mappings, "DeQuantStub", "ObserverOrFakeQuantize", "QConfigMapping",
    "QuantStub", "QuantType", "QuantWrapper", "add_quant_dequant", "convert", "default_eval_fn", "fuse_conv_bn",
    "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "fuse_modules", "fuse_modules_qat",
    "get_default_custom_config_dict", "get_default_qat_qconfig_dict", "get_default_qat_qconfig_mapping",
    "get_default_qconfig_dict", "get_default_qconfig_mapping", "get_fuser_method", "get_fuser_method_new",
    "prepare", "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat",
    "swap_module",
]  # fmt: skip

ObserverOrFakeQuantize = Any


def default_eval_fn(model: Module, calib_data: Sequence[Sequence[Tensor | None]]) -> None:
    """Give a model its inputs, as `quantize` wants it.

    Args:
        model: any module.
        calib_data: pairs of an input and something else, such as a target.

    >>> from torch.ao.quantization import default_eval_fn
    >>> model = nn.BatchNorm1d(2)
    >>> default_eval_fn(model, [(torch.ones(3, 2), None), (torch.zeros(3, 2), None)])
    >>> model.num_batches_tracked
    tensor(2)
    """
    for data, _ in calib_data:
        model(data)
