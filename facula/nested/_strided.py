"""Define nested tensors of layout strided: parts of any shapes with the same number of dimensions.

Such a tensor is a piece of memory and the places of its parts in it: shapes, strides and beginnings. Functions run on the
memory where all of it is parts, one behind another, else part by part; views are other places in the same memory.
Long because the class and the views of it need each other.
"""

from __future__ import annotations

from math import prod
from typing import Any

import facula
from facula import _C
from facula._operators.pointwise import DRAWN_INPLACE, POINTWISE, is_inplace, plain_name

from ._internal.nested_tensor import OfRows
from ._internal.rules import _LIKE, _OF_MEMORY, argument, leaves, off


class StridedNestedTensor(OfRows):
    """Represent parts of any shapes as one tensor. `facula.nested.nested_tensor` makes it."""

    _shapes: list[Any]
    _steps: list[Any]
    _begins: list[int]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})

    def _like(self, values):
        return _wrap(values, self._shapes, self._steps, self._begins)

    @property
    def layout(self):
        """Return torch.strided."""
        return facula.strided

    @property
    def shape(self):
        """There is none: parts have shapes of their own."""
        raise RuntimeError("shape: a nested tensor of layout strided has no shape (use size(dim)), got its shape")

    def dim(self):
        """Return the number of dimensions, that of the parts counted."""
        return 1 + (len(self._shapes[0]) if self._shapes else 0)

    ndimension = dim
    ndim = property(dim)

    def numel(self):
        """Return the number of elements of all parts."""
        return sum(map(prod, self._shapes))

    nelement = numel

    def is_same_size(self, other):
        """Return whether the parts of another nested tensor have the same shapes."""
        return _is_same_size(self, other)

    def size(self, dim=None):
        """Return the length along a dimension, if it is the same for all parts."""
        if dim is None:
            return self.shape
        dim = self._dimension("size", dim)
        if dim == 0:
            return len(self._shapes)
        lengths = {shape[dim - 1] for shape in self._shapes}
        if len(lengths) > 1:
            raise RuntimeError(f"size: expected a regular dimension, dimension {dim} is irregular, got {sorted(lengths)}")
        return lengths.pop()

    def _nested_tensor_size(self):
        """Return the shapes of the parts, one in each row."""
        return facula.tensor(self._shapes, dtype=facula.int64)

    def _nested_tensor_strides(self):
        """Return the strides of the parts, one in each row."""
        return facula.tensor(self._steps, dtype=facula.int64)

    def _nested_tensor_storage_offsets(self):
        """Return where the parts begin."""
        return facula.tensor(self._begins, dtype=facula.int64)

    @property
    def _base(self):
        """Return what this is a view of."""
        return self.__dict__.get("_viewed")

    def is_contiguous(self, memory_format=facula.contiguous_format):
        """Return whether parts lie one behind another, each in the usual order, and there is nothing else."""
        plain = _plain_places(self._shapes)
        return memory_format is facula.contiguous_format and (self._steps, self._begins, self.numel()) == (
            *plain, off(facula.Tensor.numel, self),
        )  # fmt: skip

    def unbind(self, dim=0):
        """Return the parts."""
        if dim != 0:
            raise RuntimeError(f"unbind: NestedTensor can only be unbound along dimension 0, got dim {dim}")
        values = self.values()
        if self.is_contiguous():
            places = zip(self._begins, self._shapes, strict=True)
            return tuple(values.narrow(0, begin, prod(shape)).view(shape) for begin, shape in places)
        return tuple(values.as_strided(*place) for place in self._places(values))

    def _places(self, values):
        first = values.storage_offset()
        return zip(self._shapes, self._steps, [first + begin for begin in self._begins], strict=True)

    def to_padded_tensor(self, padding, output_size=None):
        """Return one tensor, with `padding` behind the parts and up to `output_size`."""
        _require_contiguous("to_padded_tensor", self)
        if not self._shapes:
            return self.values().new_empty(0)
        if self.numel() == 0:
            text = "to_padded_tensor: one of the parts at least has to have elements"
            raise RuntimeError(f"{text}, got shapes {[tuple(shape) for shape in self._shapes]}")
        need = [len(self._shapes), *map(max, zip(*self._shapes, strict=True))]
        wanted = need if output_size is None else list(output_size)
        if len(wanted) != len(need) or any(w < n for w, n in zip(wanted, need, strict=True)):
            raise RuntimeError(f"to_padded_tensor: output_size must not be smaller than {tuple(need)}, got {tuple(wanted)}")
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
        places = self._nested_tensor_size(), self._nested_tensor_strides(), self._nested_tensor_storage_offsets()
        return facula._utils._rebuild_nested_tensor, (self._values.detach().requires_grad_(self.requires_grad), *places)


