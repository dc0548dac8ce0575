"""Define storages: `UntypedStorage` from the core, and the typed view of one that old programs and checkpoints name.

A `TypedStorage` pairs an untyped storage with a dtype; its index counts elements. The classes
`FloatStorage`, `LongStorage`, ... are TypedStorages of a fixed dtype. Long because two classes have all methods of PyTorch's.
"""

from __future__ import annotations

import copy
import io
import operator
from typing import TYPE_CHECKING

import facula
from facula import UntypedStorage as UntypedStorage
from facula._serialization import tensors as _core
from facula._serialization.untyped import _FILES
from facula._serialization.untyped import untyped_from_buffer as untyped_from_buffer
from facula._serialization.untyped import untyped_from_file as untyped_from_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from facula.types import Device

#: Methods that convert elements, and the dtypes they convert to.
CASTS = {
    "double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "complex_double": "complex128",
    "complex_float": "complex64", "float8_e4m3fn": "float8_e4m3fn", "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2": "float8_e5m2", "float8_e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip

#: Storage class names that checkpoints use, by the name of their dtype. Other dtypes travel untyped.
STORAGE_DTYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexDoubleStorage": "complex128", "ComplexFloatStorage": "complex64", "QInt8Storage": "qint8",
    "QInt32Storage": "qint32", "QUInt8Storage": "quint8", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}  # fmt: skip


class _Casts:
    """Define methods of a TypedStorage that have the names of types. They are in a class of their own because `int` is
    a method here.
    """

    if TYPE_CHECKING:

        def double(self) -> TypedStorage: ...
        def float(self) -> TypedStorage: ...
        def half(self) -> TypedStorage: ...
        def bfloat16(self) -> TypedStorage: ...
        def long(self) -> TypedStorage: ...
        def int(self) -> TypedStorage: ...
        def short(self) -> TypedStorage: ...
        def char(self) -> TypedStorage: ...
        def byte(self) -> TypedStorage: ...
        def bool(self) -> TypedStorage: ...
        def complex_double(self) -> TypedStorage: ...
        def complex_float(self) -> TypedStorage: ...
        def float8_e4m3fn(self) -> TypedStorage: ...
        def float8_e4m3fnuz(self) -> TypedStorage: ...
        def float8_e5m2(self) -> TypedStorage: ...
        def float8_e5m2fnuz(self) -> TypedStorage: ...


def _cast_method(name, dtype):
    def cast(self):
        return self._to(dtype)

    cast.__name__, cast.__qualname__ = name, f"TypedStorage.{name}"
    cast.__doc__ = f"""Return the elements converted to {dtype}, as another TypedStorage.

    >>> torch.IntStorage([0, 1]).{name}().dtype
    {dtype}
    """
    return cast


for _name, _dtype_name in CASTS.items():
    setattr(_Casts, _name, _cast_method(_name, getattr(facula, _dtype_name)))


