"""Write a graph as the text of a function, with the globals that the text needs.

Long because it is one writer, whose parts share what they have read.
"""

from __future__ import annotations

import builtins
import collections
import enum
import keyword
import math
import re
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import facula
import facula.fx._pytree as fx_pytree
from facula._operators.namespaces import OpOverload, OpOverloadPacket
from facula.fx.node import Node, _get_qualified_name, _last_uses, _type_repr, dtype_abbrs
from facula.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor


magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}", "pos": "+{}",
    "neg": "-{}", "invert": "~{}", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}",
    "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
reflectable_magic_methods = {
    name: magic_methods[name]
    for name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


# ---- The text of the body of a function, statement by statement, and what it names


class _CustomBuiltin(NamedTuple):
    """Describe a name that the text uses without a module, and the statement that imports it."""

    import_str: str
    obj: Any


_custom_builtins = {
    "inf": _CustomBuiltin("from math import inf", math.inf),
    "nan": _CustomBuiltin("from math import nan", math.nan),
    "NoneType": _CustomBuiltin("NoneType = type(None)", type(None)),
    "torch": _CustomBuiltin("import torch", facula),
    "device": _CustomBuiltin("from torch import device", facula.device),
    "fx_pytree": _CustomBuiltin("import torch.fx._pytree as fx_pytree", fx_pytree),
    "pytree": _CustomBuiltin("import torch.utils._pytree as pytree", pytree),
}


def _is_from_torch(obj):
    module = getattr(obj, "__module__", None)
    if isinstance(module, str):
        root = module.partition(".")[0]
        return root in ("torch", "facula") and not module.startswith("facula.fx._testing")
    name = getattr(obj, "__name__", None)
    return name is not None and name != "torch" and isinstance(obj, types.BuiltinFunctionType) and hasattr(facula, name)


def _format_target(base, target):
    """Return how `target` of `base` is called in a program: a.0.b is getattr(base.a, "0").b."""
    text = base
    for part in target.split("."):
        named = part.isidentifier() and not keyword.iskeyword(part)
        text = f"{text}.{part}" if named else f'getattr({text}, "{part}")'
    return text


_origin_type_map = {
    list: list, dict: dict, set: set, frozenset: frozenset, tuple: tuple,
}  # fmt: skip
_SPELLED = {list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006


class _Globals:
    """Collect the names of a text that are not local."""

    def __init__(self, namespace):
        self._namespace = namespace
        self.found = {}
        for name, (_, value) in _custom_builtins.items():
            self.add(name, value)

    def add(self, hint, obj):
        """Return the name by which the text says `obj`."""
        if obj is not facula.device and not isinstance(obj, facula.Generator) and _is_from_torch(obj):
            text = _get_qualified_name(obj) if not isinstance(obj, type) else _type_repr(obj)
            # A keyword cannot follow a dot in the text, so that the attribute is read by getattr.
            if keyword.iskeyword(text.rpartition(".")[2]):  # torch.ops.aten.random_.from
                return _format_target(*text.split(".", 1))
            return text
        name = self._namespace.create_name(hint.replace(".", "_"), obj if _is_hashable(obj) else None)
        self.found.setdefault(name, obj)
        return name

    def type(self, kind):
        """Return a type as an annotation."""
        if kind == ():
            return "()"
        if isinstance(kind, types.UnionType):
            return "|".join(self.type(part) for part in kind.__args__)
        if isinstance(kind, types.GenericAlias):
            return f"{self.type(kind.__origin__)}[{','.join(map(self.type, kind.__args__))}]"
        if kind is ...:
            return self.add("_", kind)
        if kind is typing.Callable:
            return self.add("collections.abc.Callable", collections.abc.Callable)
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add(_type_repr(kind), kind)
        spelled = _SPELLED.get(origin, origin)
        name = self.add(f"typing.{spelled._name}" if origin in _SPELLED else _type_repr(origin), spelled)
        args = getattr(kind, "__args__", ())
        return f"{name}[{','.join(map(self.type, args))}]" if args else name


def _is_hashable(obj):
    try:
        hash(obj)
    except TypeError:
        return False
    return True


class _Writer:
    """Write the body of one function, node by node."""

    def __init__(self, codegen, nodes, root_module, namespace, *, verbose, include_stride, include_device, include_meta):
        self.codegen, self.nodes, self.root = codegen, list(nodes), root_module
        self.globals = _Globals(namespace)
        self.wrapped, self.free_vars, self.body = {}, [], []
        self.annotation = ""
        self.verbose, self.previous_trace = verbose, None
        self.include_stride, self.include_device, self.include_meta = include_stride, include_device, include_meta
        self.last_uses = _last_uses(self.nodes)

    # ---- arguments

    def value(self, arg):
        """Return an argument as text."""
        kind = type(arg)
        if kind is Node:
            return repr(arg)
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                return f"{self.globals.add(_type_repr(kind), kind)}({', '.join(map(self.value, arg))})"
            return f"({self.value(arg[0])},)" if len(arg) == 1 else f"({', '.join(map(self.value, arg))})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{key!r}: {self.value(item)}" for key, item in arg.items()) + "}"
        if kind is slice:
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if isinstance(arg, (OpOverload, OpOverloadPacket)):
            return self.globals.add(_get_qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return f"{self.globals.add(kind.__name__, kind)}.{arg.name}"
        if kind in (types.FunctionType, types.BuiltinFunctionType, type):
            return self.globals.add(_type_repr(arg) if isinstance(arg, type) else _get_qualified_name(arg), arg)
        if isinstance(arg, facula.Generator):  # has no text that makes it
            return self.globals.add("generator", arg)
        return repr(arg)

    def call(self, args, kwargs):
        """Return the arguments of a call, without parentheses."""
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(item)}" for key, item in kwargs.items())])

    # ---- nodes

    def node(self, node):
        """Add the statement of a node."""
        kind = f" : {self.globals.type(node.type)}" if node.type is not None else ""
        if self.include_meta:
            kind = self._shown_type(node) or kind
        if self.verbose and node.op not in ("placeholder", "output"):
            self._trace_comment(node)
        getattr(self, f"_{node.op}")(node, kind)

    def _placeholder(self, node, kind):
        default = "" if not node.args else f" = {self.value(node.args[0])}"
        self.free_vars.append(f"{node.target}{kind}{default}")
        raw = node.target.replace("*", "")
        if raw != repr(node):
            self.body.append(f"{node!r} = {raw}\n")

    def _call_method(self, node, kind):
        target = _format_target(self.value(node.args[0]), node.target)
        self.body.append(f"{node!r}{kind} = {target}({self.call(node.args[1:], node.kwargs)})")

    def _call_function(self, node, kind):
        target, args = node.target, node.args
        name = getattr(target, "__name__", None)
        if getattr(target, "__module__", None) == "_operator":
            if name in magic_methods:
                self.body.append(f"{node!r}{kind} = {magic_methods[name].format(*map(self.value, args))}")
                return
            # `x += y` is a statement without a value, so that the node's name gets the first argument afterwards.
            if name in inplace_methods:
                statement = inplace_methods[name].format(*map(self.value, args))
                self.body.append(f"{statement};  {node!r}{kind} = {self.value(args[0])}")
                return
        called = self.globals.add(_get_qualified_name(target), target)
        if called == "getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            self.body.append(f"{node!r}{kind} = {_format_target(self.value(args[0]), args[1])}")
            return
        self.body.append(f"{node!r}{kind} = {called}({self.call(args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)

    def _call_module(self, node, kind):
        self.body.append(f"{node!r}{kind} = {_format_target(self.root, node.target)}({self.call(node.args, node.kwargs)})")

    def _get_attr(self, node, kind):
        self.body.append(f"{node!r}{kind} = {_format_target(self.root, node.target)}")

    def _output(self, node, kind):
        if node.type is not None:
            self.annotation = f" -> {self.globals.type(node.type)}"
        self.body.append(self.codegen._call_generate_output(node, self.value))

    def release(self, node):
        """End a statement: what nobody uses any more is let go."""
        if node.op == "placeholder":
            return
        if node.op == "output":
            self.body.append("\n")
            return
        done = list(self.last_uses.get(node, ()))
        if not node.users:
            done.append(node)
        text = " = ".join([*map(repr, done), "None"])
        self.body.append(f";  {text}\n" if done else "\n")

    # ---- for readers

    def _trace_comment(self, node):
        trace = node.stack_trace
        if trace:
            if trace != self.previous_trace:
                self.previous_trace = trace
                self.body.append(f"\n# {_trace_summary(trace)}\n")
        elif self.previous_trace != "":
            self.previous_trace = ""
            self.body.append("\n# No stacktrace found for following nodes\n")

    def _shown_type(self, node):
        value = node.meta.get("val", node.meta.get("tensor_meta"))
        if isinstance(value, facula.Tensor) or hasattr(value, "stride") and hasattr(value, "dtype"):
            shape = list(value.shape)
            text = f"{dtype_abbrs.get(value.dtype, value.dtype)}{shape}"
            if self.include_stride:
                text += str(list(value.stride() if callable(value.stride) else value.stride))
            if self.include_device and hasattr(value, "device"):
                text += str(value.device)
            return f': "{text}"'
        return f': "{type(value).__name__}"' if isinstance(value, facula.SymInt) else ""


class _ParsedStackTrace(NamedTuple):
    """Describe the last place of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self):
        """Return a summary in one line."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(stack_trace):
    """Return the last place that a stack trace names; None where it names none."""
    lines = (stack_trace or "").strip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        found = re.match(r'\s*File "(.+)", line (\d+), in (.+)', lines[at])
        if found:
            return _ParsedStackTrace(*found.groups(), lines[at + 1].strip() if at + 1 < len(lines) else "")
    return None


def _trace_summary(trace):
    """Return one line about a stack trace: where it ends."""
    found = _parse_stack_trace(trace)
    return found.get_summary_str() if found else trace.strip().split("\n")[-1].strip()


def _register_custom_builtin(name, import_str, obj):
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)


def _is_magic(name):
    return name.startswith("__") and name.endswith("__")


def _snake_case(text):
    """Return a name in snake case, transformer_encoder for TransformerEncoder."""
    found = []
    for at, letter in enumerate(text):
        if letter.isupper():
            if at and text[at - 1].islower():
                found.append("_")
            letter = letter.lower()
        found.append(letter)
    return "".join(found)


class _Namespace:
    """Record the names that are in use, and the objects that they stand for."""

    _ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
    _NUMBERED = re.compile(r"(.+)_(\d+)\Z")

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = set()
        self._base_count = {}

    def create_name(self, candidate, obj):
        """Return a name like `candidate` that nothing has yet; the same again for the same `obj`, which may be None."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = candidate if candidate.isidentifier() and candidate.isascii() else self._legal(candidate)
        numbered = self._NUMBERED.match(name)
        base, number = (numbered.group(1), int(numbered.group(2))) if numbered else (name, None)
        # Names with the same base are numbered from the last number on, which avoids trying all of them again.
        if name in self._used_names or number is None and base in self._base_count:
            number = self._base_count.get(base, 0)
        if number is None:
            number = self._base_count.get(base, 0)
        while name in self._used_names or self._is_illegal_name(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._used_names.add(name)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def _legal(self, candidate):
        name = self._ILLEGAL.sub("_", candidate) or "_unnamed"
        return f"_{name}" if name[0].isdigit() else name

    def associate_name_with_obj(self, name, obj):
        """Say what a name stands for that is taken already."""
        known = self._obj_to_name.setdefault(obj, name)
        if known != name:
            raise AssertionError(f"associate_name_with_obj: the object has a name already, {known}, got {name}")

    def _is_illegal_name(self, name, obj):
        if name in keyword.kwlist:
            return True
        if name in vars(builtins):
            # A builtin may have its own name; any other object of that name would hide it.
            return obj is not vars(builtins)[name]
        if name in _custom_builtins:
            return obj is not _custom_builtins[name].obj
        return False

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


@dataclass
class PythonCode:
    """Hold the text of a function and the globals that it needs to run; `Graph.python_code` returns it.

    Args:
        src: the text, one `def forward(self, ...)`.
        globals: the objects that the text names, by those names.

    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x) + 1)
    >>> made = gm.graph.python_code("self")
    >>> print(made.src.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> made.globals["torch"] is facula
    True
    """

    src: str
    globals: dict[Any, Any]
    _lineno_map: dict | None = None
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """Describe how arguments are flattened for a graph, and how its results are assembled."""

    orig_args: list[Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class CodeGen:
    """Convert a graph to a function. Subclasses change how arguments arrive and results leave.

    Subclasses replace `gen_fn_def`, `generate_output`, `process_inputs`, `process_outputs` or `additional_globals`, and are
    set by `Graph.set_codegen`.

    >>> class Named(facula.fx.CodeGen):
    ...     def generate_output(self, output_args):
    ...         return f"return {{'out': {output_args!r}}}"
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> gm.graph.set_codegen(Named())
    >>> code = gm.recompile()
    >>> gm(1)
    {'out': 2}
    """

    def __init__(self, *_: Any) -> None:
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: Sequence[str], maybe_return_annotation: str) -> str:
        """Return the line of `def`.

        Args:
            free_vars: the parameters, as text.
            maybe_return_annotation: " -> type" or nothing.

        >>> facula.fx.CodeGen().gen_fn_def(["x", "y = 2"], "")
        'def forward(self, x, y = 2):'
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the statement that ends the function.

        Args:
            output_args: what the graph gives, with texts for nodes: their `repr` is what the statement says.

        >>> facula.fx.CodeGen().generate_output((1, 2))
        'return (1, 2)'
        """
        return f"return {output_args!r}"

    def _call_generate_output(self, node, value):
        # Subclasses expect nodes as text; without one the text of the result is written directly.
        if type(self).generate_output is CodeGen.generate_output:
            return f"return {value(node.args[0])}"
        return self.generate_output(_Shown.of(node.args[0], value))

    def process_inputs(self, *args: Any) -> tuple[Any, ...]:
        """Return the arguments as the placeholders get them, for an Interpreter: here unchanged.

        Args:
            args: the arguments of the call.

        >>> facula.fx.CodeGen().process_inputs(1, 2)
        (1, 2)
        """
        return args

    def process_outputs(self, outputs: Any) -> dict[str, Tensor | list[Any]] | tuple[Tensor, Tensor]:
        """Return the results as the caller gets them, for an Interpreter: here unchanged.

        Args:
            outputs: what the output node gives.

        >>> facula.fx.CodeGen().process_outputs((1, 2))
        (1, 2)
        """
        return outputs

    def additional_globals(self) -> list[Any]:
        """Return a list of (name, value): globals that the text needs beside those of its nodes.

        >>> facula.fx.CodeGen().additional_globals()
        []
        """
        return []

    def _gen_python_code(
        self, nodes, root_module, namespace, *, verbose=False, include_stride=False, include_device=False, colored=False,
        expanded_def=False, record_func=False, additional_meta=None, include_meta=False, **_,
    ):  # fmt: skip
        writer = _Writer(
            self, nodes, root_module, namespace, verbose=verbose, include_stride=include_stride,
            include_device=include_device, include_meta=include_meta,
        )  # fmt: skip
        for name, value in self.additional_globals():
            writer.globals.add(name, value)
        line_of_node, counts = {}, []
        for index, node in enumerate(writer.nodes):
            writer.node(node)
            writer.release(node)
            counts.append((index, len(writer.body)))
        if not writer.body:
            writer.body.append("pass\n")
        body = self._body_transformer(writer.body) if self._body_transformer is not None else writer.body
        wraps = ""
        if writer.wrapped:
            name = writer.globals.add("wrap", facula.fx.wrap)
            wraps = "\n".join(f'{name}("{function}")' for function in writer.wrapped)
        prologue = self.gen_fn_def(writer.free_vars, writer.annotation)
        text = "\n".join(f"    {line}" for line in "".join(body).lstrip("\n").split("\n"))
        source = f"\n{wraps}\n\n{prologue}\n{text}"
        return PythonCode(source, writer.globals.found, _lineno_map=line_of_node)


class _Shown:
    """Represent text that is complete and is printed as it is in an output."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    @classmethod
    def of(cls, arg, value):
        """Return the items of a list or tuple, ready; or the whole."""
        if type(arg) in (list, tuple) or isinstance(arg, list):
            kind = tuple if isinstance(arg, tuple) else list
            return kind(cls(value(item)) for item in arg)
        return cls(value(arg))


def _positional_count(spec):
    """Return how many positional arguments there are in the spec of (args, kwargs); None for another spec."""
    if spec.type is not tuple or spec.num_children != 2:
        return None
    args, kwargs = spec.children_specs
    return args.num_children if args.type is tuple and kwargs.type is dict else None


class _PyTreeCodeGen(CodeGen):
    """Flatten nested arguments, and assemble nested results."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out):
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = list(out) if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation)
        args = list(self.pytree_info.orig_args)
        has_self = args[:1] == ["self"]
        given = args[1:] if has_self else args
        text = super().gen_fn_def(list(args), maybe_return_annotation)
        if free_vars:
            without_types = [var.split(":")[0].split("=")[0].strip() for var in free_vars if var != "self"]
            flat = f"[{', '.join(given)}]"
            positional = _positional_count(self.pytree_info.in_spec)
            # Then keyword arguments must be flattened as a dict, in the order of the spec.
            if positional is not None:  # the spec is of (args, kwargs)
                keywords = ", ".join(f"{name!r}: {name}" for name in given[positional:])
                flat = f"(({''.join(f'{name}, ' for name in given[:positional])}), {{{keywords}}})"
            text += f"\n    {', '.join(without_types)}, = fx_pytree.tree_flatten_spec({flat}, self._in_spec)"
        return text

    def generate_output(self, output_args):
        if self.pytree_info is not None and self.pytree_info.out_spec is not None:
            if not isinstance(output_args, (list, tuple)):
                output_args = [output_args]
            shown = f"[{', '.join(map(repr, output_args))}]"
            return f"return pytree.tree_unflatten({shown}, self._out_spec)"
        return super().generate_output(output_args)
