"""Make tensors on memory of others: DLPack, buffers, arrays. Nothing here copies unless a caller requests it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from facula import _C

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula.types import Device

Tensor = _C.Tensor
_warned = []


def _warn_read_only(name):
    from .settings import is_warn_always_enabled

    if not _warned or is_warn_always_enabled():
        _warned.append(name)
        warnings.warn(
            f"{name}: The given buffer is not writable. Writing to the tensor raises (copy it to write)",
            UserWarning,
            stacklevel=3,
        )


def from_dlpack(ext_tensor: Any, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of an object with `__dlpack__`, or of a DLPack capsule.

    Args:
        ext_tensor: an array of any library that exports DLPack, or the capsule that it exports. A capsule serves once.
        device: where the values are wanted; None for where they are.
        copy: True for memory of its own, False to raise where one would be needed, None for a copy where needed.

    Returns: a tensor of the exporter's shape, strides and dtype. Unless copied, both see what is written to either.

    Errors: BufferError where the memory cannot be shared; ValueError for copy=False where the values would have to move.

    >>> import numpy as np
    >>> a = np.zeros(3)
    >>> t = torch.from_dlpack(a)
    >>> a[0] = 5
    >>> t
    tensor([5., 0., 0.], dtype=torch.float64)
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        tensor = _C._from_dlpack(ext_tensor)
    else:
        tensor = _import_dlpack(ext_tensor, device, copy)
    wanted = tensor.device if device is None else _C.device(device)
    if tensor.device.type != wanted.type or wanted.index not in (None, tensor.device.index):
        if copy is False:
            raise ValueError(f"from_dlpack: copy=False, but the values have to move to {device}, got {tensor.device}")
        tensor = tensor.to(device)
    return tensor


def _import_dlpack(source, device, copy):
    asked = {"max_version": (1, 1)}
    if copy is not None:
        asked["copy"] = copy
    ordered = _stream_of_this_thread(source)
    try:
        return _C._from_dlpack(source.__dlpack__(**asked, **ordered))
    except TypeError:  # a producer of the time before versions
        tensor = _C._from_dlpack(source.__dlpack__(**ordered))
        return tensor.clone() if copy else tensor


def _stream_of_this_thread(source):
    """Return what tells a producer with memory of CUDA the stream that will use it: 1 is DLPack's number of the default one."""
    kind, index = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (1, 0)
    if int(kind) != 2 or not _C._cuda_device_count():
        return {}
    return {"stream": _C._cuda_current_stream(index) or 1}


