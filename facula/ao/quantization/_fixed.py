"""Observers that look at nothing, or only keep it: what they say is known when they are made."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import facula

from ._observer_base import EPS, ObserverBase, refuse_dynamic

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


def _no_qparams(observer):
    raise Exception(f"calculate_qparams should not be called for {type(observer).__name__}, got {observer}")


class FixedQParamsObserver(ObserverBase):
    """Says the scale and zero point that it was made with, for ops whose results have known bounds.

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
        refuse_dynamic(self, is_dynamic)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.register_buffer("scale", facula.tensor([scale], dtype=facula.float32))
        self.register_buffer("zero_point", facula.tensor([zero_point], dtype=facula.int32))
        self.qscheme = qscheme

    def forward(self, X: Tensor) -> Tensor:
        """Returns the tensor."""
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point), tensors of one element."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Looks at nothing, and only says which dtype is meant: where scales are found later, or there are none (float16).

    Args:
        dtype, qscheme, quant_min, quant_max, eps, is_dynamic: as for `UniformQuantizationObserverBase`.
        custom_op_name: of an op that takes the place of quantisation.
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
        self.eps: float = EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warnings.warn("PlaceholderObserver: compute_dtype is the old name, pass is_dynamic=True", stacklevel=2)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x

    def extra_repr(self) -> str:
        """dtype and is_dynamic."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> None:
        """There are none."""
        _no_qparams(self)


class NoopObserver(ObserverBase):
    """Looks at nothing.

    Args:
        dtype: that of the tensor.
        custom_op_name: of an op that takes the place of quantisation.

    >>> from torch.ao.quantization import NoopObserver
    >>> NoopObserver()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, dtype: facula.dtype = facula.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype = dtype
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x

    def calculate_qparams(self) -> None:
        """There are none."""
        _no_qparams(self)


class ReuseInputObserver(ObserverBase):
    """Stands where the output has the input's levels, as after a change of shape.

    >>> from torch.ao.quantization import ReuseInputObserver
    >>> ReuseInputObserver()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self) -> None:
        super().__init__(facula.quint8, is_dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x

    def calculate_qparams(self) -> None:
        """There are none."""
        _no_qparams(self)


class RecordingObserver(ObserverBase):
    """Keeps copies of all tensors seen, for a look at them.

    Args:
        dtype: that of the quantised tensor.

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
        """Keeps a copy of the tensor and returns it."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> None:
        """There are none."""
        _no_qparams(self)

    def get_tensor_value(self) -> list[Tensor]:
        """The tensors seen."""
        return self.tensor_val