def _plain_places(shapes):
    """Return the strides and beginnings of parts that lie one behind another."""
    steps, begins, at = [], [], 0
    for shape in shapes:
        # Lengths of zero count as one, as in the strides of ordinary empty tensors.
        steps.append([prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape))])
        begins.append(at)
        at += prod(shape)
    return steps, begins


def _wrap(values, shapes, steps=None, begins=None):
    with _C.DisableTorchFunctionSubclass():
        made = values.as_subclass(StridedNestedTensor)
    made._shapes = shapes
    made._steps, made._begins = _plain_places(shapes) if steps is None else (steps, begins)
    return made


def _recorded(x):
    return x.requires_grad and facula.is_grad_enabled()


def _viewed(x, view):
    """Return what `view` shows of each part, as a nested tensor on the same memory; a tuple where it shows several things.

    Where gradients are recorded it has memory of its own: a gradient comes in the order of the elements of the view.
    """
    if _recorded(x):
        shown = [view(part) for part in x.unbind()]
        if shown and isinstance(shown[0], (list, tuple)):
            return tuple(strided_from_list(list(column)) for column in zip(*shown, strict=True))
        return strided_from_list(shown)
    values = x._values
    shown = [view(values.as_strided(*place)) for place in x._places(values)]
    if shown and isinstance(shown[0], (list, tuple)):
        return tuple(_view_of(x, values, column) for column in zip(*shown, strict=True))
    return _view_of(x, values, shown)


def _view_of(x, values, parts):
    first = values.storage_offset()
    places = [(list(part.shape), list(part.stride()), part.storage_offset() - first) for part in parts]
    shapes, steps, begins = map(list, zip(*places, strict=True)) if places else ([], [], [])
    made = _wrap(x.values(), shapes, steps, begins)
    made._viewed = x
    return made


def _require_contiguous(name, x):
    if not x.is_contiguous():
        raise RuntimeError(f"{name}: expected a contiguous NestedTensor (contiguous() makes one), got a view")


def strided_from_places(buffer, sizes, strides, begins):
    """Return a nested tensor of parts that lie in `buffer`: their shapes, strides and beginnings, as tensors of integers.

    Errors: RuntimeError where they are no integers of fitting shapes, or parts leave the buffer.
    """
    given = (sizes, strides, begins)
    whole = all(isinstance(x, facula.Tensor) and x.dtype is facula.int64 for x in given) and buffer.dim() == 1
    if not whole or sizes.dim() != 2 or sizes.shape != strides.shape or begins.shape != sizes.shape[:1]:
        raise RuntimeError(f"load: a nested tensor has places of its parts, got {[type(x).__name__ for x in given]}")
    for shape, steps, begin in zip(sizes.tolist(), strides.tolist(), begins.tolist(), strict=True):
        if min([begin, *shape, *steps], default=0) < 0:
            raise RuntimeError(f"load: places of parts are not negative, got {shape}, {steps} and {begin}")
        end = begin + sum((size - 1) * step for size, step in zip(shape, steps, strict=True)) + 1
        if 0 not in shape and end > buffer.numel():
            raise RuntimeError(f"load: a part ends at element {end}, got {buffer.numel()} elements")
    places = sizes.tolist(), strides.tolist(), begins.tolist()
    return _wrap(buffer.detach(), *places).requires_grad_(buffer.requires_grad)


def view_from_buffer(self, nested_size, nested_strides, offsets):
    """Return a nested tensor of parts that lie in the vector `self`.

    Args:
        self: a vector.
        nested_size, nested_strides: sizes and strides of the parts, a row each.
        offsets: where each begins.
    """
    return strided_from_places(self, nested_size, nested_strides, offsets)


