"""Define the attention functions of nn.functional."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C.nn_functional import linear, scaled_dot_product_attention

from .random import dropout

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["multi_head_attention_forward"]

_nn = _C.nn_functional


def _none_or_dtype(input):
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """Return a mask as numbers to add to the scores: True becomes minus infinity, numbers stay."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    if mask.dtype != facula.bool and not is_float:
        raise AssertionError(f"{mask_name}: must be bool or floating-point, got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"{mask_name} and {other_name} should have the same dtype, got {mask.dtype} and {other_type}",
            stacklevel=3,
        )
    if is_float:
        return mask
    return _C.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads) -> bool:
    """Check the numbers of dimensions; return whether the inputs are batched."""
    ndim = query.dim()
    if ndim not in (2, 3):
        raise AssertionError(f"multi_head_attention_forward: query must have 2 or 3 dimensions, got {ndim}")
    problems = []
    if key.dim() != ndim or value.dim() != ndim:
        problems.append(f"key and value must have {ndim} dimensions, got {key.dim()} and {value.dim()}")
    if key_padding_mask is not None and key_padding_mask.dim() != ndim - 1:
        problems.append(f"key_padding_mask must have {ndim - 1} dimensions, got {key_padding_mask.dim()}")
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        problems.append(f"attn_mask must have 2 or 3 dimensions, got {attn_mask.dim()}")
    if ndim == 2 and attn_mask is not None and attn_mask.dim() == 3:
        wanted = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != wanted:
            problems.append(f"attn_mask must be {wanted}, got {tuple(attn_mask.shape)}")
    if problems:
        raise AssertionError("multi_head_attention_forward: for a query of "
                             f"{ndim} dimensions " + "; ".join(problems))  # fmt: skip
    return ndim == 3


