"""Count the docstrings that state results, parameters and errors: `python -m codegen.sections [namespace ...]` prints the counts.

Without a namespace all are counted. For each namespace that is named, the functions and ops that lack a section are printed
first. The namespace `ops` stands for the texts in ops/*.yaml; in the code a namespace is a `room`. Three properties are counted,
each among the names to which it applies:

- returns: of functions and methods that return a value, those that describe it, and its shape where it is a tensor;
- parameters: of functions and classes with parameters, those with an entry under Args for each of them;
- errors: of Python functions that contain a `raise`, those that name every class they raise; of ops, those that name an
  exception.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import docstrings, emit_docs, results, schema
from .op import Op
from .schema_words import DTYPE_SETS

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("returns", "parameters", "errors")
SECTION = re.compile(r"(?m)^(Args|Arguments|Keyword arguments|Attributes)\b.*:\n((?:[ \t]+.*\n?|\n)*)")
RETURNS = re.compile(r"(?m)^(Returns|Yields)\b.*:|\b[Rr]eturns?\b|\bYield")
#: Words that tell the shape of a tensor.
SHAPE = re.compile(
    r"\b\d-d\b|\bshapes?\b|\([\w.*]*(?:, ?[\w.*' ]*)+\)|\bvectors?\b|\bmatri(?:x|ces)\b|\bscalar\b|one (?:element|number)|\bsizes?\b"
)
NOT_MEANT = {"NotImplementedError", "StopIteration", "AssertionError"}


@dataclass
class Count:
    """Hold how many docstrings state one property, of how many to which it applies, and the names of those that do not."""

    said: int = 0
    total: int = 0
    missing: list[str] = field(default_factory=list)

    def add(self, name: str, says: bool) -> None:
        self.said += says
        self.total += 1
        self.missing += [] if says else [name]

    @property
    def share(self) -> float:
        return self.said / self.total if self.total else 1.0


def table() -> dict[str, dict[str, Count]]:
    """Return the counts by room and kind."""
    rooms: dict[str, dict[str, Count]] = {}
    for room, name, kind, says in findings():
        rooms.setdefault(room, {kind: Count() for kind in KINDS})[kind].add(name, says)
    return rooms


def findings() -> Iterator[tuple[str, str, str, bool]]:
    """Yield a room, a name, a kind, and whether the name says it."""
    for members in schema.group_by_name(schema.load(ROOT / "ops")).values():
        if any(not name.rpartition(".")[2].startswith("_") for op in members for name in op.names):
            for op in members:
                yield from (("ops", op.id, kind, says) for kind, says in of_op(op, members))
    for name in docstrings.names():
        if "Stated in ops/" not in name.text:
            for kind, says in of_python(name):
                yield name.namespace, name.path, kind, says


def of_op(op: Op, members: list[Op]) -> Iterator[tuple[str, bool]]:
    """Yield what has a meaning for an op, and whether it is said."""
    if op.returns:
        yield "returns", bool(results.returned(op))
    if names := {emit_docs.python_name(arg) for arg in op.args}:
        yield "parameters", names <= emit_docs.argument_texts(op, members).keys()
    facts = " ".join([*(member.errors for member in members), *emit_docs._facts(op, emit_docs.FUNCTION)])
    if len(op.inputs) != 1 or op.kind != "unary" or set(op.dtypes) != set(DTYPE_SETS["all"]):  # else nothing is refused
        yield "errors", "Error" in facts


def of_python(name: docstrings.Name) -> Iterator[tuple[str, bool]]:
    """Yield what has a meaning for a name of Python, and whether it is said."""
    given = returned(name)
    if given:
        yield "returns", bool(RETURNS.search(name.text)) and ("Tensor" not in given or bool(SHAPE.search(name.text)))
    if names := [p for p in docstrings.parameters(name) if p not in ("args", "kwargs")]:
        left_out = docstrings.EVERYWHERE if name.namespace == "nn" else set()
        yield "parameters", set(names) - left_out <= described(name)
    if classes := raised(name):
        text = name.text + (docstrings.text_of(name.owner) if name.owner else "")
        yield "errors", all(re.search(rf"\b{word}\b", text) for word in classes)


def returned(name: docstrings.Name) -> str:
    """Return the annotation of what a function returns; "" where there is none, or nothing is returned."""
    if name.is_property or inspect.isclass(name.value):
        return ""
    signatures = docstrings.split_text(name)[0]
    arrow = re.search(r"\) -> (.+)$", name.text.partition("\n")[0]) if signatures else None
    if arrow:
        return "" if arrow[1] == "None" else arrow[1]
    try:
        found = inspect.signature(name.value).return_annotation
    except (TypeError, ValueError):
        return ""
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    return "" if found is inspect.Signature.empty or text in ("None", "Never", "NoReturn", "Self", "typing.Self") else text


def described(name: docstrings.Name) -> set[str]:
    """Return the parameters that have an entry under Args, of methods also in the docstring of the class."""
    found: set[str] = set()
    for text in (name.text, docstrings.text_of(name.owner) if name.owner else ""):
        for section in SECTION.finditer(text):
            for names in re.findall(r"(?m)^[ \t]+([\w*]+(?:(?:, | and )[\w*]+)*): \S", section[2] + "\n"):
                found |= {word.lstrip("*") for word in re.split(r", | and ", names)}
    return found


@functools.cache
def _source(function: object) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return None


def raised(name: docstrings.Name) -> set[str]:
    """Return the classes of errors that the function, or the constructor of the class, raises itself."""
    value = vars(name.value).get("__init__") if inspect.isclass(name.value) else name.value
    value = inspect.unwrap(getattr(value, "__func__", value)) if callable(getattr(value, "__func__", value)) else None
    tree = _source(value) if inspect.isfunction(value) else None
    found = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Raise) and node.exc is not None:
            thing = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            word = thing.attr if isinstance(thing, ast.Attribute) else thing.id if isinstance(thing, ast.Name) else ""
            known = getattr(builtins, word, None)
            if word.endswith("Error") or (inspect.isclass(known) and issubclass(known, Exception)):
                found.add(word)
    return found - NOT_MEANT


def main(wanted: list[str]) -> int:
    rooms = table()
    if unknown := set(wanted) - set(rooms):
        print(f"rooms are {', '.join(sorted(rooms))}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    for room in wanted:
        for kind in KINDS:
            for name in rooms[room][kind].missing:
                print(f"{name}: {kind}")
    for room in wanted or sorted(rooms):
        counts = (f"{kind} {found.said:5} of {found.total:5} {100 * found.share:5.1f} %" for kind, found in rooms[room].items())
        print(f"{room:<20} {'   '.join(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
