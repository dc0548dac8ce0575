"""Write the contents of a checkpoint as pickle opcodes, under PyTorch's names.

Every name is checked against the same `Scope` that a load uses. An object that could not be restored is therefore
refused when it is saved, with its place in the structure, and not at a load months later.
"""

import enum
import io
import pickle
import struct
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType

import facula
from facula import storage
from facula._serialization import rebuild

from . import classes
from .errors import UnpicklingError

_PROTOCOLS = range(2, 6)
_PY2 = {"builtins": "__builtin__", "copyreg": "copy_reg"}  # names of protocol 2, which both readers map back


class PicklingError(pickle.PicklingError):
    """Report an object that a load could not restore, and where it is in the structure that is saved."""


class GlobalName:
    """Represent a class or function that is written by its module and name only."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class PickleWriter:
    """Convert one object to a pickle.

    Args:
        scope: an `allowed.Scope` that says what a load restores.
        persistent_id: called with each storage; gives the tuple that stands for it.
        protocol: 2 to 5; the opcodes are those of protocol 2, which every reader knows.
        needs_untyped: tensor -> whether its storage cannot be written as one of its dtype.
    """

    def __init__(self, scope, persistent_id, protocol=2, needs_untyped=None):
        if protocol not in _PROTOCOLS:
            raise ValueError(f"save: pickle_protocol must be 2 to 5, got {protocol}")
        self._out = io.BytesIO()
        self._write = self._out.write
        self._scope = scope
        self._persistent_id = persistent_id
        self._protocol = protocol
        self._needs_untyped = needs_untyped
        self._memo = {}  # id -> (index, object); the object is kept so that its id stays its own
        self._path = []

    def dumps(self, obj):
        """Return the pickle of `obj` as bytes. Raises PicklingError naming what cannot be saved and where it is."""
        self._write(b"\x80" + bytes([self._protocol]))
        try:
            self._save(obj)
        except RecursionError:
            raise PicklingError(f"save: {self._where()} is nested too deeply") from None
        self._write(b".")
        return self._out.getvalue()

    # -- dispatch ---------------------------------------------------------------------------------

    def _save(self, obj):
        writer = _SCALARS.get(type(obj))
        if writer is not None:
            writer(self, obj)
            return
        known = self._memo.get(id(obj))
        if known is not None:
            self._get(known[0])
            return
        writer = _WRITERS.get(type(obj))
        if writer is not None:
            writer(self, obj)
        elif isinstance(obj, facula.Tensor):
            self._reduce(obj, *rebuild.reduce_tensor(obj, self._needs_untyped))
        elif isinstance(obj, (storage.TypedStorage, facula.UntypedStorage)):
            self._save(self._persistent_id(obj))
            self._write(b"Q")
        elif isinstance(obj, type):
            self._global(obj, obj.__module__, obj.__qualname__)
        elif isinstance(obj, facula.dtype):
            self._global(obj, "torch", str(obj).rpartition(".")[2])
        else:
            self._save_by_reduce(obj)

    def _save_by_reduce(self, obj):
        if type(obj).__name__ == "qscheme" and type(obj) is facula.qscheme:
            self._global(obj, "torch", str(obj).rpartition(".")[2])
            return
        if isinstance(obj, facula.layout):
            self._reduce(
                obj,
                GlobalName("torch.serialization", "_get_layout"),
                ("torch." + str(obj).rpartition(".")[2],),
            )
            return
        if isinstance(obj, facula.device):
            self._reduce(
                obj,
                GlobalName("torch", "device"),
                (obj.type,) if obj.index is None else (obj.type, obj.index),
            )
            return
        if isinstance(obj, facula.Size):
            self._reduce(obj, GlobalName("torch", "Size"), (tuple(obj),))
            return
        if isinstance(obj, enum.Enum) and type(obj).__reduce_ex__ is enum.Enum.__reduce_ex__:
            self._reduce(obj, type(obj), (obj.value,))  # Python 3.11.0 to 3.11.3 would call getattr
            return
        try:
            parts = obj.__reduce_ex__(2)
        except RuntimeError:  # what the class itself says of being saved
            raise
        except Exception as error:
            raise self._refusal(obj, f"it cannot be pickled: {error}") from None
        if isinstance(parts, str):
            self._global(obj, getattr(obj, "__module__", None) or "builtins", parts)
        else:
            self._reduce(obj, *parts)

    # -- scalars and text -------------------------------------------------------------------------

    def _none(self, _):
        self._write(b"N")

    def _bool(self, value):
        self._write(b"\x88" if value else b"\x89")

    def _int(self, value):
        if 0 <= value < 256:
            self._write(_BYTE_INTS[value])
        elif 0 <= value < 65536:
            self._write(b"M" + struct.pack("<H", value))
        elif -1 << 31 <= value < 1 << 31:
            self._write(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self._write(
                b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + struct.pack("<i", len(data))
            )
            self._write(data)

    def _float(self, value):
        self._write(b"G" + struct.pack(">d", value))

    def _str(self, value):
        data = value.encode("utf-8", "surrogatepass")
        self._write(b"X" + struct.pack("<I", len(data)))
        self._write(data)
        self._put(value)

    def _bytes(self, value):
        self._reduce(value, GlobalName("_codecs", "encode"), (str(value, "latin1"), "latin1"))

    def _bytearray(self, value):
        self._reduce(value, GlobalName("builtins", "bytearray"), (str(value, "latin1"), "latin-1"))

    def _complex(self, value):
        self._reduce(value, GlobalName("builtins", "complex"), (value.real, value.imag))

    def _function(self, function):
        if function.__name__ == "<lambda>" or "<locals>" in function.__qualname__:
            raise self._refusal(function, "a function without a name cannot be restored")
        home = classes.function_home(function)
        self._global(
            function, home or getattr(function, "__module__", None) or "builtins", function.__qualname__
        )

    def _global_name(self, name):
        self._global(name, name.module, name.name)

    def _ellipsis(self, value):
        self._global(value, "builtins", "Ellipsis")

    # -- containers -------------------------------------------------------------------------------

    def _tuple(self, items):
        if not items:
            self._write(b")")
            return
        if len(items) > 3:
            self._write(b"(")
        self._each(items)
        known = self._memo.get(id(items))
        if known is not None:  # the tuple contains itself: drop the half-built copy, take the finished one
            self._write(b"0" * len(items) if len(items) <= 3 else b"1")
            self._get(known[0])
            return
        self._write(b"t" if len(items) > 3 else (b"\x85", b"\x86", b"\x87")[len(items) - 1])
        self._put(items)

    def _list(self, items):
        self._write(b"]")
        self._put(items)
        self._appends(items)

    def _dict(self, items):
        self._write(b"}")
        self._put(items)
        self._set_items(items.items())

    def _set(self, items):
        self._reduce(items, GlobalName("builtins", "set"), (list(items),))

    def _frozenset(self, items):
        self._reduce(items, GlobalName("builtins", "frozenset"), (list(items),))

    def _ordered_dict(self, items):
        self._reduce(items, OrderedDict, (), vars(items) or None, None, items.items())

    def _each(self, items):
        path, save = self._path, self._save
        for i, item in enumerate(items):
            path.append(i)
            save(item)
            path.pop()

    def _appends(self, items):
        self._write(b"(")
        self._each(items)
        self._write(b"e")

    def _set_items(self, pairs):
        self._write(b"(")
        path, save = self._path, self._save
        for key, value in pairs:
            path.append(key)
            save(key)
            save(value)
            path.pop()
        self._write(b"u")

    # -- objects ----------------------------------------------------------------------------------

    def _reduce(self, obj, function, args, state=None, items=None, pairs=None, setter=None):
        """Write the (function, arguments, state, items, pairs) form that `__reduce_ex__` gives."""
        if setter is not None:
            raise self._refusal(obj, "it sets its state by a function of its own")
        if getattr(function, "__name__", "") == "__newobj__":
            self._check_instance(obj, args[0])
            self._save(args[0])
            self._plain_tuple(args[1:])
            self._write(b"\x81")
        else:
            self._check_call(obj, function, args)
            self._save(function)
            self._plain_tuple(args)
            self._write(b"R")
        known = self._memo.get(id(obj))
        if known is not None:  # reached again through its own arguments
            self._write(b"0")
            self._get(known[0])
            return
        self._put(obj)
        if items is not None:
            self._appends(items)
        if pairs is not None:
            self._set_items(pairs)
        if state is not None:
            self._path.append(None)
            self._save(state)
            self._path.pop()
            self._write(b"b")

    def _plain_tuple(self, args):
        # an argument tuple is nobody else's, so it needs no memo entry of its own
        if len(args) > 3:
            self._write(b"(")
        for arg in args:
            self._save(arg)
        self._write(b"t" if len(args) > 3 else (b")", b"\x85", b"\x86", b"\x87")[len(args)])

    def _global(self, obj, module, name):
        module = _EXCEPTIONS.get((module, name)) or classes.torch_name(module)
        try:
            found = self._scope.find(module, name)
        except UnpicklingError:
            raise self._refusal(obj, None) from None
        if isinstance(obj, type) and isinstance(found, type) and found is not obj:
            raise self._refusal(obj, f"{module}.{name} is another class by now")
        self._write(f"c{_PY2.get(module, module)}\n{name}\n".encode())
        self._put(obj)

    def _check_instance(self, obj, cls):
        try:
            self._scope.find(cls.__module__, cls.__qualname__)
        except UnpicklingError:
            raise self._refusal(obj, None) from None
        if not self._scope.may_make(cls):
            raise self._refusal(obj, None)

    def _check_call(self, obj, function, args):
        if isinstance(function, GlobalName):
            return
        module = _EXCEPTIONS.get((function.__module__, function.__qualname__)) or function.__module__
        try:
            found = self._scope.find(module, function.__qualname__)
        except UnpicklingError:
            raise self._refusal(obj, None) from None
        if not self._scope.may_call(found):
            raise self._refusal(obj, f"restoring it would call {module}.{function.__qualname__}")

    # -- memo, messages ---------------------------------------------------------------------------

    def _put(self, obj):
        index = len(self._memo)
        self._memo[id(obj)] = index, obj
        self._write(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))

    def _get(self, index):
        self._write(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))

    def _where(self):
        return "obj" + "".join(f"[{step!r}]" for step in self._path if step is not None)

    def _refusal(self, obj, why):
        kind = obj if isinstance(obj, type) else type(obj)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(obj, (FunctionType, BuiltinFunctionType)):
            name = f"the function {obj.__module__}.{obj.__qualname__}"
        way_out = "Save plain data in its place (a dict, a str, a state_dict())"
        if why is None and kind.__module__ != "builtins":
            way_out += (
                f", or allow the class in both programs with "
                f"facula.serialization.add_safe_globals([{kind.__qualname__}])"
            )
        return PicklingError(
            f"save: {self._where()} holds {name}, which load could not restore"
            f"{': ' + why if why else ''}. {way_out}"
        )


# Functions whose module in Facula is not the one that checkpoints name.
_EXCEPTIONS = {
    ("facula._utils", "_rebuild_from_type_v2"): "torch._tensor",
    ("torch.storage", "_load_from_bytes"): "torch.storage",
}
_W = PickleWriter
_BYTE_INTS = [b"K" + bytes([value]) for value in range(256)]
_SCALARS = {type(None): _W._none, bool: _W._bool, int: _W._int, float: _W._float}  # never in the memo
_WRITERS = {
    str: _W._str,
    bytes: _W._bytes,
    bytearray: _W._bytearray,
    complex: _W._complex,
    tuple: _W._tuple,
    list: _W._list,
    dict: _W._dict,
    set: _W._set,
    frozenset: _W._frozenset,
    OrderedDict: _W._ordered_dict,
    GlobalName: _W._global_name,
    FunctionType: _W._function,
    BuiltinFunctionType: _W._function,
    type(...): _W._ellipsis,
}
