"""Emit schema.json: every form of every op as data, for generators of other languages (docs/c_interface.md describes
it).

A row is what the boxed table knows of a form (src/program/boxed.h), under the name by which fc_op_find() finds it.
"""

from __future__ import annotations

import json
from pathlib import Path

from .emit_autograd import mutates, out_names
from .emit_ops import cpp_args
from .op import Argument, Op

FORMAT = 1  # of the file; another number when a reader of this one would misread it


def emit(ops: list[Op], out: Path, write) -> None:
    rows = ",\n".join(json.dumps(row) for op in ops for row in rows_of(op))
    write(out / "schema.json", f'{{"format": {FORMAT}, "ops": [\n{rows}\n]}}\n')


def rows_of(op: Op):
    """Yield a dict for every form."""
    if mutates(op):
        yield _row(op, "inplace", op.name)
    else:
        yield _row(op, "function", op.name)
    if "inplace" in op.variants:
        yield _row(op, "inplace", op.name + "_")
    if "out" in op.variants:
        yield _row(op, "out", op.name)


def _row(op: Op, form: str, name: str) -> dict:
    overload = op.overload or "default"
    written = {*op.writes, *([op.args[0].name] if form == "inplace" else [])}
    arguments = [_argument(a, a.name in written) for a in cpp_args(op)]
    if form == "out":
        arguments = [{"name": n, "type": "Tensor", "keyword_only": True, "written": True} for n in out_names(op)] + arguments
    returns = ("Tensor",) if mutates(op) else op.returns
    names = () if mutates(op) else op.return_names
    return {
        "key": f"{name}.{overload}" + (".out" if form == "out" else ""), "name": name, "overload": op.overload, "form": form,
        "aten": _aten(op, form), "arguments": arguments,
        "results": [{"type": t, **({"name": names[i]} if names else {})} for i, t in enumerate(returns)],
        "draws": op.draws, "topic": op.topic, "names": list(op.names), "method": "method" in op.variants, "doc": op.doc,
    }  # fmt: skip


def _argument(a: Argument, written: bool) -> dict:
    type = a.type.replace("[]", f"[{a.list_size}]") if a.list_size else a.type
    row: dict = {"name": a.name, "type": type}
    if a.default is not None:
        row["default"] = _default(a)
    if a.keyword_only:
        row["keyword_only"] = True
    if written:
        row["written"] = True
    return row


def _default(a: Argument):
    """Return a default as JSON has it: a list for a list, also where the schema says one number for all of them."""
    text = a.default
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if a.type.startswith("str"):
        return text.strip("\"'")
    if a.type.startswith("memory_format"):
        return text
    if "[" in a.type:
        listed = json.loads(text) if text.startswith("[") else [json.loads(text)] * max(a.list_size, 1)
        return [float(n) for n in listed] if a.type.startswith("float") else listed
    number = json.loads(text)
    return float(number) if a.type.startswith("float") else number


def _aten(op: Op, form: str) -> str | dict[str, str] | None:
    """Return PyTorch's name of a form; by which operands are tensors (T) and numbers (S) where it has several."""
    if op.aten == "-":
        return None
    names = {}
    for one in op.aten.split():
        pattern, _, name = one.rpartition(":")
        names[pattern] = _form_of(op, name, form)
    return names[""] if "" in names else names


def _form_of(op: Op, aten: str, form: str) -> str:
    name, _, overload = aten.partition(".")
    if form == "inplace":
        marked = name.endswith("_") and not name.endswith("__")
        return f"{name}{'' if marked else '_'}.{overload}"
    if form == "out":
        plain = overload == "default" or (overload == "Tensor" and not op.overload)
        return f"{name}.{'out' if plain else overload + '_out'}"
    return aten
