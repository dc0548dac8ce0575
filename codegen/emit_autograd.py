"""The public C++ functions: `facula::mul` tests one flags word, calls `ops::mul`, and attaches a node when needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from . import batching, formula
from .emit_nodes import _condition, _members, _node
from .emit_ops import HEADER, cpp_args, cpp_default, cpp_params, has_raw_out, topics
from .schema import Op

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
        outs = ", ".join(f"const Tensor& {n}" for n in out_names(op))
        found.append(f"void {op.name}_out({outs}{', ' if op.args else ''}{cpp_params(op)})".replace(", )", ")"))
    return found


def _source(topic: str, ops: list[Op], home: dict[str, str]) -> str:
    includes = "".join(f'#include "functions_{t}.h"\n' for t in _needed_topics(topic, ops, home))
    autocast = '#include "autograd/autocast.h"\n' if any(op.autocast for op in ops) else ""
    lines = [HEADER, f'#include "autograd/formulas.h"\n#include "autograd/function_support.h"\n{autocast}{includes}#include "raw_{topic}.h"\n',
             "namespace facula {\n"]
    for op in ops:
        if op.composite:
            lines.append(_cast_composite(op) if op.autocast else "")
        elif mutates(op):
            lines.append(_mutating(op))
        else:
            lines.append(_node(op) + _function(op))
        if "inplace" in op.variants:
            lines.append(_inplace(op))
        if "out" in op.variants:
            lines.append(_out(op))
    lines.append("}  // namespace facula\n")
    return "\n".join(lines)


# functions


def _tensor_args(op: Op):
    return [a for a in op.args if a.is_tensor]


def _flags(op: Op, outs: Sequence[str] = ()) -> str:
    return " | ".join(f"flags_of({name})" for name in [*(a.name for a in _tensor_args(op)), *outs]) or "0u"


def _call_args(op: Op) -> str:
    return ", ".join(a.name for a in cpp_args(op))


def _device_check(op: Op) -> str:
    """Return the check of devices: views read one tensor, composites check in what they call, element-wise plans by their rules."""
    tensors = _tensor_args(op)
    if op.composite or op.elementwise or op.kind == "view" or "any_device" in op.checks or (len(tensors) < 2 and all(a.type != "Tensor[]" for a in tensors)):
        return ""
    return f'  check_one_device("{op.name}", {", ".join(a.name for a in tensors)});\n'


def _function(op: Op) -> str:
    """Return the fast path, and the slow one beside it."""
    args = _call_args(op)
    head = f"{op.cpp_return} {op.name}({cpp_params(op)})"
    if not _tensor_args(op):
        return f"{_watched(op)}{head} {{\n{_random_in_vmap(op)}  return {_raw_call(op)};\n}}\n"
    slow = _slow(op)
    autocasting = f" | autocasting({_regions(op)})" if op.autocast else ""
    condition = f"((({_flags(op)}) & kSlowFlags) | watching(){autocasting}) == 0"
    return (
        f"{_watched(op)}{_kept(op)}{slow}{head} {{\n{_device_check(op)}"
        f"  if (__builtin_expect({condition}, 1)) return ops::{op.name}({args});\n"
        f"  return {op.id}_slow({args});\n}}\n"
    )


# observers: the raw call in a scope that tells who watches, and may run something else (src/observe)


def _scope(op: Op, form: str, call: str, results: str = "", after: str = "", written: Sequence[str] = ()) -> str:
    """Return the statements that make a raw call while somebody watches; what stands in for it wrote to `written`."""
    names = [a.name for a in cpp_args(op)] + (out_names(op) if form == "Out" else [])
    given = f"  const Argument arguments[] = {{{', '.join(names)}}};\n" if names else ""
    given += f"  const ResultSlot slots[] = {{{results}}};\n" if results else ""
    lists = f"{_list('Argument', 'arguments', names)}, {_list('ResultSlot', 'slots', results)}"
    return (
        f"{given}  OpScope scope(op_id::{op.id}, OpForm::{form}, {lists});\n"
        f"  if (scope.runs()) {{ {call}; }}\n{_replaced(op, written)}  scope.done();\n{after}"
    )


def _replaced(op: Op, written: Sequence[str]) -> str:
    counts = " ".join(f"count_write({name}, op_id::{op.id});" for name in written)
    return f"  else {{ {counts} }}\n" if counts else ""


def _list(type_: str, array: str, values) -> str:
    return f"List<{type_}>({array}, std::size({array}))" if values else f"List<{type_}>()"


def _watched(op: Op) -> str:
    """Return the raw call, watched: of the function form."""
    count = len(op.returns)
    slots = "&result" if count == 1 else ", ".join(f"&std::get<{i}>(result)" for i in range(count))
    call = f"result = ops::{op.name}({_call_args(op)})"
    body = _scope(op, "Function", call, slots, "  return result;\n")
    return f"[[gnu::cold]] static {op.cpp_return} {op.id}_watched({cpp_params(op)}) {{\n  {op.cpp_return} result{{}};\n{body}}}\n"


def _watched_write(op: Op, call: str, counts: bool) -> str:
    """Return the raw call, watched: of a form that writes to the first argument, and may count that itself."""
    written = [op.args[0].name] if counts else []
    return f"[[gnu::cold]] static void {op.id}_write_watched({inplace_args(op)}) {{\n{_scope(op, 'InPlace', call, written=written)}}}\n"


def _raw_call(op: Op) -> str:
    args = _call_args(op)
    return f"is_watched({_flags(op)}) ? {op.id}_watched({args}) : ops::{op.name}({args})"


def _raw_write(op: Op, call: str) -> str:
    return f"if (is_watched({_flags(op)})) {op.id}_write_watched({_call_args(op)}); else {call};"


def _scoped_write(op: Op, name: str, function: str) -> str:
    """Return the raw call of a function that writes to its first argument, in the scope of that write."""
    me = op.args[0].name
    overlap = ", WriteScope::Overlap::Filled" if "shared_places" in op.checks else ""
    target = ", ".join(["write.target()", *(a.name for a in cpp_args(op)[1:])])
    raw = f"if (is_watched({_flags(op)})) {op.id}_write_watched({target}); else {function}({target});"
    return f'{{ CheckedWrite write({me}, "{name}", op_id::{op.id}{overlap}); {raw} write.ran(); }}'


def _random_in_vmap(op: Op) -> str:
    """Return what random numbers need in vmap: numbers drawn inside vmap may differ between examples."""
    if op.kind != "random":
        return ""
    size = next((a.name for a in op.args if a.type == "int[]" and a.name == "size"), None)
    if not size:
        return ""
    args = ", ".join("sizes" if a.name == size else a.name for a in cpp_args(op))
    return (
        f"  if (__builtin_expect(thread_state.modes & kModeVmap, 0)) {{\n"
        f'    return random_in_vmap("{op.name}", {size}, [&](IntList sizes) {{ return ops::{op.name}({args}); }});\n  }}\n'
    )


def _cast_composite(op: Op) -> str:
    """Return a composite with a cast before it. Its own function is declared here only: headers do not change with the key."""
    head, args = f"{op.cpp_return} {op.name}({cpp_params(op)})", _call_args(op)
    return (
        f"{op.cpp_return} {op.written_as}({cpp_params(op)});\n"
        f"[[gnu::noinline]] static {op.cpp_return} {op.id}_cast({cpp_params(op)}) {{\n{_cast_and_call(op, op.written_as)}}}\n"
        f"{head} {{\n  if (__builtin_expect(autocasting({_regions(op)}) == 0, 1)) return {op.written_as}({args});\n  return {op.id}_cast({args});\n}}\n"
    )


def _regions(op: Op) -> str:
    """Return the regions for which the op has a policy."""
    modes = {"cpu": "kModeAutocast", "cuda": "kModeAutocastCuda"}
    return "kAutocast" if len(op.autocast) == len(modes) else "".join(modes[device] for device in op.autocast)


def _cast_and_call(op: Op, target: str) -> str:
    """Return the arguments in the dtype of the op's autocast policies, and the op on them outside of those regions."""
    tensors = _tensor_args(op)
    pause = f"    AutocastPause pause({_regions(op)});\n"
    if set(op.autocast.values()) == {"unchanged"}:
        return f"{pause}    return {target}({_call_args(op)});\n"
    cpu, cuda = (f"AutocastPolicy::{op.autocast.get(device, 'none').capitalize()}" for device in ("cpu", "cuda"))
    seen = {"promote", "refused"} & set(op.autocast.values())
    lines = [f'    {"" if seen else "const "}AutocastCall call("{op.name}", {cpu}, {cuda});']
    lines += [f"    call.see({a.name});" for a in tensors if seen]
    lines += [f"    const Autocast<{_holder(a)}> {a.name}_c({a.name}, call);" for a in tensors]
    given = ", ".join(f"{a.name}_c.get()" if a.is_tensor else a.name for a in cpp_args(op))
    return "\n".join(lines) + f"\n{pause}    return {target}({given});\n"


