"""Write packages, and explain why one cannot be written.

Long because every function states its types and explains its arguments.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import io
import itertools
import linecache
import os
import platform
import secrets
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import facula
from facula._serialization import replacing, tensors
from facula._serialization.zip_writer import ZipWriter
from facula.utils.hooks import RemovableHandle

from ._digraph import DiGraph
from ._mangling import is_mangled
from ._patterns import KEPT_OUT, Action, Pattern, is_let_in_unasked
from ._pickling import PackagePickler, StorageNumbers
from .find_file_dependencies import find_files_source_depends_on
from .importer import Importer, OrderedImporter, sys_importer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

__all__ = ["PackagingErrorReason", "EmptyMatchError", "PackagingError", "PackageExporter"]


class PackagingErrorReason(enum.Enum):
    """Name why a module cannot be packed; the texts are those that programs expect.

    >>> print(torch.package.package_exporter.PackagingErrorReason.DENIED)
    Module was denied by a pattern.
    """

    IS_EXTENSION_MODULE = "Module is a C extension module; only Python source can be packaged."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, which is missing on disk."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "No pattern says what to do with the module: intern, extern or mock it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = "Module was mocked, and yet an object that is saved needs it."

    def __str__(self) -> str:
        return self.value


class EmptyMatchError(Exception):
    """Report that a pattern that must match did not."""


class PackagingError(Exception):
    """Report modules that cannot be packed: which ones, and why. `dependency_graph` has the modules that need them.

    Args:
        dependency_graph: that of the exporter.
        debug: whether the text says how each came to be needed.
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        broken = {}
        for name, attributes in dependency_graph.nodes.items():
            if attributes.get("error"):
                broken.setdefault(attributes["error"], []).append((name, attributes.get("error_context")))
        lines = []
        for reason, modules in broken.items():
            lines.append(f"* {reason}")
            for name, context in modules:
                lines.append(f"    {name}")
                if context:
                    lines.append(f"      Context: {context}")
                if name in KEPT_OUT:
                    lines.append(f"      Note: {name} reaches into the system; where it is needed, extern({name!r}) lets it in")
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(dependency_graph.first_path(name))}")
        if not debug:
            lines += ["", "Set debug=True of PackageExporter to see how each of them came to be needed."]
        super().__init__("\n" + "\n".join(lines) + "\n")
        self.dependency_graph = dependency_graph


def check_patterns(patterns, graph, debug):
    """Raise EmptyMatchError or PackagingError where a package cannot be made."""
    for pattern in patterns:
        if not pattern.allow_empty and not pattern.was_matched:
            raise EmptyMatchError(f"PackageExporter: no module matched {pattern.group}, given with allow_empty=False")
    if any(attributes.get("error") for attributes in graph.nodes.values()):
        raise PackagingError(graph, debug=debug)


def source_error(module):
    """Return why the source of a module cannot be had: a reason and what is known of it."""
    path = getattr(module, "__file__", None)
    if path is None:
        return PackagingErrorReason.NO_DUNDER_FILE, None
    if Path(path).suffix in (".so", ".pyd", ".dylib"):
        return PackagingErrorReason.IS_EXTENSION_MODULE, None
    return PackagingErrorReason.SOURCE_FILE_NOT_FOUND, f"filename: {path}"

_FORMAT_VERSION = b"6\n"
#: what every package has without being asked
_PROVIDED = frozenset({"torch_package_importer", "_mock"})
_MOCKED = """\
from _mock import MockedObject


def __getattr__(attr: str):
    return MockedObject(__name__ + '.' + attr, _suppress_err=True)
"""


