"""Calls that work, as texts: from the schema's samples, from the tests, and from the tables of call_texts.py and package_calls.py.

They are the seeds of both fuzzers. A `Seed` is the text and its holes: where an argument stands, and of what type it is.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))

import op_samples  # noqa: E402

import facula  # noqa: E402
from facula import nn, optim  # noqa: E402


@dataclass(frozen=True)
class Hole:
    start: int
    end: int
    type: str  # a type of the schema, without "?"
    compound: bool = False  # whether a postfix needs parentheses around it


@dataclass(frozen=True)
class Seed:
    text: str
    holes: tuple[Hole, ...]
    insert: int  # where a keyword argument can be added
    keywords: tuple[tuple[str, str], ...] = ()  # (name, type) of arguments that are not given
    op: object = None  # the schema's entry

    @property
    def name(self) -> str:
        return self.text.split("(")[0]


# What keeps the process from being the next case's, or has no end by nature.
EXCLUDED = {
    "save", "load", "from_file", "compile", "while_loop", "cond", "set_num_threads", "set_num_interop_threads", "share_memory_",
    "set_default_dtype", "set_default_device", "set_default_tensor_type", "set_printoptions", "set_warn_always", "seed",
    "use_deterministic_algorithms", "set_deterministic_debug_mode", "set_flush_denormal", "set_rng_state", "exit", "ipc_collect",
    "set_autocast_enabled", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_cpu_dtype", "set_autocast_gpu_dtype",
    "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting", "set_autocast_ipu_dtype",
    "set_autocast_ipu_enabled", "set_autocast_xla_dtype", "set_autocast_xla_enabled", "set_float32_matmul_precision",
    "_change_override_disabled", "_install_methods", "load_library", "main", "spawn", "init_process_group",
}  # fmt: skip


def excluded(text: str) -> bool:
    return any(word in EXCLUDED for word in _words(text))


def _words(text: str):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


# --- texts to seeds -------------------------------------------------------------------------------------------------

MAKERS = {"x", "k", "ones", "zeros", "tensor", "arange", "rand", "randn", "linspace", "full", "eye", "empty", "dtype", "device"}


def seed_of(text: str, types: dict | None = None, keywords=(), op=None) -> Seed | None:
    """The seed of a call; `types` gives the schema's types of the outermost call's arguments, by position or name."""
    tree = ast.parse(text, mode="eval").body
    ascii_only = text.isascii()
    if not ascii_only:
        return None
    holes, seen = [], set()

    def visit(node, outermost):
        for child in [getattr(node, "func", None), getattr(node, "value", None), getattr(node, "left", None)]:
            if isinstance(child, (ast.Call, ast.Attribute, ast.Subscript)):
                if isinstance(child, ast.Call) and not isinstance(node, ast.Call):
                    add(child, None)
                visit(child, isinstance(node, ast.Call) and outermost)
        if not isinstance(node, ast.Call):
            if isinstance(node, ast.BinOp):
                add(node.left, None), add(node.right, None)
            if isinstance(node, ast.Subscript):
                add(node.slice, "index")
            return
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in MAKERS and not outermost:
            return
        for place, arg in enumerate(node.args):
            add(arg, (types or {}).get(place) if node is tree else None)
            if called != "step" and isinstance(arg, ast.Call):
                visit(arg, False)
        for keyword in node.keywords:
            add(keyword.value, (types or {}).get(keyword.arg) if node is tree else None)

    def add(node, kind):
        span = (node.col_offset, node.end_col_offset)
        if span in seen or isinstance(node, (ast.Starred, ast.Slice)):
            return
        seen.add(span)
        holes.append(Hole(*span, kind or kind_of(node), isinstance(node, (ast.BinOp, ast.UnaryOp))))

    visit(tree, True)
    insert = len(text) - 1 if isinstance(tree, ast.Call) else -1
    return Seed(text, tuple(holes), insert, tuple(keywords), op)


def kind_of(node) -> str:
    """The type that an argument's text shows."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Constant):
        names = {bool: "bool", int: "int", float: "float", complex: "Scalar", str: "str", type(None): "any"}
        return names.get(type(node.value), "any")
    if isinstance(node, (ast.Tuple, ast.List)):
        inner = {kind_of(item) for item in node.elts}
        return {"int": "int[]", "float": "float[]", "Tensor": "Tensor[]"}.get(inner.pop() if len(inner) == 1 else "", "int[]")
    if isinstance(node, ast.Attribute):
        return "dtype"
    return "Tensor" if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript)) else "any"