def _pause(op: Op) -> str:
    """Return what pauses autocast: in-place and out= forms take their arguments as they are."""
    return f"  AutocastPause pause({_regions(op)});\n" if op.autocast else ""


def _plain_layouts(op: Op) -> str:
    return " ".join(f"materialize_layout({a.name});" for a in _tensor_args(op))


def _holder(arg) -> str:
    """Return the C++ type of something that holds a value in place of a tensor argument."""
    return {"Tensor[]": "std::vector<Tensor>", "Operand": "Operand"}.get(arg.type, "Tensor")


def _passes_layout(op: Op) -> bool:
    """Return whether results may have private layouts; a view with `layout: keep` gives such a tensor back itself."""
    return op.keeps_layout and op.kind != "view"


def _kept(op: Op) -> str:
    """Return the raw call with arguments of private layouts, whose results have private layouts as well."""
    if not _passes_layout(op):
        return ""
    lines = [f"[[gnu::noinline]] static {op.cpp_return} {op.id}_kept({cpp_params(op)}) {{"]
    lines.append(f"  if (shows_arguments({_flags(op)})) {{ {_plain_layouts(op)} return {op.name}({_call_args(op)}); }}")
    lines += [f"  const Held<{_holder(a)}> {a.name}_p({a.name});" for a in _tensor_args(op)]
    given = ", ".join(f"{a.name}_p.get()" if a.is_tensor else a.name for a in cpp_args(op))
    lines.append(f"  {op.cpp_return} kept_value = is_watched({_flags(op)}) ? {op.id}_watched({given}) : ops::{op.name}({given});")
    lines.append("  keep_private(kept_value);\n  return kept_value;\n}\n")
    return "\n".join(lines)


