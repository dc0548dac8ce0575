"""Write and read the pickles of packages: names are those by which an importer finds objects, and storages are records
of their own.
"""

import _compat_pickle
import pickle
import struct
from types import FunctionType

import facula
from facula import storage
from facula._serialization import classes, rebuild, tensors

from .importer import ObjMismatchError, ObjNotFoundError

#: constants that are pickled by their names in the module torch
_CONSTANTS = (facula.dtype, facula.memory_format, facula.qscheme)


class PackagePickler(pickle._Pickler):
    """Write an object for a package.

    Args:
        importer: what finds the classes and functions.
        file, protocol: as of a pickler.
        persistent_id: object -> the tuple that stands for it, None for others.
        needs_untyped: tensor -> whether its storage cannot be written as one of its dtype.

    `modules` are the names of the modules that the pickle names, in order.
    """

    def __init__(self, importer, file, protocol, persistent_id, needs_untyped):
        super().__init__(file, protocol=protocol)
        self._importer = importer
        self._needs_untyped = needs_untyped
        self.persistent_id = persistent_id
        self.modules = {}

    def reducer_override(self, obj):
        """Return how PyTorch pickles what the core defines."""
        if isinstance(obj, facula.Tensor):
            return rebuild.reduce_tensor(obj, self._needs_untyped)
        if isinstance(obj, _CONSTANTS):
            return str(obj).rpartition(".")[2]
        if isinstance(obj, facula.layout):
            return facula.serialization._get_layout, (f"torch.{str(obj).rpartition('.')[2]}",)
        if isinstance(obj, facula.device):
            return facula.device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, facula.Size):
            return facula.Size, (tuple(obj),)
        return NotImplemented

    def save_global(self, obj, name=None):
        """Write the names by which the importer finds `obj`."""
        if isinstance(obj, _CONSTANTS):
            module, name = "torch", str(obj).rpartition(".")[2]
        elif obj is rebuild._rebuild_from_type_v2:
            module, name = "torch._tensor", "_rebuild_from_type_v2"
        else:
            try:
                module, name = self._importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from None
        self.modules[module] = True
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        elif "." in name:
            self._save_nested(module, name)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def _save_nested(self, module, name):
        """Save a class within a class, for protocols whose names have no dots: getattr of what it is in."""
        outer, _, last = name.rpartition(".")
        self.modules["builtins"] = True
        self.write(pickle.GLOBAL + b"builtins\ngetattr\n")
        if "." in outer:
            self._save_nested(module, outer)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{outer}\n".encode())
        self.write(pickle.BINUNICODE + struct.pack("<I", len(last.encode())) + last.encode() + pickle.TUPLE2 + pickle.REDUCE)

    dispatch = {**pickle._Pickler.dispatch, FunctionType: save_global}


class PackageUnpickler(pickle.Unpickler):
    """Read an object of a package: modules come from the importer, and their code runs.

    Args:
        importer: gives modules by name.
        file: the pickle.
        persistent_load: what gives the object for a tuple.
    """

    def __init__(self, importer, file, persistent_load):
        super().__init__(file)
        self._importer = importer
        self.persistent_load = persistent_load

    def find_class(self, module, name):
        """Return the class or function called `name`."""
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
        if module in classes.COMPILED:  # where PyTorch's compiled functions say they live
            return getattr(facula.nn.functional, name, None) or getattr(facula, name)
        if (module, name) == ("torch.jit._script", "unpackage_script_module"):
            raise NotImplementedError("load_pickle: programs of jit within packages are not supported, got a ScriptModule")
        found = self._importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


class StorageNumbers:
    """Number the storages of a package, one record each, and name them for pickles."""

    def __init__(self):
        self._known = {}  # identity -> (number, untyped storage, which is kept so that its identity stays its own; name)

    def persistent_id(self, obj, write):
        """Return the tuple for a storage; `write(number, untyped storage)` is called for one that is new."""
        untyped = getattr(obj, "_untyped_storage", obj)
        name = storage.storage_class_name(obj.dtype) if untyped is not obj else None
        key = tensors.storage_key(untyped)
        if key not in self._known:
            self._known[key] = len(self._known), untyped, name
            write(len(self._known) - 1, untyped)
        number, _, first = self._known[key]
        typed = name is not None and name == first
        kind = getattr(storage, name) if typed else facula.UntypedStorage
        count = untyped.nbytes() // obj.dtype.itemsize if typed else untyped.nbytes()
        return "storage", kind, number, facula.serialization.location_tag(untyped), count

    def needs_untyped(self, tensor):
        """Return whether a tensor names its storage untyped: no class for its dtype, or two dtypes share it."""
        name = storage.storage_class_name(tensor.dtype)
        known = self._known.get(tensors.storage_key(tensor.untyped_storage()))
        return name is None or (known is not None and known[2] != name)