class PackageExporter:
    """Write a package: modules as sources, objects as pickles, texts and bytes, in one file that PyTorch reads, too.

    Saved objects name modules, whose sources name other modules. `intern`, `extern`, `mock` and `deny` determine what
    becomes of each; the first pattern that matches decides. Python's standard library and this one are not packed.

    Args:
        f: a path, whose file is there only once the package is whole, or a binary file to write to.
        importer: what finds classes and modules, or several of them; `sys_importer`, or that of a package to pack again.
        debug: whether errors say how a module came to be needed.

    Errors: TypeError for what cannot be written to; PackagingError at the end where a module is not accounted for.

    >>> import io
    >>> file = io.BytesIO()
    >>> exporter = torch.package.PackageExporter(file)
    >>> exporter.intern("facula.package._digraph")
    >>> exporter.extern("numpy.**")
    >>> exporter.mock("heavy.**")
    >>> exporter.deny("secret.**")
    >>> handle = exporter.register_mock_hook(lambda exporter, name: print("mocked:", name))
    >>> handles = exporter.register_intern_hook(print), exporter.register_extern_hook(print)
    >>> [each.remove() for each in handles]
    [None, None]
    >>> exporter.save_source_string("numbers.small", "import heavy.tools; ONE = 1")
    >>> exporter.save_pickle("weights", "first.pkl", {"bias": torch.zeros(2)})
    >>> exporter.save_text("notes", "read.txt", "text")
    >>> exporter.save_binary("notes", "bytes", b"bytes")
    >>> exporter.interned_modules(), exporter.mocked_modules(), exporter.denied_modules()
    (['numbers.small'], ['heavy.tools'], [])
    >>> "torch" in exporter.externed_modules()
    True
    >>> exporter.get_rdeps("heavy.tools"), exporter.get_unique_id()
    (['numbers.small'], '0')
    >>> "heavy.tools" in exporter.dependency_graph_string(), "heavy.tools" in exporter.all_paths("numbers.small", "heavy.tools")
    (True, True)
    >>> exporter.close()
    mocked: heavy.tools
    >>> importer = torch.package.PackageImporter(io.BytesIO(file.getvalue()))
    >>> importer.import_module("numbers.small").ONE, importer.load_pickle("weights", "first.pkl")
    (1, {'bias': tensor([0., 0.])})
    """

    def __init__(self, f: Any, importer: Any = sys_importer, debug: bool = False) -> None:
        self.debug = debug
        self.importer: Importer | OrderedImporter = importer if isinstance(importer, Importer) else OrderedImporter(*importer)
        self.dependency_graph: DiGraph = DiGraph()
        self.patterns: list[Any] = []
        self.extern_modules: list[Any] = []
        self._hooks = {action: collections.OrderedDict() for action in (Action.INTERN, Action.EXTERN, Action.MOCK)}
        self._storages = StorageNumbers()
        self._reduced = {}  # identity -> (object, kept so that its identity stays its own; what its pickle has)
        self._ids = itertools.count()
        self._written = set()
        self._stack = contextlib.ExitStack()
        self._zip = None
        name, file = _opened(f, self._stack)
        self._zip = ZipWriter(file, name)

    # -- what is saved ----------------------------------------------------------------------------

    def save_source_file(self, module_name: str, file_or_directory: Any, dependencies: bool = True) -> None:
        """Save a Python file as the module `module_name`, or all of those in a folder as modules below it.

        Args:
            module_name: what it will be imported as.
            file_or_directory: a path.
            dependencies: whether what it imports is packed as well.

        Errors: OSError for files that cannot be read.

        >>> import io, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, torch.package.PackageExporter(io.BytesIO()) as exporter:
        ...     _ = pathlib.Path(folder, "small.py").write_text("ONE = 1")
        ...     exporter.save_source_file("numbers", folder)
        ...     exporter.interned_modules()
        ['numbers.small']
        """
        path = Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(module_name, path.read_text("utf-8"), path.name == "__init__.py", dependencies)
            return
        for file in sorted(path.rglob("*.py")):
            parts = file.relative_to(path).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join((module_name, *(parts[:-1] if is_package else parts)))
            self.save_source_string(name, file.read_text("utf-8"), is_package, dependencies)

    def save_source_string(self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True) -> None:
        """Save `src` as the source of the module `module_name`.

        Args:
            module_name: what it will be imported as.
            src: the source.
            is_package: whether there can be modules below it.
            dependencies: whether what it imports is packed as well.
        """
        _check_text("save_source_string", "src", src)
        self._add_source(_module_parts("save_source_string", module_name), src, is_package, dependencies)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Save the source of a module that can be imported here.

        Args:
            module_name: its name.
            dependencies: whether what it imports is packed as well.

        Errors: TypeError for a module in place of a name; ModuleNotFoundError where there is none.

        >>> import io
        >>> with torch.package.PackageExporter(io.BytesIO()) as exporter:
        ...     exporter.save_module("colorsys")
        ...     exporter.interned_modules()
        ['colorsys']
        """
        if not isinstance(module_name, str):
            kind = type(module_name).__name__
            raise TypeError(f"save_module: expected a module's name (its __name__), got {kind}")
        self._intern_module(module_name, dependencies)

    def save_pickle(self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3) -> None:
        """Save an object, as Python pickles it; the storages of its tensors are kept once for the whole package.

        Args:
            package: the folder it is in, as the name of a module.
            resource: its name there.
            obj: the object. Its classes are found by name, so they must stand at the top level of modules.
            dependencies: whether the modules of those classes are packed as well.
            pickle_protocol: 3 or 4.

        Errors: pickle.PicklingError for what has no name by which to find it; ValueError for other protocols;
            NotImplementedError for programs of `jit`.
        """
        if pickle_protocol not in (3, 4):
            raise ValueError(f"save_pickle: pickle_protocol must be 3 or 4, got {pickle_protocol}")
        path = self._filename(package, resource)
        data = io.BytesIO()
        pickler = PackagePickler(self.importer, data, pickle_protocol, self._persistent_id, self._storages.needs_untyped)
        pickler.dump(obj)
        node = f"<{package}.{resource}>"
        self.dependency_graph.add_node(node, action=Action.INTERN, provided=True, is_pickle=True)
        for name in pickler.modules if dependencies else ():
            self.dependency_graph.add_edge(node, name)
            self.add_dependency(name)
            attributes = self.dependency_graph.nodes[name]
            if attributes.get("action") is Action.MOCK:
                reason = PackagingErrorReason.MOCKED_BUT_STILL_USED
                attributes.update(error=reason, error_context=f"{node} holds objects that need it")
        self._write(path, data.getvalue())

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Save the str `text` under the name `resource` in the folder `package`, as UTF-8."""
        _check_text("save_text", "text", text)
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Save bytes under the name `resource` in the folder `package`, named like a module."""
        if not isinstance(binary, (bytes, bytearray, memoryview)):
            raise TypeError(f"save_binary: binary must be bytes, got {type(binary).__name__}")
        self._write(self._filename(package, resource), bytes(binary))

    # -- what becomes of modules ------------------------------------------------------------------

    def intern(self, include: Sequence[str] | str, *, exclude: tuple[Any, ...] = (), allow_empty: bool = True) -> None:
        """Pack modules as sources, and what those need.

        Args:
            include: a pattern or several, see `GlobGroup`.
            exclude: what of these is not meant.
            allow_empty: whether it is right that no module matches; otherwise EmptyMatchError at the end.
        """
        self.patterns.append(Pattern(Action.INTERN, include, exclude, allow_empty))

    def extern(self, include: str, *, exclude: tuple[Any, ...] = (), allow_empty: bool = True) -> None:
        """Leave modules to whoever imports the package, who has them: they are not packed.

        Args:
            include: a pattern or several, see `GlobGroup`.
            exclude: what of these is not meant.
            allow_empty: whether it is right that no module matches; otherwise EmptyMatchError at the end.
        """
        self.patterns.append(Pattern(Action.EXTERN, include, exclude, allow_empty))

    def mock(self, include: str, *, exclude: tuple[Any, ...] = (), allow_empty: bool = True) -> None:
        """Mock modules, for which something stands that refuses to be used: they are not packed, though sources import them.

        Args:
            include: a pattern or several, see `GlobGroup`.
            exclude: what of these is not meant.
            allow_empty: whether it is right that no module matches; otherwise EmptyMatchError at the end.
        """
        self.patterns.append(Pattern(Action.MOCK, include, exclude, allow_empty))

    def deny(self, include: str, *, exclude: tuple[Any, ...] = ()) -> None:
        """Deny modules, which nothing in the package may need: PackagingError at the end where something does.

        Args:
            include: a pattern or several, see `GlobGroup`.
            exclude: what of these is not meant.
        """
        self.patterns.append(Pattern(Action.DENY, include, exclude, True))

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Say that the package needs the module `module_name`; the patterns decide what becomes of it.

        `dependencies` says whether what a module that is packed imports is packed as well.

        Args:
            module_name: the name of the module.
            dependencies: whether what a module that is packed imports is packed as well.

        >>> import io
        >>> with torch.package.PackageExporter(io.BytesIO()) as exporter:
        ...     exporter.extern("numpy")
        ...     exporter.add_dependency("numpy")
        ...     exporter.externed_modules()
        ['numpy']
        """
        graph = self.dependency_graph
        if graph.nodes.get(module_name, {}).get("provided"):
            return
        if module_name in _PROVIDED:
            graph.add_node(module_name, action=Action.SKIP, provided=True)
            return
        if is_let_in_unasked(module_name):
            graph.add_node(module_name, action=Action.EXTERN, provided=True)
            return
        pattern = next((pattern for pattern in self.patterns if pattern.matches(module_name)), None)
        if pattern is None:
            graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
        elif pattern.action is Action.DENY:
            graph.add_node(module_name, action=Action.DENY, error=PackagingErrorReason.DENIED)
        elif pattern.action is Action.INTERN:
            try:
                self._intern_module(module_name, dependencies)
            except ImportError as error:
                reason = PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED
                graph.add_node(module_name, action=Action.INTERN, error=reason, error_context=str(error))
        else:
            graph.add_node(module_name, action=pattern.action, provided=True)

    def register_intern_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each module packed as a source; the handle's `remove()` ends that."""
        return self._register(Action.INTERN, hook)

    def register_extern_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each module left to who imports; the handle's `remove()` ends that."""
        return self._register(Action.EXTERN, hook)

    def register_mock_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each mocked module; the handle's `remove()` ends that."""
        return self._register(Action.MOCK, hook)

    def _register(self, action, hook):
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    # -- the graph --------------------------------------------------------------------------------

    def get_unique_id(self) -> str:
        """Return a text that no other call of this exporter gives."""
        return str(next(self._ids))

    def dependency_graph_string(self) -> str:
        """Return which module needs which, as Graphviz reads it."""
        return self.dependency_graph.to_dot()

    def interned_modules(self) -> list[str]:
        """Return the names of the modules that are packed as sources, sorted."""
        return self._with_action(Action.INTERN)

    def externed_modules(self) -> list[str]:
        """Return the names of the modules that are left to who imports."""
        return self._with_action(Action.EXTERN)

    def mocked_modules(self) -> list[str]:
        """Return the names of the mocked modules."""
        return self._with_action(Action.MOCK)

    def denied_modules(self) -> list[Any]:
        """Return the names of the modules that must not be needed."""
        return self._with_action(Action.DENY)

    def get_rdeps(self, module_name: str) -> list[str]:
        """Return the names of the modules that need the module `module_name`; none for one that is not known."""
        return self.dependency_graph.predecessors(module_name) if module_name in self.dependency_graph else []

    def all_paths(self, src: str, dst: str) -> str:
        """Return the part of the graph that is between the modules `src` and `dst`, as Graphviz reads it.

        Args:
            src, dst: names of modules of the graph.

        Errors: ValueError for names that are not in the graph.
        """
        return self.dependency_graph.all_paths(src, dst)

    def _with_action(self, action):
        nodes = self.dependency_graph.nodes.items()
        return sorted(name for name, node in nodes if node.get("action") is action and not node.get("is_pickle"))

    # -- sources ----------------------------------------------------------------------------------

    def _intern_module(self, module_name, dependencies):
        self.dependency_graph.add_node(module_name, action=Action.INTERN, provided=True)
        module = self.importer.import_module(module_name)
        source = _source_of(module)
        if source is None:
            reason, context = source_error(module)
            self.dependency_graph.add_node(module_name, action=Action.INTERN, error=reason, error_context=context)
        else:
            self._add_source(module_name, source, hasattr(module, "__path__"), dependencies)

    def _add_source(self, module_name, source, is_package, dependencies):
        graph = self.dependency_graph
        graph.add_node(module_name, action=Action.INTERN, provided=True, source=source, is_package=is_package)
        if not dependencies:
            return
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            names = [self._name_of_import(*pair) for pair in find_files_source_depends_on(source, package)]
        except (SyntaxError, ImportError, ValueError) as error:
            graph.add_node(module_name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, error_context=str(error))
            return
        for name in dict.fromkeys(names):
            if not self._may_be_needed(name):
                continue
            graph.add_edge(module_name, name)
            self.add_dependency(name)

    def _name_of_import(self, home, name):
        """Return what `from home import name` needs: the module home.name where that is one."""
        full = f"{home}.{name}"
        return full if name is not None and (full in self.dependency_graph or self._exists(full)) else home

    def _may_be_needed(self, module_name):
        """Return whether a module is accounted for or can be imported here.

        What cannot be may be a folder of resources, or an import that the source guards; where it is needed after all,
        importing the package says so.
        """
        named = any(pattern.action is not Action.INTERN and pattern.group.matches(module_name) for pattern in self.patterns)
        return named or module_name in self.dependency_graph or module_name in _PROVIDED or self._exists(module_name)

    def _exists(self, module_name):
        try:
            return isinstance(self.importer.import_module(module_name), ModuleType)
        except Exception:  # noqa: BLE001 - a module that cannot be imported is none to pack
            return False

    # -- the file ---------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self._zip = None
            self._stack.__exit__(kind, error, trace)

    def close(self) -> None:
        """Write the sources and end the file; nothing can be saved afterwards.

        Errors: see the class.
        """
        if self._zip is None:
            raise RuntimeError("close: the package is closed already, got a second call")
        try:
            check_patterns(self.patterns, self.dependency_graph, self.debug)
            for name, attributes in list(self.dependency_graph.nodes.items()):
                self._write_module(name, attributes)
            self._write(".data/extern_modules", "".join(f"{name}\n" for name in self.extern_modules).encode())
            self._write(".data/python_version", platform.python_version().encode())
            self._write(".data/version", _FORMAT_VERSION)
            self._write("byteorder", sys.byteorder.encode())
            self._write(".data/serialization_id", str(secrets.randbits(128)).zfill(40)[:40].encode())
            self._zip.close()
        except BaseException:
            self._zip = None
            self._stack.__exit__(*sys.exc_info())
            raise
        self._zip = None
        self._stack.close()

    def _write_module(self, name, attributes):
        action = attributes.get("action")
        if attributes.get("is_pickle") or action in (Action.SKIP, None):
            return
        for hook in self._hooks[action].values():
            hook(self, name)
        path = name.replace(".", "/")
        if action is Action.EXTERN:
            self.extern_modules.append(name)
        elif action is Action.MOCK:
            self._write_mock()
            is_package = hasattr(self.importer.import_module(name), "__path__") if self._exists(name) else False
            self._write(f"{path}/__init__.py" if is_package else f"{path}.py", _MOCKED.encode())
        else:
            ending = "/__init__.py" if attributes["is_package"] else ".py"
            self._write(path + ending, attributes["source"].encode("utf-8"))
            if attributes["source"] == _MOCKED:  # of a package that is packed again
                self._write_mock()

    def _write_mock(self):
        if "_mock.py" not in self._written:
            self._write("_mock.py", (Path(__file__).parent / "_mock.py").read_bytes())

    def _write(self, path, data):
        if self._zip is None:
            raise RuntimeError(f"PackageExporter: the package is closed, got {path!r} to write")
        if path in self._written:
            raise ValueError(f"PackageExporter: the package has such a file already, got {path!r}")
        self._zip.write(path, data)
        self._written.add(path)

    def _filename(self, package, resource):
        parts = _module_parts("PackageExporter", package)
        if not isinstance(resource, str) or not resource or "/" in resource or "\\" in resource or resource in (".", ".."):
            raise ValueError(f"PackageExporter: a resource must be the name of a file without folders, got {resource!r}")
        return f"{parts.replace('.', '/')}/{resource}"

    def _persistent_id(self, obj):
        if isinstance(obj, (facula.storage.TypedStorage, facula.UntypedStorage)):
            return self._storages.persistent_id(obj, self._write_storage)
        if isinstance(obj, (facula.jit.ScriptModule, facula.jit.ScriptFunction)):
            raise NotImplementedError(f"save_pickle: programs of jit cannot be packed, use jit.save, got {type(obj).__name__}")
        if not isinstance(obj, type) and hasattr(type(obj), "__reduce_package__"):
            if id(obj) not in self._reduced:
                self._reduced[id(obj)] = obj, obj.__reduce_package__(self)
            return "reduce_package", id(obj), *self._reduced[id(obj)][1]
        return None

    def _write_storage(self, number, untyped):
        host = untyped if untyped.device.type == "cpu" else untyped.cpu()
        self._write(f".data/{number}.storage", tensors.storage_view(host))


