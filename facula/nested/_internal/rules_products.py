"""Define rules for layers and products on nested tensors, and for attention."""

from __future__ import annotations

import facula

from .rules import argument, is_nested, like, off, packed, padded, rule, shapes_of, unpadded


def _last_is_dense(name, x, count=1):
    if x._ragged_idx > x.dim() - 1 - count:
        raise RuntimeError(f"{name}: the ragged dimension must not be among the last {count}, got shape {tuple(x.shape)}")


@rule("linear")
def _linear(func, name, args, kwargs):
    x = args[0]
    if not is_nested(x) or any(is_nested(v) for v in [*args[1:], *kwargs.values()]):
        raise RuntimeError(f"linear: only the input may be nested, got {shapes_of([*args, *kwargs.values()])}")
    _last_is_dense(name, x, 0 if x._ragged_idx < x.dim() - 1 else 1)
    return like(off(func, x.values(), *args[1:], **kwargs), x)


@rule("layer_norm", "rms_norm")
def _normalized(func, name, args, kwargs):
    x, shape = args[0], argument(args, kwargs, 1, "normalized_shape")
    count = len(shape) if isinstance(shape, (list, tuple)) else 1
    if x._ragged_idx >= x.dim() - count:
        raise RuntimeError(f"{name}: the ragged dimension must not be normalized over, got shape {tuple(x.shape)}")
    return like(off(func, x.values(), *args[1:], **kwargs), x)


@rule("embedding")
def _embedding(func, name, args, kwargs):
    """Embed, also with the weights first, as the op has them."""
    given = [argument(args, kwargs, i, key) for i, key in enumerate(("input", "weight"))]
    nested = [x for x in given if is_nested(x)]
    if len(nested) != 1 or nested[0].is_floating_point():
        raise RuntimeError(f"embedding: indices may be nested, weights not, got {shapes_of(given)}")
    rest = {k: v for k, v in kwargs.items() if k not in ("input", "weight")}
    values = [x.values() if is_nested(x) else x for x in given]
    return like(off(func, *values, *args[2:], **rest), nested[0])


@rule("one_hot")
def _one_hot(func, name, args, kwargs):
    return like(off(func, packed(args[0]).values(), *args[1:], **kwargs), packed(args[0]))


@rule("matmul", "bmm", "rmatmul")
def _matmul(func, name, args, kwargs):
    """Multiply with a matrix on the rows, or with a matrix for each sequence on sequences of one length."""
    x, y = args[0], argument(args, kwargs, 1, "other", kwargs.get("mat2"))
    if name == "rmatmul":
        x, y = y, x
    last = x.dim() - 1
    if is_nested(x) and not is_nested(y):
        if y.dim() <= 2 and x._ragged_idx < last:
            return like(x.values() @ y, x)
        if x._ragged_idx < last and y.dim() == x.dim():
            if x._ragged_idx == last - 1:
                return unpadded(padded(x, 0) @ y, x._ragged, x._ragged_idx)
    elif is_nested(y) and not is_nested(x):
        if y._ragged_idx == y.dim() - 1 and (x.dim() == 2 or x.dim() == y.dim()):
            return unpadded(x @ padded(y, 0), y._ragged, y._ragged_idx)
    elif x.dim() == y.dim() and x._ragged.is_like(y._ragged):
        if x._ragged_idx == last and y._ragged_idx == last - 1:
            return padded(x, 0) @ padded(y, 0)
        if x._ragged_idx == y._ragged_idx < last - 1:
            x, y = packed(x), packed(y)
            return like(x.values() @ y.values(), x)
    raise RuntimeError(f"{name}: not supported between inputs of shapes {tuple(x.shape)} and {tuple(y.shape)}")


@rule("scaled_dot_product_attention", "functional_scaled_dot_product_attention")
def _attention(func, name, args, kwargs):
    """Compute attention within each sequence, sequence by sequence."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    query, key, value = (given.pop(part) for part in names[:3])
    if not all(is_nested(x) for x in (query, key, value)):
        found = [is_nested(x) for x in (query, key, value)]
        raise ValueError(f"{name}: expected three nested tensors, got is_nested {found}")
    if given.pop("attn_mask", None) is not None:
        raise ValueError(f"{name}: Masks are not yet supported for nested tensors, got attn_mask")
    fits = all(x._ragged_idx == x.dim() - 2 and x.dim() == query.dim() for x in (query, key, value))
    if not fits or len({len(x) for x in (query, key, value)}) > 1 or not key._ragged.is_like(value._ragged):
        found = shapes_of([query, key, value])
        raise ValueError(f"{name}: sequences must be the dimension before the last, key's and value's the same, got {found}")
    parts = [
        off(func, q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), **given).squeeze(0) if k.size(-2) else _nothing(q, v)
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    ]
    query = packed(query)
    return like(facula.cat(parts, -2) if parts else _nothing(query.values(), value), query)


def _nothing(query, value):
    """Return zeros: what attends to no element is zero."""
    return query.new_zeros(*query.shape[:-1], value.size(-1))
