"""Emit the boxed table: rows {id, form, function, thunk} for every form of every op, and the facts about an op as
words.

Thunks are templates over C++ signatures (src/program/boxing.h). Rows are sorted by signature and cut into files between
two signatures, so that no thunk is compiled twice.
"""

from __future__ import annotations

from pathlib import Path

from .emit_autograd import mutates, out_names
from .emit_ops import HEADER, cpp_args
from .op import Op

FILES = 4
FORMS = {"Function": 0, "InPlace": 1, "Out": 2}  # as in OpForm


def emit(ops: list[Op], out: Path, write) -> None:
    rows = sorted(_rows(ops))
    size = -(-len(rows) // FILES)
    parts: list[list[tuple[str, str]]] = [[]]
    for i, row in enumerate(rows):
        # All rows of a signature go into one file, so that its template is compiled once.
        if len(parts[-1]) >= size and row[0] != rows[i - 1][0]:
            parts.append([])
        parts[-1].append(row)
    topics = sorted({op.topic for op in ops})
    for i, part in enumerate(parts):
        write(out / f"boxed{i}.cpp", _file(i, part, topics))
    write(out / "boxed_texts.cpp", _texts(ops, topics, len(parts)))


def _rows(ops: list[Op]):
    """Yield (signature, row) of every form."""
    for op in ops:
        types = [a.cpp_type for a in cpp_args(op)]
        if mutates(op):
            yield _row(op, "InPlace", op.name, "const Tensor&", types)
        else:
            yield _row(op, "Function", op.name, op.cpp_return, types)
        if "inplace" in op.variants:
            yield _row(op, "InPlace", op.name + "_", "const Tensor&", ["const Tensor&", *types[1:]])
        if "out" in op.variants:
            outs = ["const Tensor&"] * len(out_names(op))
            yield _row(op, "Out", op.name + "_out", "void", outs + types)


def _row(op: Op, form: str, name: str, returned: str, types: list[str]) -> tuple[str, str]:
    signature = f"{returned}({', '.join(types)})"
    return signature, f"    {{op_id::{op.id}, {FORMS[form]}, box<{signature}>({name})}},"


def _file(number: int, rows: list[tuple[str, str]], topics: list[str]) -> str:
    ids = "".join(f'#include "op_ids_{t}.h"\n' for t in topics)
    lines = [HEADER, f'#include "functions.h"\n{ids}#include "program/boxing.h"\n', "namespace facula::boxing {\n"]
    lines.append(f"extern const BoxedRow rows{number}[];\nconst BoxedRow rows{number}[] = {{")
    lines += [row for _, row in rows]
    lines.append("};\n")
    lines.append(f"extern const size_t count{number};\nconst size_t count{number} = {len(rows)};\n")
    lines.append("}  // namespace facula::boxing\n")
    return "\n".join(lines)


def _texts(ops: list[Op], topics: list[str], parts: int) -> str:
    ids = "".join(f'#include "op_ids_{t}.h"\n' for t in topics)
    lines = [HEADER, f'{ids}#include "program/boxed.h"\n', "namespace facula {\nnamespace boxing {\n"]
    lines += [f"extern const BoxedRow rows{i}[];\nextern const size_t count{i};" for i in range(parts)]
    lines.append("\n}  // namespace boxing\nnamespace {\n\nconst BoxedText texts[] = {")
    lines += [f"    {_text(op)}," for op in ops]
    lines.append("};\n\n}  // namespace\n")
    listed = ", ".join(f"{{boxing::rows{i}, boxing::count{i}}}" for i in range(parts))
    lines.append(
        "std::span<const std::span<const BoxedRow>> boxed_rows() {\n"
        f"  static const std::span<const BoxedRow> parts[] = {{{listed}}};\n  return parts;\n}}"
    )
    lines.append("std::span<const BoxedText> boxed_texts() { return texts; }\n\n}  // namespace facula\n")
    return "\n".join(lines)


def _text(op: Op) -> str:
    if mutates(op):
        results = "Tensor"
    else:
        names = op.return_names or ("",) * len(op.returns)
        results = ", ".join(f"{kind} {name}".rstrip() for kind, name in zip(op.returns, names))
    own = f"{op.name}.{op.overload or 'default'}"
    aten = "" if op.aten == own else op.aten
    return f'{{op_id::{op.id}, "{results}", "{aten}", "{" ".join([*op.writes, *["+"] * op.unordered])}"}}'