def _check_text(op, argument, text):
    if not isinstance(text, str):
        raise TypeError(f"{op}: {argument} must be str, got {type(text).__name__}")


def _module_parts(op, name):
    """Return `name`, which is made of identifiers or at least of parts that can be files."""
    good = isinstance(name, str) and all(part and not set(part) & set('/\\\0') for part in name.split("."))
    if not good:
        raise ValueError(f"{op}: names of modules are parts between dots, got {name!r}")
    return name


def _opened(f, stack):
    """Return (name of the folder within, binary file)."""
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        return os.path.splitext(os.path.basename(path))[0] or "archive", stack.enter_context(replacing.replacing(path))
    if not hasattr(f, "write"):
        raise TypeError(f"PackageExporter: f must be a path or have write(), got {type(f).__name__}")
    return "archive", f


def _source_of(module):
    """Return the text of a module, None where it has none."""
    loader = getattr(module, "__loader__", None) or getattr(getattr(module, "__spec__", None), "loader", None)
    if is_mangled(module.__name__) and hasattr(loader, "get_source"):
        return loader.get_source(module.__name__)
    path = getattr(module, "__file__", None)
    if isinstance(loader, SourceFileLoader):  # one of a program's own may read another file
        with contextlib.suppress(ImportError):
            path = loader.get_filename(module.__name__)
    if path is None or not path.endswith(".py"):
        return None
    linecache.checkcache(path)
    text = "".join(linecache.getlines(path, module.__dict__))
    return text if text or Path(path).exists() else None
