"""Write a module of an archive as an archive again: its sources as they were read, its state as it is now."""

from __future__ import annotations

import ast
import enum
import struct
from typing import TYPE_CHECKING

import facula
from facula._serialization import tensors
from facula._serialization.zip_writer import ZipWriter
from facula.storage import STORAGE_DTYPES

if TYPE_CHECKING:
    from typing import Any

_STORAGES = {getattr(facula, dtype): name for name, dtype in STORAGE_DTYPES.items() if not dtype.startswith("q")}
_LISTS = {int: "build_intlist", float: "build_doublelist", bool: "build_boollist", facula.Tensor: "build_tensorlist"}


class Unwritable(Exception):
    """Report a value that cannot be written to an archive here."""


def _kinds_inside(kind, count):
    """Return the annotations of the parts of a container, of which the keys and values of a dict take turns."""
    while isinstance(kind, ast.Subscript) and getattr(kind.value, "id", None) == "Optional":
        kind = kind.slice
    if not isinstance(kind, ast.Subscript):
        return [None] * count
    inner = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    return [inner[i % len(inner)] for i in range(count)]


class _Pickle:
    """Write the pickle of one value in the opcodes that TorchScript reads, and collect the storages that it names."""

    def __init__(self):
        # Protocol 2 of pickle, which TorchScript's reader implements.
        self.parts = [b"\x80\x02"]
        self.storages = {}  # address -> (key, storage)
        self.objects = {}  # id -> its number

    def text(self, value):
        data = value.encode()
        self.parts.append(b"X" + struct.pack("<I", len(data)) + data)

    def name(self, path):
        module, _, name = path.rpartition(".")
        self.parts.append(f"c{module}\n{name}\n".encode())

    def value(self, value, kind=None):
        """Add a value; `kind` is the annotation of the attribute that holds it, a syntax tree."""
        if value is None or isinstance(value, bool):
            self.parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, int) and -(2**63) <= value < 2**63:
            self.parts.append(b"\x8a\x08" + struct.pack("<q", value))
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, facula.Tensor):
            self.tensor(value)
        elif type(value) is tuple:
            self.sequence(value, b"", b"t", kind)
        elif isinstance(value, (enum.Enum, tuple)) and hasattr(type(value), "_declared_by"):
            self.name(type(value)._declared_by.name)
            if isinstance(value, tuple):
                self.sequence(value, b"", b"tR")
            else:
                self.value(value.value)
                self.parts.append(b"R")
        elif isinstance(value, (list, dict)):
            self.container(value, kind)
        elif getattr(value, "_script_class", None) is not None:
            self.object(value)
        else:
            raise Unwritable(type(value).__name__)

    def sequence(self, items, begin, end, kind=None):
        self.parts.append(begin + b"(")
        for item, own in zip(items, _kinds_inside(kind, len(items)), strict=True):
            self.value(item, own)
        self.parts.append(end)

    def container(self, value, kind):
        first = type(value[0]) if isinstance(value, list) and value else None
        short = _LISTS.get(facula.Tensor if first and issubclass(first, facula.Tensor) else first)
        if short is None and kind is None:
            raise Unwritable(f"{type(value).__name__} of an unknown kind")
        self.name(f"torch.jit._pickle.{short or 'restore_type_tag'}")
        self.parts.append(b"(")
        if isinstance(value, list):
            self.sequence(value, b"]", b"e", kind)
        else:
            self.sequence([part for item in value.items() for part in item], b"}", b"u", kind)
        if short is None:
            self.text(ast.unparse(kind))
        self.parts.append(b"tR")

    def object(self, value):
        if id(value) in self.objects:  # a module that several hold
            self.parts.append(b"j" + struct.pack("<I", self.objects[id(value)]))
            return
        cls = value._script_class
        if "__getstate__" in cls.methods:
            raise Unwritable(f"{cls.name}, which makes its state by a method")
        self.name(cls.name)
        self.parts.append(b")\x81}(")
        for field in cls.fields:
            if field in cls.constants:
                continue
            self.text(field)
            self.value(getattr(value, field), cls.kinds.get(field))
        number = self.objects[id(value)] = len(self.objects)
        self.parts.append(b"ubr" + struct.pack("<I", number))

    def tensor(self, value):
        if value.layout != facula.strided or value.is_quantized or value.dtype not in _STORAGES or value.device.type == "meta":
            raise Unwritable(f"a tensor of layout {value.layout} and dtype {value.dtype} on {value.device}")
        plain = value.detach().cpu()
        if plain.is_conj():
            plain = plain.resolve_conj()
        storage = plain.untyped_storage()
        own = value.detach() if value.device.type == "cpu" else plain
        # Tensors that share a storage are written once; empty storages all have the address 0.
        address = own.untyped_storage().data_ptr() or id(storage)
        key, storage = self.storages.setdefault(address, (str(len(self.storages)), storage))
        self.name("torch._utils._rebuild_tensor_v2")
        self.parts.append(b"((")
        self.text("storage")
        self.name(f"torch.{_STORAGES[value.dtype]}")
        for part in (key, "cpu", storage.nbytes() // value.element_size()):
            self.value(part)
        self.parts.append(b"tQ")
        for part in (plain.storage_offset(), tuple(plain.shape), tuple(plain.stride()), value.requires_grad):
            self.value(part)
        self.name("collections.OrderedDict")
        self.parts.append(b")RtR")

    def bytes(self):
        return b"".join([*self.parts, b"."])


def pickles_of(module: Any) -> dict[str, Any]:
    """Return the pickles of an archive, by name. Raises Unwritable where they cannot hold the state of `module`."""
    pickles = {"data": _Pickle(), "constants": _Pickle()}
    pickles["data"].value(module)
    pickles["constants"].value(tuple(module._script_class.library.constants))
    return pickles


def write(library: Any, pickles: dict[str, Any], file: Any, extra_files: dict[str, bytes]) -> None:
    """Write an archive into a binary file."""
    archive = ZipWriter(file, "archive")
    for folder, pickle in pickles.items():
        archive.write(f"{folder}.pkl", pickle.bytes())
        for key, storage in pickle.storages.values():
            archive.write(f"{folder}/{key}", tensors.storage_view(storage))
    for name, text in library.sources.items():
        archive.write(name, text)
    for name, data in extra_files.items():
        archive.write(f"extra/{name}", data)
    archive.write("byteorder", b"little")
    archive.write("version", library.version)
    archive.close()
