"""Write PyTorch's archive of an exported program (".pt2"); `_pt2_reader.py` reads it.

A zip: `models/<name>.json` is the graph with its signature, `data/weights` and `data/constants` hold tensors as raw bytes,
each with a table of what they are, `data/sample_inputs/<name>.pt` the examples. Written is the lowest form that PyTorch 2.13
reads (schema 8). The reader is src/program/pt2.cpp, which programs without Python use as well; `_pt2_reader.py` has the
examples, which go through the restricted reader of `facula.load`.
"""

from __future__ import annotations

import ast
import io
import json
import os

import facula
from facula import _C
from facula._serialization.zip_writer import ZipWriter
from facula.export._graph import _is_default
from facula.serialization import _open_for_writing
from facula.utils import _pytree

SCHEMA = 8

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32",
    10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2",
    31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 34: "uint32", 35: "uint64",
}  # fmt: skip
_DTYPE_NUMBERS = {getattr(facula, name): number for number, name in _DTYPES.items()}
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
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
    """Report a file that is not an exported program, or one that cannot be read here."""


# ---- expressions, in the text of SymPy's srepr


def to_srepr(text):
    """Return the expression as `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`."""
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


# ---- writing


#: ops whose last argument is left out under another name: (it, PyTorch's name without it)
_SHORTER = {
    "norm.ScalarOpt_dim_dtype": ("dtype", "norm.ScalarOpt_dim"),
    "embedding_bag.padding_idx": ("padding_idx", "embedding_bag.default"),
}
#: operators whose arguments have no defaults in PyTorch
_WITHOUT_DEFAULTS = ("embedding_bag.padding_idx",)
_HIGHER_ORDER = ("cond", "while_loop", "map_impl", "scan")


