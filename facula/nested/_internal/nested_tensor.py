"""Define nested tensors of layout jagged: sequences of several lengths as one tensor.

A nested tensor *is* the tensor that has the sequences' rows one behind another (as a `DTensor` is its part): its memory,
its history and its gradient are those of that tensor, and functions are rules (`rules`) that run on it. In Python it shows the
shape of the whole, in which a length that differs is a `NestedInt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from .ragged import NestedInt, Ragged
from .ragged import symbols as _tensor_symint_registry  # noqa: F401  (programs find it here)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LENGTHS = ("min_seqlen", "max_seqlen")
_base = {
    name: next(vars(kind)[name] for kind in facula.Tensor.__mro__ if name in vars(kind)) for name in ("grad", "shape")
}


class OfRows(facula.Tensor):
    """Hold the memory of several sequences, and represent them as one tensor."""

    def values(self):
        """Return the memory of all sequences as a plain tensor, with its history."""
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(facula.Tensor)

    def _like(self, values):
        """Return other values of the same structure."""
        raise NotImplementedError(f"{type(self).__name__}: a class says how its values lie")

    @property
    def _values(self):
        """Return the rows without their history, always the same object: what the tensor was made of, where that had none."""
        if self._rows is None:
            self._rows = self.values().detach()
        return self._rows

    _rows = None

    def _dimension(self, name, dim):
        """Return a dimension counted from the left."""
        count = self.dim()
        if not -count <= dim < count:
            raise IndexError(
                f"{name}: dimension out of range, expected one of {-count} to {count - 1}, got {dim}"
            )
        return dim % count

    @property
    def is_nested(self):
        """True."""
        return True

    def numpy(self, *, force=False):
        """Raise RuntimeError: sequences of several lengths are no array."""
        raise RuntimeError(f"numpy: expected a plain tensor, got {type(self).__name__}")

    def tolist(self):
        """Ask the sequences: `[x.tolist() for x in nested.unbind()]`."""
        raise RuntimeError(f"tolist: expected a plain tensor, got {type(self).__name__}")

    @property
    def grad(self):
        """The gradient, of the same structure."""
        with _C.DisableTorchFunctionSubclass():
            grad = _base["grad"].__get__(self)
        return grad if grad is None else self._as_gradient(grad)

    @grad.setter
    def grad(self, value):
        if isinstance(value, OfRows):
            value = value.values()
        with _C.DisableTorchFunctionSubclass():
            _base["grad"].__set__(self, value)

    def _as_gradient(self, grad):
        """Return what a gradient of the values is to the whole."""
        return grad if isinstance(grad, OfRows) else self._like(grad)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: only tensors created explicitly by the user support the deepcopy protocol, got one with grad_fn"
            )
        made = self._like(self._values.detach().clone()).requires_grad_(self.requires_grad)
        memo[id(self)] = made
        return made


class NestedTensor(OfRows):
    """Represent sequences of several lengths as one tensor. `facula.nested.nested_tensor` and related functions make
    it.

    Args:
        values: the rows of all sequences.
        offsets: where sequences begin, and where the last one ends.
        lengths: how long they are. Default: up to the next.
        requires_grad: whether it gathers a gradient.
    """

    _ragged: Ragged
    _ragged_idx: int
    _call_by_rule: Callable[..., Any]  # of rules.py, which knows this class

    def __new__(cls, values, offsets, *, lengths=None, requires_grad=False, **more):
        at = more.get("_ragged_idx", 1)
        if isinstance(values, NestedTensor) or not all(isinstance(x, facula.Tensor) for x in (values, offsets)):
            kinds = f"{type(values).__name__} and {type(offsets).__name__}"
            raise TypeError(f"NestedTensor: values and offsets are tensors, got {kinds}")
        if not isinstance(at, int) or not 1 <= at <= values.dim():
            raise IndexError(f"NestedTensor: the ragged dimension is one of 1 to {values.dim()}, got {at}")
        made = wrap(values.detach() if values.requires_grad else values, Ragged.of(offsets, lengths, values.size(at - 1)), at)
        made._ragged.stated.update(name for name in _LENGTHS if name in (more.get("_metadata_cache") or {}))
        return made.requires_grad_() if requires_grad else made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NestedTensor._call_by_rule(func, args, kwargs or {})

    # ---- what it is made of

    def _like(self, values):
        return wrap(values, self._ragged, self._ragged_idx)

    def offsets(self):
        """Return where the sequences begin in `values()`, and where the last one ends."""
        return self._ragged.offsets

    def lengths(self):
        """Return how long the sequences are, where there are gaps between them; else None."""
        return self._ragged.lengths

    _offsets = property(offsets)
    _lengths = property(lengths)

    def _get_max_seqlen(self):
        self._ragged.stated.add("max_seqlen")
        return self._ragged.longest

    def _get_min_seqlen(self):
        self._ragged.stated.add("min_seqlen")
        return self._ragged.shortest

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)

    def _stated(self, name):
        """Return the greatest or least length where somebody gave or asked for it: only then it is part of the tensor."""
        if name not in self._ragged.stated:
            return None
        return self._ragged.longest if name == "max_seqlen" else self._ragged.shortest

    _maybe_max_seqlen = property(lambda self: self._stated("max_seqlen"))
    _maybe_min_seqlen = property(lambda self: self._stated("min_seqlen"))

    @property
    def _metadata_cache(self):
        """Return the greatest and least length that are parts of the tensor, each as an empty tensor with that many rows."""
        return {name: facula.zeros(self._stated(name), 0) for name in _LENGTHS if name in self._ragged.stated}

    _max_seqlen_tensor = property(lambda self: self._metadata_cache.get("max_seqlen"))
    _min_seqlen_tensor = property(lambda self: self._metadata_cache.get("min_seqlen"))

    def __tensor_flatten__(self):
        """Return the names of the tensors that it is made of, and what else it takes to make it again."""
        names = ["_values", "_offsets", *(["_lengths"] if self.lengths() is not None else [])]
        names += [f"_{name}_tensor" for name in self._metadata_cache]
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        """Make a nested tensor of the tensors that `__tensor_flatten__` names."""
        cache = {name: inner_tensors[f"_{name}_tensor"] for name in _LENGTHS if f"_{name}_tensor" in inner_tensors}
        return NestedTensor(
            inner_tensors["_values"], inner_tensors["_offsets"], lengths=inner_tensors.get("_lengths"),
            requires_grad=meta["requires_grad"], _ragged_idx=meta["ragged_idx"], _metadata_cache=cache,
        )  # fmt: skip

    # ---- what it shows

    @property
    def layout(self):
        """Return torch.jagged."""
        return facula.jagged

    @property
    def shape(self):
        """The shape; the length that differs is a `NestedInt`."""
        with _C.DisableTorchFunctionSubclass():
            inner = list(_base["shape"].__get__(self))
        inner[self._ragged_idx - 1] = self._ragged.symbol
        return facula.Size([self._ragged.count, *inner])

    def size(self, dim=None):
        """Return the shape, or its length along `dim`."""
        if dim is None:
            return self.shape
        return self.shape[self._dimension("size", dim)]

    def dim(self):
        """Return the number of dimensions, the sequences' one counted."""
        return len(self.shape)

    ndimension = dim
    ndim = property(dim)

    def stride(self, dim=None):
        """Return the strides; that of the sequences is a multiple of the `NestedInt`."""
        with _C.DisableTorchFunctionSubclass():
            inner = list(facula.Tensor.stride(self))
        found = (self._ragged.symbol * inner[self._ragged_idx - 1], *inner)
        return found if dim is None else found[dim]

    def numel(self):
        """Return the number of elements of all sequences."""
        with _C.DisableTorchFunctionSubclass():
            shape = list(_base["shape"].__get__(self))
        shape[self._ragged_idx - 1] = sum(self._ragged.sizes)
        count = 1
        for length in shape:
            count *= length
        return count

    nelement = numel

    def is_contiguous(self, memory_format=facula.contiguous_format):
        """Return whether the elements are in order and without gaps."""
        values = self.values()
        return self._ragged.is_packed(values.size(self._ragged_idx - 1)) and values.is_contiguous(memory_format=memory_format)

    def is_same_size(self, other):
        """Return whether both have one shape."""
        return tuple(self.shape) == tuple(other.shape)

    def __len__(self):
        return self._ragged.count

    def __iter__(self):
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents=None):
        history = ""
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            history = ", requires_grad=True"
        size = "(" + ", ".join(map(str, self.shape)) + ")"
        return f"NestedTensor(size={size}, offsets={self.offsets()}{history}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    # ---- copies

    def __reduce_ex__(self, protocol):
        state = {
            "values": self._values.detach(), "offsets": self.offsets(), "lengths": self.lengths(),
            "_ragged_idx": self._ragged_idx, "_metadata_cache": self._metadata_cache, "requires_grad": self.requires_grad,
        }  # fmt: skip
        return _rebuild_njt, (state,)


