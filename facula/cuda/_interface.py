"""Implement `__cuda_array_interface__`, version 3: other libraries read our tensors, and tensors use memory of other
libraries.
"""

import facula
from facula import _C

_TYPES = {
    facula.bool: "|b1",
    facula.uint8: "|u1",
    facula.int8: "|i1",
    facula.uint16: "<u2",
    facula.int16: "<i2",
    facula.uint32: "<u4",
    facula.int32: "<i4",
    facula.uint64: "<u8",
    facula.int64: "<i8",
    facula.bfloat16: "<V2",
    facula.float16: "<f2",
    facula.float32: "<f4",
    facula.float64: "<f8",
    facula.complex64: "<c8",
    facula.complex128: "<c16",
}
_DTYPES = {text[1:]: dtype for dtype, text in _TYPES.items()}


def interface_of(tensor):
    """Return what a tensor's attribute says; `stream` is the one that its values are made on (1: the default one)."""
    if tensor.requires_grad:
        raise RuntimeError("__cuda_array_interface__: the tensor requires a gradient (use detach()), got one that does")
    if tensor.dtype not in _TYPES:
        raise AttributeError(f"__cuda_array_interface__: it has no such element type, got {tensor.dtype}")
    if tensor.is_conj():
        raise RuntimeError("__cuda_array_interface__: the values are stored as conjugates (use resolve_conj()), got such ones")
    size = tensor.element_size()
    return {
        "typestr": _TYPES[tensor.dtype],
        "shape": tuple(tensor.shape),
        "strides": None if tensor.is_contiguous() else tuple(stride * size for stride in tensor.stride()),
        "data": (tensor.data_ptr(), False),
        "version": 3,
        "stream": _C._cuda_current_stream(tensor.device.index) or 1,
    }


def _dtype(text):
    if text[:1] not in "<|=" or text[1:] not in _DTYPES:
        raise TypeError(f"__cuda_array_interface__: expected an element type of a tensor, in little endian order, got {text!r}")
    return _DTYPES[text[1:]]


def _strides(shape, strides, size):
    """Return the strides in elements."""
    if strides is None:
        found, step = [], 1
        for length in reversed(shape):
            found.insert(0, step)
            step *= max(length, 1)
        return tuple(found)
    if any(stride % size for stride in strides):
        raise ValueError(f"__cuda_array_interface__: strides of whole elements of {size} bytes, got {tuple(strides)}")
    return tuple(stride // size for stride in strides)


def tensor_of(source):
    """Return a tensor on the memory of an object with the attribute; this thread's stream waits for the one that it names."""
    facts = source.__cuda_array_interface__
    if facts.get("mask") is not None:
        raise NotImplementedError("__cuda_array_interface__: expected an array without a mask, got one with a mask")
    dtype, shape = _dtype(facts["typestr"]), tuple(facts["shape"])
    address, read_only = facts["data"]
    device = _C._cuda_device_of(address) if address else _C._cuda_current_device()
    if facts.get("version", 0) >= 3:
        _wait_for(facts.get("stream"), device)
    strides = _strides(shape, facts.get("strides"), dtype.itemsize)
    return _C._cuda_tensor_at(source, address, dtype, shape, strides, device, bool(read_only))


def _wait_for(stream, device):
    if stream is None:
        return
    if stream in (0, 2):
        raise ValueError(f"__cuda_array_interface__: stream is None, 1 for the default stream or a handle, got {stream}")
    made_on, here = 0 if stream == 1 else stream, _C._cuda_current_stream(device)
    if made_on == here:
        return
    event = _C._cuda_new_event(2)
    _C._cuda_record_event(event, device, made_on)
    _C._cuda_block_on_event(event, device, here)
