"""Define the observers of a module: one for its output and one for its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import facula
from facula import _C, nn
from facula._shared.on_demand import _on_demand

from .fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qat_qconfig", "default_dynamic_qconfig", "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit", "default_per_channel_qconfig", "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig", "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig",
    "default_quint8_weight_qconfig", "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig", "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qconfig", "per_channel_dynamic_qconfig", "qconfig_equals",
]  # fmt: skip


def _refuse_modules(name, *given):
    for value in given:
        if isinstance(value, nn.Module):
            raise ValueError(
                f"{name}: expected the class of an observer, or Class.with_args(...) for arguments of its own, "
                f"got the object {value}"
            )


class QConfig(NamedTuple("QConfig", [("activation", Any), ("weight", Any)])):
    """Name the observers of a module's output and of its weight.

    Args:
        activation, weight: classes of observers or fake quantization, or what their `with_args` gives.

    Errors: ValueError for an observer itself.

    Example::

        >>> from torch.ao.quantization import MinMaxObserver, QConfig, default_weight_observer
        >>> qconfig = QConfig(activation=MinMaxObserver.with_args(dtype=torch.quint8), weight=default_weight_observer)
        >>> qconfig.weight().dtype
        torch.qint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> Self:
        _refuse_modules("QConfig", activation, weight)
        return super().__new__(cls, activation, weight)


