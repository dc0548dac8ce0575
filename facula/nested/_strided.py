"""Nested tensors of layout strided: parts of any shapes with one number of dimensions.

Such a tensor is the memory of its parts, one behind another, and their shapes. Functions run part by part.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula._pointwise import DRAWN_INPLACE, POINTWISE, is_inplace, plain_name

from ._internal.nested_tensor import OfRows
from ._internal.rules import _LIKE, _OF_MEMORY, argument, leaves, off


class StridedNestedTensor(OfRows):
    """Parts of any shapes as one tensor. `facula.nested.nested_tensor` makes them."""

    _shapes: list[Any]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})

    def _like(self, values):
        return _wrap(values, self._shapes)

    @property
    def layout(self):
        """strided."""
        return facula.strided

    @property
    def shape(self):
        """There is none: parts have shapes of their own."""
        raise RuntimeError("shape: a nested tensor of layout strided has no shape (use size(dim)), got its shape")

    def dim(self):
        """Number of dimensions, that of the parts counted."""
        return 1 + (len(self._shapes[0]) if self._shapes else 0)

    ndimension = dim
    ndim = property(dim)

    def size(self, dim=None):
        """The length along a dimension, if it is the same for all parts."""
        if dim is None:
            return self.shape
        dim = self._dimension("size", dim)
        if dim == 0:
            return len(self._shapes)
        lengths = {shape[dim - 1] for shape in self._shapes}
        if len(lengths) > 1:
            raise RuntimeError(f"size: Given dimension {dim} is irregular and does not have a size, got {sorted(lengths)}")
        return lengths.pop()

    def _nested_tensor_size(self):
        """The shapes of the parts, one in each row."""
        return facula.tensor(self._shapes, dtype=facula.int64)

    def is_contiguous(self, memory_format=facula.contiguous_format):
        """Whether asked for the usual order: parts lie one behind another, each in that."""
        return memory_format is facula.contiguous_format

    def unbind(self, dim=0):
        """The parts."""
        if dim != 0:
            raise RuntimeError(f"unbind: NestedTensor can only be unbound along dimension 0, got dim {dim}")
        counts = [facula.Size(shape).numel() for shape in self._shapes]
        flat = self.values().split(counts) if counts else ()
        return tuple(part.view(shape) for part, shape in zip(flat, self._shapes, strict=True))

    def to_padded_tensor(self, padding, output_size=None):
        """One tensor, with `padding` behind the parts and up to `output_size`."""
        need = [len(self._shapes), *map(max, zip(*self._shapes, strict=True))]
        wanted = need if output_size is None else list(output_size)
        if len(wanted) != len(need) or any(w < n for w, n in zip(wanted, need, strict=True)):
            raise RuntimeError(f"to_padded_tensor: output_size must not be smaller than {need}, got {wanted}")
        pad = facula.nn.functional.pad
        return facula.stack(
            [
                pad(x, [n for w, have in zip(wanted[:0:-1], shape[::-1], strict=True) for n in (0, w - have)], value=padding)
                for x, shape in zip(self.unbind(), self._shapes, strict=True)
            ]
        )

    def __len__(self):
        return len(self._shapes)

    def __iter__(self):
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents=None):
        parts = ",\n".join("  " + repr(x.detach()).replace("\n", "\n  ") for x in self.unbind())
        history = ""
        if self.grad_fn is not None:
            history = f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            history = ", requires_grad=True"
        return f"nested_tensor([\n{parts}\n]{history})" if self._shapes else f"nested_tensor([\n\n]{history})"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        sizes = self._nested_tensor_size()
        steps = sizes.flip(-1).cumprod(-1).flip(-1)
        begins = facula.nn.functional.pad(steps[:, 0].cumsum(0), (1, 0))[:-1] if self.dim() > 1 else sizes.new_zeros(len(self))
        strides = facula.nn.functional.pad(steps[:, 1:], (0, 1), value=1)
        return facula._utils._rebuild_nested_tensor, (self._values.requires_grad_(self.requires_grad), sizes, strides, begins)


def _wrap(values, shapes):
    with _C.DisableTorchFunctionSubclass():
        made = values.as_subclass(StridedNestedTensor)
    made._shapes = shapes
    return made


def strided_from_places(buffer, sizes, strides, begins):
    """A nested tensor of parts that lie in `buffer`: their shapes, strides and beginnings, as tensors of integers.

    Errors: RuntimeError where they are no integers of fitting shapes, or parts leave the buffer.
    """
    given = (sizes, strides, begins)
    whole = all(isinstance(x, facula.Tensor) and x.dtype is facula.int64 for x in given) and buffer.dim() == 1
    if not whole or sizes.dim() != 2 or sizes.shape != strides.shape or begins.shape != sizes.shape[:1]:
        raise RuntimeError(f"load: a nested tensor has places of its parts, got {[type(x).__name__ for x in given]}")
    parts = []
    for shape, steps, begin in zip(sizes.tolist(), strides.tolist(), begins.tolist(), strict=True):
        if min([begin, *shape, *steps], default=0) < 0:
            raise RuntimeError(f"load: places of parts are not negative, got {shape}, {steps} and {begin}")
        end = begin + sum((size - 1) * step for size, step in zip(shape, steps, strict=True)) + 1
        if 0 not in shape and end > buffer.numel():
            raise RuntimeError(f"load: a part ends at element {end}, got {buffer.numel()} elements")
        parts.append(buffer.detach().as_strided(shape, steps, begin if 0 not in shape else 0))
    return strided_from_list(parts).requires_grad_(buffer.requires_grad)


def view_from_buffer(self, nested_size, nested_strides, offsets):
    """A nested tensor of parts that lie in the vector `self`.

    Args:
        self: a vector.
        nested_size, nested_strides: sizes and strides of the parts, a row each.
        offsets: where each begins.
    """
    return strided_from_places(self, nested_size, nested_strides, offsets)


def strided_from_list(tensors):
    """A nested tensor of these parts; gradients go back to them."""
    ranks = {x.dim() for x in tensors}
    if len(ranks) > 1:
        raise RuntimeError(
            "nested_tensor: All Tensors given to nested_tensor must have the same dimension, "
            f"got shapes {[list(x.shape) for x in tensors]}"
        )
    if len({x.dtype for x in tensors}) > 1:
        raise RuntimeError(f"nested_tensor: all tensors must have one dtype, got {[str(x.dtype) for x in tensors]}")
    flat = facula.cat([x.reshape(-1) for x in tensors]) if tensors else facula.empty(0)
    return _wrap(flat, [list(x.shape) for x in tensors])


# ---- functions, part by part

_PARTS = frozenset(
    """
    linear layer_norm matmul bmm scaled_dot_product_attention functional_scaled_dot_product_attention embedding contiguous
    """.split()
)
#: functions with a dimension: at which place among the arguments it stands
_WITH_DIMENSION = {"softmax": 1, "log_softmax": 1, "sum": 1, "unsqueeze": 1, "squeeze": 1}


def _call(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        value = off(func, *args)
        return args[0]._like(value) if getattr(func.__self__, "__name__", "") == "data" else value
    if name in ("__set__", "__delete__") or name in _OF_MEMORY or name in ("numel", "nelement"):
        return off(func, *args, **kwargs)
    short = plain_name(name)
    if is_inplace(name) or name in DRAWN_INPLACE:
        return _in_place(func, name, args, kwargs)
    if short == "getitem" and isinstance(args[1], int) or short == "select" and argument(args, kwargs, 1, "dim") == 0:
        return args[0].unbind()[argument(args, kwargs, 1 if short == "getitem" else 2, "index")]
    if short == "cat" and argument(args, kwargs, 1, "dim", 0) == 0:
        return strided_from_list([part for x in args[0] for part in x.unbind()])
    if short in ("transpose", "chunk") or short in _WITH_DIMENSION:
        args, kwargs = _inner(short, args, kwargs)
    elif short not in POINTWISE and short not in _LIKE and short not in _PARTS and short != "clone":
        raise NotImplementedError(f"{name}: not supported for nested tensors of layout strided, got {_kinds(args)}")
    return _each(func, short, args, kwargs)


def _kinds(args):
    return ", ".join(type(x).__name__ for x in args) or "no arguments"


def _in_place(func, name, args, kwargs):
    x, *others = args
    same = all(not isinstance(y, facula.Tensor) or _fits(y, x) for y in leaves([*others, *kwargs.values()]))
    if not same:
        raise NotImplementedError(f"{name}: not supported for nested tensors of layout strided, got {_kinds(args)}")
    off(func, x, *others, **kwargs)
    return x


def _fits(y, x):
    return y.dim() == 0 or isinstance(y, StridedNestedTensor) and y._shapes == x._shapes


def _inner(name, args, kwargs):
    """The call with dimensions of the parts in the place of those of the whole."""
    x, args, kwargs = args[0], list(args), dict(kwargs)
    places = {"transpose": (1, 2), "chunk": (2,)}.get(name) or (_WITH_DIMENSION[name],)
    count = x.dim() + (name == "unsqueeze")
    keys = ("dim0", "dim1") if name == "transpose" else ("dim",)
    for place, key in zip(places, keys, strict=True):
        dim = args[place] if len(args) > place else kwargs.get(key)
        if not isinstance(dim, int) or not -count <= dim < count or dim % count == 0:
            raise RuntimeError(f"{name}: not supported for NestedTensor on dim={dim}, got {x.dim()} dimensions")
        if len(args) > place:
            args[place] = dim % count - 1
        else:
            kwargs[key] = dim % count - 1
    if name == "sum" and not (args[2] if len(args) > 2 else kwargs.get("keepdim")):
        raise RuntimeError("sum: NestedTensor always requires keepdim=True for now, got keepdim=False")
    return args, kwargs


def _each(func, name, args, kwargs):
    nested = [x for x in leaves([*args, *kwargs.values()]) if isinstance(x, StridedNestedTensor)]
    if len({len(x) for x in nested}) > 1:
        raise RuntimeError(f"{name}: nested tensors must have one number of parts, got {[len(x) for x in nested]}")
    parts = {id(x): x.unbind() for x in nested}
    count, rank = len(nested[0]), nested[0].dim()

    def at(i, value):
        if isinstance(value, StridedNestedTensor):
            return parts[id(value)][i]
        if name not in _PARTS and isinstance(value, facula.Tensor) and value.dim() == rank:
            if value.size(0) not in (1, count):
                raise RuntimeError(f"{name}: a tensor must broadcast with {count} parts, got {list(value.shape)}")
            return value[i if value.size(0) > 1 else 0]
        return value

    results = [func(*[at(i, a) for a in args], **{k: at(i, v) for k, v in kwargs.items()}) for i in range(count)]
    if results and isinstance(results[0], (list, tuple)):
        return tuple(strided_from_list(list(column)) for column in zip(*results, strict=True))
    return strided_from_list(results)
