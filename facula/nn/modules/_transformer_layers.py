"""The layers of the Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from .._explained import explained
from ..functions.attention import _canonical_mask, _none_or_dtype
from ._attention import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    import facula
    from facula import Tensor
    from facula.types import Device

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


def _get_activation_fn(activation):
    if callable(activation):
        return activation
    try:
        return _ACTIVATIONS[activation]
    except (KeyError, TypeError):
        raise RuntimeError(
            f"Transformer: activation must be 'relu', 'gelu' or callable, got {activation!r}"
        ) from None


_ARGUMENTS = {
    "d_model": "features of the input and the output.",
    "nhead": "heads of attention; divides d_model.",
    "dim_feedforward": "features between the two linear layers.",
    "dropout": "the probability of dropping.",
    "activation": "'relu', 'gelu' or a function, between the linear layers.",
    "layer_norm_eps": "eps of the normalisations.",
    "batch_first": "whether tensors are (N, L, E) in the place of (L, N, E).",
    "norm_first": "whether normalisation comes before attention and the linear layers, in the place of after.",
    "bias": "whether biases are added.",
}


@explained(_ARGUMENTS)
class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, and two linear layers, each with what went in added to what came out and a
    `LayerNorm`.

    Shapes: called with src (S, N, E) or (S, E), src_mask (S, S) and src_key_padding_mask (N, S) or (S,); output like src.

    Errors: RuntimeError for an unknown activation.

    >>> layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32)
    >>> layer(torch.randn(10, 5, 16)).shape
    torch.Size([10, 5, 16])
    """

    __constants__: ClassVar[list[str]] = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        kwargs = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **kwargs
        )
        self.linear1: Linear = Linear(d_model, dim_feedforward, **kwargs)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **kwargs)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **kwargs)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **kwargs)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "activation" not in self.__dict__ and "activation" not in self._modules:
            self.activation: Any = F.relu

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:  # fmt: skip
        """Run the layer.

        Args:
            src: (S, N, E) or (S, E).
            src_mask: (S, S): True forbids a pair, numbers are added to the scores.
            src_key_padding_mask: (N, S) or (S,): True leaves a key out.
            is_causal: whether src_mask is the causal mask.

        Returns: of the shape of src.

        >>> layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
        >>> mask = nn.Transformer.generate_square_subsequent_mask(10)
        >>> layer(torch.randn(5, 10, 16), mask, is_causal=True).shape
        torch.Size([5, 10, 16])
        """
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(src_mask), "src_mask", src.dtype
        )
        src_mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal: bool = False):
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@explained(_ARGUMENTS)
class TransformerDecoderLayer(Module):
    """Attention of a sequence to itself, attention to what the encoder gave, and two linear layers, each with what went
    in added to what came out and a `LayerNorm`.

    Shapes: called with tgt (T, N, E) or (T, E) and memory (S, N, E) or (S, E); output like tgt.

    Errors: RuntimeError for an unknown activation.

    >>> layer = nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
    >>> layer(torch.randn(7, 5, 16), torch.randn(10, 5, 16)).shape
    torch.Size([7, 5, 16])
    """

    __constants__: ClassVar[list[str]] = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        kwargs = {"bias": bias, "device": device, "dtype": dtype}
        attention_kwargs = {"dropout": dropout, "batch_first": batch_first, **kwargs}
        self.self_attn: MultiheadAttention = MultiheadAttention(d_model, nhead, **attention_kwargs)
        self.multihead_attn: MultiheadAttention = MultiheadAttention(d_model, nhead, **attention_kwargs)
        self.linear1: Linear = Linear(d_model, dim_feedforward, **kwargs)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **kwargs)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **kwargs)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **kwargs)
        self.norm3: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **kwargs)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.dropout3: Dropout = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "activation" not in self.__dict__ and "activation" not in self._modules:
            self.activation: Any = F.relu

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Run the layer.

        Args:
            tgt: (T, N, E) or (T, E).
            memory: (S, N, E) or (S, E): what the encoder gave.
            tgt_mask: (T, T): True forbids a pair, numbers are added to the scores.
            memory_mask: (T, S).
            tgt_key_padding_mask: (N, T) or (T,): True leaves a key out.
            memory_key_padding_mask: (N, S) or (S,).
            tgt_is_causal: whether tgt_mask is the causal mask.
            memory_is_causal: whether memory_mask is the causal mask.

        Returns: of the shape of tgt.

        >>> layer = nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> mask = nn.Transformer.generate_square_subsequent_mask(7)
        >>> layer(torch.randn(7, 5, 16), torch.randn(10, 5, 16), tgt_mask=mask, tgt_is_causal=True).shape
        torch.Size([7, 5, 16])
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *cross)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *cross))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal: bool = False):
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout1(x)

    def _mha_block(self, x, memory, attn_mask, key_padding_mask, is_causal: bool = False):
        x = self.multihead_attn(
            x,
            memory,
            memory,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
