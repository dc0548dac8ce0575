"""PyTorch's archive of an exported program (".pt2"), written and read.

A zip: `models/<name>.json` is the graph with its signature, `data/weights` and `data/constants` hold tensors as raw bytes,
each with a table of what they are, `data/sample_inputs/<name>.pt` the examples. Written is the lowest form that PyTorch 2.13
reads (schema 8); read is any 8.x, with unknown fields ignored. A file is data: examples go through the restricted reader of
`facula.load`, nothing else is unpickled or run, and sizes, depth and counts are limited.
"""

from __future__ import annotations

import ast
import io
import json
import os
import zipfile

import facula
from facula import _C
from facula.export._graph import _is_default
from facula.export.exported_program import ExportedProgram
from facula.utils import _pytree

SCHEMA = 8
MOST_NODES = 1_000_000
MOST_JSON = 1 << 30  # bytes
DEEPEST = 200  # of JSON

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32",
    10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2",
    31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 34: "uint32", 35: "uint64",
}  # fmt: skip
_DTYPE_NUMBERS = {getattr(facula, name): number for number, name in _DTYPES.items()}
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
_FORMAT_TEXTS = {1: "contiguous", 2: "channels_last", 3: "channels_last_3d", 4: "preserve"}
_FORMAT_NUMBERS = {getattr(facula, name): number for number, name in _FORMATS.items()}
_STRIDED = 7
#: arguments that PyTorch's operators call otherwise
_RENAMED = {
    "linear": {"self": "input"}, "linalg_householder_product": {"self": "input"}, "linalg_matrix_rank": {"self": "input"},
    "_einsum": {"operands": "tensors"},
    "ormqr": {"tau": "input2", "other": "input3"}, "linalg_eigh": {"A": "self"}, "linalg_eigvalsh": {"A": "self"},
}  # fmt: skip
_SYMBOLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}


class ArchiveError(RuntimeError):
    """A file that is no exported program, or one that cannot be read here."""


# ---- expressions, in the text of SymPy's srepr


def to_srepr(text):
    """The expression as `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`."""
    return _srepr(ast.parse(text, mode="eval").body)


def _srepr(tree):
    if isinstance(tree, ast.Constant):
        return f"Integer({tree.value})"
    if isinstance(tree, ast.Name):
        return f"Symbol('{tree.id}', positive=True, integer=True)"
    if isinstance(tree, ast.UnaryOp):
        return f"Mul(Integer(-1), {_srepr(tree.operand)})"
    if isinstance(tree, ast.Call):
        return f"{tree.func.id.capitalize()}({', '.join(map(_srepr, tree.args))})"
    name = {ast.Add: "Add", ast.Mult: "Mul", ast.FloorDiv: "FloorDiv", ast.Mod: "Mod"}.get(type(tree.op))
    if name is None:
        return f"Add({_srepr(tree.left)}, Mul(Integer(-1), {_srepr(tree.right)}))"
    return f"{name}({_srepr(tree.left)}, {_srepr(tree.right)})"


def from_srepr(text):
    """The text of an expression; None for one with functions that sizes of programs do not have."""
    if len(text) > 100_000:
        return None
    try:
        return _C._simplify(_from_srepr(ast.parse(text, mode="eval").body, 0))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _from_srepr(tree, depth):
    if depth > DEEPEST:
        raise ValueError("too deep")
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return f"-({_from_srepr(tree.operand, depth + 1)})"
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return str(tree.value)
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.args):
        raise ValueError("no expression")
    name, args = tree.func.id, tree.args
    if name == "Symbol":
        symbol = args[0].value if isinstance(args[0], ast.Constant) else None
        if not (isinstance(symbol, str) and symbol.isidentifier() and symbol.isascii()):
            raise ValueError("no symbol")
        return symbol
    parts = [f"({_from_srepr(a, depth + 1)})" for a in args]
    if name == "Integer":
        return parts[0]
    if name in ("Add", "Mul"):
        return (" + " if name == "Add" else "*").join(parts)
    if name in ("FloorDiv", "CleanDiv", "Mod", "PythonMod") and len(parts) == 2:
        return f"{parts[0]} {'%' if 'Mod' in name else '//'} {parts[1]}"
    if name == "Pow" and parts[1].strip("()").isdigit() and 0 < int(parts[1].strip("()")) < 16:
        return "*".join([parts[0]] * int(parts[1].strip("()")))
    if name in ("Max", "Min") and len(parts) == 2:
        return f"{name.lower()}({parts[0]}, {parts[1]})"
    raise ValueError("unknown function")