def _slow(op: Op) -> str:
    formulas = formula.read(op)
    tensor_args = _tensor_args(op)
    lines = [f"[[gnu::noinline]] static {op.cpp_return} {op.id}_slow({cpp_params(op)}) {{"]
    if op.autocast:
        lines.append(f"  if (autocasting({_regions(op)})) {{\n{_cast_and_call(op, op.name)}  }}")
    lines.append(f"  if (({_flags(op)}) & kBatched) {{\n    {batching.body(op, cpp_args(op))}\n  }}")
    if op.sparse_op:
        lines.append(f"  if (({_flags(op)}) & kSparse) return {op.sparse_op}({_call_args(op)});")
    if not op.keeps_layout:
        lines.append(f"  if (({_flags(op)}) & kPrivateLayout) {{ {_plain_layouts(op)} return {op.name}({_call_args(op)}); }}")
    for a in op.args if _passes_layout(op) else ():
        if a.type == "memory_format?":  # asked for by the program, so it sees it
            asked = f"{a.name}.value_or(MemoryFormat::Preserve) != MemoryFormat::Preserve"
            lines.append(f"  if ((({_flags(op)}) & kPrivateLayout) && {asked}) {{ {_plain_layouts(op)} return {op.name}({_call_args(op)}); }}")
    if op.kind != "view":
        lines.append(f"  if (({_flags(op)}) & kConjugate) {{")
        for a in tensor_args:
            lines.append(f"    Resolved<{_holder(a)}> {a.name}_r({a.name});")
        resolved = ", ".join(f"{a.name}_r.get()" if a.is_tensor else a.name for a in cpp_args(op))
        lines.append(f"    return {op.name}({resolved});\n  }}")
    call = f"({_flags(op)}) & kPrivateLayout ? {op.id}_kept({_call_args(op)}) : {_raw_call(op)}" if _passes_layout(op) else _raw_call(op)
    if not formulas:
        if op.grad is None and op.kind != "view" and any(r.startswith("Tensor") for r in op.returns):
            lines.append(f"  if (const uint32_t recorded_flags = {' | '.join(f'recorded_flags_of({a.name})' for a in tensor_args)}) {{")
            names = ", ".join(a.name for a in tensor_args)
            lines.append(f'    auto result_value = {call};\n    record_missing("{op.name}", recorded_flags, result_value, {names});')
            lines.append("    return result_value;\n  }")
        lines.append(f"  return {call};\n}}")
        return "\n".join(lines) + "\n"
    lines.append(f"  const uint32_t recorded_flags = {_marks([f.arg for f in formulas])};")
    unrecorded = f"unrecorded_view({call})" if op.kind == "view" and op.returns == ("Tensor",) else call
    lines.append(f"  if (!recorded_flags) return {unrecorded};")
    lines.append(f"  auto result_value = {call};")
    if op.returns == ("Tensor",) and not op.elementwise:  # an op that has nothing to do gives its input back
        same = [f"result_value.is_same({a.name})" for a in tensor_args if a.type in ("Tensor", "Tensor?")]
        lines += [f"  if ({' || '.join(same)}) return result_value;"] if same else []
    lines.append(f"  auto node = {op.id}_node(recorded_flags, {_call_args(op)});")
    lines += _history(op, formulas)
    lines.append("  return result_value;\n}")
    return "\n".join(lines) + "\n"


