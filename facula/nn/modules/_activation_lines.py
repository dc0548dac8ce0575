"""Activation layers of straight lines."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from ._activation_base import _InplaceActivation
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor


class ReLU(_InplaceActivation):
    """The larger of 0 and each element: ``max(0, x)``.

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.ReLU()(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Hardsigmoid(_InplaceActivation):
    """A sigmoid of three straight lines: ``min(max(0, x + 3), 6) / 6``.

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.Hardsigmoid()(torch.tensor([-3.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InplaceActivation):
    """``x * min(max(0, x + 3), 6) / 6``: swish with a sigmoid of straight lines (Howard et al. 2019).

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.Hardswish()(torch.tensor([-3.0, 0.0, 1.5, 4.0]))
    tensor([-0.0000, 0.0000, 1.1250, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class LeakyReLU(Module):
    """``x`` where x is positive, else ``negative_slope * x``.

    Args:
        negative_slope: the factor of negative numbers.
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.LeakyReLU(0.1)(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1000,  0.0000,  2.0000])
    """

    __constants__: ClassVar[list[str]] = ["inplace", "negative_slope"]
    inplace: bool
    negative_slope: float

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """``x`` where x is positive, else x times a slope, which in training is drawn for each element from U(lower, upper),
    and in evaluation is their mean (Xu et al. 2015).

    Args:
        lower: the least slope.
        upper: the greatest slope.
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    Errors: RuntimeError, in training, for a lower above upper.

    >>> nn.RReLU(0.1, 0.3).eval()(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2000,  0.0000,  2.0000])
    """

    __constants__: ClassVar[list[str]] = ["lower", "upper", "inplace"]
    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """``x`` where x is greater than threshold, else ``value``.

    Args:
        threshold: the number that x must exceed.
        value: what stands in the place of smaller numbers.
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.Threshold(0.5, 20.0)(torch.tensor([0.25, 0.5, 0.75]))
    tensor([20.0000, 20.0000,  0.7500])
    """

    __constants__: ClassVar[list[str]] = ["threshold", "value", "inplace"]
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """``x`` limited to [min_val, max_val].

    Args:
        min_val: the least value.
        max_val: the greatest value.
        inplace: whether the input itself is changed, and returned.
        min_value, max_value: deprecated names of min_val and max_val; a warning tells so.

    Shapes: input and output of any one shape.

    Errors: AssertionError for a max_val that does not exceed min_val.

    >>> nn.Hardtanh(-2.0, 2.0)(torch.tensor([-3.0, 0.5, 3.0]))
    tensor([-2.0000,  0.5000,  2.0000])
    """

    __constants__: ClassVar[list[str]] = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            warnings.warn(
                "Hardtanh: use min_val and max_val, got min_value or max_value", FutureWarning, stacklevel=2
            )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"Hardtanh: max_val must exceed min_val {self.min_val}, got {self.max_val}")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """``min(max(0, x), 6)``.

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.ReLU6()(torch.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _Shrink(Module):
    """What Hardshrink and Softshrink share."""

    __constants__: ClassVar[list[str]] = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """``x`` where ``|x| > lambd``, else 0.

    Args:
        lambd: the greatest absolute value that becomes 0.

    Shapes: input and output of any one shape.

    >>> nn.Hardshrink()(torch.tensor([-1.0, 0.5, 0.75]))
    tensor([-1.0000,  0.0000,  0.7500])
    """

    lambd: float

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` moved towards 0 by lambd: ``sign(x) * max(0, |x| - lambd)``.

    Args:
        lambd: by how much; not negative.

    Shapes: input and output of any one shape.

    Errors: RuntimeError, when called, for a negative lambd.

    >>> nn.Softshrink()(torch.tensor([-1.0, 0.5, 0.75]))
    tensor([-0.5000,  0.0000,  0.2500])
    """

    lambd: float

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)
