"""Find texts of Facula (errors, warnings) that share long runs of words with those of PyTorch: ours are written here.

A text of Python is a string that is no docstring; of C++, a literal. Its number is how many runs
of six words it has that some text of PyTorch has as well: the Python files of the package, and the strings of its libraries.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

RUN = 6
FEW = 3  # a name or a usual term of the field makes one or two runs
# comments, characters and strings, raw ones too, so that each quote is that of the literal it belongs to
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)+'|R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:[^"\\\n]|\\.)*)\"""", re.S)
PRINTABLE = re.compile(rb"[\x20-\x7e]{20,}")
# no sentences: signatures, lists of arguments, and what generated code has to be
NO_TEXT = re.compile(r"(Tensor|bool|int|float|Scalar)\??(\[\])? \w+[=,]|^\(?\w+\([^)]*\) -- |^\s*[,);]|\bimport \w+|->|\w+, \w+, \w+, \w+, \w+")


def runs(text: str) -> Iterator[str]:
    for part in text.split("\0"):  # between formatted values
        words = re.findall(r"[a-z_']+", part.lower())
        yield from (" ".join(words[i:i + RUN]) for i in range(len(words) - RUN + 1))


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text(errors="ignore"))
    nodes = list(ast.walk(tree))
    left_out = set()
    for node in nodes:
        if isinstance(node, ast.Expr):  # docstrings
            left_out.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in node.values)
            yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else " \0 " for part in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def texts_of_cpp(path: Path) -> Iterator[tuple[int, str]]:
    """Yield literals, those that stand one behind another as the one text that they are."""
    source = path.read_text()
    line, text, end = 0, "", 0
    for found in TOKEN.finditer(source):
        literal = found["text"] if found["text"] is not None else found["raw"]
        if literal is None:
            continue
        if text and source[end : found.start()].strip():
            yield line, text
            text = ""
        if not text:
            line = source.count("\n", 0, found.start()) + 1
        text, end = text + literal, found.end()
    if text:
        yield line, text


def runs_of_peer(package: Path) -> set[str]:
    known: set[str] = set()
    for path in package.rglob("*.py"):
        try:
            known.update(run for _, text in texts_of_python(path) for run in runs(text))
        except SyntaxError:  # templates of code
            continue
    for library in package.glob("lib/libtorch_*.so"):
        for found in PRINTABLE.finditer(library.read_bytes()):
            known.update(runs(found[0].decode()))
    return known


def compare(root: Path, package: Path) -> tuple[int, list[str]]:
    """Return how many texts were looked at, and a line for each that shares FEW runs or more."""
    known, seen, lines = runs_of_peer(package), 0, []
    for folder, suffix, texts in (("facula", "*.py", texts_of_python), ("src", "*.cpp", texts_of_cpp), ("src", "*.h", texts_of_cpp)):
        for path in sorted((root / folder).rglob(suffix)):
            for line, text in texts(path):
                seen += 1
                shared = sum(run in known for run in runs(text))
                if shared >= FEW and not NO_TEXT.search(text):
                    shown = " ".join(text.replace("\0", "{}").split())
                    lines.append(f"{shared:3} {path.relative_to(root)}:{line} {shown[:200]}")
    return seen, sorted(lines, reverse=True)
