"""Emit METH_FASTCALL functions and methods with their argument rows, one file per topic, and the tables that hold them."""

from __future__ import annotations

from pathlib import Path

from .emit_autograd import mutates, out_names
from .emit_docs import Form, docstring, private_docstring, python_default, python_name
from .emit_ops import HEADER, cpp_args
from .op import Argument, Op
from .schema import group_by_name
from .signatures import text_signature

ARG_TYPES = {
    "Tensor": "Tensor", "Tensor?": "OptTensor", "Tensor[]": "TensorList", "Operand": "Operand", "Scalar": "Scalar",
    "Scalar?": "OptScalar", "int": "Int", "int?": "OptInt", "float": "Float", "float?": "OptFloat", "bool": "Bool",
    "bool?": "OptBool", "int[]": "IntList", "int[]?": "OptIntList", "float[]": "FloatList", "float[]?": "OptFloatList",
    "str": "Str", "str?": "OptStr", "dtype": "DType", "dtype?": "OptDType", "device?": "OptDevice",
    "layout?": "OptLayout", "memory_format": "OptMemoryFormat", "memory_format?": "OptMemoryFormat", "Generator?": "OptGenerator",
}  # fmt: skip
FUNCTIONS_PER_FILE = 60
EMPTY_FACTORIES = ("zeros", "empty", "zeros_like", "empty_like", "new_zeros", "new_empty")


def emit(ops: list[Op], out: Path, write) -> None:
    groups = group_by_name(ops)
    by_topic: dict[str, list[tuple[str, list[Op]]]] = {}
    for name, members in groups.items():
        by_topic.setdefault(members[0].topic, []).append((name, members))
    parts = []
    for topic, entries in sorted(by_topic.items()):
        for start in range(0, len(entries), FUNCTIONS_PER_FILE):
            part = f"{topic}{start // FUNCTIONS_PER_FILE}"
            parts.append(part)
            write(out / f"py_{part}.cpp", _file(topic, part, entries[start:start + FUNCTIONS_PER_FILE]))
    write(out / "py_register.cpp", _register(parts))


def _forms(members: list[Op]) -> list[str]:
    """Return which of plain and in-place bindings the group needs."""
    forms = ["plain"]
    if any("inplace" in op.variants for op in members):
        forms.append("inplace")
    return forms


def _file(topic: str, part: str, entries) -> str:
    ids = sorted({op.topic for _, members in entries for op in members if op.composite})
    includes = [f'#include "functions_{topic}.h"', *(f'#include "op_ids_{t}.h"' for t in ids), '#include "python/bindings.h"\n']
    lines = [HEADER, "\n".join(includes), "namespace facula::python {\nnamespace {\n"]
    functions, methods = [], []
    results = _result_types([op for _, members in entries for op in members])
    lines += results.values()
    for name, members in entries:
        for form in _forms(members):
            chosen = members if form == "plain" else [op for op in members if "inplace" in op.variants]
            public = name if form == "plain" else name + "_"
            entry_functions, entry_methods = _entries(public, chosen, form)
            if entry_functions or entry_methods:
                lines.append(_binding(public, chosen, form, bool(entry_functions)))
            functions += entry_functions
            methods += entry_methods
    lines.append(f"const Binding functions_{part}[] = {{")
    lines += [f"    {row}," for row in functions] + ["    {}};"]
    lines.append(f"const Binding methods_{part}[] = {{")
    lines += [f"    {row}," for row in methods] + ["    {}};"]
    lines.append(f"ResultTuple* const results_{part}[] = {{{''.join(f'&{name}, ' for name in results)}nullptr}};")
    added = f"tables.add(functions_{part}, methods_{part}, results_{part});"
    lines.append(f"\n}}  // namespace\n\nvoid register_{part}(BindingTables& tables) {{ {added} }}\n")
    lines.append("}  // namespace facula::python\n")
    return "\n".join(lines)


def _entries(public: str, members: list[Op], form: str):
    names = list(dict.fromkeys(n for op in members for n in op.names))
    functions, methods = [], []
    if any("function" in op.variants or not op.names for op in members) and (names or form == "plain"):
        for dotted in names or [f"_ops.{public}"]:
            last = dotted + "_" * (form == "inplace")
            functions.append(_table_row(public, last, members, Form(in_place=form == "inplace")))
    if bound := [op for op in members if "method" in op.variants]:
        methods += [_table_row(public, last, bound, Form(True, form == "inplace")) for last in _method_names(public, names, form)]
    return functions, methods


