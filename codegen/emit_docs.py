"""Emit docstrings of the generated functions, which the pages of the API (docs/site) show, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from .emit_autograd import out_names
from .op import Argument, Op
from .results import returned
from .schema_words import DTYPE_SETS

TYPES = {
    "Operand": "Tensor | Number", "Scalar": "Number", "Tensor[]": "Sequence[Tensor]", "int[]": "Sequence[int]",
    "float[]": "Sequence[float]",
}  # fmt: skip


COMMON = yaml.safe_load((Path(__file__).parent / "arguments.yaml").read_text())


@dataclass(frozen=True)
class Form:
    """Name the form of an op that a docstring describes: function, method or in-place method."""

    method: bool = False
    in_place: bool = False

    def arguments(self, op: Op) -> list[Argument]:
        """Return what is written in parentheses: a method is called on the rest."""
        return [arg for arg in op.args if not (self.method and arg.name == bound_argument(op))]

    def has_out(self, op: Op) -> bool:
        return "out" in op.variants and not self.method and not self.in_place

    def words(self, op: Op, text: str) -> str:
        """Return words as Python has them: the schema calls the first argument self, functions call it input; in place there is
        no copy of it."""
        text = re.sub("^Return a copy of ", "Return ", text) if self.in_place else text
        return text if self.method or all(a.name != "self" for a in op.args) else re.sub(r"\bself\b", "input", text)


FUNCTION = Form()


def docstring(public: str, members: list[Op], form: Form = FUNCTION) -> str:
    """Return the signatures; what the op does; arguments, errors and examples as far as they are stated; and where it is
    stated."""
    parts = ["\n".join(f"{public}({python_signature(op, form)}) -> {_returns(op)}" for op in members)]
    texts = list(dict.fromkeys(form.words(op, op.doc) for op in members))
    if form.in_place:
        texts[0] = re.sub("^Return ", "Compute in place: ", texts[0])
    facts = dict.fromkeys(fact for op in members for fact in _facts(op, form))
    if "Differentiable." in facts:
        facts.pop("Not differentiable.", None)  # an overload's own words say it
    parts.append("\n".join([*texts, " ".join(facts)]).rstrip())
    arguments = {name: text for op in members for name, text in argument_texts(op, members, form).items()}
    if arguments:
        parts.append("\n    ".join(["Args:", *(f"{name}: {text}" for name, text in arguments.items())]))
    if results := results_text(members, form):
        parts.append(f"Returns: {results}")
    if errors := " ".join(dict.fromkeys(form.words(op, op.errors) for op in members if op.errors)):
        parts.append(f"Errors: {errors}")
    parts += dict.fromkeys(op.example for op in members if op.example)
    return "\n\n".join([*parts, f"Stated in ops/{members[0].topic}.yaml."])


def private_docstring(public: str, members: list[Op]) -> str:
    """Return, of a part of other ops, the signatures and what it does."""
    return "\n".join([*(f"{public}({python_signature(op)}) -> {_returns(op)}" for op in members), "", members[0].doc])


TAKEN = {
    "number": "Takes numbers, no bool", "real": "Takes integers and floating-point numbers",
    "bits": "Takes integers and bool", "integral": "Takes integers",
    "floating": "Takes floating-point numbers; integers and bool become the default dtype",
    "inexact": "Takes floating-point and complex numbers; integers and bool become the default dtype",
}  # fmt: skip
RESULTS = {"bool": "The result is bool.", "int64": "The result is int64."}


def _facts(op: Op, form: Form) -> list[str]:
    """Return what follows from the kind and the keys: dtypes, shapes, derivatives."""
    found = []
    if op.elementwise:
        taken = next((text for name, text in TAKEN.items() if DTYPE_SETS[name] == op.dtypes), None)
        error = "RuntimeError" if "runtime" in op.checks else "NotImplementedError"
        found += [f"{taken}. {error} for others."] if taken else []
        found += ["Shapes must broadcast, else RuntimeError."] if op.kind != "unary" and "broadcast" not in op.errors else []
        found += ["The tensor keeps its dtype and shape; RuntimeError where the result does not fit."] if form.in_place else []
        found += [RESULTS[op.result]] if op.result in RESULTS and not form.in_place else []
    if op.kind == "view" and op.returns:
        found.append(f"The result shares memory with {form.words(op, bound_argument(op))}.")
    if op.grad is not None:
        found.append("Differentiable." if op.grad else "Not differentiable.")
    return found


def argument_texts(op: Op, members: list[Op], form: Form = FUNCTION) -> dict[str, str]:
    """Return what is said of each argument, by its name in Python: in the op's statement, in another one of its public name, in
    the common table."""
    names = [arg.name for arg in form.arguments(op)] + ["out"] * form.has_out(op)
    stated = [op.argument_docs, *(member.argument_docs for member in members)]
    texts = {name: next((docs[name] for docs in stated if name in docs), COMMON.get(name)) for name in names}
    return {form.words(op, name): form.words(op, text) for name, text in texts.items() if text}


def results_text(members: list[Op], form: Form = FUNCTION) -> str:
    """Return what is said of the results: of overloads whose results differ, each after an argument that only it has."""
    if form.in_place:
        return "self, which holds the result."
    found: dict[str, Op] = {}
    for op in members:
        if text := form.words(op, returned(op)):
            found.setdefault(text, op)
    parts: list[str] = []
    for text, op in found.items():
        others = [other for other in members if other is not op and form.words(other, returned(other)) != text]
        own = [a for a in form.arguments(op) if others and all(a.name != b.name for other in others for b in other.args)]
        name = next((python_name(a) for a in own if a.default is None), "")
        parts.append((f"with {name} " if name else "or " if parts else "") + text.removesuffix("."))
    return "; ".join(parts) + "." * bool(parts)


def python_default(arg: Argument) -> str | None:
    """Return the default that Python's functions have: their losses are not reduced, though the ops' schemas say the mean."""
    return "0" if arg.name == "reduction" and arg.type == "int" and arg.default is not None else arg.default


def python_name(arg: Argument) -> str:
    """Return the name in Python: the schema's first argument is called self, Python's input."""
    return "input" if arg.name == "self" else arg.name


def bound_argument(op: Op) -> str:
    """Return the argument that a method is called on."""
    return "self" if any(arg.name == "self" for arg in op.args) else op.args[0].name


def python_signature(op: Op, form: Form = FUNCTION) -> str:
    """Return the arguments as annotations would say them."""
    parts, star = [], False
    for arg in form.arguments(op):
        if arg.keyword_only and not star:
            parts.append("*")
            star = True
        default = "" if arg.default is None else f" = {arg.default}"
        kind = _type(arg.type, arg.list_size) + (" | None" if arg.none_is_default else "")
        parts.append(f"{python_name(arg)}: {kind}{default}")
    if form.has_out(op):
        several = len(out_names(op)) > 1
        parts += ([] if star else ["*"]) + ["out: Sequence[Tensor] | None = None" if several else "out: Tensor | None = None"]
    return ", ".join(parts)


def _type(kind: str, list_size: int = 0) -> str:
    base = kind.removesuffix("?")
    text = TYPES.get(base, base)
    if list_size and base == "int[]":
        text = f"int | {text}"
    return text + (" | None" if kind.endswith("?") else "")


def _returns(op: Op) -> str:
    kinds = [{"Tensor[]": "tuple[Tensor, ...]", "Scalar": "Number"}.get(kind, kind) for kind in op.returns]
    if op.fields:
        return "(" + ", ".join(f"{name}: {kind}" for name, kind in zip(op.fields, kinds)) + ")"
    if len(kinds) > 1:
        return f"tuple[{', '.join(kinds)}]"
    return kinds[0] if kinds else "None"