class TypedStorage(_Casts):
    r"""View an untyped storage as elements of one dtype, as old programs and checkpoints do.

    Args:
        args: a size in elements, a sequence of values, or nothing.
        wrap_storage: an UntypedStorage to look at instead (not copied).
        dtype: the element type; a subclass such as FloatStorage fixes it.
        device: where a new storage lives; default: the CPU. A subclass such as cuda.FloatStorage fixes it.

    >>> storage = torch.TypedStorage([1, 2, 3], dtype=torch.int32)
    >>> len(storage), storage.size(), storage[1], storage.nbytes(), storage.element_size()
    (3, 3, 2, 12, 4)
    >>> storage.tolist(), storage.type(), storage.pickle_storage_type()
    ([1, 2, 3], 'torch.IntStorage', 'IntStorage')
    >>> storage.type(torch.float32).tolist(), storage.untyped().nbytes(), storage.get_device()
    ([1.0, 2.0, 3.0], 12, -1)
    >>> storage.cpu().data_ptr() == storage.data_ptr() == storage.to(device="cpu").data_ptr()
    True
    >>> storage.clone().fill_(7).tolist(), torch.FloatStorage(3).copy_(storage).tolist(), storage.clone().resize_(2).size()
    ([7, 7, 7], [1.0, 2.0, 3.0], 2)
    >>> storage.is_pinned(), storage.is_shared(), storage.share_memory_().is_shared()
    (False, False, True)
    >>> torch.FloatStorage.from_buffer(b"\0\0\x80?", "little").tolist()
    [1.0]
    """

    is_sparse = False
    _dtype: facula.dtype | None = None  # that of a class of one dtype
    _device_type = "cpu"

    def __init__(self, *args: Any, wrap_storage: Any = None, dtype: facula.dtype | None = None, device: Device = None,
                 _internal: bool = False) -> None:  # fmt: skip
        if wrap_storage is not None:
            self._untyped_storage = _wrapped(args, wrap_storage, dtype, device)
            self.dtype: facula.dtype = dtype
            return
        self.dtype = facula.get_default_dtype() if dtype is None else dtype
        self._untyped_storage = _made("TypedStorage", args, self.dtype, device)

    # -- size and place ---------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        """Where the bytes are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> Self:
        """Return `size` elements of a file, as a memory map.

        Args:
            filename: the path of the file.
            shared: what is written reaches the file, which is made, or made longer, where needed; otherwise writes stay in this
                process.
            size: how many elements.

        Errors: RuntimeError where the file cannot be opened, or is too short.

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "bytes")
        ...     _ = path.write_bytes(b"abc")
        ...     torch.ByteStorage.from_file(str(path), size=2).tolist()
        [97, 98]
        """
        dtype = cls._dtype or facula.get_default_dtype()
        return cls._around(untyped_from_file(filename, shared, size * dtype.itemsize), dtype)

    @classmethod
    def _around(cls, untyped, dtype):
        return cls(wrap_storage=untyped) if cls._dtype else cls(wrap_storage=untyped, dtype=dtype)

    @classmethod
    def _new_shared(cls, size, device="cpu"):
        """Return a storage of `size` elements in memory that other processes can map."""
        dtype = cls._dtype or facula.get_default_dtype()
        return cls._around(_new_shared(size * dtype.itemsize, device=device), dtype)

    @classmethod
    def from_buffer(cls, buffer: Any = None, byte_order: str | None = None, count: int = -1, offset: int = 0,
                    dtype: facula.dtype | None = None) -> Self:  # fmt: skip
        """Return a copy of the elements that bytes hold.

        Args:
            buffer: bytes, or what has them.
            byte_order: "native", "little" or "big"; may be left out where elements are one byte.
            count: how many; -1: as many as there are.
            offset: bytes to leave out in front.
            dtype: of the elements. Default: that of the class.

        Errors: ValueError for another byte order, and for bytes that are not whole elements or too few; RuntimeError
        without a byte order where it matters, and for a class of another device.
        """
        if cls._device_type != "cpu":
            raise RuntimeError(f"from_buffer: only for storages of the CPU, got torch.cuda.{cls.__name__}")
        if cls._dtype is not None and dtype is not None:
            raise RuntimeError(f"from_buffer: {cls.__name__} says the dtype, got {dtype} too")
        dtype = cls._dtype or dtype or facula.get_default_dtype()
        return cls._around(untyped_from_buffer(buffer, byte_order, count, offset, dtype), dtype)

    _from_buffer = from_buffer

    def untyped(self) -> Any:
        """Return the UntypedStorage underneath."""
        return self._untyped_storage

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> Any:
        """Return the bytes of all elements."""
        return self._untyped_storage.nbytes()

    def size(self) -> Any:
        """Return the number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = _size = size

    def data_ptr(self) -> Any:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> Any:
        """Return the number of the device, -1 for the CPU."""
        return self.device.index if self.device.index is not None else -1

    def pickle_storage_type(self) -> Any:
        """Return the name that checkpoints use for a storage of this dtype."""
        return storage_class_name(self.dtype)

    # -- contents ---------------------------------------------------------------------------------

    def _tensor(self):
        dtype = getattr(self.dtype, "_levels", self.dtype)  # of a quantized one: its integers
        return _core.tensor_from_storage(self._untyped_storage, dtype, 0, (self.size(),), (1,))

    def __getitem__(self, index: int) -> Any:
        picked = self._tensor()[index]
        if isinstance(index, slice):
            return TypedStorage(wrap_storage=picked.clone().untyped_storage(), dtype=self.dtype)
        return picked.item()

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(value, TypedStorage):
            raise RuntimeError(f"TypedStorage: elements are set to a number, got a TypedStorage of {value.size()}")
        self._tensor()[index] = value

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def tolist(self) -> Any:
        """Return the elements as Python numbers."""
        return self._tensor().tolist()

    def fill_(self, value: Any) -> Self:
        """Set every element to one value; return the storage.

        Args:
            value: a number.

        Errors: RuntimeError for a storage in its place.

        >>> torch.TypedStorage(2, dtype=torch.int32).fill_(7).tolist()
        [7, 7]
        """
        self[:] = value
        return self

    def copy_(self, source: TypedStorage | UntypedStorage, non_blocking: bool = False) -> Self:
        """Copy the elements of another storage, converting them; return the storage.

        Args:
            source: a TypedStorage of as many elements, or of one, which all get.
            non_blocking: if True, a copy between page-locked memory and a GPU may go on while the program does.

        Errors: RuntimeError where there are neither as many elements nor one.

        >>> torch.TypedStorage(2, dtype=torch.int32).copy_(torch.FloatStorage([1.5, 2.0])).tolist()
        [1, 2]
        """
        self._tensor().copy_(source._tensor(), non_blocking=non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """Return a copy with bytes of its own.

        >>> storage = torch.FloatStorage([1.0, 2.0])
        >>> copy = storage.clone()
        >>> storage[0] = 5.0
        >>> copy.tolist()
        [1.0, 2.0]
        """
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """Return the elements on the CPU, a copy where they are elsewhere."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def cuda(self, device: Device = None, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a CUDA device, a copy where they are elsewhere.

        Args:
            device: the device or its index; by default the current one.
            non_blocking: lets a copy from pinned memory go on while the program continues.

        >>> storage = torch.FloatStorage(2)
        >>> storage.cuda().is_cuda if torch.cuda.is_available() else True
        True
        """
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device, non_blocking), dtype=self.dtype)

    def to(self, *, device: Device, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on `device`, a copy where they are elsewhere.

        `non_blocking` lets a copy between pinned memory and a GPU go on while the program continues.

        Args:
            non_blocking: whether the program goes on while a copy between pinned memory and a GPU runs.
        """
        moved = self._untyped_storage.to(device=device, non_blocking=non_blocking)
        return TypedStorage(wrap_storage=moved, dtype=self.dtype)

    def resize_(self, size: int) -> Self:
        """Make room for another number of elements; those that fit are kept. Returns the storage.

        Args:
            size: the number of elements.

        >>> torch.FloatStorage([1.0, 2.0]).resize_(1).tolist()
        [1.0]
        """
        self._untyped_storage.resize_(size * self.element_size())
        return self

    _resize_ = resize_

    def type(self, dtype: facula.dtype | None = None) -> Any:
        """Return the name of the class, or the elements converted to `dtype`."""
        if dtype is None:
            name = self.pickle_storage_type() or "storage.TypedStorage"
            return f"torch.cuda.{name}" if self.is_cuda else f"torch.{name}"
        return self._to(dtype)

    def _to(self, dtype):
        return TypedStorage(wrap_storage=self._tensor().to(dtype).clone().untyped_storage(), dtype=dtype)

    # -- sharing, pickling ------------------------------------------------------------------------

    def is_pinned(self, device: Device = "cuda") -> bool:
        """Return whether the bytes lie in pinned memory."""
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device: Device = "cuda") -> Self:
        """Return a copy in pinned memory, from which a GPU copies by itself; the storage itself where it is there.

        `device` names the kind of device that would use the memory. RuntimeError without a GPU.

        >>> storage = torch.FloatStorage(2)
        >>> storage.pin_memory().is_pinned() if torch.cuda.is_available() else True
        True
        """
        pinned = self._untyped_storage.pin_memory(device)
        return self if pinned is self._untyped_storage else type(self)(wrap_storage=pinned, dtype=self.dtype)

    @property
    def filename(self) -> str | None:
        """The file that the elements are mapped from, None where there is none."""
        return self._untyped_storage.filename

    def resizable(self) -> bool:
        """Return whether resize_ can change the size: not where another library has the memory.

        >>> torch.FloatStorage(2).resizable()
        True
        """
        return self._untyped_storage.resizable()

    def is_shared(self) -> bool:
        """Return whether other processes can map the bytes."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> Self:
        """Move the bytes to memory that other processes can map."""
        self._untyped_storage.share_memory_()
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self._cdata == other._cdata and self.dtype == other.dtype

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        copied = copy.deepcopy(self._untyped_storage, memo)  # once, so that tensors on it still share it
        return TypedStorage(wrap_storage=copied, dtype=self.dtype)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __reduce__(self) -> Any:
        stream = io.BytesIO()
        facula.save(self, stream, _use_new_zipfile_serialization=False)
        return _load_from_bytes, (stream.getvalue(),)

    def __repr__(self) -> str:
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}"
        if self.device.type == "meta":
            return f"...\n[{kind}]"
        return "".join(f" {value}\n" for value in self) + f"[{kind}]"


def _wrapped(args, storage, dtype, device):
    """Return the storage that a TypedStorage is to look at, after a look at the other arguments."""
    if args:
        raise RuntimeError("TypedStorage: give values or wrap_storage, got both")
    if dtype is None:
        raise RuntimeError("TypedStorage: wrap_storage needs a dtype, got none")
    if not isinstance(dtype, facula.dtype):
        raise TypeError(f"TypedStorage: dtype is a torch.dtype, got {type(dtype).__name__}")
    if device is not None:
        raise RuntimeError(f"TypedStorage: wrap_storage says where it is, got device {device!r} too")
    if not isinstance(storage, facula.UntypedStorage):
        raise TypeError(f"TypedStorage: wrap_storage is an UntypedStorage, got {type(storage).__name__}")
    return storage


def _made(name, args, dtype, device):
    """Return a new storage of as many elements, or with the values, that `args` asks for."""
    device = facula.device("cpu" if device is None else device)
    if device.type not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"{name}: a storage is on cpu, cuda or meta, got {device}")
    if len(args) > 1:
        raise RuntimeError(f"{name}: takes one size or one sequence, got {len(args)} arguments")
    if not args or (hasattr(args[0], "__index__") and not isinstance(args[0], facula.Tensor)):
        return facula.UntypedStorage((operator.index(args[0]) if args else 0) * dtype.itemsize, device=device)
    if isinstance(args[0], facula.Tensor) or not hasattr(type(args[0]), "__getitem__"):
        raise TypeError(f"{name}: a size or a sequence of values, got {type(args[0]).__name__}")
    if isinstance(args[0], str):
        raise TypeError(f"{name}: expected a sequence of numbers, got a str")
    levels = getattr(dtype, "_levels", dtype)  # of a quantized one: its integers
    values = facula.tensor(list(args[0]), dtype=levels, device=device)
    return values.untyped_storage().clone()  # of its own: no tensor keeps it from shrinking


class _LegacyMeta(type):
    """Implement isinstance for FloatStorage and its relatives: any storage of the dtype, on the device, is an instance."""

    def __instancecheck__(cls, value: Any) -> bool:
        if cls is _LegacyStorage or not isinstance(value, TypedStorage):
            return type.__instancecheck__(cls, value)
        return value.dtype is cls.dtype and value.device.type == cls._device_type


class _LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    """Fix the dtype and the kind of device of a TypedStorage by its class."""

    dtype: facula.dtype

    def __init__(self, *args: Any, wrap_storage: Any = None, **kwargs: Any) -> None:
        name = type(self).__name__
        if type(self) is _LegacyStorage:
            raise RuntimeError("_LegacyStorage: only its subclasses have objects, got a call")
        for key in kwargs:
            if key in ("dtype", "device"):
                raise RuntimeError(f"{name}: the class says the {key}, got it as an argument")
            if key != "_internal":
                raise TypeError(f"{name}: takes wrap_storage, got an unexpected keyword argument {key!r}")
        if wrap_storage is None:
            self._untyped_storage = _made(name, args, self.dtype, self._device_type)
            return
        self._untyped_storage = _wrapped(args, wrap_storage, self.dtype, None)
        if wrap_storage.device.type != self._device_type:
            raise RuntimeError(f"{name}: expected a storage on {self._device_type}, got one on {wrap_storage.device}")

    @classmethod
    def _only_on_cpu(cls, what):
        if cls._device_type != "cpu":
            raise RuntimeError(f"{what}: only for storages of the CPU, got torch.cuda.{cls.__name__}")


def storage_class_name(dtype: facula.dtype) -> str | None:
    """Return the name of the legacy storage class of `dtype`, or None where there is none.

    >>> torch.storage.storage_class_name(torch.float32)
    'FloatStorage'
    """
    return _NAMES.get(dtype)


def reduce_untyped(storage: Any) -> tuple[Callable[..., Any], tuple[bytes]]:
    r"""Return the pickled form of an UntypedStorage, for its `__reduce__`: a function, and its arguments with a copy of the
    bytes.

    Args:
        storage: an UntypedStorage of the CPU.

    >>> function, arguments = torch.storage.reduce_untyped(torch.UntypedStorage([1, 2]))
    >>> arguments, function(*arguments).tolist()
    ((b'\x01\x02',), [1, 2])
    """
    return _untyped_from_bytes, (bytes(_core.storage_view(storage)),)


def _new_shared(size, *, device="cpu"):
    if facula.device(device).type != "cpu":
        raise RuntimeError(f"_new_shared: expected memory of the CPU, got device {device}")
    return facula.UntypedStorage(size).share_memory_()


def _cast(storage, name):
    bytes_of = _core.tensor_from_storage(storage, facula.uint8, 0, (storage.nbytes(),), (1,))
    dtype = getattr(facula, name)
    return TypedStorage(wrap_storage=bytes_of.to(dtype).clone().untyped_storage(), dtype=dtype)


def _type_of(storage, dtype=None, non_blocking=False):
    if dtype is None:
        return "torch.storage.UntypedStorage"
    return _cast(storage, str(dtype).removeprefix("torch."))


def _new_empty(storage):
    return facula.UntypedStorage(0, device=storage.device)


def _filename_of(storage):
    return _FILES.get(storage)


def _untyped_from_bytes(data):
    return _core.storage_from_buffer(bytearray(data))


def _load_from_bytes(data):
    return facula.load(io.BytesIO(data), weights_only=False)


def _legacy_text(dtype, name):
    doc = f"""A TypedStorage of {str(dtype).removeprefix("torch.")} elements.

    Args:
        args: a size in elements, a sequence of values, or nothing.
        wrap_storage: an UntypedStorage to look at instead (not copied).
        kwargs: nothing else, since the class fixes the dtype and the device.

    """
    if str(dtype).startswith(("torch.q", "torch.bool")):
        return f"{doc}>>> len(torch.{name}())\n    0\n    "
    return f"{doc}>>> len(torch.{name}([1, 2])), torch.{name}([1, 2]).dtype\n    (2, {dtype})\n    "


def _legacy_classes():
    for name, dtype_name in STORAGE_DTYPES.items():
        dtype = getattr(facula, dtype_name, None)
        if isinstance(dtype, facula.dtype):
            _NAMES[dtype] = name
            doc = _legacy_text(dtype, name)
            yield name, _LegacyMeta(name, (_LegacyStorage,), _of_dtype(dtype, "cpu", "torch", doc))


def _on_cuda(base):
    doc = f"A TypedStorage of {base.dtype} elements on a CUDA device."
    return _LegacyMeta(base.__name__, (_LegacyStorage,), _of_dtype(base.dtype, "cuda", "torch.cuda", doc))


def _of_dtype(dtype, device_type, module, doc):
    return {"dtype": dtype, "_dtype": dtype, "_device_type": device_type, "__module__": module, "__doc__": doc}


def _dtype_to_storage_type_map():
    """Return the names of the classes of FloatStorage's kind, by their dtypes."""
    return dict(_NAMES)


def _default_class():
    """Return what `torch.Storage` is now: the class of FloatStorage's kind for the default dtype."""
    return LEGACY_STORAGES[_NAMES[facula.get_default_dtype()]]


_NAMES = {}
LEGACY_STORAGES = dict(_legacy_classes())
CUDA_STORAGES = {name: _on_cuda(kind) for name, kind in LEGACY_STORAGES.items()}
globals().update(LEGACY_STORAGES)
Storage = LEGACY_STORAGES["FloatStorage"]  # the name of old programs
#: All classes of storages that programs name.
STORAGE_CLASSES = {UntypedStorage, TypedStorage, *LEGACY_STORAGES.values(), *CUDA_STORAGES.values()}