def strided_from_list(tensors):
    """Return a nested tensor of these parts; gradients go back to them."""
    ranks = {x.dim() for x in tensors}
    if len(ranks) > 1:
        raise RuntimeError(
            "nested_tensor: the tensors must have one number of dimensions, "
            f"got shapes {[tuple(x.shape) for x in tensors]}"
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
_NEED_CONTIGUOUS = frozenset("linear layer_norm sum embedding".split())
#: functions with a dimension: at which place among the arguments it stands
_WITH_DIMENSION = {"softmax": 1, "log_softmax": 1, "sum": 1}
_DROPOUTS = frozenset("dropout alpha_dropout feature_alpha_dropout".split())
#: functions that leave every element where it is
_CASTS = frozenset("detach alias to float double half bfloat16 int long short char byte bool type cpu cuda".split())
_SAME_PLACES = _CASTS | _DROPOUTS


def _call(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        value = off(func, *args)
        return args[0]._like(value) if getattr(func.__self__, "__name__", "") == "data" else value
    short = plain_name(name)
    if short in ("numel", "nelement"):
        return args[0].numel()
    if short == "is_same_size":
        return _is_same_size(*args, **kwargs)
    if name in ("__set__", "__delete__") or name in _OF_MEMORY:
        return off(func, *args, **kwargs)
    if is_inplace(name) or name in DRAWN_INPLACE:
        return _in_place(func, name, args, kwargs)
    if short in VIEWS:
        return VIEWS[short](*args, **kwargs)
    if short == "cat" and argument(args, kwargs, 1, "dim", 0) == 0:
        return strided_from_list([part for x in args[0] for part in x.unbind()])
    if short in ("clone", "contiguous") and not args[0].is_contiguous():
        return strided_from_list(args[0].unbind())
    if short in _WITH_DIMENSION:
        if not args[0]._shapes and short != "sum":
            return args[0]
        args, kwargs = _inner(short, args, kwargs)
    elif short not in POINTWISE and short not in _LIKE and short not in _PARTS and short != "clone":
        raise NotImplementedError(f"{name}: not supported for nested tensors of layout strided, got {_kinds(args)}")
    return _run(func, short, args, kwargs)


def _kinds(args):
    return ", ".join(type(x).__name__ for x in args) or "no arguments"


def _is_same_size(self, other):
    if not isinstance(self, StridedNestedTensor) or not isinstance(other, StridedNestedTensor):
        raise RuntimeError(f"is_same_size: both tensors are nested, got {_kinds([self, other])}")
    return self._shapes == other._shapes


def _in_place(func, name, args, kwargs):
    x, *others = args
    given = [y for y in leaves([*others, *kwargs.values()]) if isinstance(y, facula.Tensor)]
    if not isinstance(x, StridedNestedTensor) or not all(_fits(y, x) for y in given):
        raise RuntimeError(f"{name}: tensors beside a nested one are numbers or nested in the same shapes, got {_kinds(args)}")
    for y in (x, *given):
        if isinstance(y, StridedNestedTensor):
            _require_contiguous(name, y)
    off(func, x, *others, **kwargs)
    return x


def _fits(y, x):
    return y.dim() == 0 or isinstance(y, StridedNestedTensor) and y._shapes == x._shapes


def _inner_dimension(name, x, dim, more=0):
    """Return a dimension of the parts, counted from the left among those."""
    count = x.dim() + more
    if not isinstance(dim, int):
        raise RuntimeError(f"{name}: not supported for NestedTensor on dim={dim}, got {x.dim()} dimensions")
    if not -count <= dim < count:
        raise IndexError(f"{name}: dimension out of range, expected one of {-count} to {count - 1}, got {dim}")
    if dim % count == 0:
        raise RuntimeError(f"{name}: not supported for NestedTensor on dim={dim}, got {x.dim()} dimensions")
    return dim % count - 1


def _inner(name, args, kwargs):
    """Make the call with a dimension of the parts in the place of that of the whole."""
    x, args, kwargs = args[0], list(args), dict(kwargs)
    place = _WITH_DIMENSION[name]
    dim = args[place] if len(args) > place else kwargs.get("dim")
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        (dim,) = dim
    inner = _inner_dimension(name, x, dim)
    if len(args) > place:
        args[place] = inner
    else:
        kwargs["dim"] = inner
    if name == "sum" and not (args[2] if len(args) > 2 else kwargs.get("keepdim")):
        raise RuntimeError("sum: NestedTensor always requires keepdim=True for now, got keepdim=False")
    return args, kwargs


def _run(func, name, args, kwargs):
    """Run a function of the elements on the memory; others part by part."""
    given = [x for x in leaves([*args, *kwargs.values()]) if isinstance(x, facula.Tensor)]
    nested = [x for x in given if isinstance(x, StridedNestedTensor)]
    first = nested[0]
    if name in ("matmul", "bmm"):
        if name == "bmm":
            args = [x if isinstance(x, StridedNestedTensor) or x.dim() != 3 else strided_from_list(x.unbind()) for x in args]
            given = nested = [x for x in args if isinstance(x, StridedNestedTensor)]
        _check_product(name, given)
        func = facula.mm if name == "bmm" else func
    if name in _SAME_PLACES and len(nested) == 1:
        return first._like(off(func, *args, **kwargs))  # of what no part shows, too: dropout draws a number for it
    if name in _PARTS or name in _WITH_DIMENSION:
        if name in _NEED_CONTIGUOUS:
            _require_contiguous(name, args[0])
        return _each(func, name, args, kwargs, nested)
    if len(args) + len(kwargs) == 1 and name in POINTWISE and not name.endswith("_like"):
        _require_contiguous(name, first)
    if all(_fits(x, first) for x in given) and all(x.is_contiguous() for x in nested):
        values = off(func, *args, **kwargs)
        return _wrap(values, first._shapes) if isinstance(values, facula.Tensor) else values
    if any(x.dim() not in (0, first.dim()) for x in given if not isinstance(x, StridedNestedTensor)):
        raise RuntimeError(f"{name}: tensors beside a nested one are nested, or have as many dimensions, got {_kinds(args)}")
    return _each(func, name, args, kwargs, nested)


def _check_product(name, given):
    for x in given:
        if not isinstance(x, StridedNestedTensor) and x.dim() < 2:
            raise RuntimeError(f"{name}: both are nested, got {_kinds(given)}")
        if isinstance(x, StridedNestedTensor) and x.dim() < 3:
            raise RuntimeError(f"{name}: nested tensors of at least 3 dimensions, got {x.dim()}")
    a, b = (given + given)[:2]
    if isinstance(a, StridedNestedTensor) and isinstance(b, StridedNestedTensor):
        if [shape[:-2] for shape in a._shapes] != [shape[:-2] for shape in b._shapes]:
            raise RuntimeError(f"{name}: nested tensors of the same batch sizes, got {a._shapes} and {b._shapes}")


def _each(func, name, args, kwargs, nested):
    if len({len(x) for x in nested}) > 1:
        raise RuntimeError(f"{name}: nested tensors must have one number of parts, got {[len(x) for x in nested]}")
    parts = {id(x): x.unbind() for x in nested}
    count, rank = len(nested[0]), nested[0].dim()

    def at(i, value):
        if isinstance(value, StridedNestedTensor):
            return parts[id(value)][i]
        if name not in _PARTS and isinstance(value, facula.Tensor) and value.dim() == rank:
            if value.size(0) not in (1, count):
                raise RuntimeError(f"{name}: a tensor must broadcast with {count} parts, got {tuple(value.shape)}")
            return value[i if value.size(0) > 1 else 0]
        return value

    results = [func(*[at(i, a) for a in args], **{k: at(i, v) for k, v in kwargs.items()}) for i in range(count)]
    if results and isinstance(results[0], (list, tuple)):
        return tuple(strided_from_list(list(column)) for column in zip(*results, strict=True))
    return strided_from_list(results)


# ---- views


def _transpose(x, dim0, dim1):
    d0, d1 = (_inner_dimension("transpose", x, dim) for dim in (dim0, dim1))
    return _viewed(x, lambda part: part.transpose(d0, d1))


def _part(x, index):
    if not -len(x) <= index < len(x):
        raise IndexError(f"index: a part of {len(x)} of a nested tensor, got {index}")
    return x.unbind()[index]


def _select(x, dim, index):
    if x._dimension("select", dim) == 0:
        return _part(x, index)
    inner = _inner_dimension("select", x, dim)
    return _viewed(x, lambda part: part.select(inner, index))


def _getitem(x, key):
    keys = key if isinstance(key, tuple) else (key,)
    if keys == (Ellipsis,):
        return _viewed(x, lambda part: part)
    if not keys or not isinstance(keys[0], int):
        raise NotImplementedError(f"__getitem__: the first index of a nested tensor of layout strided is an int, got {key!r}")
    part = _part(x, keys[0])
    return part[keys[1:]] if len(keys) > 1 else part


def _narrow(x, dim, start, length):
    if x._dimension("narrow", dim) != 0:
        raise RuntimeError(f"narrow: only dim=0 supported for nested tensors, got {dim}")
    _require_contiguous("narrow", x)
    if _recorded(x):
        return strided_from_list(x.unbind()[start : start + length])
    made = _wrap(x.values(), *(places[start : start + length] for places in (x._shapes, x._steps, x._begins)))
    made._viewed = x
    return made


def _split(x, split_size, dim=0):
    if isinstance(split_size, int):
        return _cut("split", x, dim, lambda part, d: part.split(split_size, d))
    return _cut("split", x, dim, lambda part, d: part.split_with_sizes(split_size, d))


def _split_with_sizes(x, split_sizes, dim=0):
    return _cut("split_with_sizes", x, dim, lambda part, d: part.split_with_sizes(split_sizes, d))


def _chunk(x, chunks, dim=0):
    return _cut("chunk", x, dim, lambda part, d: part.chunk(chunks, d))


def _cut(name, x, dim, cut):
    if x._dimension(name, dim) != x.dim() - 1 or x.dim() < 2:
        raise RuntimeError(f"{name}: only the last dimension of a nested tensor, got {dim}")
    _require_contiguous(name, x)
    return _viewed(x, lambda part: cut(part, -1))


def _squeeze(x, dim=None):
    if dim is None:
        raise RuntimeError("squeeze: a nested tensor is squeezed with a dim, got none")
    inner = _inner_dimension("squeeze", x, dim)
    if x.dim() == 2:
        raise RuntimeError(f"squeeze: the only dimension of the parts must stay, got {dim}")
    if any(shape[inner] != 1 for shape in x._shapes):
        return x
    return _viewed(x, lambda part: part.squeeze(inner))


def _unsqueeze(x, dim):
    inner = _inner_dimension("unsqueeze", x, dim, 1)
    return _viewed(x, lambda part: part.unsqueeze(inner))


def _new_shapes(name, x, shape):
    """Return the shapes of parts in the order of `shape`, in which -1 at the place of a dimension keeps that."""
    shape = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape)
    if not shape:
        raise RuntimeError(f"{name}: a nested tensor of {len(x)} parts needs a dimension for them, got shape ()")
    if not x._shapes:
        raise RuntimeError(f"{name}: an empty nested tensor has no other shape, got {tuple(shape)}")
    if shape[0] != len(x):
        raise RuntimeError(f"{name}: the number of parts, {len(x)}, cannot change or be inferred, got shape {tuple(shape)}")
    if shape.count(-1) > 1:
        raise RuntimeError(f"{name}: expected at most one -1, got shape {tuple(shape)}")
    return [
        [own[d] if n == -1 and d < len(own) else n for d, n in enumerate(shape[1:])] for own in x._shapes
    ]


def _view(x, *shape, size=()):
    shapes = iter(_new_shapes("view", x, shape or size))
    return _viewed(x, lambda part: part.view(next(shapes)))


def _reshape(x, *shape, size=()):
    shapes = _new_shapes("reshape", x, shape or size)
    try:
        rest = iter(shapes)
        return _viewed(x, lambda part: part.view(next(rest)))
    except RuntimeError:
        return strided_from_list([part.reshape(own) for part, own in zip(x.unbind(), shapes, strict=True)])


VIEWS = {
    "transpose": _transpose, "select": _select, "getitem": _getitem, "narrow": _narrow, "split": _split,
    "split_with_sizes": _split_with_sizes, "chunk": _chunk, "squeeze": _squeeze, "unsqueeze": _unsqueeze, "view": _view,
    "reshape": _reshape,
}  # fmt: skip