def _marks(args) -> str:
    return " | ".join(f"recorded_flags_of({a.name})" for a in args)


def _history(op: Op, formulas) -> list[str]:
    values, infos = _members(op, formulas)
    results = formula.result_names(op)
    lines = []
    if len(op.returns) == 1:
        lines.append("  set_history(result_value, node.get());")
        accessor = {results[0]: "result_value"}
    else:
        accessor = {}
        for i, (kind, result) in enumerate(zip(op.returns, results)):
            accessor[result] = f"std::get<{i}>(result_value)"
            if kind.startswith("Tensor") and result not in op.no_gradient:
                lines.append(f"  set_history(std::get<{i}>(result_value), node.get());")
    for result in results:
        if result in values:
            when = _condition(formulas, result, any(f.arg.type == "Tensor[]" for f in formulas))
            lines.append(f"  {when}node->{result}_ = SavedTensor({accessor[result]}, true);")
        if f"{result}_info" in infos:
            lines.append(f"  node->{result}_info_ = TensorInfo({accessor[result]});")
    return lines


# other forms


def _checked_layouts(op: Op) -> str:
    return "" if op.keeps_layout else f"  if (__builtin_expect(({_flags(op)}) & kPrivateLayout, 0)) {{ {_plain_layouts(op)} }}\n"


def _mutating(op: Op) -> str:
    me = op.args[0].name
    raw = f"ops::{op.name}"
    call = f"{raw}({_call_args(op)})"
    return (
        f"{_watched_write(op, call, False)}const Tensor& {op.name}({inplace_args(op)}) {{\n{_device_check(op)}{_checked_layouts(op)}"
        f"  if (({_flags(op)}) & kBatched) {{\n    {batching.mutating(op, cpp_args(op))}\n    return {me};\n  }}\n"
        f'  check_not_inference({me}, "{op.name}");\n  if (written_flags_of({me})) check_writable({me}, "{op.name}");\n'
        f"  {_scoped_write(op, op.name, raw)}\n"
        f'  erase_history({me}, "{op.name}");\n  return {me};\n}}\n'
    )


