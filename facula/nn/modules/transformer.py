"""Define the Transformer of "Attention Is All You Need" and its parts.

Long because PyTorch has the transformer and its layers in one file of this name, and each class stands there with its
docstring and example.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import _C

from .. import functional as F
from .. import init
from .._tuples import _layer_count
from ..functions.attention import _canonical_mask, _none_or_dtype
from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "Transformer",
    "TransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
]


_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


# ---- The layers of the Transformer


def _get_activation_fn(activation):
    if callable(activation):
        return activation
    try:
        return _ACTIVATIONS[activation]
    except (KeyError, TypeError):
        raise RuntimeError(
            f"Transformer: activation must be callable, {_C._one_of(activation, ('relu', 'gelu'))}"
        ) from None


class TransformerEncoderLayer(Module):
    """Attend from a sequence to itself, and apply two linear layers, each with its input added to its output and a `LayerNorm`.

    Args:
        d_model: E, the number of features of the input and the output.
        nhead: the number of heads of attention; it must divide d_model.
        dim_feedforward: the number of features between the two linear layers.
        dropout: the probability of dropping.
        activation: the function between the linear layers, 'relu', 'gelu' or a callable.
        layer_norm_eps: a number added to the variance in normalizations.
        batch_first: if True, tensors are (N, L, E) instead of (L, N, E).
        norm_first: if True, normalize before attention and the linear layers instead of after them.
        bias: if True, add learned biases.

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
            is_causal: if True, src_mask is the causal mask.

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
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Attend from a sequence to itself and to the result of an encoder, and apply two linear layers, each with its input added
    to its output and a `LayerNorm`.

    Args:
        d_model: E, the number of features of the input and the output.
        nhead: the number of heads of attention; it must divide d_model.
        dim_feedforward: the number of features between the two linear layers.
        dropout: the probability of dropping.
        activation: the function between the linear layers, 'relu', 'gelu' or a callable.
        layer_norm_eps: a number added to the variance in normalizations.
        batch_first: if True, tensors are (N, L, E) instead of (L, N, E).
        norm_first: if True, normalize before attention and the linear layers instead of after them.
        bias: if True, add learned biases.

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
            memory: the result of the encoder, (S, N, E) or (S, E).
            tgt_mask: (T, T): True forbids a pair, numbers are added to the scores.
            memory_mask: (T, S).
            tgt_key_padding_mask: (N, T) or (T,): True leaves a key out.
            memory_key_padding_mask: (N, S) or (S,).
            tgt_is_causal: if True, tgt_mask is the causal mask.
            memory_is_causal: if True, memory_mask is the causal mask.

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
            x, memory, memory, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _generate_square_subsequent_mask(sz: int, device=None, dtype=None):
    return facula.triu(facula.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src, batch_first: bool) -> int | None:
    if src.is_nested:
        return None  # sequences have several
    return src.size(1 if batch_first and src.dim() == 3 else 0)


