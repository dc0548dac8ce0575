"""The texts of errors as they stand in the sources: what Python raises, and what the checks of C++ throw.

A value within a text is shown as `{code}`: `mm: the shapes cannot be multiplied, got {a.sizes()} and {b.sizes()}`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CALL = re.compile(r"\b(FACULA_CHECK|TORCH_CHECK|throw_error|throw_refusal|PyErr_Format|PyErr_SetString|Error)\(")
BEFORE_TEXT = {"FACULA_CHECK": 2, "TORCH_CHECK": 1, "throw_error": 1, "throw_refusal": 1, "PyErr_Format": 1, "PyErr_SetString": 1, "Error": 1}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\'|//[^\n]*')


class Raised(NamedTuple):
    where: str
    kind: str
    text: str


# ---- C++


def arguments(source: str, at: int) -> list[str]:
    """Return the arguments of the call whose parenthesis is at `at`."""
    found, begin, depth, i = [], at + 1, 0, at
    while i < len(source):
        if quoted := QUOTED.match(source, i):
            i = quoted.end()
            continue
        letter = source[i]
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 or (depth == 1 and letter == ","):
            found.append(source[begin:i].strip())
            begin = i + 1
            if depth == 0:
                break
        i += 1
    return found


def text_of_parts(parts: list[str]) -> str:
    """Return literals as they are, and all else in braces."""
    text = ""
    for part in parts:
        if LITERAL.sub("", part).strip():
            text += "{" + " ".join(part.split()) + "}"
        else:
            text += "".join(LITERAL.findall(part))
    return text


def raised_by_cpp(folders: tuple[str, ...] = ("src", "include", "bindings")) -> Iterator[Raised]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".cuh"):
                continue
            source = path.read_text()
            for call in CALL.finditer(source):
                line = source[source.rfind("\n", 0, call.start()) + 1 : call.start()].lstrip()
                if line.startswith(("//", "#define", "///")):
                    continue
                parts = arguments(source, call.end() - 1)
                if call[1] == "Error" and not parts[0].startswith(("ErrorKind", "facula::ErrorKind")):
                    continue
                text = text_of_parts(parts[BEFORE_TEXT[call[1]] :])
                if re.search(r"[a-z]", re.sub(r"\{.*?\}", "", text)):
                    number = source.count("\n", 0, call.start()) + 1
                    yield Raised(f"{path.relative_to(ROOT)}:{number}", call[1], text)


# ---- Python


def text_of_node(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(p.value if isinstance(p, ast.Constant) else "{" + ast.unparse(p.value) + "}" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = text_of_node(node.left), text_of_node(node.right)
        shown = ("{" + ast.unparse(side) + "}" for side in (node.left, node.right))
        return None if sides == (None, None) else "".join(s if s is not None else other for s, other in zip(sides, shown))
    return text_of_node(node.body) if isinstance(node, ast.IfExp) else None


def raised_by_python(folder: str = "facula") -> Iterator[Raised]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = text_of_node(node.exc.args[0])
                if text is not None:
                    yield Raised(f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node.exc.func), text)