def _table_row(public: str, dotted: str, members: list[Op], form: Form) -> str:
    """Return the row of a function or method: its module, its op, and what CPython wants to know."""
    module, _, last = dotted.rpartition(".")
    text = private_docstring(last, members) if module == "_ops" else docstring(last, members, form)
    doc = _c_string(f"{last}{text_signature(members, form)}\n--\n\n{text}")
    function = f"method_{public}" if form.method else f"fn_{public}"
    return f'{{"{module}", "{public}", {{"{last}", as_function({function}), METH_FASTCALL | METH_KEYWORDS, {doc}}}}}'


def _method_names(public: str, names: list[str], form: str) -> list[str]:
    """Return the names of methods: methods carry the names without a module; an alias such as `absolute` is a method as
    well."""
    plain = [n for n in names if "." not in n]
    if form == "inplace":
        return [n + "_" for n in plain] or [public]
    return plain or [public]


def _c_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _binding(public: str, members: list[Op], form: str, is_function: bool) -> str:
    lines = []
    signatures = []
    for i, op in enumerate(members):
        rows = [_row(a) for a in op.args]
        has_out = form == "plain" and "out" in op.variants
        if has_out:
            kind = "OutTensor" if len(out_names(op)) == 1 else "OutTuple"
            rows.append(f'{{"out", ArgType::{kind}, false, true, 0}}')
        array = f"args_{public}_{i}"
        lines.append(f"ArgSpec {array}[] = {{{', '.join(rows) or '{}'}}};")
        signatures.append(f'{{"{_signature_text(op, has_out)}", {array}, {len(rows)}, {_self_index(op)}}}')
    lines.append(f"Signature signatures_{public}[] = {{{', '.join(signatures)}}};")
    public_name = members[0].public_name + "_" * (form == "inplace")
    lines.append(f'FunctionSpec spec_{public} = {{"{public}", "{public_name}", signatures_{public}, {len(members)}}};')
    lines.append(
        f"PyObject* call_{public}(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {{\n"
        f"  PyObject* s[kMaxArgs];\n  int chosen = parse(spec_{public}, self, args, nargs, kwnames, s);\n"
        f"  if (chosen < 0) return chosen == kHandled ? s[0] : nullptr;\n  Spread spread(s[kMaxArgs - 1]);\n"
        f"  return guarded([&]() -> PyObject* {{\n    switch (chosen) {{"
    )
    for i, op in enumerate(members):
        lines.append(f"      case {i}: {{ {_call(op, form)} }}")
    lines.append("      default: return nullptr;\n    }\n  });\n}")
    if is_function:
        lines.append(
            f"PyObject* fn_{public}(PyObject*, PyObject* const* a, Py_ssize_t n, PyObject* k) {{ return call_{public}(nullptr, a, n, k); }}"
        )
    if any("method" in op.variants for op in members):
        lines.append(
            f"PyObject* method_{public}(PyObject* self, PyObject* const* a, Py_ssize_t n, PyObject* k) {{ return call_{public}(self, a, n, k); }}"
        )
    return "\n".join(lines) + "\n"


def _self_index(op: Op) -> int:
    for i, arg in enumerate(op.args):
        if arg.name == "self":
            return i
    return 0 if op.args and op.args[0].is_tensor else -1


def _row(arg: Argument) -> str:
    required = "true" if arg.default is None else "false"
    keyword = "true" if arg.keyword_only else "false"
    kind = "IntListOrDefault" if arg.none_is_default else ARG_TYPES[arg.type]
    return f'{{"{python_name(arg)}", ArgType::{kind}, {required}, {keyword}, {arg.list_size}}}'


def signature_text(op: Op, has_out: bool) -> str:
    parts, star = [], False
    for arg in op.args:
        if arg.keyword_only and not star:
            parts.append("*")
            star = True
        kind = {"Operand": "Tensor or Number"}.get(arg.type, arg.type)
        parts.append(f"{kind} {python_name(arg)}" + (f"={python_default(arg)}" if arg.default is not None else ""))
    if has_out:
        parts += ([] if star else ["*"]) + ["Tensor out=None" if len(out_names(op)) == 1 else "tuple of Tensors out=None"]
    return ", ".join(parts)


def _signature_text(op: Op, has_out: bool) -> str:
    return signature_text(op, has_out).replace('"', '\\"')


