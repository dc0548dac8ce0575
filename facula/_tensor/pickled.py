"""Copy and pickle tensors, and define the functions by which pickles find the core's constants and types again."""

from __future__ import annotations

import copy
import copyreg

from facula import _C

from .overrides_off import DisableTorchFunctionSubclass

Tensor = _C.Tensor


def constant(name):
    """Return a dtype, layout, memory format or class of the core by its name."""
    return getattr(_C, name)


def size(*sizes):
    """Return a Size."""
    return _C.Size(sizes)


def device(*parts):
    """Return a device by its type and, perhaps, index."""
    return _C.device(*parts)


def _reduce_class(cls):
    return (constant, ("Tensor",)) if cls is _C.Tensor else cls.__qualname__


copyreg.pickle(_C._TensorMeta, _reduce_class)


# ---- methods of Tensor


def __copy__(self):
    return copy._reconstruct(self, None, *_shallow(self))


def _shallow(tensor):
    """Return what copy.copy rebuilds: the same memory and attributes in another object."""
    return _rebuild_copy, (type(tensor), tensor.detach(), tensor.requires_grad), tensor.__dict__ or None


def _rebuild_copy(cls, data, requires_grad):
    return Tensor._make_subclass(cls, data, requires_grad)


def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: only tensors made by the program itself can be copied (use detach() or clone()), "
            f"got the result of {self.grad_fn.name() if self.grad_fn is not None else 'an op'}"
        )
    if is_wrapper(self):
        return _deep_wrapper(self, memo)
    with DisableTorchFunctionSubclass(), _no_recording():
        result = _deep_data(self, memo)
        if self.requires_grad:
            result.requires_grad_(True)
        if type(self) is not Tensor:
            result = Tensor._make_subclass(type(self), result, self.requires_grad)
        # Before the gradient and attributes are copied, because they may refer to this tensor.
        memo[id(self)] = result
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        if self.__dict__:
            result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        for name in _slots(type(self)):
            if hasattr(self, name):
                setattr(result, name, copy.deepcopy(getattr(self, name), memo))
    return result


def is_wrapper(tensor):
    """Return whether the tensor has no memory of its own, and a class that stands in for kernels."""
    return "_reported_device" in tensor.__dict__ and "fake_mode" not in tensor.__dict__


def _deep_wrapper(tensor, memo):
    """Make the copy by the tensor's class, with copies of the attributes."""
    with _no_recording():
        result = tensor.clone()
    if type(result) is not type(tensor):
        raise RuntimeError(
            f"deepcopy: __torch_dispatch__ of {type(tensor).__name__} must give a {type(tensor).__name__} for clone, "
            f"got {type(result).__name__}"
        )
    memo[id(tensor)] = result
    if tensor.requires_grad:
        result.requires_grad_(True)
    result.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return result


def _deep_data(tensor, memo):
    """Return the same geometry over a copy of the storage, one copy per storage and deepcopy."""
    if tensor.is_meta or tensor.layout is not _C.strided:
        return _C.Tensor.detach(tensor).clone()
    storage = copy.deepcopy(tensor.untyped_storage(), memo)
    data = _C._tensor_from_storage(storage, tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride())
    return data.conj() if tensor.is_conj() else data


def _slots(cls):
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        yield from (n for n in ((names,) if isinstance(names, str) else names) if n not in ("__dict__", "__weakref__"))


class _no_recording:
    def __enter__(self):
        self.before = _C._set_grad_enabled(False)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before)


def __reduce_ex__(self, protocol):
    from facula._serialization import rebuild

    return rebuild.reduce_tensor(self)


def __setstate__(self, state):
    """Take (storage, offset, size, stride[, requires_grad, ...]), as very old pickles hold it, or attributes."""
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__: only a leaf can be restored, got the result of an op")
    storage, offset, size, stride, *rest = state
    self.set_(storage, offset, size, stride)
    if rest:
        self.requires_grad_(bool(rest[0]))