# ---- writing


class _Writer:
    def __init__(self, exported):
        self.exported, self.program = exported, exported.program
        self.values, self.nodes, self.sym_ints, self.numbers = self.program.values, [], {}, {}
        self.samples = {name: sample for name, _, _, sample in self.program.symbols}
        self.places = {}  # symbol -> (input, dimension)
        self.names = {v[0] for v in self.values}

    def model(self):
        inputs, specs = [], []
        for kind, number, path, persistent, _, constant in self.program.inputs:
            name, value_kind, meta = self.values[number]
            for d, size in enumerate(meta[1] if meta else ()):
                if isinstance(size, str) and size.isidentifier():
                    self.places.setdefault(size, (name, d))
            arg = {"as_tensor": {"name": name}}
            if value_kind != "Tensor":
                specs.append({"constant_input": {"name": name, "value": self.constant(constant)}})
                arg = self.constant(constant)
            elif kind == "user":
                specs.append({"user_input": {"arg": arg}})
            else:
                specs.append(self.state_spec(kind, name, path, persistent))
            inputs.append(arg)
        for node in self.program.nodes:
            self.node(*node)
        outputs = [self.argument(a, "Tensor") for a in self.program.outputs]
        graph = {
            "inputs": inputs, "outputs": outputs, "nodes": self.nodes,
            "tensor_values": {name: self.meta(meta) for name, kind, meta in self.values if meta is not None},
            "sym_int_values": self.sym_ints, "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {},
            "sym_float_values": {},
        }  # fmt: skip
        spec = self.exported.call_spec
        call = {
            "inputs": [], "outputs": [], "in_spec": _pytree.treespec_dumps(spec.in_spec),
            "out_spec": _pytree.treespec_dumps(spec.out_spec), "forward_arg_names": self.exported._names,
        }  # fmt: skip
        return {
            "graph_module": {
                "graph": graph,
                "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": a}} for a in outputs]},
                "module_call_graph": [{"fqn": "", "signature": call}], "metadata": {}, "treespec_namedtuple_fields": {},
            },
            "opset_version": {"aten": 10},
            "range_constraints": {n: {"min_val": least, "max_val": most} for n, least, most, _ in self.program.symbols},
            "schema_version": {"major": SCHEMA, "minor": 20}, "verifiers": ["TRAINING"], "torch_version": facula.__version__,
            "guards_code": [],
        }  # fmt: skip

    @staticmethod
    def state_spec(kind, name, path, persistent):
        if kind == "buffer":
            return {"buffer": {"arg": {"name": name}, "buffer_name": path, "persistent": persistent}}
        word = "parameter" if kind == "parameter" else "tensor_constant"
        return {word: {"arg": {"name": name}, f"{word}_name": path}}

    def size(self, size):
        if isinstance(size, int):
            return {"as_int": size}
        hint = {"as_int": _C._evaluate(size, self.samples)}
        return {"as_expr": {"expr_str": to_srepr(size), "hint": hint}}

    def meta(self, meta, offset=0):
        dtype, sizes, strides, device, requires_grad = meta
        if not strides:
            strides = [1]
            for size in reversed(sizes[1:]):
                step = strides[0]
                whole = isinstance(size, int) and isinstance(step, int)
                strides.insert(0, max(size, 1) * step if whole else _C._simplify(f"({size})*({step})"))
            strides = strides[: len(sizes)]
        return {
            "dtype": _DTYPE_NUMBERS[dtype], "sizes": [self.size(s) for s in sizes], "requires_grad": requires_grad,
            "device": {"type": device.type, "index": device.index}, "strides": [self.size(s) for s in strides],
            "storage_offset": {"as_int": offset}, "layout": _STRIDED,
        }  # fmt: skip

    def node(self, key, aten, arguments, results, module, source):
        info = _C._boxed_op(key)
        named = list(zip(info["arguments"], arguments))
        if key.startswith("int_"):
            target = f"_operator.{key[4:].split('.')[0]}"
        elif not aten:
            raise ArchiveError(f"save: PyTorch has no operator for {key} ({source})")
        else:
            target = f"torch.ops.aten.{aten}"
        if aten == "sub.Tensor" and arguments[0][0] != "value":  # 2 - x
            target, swapped = "torch.ops.aten.rsub.Scalar", [arguments[1], arguments[0], arguments[2]]
            named = list(zip(info["arguments"], swapped))
        last = max((i for i, (a, given) in enumerate(named) if not a[2] and not _is_default(a, given)), default=-1)
        inputs = []
        for i, (a, given) in enumerate(named):
            name, kind, keyword_only, required = a[:4]
            name = _RENAMED.get(info["name"], {}).get(name, name)
            if keyword_only and (required or not _is_default(a, given)) and given != ("constant", None):
                inputs.append({"name": name, "arg": self.argument(given, kind), "kind": 2})
            elif not keyword_only and (required or i <= last):
                arg = self.argument(given, kind, _optional_list(info["name"], name))
                inputs.append({"name": name, "arg": arg, "kind": 1})
        outputs = []
        for kind, made in zip(info["results"], results):
            names = [{"name": self.values[v][0]} for v in made]
            if kind == "int":
                outputs.append({"as_sym_int": {"as_name": names[0]["name"]}})
                self.sym_ints[names[0]["name"]] = {"as_int": 0}
            else:
                outputs.append({"as_tensors": names} if kind.endswith("[]") else {"as_tensor": names[0]})
        single = len(outputs) == 1 and "as_tensor" in outputs[0]
        file, _, line = source.rpartition(":")
        metadata = {"stack_trace": f'  File "{os.path.basename(file)}", line {line}, in forward\n'} if file else {}
        self.nodes.append({
            "target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata, "is_hop_single_tensor_return": None,
            "name": outputs[0]["as_tensor"]["name"] if single else self.fresh(info["name"]),
        })  # fmt: skip

    def argument(self, given, kind, optional=False):
        what, value = given
        if what == "value":
            name, value_kind, _ = self.values[value]
            return {"as_sym_int": {"as_name": name}} if value_kind == "int" else {"as_tensor": {"name": name}}
        if what == "expr":
            if isinstance(value, list):
                return {"as_sym_ints": [self.sym(v) for v in value]}
            return {"as_sym_int": self.sym(value)}
        if what == "list":
            if optional:
                none = {"as_none": True}
                return {"as_optional_tensors": [none if v == ("constant", None) else self.argument(v, kind) for v in value]}
            names = [v if v[0] == "constant" else self.values[v[1]][0] for v in value]
            if any(self.values[v[1]][1] == "int" for v in value if v[0] == "value"):
                return {"as_sym_ints": [{"as_int": n[1]} if isinstance(n, tuple) else {"as_name": n} for n in names]}
            return {"as_tensors": [{"name": n} for n in names]}
        return self.constant(value, kind)

    def constant(self, value, kind=""):
        if value is None:
            return {"as_none": True}
        for cls, key in ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string")):
            if type(value) is cls:
                return {key: _json_float(value) if cls is float else value}
        if isinstance(value, complex):
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, facula.dtype):
            return {"as_scalar_type": _DTYPE_NUMBERS[value]}
        if isinstance(value, facula.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, facula.memory_format):
            return {"as_memory_format": _FORMAT_NUMBERS[value]}
        if isinstance(value, facula.layout):
            return {"as_layout": _STRIDED}
        if isinstance(value, list):
            if kind.startswith("Tensor") and not value:
                return {"as_tensors": []}
            kinds = {type(v) for v in value}
            return {"as_bools" if bool in kinds else "as_floats" if float in kinds else "as_ints": value}
        raise ArchiveError(f"save: a {type(value).__name__} cannot be in a file")

    # sizes as values: of a symbol its dimension, of the rest Python's operators

    def sym(self, size):
        return {"as_int": size} if isinstance(size, int) else {"as_name": self.number(_C._simplify(size))}

    def number(self, text):
        if text not in self.numbers:
            self.numbers[text] = self.made_number(ast.parse(text, mode="eval").body, text)
        return self.numbers[text]

    def made_number(self, tree, text):
        def operand(part):
            if isinstance(part, ast.Constant):
                return {"as_int": part.value}
            return {"as_sym_int": {"as_name": self.number(ast.unparse(part))}}

        if isinstance(tree, ast.Name):
            source, d = self.places[tree.id]
            inputs = [{"as_tensor": {"name": source}}, {"as_int": d}]
            return self.number_node("torch.ops.aten.sym_size.int", "sym_size_int", ["self", "dim"], inputs, text)
        if isinstance(tree, ast.UnaryOp):
            return self.number_node("_operator.mul", "mul", ["a", "b"], [operand(tree.operand), {"as_int": -1}], text)
        if isinstance(tree, ast.Call):
            name = f"sym_{tree.func.id}"
            return self.number_node(f"torch.{name}", name, ["a", "b"], [operand(a) for a in tree.args], text)
        name = _SYMBOLS[type(tree.op)]
        return self.number_node(f"_operator.{name}", name, ["a", "b"], [operand(tree.left), operand(tree.right)], text)

    def fresh(self, base):
        """A name that nothing else has."""
        name, i = base, 0
        while name in self.names:
            i += 1
            name = f"{base}_{i}"
        self.names.add(name)
        return name

    def number_node(self, target, base, names, inputs, text):
        name = self.fresh(base)
        self.sym_ints[name] = self.size(text)
        self.nodes.append({
            "target": target, "inputs": [{"name": n, "arg": a, "kind": 1} for n, a in zip(names, inputs)],
            "outputs": [{"as_sym_int": {"as_name": name}}], "metadata": {}, "is_hop_single_tensor_return": None, "name": name,
        })  # fmt: skip
        return name


