"""Docstrings of the generated functions, and the pages of docs/api."""

from __future__ import annotations

from pathlib import Path

from .schema import Op


def docstring(public: str, members: list[Op]) -> str:
    """Signatures, a blank line, what the op does, and where it is stated."""
    from .emit_python import signature_text

    lines = [f"{public}({signature_text(op, 'out' in op.variants)}) -> {_returns(op)}" for op in members]
    texts = list(dict.fromkeys(op.doc for op in members))
    return "\n".join(lines) + "\n\n" + "\n".join(texts)


def _returns(op: Op) -> str:
    if not op.return_names:
        return op.returns[0] if op.returns else "None"
    return "(" + ", ".join(f"{t} {n}" for t, n in zip(op.returns, op.return_names)) + ")"


def emit(ops: list[Op], folder: Path, write) -> None:
    """One page per topic."""
    topics: dict[str, list[Op]] = {}
    for op in ops:
        if op.names:
            topics.setdefault(op.topic, []).append(op)
    for topic, members in sorted(topics.items()):
        lines = [f"# {topic}", "", f"Stated in `ops/{topic}.yaml`.", ""]
        for op in members:
            lines += [f"## {', '.join(f'`{n}`' for n in op.names)}", "", f"`{op.signature}`", "", op.doc, ""]
            if op.grad:
                lines += ["Derivative: " + "; ".join(f"`{k}`: `{v}`" for k, v in op.grad.items()), ""]
        write(folder / f"{topic}.md", "\n".join(lines))
