"""Convert an exported program to modules again: each has the ops that ran in it, its path, and its own parameters.

A module that was called several times has a further one for each call, `name@1`, with the same parameters; calls that follow
each other with nothing between are one. What a module takes that it does not hold are its inputs; what others use of it, its
results, as a tuple.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import facula
from facula.export._costs import _values_in
from facula.export._graph import Builder
from facula.export.exported_program import _argument_names, _Guard, _keep
from facula.fx.graph import _PyTreeCodeGen, _PyTreeInfo

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.export.exported_program import ExportedProgram

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class InterpreterModule(facula.fx.GraphModule):
    """Run one module of an unflattened program. It is a GraphModule, and takes the `args` and `kwargs` of a
    GraphModule.

    >>> program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(2),))
    >>> type(torch.export.unflatten(program).get_submodule("0")).__name__
    'InterpreterModule'
    """


class FlatArgsAdapter:
    """Convert arguments of one structure to those of another, for `unflatten`. Subclasses define `adapt`.

    >>> class FromPair(torch.export.FlatArgsAdapter):
    ...     def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
    ...         return [input_args[0] + input_args[1]]
    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    >>> torch.export.unflatten(program, FromPair())(torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    >>> torch.export.FlatArgsAdapter().adapt(None, None, [])
    Traceback (most recent call last):
        ...
    NotImplementedError: FlatArgsAdapter.adapt: this class does not define it
    """

    def adapt(self, target_spec: Any, input_spec: Any, input_args: Any, metadata: dict[str, Any] | None = None,
              obj: Any = None) -> Any:  # fmt: skip
        """Return the leaves as the program takes them.

        Args:
            target_spec: how the program's arguments are nested.
            input_spec: how the given ones are.
            input_args: the given leaves.
            metadata, obj: None.
        """
        raise NotImplementedError("FlatArgsAdapter.adapt: this class does not define it")


class UnflattenedModule(facula.nn.Module):
    """Run an exported program by its modules; it is called as the program's module was, and `unflatten` returns it.

    Args:
        exported: an ExportedProgram.
        flat_args_adapter: makes the leaves of arguments of another structure, or None.

    Errors: TypeError for what is no ExportedProgram.

    >>> program = torch.export.export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(2),))
    >>> module = torch.export.UnflattenedModule(program)
    >>> [name for name, _ in module.named_parameters()]
    ['0.weight', '0.bias']
    """

    def __init__(self, exported: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__()
        if not isinstance(exported, facula.export.ExportedProgram):
            raise TypeError(f"unflatten: expected an ExportedProgram, got {type(exported).__name__}")
        self.__dict__["_exported"], self.__dict__["_adapter"] = exported, flat_args_adapter
        for kind, _, path, persistent, tensor, _ in exported.program.inputs:
            if kind != "user":
                _keep(self, path, tensor, kind, persistent)
        program = exported.program
        outer = _Part(program, self, "", range(len(program.nodes)))
        for kind, number, _, _, _, _ in program.inputs:
            if kind == "user":
                outer.placeholder(number)
        outer.build()
        outer.graph.output([outer._argument(a) for a in program.outputs])
        spec = exported.call_spec
        outer.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(_argument_names(exported), spec.in_spec, spec.out_spec)))
        self.__dict__["graph"] = outer.graph
        main = self.__dict__["_main"] = facula.fx.GraphModule(self, outer.graph, "UnflattenedModule")
        for table in ("_parameters", "_buffers", "_modules"):  # so that modules can be put in others' places
            main.__dict__[table] = self.__dict__[table]
        self.__dict__["_guard"] = _Guard(exported)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if self._adapter is not None:
            args, kwargs = self._adapted(args, kwargs)
        self._guard(self, args, kwargs)
        return self._main(*args, **kwargs)

    def _adapted(self, args, kwargs):
        pytree, wanted = facula.utils._pytree, self._exported.call_spec.in_spec
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec == wanted:
            return args, kwargs
        return pytree.tree_unflatten(self._adapter.adapt(wanted, spec, leaves), wanted)


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """Return the modules of an exported program.

    Args:
        module: an ExportedProgram.
        flat_args_adapter: a FlatArgsAdapter, for arguments of another structure than it was exported with.

    Returns:
        An UnflattenedModule, in which each inner module is again under its path, with the ops that ran in it.

    >>> program = torch.export.export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(2),))
    >>> module = torch.export.unflatten(program)
    >>> [name for name, _ in module.named_children()], module(torch.zeros(2)).shape
    (['0', '1'], torch.Size([2]))
    """
    return UnflattenedModule(module, flat_args_adapter)


class _Part(Builder):
    """Build the graph of one module's call.

    Args:
        program: a `_C._Program`.
        module: the module that gets it.
        path: where it is.
        span: the numbers of its nodes.
    """

    def __init__(self, program, module, path, span):
        super().__init__(program, lifted=False)
        self.module, self.path, self.span = module, path, span
        self.all = program.nodes
        self.held = {number: path for kind, number, path, *_ in program.inputs if kind != "user"}
        self.calls = {}

    def placeholder(self, number):
        """Make a value an input."""
        self._note(number, self.graph.placeholder(self.values[number][0]))

    def build(self):
        """Add all nodes, those of inner modules as calls of these."""
        span = list(self.span)
        while span:
            child = self._child(span[0])
            count = next((i for i, n in enumerate(span) if self._child(n) != child), len(span))
            if child is None:
                for n in span[:count]:
                    self._one(n)
            else:
                self._call_child(child, range(span[0], span[0] + count))
            span = span[count:]

    def _child(self, n):
        """Return the name of the inner module that a node belongs to; None for one of this module itself."""
        path = self.all[n][4]
        inside = path.removeprefix(self.path + ".") if self.path else path
        return inside.split(".")[0] if inside and path != self.path else None

    def _one(self, n):
        *node, no_grad = self.all[n]
        self._take(_values_in(node[2]))
        if no_grad:
            self.graph.call_function(facula.set_grad_enabled, (False,))
        self._call(*node)
        for name, graph in self.modules.items():
            if name not in self.module._modules:
                self.module.add_module(name, graph)
        if no_grad:
            self.graph.call_function(facula.set_grad_enabled, (True,))

    def _take(self, values):
        """Read parameters that nodes take where they are held."""
        for number in values:
            if number not in self.nodes and number in self.held:
                own = self.held[number].removeprefix(self.path + "." if self.path else "")
                self._note(number, self.graph.get_attr(own))

    def _call_child(self, child, span):
        path = f"{self.path}.{child}" if self.path else child
        made = {v for n in span for one in self.all[n][3] for v in one}
        taken = dict.fromkeys(v for n in span for v in _values_in(self.all[n][2]) if v not in made)
        given = [v for v in taken if not self.held.get(v, "").startswith(path + ".")]
        later = {v for node in self.all[span[-1] + 1 :] for v in _values_in(node[2])} | set(_values_in(self.program.outputs))
        left = [v for v in dict.fromkeys(v for n in span for one in self.all[n][3] for v in one) if v in later]
        name = self._place(child)
        inner = _Part(self.program, self.module._modules[name], path, span)
        for v in given:
            inner.placeholder(v)
        inner.build()
        inner.graph.output(tuple(inner.nodes[v] for v in left))
        self.module._modules[name] = InterpreterModule(inner.module, inner.graph, "InterpreterModule")
        self._take(given)
        call = self.graph.call_module(name, tuple(self.nodes[v] for v in given))
        for i, v in enumerate(left):
            self._note(v, self.graph.call_function(operator.getitem, (call, i), name=self.values[v][0]))

    def _place(self, child):
        """Return the name of the module for this call: another one from the second on."""
        count = self.calls[child] = self.calls.get(child, -1) + 1
        if child not in self.module._modules:
            self.module.add_module(child, facula.nn.Module())
        if count == 0:
            return child
        name, first = f"{child}@{count}", self.module._modules[child]
        twin = facula.nn.Module()
        for path, tensor in (*first.named_parameters(), *first.named_buffers()):
            _keep(twin, path, tensor, "parameter" if isinstance(tensor, facula.nn.Parameter) else "buffer", True)
        self.module.add_module(name, twin)
        return name
