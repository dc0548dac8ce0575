"""Find the syntax tree of a function, where it certainly belongs to the code that runs."""

from __future__ import annotations
import __future__

import ast
import inspect
import itertools
import linecache
import types
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_SAME = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_kwonlyargcount",
    "co_posonlyargcount",
)
_known: dict[types.CodeType, Any] = {}  # what was found before
_trees: dict[str, tuple[Any, Any]] = {}  # of whole files: their lines and tree


def tree_of(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    """Return the definition of a function; None where its text is not there, or gives another code.

    A text that gives the same instructions on the same names and constants means the same, wherever it was found.

    Args:
        function: one that is written in Python.
    """
    code = function.__code__
    if code not in _known:
        if len(_known) >= 1000:
            _known.clear()
        _known[code] = _found_tree(function, code)
    return _known[code]


def _found_tree(function, code):
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        return None
    with warnings.catch_warnings():  # the program has had those of its source
        warnings.simplefilter("ignore")
        for node in _definitions(code, lines):
            for imported in _imported(function):
                found = _compiled(node, code, imported)
                if found is not None and _is_alike(found, code):
                    return node
    return None


def _imported(function: types.FunctionType) -> Iterator[tuple[str, ...]]:
    """Return the global names that the file may have imported, in several guesses: CPython has other instructions for those."""
    found = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    own = function.__globals__.get("__name__")
    is_module = {name: isinstance(value, types.ModuleType) for name, value in found.items()}
    foreign = [name for name, value in found.items() if is_module[name] or getattr(value, "__module__", own) != own]
    yield tuple(foreign)
    for count in range(min(len(foreign), 6)):
        yield from itertools.combinations(foreign, count)


def _definitions(code: types.CodeType, lines: list[str]) -> Iterator[Any]:
    """Return what may be the definition."""
    try:
        if code.co_name != "<lambda>":
            block = inspect.getblock(lines[code.co_firstlineno - 1 :])
            found = ast.parse("if True:\n" + "".join(block) if block[0][:1].isspace() else "".join(block)).body[0]
            lines_before = code.co_firstlineno - 1
            if isinstance(found, ast.If):
                found, lines_before = found.body[0], lines_before - 1
            if isinstance(found, ast.FunctionDef):
                ast.increment_lineno(found, lines_before)
                yield found
            return
        known = _trees.get(code.co_filename)
        if known is None or known[0] is not lines:
            known = _trees[code.co_filename] = (lines, ast.parse("".join(lines)))
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return
    for node in ast.walk(known[1]):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            yield node


def _compiled(node: Any, code: types.CodeType, imported: tuple[str, ...]) -> types.CodeType | None:
    """Return the code of a definition, within a function whose variables are those of the surrounding one."""
    free = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in code.co_freevars]
    arguments = ast.arguments(
        **{**dict(ast.iter_fields(node.args)), "defaults": [ast.Constant(None) for _ in node.args.defaults]}
    )
    arguments.kw_defaults = [default and ast.Constant(None) for default in node.args.kw_defaults]
    if isinstance(node, ast.Lambda):
        inner: ast.stmt = ast.Expr(ast.Lambda(arguments, node.body))
    else:
        fields = {**dict(ast.iter_fields(node)), "name": "_own_name", "args": arguments, "decorator_list": [], "returns": None}
        inner = ast.FunctionDef(**fields)
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    more: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    outer = ast.FunctionDef(name="_outer", args=nothing, body=[*free, inner], decorator_list=[], **more)
    imports = [ast.Import([ast.alias(name)]) for name in imported]
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    try:
        compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = [inner for inner in _codes(next(_codes(compiled))) if inner.co_name in ("_own_name", "<lambda>")]
    return found[-1] if found else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _is_alike(a: types.CodeType, b: types.CodeType) -> bool:
    seen = ~inspect.CO_NESTED
    if any(getattr(a, name) != getattr(b, name) for name in _SAME) or a.co_flags & seen != b.co_flags & seen:
        return False
    # numbers that are equal may differ: 0.0 and -0.0, 1 and True
    return len(a.co_consts) == len(b.co_consts) and all(map(_are_alike, a.co_consts, b.co_consts))


def _are_alike(a: Any, b: Any) -> bool:
    if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
        return _is_alike(a, b)
    return type(a) is type(b) and repr(a) == repr(b)