class _Writer:
    def __init__(self, program, exported=None):
        self.exported, self.program = exported, program
        self.values, self.nodes, self.sym_ints, self.numbers = self.program.values, [], {}, {}
        self.samples = {name: sample for name, _, _, sample in self.program.symbols}
        self.places = {}  # symbol -> (input, dimension)
        self.names = {v[0] for v in self.values}
        self.without_gradients = set()  # names of nodes that ran so

    def graph(self):
        """Return the graph, and what each of its inputs is."""
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
        written = mutations(self.program) if self.exported is not None and self.exported._functional else {}
        for i, node in enumerate(self.program.nodes):
            if i not in written:
                self.node(*node)
        outputs = [self.argument(a, "Tensor") for a in self.program.outputs]
        self.mutations = [self.mutation(specs, *pair) for pair in written.values()]
        outputs = [next(iter(m.values()))["arg"] for m in self.mutations] + outputs
        outputs = [{"as_tensor": o} if "name" in o else o for o in outputs]
        tensors = {name: self.meta(meta) for name, kind, meta in self.values if meta is not None}
        graph = _graph(inputs, outputs, self.nodes, tensors, self.sym_ints)
        if self.without_gradients:
            _Regions(graph, self.without_gradients, self.fresh).run()
        return graph, specs

    def mutation(self, specs, place, value):
        """Return what a file says of an input that is something else in the end."""
        kind, number, path, *_ = self.program.inputs[place]
        word = {"user": "user_input", "constant": "buffer"}.get(kind, kind)
        name = self.values[number][0]
        return {f"{word}_mutation": {"arg": {"name": self.values[value][0]}, f"{word}_name": name if kind == "user" else path}}

    def model(self):
        graph, specs = self.graph()
        outputs = graph["outputs"][len(self.mutations) :]
        spec = self.exported.call_spec
        call = {
            "inputs": [], "outputs": [], "in_spec": _pytree.treespec_dumps(spec.in_spec),
            "out_spec": _pytree.treespec_dumps(spec.out_spec), "forward_arg_names": self.exported._names,
        }  # fmt: skip
        results = [*self.mutations, *(self.role(i, a) for i, a in enumerate(outputs))]
        return {
            "graph_module": {
                "graph": graph,
                "signature": {"input_specs": specs, "output_specs": results},
                "module_call_graph": [{"fqn": "", "signature": call}], "metadata": {}, "treespec_namedtuple_fields": {},
            },
            "opset_version": {"aten": 10},
            "range_constraints": {n: {"min_val": least, "max_val": most} for n, least, most, _ in self.program.symbols},
            "schema_version": {"major": SCHEMA, "minor": 20}, "verifiers": [self.exported.dialect],
            "torch_version": facula.__version__, "guards_code": [],
        }  # fmt: skip

    def role(self, place, output):
        """Return what a file says of an output."""
        kind, target = self.program.roles[place] if place < len(self.program.roles) else ("result", "")
        if kind == "result":
            return {"user_output": {"arg": output}}
        arg = output["as_tensor"]
        if kind == "loss":
            return {"loss_output": {"arg": arg}}
        if kind == "parameter_gradient":
            return {"gradient_to_parameter": {"arg": arg, "parameter_name": target}}
        names = {i[2]: self.values[i[1]][0] for i in self.program.inputs if i[0] == "user"}
        return {"gradient_to_user_input": {"arg": arg, "user_input_name": names.get(target, target)}}

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

    def node(self, key, aten, arguments, results, module, source, no_grad):
        info = _C._boxed_op(key)
        named = list(zip(info["arguments"], arguments))
        if aten in _SHORTER and arguments[-1] == ("constant", None):
            aten = _SHORTER[aten][1]
            named = [(a, ("constant", []) if a[1] == "int[]?" and given[1] is None else given) for a, given in named[:-1]]
        if info["name"] in _HIGHER_ORDER:
            target = f"torch.ops.higher_order.{info['name']}"
        elif key.startswith("int_"):
            target = f"_operator.{key[4:].split('.')[0]}"
        elif "::" in key:  # an operator of a library's own
            target = f"torch.ops.{key.replace('::', '.')}"
        elif not aten:
            raise ArchiveError(f"save: PyTorch has no operator for {key} ({source})")
        else:
            target = f"torch.ops.aten.{aten}"
        if aten == "sub.Tensor" and arguments[0][0] != "value":  # 2 - x
            target, swapped = "torch.ops.aten.rsub.Scalar", [arguments[1], arguments[0], arguments[2]]
            named = list(zip(info["arguments"], swapped))
        last = max((i for i, (a, given) in enumerate(named) if not a[2] and not _is_default(a, given)), default=-1)
        last = len(named) if aten in _WITHOUT_DEFAULTS else last
        inputs = []
        for i, (a, given) in enumerate(named):
            name, kind, keyword_only, required = a[:4]
            name = _RENAMED.get(info["name"], {}).get(name, name)
            if info["name"] in _HIGHER_ORDER:
                inputs.append({"name": "", "arg": self.argument(given, kind), "kind": 1})
            elif keyword_only and (required or not _is_default(a, given)) and given != ("constant", None):
                inputs.append({"name": name, "arg": self.argument(given, kind), "kind": 2})
            elif not keyword_only and (required or i <= last):
                arg = self.argument(given, kind, _optional_list(info["name"], name))
                inputs.append({"name": name, "arg": arg, "kind": 1})
        if info["name"] == "while_loop":  # whose condition is one tensor, and no tuple of it
            inputs[0]["arg"]["as_graph"]["graph"]["is_single_tensor_return"] = True
        outputs = []
        for kind, made in zip(info["results"], results):
            names = [{"name": self.values[v][0]} for v in made]
            if kind == "bool":  # of an assertion, which gives nothing in PyTorch
                continue
            if kind == "int":
                outputs.append({"as_sym_int": {"as_name": names[0]["name"]}})
                self.sym_ints[names[0]["name"]] = {"as_int": 0}
            else:
                flat = info["name"] in _HIGHER_ORDER
                outputs += [{"as_tensor": n} for n in names] if flat or not kind.endswith("[]") else [{"as_tensors": names}]
        single = len(outputs) == 1 and "as_tensor" in outputs[0]
        file, _, line = source.rpartition(":")
        metadata = {"stack_trace": f'  File "{os.path.basename(file)}", line {line}, in forward\n'} if file else {}
        single = single and info["name"] not in _HIGHER_ORDER
        self.nodes.append({
            "target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata,
            "is_hop_single_tensor_return": False if info["name"] in _HIGHER_ORDER else None,
            "name": outputs[0]["as_tensor"]["name"] if single else self.fresh(info["name"]),
        })  # fmt: skip
        if no_grad:
            self.without_gradients.add(self.nodes[-1]["name"])

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
        if isinstance(value, _C._Program):
            return {"as_graph": {"name": self.fresh("subgraph"), "graph": _Writer(value).graph()[0]}}
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
        """Return a name that nothing else has."""
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


def mutations(program):
    """Return the writes at the end of a program: {number of the node: (which input, the value written)}."""
    places = {number: i for i, (_, number, *_) in enumerate(program.inputs)}
    found = {}
    for i, (key, _, arguments, *_) in reversed(list(enumerate(program.nodes))):
        if key != "copy_.default" or arguments[0][0] != "value" or arguments[0][1] not in places or arguments[1][0] != "value":
            break
        found[i] = (places[arguments[0][1]], arguments[1][1])
    return dict(reversed(found.items()))


def _graph(inputs, outputs, nodes, tensors, sym_ints):
    return {
        "inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": tensors, "sym_int_values": sym_ints,
        "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
    }  # fmt: skip


