"""Activation functions of nn.functional.

Each is one native kernel (or a short formula). ``inplace=True`` writes the result into the input and returns
it.
"""

from __future__ import annotations

import warnings

import facula
from facula import _C

_nn = _C.nn_functional

celu_ = facula.celu_
elu_ = _nn.elu_
gelu = _nn.gelu
hardshrink = facula.hardshrink
hardtanh_ = _nn.hardtanh_
leaky_relu_ = _nn.leaky_relu_
logsigmoid = _nn.log_sigmoid
prelu = facula.prelu
relu_ = facula.relu_
rrelu_ = facula.rrelu_
selu_ = facula.selu_
softplus = _nn.softplus
softshrink = _nn.softshrink
threshold_ = facula.threshold_

_relu = facula.relu
_silu, _silu_ = _nn.silu, _nn.silu_


def relu(input, inplace: bool = False):
    """``max(0, x)``, element-wise."""
    return relu_(input) if inplace else _relu(input)


def relu6(input, inplace: bool = False):
    """``min(max(0, x), 6)``, element-wise."""
    return (_nn.relu6_ if inplace else _nn.relu6)(input)


def elu(input, alpha: float = 1.0, inplace: bool = False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return (elu_ if inplace else _nn.elu)(input, alpha)


def selu(input, inplace: bool = False):
    """ELU with the fixed scale and alpha that keep mean 0 and variance 1 through deep networks."""
    return (selu_ if inplace else facula.selu)(input)


def celu(input, alpha: float = 1.0, inplace: bool = False):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    return (celu_ if inplace else facula.celu)(input, alpha)


def leaky_relu(input, negative_slope: float = 0.01, inplace: bool = False):
    """``x`` where positive, else ``negative_slope * x``."""
    return (leaky_relu_ if inplace else _nn.leaky_relu)(input, negative_slope)


def rrelu(
    input, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
):
    """Leaky ReLU whose slopes are drawn from U(lower, upper) in training, and are their mean otherwise."""
    return (rrelu_ if inplace else facula.rrelu)(input, lower, upper, training)


def threshold(input, threshold: float, value: float, inplace: bool = False):
    """``x`` where greater than ``threshold``, else ``value``."""
    return (threshold_ if inplace else facula.threshold)(input, threshold, value)


def hardtanh(input, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
    """``x`` limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val, got {min_val} and {max_val}")
    return (hardtanh_ if inplace else _nn.hardtanh)(input, min_val, max_val)


def hardsigmoid(input, inplace: bool = False):
    """``min(max(0, x + 3), 6) / 6``."""
    return (_nn.hardsigmoid_ if inplace else _nn.hardsigmoid)(input)


def hardswish(input, inplace: bool = False):
    """``x * hardsigmoid(x)``."""
    return (_nn.hardswish_ if inplace else _nn.hardswish)(input)


def silu(input, inplace: bool = False):
    """``x * sigmoid(x)``."""
    return _silu_(input) if inplace else _silu(input)


def mish(input, inplace: bool = False):
    """``x * tanh(softplus(x))``."""
    return (_nn.mish_ if inplace else _nn.mish)(input)


def glu(input, dim: int = -1):
    """``a * sigmoid(b)``, where a and b are the two halves of the input along ``dim`` (of even size)."""
    if input.dim() == 0:
        raise RuntimeError("glu: the input must have at least one dimension, got a 0-dimensional tensor")
    return _nn.glu(input, dim)


def sigmoid(input):
    """``1 / (1 + exp(-x))``."""
    return input.sigmoid()


def tanh(input):
    """Hyperbolic tangent."""
    return input.tanh()


def tanhshrink(input):
    """``x - tanh(x)``."""
    return input - input.tanh()


def softsign(input):
    """``x / (1 + |x|)``."""
    return input / (input.abs() + 1)


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that softmax and friends take when the caller gives none: 0 for 0, 1 and 3 dimensions,
    else 1.
    """
    warnings.warn(
        f"{name}: give dim explicitly; guessing it is deprecated, got dim=None", stacklevel=stacklevel
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim: int | None = None, _stacklevel: int = 3, dtype=None):
    """``exp(x)`` divided by its sum along ``dim``; ``dtype`` converts the input first."""
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return facula.softmax(input, dim, dtype)


def softmin(input, dim: int | None = None, _stacklevel: int = 3, dtype=None):
    """``softmax(-x)``."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return facula.softmax(-input, dim, dtype)


def log_softmax(input, dim: int | None = None, _stacklevel: int = 3, dtype=None):
    """Logarithm of softmax, computed stably."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return facula.log_softmax(input, dim, dtype)


def gumbel_softmax(logits, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1):
    """Sample from the Gumbel-softmax distribution along ``dim``.

    Args:
        logits: unnormalised log-probabilities, (..., classes).
        tau: temperature.
        hard: give one-hot vectors, with the gradient of the soft sample.
        eps: without meaning; kept for old calls.
    """
    if eps != 1e-10:
        warnings.warn(f"gumbel_softmax: eps has no effect and is deprecated, got {eps}", stacklevel=2)
    gumbels = -facula.empty_like(logits, memory_format=facula.contiguous_format).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = facula.zeros_like(logits, memory_format=facula.contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