def _json_float(value):
    """JSON has no infinities; PyTorch writes their names."""
    if value != value:
        return "NaN"
    return value if value not in (float("inf"), float("-inf")) else "Infinity" if value > 0 else "-Infinity"


def _optional_list(op, argument):
    """Lists of tensors that may lack some, to PyTorch."""
    return argument == "indices" and op.strip("_").startswith("index")


def _tensor_bytes(tensor):
    whole = tensor.detach().cpu().contiguous()
    return bytes(whole.reshape(-1).view(facula.uint8).numpy()) if whole.numel() else b""


def save(exported, file):
    """Writes an ExportedProgram.

    Args:
        file: a path, or a writable binary file.
    """
    writer = _Writer(exported)
    model = writer.model()
    name = os.path.splitext(os.path.basename(file))[0] if isinstance(file, (str, os.PathLike)) else "archive"
    tables = {"weights": {}, "constants": {}}
    blobs = {}
    for kind, _, path, persistent, tensor, _ in exported.program.inputs:
        if kind == "user":
            continue
        is_state = kind == "parameter" or (kind == "buffer" and persistent)
        table = tables["weights" if is_state else "constants"]
        blob = f"{'weight' if is_state else 'tensor'}_{len(table)}"
        blobs[f"data/{'weights' if is_state else 'constants'}/{blob}"] = tensor
        meta = writer.meta((tensor.dtype, list(tensor.shape), [], tensor.device, tensor.requires_grad))
        table[path] = {"path_name": blob, "is_param": kind == "parameter", "use_pickle": False, "tensor_meta": meta}
    examples = io.BytesIO()
    facula.save(exported.example_inputs or ((), {}), examples)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path, tensor in blobs.items():
            archive.writestr(f"{name}/{path}", _tensor_bytes(tensor))
        for word, table in tables.items():
            archive.writestr(f"{name}/data/{word}/model_{word}_config.json", json.dumps({"config": table}))
        archive.writestr(f"{name}/models/model.json", json.dumps(model, allow_nan=False))
        archive.writestr(f"{name}/data/sample_inputs/model.pt", examples.getvalue())
        marks = {"archive_format": "pt2", "archive_version": "0", ".data/version": "6\n", "byteorder": "little"}
        for entry, text in marks.items():
            archive.writestr(f"{name}/{entry}", text)


