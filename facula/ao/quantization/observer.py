"""Observers: modules that look at the tensors that pass through them and say which scale and zero point suit them."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import facula

from ._arguments import PartialWrapper as _PartialWrapper  # noqa: F401
from ._arguments import with_args as _with_args  # noqa: F401
from ._arguments import with_callable_args as _with_callable_args  # noqa: F401
from ._fixed import FixedQParamsObserver, NoopObserver, PlaceholderObserver, RecordingObserver, ReuseInputObserver
from ._granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from ._histogram import HistogramObserver
from ._observer_base import EPS, ObserverBase, UniformQuantizationObserverBase, refuse_dynamic, refuse_scheme
from .utils import is_per_channel, is_per_tensor

if TYPE_CHECKING:
    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = [
    "AffineQuantizedObserverBase", "FixedQParamsObserver", "Granularity", "HistogramObserver", "MappingType", "MinMaxObserver",
    "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerAxis",
    "PerBlock", "PerChannelMinMaxObserver", "PerGroup", "PerRow", "PerTensor", "PerToken", "PlaceholderObserver",
    "RecordingObserver", "ReuseInputObserver", "TorchAODType", "UniformQuantizationObserverBase", "ZeroPointDomain",
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer",
    "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_block_size", "get_observer_state_dict",
    "load_observer_state_dict", "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
]  # fmt: skip

_ObserverBase = UniformQuantizationObserverBase


class _Extremes(UniformQuantizationObserverBase):
    """The least and the greatest of what was seen, of all elements or of each channel."""

    min_val: facula.Tensor
    max_val: facula.Tensor

    def _start(self, low, high, factory_kwargs, reduce_range) -> None:
        self.register_buffer("min_val", facula.tensor(low, **(factory_kwargs or {})))
        self.register_buffer("max_val", facula.tensor(high, **(factory_kwargs or {})))
        if self.qscheme in (facula.per_tensor_symmetric, facula.per_channel_symmetric) and reduce_range:
            if self.dtype is facula.quint8:
                kind = type(self).__name__
                raise NotImplementedError(f"{kind}: Cannot reduce range for symmetric quantization, got {self.dtype}")

    def _combined(self, low, high):
        return facula.minimum(low, self.min_val), facula.maximum(high, self.max_val)


class MinMaxObserver(_Extremes):
    """The least and the greatest value seen become the least and the greatest level, or the nearest so that zero is a level.

    Args:
        dtype, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, kwargs: as for
            `UniformQuantizationObserverBase`.
        qscheme: per_tensor_affine, or per_tensor_symmetric (zero is the middle level).

    Errors: NotImplementedError for schemes per channel.

    Example::

        >>> from torch.ao.quantization import MinMaxObserver
        >>> observer = MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
        >>> _ = observer(torch.tensor([-1.0, 2.55]))
        >>> scale, zero_point = observer.calculate_qparams()
        >>> round(scale.item(), 4), zero_point.item()
        (0.02, 0)
    """

    min_val: facula.Tensor
    max_val: facula.Tensor

    def __init__(self, dtype: facula.dtype = facula.quint8, qscheme: Any = facula.per_tensor_affine, reduce_range: bool = False,
                 quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
                 eps: float = EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        refuse_scheme(self, qscheme, is_per_tensor)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self._start(float("inf"), float("-inf"), factory_kwargs, reduce_range)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the tensor and returns it."""
        if x_orig.numel():
            low, high = self._combined(*facula.aminmax(x_orig.detach().to(self.min_val.dtype)))
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point), tensors of one element."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The least and the greatest value."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.min_val.copy_(facula.tensor(float("inf")))
        self.max_val.copy_(facula.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """As `MinMaxObserver`, of the moving averages of the least and greatest values: average += constant * (new - average).

    Args:
        averaging_constant: how much of the new value counts.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic, kwargs: as for `MinMaxObserver`.

    Errors: NotImplementedError for schemes per channel, and for is_dynamic unless averaging_constant is 1.

    >>> from torch.ao.quantization import MovingAverageMinMaxObserver
    >>> observer = MovingAverageMinMaxObserver(averaging_constant=0.5)
    >>> for x in (torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0])):
    ...     _ = observer(x)
    >>> observer.min_val, observer.max_val
    (tensor(0.), tensor(2.))
    """

    def __init__(self, averaging_constant: float = 0.01, dtype: facula.dtype = facula.quint8,
                 qscheme: Any = facula.per_tensor_affine, reduce_range: bool = False, quant_min: int | None = None,
                 quant_max: int | None = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        refuse_scheme(self, qscheme, is_per_tensor)
        refuse_dynamic(self, is_dynamic, averaging_constant)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def _combined(self, low, high):
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            return low, high
        share = self.averaging_constant
        return self.min_val + share * (low - self.min_val), self.max_val + share * (high - self.max_val)


class PerChannelMinMaxObserver(_Extremes):
    """As `MinMaxObserver`, for every index along a dimension by itself.

    Args:
        ch_axis: the dimension.
        qscheme: per_channel_affine, per_channel_symmetric or per_channel_affine_float_qparams.
        dtype, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, kwargs: as for
            `UniformQuantizationObserverBase`.

    Errors: NotImplementedError for schemes per tensor, and for is_dynamic.

    >>> from torch.ao.quantization import PerChannelMinMaxObserver
    >>> observer = PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    >>> _ = observer(torch.tensor([[-1.0, 0.5], [2.0, 4.0]]))
    >>> observer.min_val, observer.max_val
    (tensor([-1.,  2.]), tensor([0.5000, 4.0000]))
    """

    min_val: facula.Tensor
    max_val: facula.Tensor

    def __init__(self, ch_axis: int = 0, dtype: facula.dtype = facula.quint8, qscheme: Any = facula.per_channel_affine,
                 reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
                 factory_kwargs: dict[str, Any] | None = None, eps: float = EPS, is_dynamic: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        refuse_scheme(self, qscheme, is_per_channel)
        refuse_dynamic(self, is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self._start([], [], factory_kwargs, reduce_range)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the tensor and returns it."""
        if x_orig.numel():
            rows = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis).flatten(start_dim=1)
            low, high = facula.aminmax(rows, dim=1)
            if self.min_val.numel() and self.max_val.numel():
                low, high = self._combined(low, high)
            self._set("min_val", low)
            self._set("max_val", high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scales, zero points), one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The least and the greatest values."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, *rest):
        version = local_metadata.get("version")
        for name in ("min_val", "max_val"):
            key = prefix + name
            if version is not None and version < 3 and f"{key}s" in state_dict:
                state_dict[key] = state_dict.pop(f"{key}s")
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *rest)

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.min_val, self.max_val = facula.tensor([]), facula.tensor([])


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """As `PerChannelMinMaxObserver`, of moving averages: average += constant * (new - average).

    Args:
        averaging_constant: how much of the new value counts.
        ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic, kwargs: as for
            `PerChannelMinMaxObserver`.

    Errors: NotImplementedError for schemes per tensor, and for is_dynamic.

    >>> from torch.ao.quantization import MovingAveragePerChannelMinMaxObserver
    >>> observer = MovingAveragePerChannelMinMaxObserver(averaging_constant=0.5)
    >>> for x in (torch.tensor([[0.0, 1.0], [0.0, 2.0]]), torch.tensor([[0.0, 3.0], [0.0, 2.0]])):
    ...     _ = observer(x)
    >>> observer.max_val
    tensor([2., 2.])
    """

    def __init__(self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: facula.dtype = facula.quint8,
                 qscheme: Any = facula.per_channel_affine, reduce_range: bool = False, quant_min: int | None = None,
                 quant_max: int | None = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def _combined(self, low, high):
        share = self.averaging_constant
        return self.min_val + share * (low - self.min_val), self.max_val + share * (high - self.max_val)


# ---- the usual ones

default_observer: Any = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer: Any = MinMaxObserver.with_args(dtype=facula.qint8, qscheme=facula.per_tensor_symmetric)
weight_observer_range_neg_127_to_127: Any = MinMaxObserver.with_args(
    dtype=facula.qint8, qscheme=facula.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer: Any = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer: Any = PerChannelMinMaxObserver.with_args(
    dtype=facula.qint8, qscheme=facula.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127: Any = PerChannelMinMaxObserver.with_args(
    dtype=facula.qint8, qscheme=facula.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer: Any = PlaceholderObserver.with_args(
    dtype=facula.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer: Any = PerChannelMinMaxObserver.with_args(
    dtype=facula.quint8, qscheme=facula.per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit: Any = PerChannelMinMaxObserver.with_args(
    dtype=facula.quint4x2, qscheme=facula.per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer: Any = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=facula.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer: Any = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=facula.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


# ---- what is seen, saved and loaded


def _is_activation_post_process(module) -> bool:
    from .fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """The entries of a module's state_dict that belong to observers.

    Args:
        mod: a module after `prepare`.

    >>> from torch.ao.quantization import QuantWrapper, default_qconfig, prepare
    >>> from torch.ao.quantization import get_observer_state_dict, load_observer_state_dict
    >>> model = QuantWrapper(nn.Linear(2, 2)).eval()
    >>> model.qconfig = default_qconfig
    >>> first, second = prepare(model), prepare(model)
    >>> _ = first(torch.tensor([[0.0, 3.0]]))
    >>> load_observer_state_dict(second, get_observer_state_dict(first))
    >>> second.quant.activation_post_process.max_val
    tensor(3.)
    """
    state = mod.state_dict()
    found = OrderedDict((key, value) for key, value in state.items() if "activation_post_process" in key)
    found._metadata = state._metadata
    return found


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Loads what `get_observer_state_dict` gave into the module's observers.

    Args:
        mod: a module after `prepare`.
        obs_dict: of a module of the same structure.

    Entries that are missing stay as they were.

    >>> from torch.ao.quantization import QuantWrapper, default_qconfig, prepare
    >>> from torch.ao.quantization import get_observer_state_dict, load_observer_state_dict
    >>> model = QuantWrapper(nn.Linear(2, 2)).eval()
    >>> model.qconfig = default_qconfig
    >>> first, second = prepare(model), prepare(model)
    >>> _ = first(torch.tensor([[0.0, 3.0]]))
    >>> load_observer_state_dict(second, get_observer_state_dict(first))
    >>> second.quant.activation_post_process.max_val
    tensor(3.)
    """
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, f"{name}." if name else "", {}, False, [], [], [])


for _class in [value for value in map(globals().get, __all__) if inspect.isclass(value)]:
    _class.__module__ = __name__  # under which checkpoints know them
