"""Define the program that was exported from a module: its graph, its tensors, and how it is called."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula.export import graph_signature as signatures
from facula.export._graph import Builder
from facula.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from facula.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from facula import Tensor
    from facula.export.graph_signature import ExportGraphSignature
    from facula.fx.graph import Graph
    from facula.fx.graph_module import GraphModule
    from facula.utils._pytree import LeafSpec, TreeSpec

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


# ---- An exported program as a module: parameters under their paths, called with the arguments of the original


def _keep(root, path, tensor, kind, persistent):
    """Give a module a parameter or a buffer under a path, with modules on the way."""
    *parents, name = path.split(".")
    for parent in parents:
        if parent not in root._modules:
            root.add_module(parent, facula.nn.Module())
        root = root._modules[parent]
    if kind == "parameter":
        root.register_parameter(name, tensor if isinstance(tensor, facula.nn.Parameter) else facula.nn.Parameter(tensor))
    else:
        root.register_buffer(name, tensor, persistent=persistent and kind == "buffer")


def _unlift(exported, check_guards):
    """Return the GraphModule of `ExportedProgram.module()`."""
    program, root = exported.program, facula.nn.Module()
    kinds = {path: (kind, persistent) for kind, _, path, persistent, _, _ in program.inputs}
    builder = Builder(program, lifted=False, keep=lambda path, tensor: _keep(root, path, tensor, *kinds[path]))
    outputs = builder.run()
    spec = exported.call_spec
    builder.graph.output(outputs)
    for name, graph in builder.modules.items():
        root.add_module(name, graph)
    names = _argument_names(exported)
    builder.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec.in_spec, spec.out_spec)))
    module = facula.fx.GraphModule(root, builder.graph, "GraphModule")
    if check_guards:
        guard = _Guard(exported)
        module.register_forward_pre_hook(guard, with_kwargs=True)
    return module


def _argument_names(exported):
    args, kwargs = exported.call_spec.in_spec.children_specs
    names = exported._names[: args.num_children]
    names += [f"arg_{i}" for i in range(len(names), args.num_children)]
    return [*names, *(kwargs.context or [])]


class _Guard:
    """Check inputs as the interpreter does: by a program that has the same inputs of the user, and no nodes."""

    def __init__(self, exported):
        lines = [line for line in exported.program.text().splitlines() if line.startswith(("symbol ", "guard ", "input user "))]
        self.exported, self.checks = exported, _C._Program.parse("\n".join([*lines, "return\n"]))

    def __call__(self, module, args, kwargs):
        self.checks.run(self.exported._flat_inputs(args, kwargs))


_KINDS = {
    "user": signatures.InputKind.USER_INPUT, "parameter": signatures.InputKind.PARAMETER,
    "buffer": signatures.InputKind.BUFFER, "constant": signatures.InputKind.CONSTANT_TENSOR,
}  # fmt: skip
_MUTATIONS = {
    "user": signatures.OutputKind.USER_INPUT_MUTATION, "buffer": signatures.OutputKind.BUFFER_MUTATION,
    "parameter": signatures.OutputKind.PARAMETER_MUTATION, "constant": signatures.OutputKind.BUFFER_MUTATION,
}  # fmt: skip
_ROLES = {
    "result": signatures.OutputKind.USER_OUTPUT, "loss": signatures.OutputKind.LOSS_OUTPUT,
    "parameter_gradient": signatures.OutputKind.GRADIENT_TO_PARAMETER,
    "input_gradient": signatures.OutputKind.GRADIENT_TO_USER_INPUT,
}  # fmt: skip


@dataclasses.dataclass
class ModuleCallSignature:
    """Describe how a module is called, for `ExportedProgram.module_call_graph`.

    Args:
        inputs, outputs: empty lists here.
        in_spec, out_spec: how arguments and results are nested.
        forward_arg_names: the names of forward's arguments.

    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    >>> program.module_call_graph[0].signature.forward_arg_names
    ['input']
    """

    inputs: list[Any]
    outputs: list[Any]
    in_spec: object
    out_spec: object
    forward_arg_names: list[Any] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """Describe a module by its path and how it is called: an item of `ExportedProgram.module_call_graph`.

    Args:
        fqn: its path, "" for the module that was exported.
        signature: a ModuleCallSignature, or None.

    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    >>> [entry.fqn for entry in program.module_call_graph]
    ['']
    """

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclasses.dataclass
class _CallSpec:
    in_spec: object
    out_spec: object


@dataclasses.dataclass
class _Range:
    """Bound a size from below and above; `upper` is None where there is no bound."""

    lower: int
    upper: int | None

    def __str__(self):
        return f"VR[{self.lower}, {'int_oo' if self.upper is None else self.upper}]"

    __repr__ = __str__


class ExportedProgram:
    """Hold an exported program with its parameters; `export` makes it.

    Args:
        program: a `_C._Program`.
        in_spec, out_spec: how arguments and results are nested.
        example_inputs: (args, kwargs) that it was recorded with.
        names: of forward's arguments.

    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> print(program.graph_module.code.strip())
    def forward(self, p_weight, p_bias, input):
        input_1 = input
        linear = torch.ops.aten.linear.default(input_1, p_weight, p_bias);  input_1 = p_weight = p_bias = None
        return (linear,)
    >>> [name for name, _ in program.named_parameters()], len(list(program.parameters()))
    (['weight', 'bias'], 2)
    >>> list(program.named_buffers()), list(program.buffers())
    ([], [])
    >>> program.module()(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    >>> [str(node.target) for node in program.run_decompositions().graph.nodes if node.op == "call_function"]
    ['aten.permute.default', 'aten.addmm.default']
    """

    def __init__(self, program: Any, in_spec: TreeSpec, out_spec: LeafSpec | TreeSpec,
                 example_inputs: Sequence[Sequence[Any] | dict[str, Any] | tuple[Any, ...]], names: Sequence[str] = ()) -> None:
        program.verify()
        self._program, self._example_inputs = program, example_inputs
        self._call_spec, self._names = _CallSpec(in_spec, out_spec), list(names)
        self._state_dict, self._constants = {}, {}
        for kind, _, path, persistent, tensor, _ in program.inputs:
            if kind == "parameter" or (kind == "buffer" and persistent):
                self._state_dict[path] = tensor
            elif kind != "user":
                self._constants[path] = tensor
        self._graph_module = None
        self._functional = False  # writes are at the end only

    # ---- what it is

    @property
    def program(self) -> Any:
        """The program itself."""
        return self._program

    def _writes_at_the_end(self):
        """Return {number of a node that writes: (which input, the value written)} of a program without other writes."""
        from facula.export._pt2 import mutations

        return mutations(self._program) if self._functional else {}

    @property
    def graph_module(self) -> GraphModule:
        """The program as a GraphModule whose inputs begin with parameters, buffers and constants."""
        if self._graph_module is None:
            builder = Builder(self._program, lifted=True, mutations=self._writes_at_the_end())
            outputs = builder.run()
            builder.graph.output(tuple(outputs))
            self._graph_module = facula.fx.GraphModule(builder.modules, builder.graph, "GraphModule")
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph of `graph_module`."""
        return self.graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What its inputs and outputs are."""
        values = self._program.values
        inputs = []
        for kind, number, path, persistent, _, constant in self._program.inputs:
            name, value_kind, _ = values[number]
            if value_kind == "Tensor":
                arg = signatures.TensorArgument(name)
            else:
                arg = signatures.ConstantArgument(name, constant)
            target = None if kind == "user" else path
            inputs.append(signatures.InputSpec(_KINDS[kind], arg, target, persistent if kind == "buffer" else None))
        outputs, roles = [], self._program.roles
        for place, value in self._writes_at_the_end().values():
            kind, number, path = self._program.inputs[place][:3]
            arg, target = signatures.TensorArgument(values[value][0]), values[number][0] if kind == "user" else path
            outputs.append(signatures.OutputSpec(_MUTATIONS[kind], arg, target))
        names = {i[2]: values[i[1]][0] for i in self._program.inputs if i[0] == "user"}
        for place, (kind, value) in enumerate(self._program.outputs):
            if kind == "value":
                arg = signatures.TensorArgument(values[value][0])
            elif kind == "expr":
                arg = signatures.SymIntArgument(value)
            else:
                arg = signatures.ConstantArgument("", value)
            role, target = roles[place] if place < len(roles) else ("result", "")
            outputs.append(signatures.OutputSpec(_ROLES[role], arg, names.get(target, target) or None))
        return signatures.ExportGraphSignature(inputs, outputs)

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by path."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Tensors that are no state: those met on the way, and buffers that are not persistent."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[Any, Any]:
        """As `constants`."""
        return self._constants

    @property
    def range_constraints(self) -> dict[str, Any]:
        """Between which every size that varies stays."""
        return {name: _Range(least, most) for name, least, most, _ in self._program.symbols}

    @property
    def example_inputs(self) -> tuple[tuple[Tensor | int, ...], dict[Any, Any]]:
        """(args, kwargs) that it was recorded with."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        self._example_inputs = value

    @property
    def call_spec(self) -> Any:
        """How arguments and results are nested: in_spec and out_spec."""
        return self._call_spec

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """How the module is called."""
        signature = ModuleCallSignature([], [], self._call_spec.in_spec, self._call_spec.out_spec, self._names)
        return [ModuleCallEntry("", signature)]

    @property
    def dialect(self) -> str:
        """"TRAINING": public ops, with writes and views as they were; "ATEN" after `run_decompositions`."""
        return "ATEN" if self._functional else "TRAINING"

    @property
    def verifiers(self) -> list[Any]:
        """Empty: a program is verified by itself."""
        return []

    def parameters(self) -> Iterator[Tensor]:
        """Yield its parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, parameter) of each."""
        for kind, _, path, _, tensor, _ in self._program.inputs:
            if kind == "parameter":
                yield path, tensor

    def buffers(self) -> Iterator[Any]:
        """Yield its buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, buffer) of each."""
        for kind, _, path, _, tensor, _ in self._program.inputs:
            if kind == "buffer":
                yield path, tensor

    # ---- running

    def _flat_inputs(self, args, kwargs):
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        if spec != self._call_spec.in_spec:
            kwargs = {name: kwargs[name] for name in self._kwargs_order() if name in kwargs}
            leaves, spec = _pytree.tree_flatten((args, kwargs))
        if spec != self._call_spec.in_spec:
            raise ValueError(f"ExportedProgram: called otherwise than exported: expected {self._call_spec.in_spec}, got {spec}")
        return leaves

    def _kwargs_order(self):
        return self._call_spec.in_spec.children_specs[1].context or []

    def _run(self, *args, **kwargs):
        """Run the program by the interpreter."""
        outputs = self._program.run(self._flat_inputs(args, kwargs))
        return _pytree.tree_unflatten(outputs, self._call_spec.out_spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ExportedProgram: it is not called itself; call what its module() returns")

    def module(self, check_guards: bool = True) -> GraphModule:
        """Return a GraphModule that is called as the module was, with the parameters under their paths.

        Args:
            check_guards: whether sizes and dtypes of the inputs are checked at every call.
        """
        return _unlift(self, check_guards)

    def run_decompositions(self, decomp_table: Any = None, decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """Return the program without writes, and with ops opened up into others.

        What buffers are in the end is written to them by nodes at the end; files have it as mutations.

        Args:
            decomp_table: functions by operator; None for `default_decompositions()`, {} to open up none.
            decompose_custom_triton_ops: without meaning.
        """
        from facula.export._functional import rewritten

        rules = default_decompositions() if decomp_table is None else decomp_table
        by_name = {getattr(key, "__name__", key): function for key, function in rules.items()}
        if by_name:  # what PyTorch has no name for is opened up, too
            by_name.update((f"facula.{key}", function) for key, function in private_rules().items())
        program = rewritten(self, by_name).dead()
        made = ExportedProgram(program, self._call_spec.in_spec, self._call_spec.out_spec, self._example_inputs, self._names)
        made._functional = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        return ExportedProgram(
            self._program.copy(), self._call_spec.in_spec, self._call_spec.out_spec, copy.deepcopy(self._example_inputs, memo),
            self._names,
        )  # fmt: skip

    def __str__(self) -> str:
        code = self.graph_module.code.strip("\n").replace("\n", "\n    ")
        signature = f"Graph signature: {self.graph_signature}\nRange constraints: {self.range_constraints}\n"
        return f"ExportedProgram:\n    {code}\n{signature}"


def private_rules() -> dict[str, Callable[..., Any]]:
    """Return the rules for ops without a name in PyTorch (`_backward_rules.py`)."""
    from facula.export._backward_rules import RULES

    return RULES


def default_decompositions() -> Any:
    """Return the rules by which ops become those of the core IR, a table that can be changed (`_decompositions.py`).

    >>> table = torch.export.default_decompositions()
    >>> torch.ops.aten.linear.default in table
    True
    """
    from facula.export._decompositions import table

    return table()
