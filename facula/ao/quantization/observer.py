"""Define observers, modules that record the range of the tensors that pass through them and compute a scale and a zero
point.

Long because PyTorch has all observers in one file of this name, and each class stands there with its docstring and example.
"""

from __future__ import annotations

import bisect
import enum
import functools
import itertools
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import facula
from facula.nn import Module

from .utils import calculate_qmin_qmax, determine_qparams, is_per_channel, is_per_tensor, validate_qmin_qmax

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula import Tensor

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


# ---- Classes with some of their arguments given, as qconfigs hold them: `MinMaxObserver.with_args(dtype=facula.qint8)`


class _PartialWrapper:
    """Call a class with arguments that were given before; those of `callable_args` are functions, which run at each call."""

    def __init__(self, p: Callable[..., Any]) -> None:
        self.p = p
        self.callable_args: dict[Any, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: function() for name, function in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return the same with more arguments given."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return the same with more functions that make arguments."""
        made = _PartialWrapper(self.p)
        made.callable_args = {**self.callable_args, **kwargs}
        return made




def _with_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """Return a function that makes the class with these arguments, and can be given more by its own `with_args`.

    Args:
        kwargs: of the class.

    >>> from torch.ao.quantization import MinMaxObserver
    >>> weights = MinMaxObserver.with_args(dtype=torch.qint8).with_args(qscheme=torch.per_tensor_symmetric)
    >>> weights().qscheme
    torch.per_tensor_symmetric
    """
    return _PartialWrapper(functools.partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self: type, **kwargs: Any) -> _PartialWrapper:
    """Do what `with_args` does, for arguments that a function makes for each object.

    Args:
        kwargs: functions without arguments, by the names of arguments.

    >>> from torch.ao.quantization import MinMaxObserver
    >>> made = MinMaxObserver.with_callable_args(factory_kwargs=lambda: {"dtype": torch.float64})
    >>> made().min_val.dtype
    torch.float64
    """
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


_EPS = facula.finfo(facula.float32).eps
_DTYPES = (
    facula.qint8, facula.quint8, facula.quint4x2, facula.qint32, facula.int8, facula.uint8, facula.int16, facula.int32,
    facula.float8_e5m2, facula.float8_e4m3fn, facula.uint16,
)  # fmt: skip


# ---- What observers share: levels, buffers, state


class ObserverBase(ABC, Module):
    """Define an observer, a module that returns its input and has `calculate_qparams()`.

    Args:
        dtype: of the quantized tensor.
        is_dynamic: if True, compute scales anew for each input.

    >>> from torch.ao.quantization import ObserverBase
    >>> class Largest(ObserverBase):
    ...     seen = torch.tensor(0.0)
    ...     def forward(self, x):
    ...         self.seen = torch.maximum(self.seen, x.abs().max())
    ...         return x
    ...     def calculate_qparams(self):
    ...         return self.seen / 127, torch.tensor(0)
    >>> observer = Largest.with_args(dtype=torch.qint8)()
    >>> _ = observer(torch.tensor([-254.0, 1.0]))
    >>> observer.calculate_qparams()
    (tensor(2.), tensor(0))
    """

    def __init__(self, dtype: facula.dtype, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Any:
        """Look at the tensor and return it."""
        raise NotImplementedError(f"{type(self).__name__}.forward: a subclass says it, got {tuple(x.shape)}")

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Return (scale, zero point) for what was seen.

        Args:
            kwargs: of a subclass.
        """
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a subclass says it, got {kwargs}")

    with_args: Any = classmethod(_with_args)
    with_callable_args: Any = classmethod(_with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """Define an observer whose levels are equally spaced.

    Args:
        dtype: of the quantized tensor.
        qscheme: how levels are laid out.
        reduce_range: if True, use half of the levels, as products of eight bits without VNNI require.
        quant_min, quant_max: levels of one's own; both or none.
        factory_kwargs: device and dtype of buffers.
        eps: the least scale.
        is_dynamic: if True, compute scales anew for each input.
        kwargs: for `ObserverBase`.

    Errors: AssertionError for a dtype or scheme without levels.

    >>> from torch.ao.quantization import MinMaxObserver, UniformQuantizationObserverBase
    >>> observer = MinMaxObserver(dtype=torch.qint8)
    >>> isinstance(observer, UniformQuantizationObserverBase), observer.quant_min, observer.quant_max
    (True, -128, 127)
    >>> _ = observer(torch.tensor([0.0, 5.0]))
    >>> observer.reset_min_max_vals()
    >>> observer.max_val
    tensor(-inf)
    """

    _version = 3
    eps: facula.Tensor
    quant_min: int
    quant_max: int

    def __init__(self, dtype: facula.dtype = facula.quint8, qscheme: Any = facula.per_tensor_affine, reduce_range: bool = False,
                 quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
                 eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        name = type(self).__name__
        self.qscheme = qscheme
        self.reduce_range = reduce_range
        self.register_buffer("eps", facula.tensor([eps], **(factory_kwargs or {})))
        if not (is_per_tensor(qscheme) or is_per_channel(qscheme)):
            raise AssertionError(f"{name}: expected a scheme per tensor or per channel, got {qscheme}")
        if dtype not in _DTYPES:
            raise AssertionError(f"{name}: expected a dtype of {_DTYPES}, got {dtype}")
        self.has_customized_qrange: bool = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version") in (None, 1):  # which had no such buffer
            state_dict[prefix + "eps"] = facula.tensor([_EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _validate_qmin_qmax(self, quant_min: int, quant_max: int) -> None:
        validate_qmin_qmax(quant_min, quant_max)

    def _calculate_qparams(self, min_val, max_val):
        return determine_qparams(
            min_val, max_val, self.quant_min, self.quant_max, self.dtype, self.eps, self.has_customized_qrange, self.qscheme
        )

    def _set(self, name, value):
        """Give a buffer other values, of another shape maybe."""
        buffer = getattr(self, name).detach_()
        if buffer.shape != value.shape:
            buffer.resize_(value.shape)
        buffer.copy_(value)

    def reset_min_max_vals(self) -> Any:
        """Forget what was seen."""
        raise NotImplementedError(f"{type(self).__name__}.reset_min_max_vals: not implemented, got {self}")


def _refuse_scheme(observer, qscheme, wanted):
    names = {
        is_per_tensor: "torch.per_tensor_symmetric and torch.per_tensor_affine",
        is_per_channel: "torch.per_channel_symmetric, torch.per_channel_affine and torch.per_channel_affine_float_qparams",
    }
    if not wanted(qscheme):
        raise NotImplementedError(f"{type(observer).__name__}: the supported qschemes are {names[wanted]}, got {qscheme}")


def _refuse_dynamic(observer, is_dynamic, averaging_constant=None):
    if is_dynamic and averaging_constant != 1:
        constant = "" if averaging_constant is None else f" for averaging constant of {averaging_constant}"
        name = type(observer).__name__
        raise NotImplementedError(f"{name}: there is no dynamic quantization{constant}, got {is_dynamic=}")


# ---- Observers that look at nothing, or only keep it: what they say is known when they are made


def _no_qparams(observer):
    raise Exception(f"calculate_qparams: {type(observer).__name__} has no such numbers, got {observer}")


class FixedQParamsObserver(ObserverBase):
    """Return a fixed scale and zero point, for ops whose results have known bounds.

    Args:
        scale, zero_point: what to say.
        dtype, qscheme, quant_min, quant_max, is_dynamic: as for `UniformQuantizationObserverBase`.
        kwargs: for `ObserverBase`.

    >>> from torch.ao.quantization import FixedQParamsObserver
    >>> FixedQParamsObserver(scale=1 / 256, zero_point=0).calculate_qparams()
    (tensor([0.0039]), tensor([0], dtype=torch.int32))
    """

    scale: facula.Tensor
    zero_point: facula.Tensor

    def __init__(self, scale: float, zero_point: int, dtype: facula.dtype = facula.quint8,
                 qscheme: Any = facula.per_tensor_affine, quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        _refuse_dynamic(self, is_dynamic)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.register_buffer("scale", facula.tensor([scale], dtype=facula.float32))
        self.register_buffer("zero_point", facula.tensor([zero_point], dtype=facula.int32))
        self.qscheme = qscheme

    def forward(self, X: Tensor) -> Tensor:
        """Return the tensor."""
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point), tensors of one element."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Name a dtype and record nothing, where scales are determined later or do not exist (float16).

    Args:
        dtype, qscheme, quant_min, quant_max, eps, is_dynamic: as for `UniformQuantizationObserverBase`.
        custom_op_name: of an op that takes the place of quantization.
        compute_dtype: the same as is_dynamic, PyTorch's old name.

    >>> from torch.ao.quantization import PlaceholderObserver
    >>> PlaceholderObserver(dtype=torch.float16)
    PlaceholderObserver(dtype=torch.float16, is_dynamic=False)
    """

    def __init__(self, dtype: facula.dtype = facula.float32, custom_op_name: str = "", compute_dtype: Any = None,
                 quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None, eps: float | None = None,
                 is_dynamic: bool = False) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme: Any = facula.per_tensor_affine if qscheme is None else qscheme
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps: float = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warnings.warn("PlaceholderObserver: compute_dtype is the old name, pass is_dynamic=True", stacklevel=2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def extra_repr(self) -> str:
        """Return dtype and is_dynamic."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> None:
        """Raise an error: there are none."""
        _no_qparams(self)


class NoopObserver(ObserverBase):
    """Record nothing.

    Args:
        dtype: that of the tensor.
        custom_op_name: of an op that takes the place of quantization.

    >>> from torch.ao.quantization import NoopObserver
    >>> NoopObserver()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, dtype: facula.dtype = facula.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype = dtype
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def calculate_qparams(self) -> None:
        """Raise an error: there are none."""
        _no_qparams(self)


class ReuseInputObserver(ObserverBase):
    """Mark a place where the output has the scale and zero point of the input, as after a change of shape.

    >>> from torch.ao.quantization import ReuseInputObserver
    >>> ReuseInputObserver()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self) -> None:
        super().__init__(facula.quint8, is_dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def calculate_qparams(self) -> None:
        """Raise an error: there are none."""
        _no_qparams(self)


class RecordingObserver(ObserverBase):
    """Store copies of all tensors that pass through, for inspection.

    Args:
        dtype: that of the quantized tensor.

    >>> from torch.ao.quantization import RecordingObserver
    >>> observer = RecordingObserver()
    >>> _ = observer(torch.tensor([1.0])), observer(torch.tensor([2.0]))
    >>> observer.get_tensor_value()
    [tensor([1.]), tensor([2.])]
    """

    def __init__(self, dtype: facula.dtype = facula.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        """Keep a copy of the tensor and return it."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> None:
        """Raise an error: there are none."""
        _no_qparams(self)

    def get_tensor_value(self) -> list[Tensor]:
        """Return the tensors seen."""
        return self.tensor_val


# ---- Words for what shares a scale, and what an observer of such parts is made with; other libraries build on them


class MappingType(enum.Enum):
    """Name how values are mapped to levels: symmetrically around zero, the same without clipping either side, or
    asymmetrically.

    >>> from torch.ao.quantization import MappingType
    >>> MappingType.SYMMETRIC.name
    'SYMMETRIC'
    """

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """Name what a zero point is: an integer level, a floating-point value, or nothing.

    >>> from torch.ao.quantization import ZeroPointDomain
    >>> [domain.name for domain in ZeroPointDomain]
    ['INT', 'FLOAT', 'NONE']
    """

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Name integers of one to seven bits, for which there are no dtypes.

    >>> from torch.ao.quantization import TorchAODType
    >>> TorchAODType.INT4.name
    'INT4'
    """

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """Describe which elements share a scale.

    >>> from torch.ao.quantization import Granularity, PerTensor
    >>> isinstance(PerTensor(), Granularity)
    True
    """


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Share a scale among the elements of every block of `block_size`.

    >>> from torch.ao.quantization.observer import PerBlock, get_block_size
    >>> get_block_size((4, 6), PerBlock((2, 3)))
    (2, 3)
    """

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """Share a scale among all elements of a tensor.

    >>> from torch.ao.quantization.observer import PerTensor, get_block_size
    >>> get_block_size((4, 6), PerTensor())
    (4, 6)
    """


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Share a scale among the elements that have the same index along the dimension `axis`.

    >>> from torch.ao.quantization.observer import PerAxis, get_block_size
    >>> get_block_size((4, 6), PerAxis(axis=1))
    (4, 1)
    """

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Share a scale among every `group_size` neighbors along the last dimension.

    >>> from torch.ao.quantization.observer import PerGroup, get_block_size
    >>> get_block_size((4, 6), PerGroup(group_size=2))
    (1, 2)
    """

    group_size: int


class PerRow(Granularity):
    """Share a scale among the elements of every row along the last dimension.

    >>> from torch.ao.quantization.observer import PerRow, get_block_size
    >>> get_block_size((4, 6), PerRow())
    (1, 6)
    """


class PerToken(Granularity):
    """Share a scale among the elements of every row along the last dimension, with scales that are computed for each
    input.

    >>> from torch.ao.quantization.observer import PerToken, get_block_size
    >>> get_block_size((2, 4, 6), PerToken())
    (1, 1, 6)
    """


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """Return the shape of the parts of a tensor that share a scale.

    Args:
        input_shape: of the tensor.
        granularity: one of the classes here.

    Errors: AssertionError for no granularity, a group that does not divide the row; ValueError for classes of one's own.

    Example::

        >>> from torch.ao.quantization.observer import PerAxis, get_block_size
        >>> get_block_size((4, 6), PerAxis(0))
        (1, 6)
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError(f"get_block_size: Please provide an instance of Granularity, got {granularity}")
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerBlock):
        return granularity.block_size
    if isinstance(granularity, PerAxis):
        axis = granularity.axis % len(input_shape)
        return tuple(1 if i == axis else n for i, n in enumerate(input_shape))
    ones = (1,) * (len(input_shape) - 1)
    if isinstance(granularity, (PerRow, PerToken)):
        return (*ones, input_shape[-1])
    if isinstance(granularity, PerGroup):
        if len(input_shape) != 2 or input_shape[-1] % granularity.group_size:
            raise AssertionError(
                f"get_block_size: expected two dimensions, the last a multiple of {granularity.group_size}, got {input_shape}"
            )
        return (1, granularity.group_size)
    raise ValueError(f"get_block_size: a granularity that is known is expected, got {granularity}")


class AffineQuantizedObserverBase(ABC, Module):
    """Hold the arguments of observers for parts of tensors, which other packages derive from this class.

    Args:
        mapping_type: a `MappingType`.
        target_dtype: of the quantized tensor.
        granularity: a `Granularity`.
        quant_min, quant_max: the levels.
        eps: the least scale.
        scale_dtype, zero_point_dtype: of the scales and zero points.
        preserve_zero: if True, zero is a level.
        zero_point_domain: a `ZeroPointDomain`.
        kwargs: ignored, for subclasses.

    Errors: AssertionError for no granularity.

    >>> from torch.ao.quantization.observer import AffineQuantizedObserverBase, MappingType, PerTensor
    >>> class Largest(AffineQuantizedObserverBase):
    ...     def forward(self, x):
    ...         self.seen = x.abs().max()
    ...         return x
    ...     def calculate_qparams(self):
    ...         return self.seen / self.quant_max, torch.tensor(0)
    >>> observer = Largest(MappingType.SYMMETRIC, torch.int8, PerTensor(), quant_min=-127, quant_max=127)
    >>> _ = observer(torch.tensor([-254.0, 1.0]))
    >>> observer.calculate_qparams()
    (tensor(2.), tensor(0))
    """

    with_args: Any = classmethod(_with_args)

    def __init__(self, mapping_type: MappingType, target_dtype: facula.dtype, granularity: Granularity,
                 quant_min: int | None = None, quant_max: int | None = None, eps: float | None = None, scale_dtype: Any = None,
                 zero_point_dtype: Any = None, preserve_zero: bool = True,
                 zero_point_domain: ZeroPointDomain = ZeroPointDomain.INT, **kwargs: Any) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("granularity", granularity), ("zero_point_domain", zero_point_domain)):
            if value is None:
                raise AssertionError(f"{type(self).__name__}: {name} is None, got {kwargs}")
        self.mapping_type = mapping_type
        self.target_dtype = target_dtype
        self.granularity = granularity
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps = eps
        self.scale_dtype = scale_dtype
        self.zero_point_dtype = zero_point_dtype
        self.preserve_zero = preserve_zero
        self.zero_point_domain = zero_point_domain
        self.block_size: Any = None

    @abstractmethod
    def forward(self, input: Tensor) -> Any:
        """Look at the tensor and return it."""
        raise NotImplementedError(f"{type(self).__name__}.forward: a subclass says it, got {tuple(input.shape)}")

    @abstractmethod
    def calculate_qparams(self) -> Any:
        """Return (scale, zero point) for what was seen."""
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a subclass says it, got {self}")

    def convert(self, model: Module, observer_node: Any) -> Any:
        """Raise NotImplementedError: graphs are not converted.

        Args:
            model, observer_node: not looked at.

        Errors: NotImplementedError always.

        >>> from torch.ao.quantization.observer import AffineQuantizedObserverBase, MappingType, PerTensor
        >>> class Blind(AffineQuantizedObserverBase):
        ...     def forward(self, x):
        ...         return x
        ...     def calculate_qparams(self):
        ...         return torch.tensor(1.0), torch.tensor(0)
        >>> Blind(MappingType.SYMMETRIC, torch.int8, PerTensor()).convert(None, "x")
        Traceback (most recent call last):
            ...
        NotImplementedError: Blind.convert: graphs (pt2e) are not supported, got NoneType, x
        """
        raise NotImplementedError(
            f"{type(self).__name__}.convert: graphs (pt2e) are not supported, got {type(model).__name__}, {observer_node}"
        )


_STEP = 1e-5


# ---- An observer that keeps a histogram and chooses the range whose rounding errors are least.
#
# The search: the outermost bins are given up step by step, on the side where the next hundred-thousandth of all values lets
# go of more bins, for as long as the sum of squared errors falls. The error of a bin is that of its values, spread evenly,
# from the middles of the levels that they fall into, so values outside the range count with their distance from the last level.


class HistogramObserver(UniformQuantizationObserverBase):
    """Collect a histogram of all values; the levels are those with the least sum of squared rounding errors.

    Args:
        bins: of the histogram.
        dtype, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, kwargs: as for
            `UniformQuantizationObserverBase`.
        qscheme: per_tensor_affine or per_tensor_symmetric.

    Errors: NotImplementedError for schemes per channel, and for is_dynamic.

    Example::

        >>> from torch.ao.quantization import HistogramObserver
        >>> observer = HistogramObserver(bins=64)
        >>> _ = observer(torch.linspace(0, 1, 1000))
        >>> scale, zero_point = observer.calculate_qparams()
        >>> 0.0038 < scale.item() < 0.004, zero_point.item()
        (True, 0)
    """

    histogram: facula.Tensor
    min_val: facula.Tensor
    max_val: facula.Tensor

    def __init__(self, bins: int = 2048, dtype: facula.dtype = facula.quint8, qscheme: Any = facula.per_tensor_affine,
                 reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
                 factory_kwargs: dict[str, Any] | None = None, eps: float = _EPS, is_dynamic: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        _refuse_scheme(self, qscheme, is_per_tensor)
        _refuse_dynamic(self, is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        where = factory_kwargs or {}
        self.register_buffer("histogram", facula.zeros(bins, **where))
        self.register_buffer("min_val", facula.tensor(float("inf"), **where))
        self.register_buffer("max_val", facula.tensor(float("-inf"), **where))
        # All levels that the dtype's bits allow: 256 for eight bits.
        self.dst_nbins: Any = 2 ** (8 * facula.empty(0, dtype=getattr(dtype, "_levels", dtype)).element_size())
        self.upsample_rate = 16

    def _is_empty(self):
        return self.min_val == float("inf") or self.max_val == float("-inf")

    def reset_histogram(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> None:
        """Start anew with the values of x, which lie between min_val and max_val.

        >>> from torch.ao.quantization import HistogramObserver
        >>> observer = HistogramObserver(bins=4)
        >>> observer.reset_histogram(torch.tensor([0.0, 1.0, 4.0]), torch.tensor(0.0), torch.tensor(4.0))
        >>> observer.histogram
        tensor([1., 1., 0., 1.])
        """
        self._set("min_val", min_val)
        self._set("max_val", max_val)
        self._set("histogram", self._histc(x, min_val, max_val))

    def _histc(self, x, low, high):
        return facula.histc(x, self.bins, min=low.item(), max=high.item()).to(self.histogram.dtype)

    def _on_other_bins(self, low, high):
        """Return the histogram with its values, spread evenly in each bin, in bins from low to high."""
        # Each bin is divided into fine ones, whose middles then fall into the new bins.
        fine = self.bins * self.upsample_rate
        start, end = self.min_val.item(), self.max_val.item()
        weights = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = facula.linspace(start, end, fine + 1)[:-1] + 0.5 * ((self.max_val - self.min_val) / fine)
        borders = facula.linspace(low.item(), high.item(), self.bins + 1)
        places = (facula.bucketize(middles, borders, right=True) - 1).clamp_(0, self.bins - 1)
        return facula.bincount(places, weights=weights, minlength=self.bins)

    def _combined(self, x, low, high):
        """Return the histogram, from low to high, of what was seen and x."""
        update = self._histc(x, low, high)
        if low == self.min_val and high == self.max_val:
            return self.histogram + update
        if self.min_val == self.max_val:  # all that was seen is one value
            return self._histc(self.min_val, low, high) * self.histogram.sum() + update
        return self._on_other_bins(low, high) + update

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at the tensor and return it."""
        x = x_orig.detach()
        if x.numel() == 0:
            return x_orig
        low, high = facula.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warnings.warn("HistogramObserver: infinite values of the input are left out", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = facula.aminmax(x)
        if self._is_empty():
            self.reset_histogram(x, low, high)
            return x_orig
        low, high = facula.minimum(self.min_val, low), facula.maximum(self.max_val, high)
        self._set("histogram", self._combined(x, low, high).to(self.histogram.dtype))
        self._set("min_val", low)
        self._set("max_val", high)
        return x_orig

    def _error(self, first, last):
        """Return the sum of squared errors when the levels lie in the bins from first to last."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (facula.arange(self.bins) - first) * width
        end = begin + width
        level_of_begin = facula.div(begin, step, rounding_mode="floor").clamp_(0, self.dst_nbins - 1)
        level_of_end = facula.div(end, step, rounding_mode="floor").clamp_(0, self.dst_nbins - 1)
        half = step / 2
        from_middle = begin - (level_of_begin + 0.5) * step
        to_middle = end - (level_of_end * step + half)
        # three parts of a bin: up to the end of its first level, whole levels, and the rest in its last level
        cubes = (half**3 - from_middle**3) + (level_of_end - level_of_begin - 1) * (2 * half**3) + (to_middle**3 + half**3)
        return (self.histogram / width * cubes / 3).sum().item()

    def _non_linear_param_search(self):
        """Return (least, greatest) value that gets a level."""
        sums = facula.cumsum(self.histogram.float(), 0)
        total, sums = self.histogram.sum().item(), sums.tolist()
        count = round(1 / _STEP) + 2
        # Shares are summed step by step and compared in float32, as PyTorch does: rounding decides which bin comes
        # next.
        lows = list(itertools.accumulate([0.0, *itertools.repeat(_STEP, count)]))
        highs = list(itertools.accumulate([1.0, *itertools.repeat(-_STEP, count)]))
        low_sums, high_sums = (
            (facula.tensor(shares, dtype=facula.float64) * total).float().tolist() for shares in (lows, highs)
        )
        left = right = 0  # steps taken at either end
        first, last = 0, self.bins - 1
        least = float("inf")
        while lows[left] < highs[right]:
            low = bisect.bisect_left(sums, low_sums[left + 1], first, last)
            high = max(bisect.bisect_right(sums, high_sums[right + 1], first, last + 1) - 1, first)
            begin, end = first, last
            if low - first > last - high:
                begin, left = low, left + 1
            else:
                end, right = high, right + 1
            if (begin, end) == (first, last):
                continue
            error = self._error(begin, end)
            if error > least:
                break
            least, first, last = error, begin, end
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point), tensors of one element."""
        if self._is_empty():
            warnings.warn("calculate_qparams: nothing has been observed yet, so scale 1 and zero point 0", stacklevel=2)
            return facula.tensor([1.0]), facula.tensor([0])
        if self.bins != len(self.histogram):
            raise AssertionError(
                f"{type(self).__name__}: expected a histogram of bins={self.bins}, got {len(self.histogram)}"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def extra_repr(self) -> str:
        """Return the least and the greatest value."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version")
        for name, value in (("min_val", float("inf")), ("max_val", float("-inf"))):
            key = prefix + name
            if (version is None or version < 3) and key in state_dict and state_dict[key].shape == (0,):
                state_dict[key] = facula.tensor(value)  # how files say that nothing was seen
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


_ObserverBase = UniformQuantizationObserverBase


class _Extremes(UniformQuantizationObserverBase):
    """Record the least and the greatest value, of all elements or of each channel."""

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
    """Map the least and the greatest value to the least and the greatest level, or to the nearest so that zero is a
    level.

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
                 eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        _refuse_scheme(self, qscheme, is_per_tensor)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self._start(float("inf"), float("-inf"), factory_kwargs, reduce_range)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at the tensor and return it."""
        if x_orig.numel():
            low, high = self._combined(*facula.aminmax(x_orig.detach().to(self.min_val.dtype)))
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scale, zero point), tensors of one element."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the least and the greatest value."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.copy_(facula.tensor(float("inf")))
        self.max_val.copy_(facula.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Map moving averages of the least and greatest values as `MinMaxObserver` does: average += constant * (new -
    average).

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
                 quant_max: int | None = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        _refuse_scheme(self, qscheme, is_per_tensor)
        _refuse_dynamic(self, is_dynamic, averaging_constant)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def _combined(self, low, high):
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            return low, high
        share = self.averaging_constant
        return self.min_val + share * (low - self.min_val), self.max_val + share * (high - self.max_val)


class PerChannelMinMaxObserver(_Extremes):
    """Map values as `MinMaxObserver` does, separately for every index along a dimension.

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
                 factory_kwargs: dict[str, Any] | None = None, eps: float = _EPS, is_dynamic: bool = False,
                 **kwargs: Any) -> None:  # fmt: skip
        _refuse_scheme(self, qscheme, is_per_channel)
        _refuse_dynamic(self, is_dynamic)
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self._start([], [], factory_kwargs, reduce_range)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at the tensor and return it."""
        if x_orig.numel():
            rows = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis).flatten(start_dim=1)
            low, high = facula.aminmax(rows, dim=1)
            if self.min_val.numel() and self.max_val.numel():
                low, high = self._combined(low, high)
            self._set("min_val", low)
            self._set("max_val", high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return (scales, zero points), one for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the least and the greatest values."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, *rest):
        version = local_metadata.get("version")
        for name in ("min_val", "max_val"):
            key = prefix + name
            # Files before version 3 have the plural names.
            if version is not None and version < 3 and f"{key}s" in state_dict:
                state_dict[key] = state_dict.pop(f"{key}s")
            if key in state_dict:
                # A new observer knows no number of channels, so the buffers get the loaded shape first.
                getattr(self, name).resize_(state_dict[key].shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *rest)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val, self.max_val = facula.tensor([]), facula.tensor([])


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Map moving averages as `PerChannelMinMaxObserver` maps extremes: average += constant * (new - average).

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
                 quant_max: int | None = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def _combined(self, low, high):
        share = self.averaging_constant
        return self.min_val + share * (low - self.min_val), self.max_val + share * (high - self.max_val)


# ---- the usual ones

# Activations get seven bits by default: x86 CPUs without VNNI add two products of uint8 and int8 in int16, where eight
# bits can overflow.
default_observer: Any = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer: Any = MinMaxObserver.with_args(dtype=facula.qint8, qscheme=facula.per_tensor_symmetric)
# XNNPACK needs symmetric levels, without -128, and scales of at least 2^-12.
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
# 256 levels from -1 to 1, the results of tanh.
default_fixed_qparams_range_neg1to1_observer: Any = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=facula.quint8, quant_min=0, quant_max=255
)
# 256 levels from 0 to 1, the results of a sigmoid.
default_fixed_qparams_range_0to1_observer: Any = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=facula.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


# ---- what is seen, saved and loaded


#: classes whose objects watch values; fake_quantize.py adds its own
_POST_PROCESSES: list[type] = [ObserverBase]


def _is_activation_post_process(module) -> bool:
    return isinstance(module, tuple(_POST_PROCESSES))


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """Return the entries of a module's state_dict that belong to observers.

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
    """Load what `get_observer_state_dict` gave into the module's observers.

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
