"""Define the functions that checkpoints and pickles call by name to rebuild tensors.

Each takes exactly what a pickle stream holds and checks all of it, since the stream may have been
written by anybody: types, signs, products, and that the tensor stays inside its storage.
"""

import sys
import traceback
from collections import OrderedDict
from types import MemberDescriptorType

import facula
from facula._serialization import tensors as _core
from facula._serialization.texts import shown
from facula.storage import TypedStorage, storage_class_name


def _untyped(storage):
    if isinstance(storage, TypedStorage):
        return storage._untyped_storage
    if isinstance(storage, facula.UntypedStorage):
        return storage
    raise RuntimeError(f"load: a tensor names {type(storage).__name__} as its storage")


def _checked(storage, dtype, offset, size, stride):
    if not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise RuntimeError("load: a tensor's size and stride are not tuples")
    if not isinstance(dtype, facula.dtype):
        raise RuntimeError(f"load: a tensor's dtype is {shown(dtype)}")
    _core.check_extent(storage.nbytes(), dtype, offset, size, stride)
    return _core.tensor_from_storage(storage, dtype, offset, size, stride)


def _finish(tensor, requires_grad, backward_hooks, metadata=None):
    _refuse_hooks(backward_hooks, "tensor")
    if type(metadata) not in (dict, type(None)):
        raise RuntimeError(f"load: a tensor carries metadata that is no dict: {shown(metadata)}")
    for flag in metadata or ():
        if type(flag) is not str or flag not in ("conj", "neg") or type(metadata[flag]) is not bool:
            raise RuntimeError(f"load: a tensor carries unknown metadata {shown(metadata)}")
        if metadata[flag]:
            tensor = tensor.conj() if flag == "conj" else tensor._neg_view()
    return _requiring_grad(tensor, requires_grad)


def _requiring_grad(tensor, requires_grad):
    if not isinstance(requires_grad, bool):
        raise RuntimeError(f"load: requires_grad is {shown(requires_grad)}, not a bool")
    if requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"load: a tensor of dtype {tensor.dtype} cannot require gradients")
    return tensor.requires_grad_() if requires_grad else tensor


def _refuse_hooks(hooks, owner):
    if not (hooks is None or (type(hooks) in (OrderedDict, dict, tuple) and not hooks)):
        raise RuntimeError(f"load: a {owner} carries backward hooks, which are code and are not restored")


