"""What to do with the modules that an exporter comes upon."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .glob_group import GlobGroup

if TYPE_CHECKING:
    from facula.package._digraph import DiGraph


class Action(enum.Enum):
    """What becomes of a module."""

    INTERN = "its source is put into the package"
    EXTERN = "whoever imports the package has it"
    MOCK = "something that refuses to be used stands for it"
    DENY = "the package must not need it"
    SKIP = "every package has it"


class PackagingErrorReason(enum.Enum):
    """Why a module cannot be packed; the texts are those that programs know.

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
    """A pattern that must match did not."""


class PackagingError(Exception):
    """Modules that cannot be packed: which ones, and why. `dependency_graph` tells who needs them.

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


#: modules of the standard library that are not let in unasked
KEPT_OUT = frozenset({"sys", "io"})


def is_let_in_unasked(module_name):
    """Return whether whoever imports a package has the module for sure: the library itself, and most of Python's."""
    top = module_name.partition(".")[0]
    return top in ("torch", "facula") or (top in sys.stdlib_module_names and top not in KEPT_OUT)


class Pattern:
    """One call of intern, extern, mock or deny."""

    def __init__(self, action, include, exclude, allow_empty):
        self.group = GlobGroup(include, exclude=exclude)
        self.action, self.allow_empty, self.was_matched = action, allow_empty, False

    def matches(self, module_name):
        """Return whether it is about the module; remember that it was about one."""
        found = self.group.matches(module_name)
        self.was_matched |= found
        return found


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
