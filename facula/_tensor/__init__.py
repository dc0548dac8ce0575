"""Define the methods of Tensor that are written in Python because they need no speed. They are installed into the
built-in type when Facula is imported.

methods        functions of the top level as methods, methods that few programs call, and how classes take them over
overrides_off  the switch that treats tensors of subclasses as plain ones
pickled        copies and pickles
printing, html how tensors are shown
fake           tensors without memory
quantized      tensors of levels
sparse_checks  what must hold of indices of sparse tensors

Here are NumPy's and Python's protocols, and methods that make tensors like this one or concern its memory.
"""

from __future__ import annotations

import numpy as np

from facula import _C

from .methods import overridable
from .overrides_off import DisableTorchFunctionSubclass
from .pickled import __copy__, __deepcopy__, __reduce_ex__, __setstate__, is_wrapper

Tensor = _C.Tensor

# NumPy

asarray = np.asarray


def numpy(self, *, force=False):
    """Do what the core's method leaves: subclasses, copies, and reasons why there is no array."""
    if is_wrapper(self):
        raise RuntimeError(f"numpy: .numpy() is not supported for tensor subclasses without memory, got {type(self).__name__}")
    if self.layout is not _C.strided:
        raise TypeError(f"numpy: only strided tensors have an array's memory (call to_dense() first), got layout {self.layout}")
    tensor = self.detach().cpu().resolve_conj() if force else self
    try:
        return asarray(memoryview(tensor))
    except BufferError:  # the reason follows, or the dtype has no name as a buffer
        pass
    if tensor.requires_grad and not _C.is_grad_enabled():
        return numpy(tensor.detach())
    if tensor.requires_grad:
        raise RuntimeError(
            "numpy: a tensor that requires grad must go through detach() first, "
            f"got shape {tuple(tensor.shape)}"
        )
    if tensor.device.type != "cpu" or tensor.is_meta:  # a wrapper only says that it lies on the CPU
        raise TypeError(f"numpy: only the CPU's memory can be shared (use tensor.cpu()), got device {tensor.device}")
    if tensor.is_conj():
        raise RuntimeError(
            f"numpy: the values are stored as conjugates (use tensor.resolve_conj().numpy()), got {tuple(tensor.shape)}"
        )
    return np.asarray(_Exporter(tensor))


