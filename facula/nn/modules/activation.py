"""Define the activation layers; each calls the function of the same name in nn.functional.

Long because PyTorch has all activation layers in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

import facula

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

if TYPE_CHECKING:
    from typing import Any

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


# ---- What activation layers share


class _InplaceActivation(Module):
    """Hold the option to write into the input, for activations that have no other option."""

    __constants__: ClassVar[list[str]] = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _PlainActivation(Module):
    """Take no arguments; this is the base class of activations without options."""

    def __init__(self) -> None:
        super().__init__()


# ---- MultiheadAttention


class MultiheadAttention(Module):
    """Attend with several heads (Vaswani et al. 2017).

    Formula: head = softmax(q @ k.T / sqrt(d)) @ v  # d = embed_dim / num_heads

    Queries, keys and values are projected; each head takes a part of the features and computes
    ``softmax(q @ k.T / sqrt(E / num_heads)) @ v``; the results of the heads are joined and projected once more.

    Args:
        embed_dim: E, the size of queries and outputs.
        num_heads: the number of heads; it must divide embed_dim.
        dropout: the probability of dropping a weight of attention in training.
        bias: if True, add learned biases in the projections.
        add_bias_kv: if True, append a learned vector to keys and values.
        add_zero_attn: if True, append a vector of zeros to keys and values.
        kdim, vdim: the sizes of keys and values. Default: embed_dim.
        batch_first: if True, tensors are (N, L, E) instead of (L, N, E).
        device, dtype: the device and the dtype of the parameters.

    Shapes: called with ``query`` (L, N, E), ``key`` (S, N, kdim) and ``value`` (S, N, vdim), or all without N;
    ``key_padding_mask`` (N, S) says which keys to leave out, ``attn_mask`` (L, S) or (N * num_heads, L, S) which pairs
    (or has numbers that are added to the scores), and ``is_causal`` that attn_mask is the causal one. Returns (output
    like query, weights (N, L, S)): those of each head, (N, num_heads, L, S), without ``average_attn_weights``, and None
    without ``need_weights``, which is faster.

    Errors: ValueError for sizes that are not positive, AssertionError for a num_heads that does not divide embed_dim,
    and, when called, for shapes that do not fit.

    >>> attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    >>> x = torch.randn(4, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 5, 5]))
    """

    __constants__: ClassVar[list[str]] = ["batch_first"]
    bias_k: facula.Tensor | None
    bias_v: facula.Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be positive, got {embed_dim} and "
                f"{num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim: int = kdim if kdim is not None else embed_dim
        self.vdim: int = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim: int = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, got {embed_dim} and "
                f"{num_heads}"
            )

        def empty(*shape):
            return Parameter(facula.empty(shape, device=device, dtype=dtype))

        # One packed weight where the three inputs have the same size, otherwise one each; the others are
        # None.
        packed = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", empty(3 * embed_dim, embed_dim) if packed else None)
        self.register_parameter("q_proj_weight", None if packed else empty(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if packed else empty(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if packed else empty(embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", empty(3 * embed_dim) if bias else None)
        self.out_proj: NonDynamicallyQuantizableLinear = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = empty(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = empty(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Any,
        value: Any,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from queries to keys and values.

        Args:
            query: (L, N, E), (N, L, E) with ``batch_first``, or (L, E). key, value: the same with length S.
            key_padding_mask: (N, S) or (S,); True (or added numbers) marks keys to ignore.
            need_weights: also return the weights; False is faster.
            attn_mask: (L, S) or (N * num_heads, L, S); True forbids, numbers are added to the scores.
            average_attn_weights: give the mean over the heads.
            is_causal: a hint that ``attn_mask`` is the causal mask.

        Returns:
            (output like query, weights (N, L, S) or (N, num_heads, L, S), or None).
        """
        if query.is_nested:
            from facula.nested._attention import multi_head

            return multi_head(self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights)
        batched = query.dim() == 3
        if self.batch_first and batched:
            # The same tensor stays the same tensor, so that self-attention still projects once.
            turned = {id(t): t.transpose(1, 0) for t in (query, key, value)}
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        if self.batch_first and batched:
            output = output.transpose(1, 0)
        return output, weights

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor) -> tuple[Any | Tensor, int]:
        """Return the one mask that stands for both, in the shape that the fused kernel takes.

        Args:
            attn_mask: (L, S) or (N * num_heads, L, S), or None.
            key_padding_mask: (N, S), or None.
            query: (N, L, E): its sizes give the merged mask's.

        Returns: (mask, kind): kind 0 for attn_mask alone, 1 for key_padding_mask alone, 2 for both, (N, num_heads, L, S);
        (None, None) without masks.

        >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> mask, kind = attention.merge_masks(None, torch.tensor([[False, True]]), torch.zeros(1, 2, 8))
        >>> mask, kind
        (tensor([[False,  True]]), 1)
        """
        if attn_mask is None:
            return (None, None) if key_padding_mask is None else (key_padding_mask, 1)
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.reshape(batch, -1, length, length)
        else:
            merged = attn_mask.reshape(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2


# ---- Layers whose results sum to 1: softmax and its kin


class _AlongDim(Module):
    """Hold the dimension of the softmax family. Files that are older than this attribute lack it."""

    __constants__: ClassVar[list[str]] = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """Compute the softmin along dim: positive numbers that sum to 1, the greatest where x is least.

    Formula: y[i] = exp(-x[i]) / sum(exp(-x[j]) for j in all)

    Args:
        dim: the dimension along which the numbers sum to 1; without it one is guessed, with a warning.

    Shapes: input of any shape; output the same.

    Errors: IndexError, when called, for a dim that the input does not have.

    >>> nn.Softmin(dim=0)(torch.tensor([0.0, 0.0, 1.0]))
    tensor([0.4223, 0.4223, 0.1554])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """Compute the softmax along dim: positive numbers that sum to 1.

    Formula: y[i] = exp(x[i]) / sum(exp(x[j]) for j in all)

    `NLLLoss` takes their logarithms: `LogSoftmax`, which is faster and more exact than the two in turn.

    Args:
        dim: the dimension along which the numbers sum to 1; without it one is guessed, with a warning.

    Shapes: input of any shape; output the same.

    Errors: IndexError, when called, for a dim that the input does not have.

    >>> nn.Softmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """Compute the logarithm of the softmax along dim without overflow.

    Formula: y[i] = log(exp(x[i]) / sum(exp(x[j]) for j in all))

    Args:
        dim: the dimension along which the probabilities sum to 1; without it one is guessed, with a warning.

    Shapes: input of any shape; output the same.

    Errors: IndexError, when called, for a dim that the input does not have.

    >>> nn.LogSoftmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[-0.6931, -0.6931],
            [-1.3133, -0.3133]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(_PlainActivation):
    """Compute the softmax over the channels at each position of an image.

    Shapes: input (N, C, H, W) or (C, H, W); output the same.

    Errors: ValueError, when called, for another number of dimensions.

    >>> nn.Softmax2d()(torch.randn(2, 3, 4, 4)).sum(1).allclose(torch.ones(2, 4, 4))
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: the input must have 3 or 4 dimensions, got {input.dim()}")
        return F.softmax(input, -3, _stacklevel=5)


# ---- Activation layers of straight lines


class ReLU(_InplaceActivation):
    """Compute the rectified linear unit, the larger of 0 and each element.

    Formula: y = max(0, x)

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for bool and for complex numbers.

    >>> nn.ReLU()(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class Hardsigmoid(_InplaceActivation):
    """Compute a sigmoid of three straight lines.

    Formula: y = min(max(0, x + 3), 6) / 6

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

    >>> nn.Hardsigmoid()(torch.tensor([-3.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InplaceActivation):
    """Compute swish with a sigmoid of straight lines (Howard et al. 2019).

    Formula: y = x * min(max(0, x + 3), 6) / 6

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

    >>> nn.Hardswish()(torch.tensor([-3.0, 0.0, 1.5, 4.0]))
    tensor([-0.0000, 0.0000, 1.1250, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class LeakyReLU(Module):
    """Compute ``x`` where x is positive, ``negative_slope * x`` elsewhere.

    Formula: y = x if x > 0 else negative_slope * x

    Args:
        negative_slope: the factor of negative numbers.
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

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
    """Compute ``x`` where x is positive, x times a slope elsewhere (Xu et al. 2015).

    Formula: y = x if x > 0 else a * x  # a is drawn from U(lower, upper) in training, else (lower + upper) / 2

    In training the slope is drawn for each element from U(lower, upper); in evaluation it is their mean.

    Args:
        lower: the least slope.
        upper: the greatest slope.
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: RuntimeError, when called, for a lower above upper.

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
    """Compute ``x`` where x is greater than threshold, ``value`` elsewhere.

    Formula: y = x if x > threshold else value

    Args:
        threshold: the number that x must exceed.
        value: the number that replaces the others.
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

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
    """Limit ``x`` to [min_val, max_val].

    Formula: y = min(max(x, min_val), max_val)

    Args:
        min_val: the least value.
        max_val: the greatest value.
        inplace: if True, change the input itself and return it.
        min_value, max_value: deprecated names of min_val and max_val; they warn.

    Shapes: input of any shape; output the same.

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
    """Compute a rectified linear unit that ends at 6.

    Formula: y = min(max(0, x), 6)

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    >>> nn.ReLU6()(torch.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _Shrink(Module):
    """Hold the threshold of Hardshrink and Softshrink."""

    __constants__: ClassVar[list[str]] = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """Compute ``x`` where ``|x| > lambd``, 0 elsewhere.

    Formula: y = x if abs(x) > lambd else 0

    Args:
        lambd: the greatest absolute value that becomes 0.

    Shapes: input of any shape; output the same.

    >>> nn.Hardshrink()(torch.tensor([-1.0, 0.5, 0.75]))
    tensor([-1.0000,  0.0000,  0.7500])
    """

    lambd: float

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """Move elements towards 0 by lambd, and not across it.

    Formula: y = x - lambd if x > lambd else x + lambd if x < -lambd else 0

    Args:
        lambd: the distance; not negative.

    Shapes: input of any shape; output the same.

    Errors: RuntimeError, when called, for a negative lambd; NotImplementedError for integers.

    >>> nn.Softshrink()(torch.tensor([-1.0, 0.5, 0.75]))
    tensor([-0.5000,  0.0000,  0.2500])
    """

    lambd: float

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class SELU(_InplaceActivation):
    """Compute an `ELU` with constants that keep mean 0 and variance 1 through many layers (Klambauer et al. 2017).

    Formula: y = 1.0507 * x if x > 0 else 1.7581 * (exp(x) - 1)

    It is an ELU with constants that keep activations at mean 0 and variance 1 through many layers, where weights are drawn with
    `init.kaiming_normal_(nonlinearity="linear")`.

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

    >>> nn.SELU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InplaceActivation):
    """Compute the sigmoid linear unit, also known as swish.

    Formula: y = x / (1 + exp(-x))

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

    >>> nn.SiLU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """Compute a smooth function with one minimum (Misra 2019).

    Formula: y = x * tanh(log(1 + exp(x)))

    Args:
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

    >>> nn.Mish()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Sigmoid(_PlainActivation):
    """Compute the logistic function, which maps every number into (0, 1).

    Formula: y = 1 / (1 + exp(-x))

    Shapes: input of any shape; output the same.

    >>> nn.Sigmoid()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(_PlainActivation):
    """Compute the hyperbolic tangent, which maps every number into (-1, 1).

    Formula: y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))

    Shapes: input of any shape; output the same.

    >>> nn.Tanh()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class LogSigmoid(_PlainActivation):
    """Compute the logarithm of the logistic function without overflow for large numbers of either sign.

    Formula: y = log(1 / (1 + exp(-x)))

    Shapes: input of any shape; output the same.

    >>> nn.LogSigmoid()(torch.tensor([-100.0, 0.0, 1.0]))
    tensor([-100.0000,   -0.6931,   -0.3133])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(_PlainActivation):
    """Compute a function that approaches -1 and 1 more slowly than tanh.

    Formula: y = x / (1 + abs(x))

    Shapes: input of any shape; output the same.

    >>> nn.Softsign()(torch.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(_PlainActivation):
    """Compute ``x - tanh(x)``: almost 0 near 0, and a step of 1 nearer to 0 far from it.

    Formula: y = x - tanh(x)

    Shapes: input of any shape; output the same.

    >>> nn.Tanhshrink()(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.0360,  0.0000,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class ELU(Module):
    """Compute the exponential linear unit, which comes near -alpha for negative elements.

    Formula: y = x if x > 0 else alpha * (exp(x) - 1)

    Args:
        alpha: minus the limit for very negative numbers.
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: NotImplementedError, when called, for integers.

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
    """Compute an exponential linear unit whose slope is 1 at 0 for every alpha.

    Formula: y = x if x > 0 else alpha * (exp(x / alpha) - 1)

    Args:
        alpha: minus the limit for very negative numbers; not 0.
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: RuntimeError, when called, for alpha 0; NotImplementedError for integers.

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
    """Compute the Gaussian error linear unit, where Phi is the distribution function of the standard normal distribution
    (Hendrycks, Gimpel 2016).

    Formula:
        y = x * Phi(x)
        y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))  # approximate='tanh'

    Args:
        approximate: 'none', or 'tanh' for ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``.

    Shapes: input of any shape; output the same.

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
    """Compute the gated linear unit, where a and b are the first and second half of the input along dim (Dauphin et al. 2017).

    Formula: y = a * sigmoid(b)

    Args:
        dim: the dimension that is halved; its size is even.

    Shapes: input (..., 2 * n, ...) with 2 * n along dim; output (..., n, ...).

    Errors: RuntimeError, when called, for an odd size along dim; IndexError for a dim that the input does not have.

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
    """Compute a smooth ReLU.

    Formula: y = x if beta * x > threshold else log(1 + exp(beta * x)) / beta

    Where ``beta * x > threshold`` it is x itself, since both are the same there.

    Args:
        beta: the sharpness of the bend at 0.
        threshold: the number from which on x stands for the formula.

    Shapes: input of any shape; output the same.

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
    """Compute ``x`` where x is positive, ``weight * x`` with a learned slope elsewhere (He et al. 2015).

    Formula: y = x if x > 0 else weight * x

    Args:
        num_parameters: the number of slopes: 1 for all, or one for each of the channels.
        init: the first value of the slopes.
        device, dtype: the device and the dtype of the parameter.

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