# ---- reading

_IGNORED = {
    "_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size",
}  # fmt: skip
_NUMBER_OPS = {
    "add": "int_add", "sub": "int_sub", "mul": "int_mul", "floordiv": "int_floordiv", "mod": "int_mod", "neg": "int_neg",
    "truediv": "int_truediv", "eq": "int_eq", "ne": "int_ne", "lt": "int_lt", "le": "int_le", "gt": "int_gt", "ge": "int_ge",
    "sym_max": "int_max", "sym_min": "int_min", "sym_float": "int_float", "sym_not": "bool_not", "and_": "bool_and",
    "or_": "bool_or",
}  # fmt: skip


def _need(holds, text):
    if not holds:
        raise ArchiveError(f"load: {text}")


class _Reader:
    """Makes the text of a program from the JSON of a graph."""

    def __init__(self, model):
        version = model.get("schema_version", {}).get("major")
        _need(version == SCHEMA, f"a file of schema {SCHEMA} is expected, got {version}")
        self.module, self.ranges = model["graph_module"], model.get("range_constraints", {})
        self.graph = self.module["graph"]
        _need(len(self.graph["nodes"]) <= MOST_NODES, f"at most {MOST_NODES} nodes, got {len(self.graph['nodes'])}")
        self.lines, self.names, self.symbols, self.state = [], {}, {}, []

    def text(self):
        inputs = [self.input(spec) for spec in self.module["signature"]["input_specs"]]
        for node in self.graph["nodes"]:
            self.node(node)
        outputs = self.outputs()
        symbols = [self.symbol(name, sample) for name, sample in self.symbols.items()]
        return "\n".join([*symbols, *inputs, *self.lines, f"return {', '.join(outputs)}".rstrip()]) + "\n"

    def symbol(self, name, sample):
        limits = self.ranges.get(name) or {}
        least, most = limits.get("min_val") or 0, limits.get("max_val")
        for n in (least, most):
            _need(n is None or type(n) is int, f"the range of {name} has integers, got {n!r}")
        # PyTorch says 2 for sizes of which it has not looked at 0 and 1
        most = "inf" if most is None or most >= 2**62 else most
        return f"symbol {name} in [{0 if least == 2 else least}, {most}] sample {sample}"

    def name(self, name):
        """A value's name as the text form takes it."""
        _need(isinstance(name, str), f"a name is a str, got {name!r}")
        if name not in self.names:
            plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "_"
            taken = set(self.names.values())
            unique, i = plain, 0
            while unique in taken:
                i += 1
                unique = f"{plain}_{i}"
            self.names[name] = unique
        return "%" + self.names[name]

    # inputs

    def input(self, spec):
        (kind, value), = spec.items()  # fmt: skip
        if kind == "user_input":
            (arg_kind, arg), = value["arg"].items()  # fmt: skip
            if arg_kind == "as_tensor":
                return f"input user {json.dumps(arg['name'])} {self.name(arg['name'])}: {self.meta(arg['name'], bind=True)}"
            return self.constant_input(f"constant_{len(self.names)}", value["arg"])
        if kind == "constant_input":
            return self.constant_input(value["name"], value["value"])
        keys = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
        _need(kind in keys, f"inputs are tensors, parameters, buffers and constants, got {kind}")
        name, path = value["arg"]["name"], value[keys[kind]]
        persistent = kind != "buffer" or value.get("persistent", True)
        self.state.append((kind, path, persistent))
        word = "constant" if kind == "tensor_constant" else kind
        rest = "" if persistent else " not persistent"
        return f"input {word} {json.dumps(path)} {self.name(name)}: {self.meta(name)}{rest}"

    def constant_input(self, name, arg):
        text = self.argument(arg)
        kinds = {"as_int": "int", "as_float": "float", "as_bool": "bool", "as_string": "str", "as_none": "None"}
        (kind, _), = arg.items()  # fmt: skip
        _need(kind in kinds, f"a constant input is a number, a str or None, got {kind}")
        rest = "" if kind == "as_none" else f" is {text}"
        return f"input user {json.dumps(name)} {self.name(name)}: {kinds[kind]}{rest}"

    def meta(self, name, bind=False):
        meta = self.graph["tensor_values"].get(name)
        _need(isinstance(meta, dict), f"nothing is said of the tensor {name!r}")
        dtype = _DTYPES.get(meta["dtype"])
        _need(dtype is not None, f"tensors of dtype {meta['dtype']} are not known")
        sizes = ", ".join(self.size(s, bind) for s in meta["sizes"])
        return f"{dtype}[{sizes}]" + (" requires_grad" if meta.get("requires_grad") else "")

    def size(self, size, bind):
        if "as_int" in size:
            return str(int(size["as_int"]))
        expression = size["as_expr"]
        hint = (expression.get("hint") or {}).get("as_int")
        text = from_srepr(expression["expr_str"])
        if bind:
            _need(text is not None, f"the size {expression['expr_str'][:100]!r} of an input cannot be read")
            for word in _symbols_of(text):
                self.symbols.setdefault(word, hint if text == word and type(hint) is int else 1)
            return text
        known = text is not None and _symbols_of(text) <= set(self.symbols)
        return text if known else str(hint if type(hint) is int else 1)

    # nodes

    def node(self, node):
        target = node["target"]
        _need(isinstance(target, str), f"a target is a str, got {target!r}")
        if target.startswith("torch.ops.aten."):
            aten = target.removeprefix("torch.ops.aten.")
            if aten.split(".")[0] in _IGNORED:
                return
            key = _C._boxed_by_aten(aten)
        else:
            of_numbers = target.startswith(("_operator.", "torch.sym_"))
            name = _NUMBER_OPS.get(target.rpartition(".")[2]) if of_numbers else None
            key = f"{name}.default" if name else None
        _need(key is not None, f"the operator {target} is not known here")
        info = _C._boxed_op(key)
        given = self.given(info, node["inputs"], target)
        made = [self.made(output) for output in node["outputs"]]
        self.lines.append(f"{', '.join(made)} = {key}({', '.join(given)})" + _where(node.get("metadata") or {}))

    def given(self, info, inputs, target):
        arguments = info["arguments"]
        names = [a[0] for a in arguments]
        positions = [i for i, a in enumerate(arguments) if not a[2]]
        values = [None] * len(arguments)
        at = 0
        for entry in inputs:
            name, arg = entry["name"], entry["arg"]
            i = names.index(name) if name in names else None
            if entry.get("kind") != 2:
                i = positions[at] if at < len(positions) else None
                at += 1
            elif i is None and name == "self":
                i = 0
            if i is None:
                (kind, value), = arg.items()  # fmt: skip
                harmless = kind in ("as_none", "as_layout") or value is False or name in ("pin_memory", "non_blocking")
                _need(harmless, f"{target} has no argument {name!r} here")
                continue
            values[i] = self.argument(arg, arguments[i][1])
        for i, (name, kind, _, required, _, default) in enumerate(arguments):
            if values[i] is None:
                _need(not required or kind.endswith("?"), f"{target} needs the argument {name!r}")
                values[i] = "none" if required else _constant_text(default)
        return values

    def made(self, output):
        (kind, value), = output.items()  # fmt: skip
        if kind == "as_tensor":
            return f"{self.name(value['name'])}: {self.meta(value['name'])}"
        if kind == "as_tensors":
            return "[" + ", ".join(f"{self.name(v['name'])}: {self.meta(v['name'])}" for v in value) + "]"
        words = {"as_sym_int": "int", "as_sym_float": "float", "as_sym_bool": "bool"}
        _need(kind in words, f"a result is a tensor or a number, got {kind}")
        return f"{self.name(value['as_name'])}: {words[kind]}"

    def argument(self, arg, wanted=""):
        (kind, v), = arg.items()  # fmt: skip
        if kind == "as_tensor":
            return self.name(v["name"])
        if kind == "as_none":
            return "none"
        if kind in ("as_tensors", "as_optional_tensors"):
            return "[" + ", ".join(self.item(t) for t in v) + "]"
        if kind == "as_optional_tensor":
            return self.item(v)
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self.number(v)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return "[" + ", ".join(map(self.number, v)) + "]"
        if kind == "as_scalar_type":
            _need(v in _DTYPES, f"dtype {v} is not known")
            return f"dtype:{_DTYPES[v]}"
        if kind == "as_device":
            return "device:" + str(facula.device(v["type"] if v.get("index") is None else f"{v['type']}:{int(v['index'])}"))
        if kind == "as_memory_format":
            _need(v in _FORMATS, f"memory format {v} is not known")
            return f"format:{_FORMAT_TEXTS[v]}"
        if kind == "as_layout":
            return "layout:strided"
        if kind == "as_float" and isinstance(v, str):
            return _constant_text(float(v.replace("Infinity", "inf")))
        if kind == "as_complex":
            return _constant_text(complex(v["real"], v["imag"]))
        plain = ("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string")
        _need(kind in plain, f"{kind} is not known")
        if kind == "as_floats":
            v = [float(x) for x in v]
        return _constant_text(float(v) if kind == "as_float" else v)

    def item(self, t):
        if "as_none" in t:
            return "none"
        return self.name((t.get("as_tensor") or t)["name"])

    def number(self, v):
        if "as_name" in v:
            return self.name(v["as_name"])
        (_, number), = v.items()  # fmt: skip
        return _constant_text(number)

    def outputs(self):
        outputs = []
        for spec in self.module["signature"]["output_specs"]:
            (kind, value), = spec.items()  # fmt: skip
            if kind == "user_output":
                outputs.append(self.argument(value["arg"]))
                continue
            word = kind.removesuffix("_mutation")
            known = kind in ("buffer_mutation", "parameter_mutation", "user_input_mutation")
            _need(known, f"outputs are results and mutations, got {kind}")
            self.write_back(kind, value[f"{word}_name"], value["arg"]["name"])
        return outputs

    def write_back(self, kind, path, name):
        """Of a functional graph: what a buffer is from then on."""
        specs = self.module["signature"]["input_specs"]
        word = kind.removesuffix("_mutation")
        for spec in specs:
            (own, value), = spec.items()  # fmt: skip
            if own == word and word != "user_input" and value[f"{word}_name"] == path:
                place = value["arg"]["name"]
                break
        else:
            place = path
        target = f"{self.name(place)[1:]}__written"
        self.lines.append(f"%{target}: {self.meta(place)} = copy_.default({self.name(place)}, {self.name(name)}, false)")


