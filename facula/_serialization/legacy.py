"""Read the stream format that PyTorch wrote before the zip container.

Four pickles (a magic number, the version, the writer's type sizes, the object), then a pickled list of
storage keys and, for each key, its element count as a little-endian int64 and its bytes.
"""

import struct

import facula
from facula import storage as storages

from . import allowed, refusals, tensors
from .errors import UnpicklingError
from .pickle_reader import PickleReader, TruncatedPickle
from .pickle_writer import GlobalName, PickleWriter
from .texts import shown

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_COUNT = struct.Struct("<q")
# The pickle of most objects is smaller, so that one read is enough.
_FIRST_WINDOW = 1 << 20


def write(obj, file, scope, protocol, location_of):
    """Write `obj` to the binary file object `file`."""
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
        if first[2] is not dtype and untyped.nbytes() > 0:
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


def read(source, scope, restore, encoding="utf-8"):
    """Return (object, offset after it) of the stream that `source` begins with."""
    return _LegacyReader(source, scope, restore, encoding).read()


class _LegacyReader:
    """Read one object of a legacy stream. Its storages follow the object that uses them, so the pickle is read twice:
    first for the names of its storages (with a `Survey`, which makes no tensors), then, with the filled storages, for
    the object itself.
    """

    def __init__(self, source, scope, restore, encoding):
        self._source = source
        self._scope, self._restore, self._encoding = scope, restore, encoding
        self._named = {}  # key -> (StorageKind, location, element count)
        self._storages = {}  # key -> untyped storage

    def read(self):
        magic, at = self._plain(0)
        if type(magic) is not int or magic != MAGIC_NUMBER:
            raise UnpicklingError(
                "load: this file is neither a zip checkpoint nor a legacy one (wrong magic number)"
            )
        version, at = self._plain(at)
        if type(version) is not int or version != PROTOCOL_VERSION:
            raise UnpicklingError(
                f"load: legacy format version {shown(version)}; {PROTOCOL_VERSION} can be read"
            )
        info, at = self._plain(at)
        if not isinstance(info, dict) or info.get("little_endian") is not True:
            raise UnpicklingError("load: this legacy checkpoint was not written by a little-endian machine")
        body, at = self._survey(at)
        keys, at = self._plain(at)
        at = self._fill(keys, at)
        return PickleReader(body, self._scope, self._persistent, 0, self._encoding).load(), at

    def _plain(self, start):
        """Return a pickle of numbers, text and lists alone, and the offset after it."""
        value, pickled = self._unpickle(start, self._scope, _no_storages)
        return value, start + len(pickled)

    def _survey(self, start):
        """Return the bytes of the object's pickle, its storages noted, and the offset after it."""
        survey = allowed.Survey(self._scope.whole_objects)
        try:
            _, pickled = self._unpickle(start, survey, self._note)
        except allowed.Forbidden as error:
            # Bounded to 64 MiB: this only collects names for an error message.
            rest = self._source.read(start, min(len(self._source) - start, 1 << 26))
            names = refusals.forbidden_names(rest, self._scope) or [error.name]
            raise UnpicklingError(refusals.explain_refusal(names)) from None
        return pickled, start + len(pickled)

    def _unpickle(self, start, scope, persistent):
        """Return the object whose pickle begins at `start`, and the bytes of that pickle.

        How long a pickle is, only reading it tells: it is tried with ever longer pieces of the file.
        """
        left, size = len(self._source) - start, _FIRST_WINDOW
        while True:
            window = self._source.read(start, min(size, left))
            reader = PickleReader(window, scope, persistent, 0, self._encoding)
            try:
                return reader.load(), window[: reader.position]
            except TruncatedPickle:
                if size >= left:
                    raise
            size *= 16

    def _note(self, identity):
        kind, key, location, count, _ = _fields(identity)
        if self._named.setdefault(key, (kind, location, count))[2] != count:
            raise UnpicklingError(f"load: storage {shown(key)} is used with two sizes")

    def _fill(self, keys, at):
        plain = type(keys) is list and all(type(key) in (str, int) for key in keys)
        if not plain or sorted(map(str, keys)) != sorted(self._named):
            raise UnpicklingError(
                "load: the storages of this legacy checkpoint are not those its object uses"
            )
        for key in map(str, keys):
            kind, location, count = self._named[key]
            size = count * kind.itemsize
            if len(self._source) - at < _COUNT.size + size:
                raise UnpicklingError(f"load: this legacy checkpoint ends before storage {shown(key)} does")
            if _COUNT.unpack(self._source.read(at, _COUNT.size))[0] != count:
                raise UnpicklingError(
                    f"load: storage {shown(key)} does not have the {count} elements its object says"
                )
            at += _COUNT.size
            untyped = tensors.new_storage(size)
            self._source.read_into(at, tensors.storage_view(untyped))
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
        """Return the part of a storage that an old checkpoint's view tuple (key, offset, size) describes."""
        if type(view) is not tuple or len(view) != 3 or any(type(n) is not int or n < 0 for n in view[1:]):
            raise UnpicklingError(f"load: a storage view is malformed: {shown(view)}")
        begin, end = view[1] * kind.itemsize, (view[1] + view[2]) * kind.itemsize
        if untyped.device.type != "cpu":
            raise UnpicklingError(f"load: a view of a storage on {untyped.device}; use map_location='cpu'")
        if end > untyped.nbytes():
            raise UnpicklingError("load: a storage view reaches outside its storage")
        return tensors.storage_from_buffer(tensors.storage_view(untyped)[begin:end])


def _no_storages(_):
    raise UnpicklingError("load: a storage stands where a plain value belongs")


def _fields(identity):
    """Return (StorageKind, key, location, element count, view or None) of a persistent id."""
    named = type(identity) is tuple and len(identity) in (5, 6) and type(identity[0]) is str
    if not named or identity[0] != "storage":
        raise UnpicklingError(f"load: unknown persistent id {shown(identity)}")
    _, kind, key, location, count, *view = identity
    text = type(key) in (str, int) and type(location) is str
    if (
        not isinstance(kind, allowed.StorageKind)
        or not text
        or type(count) is not int
        # A bound that leaves room for the size of an element in 64 bits.
        or not 0 <= count < 1 << 58
    ):
        raise UnpicklingError(f"load: malformed storage id {shown(identity)}")
    return kind, str(key), location, count, view[0] if view else None
