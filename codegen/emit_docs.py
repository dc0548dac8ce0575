"""Docstrings of the generated functions, and the pages of docs/api."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from .emit_autograd import out_names
from .schema import Argument, Op

TYPES = {
    "Operand": "Tensor | Number", "Scalar": "Number", "Tensor[]": "Sequence[Tensor]", "int[]": "Sequence[int]",
    "float[]": "Sequence[float]",
}  # fmt: skip


COMMON = yaml.safe_load((Path(__file__).parent / "arguments.yaml").read_text())


def docstring(public: str, members: list[Op]) -> str:
    """Signatures; what the op does; arguments, errors and examples as far as they are stated; and where it is stated."""
    texts = dict.fromkeys(public_text(op) for op in members)
    arguments = {name: text for op in members for name, text in argument_texts(op, members).items()}
    parts = ["\n".join(f"{public}({python_signature(op)}) -> {_returns(op)}" for op in members), "\n".join(texts)]
    if arguments:
        parts.append("\n    ".join(["Args:", *(f"{name}: {text}" for name, text in arguments.items())]))
    if errors := " ".join(dict.fromkeys(_public(op, op.errors) for op in members if op.errors)):
        parts.append(f"Errors: {errors}")
    parts += dict.fromkeys(op.example for op in members if op.example)
    return "\n\n".join([*parts, f"Stated in ops/{members[0].topic}.yaml."])


def argument_texts(op: Op, members: list[Op]) -> dict[str, str]:
    """What is said of each argument, by its name in Python: in the op's statement, in another one of its public name, in the common table."""
    names = [arg.name for arg in op.args] + ["out"] * ("out" in op.variants)
    stated = [op.argument_docs, *(member.argument_docs for member in members)]
    texts = {name: next((docs[name] for docs in stated if name in docs), COMMON.get(name)) for name in names}
    return {_public(op, name): _public(op, text) for name, text in texts.items() if text}


def python_name(arg: Argument) -> str:
    """The schema's first argument is called self, Python's input."""
    return "input" if arg.name == "self" else arg.name


def python_signature(op: Op) -> str:
    """The arguments as annotations would say them."""
    parts, star = [], False
    for arg in op.args:
        if arg.keyword_only and not star:
            parts.append("*")
            star = True
        default = "" if arg.default is None else f" = {arg.default}"
        parts.append(f"{python_name(arg)}: {_type(arg.type, arg.list_size)}{default}")
    if "out" in op.variants:
        several = len(out_names(op)) > 1
        parts += ([] if star else ["*"]) + ["out: Sequence[Tensor] | None = None" if several else "out: Tensor | None = None"]
    return ", ".join(parts)


def _type(kind: str, list_size: int = 0) -> str:
    base = kind.removesuffix("?")
    text = TYPES.get(base, base)
    if list_size and base == "int[]":
        text = f"int | {text}"
    return text + (" | None" if kind.endswith("?") else "")


def public_text(op: Op) -> str:
    """The schema calls the first argument self, Python calls it input."""
    return _public(op, op.doc)


def _public(op: Op, text: str) -> str:
    return re.sub(r"\bself\b", "input", text) if any(a.name == "self" for a in op.args) else text


def _returns(op: Op) -> str:
    kinds = [{"Tensor[]": "tuple[Tensor, ...]", "Scalar": "Number"}.get(kind, kind) for kind in op.returns]
    if op.fields:
        return "(" + ", ".join(f"{name}: {kind}" for name, kind in zip(op.fields, kinds)) + ")"
    if len(kinds) > 1:
        return f"tuple[{', '.join(kinds)}]"
    return kinds[0] if kinds else "None"


def emit(ops: list[Op], folder: Path, write) -> None:
    """One page per topic."""
    topics: dict[str, list[Op]] = {}
    for op in ops:
        if op.names:
            topics.setdefault(op.topic, []).append(op)
    for topic, members in sorted(topics.items()):
        lines = [f"# {topic}", "", f"Stated in `ops/{topic}.yaml`.", ""]
        for op in members:
            signature = f"{op.names[0]}({python_signature(op)}) -> {_returns(op)}"
            lines += [f"## {', '.join(f'`{n}`' for n in op.names)}", "", f"`{signature}`", "", public_text(op), ""]
            if op.grad:
                lines += ["Derivative: " + "; ".join(f"`{k}`: `{v}`" for k, v in op.grad.items()), ""]
        write(folder / f"{topic}.md", "\n".join(lines))
    index = [f"- [{topic}]({topic}.md): " + ", ".join(f"`{op.names[0]}`" for op in ops) for topic, ops in sorted(topics.items())]
    write(folder / "README.md", "\n".join(["# API", "", "Generated from `ops/*.yaml`, a page for each topic.", "", *index, ""]))
