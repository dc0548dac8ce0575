"""Read a TorchScript archive: classes and functions of `code/`, constants, and the objects of `data.pkl`.

The pickles are read by the reader of checkpoints, with a scope that knows the archive's own classes and nothing more.
"""

from __future__ import annotations

import ast
import collections
import enum
from typing import Any

import facula
from facula._serialization import allowed, checkpoint
from facula._serialization.errors import UnpicklingError
from facula._serialization.pickle_reader import PickleReader

from . import builtins
from .errors import ScriptError
from .walker import Function

_LONGEST = 64 << 20  # bytes of source
_DEEPEST = 100  # of syntax trees, brackets within one another


class ScriptClass:
    """Describe a class of the archive: its constants, attributes and methods."""

    name: str
    library: Any
    constants: dict[Any, Any]
    fields: list[Any]
    methods: dict[Any, Any]

    def __init__(self, name: str, node: Any, library: Any) -> None:
        self.name, self.library = name, library
        self.kind: str = next((b.id for b in node.bases if isinstance(b, ast.Name)), "")
        self.parameters, self.buffers, self.constants, self.fields, self.methods = [], [], {}, [], {}
        self.kinds: dict[str, Any] = {}  # annotations of attributes, syntax trees
        for item in node.body:
            self._member(item)
        self.python: Any = self._made()

    def _member(self, item):
        if isinstance(item, ast.FunctionDef):
            self.methods[item.name] = Function(f"{self.name}.{item.name}", item, self.library)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            names = [e.value for e in getattr(item.value, "elts", ()) if isinstance(e, ast.Constant)]
            if item.targets[0].id == "__parameters__":
                self.parameters: Any = names
            elif item.targets[0].id == "__buffers__":
                self.buffers: Any = names
            elif self.kind == "Enum":
                self.constants[item.targets[0].id] = self.library.literal(item.value)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not item.target.id.startswith("__"):
            self.fields.append(item.target.id)
            self.kinds[item.target.id] = item.annotation
            if item.value is not None:
                self.constants[item.target.id] = self.library.literal(item.value)

        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Subscript):  # of names that are numbers
            place = item.targets[0]
            if getattr(place.value, "id", None) == "__annotations__" and isinstance(place.slice, ast.Constant):
                self.fields.append(place.slice.value)
                self.kinds[place.slice.value] = item.value

    def _made(self):
        short = self.name.rpartition(".")[2]
        if self.kind in ("NamedTuple", "Enum"):
            named = self.kind == "NamedTuple"
            made = collections.namedtuple(short, self.fields) if named else enum.Enum(short, self.constants)
            made._declared_by = self  # for who writes an instance
            return made
        if self.kind == "Module":
            return self.library.module_class(self, short)
        return None

    # instances

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.kind in ("NamedTuple", "Enum"):
            return self.python(*args, **kwargs)
        if self.kind == "Module":
            raise ScriptError(f"{self.name}: modules are not made by programs")
        made = builtins.ScriptObject(self)
        self.bound(made, "__init__")(*args, **kwargs)
        return made

    def new(self) -> Any:
        """Return an instance without attributes, for `data.pkl` to fill."""
        if self.kind == "Module":
            return self.python._empty()
        return builtins.ScriptObject(self)

    def bound(self, owner: Any, name: str) -> Any:
        """Return the method `name` of an instance."""
        function = self.methods.get(name)
        if function is None:
            raise ScriptError(f"{self.name} has no method {name}")
        return lambda *args, **kwargs: function(owner, *args, **kwargs)

    def attribute(self, owner: Any, name: str) -> Any:
        """Return what `owner.name` is: a constant, an attribute, or a method."""
        if name in self.constants:
            return self.constants[name]
        found = vars(owner).get(name, self)
        if found is self and isinstance(owner, facula.nn.Module):
            tables = (owner._parameters, owner._buffers, owner._modules)
            found = next((table[name] for table in tables if name in table), self)
        if found is self:
            if name in self.methods:
                return self.bound(owner, name)
            raise ScriptError(f"{self.name} has no attribute {name}")
        return found

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute that the class declares; no other one."""
        if name not in self.fields or name.startswith("__"):
            raise ScriptError(f"{self.name} has no attribute {name} that can be set")
        if isinstance(owner, facula.nn.Module):
            setattr(owner, name, value)
        else:
            vars(owner)[name] = value


builtins.CALLABLE.append(ScriptClass)


class ScriptEnum(ScriptClass):
    """Describe an enum of the archive."""


class Library:
    """Find functions and classes of an archive, which are parsed when they are first named."""

    constants: tuple[Any, ...]
    depth: int

    def __init__(self, records: Any, module_class: Any) -> None:
        self.module_class = module_class
        self._files, self._named, self.constants, self.depth = {}, {}, (), 0
        # Only files of source count; beside each lies a `.debug_pkl` with the places of its lines.
        names = [n for n in records.names() if n.startswith("code/") and n.endswith(".py")]
        if sum(records.entry(n).nbytes for n in names) > _LONGEST:
            raise ScriptError(f"jit.load: the archive has more than {_LONGEST} bytes of source")
        self.sources: dict[str, Any] = {n: records.read(n) for n in names}
        self.version: bytes = records.read("version") if "version" in records else b"3\n"
        self._texts = dict(self.sources)

    def named(self, path: str) -> Any:
        """Return the function or the class that `__torch__.a.b.name` names; members of enums too."""
        if path in self._named:
            return self._named[path]
        folder, _, name = path.rpartition(".")
        node = self._definitions(folder).get(name)
        if isinstance(node, ast.ClassDef):
            enum_class = any(isinstance(b, ast.Name) and b.id == "Enum" for b in node.bases)
            found = (ScriptEnum if enum_class else ScriptClass)(path, node, self)
        elif isinstance(node, ast.FunctionDef):
            found = Function(path, node, self)
        else:
            found = self._member(path, folder, name)
        self._named[path] = found
        return found

    def _member(self, path, folder, name):
        """Return a member of an enum; what makes an instance of a class."""
        owner = self.named(folder) if folder.startswith("__torch__.") else None
        kind = getattr(owner, "kind", None)
        if kind == "Enum" and name in owner.python.__members__:
            return owner.python[name]
        if kind == "" and name == "__new__":
            return builtins.Op(path, None, lambda cls: owner.new())
        raise ScriptError(f"the archive has no {path}")

    def _definitions(self, folder):
        if folder not in self._files:
            record = f"code/{folder.replace('.', '/')}.py"
            body = self._parsed(record).body if record in self._texts else ()
            self._files[folder] = {n.name: n for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
        return self._files[folder]

    def _parsed(self, record):
        text = self._texts.pop(record).decode("utf-8", "replace")
        _check_depth(text, record)
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ScriptError(f"jit.load: {record} is no source of TorchScript: {error}") from None

    def literal(self, node: Any) -> Any:
        """Return the value of a constant of a class."""
        from .walker import Compiler

        return Compiler(self, "class").expression(node)({})


def _check_depth(text, record):
    """Bound brackets and blocks within one another before the parser recurses on them."""
    depth = deepest = 0
    for c in text:
        if c in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in ")]}":
            depth -= 1
    indent = max((len(line) - len(line.lstrip(" ")) for line in text.splitlines()), default=0)
    if deepest > _DEEPEST or indent > 4 * _DEEPEST:
        raise ScriptError(f"jit.load: {record} nests deeper than {_DEEPEST}")


def _typed(value, *rest):
    return value


class Scope(allowed.Scope):
    """Find names in the pickles of an archive: its own classes, tensors, and the markers of typed lists."""

    bare: tuple[type[ScriptEnum]] = (ScriptEnum,)

    def __init__(self, library: Any) -> None:
        super().__init__(False)
        self._library = library

    def find(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return self._library.named(f"{module}.{name}")
        if module == "torch.jit._pickle":
            if name not in _MARKS:
                raise allowed.Forbidden(f"{module}.{name}")
            return self._callable(allowed.Callable(f"{module}.{name}"), _MARKS[name])
        return super().find(module, name)

    def new(self, cls: type, args: Any) -> Any:
        return cls.new() if isinstance(cls, ScriptClass) else super().new(cls, args)

    def call(self, function: Any, args: Any) -> Any:
        plain = isinstance(function, ScriptClass) and function.kind in ("NamedTuple", "Enum")
        return function(*args) if plain else super().call(function, args)

    def build(self, obj: Any, state: Any, nesting: Any) -> Any:
        if not hasattr(obj, "_script_class"):
            return super().build(obj, state, nesting)
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise UnpicklingError(f"jit.load: the state of {obj!r} is no dict of attributes")
        if isinstance(obj, facula.nn.Module):
            obj._fill(state)
        else:
            vars(obj).update(state)


_MARKS = {
    "build_intlist": _typed, "build_doublelist": _typed, "build_boollist": _typed, "build_tensorlist": _typed,
    "restore_type_tag": _typed,
}  # fmt: skip


class Archive(checkpoint.Checkpoint):
    """Read an open archive. Storages are read as those of a checkpoint; the records of constants lie in `constants/`."""

    def __init__(self, records: Any, module_class: Any) -> None:
        self._records, self._skip_data, self._storages, self._swap = records, False, {}, False
        if "byteorder" in records and records.read("byteorder").strip() not in (b"little", b""):
            raise NotImplementedError("jit.load: an archive of the other byte order cannot be read")
        self.library: Library = Library(records, module_class)
        self._folder = "data"

    def module(self, restore: Any) -> Any:
        """Return the module that was saved."""
        self.library.constants = self._pickled("constants", restore) if "constants.pkl" in self._records else ()
        return self._pickled("data", restore)

    def _pickled(self, name, restore):
        record, self._folder, self._storages = f"{name}.pkl", name, {}
        if record not in self._records:
            raise RuntimeError(f"jit.load: the archive has no {record}")
        scope = Scope(self.library)
        data = self._records.read(record)
        reader = PickleReader(data, scope, lambda identity: self._storage(identity, restore, False))
        try:
            return reader.load()
        except allowed.Forbidden as error:
            raise UnpicklingError(f"jit.load: {record} names {error.name}, which no archive of TorchScript holds") from None

    def _read(self, key, nbytes, kind, location, restore, mapped):
        records = self._records
        self._records = _Renamed(records, self._folder)
        try:
            return super()._read(key, nbytes, kind, location, restore, mapped)
        finally:
            self._records = records

    def extra(self, name: str) -> Any:
        """Return the bytes of an extra file of this name, or None."""
        record = f"extra/{name}"
        return self._records.read(record) if record in self._records else None


class _Renamed:
    """Read the records with `data/` replaced by another folder."""

    def __init__(self, records, folder):
        self._records, self._folder = records, folder

    def __contains__(self, name):
        return self._at(name) in self._records

    def __getattr__(self, method):
        return lambda name, *args: getattr(self._records, method)(self._at(name), *args)

    def _at(self, name):
        return f"{self._folder}/{name.removeprefix('data/')}"
