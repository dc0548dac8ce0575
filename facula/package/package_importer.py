"""Import packages. This is the only place of the library that runs code from a file."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import os
import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

import facula
from facula._serialization import checkpoint, tensors
from facula._serialization.classes import torch_name
from facula._serialization.locations import restorer
from facula.storage import TypedStorage

from . import _archive
from ._archive import byte_order
from ._mangling import PackageMangler, demangle
from ._pickling import PackageUnpickler
from .file_structure_representation import _create_directory_from_file_list
from .importer import Importer, sys_importer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from facula.package.file_structure_representation import Directory

__all__ = ["PackageImporter"]


# ---- Files beside the modules of a package, for `importlib.resources`


class PackageResources:
    """Read the files in one folder of a package.

    Args:
        importer: the `PackageImporter`.
        name: the folder, named like a module.
    """

    def __init__(self, importer: PackageImporter, name: str) -> None:
        self._importer, self._name = importer, name

    def open_resource(self, resource: str) -> Any:
        """Return the file of this name, opened for reading bytes."""
        return io.BytesIO(self._importer.load_binary(self._name, resource))

    def resource_path(self, resource: Any) -> Any:
        """Raise FileNotFoundError: what is in a package is no file of its own."""
        raise FileNotFoundError(f"resource_path: files of packages have no paths, got {resource!r}")

    def is_resource(self, name: str) -> bool:
        """Return True if there is a file of this name."""
        return name in self._importer.names_in(self._name)

    def contents(self) -> Iterator[str]:
        """Yield the names of the files and of the folders beside them, one after the other."""
        below = (folder.rpartition(".") for folder in self._importer._folders)
        yield from sorted({*self._importer.names_in(self._name), *(last for home, _, last in below if home == self._name)})


# ---- The storages of a package, as its pickles name them


class StorageReader:
    """Resolve the persistent names of one pickle.

    Args:
        records: the files of the package.
        importer: the one who asks, which objects that need it to be rebuilt are given.
        restore: (storage, its location) -> storage where it belongs.
    """

    def __init__(self, records, importer, restore):
        self._records, self._importer, self._restore = records, importer, restore
        self._storages, self._rebuilt = {}, {}

    def persistent_load(self, identity):
        """Return the storage or the object that a pickle names so; RuntimeError for what none would be named."""
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


def _sources_of_classes():
    """Let `inspect` find the sources of classes of packages, whose modules are not among those of the interpreter."""
    if hasattr(inspect.getfile, "of_packages"):
        return
    before = inspect.getfile

    def getfile(object):
        if inspect.isclass(object) and object.__module__ in _imported:
            return _imported[object.__module__].__file__
        return before(object)

    getfile.of_packages = True
    inspect.getfile = getfile


_imported: weakref.WeakValueDictionary[str, ModuleType] = weakref.WeakValueDictionary()  # by their mangled names


class PackageImporter(Importer):
    """Import modules from a package, separately from modules of the same names elsewhere.

    Importing a module runs its code, and `load_pickle` calls what the pickle names: a package is a program. Open none
    from somebody whose programs you would not run. For the modules of a package, `import torch` imports Facula.

    Args:
        file_or_buffer: a path to a package or to a folder with its files, or a binary file.
        module_allowed: name -> whether a module that the package expects to be here may be imported.

    Errors: RuntimeError for what is no package; ImportError where a module that it expects is not allowed.

    >>> import io, platform
    >>> file = io.BytesIO()
    >>> with torch.package.PackageExporter(file) as exporter:
    ...     exporter.save_source_string("numbers.small", "ONE = 1")
    ...     exporter.save_pickle("weights", "first.pkl", torch.ones(2))
    ...     exporter.save_text("notes", "read.txt", "text")
    >>> importer = torch.package.PackageImporter(io.BytesIO(file.getvalue()))
    >>> importer.import_module("numbers.small").ONE, importer.get_source("numbers.small")
    (1, 'ONE = 1')
    >>> importer.load_pickle("weights", "first.pkl"), importer.load_text("notes", "read.txt")
    (tensor([1., 1.]), 'text')
    >>> importer.load_binary("notes", "read.txt"), importer.names_in("notes")
    (b'text', ['read.txt'])
    >>> importer.python_version() == platform.python_version(), importer.id().startswith("<torch_package_")
    (True, True)
    >>> importer.file_structure().has_file("notes/read.txt"), importer.get_resource_reader("numbers.small") is None
    (True, True)
    """

    modules: dict[Any, Any]
    filename: Any

    def __init__(self, file_or_buffer: Any, module_allowed: Callable[..., Any] = lambda module_name: True) -> None:
        self._records, self.filename = _archive.opened(file_or_buffer)
        self._mangler = PackageMangler()
        self.extern_modules: Any = self._records.read(".data/extern_modules").decode("utf-8").splitlines()
        self.modules: dict[Any, Any] = {"torch_package_importer": self}
        self._folders = set()  # of modules, with dots; what is above an external module is an empty one of the package
        for name in self.extern_modules:
            parts = name.split(".")
            self._folders.update(".".join(parts[: i + 1]) for i in range(len(parts) - 1))
        for path in self._records.names():
            parts = path.split("/")[:-1]
            self._folders.update(".".join(parts[: i + 1]) for i in range(len(parts)))
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"PackageImporter: module_allowed refused {name!r}, an external module of {file_or_buffer!r}"
                )
        _sources_of_classes()
        # `import` in the package's modules calls this __import__, and those of the program keep theirs.
        self._builtins = {**vars(builtins), "__import__": self.__import__}

    def id(self) -> str:
        """Return what stands before the names of this importer's modules, such as "<torch_package_0>"."""
        return self._mangler.parent_name()

    def __repr__(self) -> str:
        return f"<PackageImporter of {self.filename!r}, {self.id()}>"

    # -- contents ---------------------------------------------------------------------------------

    def load_binary(self, package: str, resource: str) -> bytes:
        """Return the bytes of the file `resource` in the folder `package`, named like a module.

        Errors: ModuleNotFoundError where there is no such folder, FileNotFoundError no such file, ValueError for paths.
        """
        path = self._path(package, resource)
        if path not in self._records:
            raise FileNotFoundError(f"load_binary: the package has no such file, got {path!r}")
        return self._records.read(path)

    def load_text(self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text of the file `resource` in the folder `package`, named like a module.

        Args:
            package, resource: as of `load_binary`, whose errors it has.
            encoding, errors: how bytes become text, as of `bytes.decode`.
        """
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: str | None = None) -> Any:
        """Return the object that was saved so. Calls what the pickle names.

        Args:
            package, resource: as of `load_binary`.
            map_location: where tensors go, as of `facula.load`.
        """
        data = io.BytesIO(self.load_binary(package, resource))
        storages = StorageReader(self._records, self, restorer(map_location))
        return PackageUnpickler(self, data, storages.persistent_load).load()

    def file_structure(self, *, include: str = "**", exclude: str | tuple[Any, ...] = ()) -> Directory:
        """Return the files of the package as a `Directory`.

        Args:
            include: a pattern of paths or several, see `GlobGroup`; parts are between slashes.
            exclude: what of these is left out.
        """
        return _create_directory_from_file_list(self.filename, self._records.names(), include, exclude)

    def python_version(self) -> str | None:
        """Return the version of Python that made the package, such as "3.11.7"; None where it does not say."""
        path = ".data/python_version"
        return self._records.read(path).decode("utf-8").strip() if path in self._records else None

    def get_source(self, module_name: str) -> str:
        """Return the source of the module `module_name`; ModuleNotFoundError for one that the package does not have."""
        path = self._source_path(demangle(module_name))
        if path is None:
            raise self._not_found(demangle(module_name))
        return self._records.read(path).decode("utf-8")

    def get_resource_reader(self, fullname: str) -> PackageResources | None:
        """Return what `importlib.resources` reads files beside the module `fullname` with.

        None for a module that is no package, or not there.
        """
        name = demangle(fullname)
        try:
            module = self.import_module(name)
        except ModuleNotFoundError:
            return None
        return PackageResources(self, name) if hasattr(module, "__path__") else None

    def names_in(self, package: str) -> list[str]:
        """Return the names of the files in the folder `package`, sorted."""
        front = package.replace(".", "/") + "/"
        names = (path[len(front) :] for path in self._records.names() if path.startswith(front))
        return sorted(name for name in names if "/" not in name)

    def _path(self, package, resource):
        if not isinstance(resource, str) or os.path.split(resource)[0] or "\\" in resource:
            raise ValueError(f"PackageImporter: resource must be the name of a file, got {resource!r}")
        name = demangle(package.__spec__.name if isinstance(package, ModuleType) else package)
        if name not in self._folders:
            raise self._not_found(name)
        return f"{name.replace('.', '/')}/{resource}"

    # -- modules ----------------------------------------------------------------------------------

    def import_module(self, name: str, package: str | None = None) -> Any:
        """Return the module `name`, imported the first time that it is asked for: its code runs.

        Args:
            name: with dots, in front, too, for modules beside `package`.
            package: to which such a name is relative.

        Errors: ModuleNotFoundError for what neither the package has nor expects to be here; whatever the code raises.
        """
        if not isinstance(name, str):
            raise TypeError(f"import_module: a module's name must be str, got {type(name).__name__}")
        if not name:
            raise ValueError("import_module: Empty module name, got ''")
        name = demangle(name)
        return self._found(importlib.util.resolve_name(name, demangle(package or "")) if name.startswith(".") else name)

    def __import__(self, name: str, globals: dict[str, Any] | None = None, locals: dict[str, Any] | None = None,
                   fromlist: Sequence[str] | None = (), level: int = 0) -> ModuleType:  # fmt: skip
        """Do what `import` does in the modules of the package."""
        whole = name
        if level:
            whole = importlib.util.resolve_name("." * level + name, demangle((globals or {}).get("__package__") or ""))
        module = self._found(whole)
        if not fromlist:
            first = name.partition(".")[0]
            return self._found(whole[: len(whole) - (len(name) - len(first))])
        if hasattr(module, "__path__"):
            self._load_names(module, whole, fromlist)
        return module

    def _load_names(self, module, whole, fromlist):
        """Load modules below a package that `from package import names` names."""
        for name in fromlist:
            if name == "*":
                self._load_names(module, whole, [each for each in getattr(module, "__all__", ()) if each != "*"])
            elif not hasattr(module, name):
                below = f"{whole}.{name}"
                try:
                    self._found(below)
                except ModuleNotFoundError as error:
                    if error.name != below:
                        raise

    def _found(self, name):
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if parent:
            owner = self._found(parent)
            if name in self.modules:  # importing the parent brought it
                return self.modules[name]
            by_itself = self._is_extern(parent) and self._is_extern(name)  # such as os.path, which is no part of os
            if not hasattr(owner, "__path__") and not by_itself:
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
        module = self._loaded(name)
        if parent and self.modules.get(parent) is owner and name in self.modules:
            setattr(owner, last, module)
        return module

    def _loaded(self, name):
        path = self._source_path(name)
        if path is None:
            if self._is_extern(name):
                module = sys_importer.import_module(name)
                self.modules[name] = module
                return module
            if name not in self._folders:
                raise self._not_found(name)
        module = self._made(name, path)
        self.modules[name] = module
        if path is not None:
            try:
                source = self._records.read(path)
                code = compile(source, module.__file__, "exec", dont_inherit=True)
                # Tracebacks and `inspect` then show lines of the source, which is no file on disk.
                linecache.lazycache(module.__file__, module.__dict__)
                exec(code, module.__dict__)
            except BaseException:
                self.modules.pop(name, None)
                raise
        return self.modules[name]

    def _made(self, name, path):
        """Return a module that is still empty."""
        is_package = path is None or path.endswith("/__init__.py")
        spec = importlib.machinery.ModuleSpec(name, self, origin="<package_importer>", is_package=is_package)
        module = _imported[self._mangler.mangle(name)] = ModuleType(self._mangler.mangle(name))
        module.__spec__, module.__loader__, module.__package__ = spec, self, name if is_package else name.rpartition(".")[0]
        module.__file__ = self._mangler.mangle(path) if path else None
        if is_package:
            module.__path__ = []
        module.__builtins__ = self._builtins
        module.__torch_package__ = True
        return module

    def _source_path(self, name):
        path = name.replace(".", "/")
        return next((whole for whole in (f"{path}/__init__.py", f"{path}.py") if whole in self._records), None)

    def _is_extern(self, name):
        """Return whether whoever imports has the module: it is one of the list or below one."""
        parts = name.split(".")
        above = [".".join(parts[: i + 1]) for i in range(len(parts))]
        return any(home in self.extern_modules or torch_name(home) in self.extern_modules for home in above)

    def _not_found(self, name):
        return ModuleNotFoundError(
            f"import_module: {name!r} is neither in the package {self.filename!r} nor among its external modules: "
            f"{self.extern_modules}",
            name=name,
        )