def _inplace(op: Op) -> str:
    me = op.args[0].name
    args = _call_args(op)
    head = f"const Tensor& {op.name}_({inplace_args(op)}) {{\n{_pause(op)}"
    if op.kind == "view":
        head += _checked_layouts(op)
        batched = f"  if ({me}.flags() & kBatched) {{\n    become_batched_view({me}, {op.name}({args}));\n    return {me};\n  }}\n"
        return f"{head}{batched}  become_view({me}, {op.name}({args}));\n  count_write({me}, op_id::{op.id});\n  return {me};\n}}\n"
    batched = f'  if (({_flags(op)}) & kBatched) {{\n    write_batched({me}, {op.name}({args}), "{op.name}_", false);\n    return {me};\n  }}\n'
    identity = f"op_id::{op.id}"
    watched = ""
    if op.elementwise:
        call = f"ops::{op.name}_into({me}, ops::Into::InPlace, {args})"
        watched, raw = _watched_write(op, call, True), _raw_write(op, call)
    elif op.direct_inplace:
        call = f"ops::{op.name}_({args})"
        watched, raw = _watched_write(op, call, False), _scoped_write(op, f"{op.name}_", f"ops::{op.name}_")
    else:
        value = f"{op.name}({args})" if op.composite else _raw_call(op)
        raw = f"write_result({me}, {value}, {identity});"
    recorded_flags = " | ".join([f"written_flags_of({me})", *(f"recorded_flags_of({a.name})" for a in _tensor_args(op)[1:])])
    read = {a.name: f"old_if_same({a.name}, {me}, old)" for a in op.args[1:] if a.type in ("Tensor", "Tensor?", "Operand")}  # x.mul_(x)
    old = ", ".join(["old", *(read.get(a.name, a.name) for a in cpp_args(op)[1:])])
    resolve = (
        f"  if (({_flags(op)}) & kConjugate) {{\n    const Tensor old = before_write({me});\n"
        f"    assign_values({me}, {op.name}({old}), {identity});\n    return {me};\n  }}\n"
    )
    marking = f"  const uint32_t recorded_flags = (({_flags(op)}) & kSlowFlags) || {me}.impl()->base ? {recorded_flags} : 0;\n"
    direct = _direct(op) if op.elementwise and formula.read(op) else ""
    return (
        f"{watched}{head}{_device_check(op)}{_apart_check(op)}{_checked_layouts(op)}{batched}{resolve}{marking}{direct}  return run_inplace({me}, \"{op.name}_\", {identity}, recorded_flags,\n"
        f"      [&](const Tensor& old) {{ return {op.name}({old}); }}, [&] {{ {raw} }});\n}}\n"
    )


def _apart_check(op: Op) -> str:
    names = ", ".join(a.name for a in _tensor_args(op))  # a dimension out of range is refused first
    dims = "".join(f'  wrap_dim({a.name}, {op.args[0].name}.dim(), "{op.name}_");\n' for a in op.args if a.type == "int" and a.name in batching.DIM_NAMES)
    return f'{dims}  check_all_apart("{op.name}_", {names});\n' if "apart" in op.checks else ""


def _direct(op: Op) -> str:
    """Record without computing into new memory; the overwritten value is copied only if a formula asks for it."""
    me = op.args[0].name
    formulas = formula.read(op)
    if formulas[0].arg.name != me:
        return ""
    # What another argument's derivative reads of the result must outlive later writes, as its own copy.
    (result,) = formula.result_names(op)
    others = [f"!recorded_flags_of({f.arg.name})" for f in formulas[1:] if result in f.uses]
    others += [f"!shares_memory({me}, {a.name})" for a in _tensor_args(op)[1:]]
    condition = " && ".join(["recorded_flags", f"is_inexact({me}.dtype())", *others])
    needing = [f for f in formulas if me in f.uses]
    if not needing or op.inplace_keeps_result:
        kept = me
    elif any(f.arg.name == me for f in needing):
        kept = f"before_write({me})"
    else:
        kept = f"({' || '.join(f'recorded_flags_of({f.arg.name})' for f in needing)}) ? before_write({me}) : {me}"
    lines = [f"  if ({condition}) {{", f'    check_writable({me}, "{op.name}_");', f"    const Tensor old = {kept};"]
    rest = [a.name for a in cpp_args(op)[1:]]
    lines.append(f"    auto node = {op.id}_node({', '.join(['recorded_flags', 'old', *rest])});")
    write = _raw_write(op, f"ops::{op.name}_into({me}, ops::Into::InPlace, {_call_args(op)})")
    lines.append(f"    {write}")
    lines.append(f"    set_history_in_place({me}, node.get());")
    values, infos = _members(op, formulas)
    for name in (result, me) if op.inplace_keeps_result else (result,):
        if name in values:
            lines.append(f"    {_condition(formulas, name, False)}node->{name}_ = SavedTensor({me}, true);")
    if f"{result}_info" in infos:
        lines.append(f"    node->{result}_info_ = TensorInfo({me});")
    lines.append(f"    note_write({me});\n    return {me};\n  }}\n")
    return "\n".join(lines)


