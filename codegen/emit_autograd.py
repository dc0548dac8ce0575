"""Emit the public C++ functions: for each op a row (a struct of constants and short functions), and one line for each
of its forms.

What a form does stands in the templates of `src/autograd/function_forms.h`, which read the row.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import batching, formula
from .emit_nodes import _condition, _members, _node
from .emit_ops import HEADER, cpp_args, cpp_default, cpp_params, has_raw_out, topics
from .op import Op

OPS_PER_FILE = 40


def emit(ops: list[Op], out: Path, write) -> None:
    by_topic = topics(ops)
    home = {op.name: topic for topic, members in by_topic.items() for op in members}
    for topic, members in by_topic.items():
        write(out / f"functions_{topic}.h", _header(members))
        for start in range(0, len(members), OPS_PER_FILE):
            part = members[start:start + OPS_PER_FILE]
            write(out / f"functions_{topic}{start // OPS_PER_FILE}.cpp", _source(topic, part, home))
    write(out / "functions.h", HEADER + "#pragma once\n\n" + "".join(f'#include "functions_{t}.h"\n' for t in by_topic))


def _header(ops: list[Op]) -> str:
    lines = [HEADER, '#pragma once\n\n#include "autograd/function_types.h"\n\nnamespace facula {\n']
    for op in ops:
        lines += [f"{signature};" for signature in declarations(op)]
    lines.append("\n}  // namespace facula\n")
    return "\n".join(lines)


def _needed_topics(topic: str, ops: list[Op], home: dict[str, str]) -> list[str]:
    """Return the topics whose functions the formulas of these ops call: a change elsewhere does not rebuild this file."""
    words = set()
    for op in ops:
        for text in (op.grad or {}).values():
            words |= set(re.findall(r"[A-Za-z_]\w*", text))
        words |= batching.words(op) | {op.sparse_op or ""}
    return sorted({topic, "create", "shape"} | {home[w] for w in words if w in home} | {home[w[:-1]] for w in words if w.endswith("_") and w[:-1] in home})


def mutates(op: Op) -> bool:
    """Return whether an op writes to its first argument: those do whose own name ends in an underscore."""
    return op.name.endswith("_") and not op.name.endswith("__")


def inplace_args(op: Op, defaults: bool = False) -> str:
    def declared(a):
        return f"{a.cpp_type} {a.name}" + (f" = {cpp_default(a)}" if defaults and a.default is not None else "")

    rest = ", ".join(declared(a) for a in cpp_args(op)[1:])
    return f"const Tensor& {op.args[0].name}" + (f", {rest}" if rest else "")


def out_names(op: Op) -> list[str]:
    count = max(op.tensor_returns, 1)
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def declarations(op: Op) -> list[str]:
    found = [f"{op.cpp_return} {op.name}({cpp_params(op, defaults=True)})"]
    if mutates(op):
        found = [f"const Tensor& {op.name}({inplace_args(op, True)})"]
    if "inplace" in op.variants:
        found.append(f"const Tensor& {op.name}_({inplace_args(op, True)})")
    if "out" in op.variants:
        found.append(f"{_out_head(op)}")
    return found


def _out_head(op: Op) -> str:
    outs = ", ".join(f"const Tensor& {n}" for n in out_names(op))
    return f"void {op.name}_out({', '.join(filter(None, [outs, cpp_params(op)]))})"


def _source(topic: str, ops: list[Op], home: dict[str, str]) -> str:
    includes = "".join(f'#include "functions_{t}.h"\n' for t in _needed_topics(topic, ops, home))
    lines = [HEADER, f'#include "autograd/formulas.h"\n#include "autograd/function_forms.h"\n{includes}#include "raw_{topic}.h"\n',
             '#pragma GCC diagnostic ignored "-Wunused-parameter"  // functions of a row all take what the op takes\n',
             "namespace facula {\n"]
    lines += [_forms(op) for op in ops]
    lines.append("}  // namespace facula\n")
    return "\n".join(lines)


def _forms(op: Op) -> str:
    """Return the node of an op, its row, and its functions."""
    args = ", ".join(a.name for a in cpp_args(op))
    row = f"{op.id}_row"
    functions = []
    if mutates(op) and not op.composite:
        functions.append(_line(f"const Tensor& {op.name}({inplace_args(op)})", f"return InPlaceForm<{row}>::mutate({args})"))
    elif not op.composite:
        form = "function" if _tensors(op) else "factory"
        functions.append(_line(f"{op.cpp_return} {op.name}({cpp_params(op)})", f"return FunctionForm<{row}>::{form}({args})", _random_in_vmap(op)))
    elif op.autocast:
        functions.append(_line(f"{op.cpp_return} {op.name}({cpp_params(op)})", f"return FunctionForm<{row}>::composite({args})"))
    if "inplace" in op.variants:
        form = "view" if op.kind == "view" else "inplace"
        functions.append(_line(f"const Tensor& {op.name}_({inplace_args(op)})", f"return InPlaceForm<{row}>::{form}({args})"))
    if "out" in op.variants:
        given = ", ".join(filter(None, ["out" if op.elementwise else f"{{{', '.join('&' + n for n in out_names(op))}}}", args]))
        form = "into" if op.elementwise else f"template out<{len(out_names(op))}>"
        functions.append(_line(_out_head(op), f"OutForm<{row}>::{form.removeprefix('template ')}({given})"))
    if not functions:
        return ""
    node = "" if op.composite or mutates(op) else _node(op)
    written = f"{op.cpp_return} {op.written_as}({cpp_params(op)});\n" if op.composite and op.autocast else ""
    return f"{node}{written}namespace {{\n{_row(op)}}}  // namespace\n{''.join(functions)}"


def _line(head: str, statement: str, before: str = "") -> str:
    return f"{head} {{\n{before}  {statement};\n}}\n"


def _tensors(op: Op):
    return [a for a in op.args if a.is_tensor]


# rows


def _row(op: Op) -> str:
    """Return the struct that the templates of forms read; what it leaves out is that of OpRow."""
    fields = _fields(op)
    functions = _row_functions(op)
    constants = "".join(f"  static constexpr auto {name} = {value};\n" for name, value in fields.items())
    types = ", ".join(a.cpp_type for a in cpp_args(op))
    signature = f"  using Signature = {_returned(op)}({types});\n"
    return f"struct {op.id}_row : OpRow {{\n{signature}{constants}{''.join(f'  {f}' + chr(10) for f in functions)}}};\n"


def _returned(op: Op) -> str:
    return "const Tensor&" if mutates(op) else op.cpp_return


def _fields(op: Op) -> dict[str, str]:
    """Return the constants of a row that differ from those of OpRow."""
    fields = {"name": f'"{op.name}"', "id": f"op_id::{op.id}"}
    if "inplace" in op.variants or mutates(op):
        fields["inplace_name"] = f'"{op.name}"' if mutates(op) else f'"{op.name}_"'
        if op.elementwise:
            fields["writes"] = "Writes::Into"
        elif op.direct_inplace or mutates(op):
            fields["writes"] = "Writes::Raw"
        if "shared_places" in op.checks:
            fields["overlap"] = "WriteScope::Overlap::Filled"
        if "apart" in op.checks:
            fields["apart"] = "true"
    if op.keeps_layout:
        fields["layouts"] = "Layouts::Unchanged" if op.kind == "view" else "Layouts::Passed"
    if derivative := _derivative(op):
        fields["derivative"] = f"Derivative::{derivative}"
    flags = {"is_view": op.kind == "view", "is_elementwise": op.elementwise, "is_composite": op.composite, "one_device": _reads_one_device(op)}
    fields |= {name: "true" for name, value in flags.items() if value}
    if op.autocast:
        fields["autocast"] = _regions(op)
        fields |= {f"on_{device}": f"AutocastPolicy::{policy.capitalize()}" for device, policy in op.autocast.items()}
    if "out" in op.variants:
        if (history := formula.out_history(op)) != "Recorded":
            fields["out_history"] = f"OutHistory::{history}"
        if op.out_casts:
            fields["out_cast"] = f"Out::Cast::{_out_cast(op)}"
    return fields


def _derivative(op: Op) -> str:
    if op.composite or mutates(op):
        return ""
    if formula.read(op):
        return "Formulas"
    missing = op.grad is None and op.kind != "view" and any(r.startswith("Tensor") for r in op.returns)
    return "Missing" if missing and _tensors(op) else ""


def _reads_one_device(op: Op) -> bool:
    """Return whether kernels read several tensors: views read one, composites check in what they call, element-wise plans by their rules."""
    tensors = _tensors(op)
    several = len(tensors) > 1 or any(a.type == "Tensor[]" for a in tensors)
    return several and not (op.composite or op.elementwise or op.kind == "view" or "any_device" in op.checks)


def _regions(op: Op) -> str:
    """Return the regions for which the op has a policy."""
    modes = {"cpu": "kModeAutocast", "cuda": "kModeAutocastCuda"}
    return "kAutocast" if len(op.autocast) == len(modes) else "".join(modes[device] for device in op.autocast)


def _out_cast(op: Op) -> str:
    fills = op.name not in ("arange", "fft_fftfreq", "fft_rfftfreq")  # PyTorch warns of these when it resizes out=
    if fills and all(a.type == "Operand" for a in _tensors(op)):
        return "Filled" if "shared_places" in op.checks else "Quiet"
    return "Class"


def _row_functions(op: Op) -> list[str]:
    params, args = cpp_params(op), ", ".join(a.name for a in cpp_args(op))
    if mutates(op):
        return [
            f"static void write({inplace_args(op)}) {{ ops::{op.name}({args}); }}",
            f"static void batched({inplace_args(op)}) {{ {batching.mutating(op, cpp_args(op))} }}",
        ]
    found = [f"static constexpr Signature* call = {op.written_as if op.composite else op.name};"]
    if not op.composite:
        found.append(f"static {op.cpp_return} raw({params}) {{ return ops::{op.name}({args}); }}")
        if _tensors(op):
            found.append(f"static {op.cpp_return} batched({params}) {{ {_batched(op)} }}")
    if op.sparse_op and not op.composite:
        found.append(f"static constexpr Signature* sparse = {op.sparse_op};")
    if _derivative(op) == "Formulas":
        found += _recording(op)
    if "inplace" in op.variants:
        found += _inplace_functions(op)
    if "out" in op.variants:
        found += _out_functions(op)
    return found


def _batched(op: Op) -> str:
    returns = any(r.startswith("Tensor") for r in op.returns) and batching.rule(op) != "refuse"
    return batching.body(op, cpp_args(op)) + ("" if returns else " __builtin_unreachable();")


def _recording(op: Op) -> list[str]:
    """Return what is recorded of the arguments, and how the result gets its node."""
    formulas = formula.read(op)
    params, args = cpp_params(op), ", ".join(a.name for a in cpp_args(op))
    flags = " | ".join(f"recorded_flags_of({f.arg.name})" for f in formulas)
    history = "\n    ".join([f"auto node = {op.id}_node(recorded_flags, {args});", *_history(op, formulas)])
    return [
        f"static uint32_t recorded({params}) {{ return {flags}; }}",
        f"static void record(const {op.cpp_return}& result_value, uint32_t recorded_flags, {params}) {{\n    {history}\n  }}",
    ]


def _history(op: Op, formulas) -> list[str]:
    values, infos = _members(op, formulas)
    results = formula.result_names(op)
    if len(op.returns) == 1:
        lines = ["set_history(result_value, node.get());"]
        accessor = {results[0]: "result_value"}
    else:
        accessor = {result: f"std::get<{i}>(result_value)" for i, result in enumerate(results)}
        lines = [f"set_history({accessor[result]}, node.get());" for kind, result in zip(op.returns, results)
                 if kind.startswith("Tensor") and result not in op.no_gradient]
    for result in results:
        if result in values:
            when = _condition(formulas, result, any(f.arg.type == "Tensor[]" for f in formulas))
            lines.append(f"{when}node->{result}_ = SavedTensor({accessor[result]}, true);")
        if f"{result}_info" in infos:
            lines.append(f"node->{result}_info_ = TensorInfo({accessor[result]});")
    return lines


def _random_in_vmap(op: Op) -> str:
    """Return what random numbers need in vmap: numbers drawn inside vmap may differ between examples."""
    size = next((a.name for a in op.args if a.type == "int[]" and a.name == "size"), None)
    if op.kind != "random" or not size or _tensors(op):
        return ""
    args = ", ".join("sizes" if a.name == size else a.name for a in cpp_args(op))
    return (
        f"  if (__builtin_expect(thread_state.modes & kModeVmap, 0)) {{\n"
        f'    return random_in_vmap("{op.name}", {size}, [&](IntList sizes) {{ return ops::{op.name}({args}); }});\n  }}\n'
    )


# rows of in-place and out= forms


def _inplace_functions(op: Op) -> list[str]:
    args = ", ".join(a.name for a in cpp_args(op))
    found = []
    if op.elementwise:
        me = op.args[0].name
        found.append(f"static void write({inplace_args(op)}) {{ ops::{op.name}_into({me}, ops::Into::InPlace, {args}); }}")
        if direct := _record_in_place(op):
            found.append(direct)
    elif op.direct_inplace:
        found.append(f"static void write({inplace_args(op)}) {{ ops::{op.name}_({args}); }}")
    dims = [a.name for a in op.args if a.type == "int" and a.name in batching.DIM_NAMES] if "apart" in op.checks else []
    if dims:
        checks = " ".join(f"wrap_dim({d}, {op.args[0].name}.dim(), inplace_name);" for d in dims)
        found.append(f"static void check_dims({inplace_args(op)}) {{ {checks} }}")
    return found


def _record_in_place(op: Op) -> str:
    """Record without computing into new memory; the overwritten value is copied only if a formula needs it."""
    me = op.args[0].name
    formulas = formula.read(op)
    if not formulas or formulas[0].arg.name != me:
        return ""
    # What another argument's derivative reads of the result must outlive later writes, as its own copy.
    (result,) = formula.result_names(op)
    others = [f"!recorded_flags_of({f.arg.name})" for f in formulas[1:] if result in f.uses]
    others += [f"!shares_memory({me}, {a.name})" for a in _tensors(op)[1:]]
    condition = " && ".join(["recorded_flags", f"is_inexact({me}.dtype())", *others])
    needing = [f for f in formulas if me in f.uses]
    if not needing or op.inplace_keeps_result:
        saved = me
    elif any(f.arg.name == me for f in needing):
        saved = f"before_write({me})"
    else:
        saved = f"({' || '.join(f'recorded_flags_of({f.arg.name})' for f in needing)}) ? before_write({me}) : {me}"
    rest = [a.name for a in cpp_args(op)[1:]]
    lines = [
        f"if (!({condition})) return false;",
        f"check_writable({me}, inplace_name);",
        f"const Tensor old = {saved};",
        f"auto node = {op.id}_node({', '.join(['recorded_flags', 'old', *rest])});",
        f"InPlaceForm<{op.id}_row>::write({', '.join([me, *rest])});",
        f"set_history_in_place({me}, node.get());",
    ]
    values, infos = _members(op, formulas)
    lines += [f"{_condition(formulas, name, False)}node->{name}_ = SavedTensor({me}, true);"
              for name in ((result, me) if op.inplace_keeps_result else (result,)) if name in values]
    lines += [f"node->{result}_info_ = TensorInfo({me});"] if f"{result}_info" in infos else []
    lines += [f"note_write({me});", "return true;"]
    body = "\n    ".join(lines)
    return f"static bool record_in_place(uint32_t recorded_flags, {inplace_args(op)}) {{\n    {body}\n  }}"


def _out_functions(op: Op) -> list[str]:
    params, args = cpp_params(op), ", ".join(a.name for a in cpp_args(op))
    found = []
    if op.elementwise:
        found.append(f"static void into(const Tensor& out, {params}) {{ ops::{op.name}_into(out, ops::Into::Out, {args}); }}")
    elif has_raw_out(op):
        targets = [f"{name}_target" for name in out_names(op)]
        declared = ", ".join(filter(None, [params, *(f"const Out& {t}" for t in targets)]))
        found.append(f"static {op.cpp_return} make({declared}) {{ return ops::{op.name}({', '.join(filter(None, [args, *targets]))}); }}")
    if "requires_grad" in op.python_only:
        checked = ", ".join(filter(None, ["const Tensor& out", params]))
        found.append(f"static void check_out_arguments({checked}) {{ check_stated(name, out, dtype, device); }}")
    return found
