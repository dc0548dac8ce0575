"""Every file is written for the oldest Python that the package supports, which CI does not run."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REQUIRED = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
OLDEST = int(REQUIRED[1]), int(REQUIRED[2])
#: what Python has since 3.11 or later, by where it stands; a call's keyword is written as `name(keyword)`
LATER = set("""
    tomllib compression annotationlib string.templatelib concurrent.interpreters asyncio.TaskGroup asyncio.Runner
    asyncio.timeout asyncio.Barrier contextlib.chdir datetime.UTC enum.StrEnum enum.ReprEnum enum.member
    enum.nonmember enum.verify functools.Placeholder hashlib.file_digest inspect.getmembers_static
    inspect.markcoroutinefunction itertools.batched math.cbrt math.exp2 math.sumprod math.fma operator.call
    operator.is_none operator.is_not_none os.process_cpu_count os.path.splitroot pathlib.UnsupportedOperation
    random.binomialvariate re.NOFLAG shutil.rmtree(onexc) sys.monitoring sys.exception sys.activate_stack_trampoline
    sys._is_gil_enabled threading.setprofile_all_threads types.get_original_bases typing.Self typing.Never
    typing.LiteralString typing.Required typing.NotRequired typing.Unpack typing.TypeVarTuple typing.assert_never
    typing.assert_type typing.reveal_type typing.override typing.dataclass_transform typing.get_overloads
    typing.ReadOnly typing.TypeIs typing.NoDefault typing.TypeAliasType typing.Buffer collections.abc.Buffer
    unittest.enterModuleContext warnings.deprecated warnings.catch_warnings(action) warnings.catch_warnings(category)
    wsgiref.types zipfile.mkdir
    """.split())
WORDS = {"ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError", "add_note"}  # builtins, and a method of exceptions
ANY = re.compile(r"\b(" + "|".join({*re.findall(r"\w+(?=\(| |$)", " ".join(LATER)), *WORDS}) + r")\b")
#: programs that are only run by hand, and by which Python
NEWER = {"benchmarks/programs/__main__.py": {"tomllib"}}


def files():
    command = ["git", "ls-files", "*.py", "*.pyi"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def unguarded(tree):
    """The nodes of a file that do not stand below a test of the version, or of the attribute itself."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.If, ast.IfExp)) and re.search("version_info|hasattr", ast.unparse(node.test)):
            continue
        yield node
        pending.extend(ast.iter_child_nodes(node))


def dotted(node):
    """Return `a.b.c` of a name or an attribute, and `?.c` where another expression stands before the point."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "?", *reversed(parts)])


def newer(tree):
    """The names in a file that the oldest Python does not have."""
    nodes = list(unguarded(tree))
    names, found = {}, set()  # what a word of the file stands for
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
            found |= LATER & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
            found |= LATER & ({f"{node.module}.{alias.name}" for alias in node.names} | {node.module})
    for node in nodes:
        named = node.func if isinstance(node, ast.Call) else node
        if not isinstance(named, (ast.Name, ast.Attribute)):
            continue
        found |= WORDS & {named.id if isinstance(named, ast.Name) else named.attr}
        head, dot, rest = dotted(named).partition(".")
        name = names.get(head, "") + dot + rest
        found |= LATER & {name, *(f"{name}({keyword.arg})" for keyword in getattr(node, "keywords", ()))}
    return found


@pytest.mark.slow
def test_every_file_is_written_for_the_oldest_python():
    listed = files()
    assert len(listed) > 1000
    for path in listed:
        text = (ROOT / path).read_text()
        tree = ast.parse(text, path, feature_version=OLDEST)
        if ANY.search(text):
            assert newer(tree) <= NEWER.get(path, set()), path


@pytest.mark.parametrize("text", [
    "import warnings\nwith warnings.catch_warnings(action='ignore'): pass",
    "from warnings import catch_warnings as caught\ncaught(action='ignore')",
    "import tomllib",
    "from typing import Self",
    "import typing as t\nx: t.Self",
    "import itertools\nitertools.batched([], 2)",
    "error.add_note('text')",
])  # fmt: skip
def test_newer_names_are_found(text):
    assert ANY.search(text)
    assert newer(ast.parse(text))


def test_names_below_a_test_may_be_newer():
    assert not newer(ast.parse("error.add_note('text') if hasattr(error, 'add_note') else None"))
    assert not newer(ast.parse("import sys\nif sys.version_info >= (3, 11):\n    import tomllib"))
