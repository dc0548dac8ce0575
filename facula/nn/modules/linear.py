"""Define linear, bilinear and identity layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


_linear = _C.nn_functional.linear


class Identity(Module):
    """Return the input. It can stand where a module is required that does nothing.

    Args:
        args, kwargs: ignored.

    Shapes: input of any shape; output the same.

    Errors: TypeError, when called, for other than one argument.

    >>> nn.Identity(54, unused=True)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Apply an affine map to the last dimension: ``y = x @ weight.T + bias``.

    Args:
        in_features: the size of the last dimension of the input.
        out_features: the size of the last dimension of the output.
        bias: if True, add a learned vector.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (..., in_features); output (..., out_features). ``weight`` is (out_features, in_features) and ``bias``
    (out_features,), both drawn uniformly within 1 / sqrt(in_features).

    Errors: RuntimeError, when called, for another last dimension.

    >>> layer = nn.Linear(20, 30)
    >>> layer(torch.randn(128, 20)).shape
    torch.Size([128, 30])
    >>> layer
    Linear(in_features=20, out_features=30, bias=True)
    """

    __constants__: ClassVar[list[str]] = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: facula.Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: facula.dtype | None = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(facula.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias: Parameter = Parameter(facula.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniformly within 1 / sqrt(in_features).

        >>> layer = nn.Linear(4, 2)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> layer.reset_parameters()
        >>> bool((layer.weight != 0).any()), layer.weight.abs().max().item() <= 0.5
        (True, True)
        """
        # With a = sqrt(5) the Kaiming bound is 1 / sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return _linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """Apply a `Linear` under the name that checkpoints of attention layers contain."""


class Bilinear(Module):
    """Apply a bilinear map to two inputs: ``y[k] = x1 @ weight[k] @ x2 + bias[k]``.

    Args:
        in1_features: the size of the last dimension of the first input.
        in2_features: the size of the last dimension of the second input.
        out_features: the size of the last dimension of the output.
        bias: if True, add a learned vector.
        device, dtype: the device and the dtype of the parameters.

    Shapes: called with (..., in1_features) and (..., in2_features), the other dimensions the same; output (...,
    out_features). ``weight`` is (out_features, in1_features, in2_features) and ``bias`` (out_features,), both drawn
    uniformly within 1 / sqrt(in1_features).

    Errors: ValueError for an in1_features that is not positive; RuntimeError, when called, for sizes that do not fit.

    >>> nn.Bilinear(20, 30, 40)(torch.randn(128, 20), torch.randn(128, 30)).shape
    torch.Size([128, 40])
    """

    __constants__: ClassVar[list[str]] = ["in1_features", "in2_features", "out_features"]
    in1_features: int
    in2_features: int
    out_features: int
    weight: facula.Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(facula.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias: Parameter = Parameter(facula.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniformly within 1 / sqrt(in1_features).

        >>> layer = nn.Bilinear(4, 4, 2)
        >>> layer.reset_parameters()
        >>> layer.weight.abs().max().item() <= 0.5
        True
        """
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """Apply a `Linear`, which this module becomes at the first call; the input of that call determines in_features.

    Args:
        out_features: the size of the last dimension of the output.
        bias: if True, add a learned vector.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `Linear`. The parameters have no shape before the first call: move and convert the module as usual, but
    make the optimizer afterwards.

    Errors: IndexError, when called, for a tensor without dimensions.

    >>> layer = nn.LazyLinear(30)
    >>> layer(torch.randn(128, 20)).shape, type(layer).__name__, layer.in_features
    (torch.Size([128, 30]), 'Linear', 20)
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(self, out_features: int, bias: bool = True, device: Device = None, dtype: facula.dtype | None = None) -> None:
        # Sizes 0 and no bias: nothing is allocated or drawn before the shape is known.
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once the size of the input is known; before, do nothing.

        >>> layer = nn.LazyLinear(2)
        >>> layer.reset_parameters()
        >>> layer.has_uninitialized_params()
        True
        """
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters their shape; the first call does this.

        Args:
            input: (..., in_features).

        Errors: AssertionError for another in_features than that of a weight that was loaded before.

        >>> layer = nn.LazyLinear(2)
        >>> layer.initialize_parameters(torch.randn(5, 3))
        >>> layer.weight.shape
        torch.Size([2, 3])
        """
        if self.has_uninitialized_params():
            with facula.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"LazyLinear: the weight has {self.weight.shape[-1]} input features, got "
                    f"{input.shape[-1]}"
                )
            self.in_features: int = input.shape[-1]
