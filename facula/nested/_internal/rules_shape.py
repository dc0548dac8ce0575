"""Define rules that reshape nested tensors, select parts of them, and join several."""

from __future__ import annotations

import facula

from .nested_tensor import wrap
from .ragged import NestedInt, Ragged
from .rules import argument, dense_dimension, dimension, is_nested, like, off, packed, padded, rule, shapes_of


@rule("contiguous", "clone")
def _copied(func, name, args, kwargs):
    """Copy in order; a contiguous one has no gaps."""
    x = packed(args[0]) if name == "contiguous" else args[0]
    values = off(func, x.values(), *args[1:], **kwargs)
    return args[0] if name == "contiguous" and x is args[0] and x.is_contiguous() else like(values, x)


@rule("unsqueeze")
def _unsqueeze(func, name, args, kwargs):
    x = args[0]
    dim = dense_dimension(name, x, argument(args, kwargs, 1, "dim"), extra=1)
    return like(x.values().unsqueeze(dim - 1), x, x._ragged_idx + (dim <= x._ragged_idx))


@rule("squeeze")
def _squeeze(func, name, args, kwargs):
    x = args[0]
    dim = argument(args, kwargs, 1, "dim")
    if dim is None:
        raise NotImplementedError(f"squeeze: a nested tensor needs a dimension, got shape {tuple(x.shape)}")
    dims = [dense_dimension(name, x, d) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]
    gone = sum(d < x._ragged_idx and x.shape[d] == 1 for d in dims)
    return like(x.values().squeeze([d - 1 for d in dims]), x, x._ragged_idx - gone)


@rule("transpose", "swapaxes", "swapdims")
def _transpose(func, name, args, kwargs):
    x = args[0]
    a, b = (dimension(name, x, argument(args, kwargs, i, f"dim{i - 1}")) for i in (1, 2))
    if 0 in (a, b) and a != b:
        raise ValueError(f"{name}: a jagged tensor keeps its batch dimension first, got {a} and {b}")
    if a == b:
        return x
    at = {a: b, b: a}.get(x._ragged_idx, x._ragged_idx)
    return like(x.values().transpose(a - 1, b - 1), x, at)


@rule("permute")
def _permute(func, name, args, kwargs):
    x = args[0]
    dims = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:] or kwargs["dims"]
    dims = [dimension(name, x, d) for d in dims]
    if sorted(dims) != list(range(x.dim())):
        raise RuntimeError(f"permute: each dimension must be named once, got {tuple(dims)}")
    if dims[0] != 0:
        raise ValueError(f"permute: a jagged tensor keeps its batch dimension first, got {tuple(dims)}")
    return like(x.values().permute([d - 1 for d in dims[1:]]), x, dims.index(x._ragged_idx))


def _sizes(args, kwargs):
    given = args[1:] or tuple(kwargs.values())
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)


@rule("view", "reshape")
def _view(func, name, args, kwargs):
    """View in a shape where the ragged dimension keeps its length: it is named by that, or is -1 at its place."""
    x = args[0]
    if len(args) == 2 and isinstance(args[1], facula.dtype):
        return like(x.values().view(args[1]), x)
    wanted = _sizes(args, kwargs)
    old, symbol = x.shape, x._ragged.symbol
    refused = RuntimeError(f"{name}: cannot view shape {tuple(old)} as {wanted}")
    named = [i for i, size in enumerate(wanted) if isinstance(size, NestedInt)]
    at = named[0] if named else x._ragged_idx
    if len(named) > 1 or len(wanted) < 2 or at < 1 or wanted[0] not in (-1, old[0]):
        raise refused
    if at >= len(wanted) or not named and wanted[at] != -1 or named and wanted[at] != symbol:
        raise refused
    if len(wanted) == 2 and x.dim() > 2 and not named:
        raise refused
    inner = wanted[1:]
    inner[at - 1] = x.values().size(x._ragged_idx - 1)
    before = 1
    for size in old[1 : x._ragged_idx]:
        before *= size
    ahead = 1
    for i, size in enumerate(wanted[1:at]):
        ahead *= size if size != -1 else old[i + 1] if i + 1 < x._ragged_idx else -1
    if -1 in wanted[1:at] and at == x._ragged_idx:
        inner[: at - 1] = [o if w == -1 else w for o, w in zip(old[1:at], wanted[1:at], strict=True)]
    if ahead != before:
        raise refused
    values = x.values()
    return like(values.view(inner) if name == "view" else values.reshape(inner), x, at)