def wrap(values, ragged, at):
    """Return a nested tensor that is these values.

    Args:
        values: the rows of all sequences.
        ragged: how they lie.
        at: the ragged dimension, among those of the whole.
    """
    with _C.DisableTorchFunctionSubclass():
        made = values.as_subclass(NestedTensor)
    made._ragged, made._ragged_idx = ragged.on(values.device), at
    if type(values) is facula.Tensor and not values.requires_grad:
        made._rows = values
    return made


def _rebuild_njt(state):
    """Return a nested tensor from a file, of PyTorch's or of ours."""
    if not isinstance(state, dict) or not {"values", "offsets"} <= state.keys():
        raise RuntimeError(f"load: a nested tensor has values and offsets, got {type(state).__name__}")
    return NestedTensor(**state)


def jagged_from_list(tensors, offsets=None):
    """Return a nested tensor of these sequences, and its offsets; gradients go back to them."""
    shapes = [tuple(x.shape) for x in tensors]
    ranks = {len(shape) for shape in shapes}
    if 0 in ranks:
        raise RuntimeError("nested_tensor: every tensor needs a dimension, got a zero-dim one")
    if len(ranks) != 1:
        raise RuntimeError(f"nested_tensor: all sequences must have one number of dimensions, got shapes {shapes}")
    for what in ("dtype", "device"):
        found = {getattr(x, what) for x in tensors}
        if len(found) != 1:
            names = sorted(map(str, found))
            raise RuntimeError(f"nested_tensor: the tensors must be of one {what}, got {', '.join(names)}")
    ragged_at = [i for i in range(ranks.pop()) if len({shape[i] for shape in shapes}) > 1] or [0]
    if len(ragged_at) > 1:
        raise RuntimeError(f"nested_tensor: sequences may differ in one dimension only, got shapes {shapes}")
    at = ragged_at[0]
    if offsets is None:
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + shape[at])
        offsets = facula.tensor(ends, dtype=facula.int64, device=tensors[0].device)
    values = facula.cat(tensors, at)
    ragged = Ragged.of(offsets, None, values.size(at))
    ragged.stated.update(_LENGTHS)
    return wrap(values, ragged, at + 1), offsets


__all__ = ["NestedInt", "NestedTensor", "jagged_from_list", "wrap"]