class QConfigDynamic(NamedTuple("QConfigDynamic", [("activation", Any), ("weight", Any)])):
    """Provide PyTorch's old name for a `QConfig` whose activations get their scales with each input.

    Args:
        activation, weight: as for `QConfig`.

    Errors: ValueError for an observer itself.

    >>> from torch.ao.quantization import QConfigDynamic, default_weight_observer
    >>> QConfigDynamic(weight=default_weight_observer).weight().dtype
    torch.qint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any = nn.Identity, weight: Tensor = nn.Identity) -> Self:
        _refuse_modules("QConfigDynamic", weight)
        return super().__new__(cls, activation, weight)


QConfigAny = Any

default_qconfig: QConfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig: QConfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig: QConfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig: QConfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
float16_dynamic_qconfig: QConfig = QConfig(
    PlaceholderObserver.with_args(dtype=facula.float16, is_dynamic=True), PlaceholderObserver.with_args(dtype=facula.float16)
)
float16_static_qconfig: QConfig = QConfig(
    PlaceholderObserver.with_args(dtype=facula.float16), PlaceholderObserver.with_args(dtype=facula.float16)
)
per_channel_dynamic_qconfig: QConfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float_qparams_weight_only_qconfig: QConfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit: QConfig = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_qat_qconfig: QConfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qat_qconfig: QConfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig: QConfig = QConfig(nn.Identity, default_weight_fake_quant)
default_activation_only_qconfig: QConfig = QConfig(default_fake_quant, nn.Identity)
default_qat_qconfig_v2: QConfig = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_reuse_input_qconfig: QConfig = QConfig(default_reuse_input_observer, NoopObserver)
default_embedding_qat_qconfig: QConfig = QConfig(NoopObserver.with_args(dtype=facula.float32), default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit: QConfig = QConfig(
    NoopObserver.with_args(dtype=facula.float32), default_embedding_fake_quant_4bit
)
default_quint8_weight_qconfig: QConfig = QConfig(HistogramObserver, MinMaxObserver)

_EVEN = HistogramObserver.with_args(dtype=facula.qint8, reduce_range=False, eps=2**-12)
_EVEN_QAT = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=facula.qint8, reduce_range=False, eps=2**-12
)
default_symmetric_qnnpack_qconfig: QConfig = QConfig(_EVEN, weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig: QConfig = QConfig(_EVEN, per_channel_weight_observer_range_neg_127_to_127)
default_symmetric_qnnpack_qat_qconfig: QConfig = QConfig(_EVEN_QAT, fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig: QConfig = QConfig(
    _EVEN_QAT, fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=facula.float32), PlaceholderObserver.with_args(dtype=facula.float32)
)

# ---- by backend: whether activations use half of their levels, and whether weights have a scale for each channel

_BACKENDS = {
    "fbgemm": ({"reduce_range": True}, True),
    "x86": ({"reduce_range": True}, True),
    "qnnpack": ({"reduce_range": False}, False),
    "onednn": ({"reduce_range": False}, True),
}


def _backend(name, backend, version, versions):
    if version not in versions:
        raise AssertionError(f"{name}: Version number must be {' or '.join(map(str, versions))}, got {version}")
    if backend not in _BACKENDS:
        raise AssertionError(f"{name}: backend must be {_C._one_of(backend, _BACKENDS)}")
    return _BACKENDS[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return the `QConfig` for quantization after training.

    Args:
        backend: "x86", "fbgemm", "qnnpack" or "onednn", which differ in how many levels and scales they like.
        version: 0.

    Errors: AssertionError for others.

    Example::

        >>> from torch.ao.quantization import get_default_qconfig
        >>> get_default_qconfig("x86").activation().quant_max
        127
    """
    reduced, per_channel = _backend("get_default_qconfig", backend, version, (0,))
    weight = default_per_channel_weight_observer if per_channel else default_weight_observer
    return QConfig(HistogramObserver.with_args(**reduced), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return the `QConfig` for training with rounding.

    Args:
        backend: "x86", "fbgemm", "qnnpack" or "onednn".
        version: 0, or 1 for `FusedMovingAvgObsFakeQuantize`.

    Errors: AssertionError for others.

    >>> from torch.ao.quantization import get_default_qat_qconfig
    >>> type(get_default_qat_qconfig("x86").activation()).__name__
    'FusedMovingAvgObsFakeQuantize'
    """
    reduced, per_channel = _backend("get_default_qat_qconfig", backend, version, (0, 1))
    if version == 0:
        kind, weights = FakeQuantize, (default_weight_fake_quant, default_per_channel_weight_fake_quant)
    else:
        kind, weights = FusedMovingAvgObsFakeQuantize, (default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant)
    if backend == "onednn":
        reduced = {}
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced)
    return QConfig(activation, weights[per_channel])


# ---- questions


def _assert_valid_qconfig(qconfig, mod) -> None:
    """Check that transposed convolutions have one scale for their weight."""
    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    if qconfig is None or qconfig.weight is None or not isinstance(mod, transposed):
        return
    observer = qconfig.weight()
    if isinstance(observer, (PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
        raise AssertionError(
            f"prepare: expected a weight observer per tensor for {type(mod).__name__}, got {type(observer).__name__}"
        )


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    """Return the qconfig, whose observers will be made on the module's device."""
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig

    def factory_kwargs():
        devices = {tensor.device for tensors in (module.parameters(), module.buffers()) for tensor in tensors}
        if len(devices) > 1:
            raise AssertionError(f"prepare: expected a module on one device, got {sorted(map(str, devices))}")
        return {"device": devices.pop()} if devices else None

    def placed(constructor):
        try:
            constructor.with_args(factory_kwargs=None)()
        except (AttributeError, TypeError):  # not an observer's, or of one that takes no device
            return constructor
        return constructor.with_callable_args(factory_kwargs=factory_kwargs)

    return QConfig(placed(qconfig.activation), placed(qconfig.weight))


def _same_partial(first, second):
    """Return whether two `with_args` make the same."""
    mine, theirs = dict(first.p.keywords), dict(second.p.keywords)
    observers = True
    if "observer" in mine and "observer" in theirs:
        observers = _obs_or_fq_ctr_equals(mine.pop("observer"), theirs.pop("observer"))
    return observers and first.p.func == second.p.func and first.p.args == second.p.args and mine == theirs


def _obs_or_fq_ctr_equals(first, second):
    if isinstance(first, _PartialWrapper) and isinstance(second, _PartialWrapper):
        return _same_partial(first, second)
    return first == second


def qconfig_equals(q1: QConfig, q2: QConfig | None) -> bool:
    """Return whether two qconfigs make the same observers.

    Args:
        q1, q2: `QConfig`s, or None.

    Example::

        >>> from torch.ao.quantization import default_qconfig, get_default_qconfig, qconfig_equals
        >>> qconfig_equals(get_default_qconfig("x86"), get_default_qconfig("fbgemm"))
        True
        >>> qconfig_equals(get_default_qconfig("x86"), default_qconfig)
        False
    """
    if q1 is None or q2 is None:
        return q1 == q2
    return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(q1.weight, q2.weight)


def _activation_is_memoryless(qconfig) -> bool:
    """Return whether what watches the output knows the last tensor only."""
    watching = qconfig.activation()
    if isinstance(watching, FakeQuantizeBase):
        watching = getattr(watching, "activation_post_process", watching)
    return getattr(watching, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig) -> bool:
    return (
        qconfig is not None
        and isinstance(qconfig.activation(), ReuseInputObserver)
        and isinstance(qconfig.weight(), NoopObserver)
    )


__getattr__ = _on_demand(
    __name__,
    **dict.fromkeys(("get_default_qat_qconfig_dict", "get_default_qconfig_dict"), "facula.ao.quantization.qconfig_mapping"),
)