@rule("view_as", "reshape_as", "expand_as")
def _as_other(func, name, args, kwargs):
    x, other = args[0], argument(args, kwargs, 1, "other")
    if not (is_nested(x) and is_nested(other)):
        raise RuntimeError(f"{name}: both tensors must be nested, got {shapes_of([x, other])}")
    return getattr(x, name.removesuffix("_as"))(*other.shape)


@rule("expand")
def _expand(func, name, args, kwargs):
    x, wanted = args[0], _sizes(args, kwargs)
    at = x._ragged_idx
    fits = len(wanted) == x.dim() and wanted[0] in (-1, x.shape[0]) and wanted[at] in (-1, x.shape[at])
    if not fits:
        raise RuntimeError(f"expand: cannot expand shape {tuple(x.shape)} to {wanted}")
    inner = wanted[1:]
    inner[at - 1] = -1
    return like(x.values().expand(inner), x)


@rule("flatten")
def _flatten(func, name, args, kwargs):
    x = args[0]
    start = dimension(name, x, argument(args, kwargs, 1, "start_dim", 0))
    end = dimension(name, x, argument(args, kwargs, 2, "end_dim", -1))
    if start == end:
        return x
    for dim in (start, end):
        dense_dimension(name, x, dim)
    if start < x._ragged_idx < end:
        dense_dimension(name, x, x._ragged_idx)
    return like(x.values().flatten(start - 1, end - 1), x, x._ragged_idx - (end - start) * (end < x._ragged_idx))


@rule("unflatten")
def _unflatten(func, name, args, kwargs):
    x = args[0]
    dim = dense_dimension(name, x, argument(args, kwargs, 1, "dim"))
    sizes = argument(args, kwargs, 2, "sizes")
    values = x.values().unflatten(dim - 1, sizes)
    return like(values, x, x._ragged_idx + (values.dim() + 1 - x.dim()) * (dim < x._ragged_idx))


# ---- parts


@rule("unbind")
def _unbind(func, name, args, kwargs):
    """Return the sequences."""
    x = args[0]
    if dimension(name, x, argument(args, kwargs, 1, "dim", 0)) != 0:
        raise RuntimeError(f"unbind: only supported for NestedTensor on dim=0, got {args[1:] or kwargs}")
    values, ragged = x.values(), x._ragged
    return tuple(values.narrow(x._ragged_idx - 1, *part) for part in zip(ragged.starts, ragged.sizes, strict=True))


@rule("chunk", "split", "split_with_sizes", "tensor_split", "unsafe_chunk", "unsafe_split")
def _split(func, name, args, kwargs):
    x = args[0]
    kwargs = dict(kwargs)
    dim = dimension(name, x, args[2] if len(args) > 2 else kwargs.pop("dim", 0))
    if dim == 0 and name == "chunk":
        return _chunk_sequences(x, argument(args, kwargs, 1, "chunks"))
    dim = dense_dimension(name, x, dim)
    return tuple(like(part, x) for part in off(func, x.values(), *args[1:2], dim=dim - 1, **kwargs))


