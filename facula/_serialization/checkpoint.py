"""Read and write the zip checkpoint: data.pkl describes the object, and data/0, data/1, ... hold the bytes of its storages."""

from __future__ import annotations

import array
import hashlib
import sys
from typing import TYPE_CHECKING

import facula
from facula import storage as storages

from . import allowed, refusals, tensors
from .errors import UnpicklingError, need
from .legacy import _fields
from .locations import location_tag
from .pickle_reader import PickleReader
from .pickle_writer import GlobalName, PickleWriter
from .texts import shown
from .zip_writer import ALIGNMENT, ZipWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula._serialization.allowed import Scope
    from facula._serialization.zip_reader import ZipReader

_VERSION = b"3\n"
_FORMAT_VERSION = b"1"


# -- writing ------------------------------------------------------------------------------------------


class CheckpointWriter:
    """Write one object as a checkpoint to a binary file object."""

    def __init__(self, file, name, scope, checksums=True, skip_data=False):
        self._zip = ZipWriter(file, name, checksums=checksums)
        self._scope = scope
        self._skip_data = skip_data
        self._storages = {}  # identity -> (key, untyped storage, dtype of its first use)

    def write(self, obj, protocol, record_byteorder=True):
        pickled = PickleWriter(self._scope, self._persistent_id, protocol, self._needs_untyped).dumps(obj)
        self._zip.write("data.pkl", pickled)
        self._zip.write(".format_version", _FORMAT_VERSION)
        self._zip.write(".storage_alignment", str(ALIGNMENT).encode())
        if record_byteorder:
            self._zip.write("byteorder", sys.byteorder.encode())
        for key, untyped, _ in self._storages.values():
            self._write_storage(f"data/{key}", untyped)
        self._zip.write("version", _VERSION)
        self._zip.write(".data/serialization_id", _identity(pickled))
        self._zip.close()

    def _write_storage(self, name, untyped):
        if self._skip_data or untyped.device.type == "meta":
            self._zip.reserve(name, untyped.nbytes())
        else:
            self._zip.write(
                name, tensors.storage_view(untyped if untyped.device.type == "cpu" else untyped.cpu())
            )

    def _persistent_id(self, storage):
        untyped = getattr(storage, "_untyped_storage", storage)
        name = storages.storage_class_name(storage.dtype) if untyped is not storage else None
        identity = tensors.storage_key(untyped)
        key, _, first = self._storages.setdefault(identity, (str(len(self._storages)), untyped, name))
        if name is None or name != first:
            return (
                "storage",
                GlobalName("torch.storage", "UntypedStorage"),
                key,
                location_tag(untyped),
                untyped.nbytes(),
            )
        return (
            "storage",
            GlobalName("torch", name),
            key,
            location_tag(untyped),
            untyped.nbytes() // storage.dtype.itemsize,
        )

    def _needs_untyped(self, tensor):
        """Return whether a tensor names its storage untyped: no class for its dtype, or two dtypes share it."""
        name = storages.storage_class_name(tensor.dtype)
        known = self._storages.get(tensors.storage_key(tensor.untyped_storage()))
        return name is None or (known is not None and known[2] != name)


def _identity(pickled):
    """Return 40 digits that are equal for equal objects."""
    return (str(int.from_bytes(hashlib.sha256(pickled).digest()[:16], "little")).zfill(40)[:40]).encode()


# -- reading ------------------------------------------------------------------------------------------


class Checkpoint:
    """Read the object and the records of an open zip checkpoint.

    Args:
        records: the `ZipReader`.
        default_order: "little" or "big", for files that do not say.
        skip_data: leave storages uninitialized.
    """

    def __init__(self, records: ZipReader, default_order: str = "little", skip_data: bool = False) -> None:
        self._records = records
        self._skip_data = skip_data
        if "constants.pkl" in records:
            raise RuntimeError(
                "load: this is a TorchScript archive (torch.jit.save), which holds a program: load it with jit.load"
            )
        if ".data/extern_modules" in records:
            raise RuntimeError(
                "load: this is a package, a program whose import runs its code: package.PackageImporter opens it, if you "
                "trust its author"
            )
        if "data.pkl" not in records or "version" not in records:
            raise RuntimeError("load: this zip file is not a checkpoint: it lacks data.pkl or version")
        version = records.read("version").strip()
        if not version.isdigit() or not 1 <= int(version) <= 10:
            raise RuntimeError(
                f"load: this checkpoint has container version {shown(version)}; 1 to 10 can be read"
            )
        order = (
            records.read("byteorder").decode("ascii", "replace") if "byteorder" in records else default_order
        )
        if order not in ("little", "big"):
            raise RuntimeError(f"load: unknown byte order {shown(order)}")
        self._swap = order != sys.byteorder
        self._storages = {}

    def load(self, scope: Scope, restore: Callable[..., Any], mapped: bool, encoding: str = "utf-8") -> Any:
        """Return the object. See `facula.serialization.load`."""
        pickled = self._records.read("data.pkl")
        reader = PickleReader(
            pickled, scope, lambda identity: self._storage(identity, restore, mapped), 0, encoding
        )
        try:
            return reader.load()
        except allowed.Forbidden as error:
            raise UnpicklingError(
                refusals.explain_refusal(refusals.forbidden_names(pickled, scope) or [error.name])
            ) from None

    def _storage(self, identity, restore, mapped):
        kind, key, location, count, view = _fields(identity)
        if view is not None:
            raise UnpicklingError(
                "load: a zip checkpoint holds a storage view, which only the legacy format has"
            )
        nbytes = count * kind.itemsize
        if key not in self._storages:
            self._storages[key] = self._read(key, nbytes, kind, location, restore, mapped)
        untyped = self._storages[key]
        if untyped.nbytes() != nbytes:
            raise UnpicklingError(
                f"load: storage {shown(key)} is used with two sizes, {untyped.nbytes()} and {nbytes} bytes"
            )
        return storages.TypedStorage(wrap_storage=untyped, dtype=kind.dtype) if kind.dtype else untyped

    def _read(self, key, nbytes, kind, location, restore, mapped):
        name = f"data/{key}"
        if location == "meta" and name not in self._records:
            return facula.UntypedStorage(nbytes, device="meta")
        entry = self._records.entry(name)
        if entry.nbytes != nbytes:
            raise UnpicklingError(
                f"load: storage {shown(key)} should have {nbytes} bytes; its record has {entry.nbytes}"
            )
        if mapped:
            untyped = tensors.storage_from_buffer(self._records.mapped(name))
        else:
            untyped = tensors.new_storage(nbytes)
            if not self._skip_data:
                self._records.read_into(name, tensors.storage_view(untyped))
        if self._swap and not self._skip_data:
            need(kind.dtype is not None, "an untyped storage of the other byte order cannot be converted")
            need(not mapped, "a checkpoint of the other byte order cannot be mapped; use mmap=False")
            swap_bytes(tensors.storage_view(untyped), kind.dtype)
        restored = restore(untyped, location)
        return getattr(restored, "_untyped_storage", restored)


def swap_bytes(view, dtype):
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width == 1:
        return
    swapped = array.array({2: "H", 4: "I", 8: "Q"}[width])
    swapped.frombytes(view)
    swapped.byteswap()
    view[:] = swapped.tobytes()
