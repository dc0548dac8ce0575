"""Round tensors to quantization levels in training, so that a network learns to tolerate the rounding.

Gradients go through the rounding as if there were none, except where a value lies outside the levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import facula
from facula.nn import Module

from .observer import (
    _POST_PROCESSES,
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import is_float_qparams as _is_float_qparams
from .utils import is_per_channel as _is_per_channel
from .utils import is_per_tensor as _is_per_tensor
from .utils import is_symmetric as _is_symmetric_quant
from .utils import to_underlying_dtype

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant", "default_histogram_fake_quant", "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant", "default_weight_fake_quant", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer", "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip


class FakeQuantizeBase(ABC, Module):
    """Hold two switches, one for observing and one for rounding, which are saved with the state; the base of modules
    that round in training.

    >>> from torch.ao.quantization import FakeQuantize, FakeQuantizeBase
    >>> rounding = FakeQuantize.with_args(quant_min=0, quant_max=3)()
    >>> isinstance(rounding, FakeQuantizeBase), rounding(torch.tensor([0.0, 0.9, 3.0]))
    (True, tensor([0., 1., 3.]))
    >>> rounding.disable_observer()
    >>> rounding(torch.tensor([0.9, 30.0]))
    tensor([1., 3.])
    >>> rounding.disable_fake_quant()
    >>> rounding(torch.tensor([0.9, 30.0]))
    tensor([ 0.9000, 30.0000])
    >>> rounding.enable_observer()
    >>> rounding.enable_fake_quant()
    """

    fake_quant_enabled: facula.Tensor
    observer_enabled: facula.Tensor

    def __init__(self) -> None:
        super().__init__()
        # tensors, so that copies in other processes and files have them
        self.register_buffer("fake_quant_enabled", facula.tensor([1], dtype=facula.uint8))
        self.register_buffer("observer_enabled", facula.tensor([1], dtype=facula.uint8))

    @abstractmethod
    def forward(self, x: Tensor) -> Any:
        """Watch and round the tensor."""
        raise NotImplementedError(f"{type(self).__name__}.forward: a subclass says it, got {tuple(x.shape)}")

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return (scale, zero point) for what was seen.

        Args:
            kwargs: of a subclass.

        >>> from torch.ao.quantization import FakeQuantize
        >>> rounding = FakeQuantize(quant_min=0, quant_max=3)
        >>> _ = rounding(torch.tensor([0.0, 3.0]))
        >>> rounding.calculate_qparams()
        (tensor([1.]), tensor([0], dtype=torch.int32))
        """
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a subclass says it, got {kwargs}")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Switch rounding on.

        Args:
            enabled: False switches it off.
        """
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Round no more."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Switch watching on.

        Args:
            enabled: False switches it off; the scale stays.
        """
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Watch no more: the scale stays."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Any:
        """Return the class with arguments given, as a qconfig takes it.

        Args:
            kwargs: of the class.
        """
        return _with_args(cls, **kwargs)


_POST_PROCESSES.append(FakeQuantizeBase)


def _checked_range(observer, quant_min, quant_max, keywords):
    if quant_min > quant_max:
        raise AssertionError(f"FakeQuantize: expected quant_min <= quant_max, got {quant_min} and {quant_max}")
    dtype = keywords.get("dtype", facula.quint8)
    # Arguments that `with_args` bound come before those of this call.
    dtype = getattr(getattr(observer, "p", None), "keywords", {}).get("dtype", dtype)
    info = facula.iinfo(to_underlying_dtype(dtype))
    for name, value in (("quant_min", quant_min), ("quant_max", quant_max)):
        if not info.min <= value <= info.max:
            raise AssertionError(f"FakeQuantize: {name} out of bound of {dtype}, got {value}")


