"""MultiheadAttention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from facula import Tensor
    from facula.types import Device

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads (Vaswani et al. 2017): queries, keys and values are projected, each head takes a part of
    the features, computes ``softmax(q @ k.T / sqrt(E / num_heads)) @ v``, and the heads' results, joined, are projected
    once more.

    Args:
        embed_dim: E, the size of queries and outputs.
        num_heads: the number of heads, a divisor of embed_dim.
        dropout: the probability of dropping a weight of attention in training.
        bias: whether the projections add a bias.
        add_bias_kv: whether a learned vector is appended to keys and values.
        add_zero_attn: whether a vector of zeros is appended to keys and values.
        kdim, vdim: sizes of keys and values. Default: embed_dim.
        batch_first: whether tensors are (N, L, E) in the place of (L, N, E).
        device, dtype: of the parameters.

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
        """The one mask that stands for both, in the shape that the fused kernel takes.

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
