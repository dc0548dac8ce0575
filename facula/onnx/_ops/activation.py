"""Translate activation functions."""

import math

from ._table import op
from .create import filled
from .elementwise import floating


@op("silu")
def silu(g, self):
    return self * g.Sigmoid(self)


@op("mish")
def mish(g, self):
    return g.Mish(self) if g.opset >= 18 else self * g.Tanh(g.Softplus(self))


@op("gelu")
def gelu(g, self, approximate="none"):
    if g.opset >= 20:
        return g.Gelu(self, approximate=approximate)
    if approximate == "none":
        return self * (g.Erf(self * math.sqrt(0.5)) + 1.0) * 0.5
    inner = (self + self * self * self * 0.044715) * math.sqrt(2 / math.pi)
    return self * (g.Tanh(inner) + 1.0) * 0.5


@op("relu6 functional_relu6")
def relu6(g, self, inplace=False):
    return g.clip(self, 0, 6)


@op("hardtanh")
def hardtanh(g, self, min_val=-1, max_val=1):
    return g.clip(self, min_val, max_val)


@op("hardsigmoid")
def hardsigmoid(g, self):
    return g.HardSigmoid(self, alpha=1 / 6, beta=0.5)


@op("hardswish")
def hardswish(g, self):
    return g.HardSwish(self)


@op("leaky_relu")
def leaky_relu(g, self, negative_slope=0.01):
    return g.LeakyRelu(self, alpha=float(negative_slope))


@op("prelu _prelu_kernel")
def prelu(g, self, weight):
    if weight.rank <= 1 and self.rank > 1 and weight.shape not in ((1,), ()):
        weight = g.reshape(weight, [weight.shape[0]] + [1] * (self.rank - 2))
    return g.PRelu(self, weight if self.rank else g.scalar(weight))


@op("elu")
def elu(g, self, alpha=1, scale=1, input_scale=1):
    if input_scale == 1:
        result = g.Elu(self, alpha=float(alpha))
    else:
        result = g.Where(g.Greater(self, 0.0), self, (g.Exp(self * float(input_scale)) - 1.0) * float(alpha))
    return result if scale == 1 else result * float(scale)


@op("selu")
def selu(g, self):
    return g.Selu(self)


@op("celu")
def celu(g, self, alpha=1.0):
    # ONNX's Celu takes float32 alone.
    return g.Where(g.Greater(self, 0.0), self, (g.Exp(self / float(alpha)) - 1.0) * float(alpha))


@op("softplus")
def softplus(g, self, beta=1, threshold=20):
    scaled = self * float(beta)
    return g.Where(g.Greater(scaled, float(threshold)), self, g.Softplus(scaled) / float(beta))


@op("log_sigmoid logsigmoid")
def log_sigmoid(g, self):
    return -g.Softplus(-self)


@op("log_sigmoid_forward")
def log_sigmoid_forward(g, self):
    return log_sigmoid(g, self), self


@op("hardshrink")
def hardshrink(g, self, lambd=0.5):
    return g.Shrink(self, lambd=float(lambd), bias=0.0)


@op("softshrink")
def softshrink(g, self, lambd=0.5):
    return g.Shrink(self, lambd=float(lambd), bias=float(lambd))


@op("tanhshrink")
def tanhshrink(g, self):
    return self - g.Tanh(self)


@op("threshold _threshold functional_threshold")
def threshold(g, self, threshold, value, inplace=False):
    return g.where(g.Greater(self, threshold), self, value)


@op("glu")
def glu(g, self, dim=-1):
    size = self.shape[dim]
    half = size // 2 if isinstance(size, int) else g.Div(g.size(self, dim), 2)
    a, b = g.cut(self, dim, 0, half), g.cut(self, dim, half, 2**63 - 1)
    return a * g.Sigmoid(b)


@op("rrelu rrelu_with_noise")
def rrelu(g, self, *args, lower=1 / 8, upper=1 / 3, training=False, **_):
    if args and not isinstance(args[0], (int, float)):  # the noise
        args = args[1:]
    lower, upper = args[0] if args else lower, args[1] if len(args) > 1 else upper
    if training or (len(args) > 2 and args[2]):
        slopes = g.RandomUniformLike(self, low=float(lower), high=float(upper))
        return g.Where(g.Less(self, 0.0), self * slopes, self)
    return g.LeakyRelu(self, alpha=(float(lower) + float(upper)) / 2)


@op("softmax _softmax special_softmax")
def softmax(g, self, dim, dtype=None):
    return _along(g, g.Softmax, self, dim)


@op("log_softmax _log_softmax special_log_softmax")
def log_softmax(g, self, dim, dtype=None):
    return _along(g, g.LogSoftmax, self, dim)


@op("softmin")
def softmin(g, self, dim, dtype=None):
    return _along(g, g.Softmax, -floating(g, self), dim)


def _along(g, make, self, dim):
    self = floating(g, self)
    if not self.rank:
        return g.squeeze(make(g.unsqueeze(self, 0), axis=0), 0)
    return make(self, axis=dim)


@op("feature_dropout alpha_dropout feature_alpha_dropout")
def special_dropout(g, input, p=0.5, train=False):
    if train and p:
        raise NotImplementedError(f"onnx.export: dropout of channels or alpha dropout has no translation while training, p={p}")
    return input


@op("dropout native_dropout")
def dropout(g, input, p=0.5, train=False):
    if not train or p == 0:
        return (input, filled(g, g.shape_of(input), True, "bool")) if g.results else input
    if p == 1:
        return input * 0.0
    if g.results and len(g.results) == 2:
        return g.Dropout(input, float(p), True, outputs=2)
    return g.Dropout(input, g.constant(float(p)), g.constant(True))