def _rebuild_tensor(storage, storage_offset, size, stride):
    """Return a tensor of the typed storage's dtype; sizes, strides and the offset count elements."""
    return _checked(_untyped(storage), getattr(storage, "dtype", facula.uint8), storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    """Return what `_rebuild_tensor` gives, with requires_grad and the conj and neg flags of `metadata`."""
    return _finish(
        _rebuild_tensor(storage, storage_offset, size, stride), requires_grad, backward_hooks, metadata
    )


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    """Return what `_rebuild_tensor_v2` gives, over an untyped storage and with its dtype given apart."""
    return _finish(
        _checked(_untyped(storage), dtype, storage_offset, size, stride),
        requires_grad,
        backward_hooks,
        metadata,
    )


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """Return nn.Parameter over `data`."""
    if not isinstance(data, facula.Tensor) or not isinstance(requires_grad, bool):
        raise RuntimeError("load: a parameter needs a tensor and a bool, got something else")
    _refuse_hooks(backward_hooks, "parameter")
    return facula.nn.Parameter(_requiring_grad(data.detach(), requires_grad), requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """Return what `_rebuild_parameter` gives, with the attributes that a program set on it."""
    return set_attributes(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    """Return a tensor on the meta device: shape without data."""
    if not isinstance(dtype, facula.dtype) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise RuntimeError("load: a meta tensor needs a dtype and two tuples, got something else")
    # There is no storage to exceed, so the check is only one for numbers that overflow.
    _core.check_extent(1 << 62, dtype, 0, size, stride)
    return _requiring_grad(facula.empty_strided(size, stride, dtype=dtype, device="meta"), requires_grad)


def _rebuild_sparse_tensor(layout, data):
    """Return a sparse COO tensor (indices, values, size[, is_coalesced]) or a compressed one."""
    try:
        if layout is facula.sparse_coo:
            indices, values, size, *coalesced = data
            made = facula.sparse_coo_tensor(indices, values, size, check_invariants=True)
            return made._coalesced_(coalesced[0]) if coalesced else made
        compressed, plain, values, size = data
        return facula.sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=True)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, NotImplementedError):
            raise
        raise RuntimeError(f"load: {error}") from None


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    """Return a tensor whose values traveled as a numpy array."""
    return _moved(facula.from_numpy(data), dtype, device, requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    """Return a tensor whose values traveled as a CPU tensor."""
    if type(data) is not facula.Tensor:
        raise RuntimeError(f"load: a device tensor is made from {shown(data)}, not from a tensor")
    return _moved(data, dtype, device, requires_grad)


def _moved(tensor, dtype, device, requires_grad):
    if not isinstance(dtype, facula.dtype) or not isinstance(device, (str, facula.device)):
        raise RuntimeError(f"load: a tensor moves to {shown(dtype)}, {shown(device)}, not to a dtype and a device")
    try:
        place = facula.device(device)
    except RuntimeError as error:
        raise RuntimeError(f"load: {error}") from None
    if place.type not in ("cpu", "meta") and not (place.type == "cuda" and facula.cuda.is_available()):
        raise RuntimeError(f"load: the checkpoint moves a tensor to device {place}, which is not here")
    return _requiring_grad(tensor.to(dtype=dtype, device=place), requires_grad)


def _rebuild_from_type_v2(function, new_type, args, state):
    """Return a tensor of class `new_type` with the attributes of `state`; `function(*args)` makes its data."""
    tensor = function(*args)
    if not issubclass(new_type, facula.Tensor):
        raise RuntimeError(f"load: {new_type.__qualname__} is not a tensor class")
    if tensor.is_nested:  # what is in its state is in its arguments, too
        return tensor
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    return set_attributes(tensor, state)


def set_attributes(obj, state):
    """Put a pickled attribute dict, or a (dict, slots) pair, on `obj` without running its code."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes or {}), (slots or {}):
        if not isinstance(part, dict) or not all(isinstance(name, str) for name in part):
            raise RuntimeError(f"load: the attributes of a {type(obj).__name__} are not a dict of names")
    if attributes:
        obj.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        # a slot proper: assigning to a property would run its code
        if not any(isinstance(vars(cls).get(name), MemberDescriptorType) for cls in type(obj).__mro__):
            raise RuntimeError(f"load: {type(obj).__name__} has no slot {shown(name)}")
        object.__setattr__(obj, name, value)
    return obj


def _get_obj_state(obj):
    """Return what `set_attributes` takes back: the attributes of `obj`, None where it has none."""
    attributes = getattr(obj, "__dict__", None) or None
    slots = {}
    for cls in type(obj).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(obj, name):
                slots[name] = getattr(obj, name)
    return (attributes, slots) if slots else attributes


def reduce_tensor(tensor, needs_untyped=None):
    """Return the (function, arguments) pair that pickles a tensor; `Tensor.__reduce_ex__` answers with it.

    Args:
        needs_untyped: tensor -> whether to name its storage without a dtype; by default where the dtype has
            no storage class of its own.
    """
    if isinstance(tensor, facula.nn.Parameter):
        return reduce_parameter(tensor)
    if tensor.is_nested:
        return tensor.__reduce_ex__(2)
    if tensor.is_quantized:
        return _reduce_quantized(tensor)
    function, args = _reduce_plain(tensor, needs_untyped or _has_no_storage_class)
    state = _get_obj_state(tensor)
    if type(tensor) is facula.Tensor and not state:
        return function, args
    return _rebuild_from_type_v2, (function, type(tensor), args, state)


def _has_no_storage_class(tensor):
    return storage_class_name(tensor.dtype) is None


def reduce_parameter(parameter):
    """Return what `reduce_tensor` gives, of an nn.Parameter; `Parameter.__reduce_ex__` answers with it."""
    state = _get_obj_state(parameter)
    args = (parameter.detach(), parameter.requires_grad, OrderedDict())
    return (_rebuild_parameter_with_state, (*args, state)) if state else (_rebuild_parameter, args)


def _reduce_quantized(tensor):
    from facula._tensor.quantized.tensor import levels_of

    levels = levels_of(tensor)
    storage = TypedStorage(wrap_storage=levels.untyped_storage(), dtype=tensor.dtype)
    geometry = (levels.storage_offset(), tuple(levels.size()), tuple(levels.stride()))
    return _rebuild_qtensor, (storage, *geometry, tensor._scheme.pickled(), False, OrderedDict())


def _reduce_plain(tensor, needs_untyped):
    if tensor.layout is not facula.strided:
        return _reduce_sparse(tensor)
    size, stride = tuple(tensor.size()), tuple(tensor.stride())
    if tensor.device.type == "meta":
        return _rebuild_meta_tensor_no_storage, (tensor.dtype, size, stride, tensor.requires_grad)
    metadata = {flag: True for flag, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on}
    geometry = (tensor.storage_offset(), size, stride, tensor.requires_grad, OrderedDict())
    tail = (metadata,) if metadata else ()
    untyped = tensor.untyped_storage()
    if needs_untyped(tensor):
        return _rebuild_tensor_v3, (untyped, *geometry, tensor.dtype, *tail)
    return _rebuild_tensor_v2, (TypedStorage(wrap_storage=untyped, dtype=tensor.dtype), *geometry, *tail)


def _reduce_sparse(tensor):
    if tensor.layout is facula.sparse_coo:
        data = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
    elif tensor.layout in (facula.sparse_csr, facula.sparse_bsr):
        data = (tensor.crow_indices(), tensor.col_indices(), tensor.values(), tensor.size())
    elif tensor.layout in (facula.sparse_csc, facula.sparse_bsc):
        data = (tensor.ccol_indices(), tensor.row_indices(), tensor.values(), tensor.size())
    else:
        raise NotImplementedError(f"save: tensors of layout {tensor.layout} cannot be saved")
    return _rebuild_sparse_tensor, (tensor.layout, data)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    """Return a nested tensor of layout strided: the memory of its parts, and where each lies."""
    from facula.nested._strided import strided_from_places

    return strided_from_places(buffer, sizes, strides, storage_offsets)


def _flatten_dense_tensors(tensors):
    """Return the elements of several tensors of one dtype in one dimension."""
    return facula.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Return views of `flat` with the shapes of `tensors`, one behind another."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))


def _element_size(dtype):
    """Return the bytes of an element."""
    return dtype.itemsize


def _get_device_index(device, optional=False, allow_cpu=False):
    """Return the number of a device: of one that says it, of an integer, with `optional` of the current one.

    Errors: ValueError where there is none, and for the CPU unless `allow_cpu`, which gives -1.
    """
    if isinstance(device, str):
        device = facula.device(device)
    if isinstance(device, facula.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"device: a device that is not the CPU is expected, got {device}")
        if device.index is not None or device.type == "cpu":
            return -1 if device.type == "cpu" else device.index
    elif isinstance(device, int) and not isinstance(device, bool):
        return device
    if optional:
        return facula.accelerator.current_device_index() if facula.accelerator.is_available() else None
    raise ValueError(f"device: expected an integer or a device with an index, got {device}")


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    """Return a quantized tensor; `quantizer_params` is its scheme, its scales and zero points, and the axis of channels."""
    from facula._tensor.quantized.schemes import LIMITS, scheme_from_file
    from facula._tensor.quantized.tensor import wrap

    dtype = getattr(storage, "dtype", None)
    if dtype not in LIMITS:
        raise RuntimeError(f"load: a quantized tensor has a storage of {shown(dtype)}")
    _refuse_hooks(backward_hooks, "tensor")
    levels = _checked(_untyped(storage), dtype._levels, storage_offset, size, stride)
    return wrap(levels, scheme_from_file(dtype, levels, quantizer_params))


class KeyErrorMessage(str):
    """Represent a text that is its own repr, so that a KeyError prints it with its line breaks."""

    __slots__ = ()

    def __repr__(self):
        return self


class ExceptionWrapper:
    """Carry an exception from another process or thread: its class, and its traceback as text.

    Args:
        exc_info: as of `sys.exc_info()`; by default the exception being handled.
        where: for the message, as in "in DataLoader worker process 2".
    """

    def __init__(self, exc_info=None, where="in background"):
        kind, value, trace = exc_info or sys.exc_info()
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self):
        """Raise the same class of exception here, its message holding the original traceback."""
        message = (
            f"Caught {self.exc_type.__name__} {self.where}; it happened there as follows:\n{self.exc_msg}"
        )
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            exception = self.exc_type(message)
        except Exception:  # a class with a constructor of its own
            raise RuntimeError(message) from None
        raise exception


def _get_available_device_type():
    """Return the kind of accelerator that is there, or None."""
    return "cuda" if facula.cuda.is_available() else None


def _get_device_module(device_type):
    """Return the module of a kind of device, such as `cuda`. Errors: RuntimeError where there is none."""
    module = getattr(facula, device_type, None)
    if module is None:
        raise RuntimeError(f"_get_device_module: a kind of device with a module of its own is expected, got {device_type!r}")
    return module


# PyTorch's files name these functions by its private module, and so do pickles that Facula wrote.
for _name, _function in list(globals().items()):
    if _name.startswith("_rebuild_"):
        _function.__module__ = "facula._utils"
