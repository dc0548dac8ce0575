"""What observers share: levels, buffers, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import facula
from facula.nn import Module

from ._arguments import with_args, with_callable_args
from .utils import calculate_qmin_qmax, determine_qparams, is_per_channel, is_per_tensor, validate_qmin_qmax

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

EPS = facula.finfo(facula.float32).eps
_DTYPES = (
    facula.qint8, facula.quint8, facula.quint4x2, facula.qint32, facula.int8, facula.uint8, facula.int16, facula.int32,
    facula.float8_e5m2, facula.float8_e4m3fn, facula.uint16,
)  # fmt: skip


class ObserverBase(ABC, Module):
    """What all observers are: a module that returns its input and can say `calculate_qparams()`.

    Args:
        dtype: of the quantised tensor.
        is_dynamic: whether scales are found anew for each input.

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
        """Looks at the tensor and returns it."""
        raise NotImplementedError(f"{type(self).__name__}.forward: a subclass says it, got {x.shape}")

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point) for what was seen.

        Args:
            kwargs: of a subclass.
        """
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a subclass says it, got {kwargs}")

    with_args: Any = classmethod(with_args)
    with_callable_args: Any = classmethod(with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """What observers share whose levels are the same distance apart.

    Args:
        dtype: of the quantised tensor.
        qscheme: how levels are laid out.
        reduce_range: whether half of the levels are used, as products of eight bits without VNNI need it.
        quant_min, quant_max: levels of one's own; both or none.
        factory_kwargs: device and dtype of buffers.
        eps: the least scale.
        is_dynamic: whether scales are found anew for each input.
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
                 eps: float = EPS, is_dynamic: bool = False, **kwargs: Any) -> None:  # fmt: skip
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
            state_dict[prefix + "eps"] = facula.tensor([EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _validate_qmin_qmax(self, quant_min: int, quant_max: int) -> None:
        validate_qmin_qmax(quant_min, quant_max)

    def _calculate_qparams(self, min_val, max_val):
        return determine_qparams(
            min_val, max_val, self.quant_min, self.quant_max, self.dtype, self.eps, self.has_customized_qrange, self.qscheme
        )

    def _set(self, name, value):
        """Gives a buffer other values, of another shape maybe."""
        buffer = getattr(self, name).detach_()
        if buffer.shape != value.shape:
            buffer.resize_(value.shape)
        buffer.copy_(value)

    def reset_min_max_vals(self) -> Any:
        """Forgets what was seen."""
        raise NotImplementedError(f"{type(self).__name__}.reset_min_max_vals: not implemented, got {self}")


def refuse_scheme(observer, qscheme, wanted):
    names = {
        is_per_tensor: "torch.per_tensor_symmetric and torch.per_tensor_affine",
        is_per_channel: "torch.per_channel_symmetric, torch.per_channel_affine and torch.per_channel_affine_float_qparams",
    }
    if not wanted(qscheme):
        raise NotImplementedError(f"{type(observer).__name__}'s qscheme only support {names[wanted]}, got {qscheme}")


def refuse_dynamic(observer, is_dynamic, averaging_constant=None):
    if is_dynamic and averaging_constant != 1:
        constant = "" if averaging_constant is None else f" for averaging constant of {averaging_constant}"
        name = type(observer).__name__
        raise NotImplementedError(f"{name} doesn't support dynamic quantization{constant}, got {is_dynamic=}")
