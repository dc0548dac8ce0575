"""Emit facula/_C/*.pyi: types of the generated functions and of Tensor, for editors and type checkers.

`__init__.pyi` is the core, and each of its modules (`MODULES`) has a file with its functions. `facula/__init__.pyi` is
the package, some of whose names are looked up when they are first used (`facula/_shared/names.py`).
"""

from __future__ import annotations

import ast
import keyword
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

from .emit_autograd import mutates, out_names
from .emit_docs import python_default, python_name
from .op import Argument, Op
from .schema import group_by_name
from .stub_texts import HEAD, MADE, MODULE_HEAD, PACKAGE_HEAD, TENSOR

TYPES = {
    "Tensor": "Tensor", "Tensor?": "Tensor | None", "Tensor[]": "Sequence[Tensor]", "Operand": "Tensor | _Number",
    "Scalar": "_Number", "Scalar?": "_Number | None", "int": "int", "int?": "int | None", "float": "float",
    "float?": "float | None", "bool": "bool", "bool?": "bool | None", "int[]": "Sequence[int]",
    "int[]?": "Sequence[int] | None", "float[]": "Sequence[float]", "float[]?": "Sequence[float] | None", "str": "str",
    "str?": "str | None", "dtype": "dtype", "dtype?": "dtype | None", "device?": "device | str | int | None",
    "layout?": "layout | None", "memory_format": "memory_format", "memory_format?": "memory_format | None",
    "Generator?": "Generator | None",
}  # fmt: skip
RETURNS = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "bool": "bool", "int": "int", "float": "float",
           "Scalar": "_Number"}  # fmt: skip
# What may be given item by item: int[], and Tensor[1].
SPREAD = {("int[]", 0): "int", ("Tensor[]", 1): "Tensor"}

NAMES = Path(__file__).resolve().parent.parent / "facula" / "_shared" / "names.py"
# Modules of the core, and how names in ops/*.yaml begin that stand there.
MODULES = {"fft": ("fft.",), "linalg": ("linalg.",), "nn_functional": ("nn.functional.", "nn_functional."),
           "sparse": ("sparse.",), "special": ("special.",)}  # fmt: skip
HIDDEN = "int|float|bool|device|dtype|layout|memory_format"
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
# ops that another function of the package hides
HIDDEN_OPS = {"nonzero"}
COMPARISONS = ("lt", "le", "gt", "ge")
HAND_WRITTEN = set(re.findall(r"^    (?:def )?(\w+)[(:]", TENSOR, re.M))


def emit(ops: list[Op], out: Path, write) -> None:
    groups = group_by_name(ops)
    lines = [TENSOR.rstrip("\n")]
    lines += [f"    def __{n}__(self, other: Tensor | _Number, /) -> Tensor: ..." for n in BINARY + COMPARISONS]
    lines += [f"    def __r{n}__(self, other: Tensor | _Number, /) -> Tensor: ..." for n in BINARY]
    lines += [f"    def __i{n}__(self, other: Tensor | _Number, /) -> Tensor: ..." for n in BINARY]
    lines += _methods(groups)
    lines = [HEAD, *_result_classes(ops), *(_hide_method_names(line) for line in "\n".join(lines).split("\n")), ""]
    lines += _functions(groups, lambda name: "" if "." in name else name)
    write(out / "_C" / "__init__.pyi", "\n".join(lines) + "\n")
    write(out / "__init__.pyi", _package(runpy.run_path(str(NAMES))))
    for module, prefixes in MODULES.items():
        text = "\n".join(_functions(groups, lambda name, prefixes=prefixes: _inside(name, prefixes)))
        used = [op for op in ops if op.fields and re.search(rf"\b{_result_class(op)}\b", text)]
        lines = [MODULE_HEAD.format(module=module), *_result_classes(used), text, ""]
        write(out / "_C" / f"{module}.pyi", "\n".join(lines))


def _package(names: dict) -> str:
    """Return facula/__init__.pyi: the core's names, and where each other name stands."""
    lines = [PACKAGE_HEAD]
    lines += [f"from . import {name} as {name}" for name in sorted(names["LAZY_MODULES"]) if not name.startswith("_")]
    lines += [_stated(name, module) for name, module in names["LAZY_NAMES"].items()]
    lines += [_stated(name, module) for name, module in _kept_elsewhere()]
    lines += [f"{alias}: dtype" for alias in ("bool", *names["DTYPE_ALIASES"])]
    kinds = {n: "None" if value is None else f"builtins.{type(value).__name__}" for n, value in names["CONSTANTS"].items()}
    lines += [f"{name}: {kind}" for name, kind in kinds.items()]
    return "\n".join(lines) + "\n"


def _stated(name: str, module: str) -> str:
    """Return where a public name of the package stands, or the words of MADE."""
    made = next((text for pattern, text in MADE.items() if re.fullmatch(pattern, name)), "")
    return made.format(name=name) or f"from .{module} import {name} as {name}"


def _kept_elsewhere() -> Iterator[tuple[str, str]]:
    """Yield public names of the package that `facula.compat.names` finds in some module, and which."""
    for full_name, place in runpy.run_path(str(NAMES.parents[1] / "compat" / "names.py"))["ELSEWHERE"].items():
        name, (module, _, there) = full_name.removeprefix("torch."), place.removeprefix("facula.").rpartition(".")
        if name == there and module and not name.startswith("_"):
            yield name, module


