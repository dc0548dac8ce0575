"""Emit the functions and methods of the `torch::` headers: calls of Facula's functions with libtorch's argument types.

Headers only declare them, since a program that reads 3,000 bodies waits for its compiler; the bodies are compiled once, in src/cxx.

Where Facula's own signature is not libtorch's, the function is written by hand in include/compat/torch and left out here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .emit_autograd import mutates, out_names
from .emit_ops import HEADER, cpp_args
from .op import Argument, Op

# schema type -> parameter type of libtorch's
TYPES = {
    "Tensor": "const Tensor&", "Tensor?": "const std::optional<Tensor>&", "Tensor[]": "TensorList", "Scalar": "const Scalar&",
    "Scalar?": "const std::optional<Scalar>&", "int": "int64_t", "int?": "std::optional<int64_t>", "float": "double",
    "float?": "std::optional<double>", "bool": "bool", "bool?": "std::optional<bool>", "int[]": "IntArrayRef",
    "int[]?": "OptionalIntArrayRef", "float[]": "ArrayRef<double>", "float[]?": "std::optional<ArrayRef<double>>", "str": "std::string_view",
    "str?": "std::optional<std::string_view>", "dtype": "ScalarType", "dtype?": "std::optional<ScalarType>",
    "device?": "std::optional<Device>", "memory_format": "MemoryFormat", "memory_format?": "std::optional<MemoryFormat>",
    "Generator?": "std::optional<Generator>",
}  # fmt: skip
PLAIN = ("int", "int?", "float", "float?", "bool", "bool?", "str", "str?")  # the same type on both sides
RETURNS = {"Tensor": "Tensor", "Tensor[]": "std::vector<Tensor>", "bool": "bool", "int": "int64_t", "float": "double", "Scalar": "Scalar"}
# written by hand, since libtorch's arguments are others, or parts of other ops
BY_HAND = {
    "index", "index_put", "norm", "to_dtype", "where_nonzero", "set_", "equal", "fill_Tensor", "copy", "alias_view", "slice", "negative_slice",
    "rsub", "cross_entropy_loss",
}  # fmt: skip
LINALG = ("linalg_norm", "linalg_matrix_norm", "linalg_cond")  # `ord` is a number or a word there
NAMESPACES = ("linalg", "fft", "special")
# arguments whose default libtorch has not, where it would make two overloads fit a call
REQUIRED = {("clamp", "min"), ("clip", "min"), ("var", "unbiased"), ("std", "unbiased"), ("var_mean", "unbiased"), ("std_mean", "unbiased"),
            ("var_dim", "unbiased"), ("std_dim", "unbiased"), ("var_mean_dim", "unbiased"), ("std_mean_dim", "unbiased")}  # fmt: skip


class Function(NamedTuple):
    """Describe a C++ function: `kind name(params)`, with defaults and without, and its body."""

    kind: str
    name: str
    params: str
    plain: str
    body: str
    const: str = ""  # behind the parameters of a method

    def declaration(self) -> str:
        return f"{self.kind} {self.name}({self.params}){self.const};\n"

    def definition(self, scope: str = "") -> str:
        return f"{self.kind} {scope}{self.name}({self.plain}){self.const} {{\n  {self.body}\n}}\n"


def emit(ops: list[Op], out: Path, write) -> None:
    used = [op for op in ops if _is_public(op)]
    methods, functions = [], []
    spaces: dict[str, list[Function]] = {name: [] for name in NAMESPACES}
    taken = {op.name for op in ops}
    for op in used:
        aliases = [name for name in op.names if "." not in name and name not in taken and not name.startswith("_")]
        for args in _overloads(op):
            functions += _with_aliases(_functions(op, args), op, aliases)
            for space, name in _in_namespaces(op):
                spaces[space] += _function(op, args, name)
                if space == "special" and "out" in op.variants:
                    spaces[space].append(_out_function(op, args)._replace(name=name + "_out"))
            methods += _with_aliases(_methods(op, args), op, aliases)
    write(out / "methods.h", HEADER + "// Inside class Tensor.\n" + _declared(methods))
    text = [HEADER, "#pragma once\n\n#include <torch/detail/convert.h>\n\nnamespace torch {\n\n", _declared(functions)]
    bodies = [HEADER, _defined(functions)]
    for space, inside in spaces.items():
        text += [f"\nnamespace {space} {{\n", _declared(inside), f"}}  // namespace {space}\n"]
        bodies += [f"\nnamespace {space} {{\n", _defined(inside), f"}}  // namespace {space}\n"]
    write(out / "ops.h", "".join([*text, "\n}  // namespace torch\n"]))
    write(out / "functions.inc", "".join(bodies))
    write(out / "methods.inc", HEADER + _defined(methods, "Tensor::"))


def _declared(functions: list[Function]) -> str:
    return "".join(dict.fromkeys(f.declaration() for f in functions))


def _defined(functions: list[Function], scope: str = "") -> str:
    return "".join({f.declaration(): f.definition(scope) for f in functions}.values())


def _is_public(op: Op) -> bool:
    if op.name.startswith(("_", "functional_")) or op.id in BY_HAND or op.name in BY_HAND or op.name in LINALG:
        return False
    return all(a.type in TYPES or a.type == "Operand" for a in cpp_args(op))


def _with_aliases(found: list[Function], op: Op, aliases: list[str]) -> list[Function]:
    return found + [f._replace(name=alias + f.name[len(op.name):]) for f in found for alias in aliases]


def _in_namespaces(op: Op):
    for name in op.names:
        space, _, rest = name.rpartition(".")
        if space in NAMESPACES:
            yield space, rest
        elif op.name.startswith("linalg_"):
            yield "linalg", op.name[len("linalg_"):]


def _overloads(op: Op) -> list[list[Argument]]:
    """Return the overloads: an operand is a tensor or a number: a function for each, but for numbers only."""
    found = [[]]
    for a in cpp_args(op):
        kinds = ("Tensor", "Scalar") if a.type == "Operand" else (a.type,)
        found = [[*args, Argument(kind, a.name, a.default, a.keyword_only, a.list_size)] for args in found for kind in kinds]
    return [args for args in found if not any(a.type == "Operand" for a in op.args) or any(a.type == "Tensor" for a in args)]


def _is_factory(op: Op) -> bool:
    return op.kind in ("factory", "random") and any(a.name == "dtype" for a in op.args) and not mutates(op)


def _default(op: Op, arg: Argument) -> str | None:
    text = arg.default
    if text is None or (op.id, arg.name) in REQUIRED or (op.name, arg.name) in REQUIRED and arg.type == "Scalar?":
        return None
    if text == "None":
        return "std::nullopt" if arg.type.endswith("?") else None
    if text in ("True", "False"):
        return text.lower()
    if arg.type in ("int[]", "float[]", "int[]?"):
        inside = text.strip("[]()")
        return "{" + inside + "}" if text.startswith("[") else inside and "{" + ", ".join([inside] * max(arg.list_size, 1)) + "}" or "{}"
    if arg.type.startswith("str"):
        return '"' + text.strip("\"'") + '"'
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", "INFINITY").replace("nan", "NAN")
    if arg.type.startswith("memory_format"):
        return "MemoryFormat::" + "".join(w.capitalize() for w in text.replace("_format", "").split("_"))
    return text


def _params(op: Op, args: list[Argument], defaults: bool) -> str:
    last = max((i for i, a in enumerate(args) if _default(op, a) is None), default=-1)
    return ", ".join(f"{TYPES[a.type]} {a.name}" + (f" = {_default(op, a)}" if defaults and i > last else "") for i, a in enumerate(args))


def _given(args: list[Argument]) -> str:
    return ", ".join(a.name if a.type in PLAIN else f"detail::in({a.name})" for a in args)


def _return(op: Op) -> str:
    types = [RETURNS[r] for r in op.returns]
    return "void" if not types else types[0] if len(types) == 1 else f"std::tuple<{', '.join(types)}>"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _functions(op: Op, args: list[Argument]) -> list[Function]:
    if mutates(op):
        return [_write_function(op, op.name, args)] if "function" in op.variants and args[0].type == "Tensor" else []
    if op.name.startswith("new_"):
        return []
    found = _function(op, args, op.name) if "function" in op.variants else []
    if "inplace" in op.variants and args[0].type == "Tensor" and "function" in op.variants:
        found.append(_write_function(op, op.name + "_", args))
    if "out" in op.variants and not _is_factory(op) and op.returns and all(r == "Tensor" for r in op.returns):
        found.append(_out_function(op, args))
    return found


def _write_function(op: Op, name: str, args: list[Argument]) -> Function:
    given = _given([Argument("Tensor", "self", None, False), *args[1:]])
    params, plain = (_joined("Tensor& self", _params(op, args[1:], defaults)) for defaults in (True, False))
    return Function("Tensor&", name, params, plain, f"facula::{name}({given});\n  return self;")


def _function(op: Op, args: list[Argument], name: str) -> list[Function]:
    if _is_factory(op):
        return _factory(op, args, name)
    body = f"return detail::out(facula::{op.name}({_given(args)}));"
    return [Function(_return(op), name, _params(op, args, True), _params(op, args, False), body)]


def _out_function(op: Op, args: list[Argument]) -> Function:
    names = out_names(op)
    outs = ", ".join(f"Tensor& {n}" for n in names)
    value = names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
    kind = "Tensor&" if len(names) == 1 else f"std::tuple<{', '.join(['Tensor&'] * len(names))}>"
    given = ", ".join([f"detail::in({n})" for n in names] + ([_given(args)] if args else []))
    params, plain = (_joined(outs, _params(op, args, defaults)) for defaults in (True, False))
    return Function(kind, f"{op.name}_out", params, plain, f"facula::{op.name}_out({given});\n  return {value};")


def _own(args: list[Argument]) -> list[Argument]:
    """Return the arguments of a factory besides those that TensorOptions hold, a generator before what follows it."""
    return [a for a in args if a.name not in ("dtype", "device")]


def _factory(op: Op, args: list[Argument], name: str | None = None) -> list[Function]:
    own, found = _own(args), []
    wanted = "options.given_dtype(), options.given_device()"
    memory = [a for a in own if a.name == "memory_format"]
    generator = [a for a in own if a.type == "Generator?"]
    plain = [a for a in own if a not in memory and a not in generator]
    for with_generator in (False, True) if generator else (False,):
        given = plain + (generator if with_generator else [])
        required = [Argument(a.type, a.name, None if with_generator else a.default, a.keyword_only, a.list_size) for a in given]
        calls = {a.name: _given([a]) for a in given}
        values = [calls.get(a.name, "nullptr" if a.type == "Generator?" else "detail::in(options.pick(memory_format))") for a in own]
        format_text = "std::optional<MemoryFormat> memory_format" if memory else ""
        params = _joined(_params(op, required, True), "const TensorOptions& options = {}", format_text and format_text + " = std::nullopt")
        plain_text = _joined(_params(op, required, False), "const TensorOptions& options", format_text)
        body = f"return detail::made(facula::{op.name}({', '.join([*values, wanted])}), options);"
        found.append(Function("Tensor", name or op.name, params, plain_text, body))
    return found


def _methods(op: Op, args: list[Argument]) -> list[Function]:
    if not args or args[0].type != "Tensor":
        return []
    rest, me = args[1:], "detail::in(*this)"
    given = ", ".join([me, *([_given(rest)] if rest else [])])
    if op.name.startswith("new_") and _is_factory(op):
        own = _own(rest)
        params = _joined(_params(op, own, True), "const TensorOptions& options = {}")
        plain = _joined(_params(op, own, False), "const TensorOptions& options")
        values = ", ".join([me, _given(own), "options.given_dtype()", "options.given_device()"])
        return [Function("Tensor", op.name, params, plain, f"return detail::made(facula::{op.name}({values}), options);", " const")]
    if mutates(op):
        return [_in_place(op, op.name, rest, given)]
    found = []
    if "method" in op.variants:
        body = f"return detail::out(facula::{op.name}({given}));"
        found.append(Function(_return(op), op.name, _params(op, rest, True), _params(op, rest, False), body, " const"))
    if "inplace" in op.variants:
        found.append(_in_place(op, op.name + "_", rest, given))
    return found


def _in_place(op: Op, name: str, rest: list[Argument], given: str) -> Function:
    body = f"facula::{name}({given});\n  return const_cast<Tensor&>(*this);"
    return Function("Tensor&", name, _params(op, rest, True), _params(op, rest, False), body, " const")
