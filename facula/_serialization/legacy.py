"""The stream format that came before the zip container.

Four pickles (a magic number, the version, the writer's type sizes, the object), then a pickled list of
storage keys and, for each key, its element count as a little-endian int64 and its bytes.
"""

import struct

import facula
from facula import storage as storages

from . import allowed, tensors
from .pickle_reader import PickleReader, UnpicklingError
from .pickle_writer import GlobalName, PickleWriter

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_COUNT = struct.Struct("<q")


def write(obj, file, scope, protocol, location_of):
    """Writes `obj` to the binary file object `file`."""
    seen = {}

    def persistent_id(item):
        untyped = getattr(item, "_untyped_storage", item)
        dtype = getattr(item, "dtype", facula.uint8)
        name = storages.storage_class_name(dtype)
        if name is None:
            raise NotImplementedError(
                f"save: the legacy format cannot hold dtype {dtype}; use the zip format"
            )
        key = tensors.storage_key(untyped)
        first = seen.setdefault(key, (str(len(seen)), untyped, dtype))
        if first[2] is not dtype:
            raise RuntimeError(
                "save: the legacy format cannot hold one storage seen as two dtypes, "
                f"{first[2]} and {dtype}; use the zip format"
            )
        count = untyped.nbytes() // dtype.itemsize
        return ("storage", GlobalName("torch", name), first[0], location_of(untyped), count, None)

    body = PickleWriter(scope, persistent_id, protocol).dumps(obj)
    info = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, info):
        file.write(PickleWriter(scope, persistent_id, protocol).dumps(header))
    file.write(body)
    file.write(PickleWriter(scope, persistent_id, protocol).dumps([key for key, _, _ in seen.values()]))
    for _, untyped, dtype in seen.values():
        file.write(_COUNT.pack(untyped.nbytes() // dtype.itemsize))
        file.write(tensors.storage_view(untyped if untyped.device.type == "cpu" else untyped.cpu()))


def read(buffer, scope, restore, encoding="utf-8"):
    """(object, offset after it) of the stream that `buffer` begins with."""
    return _LegacyReader(buffer, scope, restore, encoding).read()


class _LegacyReader:
    """Storages follow the object that uses them, so its pickle is read twice: first for what storages
    it names (a `Survey`, which makes no tensors), then, over the filled storages, for the object itself."""

    def __init__(self, buffer, scope, restore, encoding):
        self._view = memoryview(buffer).cast("B")
        self._scope, self._restore, self._encoding = scope, restore, encoding
        self._named = {}  # key -> (StorageKind, location, element count)
        self._storages = {}  # key -> untyped storage

    def read(self):
        magic, at = self._plain(0)
        if magic != MAGIC_NUMBER:
            raise UnpicklingError(
                "load: this file is neither a zip checkpoint nor a legacy one (wrong magic number)"
            )
        version, at = self._plain(at)
        if version != PROTOCOL_VERSION:
            raise UnpicklingError(f"load: legacy format version {version!r}; {PROTOCOL_VERSION} can be read")
        info, body = self._plain(at)
        if not isinstance(info, dict) or info.get("little_endian") is not True:
            raise UnpicklingError("load: this legacy checkpoint was not written by a little-endian machine")
        survey = allowed.Survey(self._scope.whole_objects)
        _, at = self._unpickle(body, survey, self._note)
        keys, at = self._plain(at)
        at = self._fill(keys, at)
        return self._unpickle(body, self._scope, self._persistent)[0], at

    def _plain(self, start):
        """A pickle of numbers, text and lists alone, and the offset after it."""
        return self._unpickle(start, self._scope, _no_storages)

    def _unpickle(self, start, scope, persistent):
        reader = PickleReader(self._view, scope, persistent, start, self._encoding)
        return reader.load(), reader.position

    def _note(self, identity):
        kind, key, location, count, _ = _fields(identity)
        if self._named.setdefault(key, (kind, location, count))[2] != count:
            raise UnpicklingError(f"load: storage {key!r} is used with two sizes")

    def _fill(self, keys, at):
        if type(keys) is not list or sorted(map(str, keys)) != sorted(self._named):
            raise UnpicklingError(
                "load: the storages of this legacy checkpoint are not those its object uses"
            )
        for key in map(str, keys):
            kind, location, count = self._named[key]
            size = count * kind.itemsize
            if len(self._view) - at < _COUNT.size + size:
                raise UnpicklingError(f"load: this legacy checkpoint ends before storage {key!r} does")
            if _COUNT.unpack_from(self._view, at)[0] != count:
                raise UnpicklingError(
                    f"load: storage {key!r} does not have the {count} elements its object says"
                )
            at += _COUNT.size
            untyped = tensors.new_storage(size)
            tensors.storage_view(untyped)[:] = self._view[at : at + size]
            at += size
            untyped = self._restore(untyped, location)
            self._storages[key] = getattr(untyped, "_untyped_storage", untyped)
        return at

    def _persistent(self, identity):
        kind, key, _, _, view = _fields(identity)
        untyped = self._storages[key]
        if view is not None:
            untyped = self._part(untyped, kind, view)
        return storages.TypedStorage(wrap_storage=untyped, dtype=kind.dtype) if kind.dtype else untyped

    @staticmethod
    def _part(untyped, kind, view):
        """The part of a storage that an old checkpoint's view tuple (key, offset, size) describes."""
        if type(view) is not tuple or len(view) != 3 or any(type(n) is not int or n < 0 for n in view[1:]):
            raise UnpicklingError(f"load: a storage view is malformed: {view!r}"[:200])
        begin, end = view[1] * kind.itemsize, (view[1] + view[2]) * kind.itemsize
        if end > untyped.nbytes():
            raise UnpicklingError("load: a storage view reaches outside its storage")
        return tensors.storage_from_buffer(tensors.storage_view(untyped)[begin:end])


def _no_storages(_):
    raise UnpicklingError("load: a storage stands where a plain value belongs")


def _fields(identity):
    """(StorageKind, key, location, element count, view or None) of a persistent id."""
    if type(identity) is not tuple or len(identity) not in (5, 6) or identity[0] != "storage":
        raise UnpicklingError(f"load: unknown persistent id {identity!r}"[:200])
    _, kind, key, location, count, *view = identity
    text = type(key) in (str, int) and type(location) is str
    if (
        not isinstance(kind, allowed.StorageKind)
        or not text
        or type(count) is not int
        or not 0 <= count < 1 << 58
    ):
        raise UnpicklingError(f"load: malformed storage id {identity!r}"[:200])
    return kind, str(key), location, count, view[0] if view else None
