"""Describe the inputs and outputs of an exported program."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
    "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """Name a tensor of the graph.

    Args:
        name: the name.

    >>> torch.export.graph_signature.TensorArgument("x")
    TensorArgument(name='x')
    """

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """Name an integer of the graph that varies.

    Args:
        name: the name.

    >>> torch.export.graph_signature.SymIntArgument("s0")
    SymIntArgument(name='s0')
    """

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """Name a number of the graph that varies.

    Args:
        name: the name.

    >>> torch.export.graph_signature.SymFloatArgument("scale")
    SymFloatArgument(name='scale')
    """

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """Name a truth value of the graph that varies.

    Args:
        name: the name.

    >>> torch.export.graph_signature.SymBoolArgument("flag")
    SymBoolArgument(name='flag')
    """

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """Name an object of a class that an extension registers; Facula's programs have none.

    Args:
        name: its name in the graph.
        class_fqn: the name of its class.
        fake_val: what stands for it, or None.

    >>> torch.export.graph_signature.CustomObjArgument("queue", "__torch__.torch.classes.mine.Queue")
    CustomObjArgument(name='queue', class_fqn='__torch__.torch.classes.mine.Queue', fake_val=None)
    """

    name: str
    class_fqn: str
    fake_val: object = None


@dataclasses.dataclass
class ConstantArgument:
    """Hold a value that is the same in every run.

    Args:
        name: its name in the graph.
        value: a number, text or None.

    >>> torch.export.graph_signature.ConstantArgument("scale", 2)
    ConstantArgument(name='scale', value=2)
    """

    name: str
    value: object


class InputKind(enum.Enum):
    """Name the kind of an input.

    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> [spec.kind.name for spec in program.graph_signature.input_specs]
    ['PARAMETER', 'PARAMETER', 'USER_INPUT']
    """

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """Name the kind of an output.

    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> [spec.kind.name for spec in program.graph_signature.output_specs]
    ['USER_OUTPUT']
    """

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class InputSpec:
    """Describe an input.

    Args:
        kind: what it is.
        arg: its name in the graph, with its type.
        target: the path of a parameter, a buffer or a constant.
        persistent: of a buffer: whether it is part of the state_dict.

    Errors: AssertionError for a buffer without `persistent`.

    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> [spec.target for spec in program.graph_signature.input_specs]
    ['weight', 'bias', None]
    """

    kind: InputKind
    arg: object
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("InputSpec: a buffer needs persistent, got None")


@dataclasses.dataclass
class OutputSpec:
    """Describe an output.

    Args:
        kind: what it is.
        arg: its name in the graph, with its type, or a constant.
        target: what a mutation goes into.

    >>> program = torch.export.export(nn.ReLU(), (torch.ones(2),))
    >>> program.graph_signature.output_specs[0]
    OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, arg=TensorArgument(name='relu'), target=None)
    """

    kind: OutputKind
    arg: object
    target: str | None


@dataclasses.dataclass
class ExportBackwardSignature:
    """Map the outputs of a graph with gradients to the inputs that they belong to.

    Args:
        gradients_to_parameters: {output: path of a parameter}
        gradients_to_user_inputs: {output: name of an input}
        loss_output: the output that is the loss.

    >>> torch.export.ExportBackwardSignature({"grad": "weight"}, {}, "loss").loss_output
    'loss'
    """

    gradients_to_parameters: dict[Any, Any]
    gradients_to_user_inputs: dict[Any, Any]
    loss_output: str


def _name(arg):
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """Describe the inputs and outputs of a graph, in order: `ExportedProgram.graph_signature`.

    Args:
        input_specs: a list of InputSpec.
        output_specs: a list of OutputSpec.

    >>> signature = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),)).graph_signature
    >>> signature.parameters, signature.user_inputs, signature.user_outputs
    (('weight', 'bias'), ('input',), ('linear',))
    """

    input_specs: list[Any]
    output_specs: list[Any]

    def _targets(self, *kinds):
        return {s.arg.name: s.target for s in self.input_specs if s.kind in kinds}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Paths of the parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Paths of the buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str]:
        """Paths of the buffers that the state_dict does not hold."""
        return tuple(s.target for s in self.input_specs if s.kind == InputKind.BUFFER and s.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[Any, ...]:
        """Names of tensors that were met on the way."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def lifted_custom_objs(self) -> tuple[()]:
        """Empty: programs hold no objects."""
        return ()

    @property
    def user_inputs(self) -> tuple[str, ...]:
        """Names, or constant values, of the caller's inputs."""
        return tuple(_name(s.arg) for s in self.input_specs if s.kind == InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[str, int, None]:
        """Names, or constant values, of what the caller gets."""
        return tuple(_name(s.arg) for s in self.output_specs if s.kind == OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Name in the graph to path."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Name in the graph to path."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[Any, Any]:
        """Name in the graph to name of the constant."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> dict[Any, Any]:
        """Empty."""
        return {}

    def _mutated(self, kind):
        return {s.arg.name: s.target for s in self.output_specs if s.kind == kind}

    @property
    def buffers_to_mutate(self) -> dict[Any, Any]:
        """Output to path of a buffer; empty while mutation stands in the graph as it is."""
        return self._mutated(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[Any, Any]:
        """Output to path of a parameter."""
        return self._mutated(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[Any, Any]:
        """Output to name of an input."""
        return self._mutated(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Which outputs are gradients, and of what; None where the graph has no loss."""
        losses = [s.arg.name for s in self.output_specs if s.kind == OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        return ExportBackwardSignature(
            self._mutated(OutputKind.GRADIENT_TO_PARAMETER), self._mutated(OutputKind.GRADIENT_TO_USER_INPUT), losses[0]
        )

    @property
    def assertion_dep_token(self) -> None:
        """None."""
        return None

    @property
    def input_tokens(self) -> tuple[()]:
        """Empty."""
        return ()

    @property
    def output_tokens(self) -> tuple[()]:
        """Empty."""
        return ()
