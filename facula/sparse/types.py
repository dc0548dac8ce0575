"""Define the old names of classes: ``sparse.FloatTensor(indices, values, size)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any


class _SparseType(type):
    """Make sparse tensors, and accept them as instances."""

    def __call__(cls, *args):
        if len(args) == 1 and isinstance(args[0], facula.Tensor):
            raise TypeError(f"{cls.__name__}: indices and values, or sizes, are expected, got one Tensor")
        if not args:
            return facula.sparse_coo_tensor((0,), dtype=cls.dtype)
        if isinstance(args[0], facula.Tensor):
            return facula.sparse_coo_tensor(*args, dtype=cls.dtype)
        size = args[0] if isinstance(args[0], (tuple, list)) else args
        return facula.sparse_coo_tensor(tuple(size), dtype=cls.dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, facula.Tensor) and instance.is_sparse and instance.dtype is cls.dtype


_INTEGERS = (facula.uint8, facula.int8, facula.int16, facula.int32, facula.int64)
_TEXT = """An old name that makes COO tensors of {dtype}, and for isinstance stands for them.

Args:
    args: indices, int64 of shape (dimensions, entries), values, and sizes (those that the indices need without); or only
        sizes, one by one or as a sequence, for a tensor without entries.

Errors: TypeError for a single tensor; those of torch.sparse_coo_tensor.

>>> x = torch.sparse.{name}(torch.tensor([[0]]), torch.tensor([2], dtype={dtype}), (2,))
>>> x.dtype, x.to_dense().tolist(), isinstance(x, torch.sparse.{name})
({dtype}, [{value}], True)
"""


def _make(name, dtype):
    text = _TEXT.format(name=name, dtype=dtype, value="2, 0" if dtype in _INTEGERS else "2.0, 0.0")
    body = {"__doc__": text, "dtype": dtype, "is_sparse": True}
    body |= {"layout": facula.sparse_coo, "__module__": "torch.sparse"}
    return _SparseType(name, (), body)


BFloat16Tensor: type[Any] = _make("BFloat16Tensor", facula.bfloat16)
ByteTensor: type[Any] = _make("ByteTensor", facula.uint8)
CharTensor: type[Any] = _make("CharTensor", facula.int8)
DoubleTensor: type[Any] = _make("DoubleTensor", facula.float64)
FloatTensor: type[Any] = _make("FloatTensor", facula.float32)
HalfTensor: type[Any] = _make("HalfTensor", facula.float16)
IntTensor: type[Any] = _make("IntTensor", facula.int32)
LongTensor: type[Any] = _make("LongTensor", facula.int64)
ShortTensor: type[Any] = _make("ShortTensor", facula.int16)
