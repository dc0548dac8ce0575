"""Emit what replaces the kernels of ops where an argument is sparse: declarations of the functions in src/sparse, and
the table.
"""

from __future__ import annotations

from pathlib import Path

from .emit_autograd import mutates
from .emit_ops import HEADER, cpp_args, cpp_params
from .op import Op
from .schema_words import SPARSE


def emit(ops: list[Op], out: Path, write) -> None:
    ops = [op for op in ops if op.sparse]
    topics = sorted({op.topic for op in ops})
    write(out / "sparse_kernels.h", _header(ops))
    write(out / "sparse_table.cpp", _table(ops, topics))


def _header(ops: list[Op]) -> str:
    lines = [HEADER, '#pragma once\n\n#include "autograd/function_types.h"\n\nnamespace facula::sparse {\n']
    for op in ops:
        if "written" in op.sparse:
            lines.append(f"{'void' if mutates(op) else op.cpp_return} {op.name}({cpp_params(op)});")
        if "inplace" in op.sparse:
            lines.append(f"void {op.name}_({cpp_params(op)});")
    lines.append("\n}  // namespace facula::sparse\n")
    return "\n".join(lines)


def _table(ops: list[Op], topics: list[str]) -> str:
    ids = "".join(f'#include "op_ids_{t}.h"\n' for t in topics)
    lines = [HEADER, f'#include "functions.h"\n{ids}#include "sparse/adapter.h"\n#include "sparse_kernels.h"\n', "namespace facula::sparse {\n"]
    lines.append("const Row rows[] = {")
    lines += [f"    {_row(op)}," for op in ops]
    lines.append(f"}};\nconst size_t row_count = {len(ops)};\n\n}}  // namespace facula::sparse\n")
    return "\n".join(lines)


def _row(op: Op) -> str:
    types = [a.cpp_type for a in cpp_args(op)]
    signature, write = f"{op.cpp_return}({', '.join(types)})", f"void({', '.join(types)})"
    way = op.sparse[0]
    function = in_place = "nullptr"
    if way == "written" and mutates(op):
        in_place = f"adapt<{write}, &{op.name}>"
    elif way == "written":
        function = f"adapt<{signature}, &{op.name}>"
    elif way in ("values", "linear"):
        function = f"on_values<{signature}, &facula::{op.name}, {str(way == 'values').lower()}>"
    elif way not in SPARSE:
        function = f"adapt<{signature}, &facula::{way}>"
    if "inplace" in op.sparse:
        in_place = f"adapt<{write}, &{op.name}_>"
    return f"{{op_id::{op.id}, {len(types)}, {function}, {in_place}}}"