def frombuffer(buffer: Any, *, dtype: facula.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a 1-D tensor on the memory of any object with the buffer protocol, such as bytes, bytearray, array.array or
    memoryview.

    Args:
        buffer: the object; it is kept alive by the tensor.
        dtype: what the bytes are read as.
        count: elements to take; negative for all of them.
        offset: bytes to leave out at the start.
        requires_grad: whether autograd records what is computed from the tensor.

    Returns: a tensor of shape (count,) that shares the bytes: a write to one is seen in the other. Memory that is read-only is
    shared, too, with a warning, once.

    Errors: ValueError for an object without a buffer, an empty one, an offset outside, a count of 0, elements that do not fit,
    and bytes that are no multiple of the element's size where count is negative.

    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    >>> torch.frombuffer(bytearray(8), dtype=torch.float32, count=1, offset=4)
    tensor([0.])
    """
    try:
        storage = _C._storage_from_buffer(buffer)
    except TypeError:
        raise ValueError(
            f"frombuffer: the object does not implement Python buffer protocol, got {type(buffer).__name__}"
        ) from None
    size, available = dtype.itemsize, storage.nbytes() - offset
    if storage.nbytes() == 0 or count == 0:
        raise ValueError(f"frombuffer: expected both buffer length ({storage.nbytes()}) and count ({count}) to differ from 0")
    if offset < 0 or available <= 0:
        raise ValueError(f"frombuffer: offset ({offset} bytes) must be inside, below buffer length ({storage.nbytes()} bytes)")
    if count < 0 and available % size:
        raise ValueError(
            f"frombuffer: buffer length ({available} bytes) after offset ({offset} bytes) must be a multiple of {size}, "
            f"the size of {dtype}"
        )
    wanted = available // size if count < 0 else count
    if wanted * size > available:
        raise ValueError(
            f"frombuffer: requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not exceed "
            f"buffer length ({storage.nbytes()} bytes)"
        )
    part = storage[offset:] if offset else storage
    tensor = _C._tensor_from_storage(part, dtype, 0, (wanted,), (1,))
    if memoryview(buffer).readonly:
        _warn_read_only("frombuffer")
    return tensor.requires_grad_() if requires_grad else tensor


def asarray(obj: Any, *, dtype: facula.dtype | None = None, device: Device = None, copy: bool | None = None,
            requires_grad: bool | None = None) -> Tensor:  # fmt: skip
    """Return a tensor of any array-like: a tensor, a NumPy array, something with DLPack or the buffer protocol, or numbers.

    Args:
        obj: the values. What has memory of its own is shared; nested sequences of numbers are copied.
        dtype: the result's dtype; None for that of obj.
        device: where the result is; None for where obj is.
        copy: True for memory of its own; False to raise where sharing is impossible; None for a copy where needed.
        requires_grad: whether autograd records what is computed from the result. False cuts off the history of a tensor
            given, None leaves it as it is.

    Returns: a tensor of the shape of obj; 0-d for a number.

    Errors: ValueError for copy=False where dtype, device or the kind of obj need a copy; RuntimeError for a tensor that
    requires a gradient and a dtype that cannot.

    >>> x = torch.zeros(2)
    >>> torch.asarray(x) is x
    True
    >>> torch.asarray([1, 2], dtype=torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    tensor, shared = _as_tensor(obj, dtype)
    if shared and dtype is device is copy is None and (requires_grad is None or requires_grad == tensor.requires_grad):
        return tensor
    result = tensor
    if requires_grad is False and tensor.requires_grad:
        result = tensor.detach()
    wanted = {"dtype": dtype or tensor.dtype, "device": tensor.device if device is None else _C.device(device)}
    changes = wanted["dtype"] is not tensor.dtype or wanted["device"].type != tensor.device.type
    if copy is False and (not shared or changes):
        numpy_number = hasattr(obj, "__array_interface__") and not hasattr(obj, "__len__")
        raise (RuntimeError if numpy_number else ValueError)(
            f"asarray: copy=False, but a copy is needed for dtype {dtype}, device {device}, got {type(obj).__name__}"
        )
    if changes:
        result = result.to(**wanted)
    elif copy and shared:
        result = result.clone()
    if tensor.requires_grad and requires_grad is None and not (result.is_floating_point() or result.is_complex()):
        raise RuntimeError(f"asarray: only floating-point and complex tensors can require gradients, got dtype {dtype}")
    if requires_grad and not result.requires_grad:
        result.requires_grad_()
    return result


def _as_tensor(obj, dtype):
    """Return (tensor, whether it is on the memory of `obj`)."""
    if isinstance(obj, Tensor):
        return obj, True
    if isinstance(obj, np.ndarray) and obj.ndim:  # asking for the interface would build a dictionary
        return _C.from_numpy(obj), True
    if hasattr(obj, "__array_interface__") and getattr(obj, "shape", None) != ():
        return _C.from_numpy(obj), True
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj), True
    if type(obj).__name__ == "PyCapsule":
        return _C._from_dlpack(obj), True
    if isinstance(obj, _C.UntypedStorage) and obj.nbytes() == 0:
        return _C.empty(0, dtype=dtype or _C.get_default_dtype()), True
    if _exports_buffer(obj):
        return frombuffer(obj, dtype=dtype or _C.get_default_dtype()), True
    return _C.tensor(obj, dtype=dtype), False


def _exports_buffer(obj):
    if isinstance(obj, (list, tuple, int, float, complex)) or hasattr(
        obj, "__array_interface__"
    ):
        return False
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def from_file(filename: Any, shared: bool | None = None, size: int = 0, *, dtype: facula.dtype | None = None,
              layout: facula.layout | None = None, device: Device = None, pin_memory: bool | None = None,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return a 1-D tensor on the bytes of a file, which are read when they are used.

    Args:
        filename: the path of the file.
        shared: True to write changes back to the file, which is made or grown as needed; else it is left as it is.
        size: number of elements, taken from the start of the file.
        dtype: what the bytes are read as; default: the default dtype.
        layout, device, pin_memory: a strided tensor in the CPU's memory is the only one there is.
        requires_grad: whether autograd records what is computed from the tensor.

    Errors: RuntimeError for a size that is not positive, for a file that is too short and not shared, and for other layouts,
    devices and pinned memory.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> torch.from_file(path, shared=True, size=3, dtype=torch.int32).fill_(7)
    tensor([7, 7, 7], dtype=torch.int32)
    >>> torch.from_file(path, size=2, dtype=torch.int32)
    tensor([7, 7], dtype=torch.int32)
    """
    dtype = dtype or _C.get_default_dtype()
    if pin_memory or (layout or _C.strided) is not _C.strided or _C.device(device or "cpu").type != "cpu":
        raise RuntimeError(f"from_file: a strided tensor in the CPU's memory, got {layout=}, {device=}, {pin_memory=}")
    if size <= 0:
        raise RuntimeError(f"from_file: expected a positive number of elements, got size={size}")
    storage = _C.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    tensor = _C._tensor_from_storage(storage, dtype, 0, (size,), (1,))
    return tensor.requires_grad_(requires_grad)
