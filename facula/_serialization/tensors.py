"""Make every call from serialization into the core; no other file of this folder makes one.

Needed from the core:
  facula.UntypedStorage(nbytes)       uninitialized CPU storage; .nbytes(), .device, ._cdata (identity, int)
  _C._storage_from_buffer(buffer)     UntypedStorage over any Python buffer: no copy, keeps `buffer` alive
  _C._storage_view(storage)           writable memoryview (format 'B') of a CPU storage's bytes, no copy
  _C._tensor_from_storage(storage, dtype, offset, sizes, strides)
                                      a tensor over `storage`; offset and strides count elements
  Tensor: untyped_storage storage_offset size stride dtype device layout requires_grad is_conj is_neg
  facula.dtype.itemsize, facula.empty_strided, facula.nn.Parameter
"""

import math

import facula
from facula import _C

from .texts import shown


def storage_from_buffer(buffer):
    """Return an untyped storage over `buffer`, sharing its memory."""
    return _C._storage_from_buffer(buffer)


def new_storage(nbytes):
    """Return an uninitialized CPU storage of `nbytes` bytes."""
    return facula.UntypedStorage(nbytes)


def storage_view(storage):
    """Return the bytes of a CPU storage as a writable memoryview."""
    return _C._storage_view(storage)


def storage_key(storage):
    """Return what two storage objects share exactly when they are the same memory block."""
    return storage._cdata


def tensor_from_storage(storage, dtype, offset, sizes, strides):
    """Return a tensor over `storage`; the caller has checked that it lies inside."""
    return _C._tensor_from_storage(storage, dtype, offset, tuple(sizes), tuple(strides))


def check_extent(nbytes, dtype, offset, sizes, strides):
    """Raise RuntimeError unless sizes and strides (in elements) stay inside `nbytes` bytes."""
    numbers = (offset, *sizes, *strides)
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers) or len(sizes) != len(strides):
        raise RuntimeError(
            f"load: a tensor has impossible geometry: offset {shown(offset)}, "
            f"size {shown(sizes)}, stride {shown(strides)}"
        )
    if len(sizes) > 64:
        raise RuntimeError(f"load: a tensor claims {len(sizes)} dimensions, more than 64")
    if math.prod(sizes) >= 1 << 62:
        raise RuntimeError(f"load: a tensor of size {tuple(sizes)} has more elements than any memory")
    last = offset - 1 if 0 in sizes else offset + sum((n - 1) * s for n, s in zip(sizes, strides))
    if (last + 1) * dtype.itemsize > nbytes:
        raise RuntimeError(
            f"load: a tensor reaches outside its storage: size {tuple(sizes)}, stride {tuple(strides)}, "
            f"offset {offset}, dtype {dtype}, but the storage has {nbytes} bytes"
        )
