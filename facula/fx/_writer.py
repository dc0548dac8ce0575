"""The text of the body of a function, statement by statement, and what it names."""

from __future__ import annotations

import collections
import enum
import keyword
import math
import re
import types
import typing
from typing import Any, NamedTuple

import facula
import facula.fx._pytree as fx_pytree
from facula._ops import OpOverload, OpOverloadPacket
from facula.fx.node import Node, _get_qualified_name, _type_repr, dtype_abbrs
from facula.utils import _pytree as pytree

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


class _CustomBuiltin(NamedTuple):
    """A name that the text uses without a module, and the statement that brings it."""

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
    """What `target` of `base` is called in a program: a.0.b -> getattr(base.a, "0").b"""
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
    """The names of a text that are no locals."""

    def __init__(self, namespace):
        self._namespace = namespace
        self.found = {}
        for name, (_, value) in _custom_builtins.items():
            self.add(name, value)

    def add(self, hint, obj):
        """The name by which the text says `obj`."""
        if obj is not facula.device and not isinstance(obj, facula.Generator) and _is_from_torch(obj):
            text = _get_qualified_name(obj) if not isinstance(obj, type) else _type_repr(obj)
            if keyword.iskeyword(text.rpartition(".")[2]):  # torch.ops.aten.random_.from
                return _format_target(*text.split(".", 1))
            return text
        name = self._namespace.create_name(hint.replace(".", "_"), obj if _is_hashable(obj) else None)
        self.found.setdefault(name, obj)
        return name

    def type(self, kind):
        """A type as an annotation."""
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
    """Writes the body of one function, node by node."""

    def __init__(self, codegen, nodes, root_module, namespace, *, verbose, include_stride, include_device, include_meta):
        self.codegen, self.nodes, self.root = codegen, list(nodes), root_module
        self.globals = _Globals(namespace)
        self.wrapped, self.free_vars, self.body = {}, [], []
        self.annotation = ""
        self.verbose, self.previous_trace = verbose, None
        self.include_stride, self.include_device, self.include_meta = include_stride, include_device, include_meta
        self.last_uses = self._find_last_uses()

    def _find_last_uses(self):
        """user -> the nodes that nobody uses after it"""
        seen, found = set(), {}
        for user in reversed(self.nodes):
            for node in user._input_nodes:
                if node not in seen:
                    seen.add(node)
                    found.setdefault(user, []).append(node)
        return found

    # ---- arguments

    def value(self, arg):
        """An argument as text."""
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
        """Arguments of a call, without parentheses."""
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(item)}" for key, item in kwargs.items())])

    # ---- nodes

    def node(self, node):
        """Adds the statement of a node."""
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
        """Ends a statement: what nobody uses any more is let go."""
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
    """The last place of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self):
        """In one line."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(stack_trace):
    """The last place that a stack trace names; None where it names none."""
    lines = (stack_trace or "").strip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        found = re.match(r'\s*File "(.+)", line (\d+), in (.+)', lines[at])
        if found:
            return _ParsedStackTrace(*found.groups(), lines[at + 1].strip() if at + 1 < len(lines) else "")
    return None


def _trace_summary(trace):
    """One line about a stack trace: where it ends."""
    found = _parse_stack_trace(trace)
    return found.get_summary_str() if found else trace.strip().split("\n")[-1].strip()
