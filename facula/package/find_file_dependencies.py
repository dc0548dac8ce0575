"""Find the modules that a source imports, by reading its text without running it."""

from __future__ import annotations

import ast
import importlib.util

__all__ = ["find_files_source_depends_on"]


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """Return the (module, name or None) pairs of the imports in the source `src`, in order, each once.

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
            found.update((pair, True) for pair in _imported_by_call(node, package))
    return list(found)


def _plain(src):
    return src.removeprefix("\ufeff")


def _in_order(tree):
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        # Reversed, because the last one is popped first and imports are to come in the order of the source.
        pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _absolute(node, package):
    name = "." * node.level + (node.module or "")
    return importlib.util.resolve_name(name, package) if node.level else name


def _imported_by_call(node, package):
    """Return the pairs of `__import__("module", ..., fromlist=["name"], level=1)`.

    There are none for other calls, and where the name is not written out.
    """
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    given.update(zip(("name", "globals", "locals", "fromlist", "level"), node.args))
    if getattr(node.func, "id", None) != "__import__" or "name" not in given:
        return []
    try:
        name = ast.literal_eval(given["name"])
        level = ast.literal_eval(given["level"]) if "level" in given else 0
        names = ast.literal_eval(given["fromlist"]) if "fromlist" in given else ()
    except ValueError:
        return []
    if not isinstance(name, str) or not isinstance(level, int):
        return []
    home = importlib.util.resolve_name("." * level + name, package) if level else name
    return [(home, each if each and each != "*" else None) for each in names or ("",)]
