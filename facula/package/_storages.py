"""The storages of a package, as its pickles name them."""

import sys

import facula
from facula._serialization import checkpoint, tensors
from facula.storage import TypedStorage

from ._archive import byte_order


class StorageReader:
    """What the persistent names of one pickle mean.

    Args:
        records: the files of the package.
        importer: the one who asks, which objects that need it to be rebuilt are given.
        restore: (storage, its location) -> storage where it belongs.
    """

    def __init__(self, records, importer, restore):
        self._records, self._importer, self._restore = records, importer, restore
        self._storages, self._rebuilt = {}, {}

    def persistent_load(self, identity):
        """The storage or the object that a pickle names so; RuntimeError for what none would be named."""
        if not isinstance(identity, tuple) or not identity:
            raise RuntimeError(f"load_pickle: a pickle names a thing outside it by a tuple, got {type(identity).__name__}")
        kind, *rest = [part.decode("ascii", "replace") if isinstance(part, bytes) else part for part in identity]
        if kind == "storage" and len(rest) == 4:
            return self._storage(*rest)
        if kind == "reduce_package" and len(rest) == 3 and isinstance(rest[2], tuple):
            number, function, arguments = rest
            if number not in self._rebuilt:
                self._rebuilt[number] = function(self._importer, *arguments)
            return self._rebuilt[number]
        raise RuntimeError(f"load_pickle: storages and objects that packages rebuild are known, got {str(kind)[:40]!r}")

    def _storage(self, kind, key, location, count):
        dtype = None if kind is facula.UntypedStorage else getattr(kind, "dtype", None)
        if not isinstance(dtype, (facula.dtype, type(None))) or (dtype is None and kind is not facula.UntypedStorage):
            raise RuntimeError(f"load_pickle: a storage is of a class of storages, got {kind!r}")
        size = dtype.itemsize if dtype else 1
        if type(count) is not int or not 0 <= count < 1 << 62 or type(key) not in (int, str):
            raise RuntimeError(f"load_pickle: a storage has a number and a count, got {str(key)[:40]!r} and {str(count)[:40]}")
        if key not in self._storages:
            self._storages[key] = self._read(f".data/{key}.storage", count * size, dtype, location)
        untyped = self._storages[key]
        if dtype is None:
            return untyped
        return TypedStorage(wrap_storage=untyped, dtype=dtype)

    def _read(self, name, nbytes, dtype, location):
        if name not in self._records:
            raise RuntimeError(f"load_pickle: the package has no such storage, got {name[:80]!r}")
        data = self._records.read(name)
        if len(data) != nbytes:
            raise RuntimeError(f"load_pickle: {name[:80]!r} should have {nbytes} bytes, got {len(data)}")
        untyped = tensors.new_storage(nbytes)
        view = tensors.storage_view(untyped)
        view[:] = data
        if byte_order(self._records) != sys.byteorder:
            if dtype is None:
                raise RuntimeError(f"load_pickle: an untyped storage of the other byte order cannot be read, got {name!r}")
            checkpoint.swap_bytes(view, dtype)
        restored = self._restore(untyped, location)
        return getattr(restored, "_untyped_storage", restored)