def _symbols_of(text):
    return {n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)} - {"max", "min"}


def _where(metadata):
    lines = [line.strip() for line in str(metadata.get("stack_trace", "")).splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    number = rest.partition(",")[0]
    return f" @ {file}:{number}" if number.isdigit() and file.isprintable() else ""


def _constant_text(value):
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        _need(-(2**63) <= value < 2**63, f"an integer of 64 bits is expected, got {value}")
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return text if any(c in text for c in ".en") else text + ".0"
    if isinstance(value, complex):
        return f"complex({_constant_text(value.real)}, {_constant_text(value.imag)})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, facula.memory_format):
        return f"format:{_FORMAT_TEXTS[_FORMAT_NUMBERS[value]]}"
    if isinstance(value, facula.dtype):
        return f"dtype:{str(value).rpartition('.')[2]}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_constant_text, value)) + "]"
    raise ArchiveError(f"load: a {type(value).__name__} is no constant")


def _too_deep(data):
    depth = most = 0
    in_text = escaped = False
    for c in data:
        if in_text:
            in_text = escaped or c != 34
            escaped = not escaped and c == 92
        elif c == 34:
            in_text = True
        elif c in (91, 123):
            depth += 1
            most = max(most, depth)
        elif c in (93, 125):
            depth -= 1
    return most > DEEPEST


