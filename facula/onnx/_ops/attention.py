"""Translate scaled dot-product attention to simpler ops, because ONNX has it as one op only from opset 23 on."""

import math

import numpy as np

from ._table import op


@op("scaled_dot_product_attention")
def scaled_dot_product_attention(
    g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if dropout_p:
        raise NotImplementedError(f"onnx.export: attention with dropout has no translation to ONNX, got dropout_p={dropout_p}")
    if enable_gqa:
        key, value = (_each_head(g, v, query) for v in (key, value))
    width = query.shape[-1]
    scale = 1 / math.sqrt(width) if scale is None else float(scale)
    scores = g.MatMul(query * math.sqrt(scale) if scale > 0 else query * scale, _turned(g, key, scale))
    if is_causal:
        attn_mask = _lower(g, query, key)
    if attn_mask is not None and attn_mask.dtype == "bool":
        weights = g.Softmax(g.where(attn_mask, scores, -math.inf), axis=-1)
        weights = g.where(g.IsNaN(weights), 0.0, weights) if not is_causal else weights  # lines without any key
    else:
        weights = g.Softmax(scores if attn_mask is None else scores + g.cast(attn_mask, scores.dtype), axis=-1)
    return g.MatMul(weights, value)


def _turned(g, key, scale):
    key = g.transpose(key, -1, -2)
    return key * math.sqrt(scale) if scale > 0 else key


def _each_head(g, value, query):
    """Return the heads that several heads of the query share, repeated."""
    heads, there = query.shape[-3], value.shape[-3]
    if heads == there:
        return value
    *lead, _, length, width = g.shape_of(value)
    lifted = g.expand(g.unsqueeze(value, value.rank - 2), [*lead, there, heads // there, length, width])
    return g.reshape(lifted, [*lead, heads, length, width])


def _lower(g, query, key):
    rows, columns = query.shape[-2], key.shape[-2]
    if isinstance(rows, int) and isinstance(columns, int):
        return g.constant(np.tril(np.ones((rows, columns), dtype=bool)))
    places = lambda v: g.Range(0, g.scalar(g.sizes([g.size(v, -2)])), 1)
    return g.LessOrEqual(g.unsqueeze(places(key), 0), g.unsqueeze(places(query), 1))