def _value(arg: Argument, slot: str, keeps_layout: bool) -> str:
    """Return the C++ expression that converts a slot."""
    kind, default = arg.type, arg.default
    layout = "Layouts::Keep" if keeps_layout else "Layouts::Plain"
    optional = {
        "Scalar?": ("Scalar", "to_scalar"), "int?": ("int64_t", "to_int"), "float?": ("double", "to_float"),
        "bool?": ("bool", "to_bool"), "str?": ("std::string_view", "arg_string"), "dtype?": ("DType", "to_dtype_value"),
        "device?": ("Device", "to_device_value"), "layout?": ("Layout", "to_layout"),
        "memory_format?": ("MemoryFormat", "to_memory_format"),
    }  # fmt: skip
    if kind in optional:
        cpp, convert = optional[kind]
        if default not in (None, "None"):
            return f"{slot} ? arg_optional<{cpp}>({slot}, {convert}) : std::optional<{cpp}>({_default(arg)})"
        return f"arg_optional<{cpp}>({slot}, {convert})"
    simple = {
        "Tensor": f"arg_tensor<{layout}>({slot})", "Tensor?": f"arg_tensor<{layout}>({slot})", "Tensor[]": f"arg_tensors({slot}, {layout})",
        "int[]": f"arg_ints({slot}, {arg.list_size})", "int[]?": f"arg_opt_ints({slot}, {arg.list_size})",
        "float[]": f"arg_floats({slot})", "float[]?": f"arg_opt_floats({slot})",
        "Generator?": f"(given({slot}) ? to_generator({slot}) : nullptr)",
    }  # fmt: skip
    if kind in simple:
        text = simple[kind]
        if default in (None, "None"):
            return text
        holder = {"int[]": "IntsArg", "float[]": "FloatsArg", "int[]?": "OptIntsArg"}.get(kind)
        if holder == "OptIntsArg":
            return f"({slot} ? {text} : OptIntsArg{{Dims{_braces(default, arg.list_size)}}})"
        return f"({slot} ? {text} : {holder}{{{_braces(default, arg.list_size)}}})" if holder else text
    convert = {"Operand": f"arg_operand<{layout}>", "Scalar": "to_scalar", "int": "to_int", "float": "to_float", "bool": "to_bool",
               "str": "arg_string", "dtype": "to_dtype_value", "memory_format": "to_memory_format"}[kind]
    if default is None:
        return f"{convert}({slot})"
    return f"({slot} ? {convert}({slot}) : {_default(arg)})"


def _braces(default: str, size: int) -> str:
    inside = default.strip("[]() ")
    if not default.startswith(("[", "(")) and size > 1:
        inside = ", ".join([inside] * size)
    return "{" + inside + "}"


def _default(arg: Argument) -> str:
    text = python_default(arg) or ""
    if text in ("True", "False"):
        return f"Scalar({text.lower()})" if arg.type == "Scalar" else text.lower()
    if arg.type.startswith("str"):
        return 'std::string_view("' + text.strip("\"'") + '")'
    if arg.type == "Operand":
        return f"Operand({text})"
    if arg.type.startswith("Scalar"):
        return f"Scalar({text})"
    if arg.type == "int":
        return f"int64_t{{{text}}}"
    if arg.type == "float":
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(text, f"double({text})")
    if arg.type.startswith("memory_format"):
        words = text.replace("_format", "").split("_")
        return f"MemoryFormat::{''.join(w.capitalize() for w in words)}"
    return text


def _call(op: Op, form: str) -> str:
    return _scope(op, form) + _statements(op, form)


def _scope(op: Op, form: str) -> str:
    if not op.composite:
        computed = form == "inplace" and not (op.elementwise or op.direct_inplace or mutates(op))  # then put in place
        answer = f"answered_in_place(op_id::{op.id}, s, {len(op.args)})"
        return f"if (PyObject* answer = {answer}) return answer; " if computed else ""
    kind = "InPlace" if form == "inplace" or mutates(op) else "Function"
    scope = f"CompositeScope scope(op_id::{op.id}, OpForm::{kind}, s, {len(op.args)});"
    notice = "" if any(r.startswith("Tensor") for r in op.returns) else f'notify_region_of_value("{op.name}"); '  # it reads elements
    return f"{notice}{scope} if (scope.answered()) return scope.answer(); "


