"""Map the parts of a model to qconfigs: by class, by name, by place."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import facula
from facula import nn

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    _PartialWrapper,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "QConfigMapping", "get_default_qat_qconfig_dict", "get_default_qat_qconfig_mapping", "get_default_qconfig_dict",
    "get_default_qconfig_mapping",
]  # fmt: skip

_0_TO_1, _NEG1_TO_1 = default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer
_FIXED_QPARAMS_OP_TO_OBSERVER: dict[object, _PartialWrapper] = {
    **dict.fromkeys((nn.Hardsigmoid, nn.functional.hardsigmoid, "hardsigmoid", "hardsigmoid_"), _0_TO_1),
    **dict.fromkeys((nn.Sigmoid, facula.sigmoid, "sigmoid", "sigmoid_", nn.Softmax), _0_TO_1),
    **dict.fromkeys((nn.Tanh, facula.tanh, "tanh", "tanh_"), _NEG1_TO_1),
}
_TRANSPOSED = (
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.functional.conv_transpose1d,
    nn.functional.conv_transpose2d, nn.functional.conv_transpose3d,
)  # fmt: skip


class QConfigMapping:
    """Map the parts of a model to qconfigs. From the lowest to the highest precedence, a qconfig is set for everything,
    for a class or function, for names that a pattern matches, for a name, or for the n-th call of a function in a
    module.

    Every `set_...` method returns the mapping.

    >>> from torch.ao.quantization import QConfigMapping, default_qconfig
    >>> mapping = QConfigMapping().set_global(default_qconfig).set_module_name("head", None)
    >>> mapping.module_name_qconfigs["head"] is None
    True
    >>> mapping = mapping.set_object_type(nn.Linear, None).set_module_name_regex("block.*", default_qconfig)
    >>> mapping = mapping.set_module_name_object_type_order("block", torch.add, 0, None)
    >>> list(mapping.to_dict())
    ['', 'object_type', 'module_name_regex', 'module_name', 'module_name_object_type_order']
    >>> QConfigMapping.from_dict(mapping.to_dict()).module_name_qconfigs == mapping.module_name_qconfigs
    True
    """

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: dict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: dict[Any, Any] = OrderedDict()
        self.module_name_qconfigs: dict[Any, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: dict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: QConfig) -> QConfigMapping:
        """Set the qconfig of what nothing else says.

        Args:
            global_qconfig: a `QConfig`, or None for no quantization.
        """
        self.global_qconfig: QConfig | None = global_qconfig
        return self

    def set_object_type(self, object_type: Callable[..., Any] | str | type, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of a class of modules, a function, or a method given by name.

        Args:
            object_type: the class, the function, or the name of the method.
            qconfig: a `QConfig`, or None for no quantization.
        """
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of modules whose names a pattern matches.

        Args:
            module_name_regex: the pattern.
            qconfig: a `QConfig`, or None for no quantization.
        """
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """Set the qconfig of one module.

        Args:
            module_name: its name, with dots.
            qconfig: a `QConfig`, or None for no quantization.
        """
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name: str, object_type: Any, index: int,
                                          qconfig: Any) -> QConfigMapping:  # fmt: skip
        """Set the qconfig of one call of a class or function in a module.

        Args:
            module_name: the name of the module, with dots.
            object_type: the class or function.
            index: the number of the call, from 0.
            qconfig: a `QConfig`, or None for no quantization.
        """
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} (", " global_qconfig", f"  {self.global_qconfig}"]
        for name in _PARTS:
            lines.append(f" {name}")
            found = getattr(self, name)
            lines += [f"  {key}: {value}" for key, value in found.items()] or [f"  {OrderedDict()}"]
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[Any, Any]:
        """Return the mapping in PyTorch's old form, of lists of (key, qconfig); that of all has the key ""."""
        found = {"": self.global_qconfig}
        for name, key in _PARTS.items():
            rows = getattr(self, name).items()
            found[key] = [(*of, value) if isinstance(of, tuple) else (of, value) for of, value in rows]
        return found

    @classmethod
    def from_dict(cls, qconfig_dict: dict[Any, Any]) -> QConfigMapping:
        """Return the mapping that `to_dict` gave.

        Args:
            qconfig_dict: in PyTorch's old form, of lists of (key, qconfig); that of all has the key "".
        """
        made = cls().set_global(qconfig_dict.get(""))
        for name, key in _PARTS.items():
            for *of, value in qconfig_dict.get(key, ()):
                getattr(made, name)[of[0] if len(of) == 1 else tuple(of)] = value
        return made


_PARTS = {
    "object_type_qconfigs": "object_type",
    "module_name_regex_qconfigs": "module_name_regex",
    "module_name_qconfigs": "module_name",
    "module_name_object_type_order_qconfigs": "module_name_object_type_order",
}


def _default_mapping(is_qat, backend, qconfig):
    """Return what all defaults say: one scale for transposed convolutions, weights of norms as they are, known levels."""
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    transposed = weight if backend in ("fbgemm", "x86") else qconfig.weight
    norm = QConfig(qconfig.activation, default_placeholder_observer)
    made = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in _TRANSPOSED:
        made.set_object_type(kind, QConfig(qconfig.activation, transposed))
    for kind in (nn.functional.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, norm)
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    fixed = {}
    for kind, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in fixed:
            activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
            fixed[observer] = QConfig(activation, weight)
        made.set_object_type(kind, fixed[observer])
    return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """Return the `QConfigMapping` for quantization after training.

    Args:
        backend, version: as for `get_default_qconfig`.

    >>> from torch.ao.quantization import get_default_qconfig_mapping
    >>> get_default_qconfig_mapping("qnnpack").global_qconfig.weight().dtype
    torch.qint8
    """
    return _default_mapping(False, backend, get_default_qconfig(backend, version))


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """Return the `QConfigMapping` for training with rounding.

    Args:
        backend, version: as for `get_default_qat_qconfig`.

    >>> from torch.ao.quantization import get_default_qat_qconfig_mapping
    >>> type(get_default_qat_qconfig_mapping("x86").global_qconfig.weight()).__name__
    'FusedMovingAvgObsFakeQuantize'
    """
    return _default_mapping(True, backend, get_default_qat_qconfig(backend, version))


def _even(is_qat, qconfig):
    """Return the same qconfig for all but ops with known levels."""
    made = _default_mapping(is_qat, "qnnpack", qconfig)
    for kind in made.object_type_qconfigs.keys() - _FIXED_QPARAMS_OP_TO_OBSERVER.keys():
        made.set_object_type(kind, qconfig)
    return made


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    return _even(False, default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    return _even(True, default_symmetric_qnnpack_qat_qconfig)


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[Any, Any]:
    """Return `get_default_qconfig_mapping` as a dictionary, PyTorch's old form.

    Args:
        backend, version: as for `get_default_qconfig`.

    >>> from torch.ao.quantization import get_default_qconfig_dict
    >>> list(get_default_qconfig_dict("x86"))
    ['', 'object_type', 'module_name_regex', 'module_name', 'module_name_object_type_order']
    """
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[Any, Any]:
    """Return `get_default_qat_qconfig_mapping` as a dictionary, PyTorch's old form.

    Args:
        backend, version: as for `get_default_qat_qconfig`.

    >>> from torch.ao.quantization import get_default_qat_qconfig_dict
    >>> list(get_default_qat_qconfig_dict("x86"))
    ['', 'object_type', 'module_name_regex', 'module_name', 'module_name_object_type_order']
    """
    return get_default_qat_qconfig_mapping(backend, version).to_dict()