def _chunk_sequences(x, chunks):
    if not isinstance(chunks, int) or chunks < 1:
        raise RuntimeError(f"chunk: expected an int from 1 on as `chunks`, got {chunks}")
    parts = x.unbind()
    each = -(-len(parts) // chunks) or 1
    at = x._ragged_idx - 1
    result = []
    for i in range(0, len(parts), each):
        chosen = parts[i : i + each]
        ends = [0]
        for part in chosen:
            ends.append(ends[-1] + part.size(at))
        result.append(_from_parts(chosen, ends, x))
    return tuple(result)


def _from_parts(parts, ends, x):
    offsets = facula.tensor(ends, dtype=x.offsets().dtype, device=x.device)
    return wrap(facula.cat(parts, x._ragged_idx - 1), Ragged(offsets), x._ragged_idx)


@rule("select")
def _select(func, name, args, kwargs):
    x = args[0]
    dim = dimension(name, x, argument(args, kwargs, 1, "dim"))
    index = argument(args, kwargs, 2, "index")
    if dim == 0:
        if not -len(x) <= index < len(x):
            raise IndexError(f"select: index {index} is out of range for {len(x)} sequences")
        return x.unbind()[index]
    dim = dense_dimension(name, x, dim)
    return like(x.values().select(dim - 1, index), x, x._ragged_idx - (dim < x._ragged_idx))


@rule("narrow", "slice", "index_select", "gather")
def _narrow(func, name, args, kwargs):
    x = args[0]
    kwargs = dict(kwargs)
    dim = dense_dimension(name, x, args[1] if len(args) > 1 else kwargs.pop("dim"))
    return like(off(func, x.values(), dim - 1, *args[2:], **kwargs), x)


@rule("__getitem__", "getitem")
def _getitem(func, name, args, kwargs):
    """Return a sequence, or parts of all along dense dimensions."""
    x, key = args
    key = list(key) if isinstance(key, tuple) else [key]
    if is_nested(x) and any(isinstance(k, facula.Tensor) for k in key):
        raise NotImplementedError(f"getitem: a nested tensor is not indexed by tensors, got shape {tuple(x.shape)}")
    if key and isinstance(key[0], int) and not isinstance(key[0], bool):
        part = x.select(0, key[0])
        return part[tuple(key[1:])] if len(key) > 1 else part
    if any(k is Ellipsis for k in key):
        at = next(i for i, k in enumerate(key) if k is Ellipsis)
        named = sum(k is not None and k is not Ellipsis for k in key)
        key[at : at + 1] = [slice(None)] * max(0, x.dim() - named)
    return _indexed(x, key)


def _indexed(x, key):
    dim, result = 0, x
    for k in key:
        if k is None:
            result, dim = result.unsqueeze(dim), dim + 1
        elif isinstance(k, slice):
            if k != slice(None):
                place = dense_dimension("slice", result, dim)
                cut = (slice(None),) * (place - 1) + (k,)
                result = like(result.values()[cut], result)
            dim += 1
        elif isinstance(k, int):
            result = result.select(dim, k)
        else:
            raise NotImplementedError(f"getitem: a nested tensor takes ints and slices, got {type(k).__name__}")
    return result


# ---- several in one


@rule("cat", "concat", "concatenate", "stack")
def _cat(func, name, args, kwargs):
    parts = argument(args, kwargs, 0, "tensors")
    extra = name == "stack"
    first = next(x for x in parts if is_nested(x))
    dim = dense_dimension(name, first, argument(args, kwargs, 1, "dim", 0), extra)
    alike = all(is_nested(x) and x._ragged_idx == first._ragged_idx and x._ragged.is_like(first._ragged) for x in parts)
    if not alike or not extra and dim == first._ragged_idx:
        raise RuntimeError(f"{name}: tensors must be nested and of one structure, got {shapes_of(parts)}")
    parts = [packed(x) for x in parts]
    at = first._ragged_idx + (extra and dim <= first._ragged_idx)
    return like(off(func, [x.values() for x in parts], dim - 1), parts[0], at)


@rule("broadcast_tensors")
def _broadcast(func, name, args, kwargs):
    """Broadcast; tensors of one structure and shape fit already."""
    given = args[0] if isinstance(args[0], (list, tuple)) else args
    if not all(is_nested(x) and tuple(x.shape) == tuple(given[0].shape) for x in given):
        raise RuntimeError(f"{name}: nested tensors must be of one shape, got {shapes_of(given)}")
    return tuple(given)


@rule("to_padded_tensor")
def _to_padded_tensor(func, name, args, kwargs):
    """Return one tensor, with `padding` behind the sequences and up to `output_size`, which cuts what is longer."""
    x, fill = args[0], argument(args, kwargs, 1, "padding")
    wanted = argument(args, kwargs, 2, "output_size")
    dense = padded(x, fill)
    if wanted is None:
        return dense
    if len(wanted) != x.dim() or wanted[0] != len(x) or min(wanted) < 0:
        found = f"{tuple(wanted)} for {len(x)} sequences of {x.dim()} dimensions"
        raise RuntimeError(f"to_padded_tensor: output_size must have a length for each dimension, got {found}")
    more = [w - have for w, have in zip(wanted, dense.shape, strict=True)]
    return facula.nn.functional.pad(dense, [n for m in reversed(more) for n in (0, m)], value=fill)