def _statements(op: Op, form: str) -> str:
    slots = {a.name: f"s[{i}]" for i, a in enumerate(op.args)}
    values = [_value(a, slots[a.name], op.keeps_layout) for a in cpp_args(op)]
    if form == "inplace" or mutates(op):
        me = slots[op.args[0].name]
        values[0] = f'arg_written("{op.name}", {me})'
        return f"facula::{op.name if mutates(op) else op.name + '_'}({', '.join(values)}); Py_INCREF({me}); return {me};"
    text = _requested_layout(op, slots) if "layout" in op.python_only else ""
    if _is_like(op):
        values[[a.name for a in cpp_args(op)].index("self")] = "like"
    if "out" in op.variants:
        slot = f"s[{len(op.args)}]"
        names = out_names(op)
        outs = [f"arg_out({slot}, {i})" for i in range(len(names))]
        call = f"facula::{op.name}_out({', '.join(outs + values)});"
        text += f"if (given({slot})) {{ {call} {_wanted(op, slot, slots)}{_return_out(op, slot, names)} }} "
    call = f"facula::{op.name}({', '.join(values)})"
    if "requires_grad" in slots and op.python_only:
        made = f"where_wanted({call}, {slots['pin_memory']})"
        return text + f"return wrap(with_requires_grad({made}, {slots['requires_grad']}));"
    if len(op.returns) > 1:
        return text + f'return wrap_results({_result_type(op)}, false, {call});'
    if not op.returns or op.cpp_return == "void":
        return text + f"{call}; Py_RETURN_NONE;"
    return text + f"return wrap({call});"


def _is_like(op: Op) -> bool:
    """Return True if a factory takes the form of a tensor, named `like` in its code, and a layout; others take zeros of it."""
    return "layout" in op.python_only and op.name.endswith("_like") and op.name not in EMPTY_FACTORIES


def _wanted(op: Op, slot: str, slots: dict[str, str]) -> str:
    """Emit what a factory does to the tensor that it was given."""
    return f"with_requires_grad(arg_out({slot}, 0), {slots['requires_grad']}); " if "requires_grad" in op.python_only else ""


def _requested_layout(op: Op, slots: dict[str, str]) -> str:
    """Return what a factory does where a sparse layout is requested: a tensor without entries is one of zeros."""
    if op.name not in EMPTY_FACTORIES:
        if not _is_like(op):
            return f'refuse_layout("{op.name}", {slots["layout"]}); '
        given = next(_value(a, slots[a.name], op.keeps_layout) for a in op.args if a.name == "self")
        other = f'like_in_layout("{op.name}", {slots["layout"]}, {given}, strided)'
        return f'Tensor strided; const Tensor& like = given({slots["layout"]}) ? {other} : {given}; '
    by_name = {a.name: _value(a, slots[a.name], op.keeps_layout) for a in cpp_args(op)}
    like = f"&{by_name['self']}" if "self" in by_name else "nullptr"
    size = by_name.get("size", "IntList()")
    sized = str("size" in by_name).lower()
    name = f'"{op.name}"'
    made = f"sparse_zeros({name}, {like}, {sized}, {size}, {by_name['dtype']}, {by_name['device']}, {slots['layout']})"
    if "out" in op.variants:
        given = f"s[{len(op.args)}], {size}, {by_name['dtype']}, {by_name['device']}, {slots['layout']}"
        into = f"if (PyObject* made = zeros_into_sparse({name}, {given})) return made; "
    else:
        into = ""
    return f"{into}if (wants_other_layout({slots['layout']}, {like}, {sized})) return wrap(with_requires_grad({made}, {slots['requires_grad']})); "


def _return_out(op: Op, slot: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"Py_INCREF({slot}); return {slot};"
    return f'return wrap_results({_result_type(op)}, true, out_tuple<{len(names)}>({slot}));'


def _result_type(op: Op) -> str:
    return f"&results_{op.name}" if op.fields else "nullptr"


def _result_types(ops: list[Op]) -> dict[str, str]:
    """Return the definitions of the named tuples that ops of a file give, by their names."""
    types: dict[str, str] = {}
    for op in ops:
        if len(op.returns) > 1 and op.fields:
            fields = ", ".join(f'"{n}"' for n in op.fields)
            text = f"const char* const fields_{op.name}[] = {{{fields}}};\nResultTuple results_{op.name}{{\"{op.name}\", fields_{op.name}, {len(op.fields)}}};"
            if types.setdefault(f"results_{op.name}", text) != text:
                raise ValueError(f"{op.id}: overloads of {op.name} name their results differently")
    return types


def _register(parts: list[str]) -> str:
    lines = [HEADER, '#include "python/bindings.h"\n', "namespace facula::python {\n"]
    lines += [f"void register_{part}(BindingTables& tables);" for part in parts]
    lines.append("\nvoid register_all(BindingTables& tables) {")
    lines += [f"  register_{part}(tables);" for part in parts]
    lines.append("}\n\n}  // namespace facula::python\n")
    return "\n".join(lines)
