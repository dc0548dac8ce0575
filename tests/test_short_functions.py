"""Functions of the package and the generator are short enough to be read in one go."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 80


def lines(function):
    """Return how many lines a function has, its docstring left out."""
    first = function.body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return function.end_lineno - function.lineno + 1 - docstring * (first.end_lineno - first.lineno + 1)


def functions(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_lines_of_a_function():
    (function,) = functions('def f(\n    x,\n):\n    """What f does.\n\n    In detail.\n    """\n    return x\n')
    assert lines(function) == 4


def test_functions_have_at_most_80_lines():
    paths = [path for folder in ("facula", "codegen") for path in (ROOT / folder).rglob("*.py")]
    long = [f"{path.relative_to(ROOT)}: {f.name}" for path in paths for f in functions(path.read_text()) if lines(f) > MOST]
    assert paths and not long, long
