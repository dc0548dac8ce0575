"""Convert a program to a graph of torch.fx: targets are `torch.ops.aten.*`, and sizes that vary are nodes."""

from __future__ import annotations

import ast
import operator

import facula
from facula import _C, fx
from facula.functions.control_flow import HIGHER_ORDER

_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
#: of the table's integers, Python's own
_OF_INTEGERS = {
    "int_add": operator.add, "int_sub": operator.sub, "int_mul": operator.mul, "int_floordiv": operator.floordiv,
    "int_mod": operator.mod, "int_neg": operator.neg, "int_truediv": operator.truediv, "int_eq": operator.eq,
    "int_ne": operator.ne, "int_lt": operator.lt, "int_le": operator.le, "int_gt": operator.gt, "int_ge": operator.ge,
    "int_max": facula.sym_max, "int_min": facula.sym_min, "int_float": facula.sym_float, "bool_not": facula.sym_not,
    "bool_and": operator.and_, "bool_or": operator.or_,
}  # fmt: skip


def target_of(key, aten):
    """Return the function that a node calls: an overload of torch.ops, by PyTorch's name where it has one."""
    name = key.split(".")[0]
    if name in HIGHER_ORDER:
        return getattr(facula.ops.higher_order, name)
    if name in _OF_INTEGERS:
        return _OF_INTEGERS[name]
    if "::" in name:
        space, _, op = name.partition("::")
        return getattr(getattr(getattr(facula.ops, space), op), key.partition(".")[2])
    namespace, (op, overload) = (facula.ops.aten, aten.split(".")) if aten else (facula.ops.facula, key.split(".", 1))
    return getattr(getattr(namespace, op), overload.replace(".", "_"))


class Builder:
    """Build the graph.

    Args:
        program: a `_C._Program`.
        lifted: whether parameters, buffers and constants are inputs of the graph; else they are attributes.
        keep: (name, tensor) of every attribute, called when `lifted` is False.
        mutations: of writes at the end, the node's number to (which input, the value written): the graph gives these values
            before its results, and does not write them.
    """

    def __init__(self, program, lifted, keep=None, mutations=None):
        self.mutations = mutations or {}
        self.program, self.lifted, self.keep = program, lifted, keep
        self.graph = fx.Graph()
        self.nodes, self.symbols, self.modules = {}, {}, {}  # modules: the graphs that nodes call
        self.values = program.values

    def run(self):
        """Return the graph without its output, and the outputs as a list."""
        for kind, number, path, _, tensor, _ in self.program.inputs:
            name = self.values[number][0]
            if self.lifted or kind == "user":
                node = self.graph.placeholder(name)
            else:
                self.keep(path, tensor)
                node = self.graph.get_attr(path)
            self._note(number, node)
        off = False
        for place, (*node, no_grad) in enumerate(self.program.nodes):
            if place in self.mutations:
                continue
            if no_grad != off:
                self.graph.call_function(facula.set_grad_enabled, (off,))
                off = no_grad
            self._call(*node)
        if off:
            self.graph.call_function(facula.set_grad_enabled, (True,))
        written = [self.nodes[number] for _, number in self.mutations.values()]
        return written + [self._argument(a) for a in self.program.outputs]

    def _note(self, number, node):
        self.nodes[number] = node
        meta = self.values[number][2]
        if meta is not None:
            node.meta["tensor_meta"] = meta
            for d, size in enumerate(meta[1]):
                if isinstance(size, str) and size.isidentifier():
                    self.symbols.setdefault(size, (node, d))

    def _call(self, key, aten, arguments, results, module, source):
        info = _C._boxed_op(key)
        args, kwargs = [], {}
        named = list(zip(info["arguments"], arguments))
        # Defaults are left out, but not before a positional argument that has another value.
        last = max((i for i, (a, given) in enumerate(named) if not _is_default(a, given)), default=-1)
        for i, (argument, given) in enumerate(named):
            name, _, keyword_only, required = argument[:4]
            if keyword_only:
                if required or not _is_default(argument, given):
                    kwargs[name] = self._argument(given)
            elif required or i <= last:
                args.append(self._argument(given))
        single = len(results) == 1 and not info["results"][0].endswith("[]")
        name = self.values[results[0][0]][0] if single else f"{info['name']}_results"
        node = self.graph.call_function(target_of(key, aten), tuple(args), kwargs, name=name)
        node.meta.update(stack_trace=source, module=module)
        flat = [number for result in results for number in result]
        if single:
            self._note(flat[0], node)
            return
        for i, number in enumerate(flat):
            item = self.graph.call_function(operator.getitem, (node, i), name=self.values[number][0])
            self._note(number, item)

    def _argument(self, given):
        kind, value = given
        if kind == "value":
            return self.nodes[value]
        if kind == "list":
            return [self._argument(item) for item in value]
        if kind == "expr":
            return [self._size(v) for v in value] if isinstance(value, list) else self._size(value)
        if isinstance(value, _C._Program):
            return self._module_of(value)
        return value

    def _module_of(self, program):
        """Return a graph that a node calls, as a module."""
        builder = Builder(program, lifted=True, keep=None)
        builder.graph.output(tuple(builder.run()))
        name = f"graph_{len(self.modules)}"
        self.modules[name] = facula.fx.GraphModule(builder.modules, builder.graph, name)
        return self.graph.get_attr(name)

    def _size(self, text):
        return text if isinstance(text, int) else self._expression(ast.parse(text, mode="eval").body)

    def _expression(self, tree):
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self._symbol(tree.id)
        if isinstance(tree, ast.UnaryOp):
            inner = self._expression(tree.operand)
            return -inner if isinstance(inner, int) else self.graph.call_function(operator.neg, (inner,))
        if isinstance(tree, ast.Call):
            function = {"max": facula.sym_max, "min": facula.sym_min}[tree.func.id]
            return self.graph.call_function(function, tuple(self._expression(a) for a in tree.args))
        return self.graph.call_function(_OPERATORS[type(tree.op)], (self._expression(tree.left), self._expression(tree.right)))

    def _symbol(self, name):
        found = self.symbols[name]
        if isinstance(found, tuple):
            node, d = found
            found = self.symbols[name] = self.graph.call_function(facula.ops.aten.sym_size.int, (node, d))
        return found


def _is_default(argument, given):
    _, _, _, required, _, default = argument
    return not required and given[0] == "constant" and type(given[1]) is type(default) and given[1] == default