class FakeQuantize(FakeQuantizeBase):
    """Observe a tensor and round it to the levels that the observer determines.

    x is replaced by (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale.

    Args:
        observer: a class of observer, or what its `with_args` gives.
        quant_min, quant_max: levels, by default those of the observer's dtype.
        is_dynamic: if True, the scale is that of the last input.
        observer_kwargs: for the observer.

    Errors: AssertionError for levels that the dtype has not.

    Example::

        >>> from torch.ao.quantization import FakeQuantize
        >>> rounding = FakeQuantize(quant_min=0, quant_max=3)
        >>> rounding(torch.tensor([0.0, 0.9, 2.2, 3.0]))
        tensor([0., 1., 2., 3.])
    """

    scale: facula.Tensor
    zero_point: facula.Tensor

    def __init__(self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None, quant_max: int | None = None,
                 is_dynamic: bool = False, **observer_kwargs: Any) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            _checked_range(observer, quant_min, quant_max, observer_kwargs)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        watching = observer(**observer_kwargs, is_dynamic=is_dynamic)
        self.activation_post_process = watching
        self.quant_min: Any = watching.quant_min
        self.quant_max: Any = watching.quant_max
        self.is_dynamic: Any = watching.is_dynamic
        # Zero points of such schemes are not rounded to a level.
        whole = facula.float32 if _is_float_qparams(watching.qscheme) else facula.int32
        self.register_buffer("scale", facula.tensor([1.0], dtype=facula.float32))
        self.register_buffer("zero_point", facula.tensor([0], dtype=whole))
        self.dtype: Any = watching.dtype
        self.qscheme: Any = watching.qscheme
        self.ch_axis: Any = getattr(watching, "ch_axis", -1)
        if not (_is_per_channel(self.qscheme) or _is_per_tensor(self.qscheme)):
            raise AssertionError(
                f"FakeQuantize: expected a qscheme per tensor or per channel, got {self.qscheme}"
            )
        self.is_per_channel: bool = _is_per_channel(self.qscheme)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point) of the observer."""
        return self.activation_post_process.calculate_qparams()

    def _take(self, scale, zero_point):
        if self.scale.shape != scale.shape:
            self.scale.resize_(scale.shape)
            self.zero_point.resize_(zero_point.shape)
        self.scale.copy_(scale)
        self.zero_point.copy_(zero_point)

    def forward(self, X: Tensor) -> Tensor:
        """Watch and round the tensor, where the switches say so."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            self._take(*self.calculate_qparams())
        if self.fake_quant_enabled[0] != 1:
            return X
        low, high = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return facula.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, low, high)
        return facula.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)

    def _described(self, *names):
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)

    def extra_repr(self) -> str:
        """Return the switches, levels and scale."""
        switches = self._described("fake_quant_enabled", "observer_enabled")
        low, high = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        return (
            f"{switches}, quant_min={low}, quant_max={high}, "
            f"{self._described('dtype', 'qscheme', 'ch_axis', 'scale', 'zero_point')}"
        )

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name in ("scale", "zero_point"):  # one for each channel, maybe
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Round to levels that are known, such as those after a sigmoid.

    Args:
        observer: `FixedQParamsObserver.with_args(...)`.

    Errors: AssertionError for another observer.

    >>> from torch.ao.quantization import FixedQParamsFakeQuantize, FixedQParamsObserver
    >>> rounding = FixedQParamsFakeQuantize(FixedQParamsObserver.with_args(scale=0.25, zero_point=0))
    >>> rounding(torch.tensor([0.1, 0.2, 0.9]))
    tensor([0.0000, 0.2500, 1.0000])
    """

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        watching = self.activation_post_process
        if type(watching) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}: {type(self).__name__}'s observer must be a FixedQParamsObserver, "
                f"got {type(watching).__name__}"
            )
        self._observer_ctr = observer
        self.scale: Tensor = watching.scale
        self.zero_point: Tensor = watching.zero_point

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point), which are known."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        """Return the switches, scale and levels."""
        return self._described(
            "fake_quant_enabled", "observer_enabled", "scale", "zero_point", "dtype", "quant_min", "quant_max", "qscheme"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Observe and round as `FakeQuantize` with a moving average does, in one op (`fused_moving_avg_obs_fake_quant`).

    Args:
        observer: MovingAverageMinMaxObserver or MovingAveragePerChannelMinMaxObserver.
        quant_min, quant_max: levels.
        observer_kwargs: for the observer.

    Errors: AssertionError for another observer.

    >>> from torch.ao.quantization import FusedMovingAvgObsFakeQuantize
    >>> rounding = FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=3)
    >>> rounding(torch.tensor([0.0, 0.9, 2.2, 3.0]))
    tensor([0., 1., 2., 3.])
    """

    def __init__(
        self, observer: type = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255, **observer_kwargs: Any
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        watching = self.activation_post_process
        if not isinstance(watching, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
            raise AssertionError(
                "FusedMovingAvgObsFakeQuantize: expected an observer of moving averages (per tensor or per channel), "
                f"got {type(watching).__name__}"
            )
        # PyTorch's files have these switches in int64, those of the base class in uint8.
        self.register_buffer("fake_quant_enabled", facula.tensor([1], dtype=facula.int64))
        self.register_buffer("observer_enabled", facula.tensor([1], dtype=facula.int64))
        self.is_symmetric_quant: bool = _is_symmetric_quant(watching.qscheme)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point) of the averages."""
        return self.activation_post_process.calculate_qparams()

    def extra_repr(self) -> str:
        """Return the switches, scale and levels."""
        names = "fake_quant_enabled observer_enabled scale zero_point dtype quant_min quant_max qscheme".split()
        return f"{self._described(*names)}, reduce_range={self.activation_post_process.reduce_range}"

    def forward(self, X: Tensor) -> Tensor:
        """Watch and round the tensor, where the switches say so."""
        watching = self.activation_post_process
        return facula.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, watching.min_val, watching.max_val, self.scale,
            self.zero_point, watching.averaging_constant, watching.quant_min, watching.quant_max, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip


# ---- the usual ones

_AVERAGE, _AVERAGES = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
_INT8 = {"quant_min": -128, "quant_max": 127, "dtype": facula.qint8}
_INT8_EVEN = {"quant_min": -127, "quant_max": 127, "dtype": facula.qint8}

default_fake_quant: Any = FakeQuantize.with_args(
    observer=_AVERAGE, quant_min=0, quant_max=255, dtype=facula.quint8, qscheme=facula.per_tensor_affine, reduce_range=True
)
default_weight_fake_quant: Any = FakeQuantize.with_args(
    observer=_AVERAGE, **_INT8, qscheme=facula.per_tensor_symmetric, reduce_range=False
)
# With the constant 1 the average is the last value: each input determines its own scale.
default_dynamic_fake_quant: Any = FakeQuantize.with_args(
    observer=_AVERAGE, quant_min=0, quant_max=255, is_dynamic=True, dtype=facula.quint8, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant: Any = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant: Any = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant: Any = FakeQuantize.with_args(
    observer=_AVERAGES, **_INT8, qscheme=facula.per_channel_symmetric, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant: Any = FakeQuantize.with_args(
    observer=_AVERAGES, qscheme=facula.per_channel_affine_float_qparams, dtype=facula.quint8, quant_min=0, quant_max=255,
    ch_axis=0, averaging_constant=1,
)  # fmt: skip
default_embedding_fake_quant_4bit: Any = FakeQuantize.with_args(
    observer=_AVERAGES, qscheme=facula.per_channel_affine_float_qparams, ch_axis=0, dtype=facula.quint4x2, averaging_constant=1
)
default_histogram_fake_quant: Any = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=facula.quint8, qscheme=facula.per_tensor_affine,
    reduce_range=True,
)  # fmt: skip
default_fused_act_fake_quant: Any = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_AVERAGE, quant_min=0, quant_max=255, dtype=facula.quint8
)
default_fused_wt_fake_quant: Any = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_AVERAGE, **_INT8, qscheme=facula.per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant: Any = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_AVERAGES, **_INT8, qscheme=facula.per_channel_symmetric
)
fused_wt_fake_quant_range_neg_127_to_127: Any = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_AVERAGE, **_INT8_EVEN, qscheme=facula.per_tensor_symmetric, eps=2**-12
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127: Any = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_AVERAGES, **_INT8_EVEN, qscheme=facula.per_channel_symmetric, eps=2**-12
)


# ---- for `model.apply`


def disable_fake_quant(mod: Module) -> None:
    """Stop the rounding of a module, for `model.apply`.

    Args:
        mod: a module; others than those that round stay as they are.

    >>> from torch.ao.quantization import FakeQuantize, disable_fake_quant
    >>> model = nn.Sequential(FakeQuantize(quant_min=0, quant_max=3)).apply(disable_fake_quant)
    >>> model(torch.tensor([0.0, 0.9, 3.0]))
    tensor([0.0000, 0.9000, 3.0000])
    """
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Module) -> None:
    """Start the rounding of a module, for `model.apply`.

    Args:
        mod: a module; others than those that round stay as they are.

    >>> from torch.ao.quantization import FakeQuantize, enable_fake_quant
    >>> model = nn.Sequential(FakeQuantize(quant_min=0, quant_max=3)).apply(enable_fake_quant)
    >>> model(torch.tensor([0.0, 0.9, 3.0]))
    tensor([0., 1., 3.])
    """
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Module) -> None:
    """Stop the watching of a module, for `model.apply`; scales stay.

    Args:
        mod: a module; others than those that round stay as they are.

    >>> from torch.ao.quantization import FakeQuantize, disable_observer
    >>> model = nn.Sequential(FakeQuantize(quant_min=0, quant_max=3)).apply(disable_observer)
    >>> model(torch.tensor([0.0, 0.9, 30.0]))
    tensor([0., 1., 3.])
    """
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Module) -> None:
    """Start the watching of a module, for `model.apply`.

    Args:
        mod: a module; others than those that round stay as they are.

    >>> from torch.ao.quantization import FakeQuantize, enable_observer
    >>> model = nn.Sequential(FakeQuantize(quant_min=0, quant_max=3)).apply(enable_observer)
    >>> model(torch.tensor([0.0, 9.0, 30.0]))
    tensor([ 0., 10., 30.])
    """
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