def public_names(op) -> list[str]:
    """The op's names, as texts that reach its binding."""
    modules = {"": "facula._C.", "nn.functional": "facula._C.nn_functional."}
    if not op.names:
        return [f"facula._C._ops.{op.name}"]
    return [modules.get(module, f"facula._C.{module}.") + last for module, _, last in (n.rpartition(".") for n in op.names)]


def _plain(kind: str) -> str:
    return kind.rstrip("?")


def schema_seeds() -> list[Seed]:
    """The samples of every op of ops/*.yaml, as function, method and in-place form."""
    found = []
    for op in op_samples.all_ops():
        if excluded(op.name) or (op.samples is None and not op.elementwise):
            continue
        for entry in op_samples._argument_maps(op, op_samples.ELEMENTWISE_SHAPES[:1]):
            found += [s for s in _forms_of(op, entry) if s is not None]
    return found


def _forms_of(op, entry):
    dtype = None if "Float32" in op.dtypes else "int64" if "Int64" in op.dtypes else "complex64"
    given = {a.name: _sample_text(a, entry[a.name], dtype) for a in op.args if a.name in entry}
    keyword, parts, types = False, [], {}
    for arg in op.args:
        if arg.name not in entry:
            if arg.default is None and arg.type.endswith("?") and not keyword:
                parts.append("None")
                types[len(parts) - 1] = _plain(arg.type)
            else:
                keyword = True
            continue
        text = given[arg.name]
        public = "input" if arg.name == "self" else arg.name
        if keyword or arg.keyword_only:
            keyword = True
            parts.append(f"{public}={text}")
            types[public] = _plain(arg.type)
        else:
            parts.append(text)
            types[len(parts) - 1] = _plain(arg.type)
    missing = [("input" if a.name == "self" else a.name, _plain(a.type)) for a in op.args if a.name not in entry and not iskeyword(a.name)]
    if "out" in op.variants:
        missing.append(("out", "out" if op.tensor_returns == 1 else "out[]"))
    inner = ", ".join(parts)
    if not op.names or "function" in op.variants:
        yield seed_of(f"{public_names(op)[0]}({inner})", types, missing, op)
    first = next((a for a in op.args if a.name in entry), None)
    if first is not None and first.type == "Tensor" and parts and "=" not in parts[0].split("(")[0]:
        # with the tensor in front, the types of the others move up by one
        moved = {p - 1 if isinstance(p, int) else p: t for p, t in types.items() if p != 0}
        name = next((n for n in op.names if "." not in n), op.name)
        if "method" in op.variants and "." not in name:
            yield seed_of(f"{parts[0]}.{name}({', '.join(parts[1:])})", moved, missing[:-1], op)
        if "inplace" in op.variants and hasattr(facula.Tensor, name + "_"):
            yield seed_of(f"{parts[0]}.{name}_({', '.join(parts[1:])})", moved, (), op)


def _sample_text(arg, given, dtype) -> str:
    if given is None or given == "None":
        return "None"
    if _plain(arg.type) in ("Tensor", "Operand"):
        if isinstance(given, (int, float, complex)) and not isinstance(given, bool):
            return repr(given)
        return _tensor_text(given, dtype)
    if arg.type == "Tensor[]":
        return "[" + ", ".join(_tensor_text(item, dtype) for item in given) + "]"
    if arg.type.startswith("dtype"):
        return f"facula.{given}"
    return repr(given.strip("'\"") if isinstance(given, str) else given)


def _tensor_text(given, dtype=None) -> str:
    entry = given if isinstance(given, dict) else {"shape": given}
    dtype = entry.get("dtype", dtype)
    if "values" in entry:
        return f"facula.tensor({entry['values']!r}, dtype=facula.{dtype or 'float32'})"
    low, high = entry.get("range", op_samples.DEFAULT_RANGE)
    shape = ", ".join(map(str, entry["shape"]))
    options = "" if (low, high) == op_samples.DEFAULT_RANGE else f"low={low!r}, high={high!r}"
    if dtype is not None:
        options += f"{', ' if options else ''}dtype=facula.{dtype}"
    return f"x({shape}{', ' if shape and options else ''}{options})"


def table_seeds(*tables: str) -> list[Seed]:
    return [seed_of(line) for table in tables for line in table.strip().splitlines()]