def _in_projection_packed(q, k, v, w, b=None):
    """Project with one weight (3E, E) that holds those of query, key and value; one product where inputs
    coincide.
    """
    if k is v and q is k:
        return linear(q, w, b).chunk(3, dim=-1)
    if k is v:
        embed = q.size(-1)
        w_q, w_kv = w.split([embed, 2 * embed])
        b_q, b_kv = (None, None) if b is None else b.split([embed, 2 * embed])
        return (linear(q, w_q, b_q), *linear(k, w_kv, b_kv).chunk(2, dim=-1))
    return _in_projection(q, k, v, *w.chunk(3), *((None,) * 3 if b is None else b.chunk(3)))


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Project query, key and value with a weight each."""
    embed = q.size(-1)
    for name, weight, width in (("q", w_q, embed), ("k", w_k, k.size(-1)), ("v", w_v, v.size(-1))):
        if tuple(weight.shape) != (embed, width):
            raise AssertionError(
                f"multi_head_attention_forward: {name}_proj_weight must be {(embed, width)}, got "
                f"{tuple(weight.shape)}"
            )
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _check_sizes(query, key, value, embed_dim: int, num_heads: int, separate: bool) -> None:
    """Check the sizes of batched inputs, (length, N, features) each; values have features of their own with `separate`."""
    name = "multi_head_attention_forward"
    if query.size(-1) != embed_dim:
        raise AssertionError(f"{name}: the embedding size must be {embed_dim}, got {query.size(-1)}")
    if embed_dim // num_heads * num_heads != embed_dim:
        raise AssertionError(f"{name}: embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
    if key.shape[:2] != value.shape[:2] or not (separate or key.shape == value.shape):
        raise AssertionError(f"{name}: key and value do not fit, got {tuple(key.shape)} and {tuple(value.shape)}")


def _project_inputs(query, key, value, packed, separate, bias):
    """Return the projected query, key and value, by one weight (3E, E) or by three.

    Args:
        packed: the weight of all three, below each other; not read with `separate`.
        separate: three weights, or None.
        bias: (3E,), or None.
    """
    name = "multi_head_attention_forward"
    if separate is None:
        if packed is None:
            raise AssertionError(f"{name}: needs in_proj_weight without use_separate_proj_weight, got None")
        return _in_projection_packed(query, key, value, packed, bias)
    if any(weight is None for weight in separate):
        raise AssertionError(f"{name}: use_separate_proj_weight needs three weights, got None among them")
    return _in_projection(query, key, value, *separate, *((None,) * 3 if bias is None else bias.chunk(3)))


def _attention_mask_3d(attn_mask, batch_heads: int, tgt_len: int, src_len: int):
    wanted = {2: (tgt_len, src_len), 3: (batch_heads, tgt_len, src_len)}[attn_mask.dim()]
    if tuple(attn_mask.shape) != wanted:
        raise RuntimeError(
            f"multi_head_attention_forward: attn_mask must be {wanted}, got {tuple(attn_mask.shape)}"
        )
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _static_or_split(x, static, name: str, batch_heads: int, head_dim: int):
    """Return (L, N, E) as (N * heads, L, head_dim), or the given static tensor of that shape."""
    if static is None:
        return x.reshape(x.shape[0], batch_heads, head_dim).transpose(0, 1)
    if static.size(0) != batch_heads or static.size(2) != head_dim:
        raise AssertionError(
            f"multi_head_attention_forward: {name} must be ({batch_heads}, length, {head_dim}), got "
            f"{tuple(static.shape)}"
        )
    return static


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention with several heads: project query, key and value, attend in each head, join the heads and project back.

    `nn.MultiheadAttention` calls it with its parameters.

    Args:
        query: (L, N, E) or (L, E).
        key, value: (S, N, E) or (S, E).
        embed_dim_to_check: E, which the query must have.
        num_heads: the number of heads; it must divide E.
        in_proj_weight: (3E, E): the projections of query, key and value, one below the other.
        in_proj_bias: (3E,), or None.
        bias_k, bias_v: (1, 1, E), appended to keys and values, or None.
        add_zero_attn: if True, append a key and a value of zeros.
        dropout_p: the probability of dropping a weight of attention.
        out_proj_weight, q_proj_weight: (E, E).
        out_proj_bias: (E,), or None.
        training: if True, apply dropout.
        key_padding_mask: (N, S) or (S,); True (or numbers that are added to the scores) marks keys to ignore.
        need_weights: if True, return the weights, too; without them the fused attention kernel is used.
        attn_mask: (L, S) or (N * num_heads, L, S); True forbids a position, numbers are added to the scores.
        use_separate_proj_weight: if True, use the three weights below instead of in_proj_weight.
        k_proj_weight: (E, features of key).
        v_proj_weight: (E, features of value).
        static_k, static_v: (N * num_heads, S, E / num_heads), in the place of the projected keys and values.
        average_attn_weights: if True, average the weights over the heads.
        is_causal: a hint that ``attn_mask`` is the causal mask.

    Returns:
        (output like query, weights (N, L, S) or (N, num_heads, L, S), or None).

    Errors: AssertionError for shapes that do not fit; RuntimeError for is_causal without attn_mask, or a mask of another shape.

    >>> x, identity = torch.randn(5, 2, 4), torch.eye(4)
    >>> output, weights = F.multi_head_attention_forward(
    ...     x, x, x, 4, 2, torch.cat([identity] * 3), None, None, None, False, 0.0, identity, None
    ... )
    >>> output.shape, weights.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 5, 5]))
    """
    name = "multi_head_attention_forward"
    is_batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        # The same tensor stays the same tensor, so that self-attention still projects once.
        added = {id(t): t.unsqueeze(1) for t in (query, key, value)}
        query, key, value = added[id(query)], added[id(key)], added[id(value)]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    batch_heads = bsz * num_heads
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{name}: is_causal is a hint about attn_mask and needs one, got None")
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    # Only the fused kernel knows causality; with a padding mask, or for the weights, the two masks are added to the scores.
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the kernel makes the causal mask itself
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        is_causal = is_causal and key_padding_mask is None
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    head_dim = embed_dim // num_heads
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project_inputs(query, key, value, in_proj_weight, separate, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _attention_mask_3d(attn_mask, batch_heads, tgt_len, key.shape[0])
    if (bias_k is None) != (bias_v is None):
        raise AssertionError(f"{name}: bias_k and bias_v come together, got only one")
    if bias_k is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError(f"{name}: bias cannot be added to static key or value, got bias_k")
        k = facula.cat([k, bias_k.repeat(1, bsz, 1)])
        v = facula.cat([v, bias_v.repeat(1, bsz, 1)])
    q = q.reshape(tgt_len, batch_heads, head_dim).transpose(0, 1)
    k = _static_or_split(k, static_k, "static_k", batch_heads, head_dim)
    v = _static_or_split(v, static_v, "static_v", batch_heads, head_dim)
    if add_zero_attn:
        zeros = facula.zeros((batch_heads, 1, head_dim), dtype=k.dtype, device=k.device)
        k = facula.cat([k, zeros], dim=1)
        v = facula.cat([v, zeros], dim=1)
    added_keys = (bias_k is not None) + bool(add_zero_attn)
    if added_keys:
        attn_mask = None if attn_mask is None else _nn.pad(attn_mask, [0, added_keys])
        key_padding_mask = None if key_padding_mask is None else _nn.pad(key_padding_mask, [0, added_keys])
    attn_mask = _merge_padding_mask(attn_mask, key_padding_mask, bsz, num_heads, k.size(1))
    return _attend_and_project(
        q, k, v, attn_mask, dropout_p if training else 0.0, is_causal, need_weights, average_attn_weights,
        num_heads, is_batched, out_proj_weight, out_proj_bias,
    )  # fmt: skip


def _merge_padding_mask(attn_mask, key_padding_mask, bsz: int, num_heads: int, src_len: int):
    if key_padding_mask is None:
        return attn_mask
    if tuple(key_padding_mask.shape) != (bsz, src_len):
        raise AssertionError(
            f"multi_head_attention_forward: key_padding_mask must be {(bsz, src_len)}, "
            f"got {tuple(key_padding_mask.shape)}"
        )
    padding = key_padding_mask.reshape(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(bsz * num_heads, 1, src_len)
    return padding if attn_mask is None else attn_mask + padding


def _attend_and_project(
    q,
    k,
    v,
    attn_mask,
    dropout_p,
    is_causal,
    need_weights,
    average_weights,
    num_heads,
    is_batched,
    out_weight,
    out_bias,
):
    """Compute attention of (N * heads, length, head_dim) tensors, heads joined and projected: (output, weights or
    None).
    """
    batch_heads, tgt_len, head_dim = q.shape
    bsz, src_len = batch_heads // num_heads, k.size(1)
    weights = None
    if need_weights:
        # Scaling the queries costs less than scaling the scores.
        q = q * math.sqrt(1.0 / head_dim)
        keys = k.transpose(-2, -1)
        scores = q.bmm(keys) if attn_mask is None else facula.baddbmm(attn_mask, q, keys)
        weights = scores.softmax(-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        output = weights.bmm(v).transpose(0, 1).reshape(tgt_len * bsz, num_heads * head_dim)
        weights = weights.reshape(bsz, num_heads, tgt_len, src_len)
        if average_weights:
            weights = weights.mean(dim=1)
    else:
        if attn_mask is not None:
            shared = attn_mask.size(0) == 1
            attn_mask = attn_mask.unsqueeze(0) if shared else attn_mask.unflatten(0, (bsz, num_heads))
        output = scaled_dot_product_attention(
            q.reshape(bsz, num_heads, tgt_len, head_dim),
            k.reshape(bsz, num_heads, src_len, head_dim),
            v.reshape(bsz, num_heads, src_len, head_dim),
            attn_mask,
            dropout_p,
            is_causal,
        )
        output = output.permute(2, 0, 1, 3).reshape(tgt_len * bsz, num_heads * head_dim)
    output = linear(output, out_weight, out_bias)
    output = output.reshape(tgt_len, bsz, output.size(1))
    if not is_batched:
        return output.squeeze(1), None if weights is None else weights.squeeze(0)
    return output, weights