class _Archive:
    def __init__(self, file):
        try:
            self.zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise ArchiveError(f"load: no archive: {error}") from None
        names = self.zip.namelist()
        formats = [n for n in names if n.rpartition("/")[2] == "archive_format" and n.count("/") <= 1]
        _need(formats, "no exported program: there is no archive_format")
        self.root = formats[0].removesuffix("archive_format")
        _need(self.read("archive_format", 100).strip() == b"pt2", "archive_format must be pt2")
        _need(self.read("byteorder", 100).strip() in (b"little", b""), "the byte order must be little")

    def read(self, name, most=MOST_JSON):
        try:
            info = self.zip.getinfo(self.root + name)
        except KeyError:
            raise ArchiveError(f"load: the archive has no {name}") from None
        _need(info.file_size <= most, f"{name} has at most {most} bytes, got {info.file_size}")
        try:
            return self.zip.read(info)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
            raise ArchiveError(f"load: {name}: {error}") from None

    def json(self, name):
        data = self.read(name)
        _need(not _too_deep(data), f"{name} is nested at most {DEEPEST} deep")
        try:
            return json.loads(data)
        except ValueError as error:
            raise ArchiveError(f"load: {name}: {error}") from None

    def has(self, name):
        return self.root + name in self.zip.NameToInfo

    def models(self):
        """The names of its programs."""
        prefix = self.root + "models/"
        found = [n for n in self.zip.namelist() if n.startswith(prefix) and n.endswith(".json")]
        return [n.removeprefix(prefix).removesuffix(".json") for n in found]

    def tensors(self, word, name):
        """Path to tensor."""
        table = f"data/{word}/{name}_{word}_config.json"
        if not self.has(table):
            return {}
        return {path: self.tensor(word, path, entry) for path, entry in self.json(table)["config"].items()}

    def tensor(self, word, path, entry):
        _need(not entry.get("use_pickle"), f"{path} is pickled, which is not read")
        meta = entry["tensor_meta"]
        dtype = getattr(facula, _DTYPES.get(meta["dtype"], "_none"), None)
        _need(dtype is not None, f"{path} has the dtype {meta['dtype']}, which is not known")
        data = self.read(f"data/{word}/{entry['path_name']}", 1 << 40)
        sizes, strides = ([int(s["as_int"]) for s in meta[k]] for k in ("sizes", "strides"))
        offset = int(meta["storage_offset"]["as_int"])
        _need(len(sizes) == len(strides) and min([*sizes, *strides, offset, 0]) >= 0, f"{path} has no valid sizes and strides")
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) if all(sizes) else -1
        _need((last + 1) * dtype.itemsize <= len(data), f"{path} reaches beyond its {len(data)} bytes")
        if not all(sizes):
            made = facula.empty(sizes, dtype=dtype)
        else:
            flat = facula.frombuffer(bytearray(data[: len(data) // dtype.itemsize * dtype.itemsize]), dtype=dtype)
            made = flat.as_strided(sizes, strides, offset)
            made = made.clone() if offset or last + 1 != flat.numel() else made
        if entry.get("is_param"):
            made = facula.nn.Parameter(made, requires_grad=bool(meta.get("requires_grad")))
        return made


def load(file):
    """Reads an ExportedProgram.

    Args:
        file: a path, or a readable binary file.

    Errors: ArchiveError, a RuntimeError, for a file that is none, or has what is not known here; it says what.
    """
    try:
        return _load(_Archive(file))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ArchiveError(f"load: the program is damaged: {type(error).__name__}: {error}") from None


def _load(archive):
    models = archive.models()
    _need(len(models) == 1, f"one program is expected, got {len(models)}")
    name = models[0]
    model = archive.json(f"models/{name}.json")
    reader = _Reader(model)
    program = _C._Program.parse(reader.text())
    held = {**archive.tensors("constants", name), **archive.tensors("weights", name)}
    for _, path, _ in reader.state:
        _need(path in held, f"there is no tensor for {path!r}")
        program.hold(path, held[path])
    call = next(entry for entry in model["graph_module"]["module_call_graph"] if entry["fqn"] == "")["signature"]
    in_spec, out_spec = (_pytree.treespec_loads(call[k]) for k in ("in_spec", "out_spec"))
    examples = _examples(archive, f"data/sample_inputs/{name}.pt")
    return ExportedProgram(program, in_spec, out_spec, examples, call.get("forward_arg_names") or ())


def _examples(archive, path):
    if not archive.has(path):
        return None
    try:
        return facula.load(io.BytesIO(archive.read(path)), weights_only=True)
    except Exception:  # examples are not needed to run it
        return None
