"""Define backends that inspect graphs, or run them unchanged."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from facula.compiler._backends.common import aot_autograd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.fx.graph_module import GraphModule

__all__ = ["ExplainOutput", "ExplainWithBackend", "aot_eager", "boxed_nop", "eager", "eager_noexcept", "pre_dispatch_eager"]


def eager(gm: GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Return what runs a graph as it is.

    Args:
        gm: the graph.
        fake_tensor_inputs: example inputs.
        kwargs: the mode and the options of `compile`; without effect.
    """
    return gm.forward


pre_dispatch_eager = eager


def eager_noexcept(gm: GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Return what runs a graph as it is, and says so where it fails.

    Args:
        gm: the graph.
        fake_tensor_inputs: example inputs.
        kwargs: the mode and the options of `compile`; without effect.
    """

    @functools.wraps(gm.forward)
    def inner(*args):
        try:
            return gm.forward(*args)
        except Exception as error:
            from facula.compiler._errors import TorchDynamoException

            raise TorchDynamoException(f"eager_noexcept: the graph raised {type(error).__name__}: {error}") from error

    return inner


def boxed_nop(fx_g: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Return what runs a graph as it is, on a list.

    Args:
        fx_g: the graph.
        example_inputs: example inputs.
    """
    from facula.compiler._aot import make_boxed_func

    return make_boxed_func(fx_g.forward)


aot_eager = aot_autograd(fw_compiler=boxed_nop)


class ExplainWithBackend:
    """Record the graphs that another backend receives.

    Args:
        backend: its name, or a function.

    >>> from facula._dynamo.backends.debugging import ExplainWithBackend
    >>> told = ExplainWithBackend("eager")
    >>> torch.compile(lambda x: 2 * x, backend=told)(torch.ones(2))
    tensor([2., 2.])
    >>> told.output().graph_count, told.output().op_count
    (1, 1)
    """

    def __init__(self, backend: Any) -> None:
        from facula.compiler._backends.registry import lookup_backend

        self.backend = lookup_backend(backend)
        self.graphs: list[GraphModule] = []
        self.op_count = 0

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return self.backend(gm, example_inputs)

    def output(self) -> ExplainOutput:
        """Return what it was given so far."""
        return ExplainOutput(self.graphs, len(self.graphs), len(self.graphs) - 1, [], self.op_count)


class ExplainOutput:
    """Describe the graphs that a backend received.

    Args:
        graphs: the graphs.
        graph_count, graph_break_count, op_count: how many there are, of breaks between them, and of ops.
        break_reasons: why the graphs end, as far as that is known.
    """

    def __init__(self, graphs: list[GraphModule], graph_count: int, graph_break_count: int, break_reasons: list[Any],
                 op_count: int) -> None:  # fmt: skip
        self.graphs, self.graph_count, self.graph_break_count = graphs, graph_count, graph_break_count
        self.break_reasons, self.op_count = break_reasons, op_count

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
        ]
        for i, graph in enumerate(self.graphs, 1):
            lines += [f"Graph {i}:", *(f"    {line}" for line in str(graph.code).strip().split("\n"))]
        return "\n".join(lines)