class _Exporter:
    """Expose the memory of a tensor to NumPy. NumPy holds this object as the base of its array, so the tensor stays alive."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = tensor._array_interface()


def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: copy=False, but {array.dtype} has to be converted to {dtype}")
        return array.astype(dtype, copy=True)
    return array.copy() if copy else array


def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array)


def apply_(self, callable):
    """Replace each element by callable(element) in place; return the tensor. For the CPU, and slow: Python is called each
    time.

    Args:
        callable: takes a number and gives a number.

    Errors: RuntimeError for a tensor that requires grad.

    >>> torch.tensor([1.0, 4.0]).apply_(lambda value: value + 1)
    tensor([2., 5.])
    """
    if self.requires_grad:
        raise RuntimeError(f"apply_: not for a tensor that requires grad, got shape {tuple(self.shape)}")
    values = [callable(value) for value in self.detach().reshape(-1).tolist()]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self, tensor, callable):
    """Replace each element by callable(element, element of `tensor`) in place; return the tensor. Slow, as apply_.

    `tensor` is broadcast to this shape.

    Args:
        tensor: what broadcasts to the shape of this tensor.
        callable: takes two numbers and gives one.

    Errors: RuntimeError where one of the two requires grad.

    >>> torch.tensor([1.0, 4.0]).map_(torch.tensor([10.0, 20.0]), lambda a, b: a + b)
    tensor([11., 24.])
    """
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError(f"map_: not for a tensor that requires grad, got shape {tuple(self.shape)}")
    pairs = zip(self.reshape(-1).tolist(), tensor.expand(self.shape).reshape(-1).tolist())
    values = [callable(a, b) for a, b in pairs]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


# Python's protocols


def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iter: a 0-d tensor cannot be iterated over, got shape ()")
    return iter(self.unbind(0))


def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex, bool, np.number, np.bool_)):
        return bool((self == element).any())
    raise RuntimeError(f"Tensor.__contains__: element is a Tensor or a number, got {type(element).__name__}")


def __format__(self, spec):
    if self.dim() == 0 and type(self) is Tensor and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def __repr__(self, *, tensor_contents=None):
    from .printing import tensor_str

    return tensor_str(self, tensor_contents=tensor_contents)


def __complex__(self):
    if self.numel() != 1:
        shape = list(self.shape)
        raise ValueError(f"complex: a tensor of one element can be converted to a Python number, got shape {shape}")
    return complex(self.item())


def _dir(self):
    names = {*dir(type(self)), *self.__dict__} - {"volatile"}
    return sorted(names if self.is_cuda else names - {"__cuda_array_interface__"})


def __cuda_array_interface__(self):
    if not self.is_cuda:
        raise AttributeError(f"__cuda_array_interface__: only for tensors on a GPU (use cuda()), got device {self.device}")
    from facula.cuda import _interface

    return _interface.interface_of(self)


def __torch_function__(cls, func, types, args=(), kwargs=None):
    from facula.overrides import default_torch_function

    return default_torch_function(cls, func, types, args, kwargs)


def __array_namespace__(self, *, api_version=None):
    from facula import array_api

    return array_api.namespace(api_version)


def is_distributed(self):
    """Return False, as of every tensor that is not a `DTensor`.

    >>> torch.ones(2).is_distributed()
    False
    """
    return False


def _is_zerotensor(self):
    """Return False: zeros have memory."""
    return False


def _make_wrapper_subclass(
    cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False, dispatch_sizes_strides_policy=None, dispatch_device=False,
    dispatch_layout=False,
):  # fmt: skip
    """Return a tensor of class `cls` with a shape and a dtype and without memory: its `__torch_dispatch__` does the work.

    Errors: RuntimeError where `cls` has no `__torch_dispatch__`.
    """
    from facula.utils._python_dispatch import _disable_current_modes, has_dispatch

    if not has_dispatch(cls):
        raise RuntimeError(f"_make_wrapper_subclass: {cls.__name__} must define __torch_dispatch__, got a class without")
    import facula

    with _disable_current_modes():
        if strides is None:
            data = facula.empty(size, dtype=dtype, device="meta", memory_format=memory_format or facula.contiguous_format)
        else:
            data = facula.empty_strided(size, strides, dtype=dtype, device="meta")
        if storage_offset:
            span = 1 + sum((n - 1) * step for n, step in zip(data.shape, data.stride(), strict=True)) if data.numel() else 0
            storage = facula.empty(storage_offset + span, dtype=data.dtype, device="meta").untyped_storage()
            data = _C._tensor_from_storage(storage, data.dtype, storage_offset, data.shape, data.stride())
    result = Tensor._make_subclass(cls, data, requires_grad)
    result.__dict__["_reported_device"] = facula.device("cpu" if device is None else device)
    return result


# Relatives: tensors like this one


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """Return a tensor with a copy of `data`, by default in this tensor's dtype and on its device.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor.
        dtype: by default that of this tensor.
        device: by default that of this tensor.
        requires_grad: whether to record what is computed from it.
        layout: taken for compatibility; the result is strided.
        pin_memory: puts it in page-locked memory of the CPU, for quick copies to a GPU.

    >>> torch.zeros(2, dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    device = self.device if device is None else device
    return _C.tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory)


def new(self, *args, **kwargs):
    """Return a tensor of this dtype and on this device, in the manner of the constructor `torch.Tensor`.

    Args:
        args: sizes, whose elements are not set; or a sequence of numbers to copy; or a tensor to share; nothing for no
            elements.
        kwargs: `device`, which must be of the same type as this tensor's, and `size` in the place of sizes.

    `new_empty` and `new_tensor` say more plainly which is meant.

    >>> torch.zeros(1, dtype=torch.int64).new([1, 2]), torch.zeros(1).new(2, 3).shape
    (tensor([1, 2]), torch.Size([2, 3]))
    """
    if "size" in kwargs and not args:
        args = (_C.Size(kwargs["size"]),)
        kwargs = {name: value for name, value in kwargs.items() if name != "size"}
    if self.layout is _C.sparse_coo:
        return _new_sparse(self, *args, **kwargs)
    return _C._legacy_new("new", self.dtype, self.device, args, kwargs)