def _inside(name: str, prefixes: tuple[str, ...]) -> str:
    """Return the last part of a name that stands in a module; "" for any other name."""
    return next((name[len(p):] for p in prefixes if name.startswith(p)), "")


def _hide_method_names(line: str) -> str:
    """Hide the names of methods: inside class Tensor `int`, `dtype`, ... name methods and properties: annotations use the
    aliases of HEAD."""
    before, colon, annotations = line.partition("(") if line.lstrip().startswith("def ") else line.partition(":")
    words = re.sub(rf"(?<![\w.])({HIDDEN})(?=[\]\s,|)=]|$)(?!\s*:)", r"_\1", annotations)
    return before + colon + re.sub(rf"-> ({HIDDEN})(?=:)", r"-> _\1", words)


def _methods(groups: dict[str, list[Op]]) -> list[str]:
    lines = []
    for name, members in groups.items():
        for suffix, variant in (("", "method"), ("_", "inplace")):
            chosen = [op for op in members if variant in op.variants and (suffix == "" or "method" in op.variants)]
            names = dict.fromkeys(n for op in chosen for n in op.names if "." not in n) or ([name] if chosen else [])
            for public in names:
                if public + suffix not in HAND_WRITTEN:
                    lines += _overloads(public + suffix, chosen, method=True, inplace=bool(suffix))
    return lines


def _functions(groups: dict[str, list[Op]], inside: Callable[[str], str]) -> list[str]:
    """Return the functions whose names `inside` gives the last part of."""
    lines = []
    for members in groups.values():
        functions = [op for op in members if "function" in op.variants]
        for suffix, chosen in (("", functions), ("_", [op for op in functions if "inplace" in op.variants])):
            for public in dict.fromkeys(inside(n) for op in chosen for n in op.names if inside(n) and n not in HIDDEN_OPS):
                lines += _overloads(public + suffix, chosen, method=False, inplace=bool(suffix))
    return lines


def _result_class(op: Op) -> str:
    return "_" + "_".join(op.fields)


def _result_classes(ops: list[Op]) -> list[str]:
    """Return one class for each set of names that results have."""
    lines = []
    for name, op in {_result_class(op): op for op in ops if op.fields}.items():
        lines += [f"class {name}(NamedTuple):", *(f"    {field}: {RETURNS[kind]}" for field, kind in zip(op.fields, op.returns)), ""]
    return lines


def _overloads(public: str, members: list[Op], method: bool, inplace: bool) -> list[str]:
    indent = "    " if method else ""
    texts = list(dict.fromkeys(text for op in members for text in _signatures(op, method, inplace)))
    lines = []
    for text in texts:
        if len(texts) > 1:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {public}{text}: ...")
    return lines


def _signatures(op: Op, method: bool, inplace: bool) -> list[str]:
    """Return the signature, and a second one where the items of its only positional argument may be spread: view(2, 3)."""
    args = [a for i, a in enumerate(op.args) if not (method and _is_self(op, i))]
    positional = [a for a in args if not a.keyword_only]
    signatures = [_signature(op, args, method, inplace)]
    if len(positional) == 1 and (positional[0].type, positional[0].list_size) in SPREAD:
        signatures.append(_signature(op, args, method, inplace, SPREAD[positional[0].type, positional[0].list_size]))
    return signatures


def _is_self(op: Op, i: int) -> bool:
    return op.args[i].name == "self" or (i == 0 and op.args[i].is_tensor and all(a.name != "self" for a in op.args))


def _signature(op: Op, args: list[Argument], method: bool, inplace: bool, spread: str = "") -> str:
    parts, star = (["self"] if method else []), False
    optional = False
    for arg in args:
        if spread and not star:
            parts.append(f"*{python_name(arg)}: {spread}")
            star = True
            continue
        if arg.keyword_only and not star:
            parts.append("*")
            star = True
        optional |= arg.default is not None
        parts.append(_argument(arg, optional and not arg.keyword_only))
    if "out" in op.variants and not (method or inplace or mutates(op)):
        parts += ([] if star else ["*"]) + ["out: Tensor | None = None" if len(out_names(op)) == 1 else "out: Sequence[Tensor] | None = None"]
    return f"({', '.join(parts)}) -> {_returned(op, inplace)}"


def _argument(arg: Argument, needs_default: bool) -> str:
    name = python_name(arg)
    if keyword.iskeyword(name):
        name += "_"
    kind = TYPES[arg.type]
    if arg.list_size and arg.type.startswith("int[]"):
        kind = f"int | {kind}"
    if arg.none_is_default:
        kind += " | None"
    return f"{name}: {kind}" + (f" = {_literal(python_default(arg))}" if arg.default is not None or needs_default else "")


def _literal(default: str | None) -> str:
    """Return the default, where it is a literal of Python; `...` for others and where another argument before it has one."""
    try:
        ast.literal_eval(default or "...")
    except (SyntaxError, ValueError):
        return "..."
    return default or "..."


def _returned(op: Op, inplace: bool) -> str:
    if inplace or mutates(op):
        return "Tensor"
    if op.fields:
        return _result_class(op)
    kinds = [RETURNS[r] for r in op.returns]
    if not kinds:
        return "None"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"
