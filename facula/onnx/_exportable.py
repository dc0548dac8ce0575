"""Modules that know how they are exported."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from facula import nn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._program import ONNXProgram


class ExportableModule(nn.Module, abc.ABC):
    """A module that tells its example arguments, and the names and sizes in its file.

    Subclasses define `forward` and `example_arguments`, and where they want to `input_names`, `output_names` and
    `dynamic_shapes`. Their constructors take what they want (`args`, `kwargs`).

    >>> class Twice(torch.onnx.ExportableModule):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def example_arguments(self):
    ...         return (torch.ones(2, 3),), None
    ...     def dynamic_shapes(self):
    ...         return ({0: "batch"},)
    >>> program = Twice().to_onnx()
    >>> program.input_names, program
    (['x'], ONNXProgram(opset 20, 1 nodes, inputs: Value(x: float32['batch', 3])))
    >>> Twice().example_arguments()[1], Twice().output_names(), Twice().dynamic_shapes()
    (None, None, ({0: 'batch'},))
    """

    @abc.abstractmethod
    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """Examples of the arguments of forward: a tuple of those by place, and a dict of those by name or None."""

    def input_names(self) -> Sequence[str] | None:
        """What inputs are called in the file; None: as in the program."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """What outputs are called in the file; None: as in the program."""
        return None

    def dynamic_shapes(self) -> Any:
        """Which sizes vary, as `onnx.export` takes it; None: no size."""
        return None

    def to_onnx(self, **options: Any) -> ONNXProgram | Any:
        """`onnx.export` of this module.

        Args:
            options: the other arguments of `onnx.export`, such as `f` and `opset_version`.
        """
        from ._export import export

        return export(self, **options)