HARVESTED_NAMES = {"facula", "torch", "F", "nn", "optim", "np", "math", "inf", "nan", "float", "int", "complex", "bool", "range", "slice",
                   "list", "tuple", "dict", "len"}  # fmt: skip


def harvested_seeds() -> list[Seed]:
    """Calls in the tests that name nothing but the library."""
    found = {}
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            inside = list(ast.walk(node))
            names = {n.id for n in inside if isinstance(n, ast.Name)}
            if not names <= HARVESTED_NAMES or not names & {"facula", "torch", "F", "nn", "optim"}:
                continue
            if any(isinstance(n, (ast.Lambda, ast.NamedExpr, ast.comprehension)) for n in inside):
                continue
            text = ast.unparse(node)
            if text.startswith(("np.", "math.")) or "detach().numpy()." in text or "np.random." in text:  # others' functions
                continue
            if len(text) < 300 and "\n" not in text and not excluded(text):
                found[text] = None
    return [seed for text in found if (seed := seed_of(text)) is not None]


@functools.cache
def signatures() -> list[tuple[str, list[tuple[str, str, bool]], bool]]:
    """Everything public that can be called: (text, [(name, type, keyword only)], whether a tensor comes first)."""
    found = []
    for op in op_samples.all_ops():
        if excluded(op.name):
            continue
        args = [("input" if a.name == "self" else a.name, _plain(a.type), a.keyword_only) for a in op.args if not iskeyword(a.name)]
        out = [("out", "out" if op.tensor_returns == 1 else "out[]", True)] if "out" in op.variants else []
        if not op.names or "function" in op.variants:
            found += [(name, args + out, False) for name in public_names(op)]
        if "method" in op.variants and args and args[0][1] in ("Tensor", "Operand"):
            name = next((n for n in op.names if "." not in n), op.name)
            found.append((name, args[1:], True))
            if "inplace" in op.variants:
                found.append((name + "_", args[1:], True))
    known = {text.rpartition(".")[2] for text, _, _ in found}
    homes = [("facula", facula), ("facula.linalg", facula.linalg), ("facula.fft", facula.fft), ("facula.special", facula.special),
             ("F", nn.functional), ("nn", nn), ("nn.init", nn.init), ("nn.utils", nn.utils), ("optim", optim)]  # fmt: skip
    for home, module in homes:
        for name in sorted(vars(module)):
            if name.startswith("_") or excluded(name) or (name in known and home != "F"):
                continue
            value = getattr(module, name)
            if callable(value) and not inspect.ismodule(value) and not (home == "F" and isinstance(value, type)):
                found.append((f"{home}.{name}", _inspected(value), False))
    for name in sorted(dir(facula.Tensor)):
        value = getattr(facula.Tensor, name, None)
        if name in known or excluded(name) or not callable(value) or name in ("__class__", "__init_subclass__", "__subclasshook__", "__new__"):
            continue
        if not name.startswith("_") or name.startswith("__"):
            found.append((name, _inspected(value)[1:] if inspect.isfunction(value) else [], True))
    return found


NAMED_TYPES = {
    **dict.fromkeys(("input", "target", "weight", "bias", "x1", "x2", "grid", "theta", "indices", "index", "query", "key", "value"), "Tensor"),
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation", "output_size", "size", "normalized_shape", "shape"), "int[]"),
    **dict.fromkeys(("dim", "groups", "n", "num_classes", "in_features", "out_features", "in_channels", "out_channels"), "int"),
    **dict.fromkeys(("params", "parameters", "tensors", "sequences"), "Tensor[]"),
    **dict.fromkeys(("reduction", "mode", "padding_mode"), "str"), "dtype": "dtype", "device": "device", "generator": "Generator",
    "out": "out",
}  # fmt: skip
DEFAULT_TYPES = {bool: "bool", int: "int", float: "float", str: "str", tuple: "int[]", list: "int[]"}


def _inspected(value) -> list[tuple[str, str, bool]]:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    found = []
    for p in parameters:
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) or p.name in ("size_average", "reduce"):
            continue
        annotation = str(p.annotation)
        kind = NAMED_TYPES.get(p.name) or next((t for t in ("int", "float", "bool", "str") if annotation.startswith(t)), None)
        kind = kind or DEFAULT_TYPES.get(type(p.default), "Tensor" if p.default is p.empty else "any")
        found.append((p.name, kind, p.kind == p.KEYWORD_ONLY))
    return found