def _detect_is_causal_mask(mask, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return ``is_causal`` when given; otherwise whether ``mask`` equals the causal mask."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(_layer_count(type(module).__name__, n))])


class Transformer(Module):
    """Encode and decode sequences as Vaswani et al. (2017), without embeddings and the last linear layer.

    Args:
        d_model: E, the number of features of the input and the output.
        nhead: the number of heads of attention; it must divide d_model.
        num_encoder_layers: the number of layers of the encoder.
        num_decoder_layers: the number of layers of the decoder.
        dim_feedforward: the number of features between the two linear layers of each layer.
        dropout: the probability of dropping, in training.
        activation: the function between the linear layers, 'relu', 'gelu' or a callable.
        custom_encoder: a module that replaces the encoder, or None.
        custom_decoder: a module that replaces the decoder, or None.
        layer_norm_eps: a number added to the variance in normalizations.
        batch_first: if True, tensors are (N, L, E) instead of (L, N, E).
        norm_first: if True, normalize before attention and the linear layers instead of after them.
        bias: if True, add learned biases.
        device, dtype: the device and the dtype of the parameters.

    Shapes: called with src (S, N, E) and tgt (T, N, E), or both without N; output like tgt. Masks: src_mask (S, S),
    tgt_mask (T, T) and memory_mask (T, S) are added to the scores, or forbid a pair where they are True; those with
    key_padding, (N, S) or (N, T), leave keys out.

    Errors: RuntimeError for an unknown activation, and, when called, for other numbers of features or different batch
    sizes.

    >>> model = nn.Transformer(d_model=16, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=32)
    >>> model(torch.randn(10, 3, 16), torch.randn(7, 3, 16)).shape
    torch.Size([7, 3, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        layer_args = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias, device, dtype,
        )  # fmt: skip

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*layer_args)
            self.encoder: TransformerEncoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*layer_args)
            self.decoder: TransformerDecoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode the sources and decode the targets.

        Args:
            src: (S, N, E) or (S, E).
            tgt: (T, N, E) or (T, E).
            src_mask: (S, S): True forbids a pair, numbers are added to the scores.
            tgt_mask: (T, T).
            memory_mask: (T, S).
            src_key_padding_mask: (N, S) or (S,): True leaves a key out.
            tgt_key_padding_mask: (N, T) or (T,).
            memory_key_padding_mask: (N, S) or (S,).
            src_is_causal: if True, src_mask is the causal mask; None finds out.
            tgt_is_causal: if True, tgt_mask is the causal mask; None finds out.
            memory_is_causal: if True, memory_mask is the causal mask.

        Returns: (T, N, E) or (T, E).

        >>> model = nn.Transformer(d_model=16, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32)
        >>> mask = model.generate_square_subsequent_mask(7)
        >>> model(torch.randn(10, 16), torch.randn(7, 16), tgt_mask=mask).shape
        torch.Size([7, 16])
        """
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError(
                f"Transformer: src and tgt must have the same batch size, got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}"
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"Transformer: src and tgt must have {self.d_model} features, got {src.size(-1)} and "
                f"{tgt.size(-1)}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: facula.dtype | None = None) -> Tensor:
        """Return the causal mask: minus infinity above the diagonal, where a position would see a later one, and 0 elsewhere.

        Args:
            sz: the number of positions.
            device, dtype: the device and the dtype of the mask.

        Returns: (sz, sz).

        >>> nn.Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        return _generate_square_subsequent_mask(sz, device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)


class TransformerEncoder(Module):
    """Run several encoder layers, one after the other.

    Args:
        encoder_layer: a `TransformerEncoderLayer`, or a module that is called so; it is copied.
        num_layers: the number of copies.
        norm: a module that comes last, or None.
        enable_nested_tensor, mask_check: accepted without effect: they choose a faster way of PyTorch's.

    Shapes: those of the layers.

    Errors: those of the layers.

    >>> layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32)
    >>> nn.TransformerEncoder(layer, num_layers=3)(torch.randn(10, 5, 16)).shape
    torch.Size([10, 5, 16])
    """

    __constants__: ClassVar[list[str]] = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:  # fmt: skip
        """Run all layers.

        Args:
            src: (S, N, E) or (S, E).
            mask: (S, S): True forbids a pair, numbers are added to the scores.
            src_key_padding_mask: (N, S) or (S,): True leaves a key out.
            is_causal: if True, mask is the causal mask; None finds out.

        Returns: of the shape of src.

        >>> layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> padding = torch.zeros(5, 10, dtype=torch.bool)
        >>> nn.TransformerEncoder(layer, 2)(torch.randn(10, 5, 16), src_key_padding_mask=padding).shape
        torch.Size([10, 5, 16])
        """
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(mask), "mask", src.dtype
        )
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        batch_first = self.layers[0].self_attn.batch_first
        is_causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, batch_first))
        output = src
        for layer in self.layers:
            output = layer(
                output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask
            )
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Run several decoder layers, one after the other.

    Args:
        decoder_layer: a `TransformerDecoderLayer`, or a module that is called so; it is copied.
        num_layers: the number of copies.
        norm: a module that comes last, or None.

    Shapes: those of the layers.

    Errors: those of the layers.

    >>> layer = nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
    >>> nn.TransformerDecoder(layer, num_layers=2)(torch.randn(7, 5, 16), torch.randn(10, 5, 16)).shape
    torch.Size([7, 5, 16])
    """

    __constants__: ClassVar[list[str]] = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Run all layers.

        Args:
            tgt: (T, N, E) or (T, E).
            memory: the result of the encoder, (S, N, E) or (S, E).
            tgt_mask: (T, T): True forbids a pair, numbers are added to the scores.
            memory_mask: (T, S).
            tgt_key_padding_mask: (N, T) or (T,): True leaves a key out.
            memory_key_padding_mask: (N, S) or (S,).
            tgt_is_causal: if True, tgt_mask is the causal mask; None finds out.
            memory_is_causal: if True, memory_mask is the causal mask.

        Returns: of the shape of tgt.

        >>> layer = nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32)
        >>> mask = nn.Transformer.generate_square_subsequent_mask(7)
        >>> nn.TransformerDecoder(layer, 2)(torch.randn(7, 5, 16), torch.randn(10, 5, 16), tgt_mask=mask).shape
        torch.Size([7, 5, 16])
        """
        batch_first = self.layers[0].self_attn.batch_first
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, _get_seq_len(tgt, batch_first))
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)
