"""Which modules a source imports, read from its text without running it."""

from __future__ import annotations

import ast
import importlib.util

__all__ = ["find_files_source_depends_on"]


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """The (module, name or None) pairs of the imports in the source `src`, in order, each once.

    `import a.b` gives ("a.b", None), `from a import b` gives ("a", "b"), `__import__("a")` gives ("a", None); imports
    within functions count, too. Relative ones are of `package`.

    Errors: SyntaxError for what is no Python.

    >>> source = "import a.b; from . import c"
    >>> torch.package.find_file_dependencies.find_files_source_depends_on(source, "here")
    [('a.b', None), ('here', 'c')]
    """
    found = {}
    for node in _in_order(ast.parse(_plain(src))):
        if isinstance(node, ast.Import):
            found.update(((alias.name, None), True) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = _absolute(node, package)
            found.update(((home, None if alias.name == "*" else alias.name), True) for alias in node.names)
        elif isinstance(node, ast.Call):
            name = _imported_by_call(node)
            if name:
                found[name, None] = True
    return list(found)


def _plain(src):
    return src.removeprefix("\ufeff")


def _in_order(tree):
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _absolute(node, package):
    name = "." * node.level + (node.module or "")
    return importlib.util.resolve_name(name, package) if node.level else name


def _imported_by_call(node):
    """The module of `__import__("module")`; None for other calls, and where the name is not written out."""
    if getattr(node.func, "id", None) != "__import__" or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