def _new_sparse(tensor, *args, device=None):
    parts = args or (_C.Size([0]),)
    known = [isinstance(part, (Tensor, _C.Size)) for part in parts]
    if not all(known) or (len(parts) == 1 and not isinstance(parts[0], _C.Size)):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(f"new: of a sparse tensor a Size, or indices and values, are expected, got {kinds}")
    from facula.functions.sparse import sparse_coo_tensor

    return sparse_coo_tensor(*parts, dtype=tensor.dtype, device=tensor.device if device is None else device)


def type_(self, dtype=None, non_blocking=False):
    """Return the name of the tensor's type without arguments, e.g. "torch.FloatTensor"; else the tensor in another dtype.

    Args:
        dtype: a dtype, such a name, or a class such as `torch.LongTensor`; the tensor itself where it is of that type already.
        non_blocking: lets a copy between pinned memory and a GPU go on while the program continues.

    >>> x = torch.tensor([1.9])
    >>> x.type(), x.type(torch.int32), x.type("torch.LongTensor")
    ('torch.FloatTensor', tensor([1], dtype=torch.int32), tensor([1]))
    """
    from facula.functions import tensor_types

    if dtype is None:
        name = tensor_types.name_of(self.dtype, self.device)
        space, _, kind = name.rpartition(".")
        return name if self.layout is _C.strided else f"{space}.sparse.{kind}"
    wanted, device = tensor_types.parse(dtype)
    return self.to(device=device if device is not None else self.device, dtype=wanted, non_blocking=non_blocking)


type_.__name__ = "type"


# Memory


def pin_memory(self, device=None):
    """Return the elements in pinned memory, from which a GPU copies while the host goes on; the tensor itself where it is
    there.

    `device` is the device that would use the memory, a CUDA device.

    Errors: RuntimeError for another one, and without a GPU.

    >>> x = torch.ones(2)
    >>> x.pin_memory().is_pinned() if torch.cuda.is_available() else True
    True
    """
    if self.is_pinned(device):
        return self
    return _C._pinned_empty_like(self).copy_(self)


def storage(self):
    """Return the elements of the whole storage, as a TypedStorage of this tensor's dtype; `untyped_storage` gives the bytes.

    >>> torch.arange(4.0)[2:].storage().size()
    4
    """
    from facula.storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def is_pinned(self, device=None):
    """Return whether the elements lie in pinned memory, from which a GPU copies by itself.

    `device` is the device that would use the memory.

    Errors: RuntimeError for one that is not a CUDA device.

    >>> torch.ones(2).is_pinned()
    False
    """
    if device is not None and _C.device(device).type != "cuda":
        raise RuntimeError(f"is_pinned: expected a CUDA device, got {device}")
    return _C._is_pinned(self)


def storage_type(self):
    """Return the legacy storage class of the dtype.

    >>> torch.ones(2).storage_type() is torch.FloatStorage
    True
    """
    from facula import storage as storages

    return storages.LEGACY_STORAGES[storages.storage_class_name(self.dtype)]


_OVERRIDABLE = (
    apply_,
    map_,
    __contains__,
    __reversed__,
    new_tensor,
    new,
    type_,
    pin_memory,
    storage,
    is_pinned,
)
_PLAIN = (
    __array__,
    __array_wrap__,
    __iter__,
    __format__,
    __repr__,
    __complex__,
    __copy__,
    __deepcopy__,
    __reduce_ex__,
    __setstate__,
    __array_namespace__,
    storage_type,
    is_distributed,
    _is_zerotensor,
)

_C._install_methods(
    {
        **{f.__name__: f for f in _PLAIN},
        **{f.__name__: overridable(f) for f in _OVERRIDABLE},
        "__dir__": _dir,
        "_numpy": overridable(numpy),
        "_typed_storage": storage,
        "__nonzero__": Tensor.__bool__,
        "__long__": Tensor.__int__,
        "__array_priority__": 1000,
        "__torch_function__": classmethod(__torch_function__),
        "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
        "__torch_dispatch__": _C._disabled_torch_dispatch_impl,
        "__cuda_array_interface__": property(__cuda_array_interface__),
        "__div__": Tensor.__truediv__,
        "__rdiv__": Tensor.__rtruediv__,
        "__idiv__": Tensor.__itruediv__,
    }
)
_C._set_default_torch_function(__torch_function__)
_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
_C.TensorBase = Tensor