def _names_in(arg, see):
    """Call see(kind, name) for the values that an argument names: "as_tensor" or "as_sym_int"."""
    if isinstance(arg, list):
        for item in arg:
            _names_in(item, see)
    elif isinstance(arg, dict):
        for key, value in arg.items():
            if key == "as_graph":
                continue
            if key == "name":
                see("as_tensor", value)
            elif key == "as_name":
                see("as_sym_int", value)
            else:
                _names_in(value, see)


class _Regions:
    """Move nodes that ran without gradients into graphs of their own, as PyTorch has them.

    Args:
        graph: is changed.
        marked: the names of those nodes.
        fresh: makes names.
    """

    def __init__(self, graph, marked, fresh):
        self.graph, self.marked, self.fresh = graph, marked, fresh
        self.uses = {}  # name -> how many nodes and outputs use it
        for arg in [*[n["inputs"] for n in graph["nodes"]], *graph["outputs"]]:
            self._count(arg, 1)

    def _count(self, args, step):
        def see(kind, name):
            self.uses[name] = self.uses.get(name, 0) + step

        _names_in([a["arg"] if "arg" in a else a for a in (args if isinstance(args, list) else [args])], see)

    def run(self):
        kept, region = [], []
        for node in self.graph["nodes"]:
            if node["name"] in self.marked:
                region.append(node)
            elif node["target"].startswith(("torch.ops.aten.sym_size", "_operator.", "torch.sym_")):
                kept.append(node)  # computed before the region
            else:
                kept += self.closed(region)
                region = []
                kept.append(node)
        self.graph["nodes"] = kept + self.closed(region)

    def closed(self, region):
        """Return the node that stands for a region."""
        if not region:
            return []
        made, taken = {}, {}
        for node in region:
            _names_in([i["arg"] for i in node["inputs"]], lambda kind, name: made.get(name) or taken.setdefault(name, kind))
            self._count(node["inputs"], -1)
            _names_in(node["outputs"], lambda kind, name: made.setdefault(name, kind))
        given = [{k: {"name": n}} if k == "as_tensor" else {k: {"as_name": n}} for n, k in taken.items()]
        left = [{"as_tensor": {"name": n}} for n in made if self.uses.get(n)]
        tensors = {n: self.graph["tensor_values"][n] for n in (*taken, *made) if n in self.graph["tensor_values"]}
        numbers = {n: self.graph["sym_int_values"][n] for n in taken if n in self.graph["sym_int_values"]}
        inner = {"as_graph": {"name": self.fresh("submod"), "graph": _graph(given, left, region, tensors, numbers)}}
        arguments = [{"as_bool": False}, inner, *given]
        return [{
            "target": "torch.ops.higher_order.wrap_with_set_grad_enabled",
            "inputs": [{"name": "", "arg": a, "kind": 1} for a in arguments], "outputs": left,
            "metadata": region[0]["metadata"], "is_hop_single_tensor_return": False,
            "name": self.fresh("wrap_with_set_grad_enabled"),
        }]  # fmt: skip


def _json_float(value):
    """Return a number for JSON, which has no infinities; PyTorch writes their names."""
    if value != value:
        return "NaN"
    return value if value not in (float("inf"), float("-inf")) else "Infinity" if value > 0 else "-Infinity"


def _optional_list(op, argument):
    """Return whether lists of tensors may lack some, to PyTorch."""
    return argument == "indices" and op.strip("_").startswith("index")


def _tensor_bytes(tensor):
    whole = tensor.detach().cpu().contiguous()
    return bytes(whole.reshape(-1).view(facula.uint8).numpy()) if whole.numel() else b""


def save(exported, file, extra_files=None):
    """Write an ExportedProgram.

    Args:
        file: a path, or a writable binary file.
        extra_files: {name: bytes} that stand beside the program, in the folder extra.
    """
    writer = _Writer(exported.program, exported)
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
    with _open_for_writing(file) as out:  # an old file stays until the new one is whole
        archive = ZipWriter(out, name)  # aligns, so that the reader can map what it holds
        for path, tensor in blobs.items():
            archive.write(path, _tensor_bytes(tensor))
        for word, table in tables.items():
            archive.write(f"data/{word}/model_{word}_config.json", json.dumps({"config": table}).encode())
        archive.write("models/model.json", json.dumps(model, allow_nan=False).encode())
        archive.write("data/sample_inputs/model.pt", examples.getvalue())
        marks = {"archive_format": "pt2", "archive_version": "0", ".data/version": "6\n", "byteorder": "little"}
        for entry, text in marks.items():
            archive.write(entry, text.encode())
        for name, data in (extra_files or {}).items():
            archive.write(f"extra/{name}", data)
        archive.close()
