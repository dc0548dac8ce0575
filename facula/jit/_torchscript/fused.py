"""Define ops that PyTorch's fast path of transformers calls, and with it scripted programs, by means of other ops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from facula.nn import functional as F

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_LINES, _KEYS = 0, 1  # kinds of mask: [L, S] for all, [N, S] for padded keys; else of any shape


def _blocked(mask, kind):
    """Return a mask as one to be added to scores [N, heads, L, S]; True and -inf take away."""
    if mask is None:
        return None
    if mask.dtype.is_floating_point:
        added = mask
    else:
        added = mask.new_zeros(mask.shape).float().masked_fill(mask.bool(), -math.inf)
    return added[:, None, None, :] if kind == _KEYS else added


def native_multi_head_attention(query: Tensor, key: Any, value: Any, embed_dim: int, num_head: Any, qkv_weight: Any,
                                qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Tensor | None = None,
                                need_weights: bool = True, average_attn_weights: bool = True,
                                mask_type: Any = None) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute attention of inputs [N, L, E] by heads, and its weights (None unless they are wanted)."""
    parts = [F.linear(x, w, b) for x, w, b in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))]
    heads = [p.unflatten(-1, (num_head, -1)).transpose(1, 2) for p in parts]
    added = _blocked(mask, mask_type)
    weights = None
    if need_weights:
        scores = heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(embed_dim // num_head)
        weights = (scores if added is None else scores + added).softmax(-1)
        out = weights @ heads[2]
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = F.scaled_dot_product_attention(*heads, attn_mask=added)
    return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def transformer_encoder_layer_fwd(src: int, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
                                  proj_bias: Any, use_gelu: Any, norm_first: bool, eps: float, norm_weight_1: Any,
                                  norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any,
                                  ffn_weight_2: Any, ffn_bias_2: Any, mask: Tensor | None = None,
                                  mask_type: Any = None) -> Tensor:  # fmt: skip
    """Compute a layer of a transformer's encoder."""

    def attended(x):
        settings = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)
        return native_multi_head_attention(x, x, x, *settings)[0]

    def forward(x):
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    first = lambda x: F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)
    second = lambda x: F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)
    if norm_first:
        src = src + attended(first(src))
        return src + forward(second(src))
    src = first(src + attended(src))
    return second(src + forward(src))