def _out(op: Op) -> str:
    names = out_names(op)
    outs = ", ".join(f"const Tensor& {n}" for n in names)
    args, params = _call_args(op), cpp_params(op)
    head = f"void {op.name}_out({outs}{', ' + params if params else ''}) {{\n"
    layouts = " ".join(f"materialize_layout({n});" for n in [*names, *(a.name for a in _tensor_args(op))])
    check = f'{_pause(op)}  {layouts}\n{_checked_outs(op, names)}'
    if op.elementwise:
        call = f"ops::{op.name}_into(out, ops::Into::Out, {args})"
        body = f"{_resolved_out(op, names)}  {_raw_out(op, call + ';')}\n"
        return f"{_watched_out(op, call)}{head}{check}{body}}}\n"
    targets = "".join(_target(op, name, names) for name in names)
    watched = _scope(op, "Out", f"{targets.strip()} {_made(op, names)}", written=names)
    body = "" if op.composite else f"  if (is_watched({_flags(op, names)})) {{\n{watched}  return;\n  }}\n"  # outs may have no memory here
    body += f"{targets}  GradMode no_grad(false);\n{_resolved_out(op, names)}  {_made(op, names)};\n"
    return f"{head}{check}{_device_check(op)}{body}}}\n"


def _checked_outs(op: Op, names: list[str]) -> str:
    """Refuse what out= forms cannot do, before anything is computed."""
    pointers = ", ".join("&" + name for name in names)
    history = formula.out_history(op)
    text = f'  check_out("{op.name}", {_flags(op)}, OutHistory::{history}, {{{pointers}}});\n'
    if history != "Recorded":
        text += "".join(f'  const EndOfHistory {name}_ends("{op.name}", OutHistory::{history}, {name});\n' for name in names)
    if "requires_grad" in op.python_only:
        text += f'  check_stated("{op.name}", out, dtype, device);\n'
    return text


def _target(op: Op, name: str, names: list[str]) -> str:
    """Emit where a result goes: `name`, unless an argument or another result lies there."""
    cast = "Out::Cast::Class" if op.out_casts else "Out::Cast::None"
    fills = op.name not in ("arange", "fft_fftfreq", "fft_rfftfreq")  # PyTorch warns of these when it resizes out=
    if op.out_casts and fills and all(a.type == "Operand" for a in _tensor_args(op)):
        cast = "Out::Cast::Filled" if "shared_places" in op.checks else "Out::Cast::Quiet"
    beside = [a.name for a in _tensor_args(op)] + [other for other in names if other != name]
    return f'  const Out {name}_target({", ".join([f"{chr(34)}{op.name}{chr(34)}", f"op_id::{op.id}", name, cast, *beside])});\n'


def _resolved_out(op: Op, names: list[str]) -> str:
    """Emit a copy of the result where arguments are conjugated lazily."""
    if not _tensor_args(op):
        return ""
    target = _target(op, names[0], names) if op.elementwise else ""
    return f"  if (({_flags(op)}) & kConjugate) {{ {target} auto made = {op.name}({_call_args(op)}); {_finish(names)}; return; }}\n"


def _made(op: Op, names: list[str]) -> str:
    """Return the call, which writes to the targets by itself where the op can."""
    function = f"ops::{op.name}" if has_raw_out(op) else op.name
    extra = ", ".join(f"{name}_target" for name in names) if has_raw_out(op) else ""
    return f"const auto made = {function}({', '.join(filter(None, [_call_args(op), extra]))}); {_finish(names)}"


def _watched_out(op: Op, call: str) -> str:
    outs = ", ".join(f"const Tensor& {n}" for n in out_names(op))
    return f"[[gnu::cold]] static void {op.id}_out_watched({outs}, {cpp_params(op)}) {{\n{_scope(op, 'Out', call, written=['out'])}}}\n"


def _raw_out(op: Op, call: str) -> str:
    return f"if (is_watched({_flags(op, out_names(op))})) {op.id}_out_watched({', '.join([*out_names(op), _call_args(op)])}); else {call}"


def _finish(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]}_target.finish(made)"
    return "; ".join(f"{n}_target.finish(std::get<{i}>(made))" for i, n in enumerate(names))
