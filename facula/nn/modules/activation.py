"""Activation layers; each calls the function of the same name in nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula

from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._activation_base import _InplaceActivation, _PlainActivation
from ._activation_lines import (
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    ReLU,
    ReLU6,
    RReLU,
    Softshrink,
    Threshold,
)
from ._attention import MultiheadAttention
from ._home import belong_to
from ._softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor
    from facula.types import Device

__all__ = [
    "MultiheadAttention",
    "ReLU",
    "SELU",
    "SiLU",
    "Mish",
    "Hardsigmoid",
    "Hardswish",
    "Sigmoid",
    "Tanh",
    "LogSigmoid",
    "Softsign",
    "Tanhshrink",
    "ELU",
    "CELU",
    "LeakyReLU",
    "RReLU",
    "Threshold",
    "Hardtanh",
    "ReLU6",
    "GELU",
    "Hardshrink",
    "Softshrink",
    "GLU",
    "Softplus",
    "PReLU",
    "Softmin",
    "Softmax",
    "LogSoftmax",
    "Softmax2d",
]


class SELU(_InplaceActivation):
    """``1.0507 * x`` where x is positive, else ``1.7581 * (exp(x) - 1)``: an ELU with constants that keep activations at
    mean 0 and variance 1 through many layers (Klambauer et al. 2017), where weights are drawn with
    `init.kaiming_normal_(nonlinearity="linear")`.

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.SELU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InplaceActivation):
    """``x * sigmoid(x)``, also known as swish.

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.SiLU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """``x * tanh(softplus(x))``, a smooth function with one minimum (Misra 2019).

    Args:
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.Mish()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Sigmoid(_PlainActivation):
    """``1 / (1 + exp(-x))``, which maps every number into (0, 1).

    Shapes: input and output of any one shape.

    >>> nn.Sigmoid()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(_PlainActivation):
    """The hyperbolic tangent, which maps every number into (-1, 1).

    Shapes: input and output of any one shape.

    >>> nn.Tanh()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class LogSigmoid(_PlainActivation):
    """``log(1 / (1 + exp(-x)))``, computed so that large numbers of either sign do not overflow.

    Shapes: input and output of any one shape.

    >>> nn.LogSigmoid()(torch.tensor([-100.0, 0.0, 1.0]))
    tensor([-100.0000,   -0.6931,   -0.3133])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(_PlainActivation):
    """``x / (1 + |x|)``, which comes near -1 and 1 more slowly than tanh.

    Shapes: input and output of any one shape.

    >>> nn.Softsign()(torch.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(_PlainActivation):
    """``x - tanh(x)``: almost 0 near 0, and a step of 1 nearer to 0 far from it.

    Shapes: input and output of any one shape.

    >>> nn.Tanhshrink()(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.0360,  0.0000,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class ELU(Module):
    """``x`` where x is positive, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: minus the limit for very negative numbers.
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    >>> nn.ELU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.6321,  0.0000,  1.0000])
    """

    __constants__: ClassVar[list[str]] = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``, whose slope is 1 at 0 whatever alpha is.

    Args:
        alpha: minus the limit for very negative numbers; not 0.
        inplace: whether the input itself is changed, and returned.

    Shapes: input and output of any one shape.

    Errors: RuntimeError, when called, for alpha 0.

    >>> nn.CELU(alpha=2.0)(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7869,  0.0000,  1.0000])
    """

    __constants__: ClassVar[list[str]] = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """``x * P(x)``, where P is the distribution function of the standard normal distribution (Hendrycks, Gimpel 2016).

    Args:
        approximate: 'none', or 'tanh' for ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``.

    Shapes: input and output of any one shape.

    Errors: RuntimeError, when called, for another word.

    >>> nn.GELU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> nn.GELU(approximate="tanh")(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1588,  0.0000,  0.8412])
    """

    __constants__: ClassVar[list[str]] = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """``a * sigmoid(b)``, where a and b are the first and second half of the input along dim (Dauphin et al. 2017).

    Args:
        dim: the dimension that is halved; its size is even.

    Shapes: input (..., 2 * n, ...) with 2 * n along dim; output (..., n, ...).

    Errors: RuntimeError, when called, for an odd size along dim.

    >>> nn.GLU()(torch.tensor([[1.0, 2.0, 0.0, 0.0]]))
    tensor([[0.5000, 1.0000]])
    """

    __constants__: ClassVar[list[str]] = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, a smooth ReLU; x itself where ``beta * x > threshold``, where both are the same.

    Args:
        beta: how sharp the bend at 0 is.
        threshold: from where on x stands for the formula.

    Shapes: input and output of any one shape.

    >>> nn.Softplus()(torch.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    __constants__: ClassVar[list[str]] = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """``x`` where x is positive, else ``weight * x`` with a slope that is learned (He et al. 2015).

    Args:
        num_parameters: 1 slope for all, or one for each of the channels.
        init: first value of the slopes.
        device, dtype: of the parameter.

    Shapes: input (N, C, ...) or, with one slope, any; output the same. ``weight`` is (num_parameters,).

    Errors: RuntimeError, when called, for another number of channels than of slopes.

    >>> nn.PReLU()(torch.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    __constants__: ClassVar[list[str]] = ["num_parameters"]
    num_parameters: int

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight: Parameter = Parameter(facula.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to the value that the constructor was given.

        >>> layer = nn.PReLU(2)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> layer.reset_parameters()
        >>> layer.weight.tolist()
        [0.25, 0.25]
        """
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


belong_to(__name__, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, ReLU, ReLU6, RReLU, Softshrink, Threshold)
belong_to(__name__, LogSoftmax, MultiheadAttention, Softmax, Softmax2d, Softmin)
