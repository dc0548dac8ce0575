"""Define `aot_autograd`, a backend that consists of two compilers: one for a compiled function, one for its backward
passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.compiler._backends.stretches import being_compiled, graph_of, plain_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.fx.graph_module import GraphModule

__all__ = ["AotAutograd", "aot_autograd", "device_from_inputs", "dtype_from_inputs", "fake_tensor_unsupported"]


class AotAutograd:
    """Pass graphs of ATen targets to compilers: graphs of calls, and graphs of backward passes.

    The tape is the real one: what it needs of a call is among the results of the call's graph. So no graph of both passes is
    divided, and every `partition_fn` of functorch.compile comes to the same.

    Args:
        fw_compiler: is given the graph of a stretch of a call, and example inputs.
        bw_compiler: the same, of a stretch of a backward pass; None: `fw_compiler`.
        inference_compiler: the same, of a call without gradients; None: `fw_compiler`.
        decompositions: {op: function}: what the graphs have in the place of an op.
        partition_fn: one of `functorch.compile`; without effect.
        keep_inference_input_mutations: whether inputs may be written to, which no graph does; without effect.
    """

    def __init__(self, *, fw_compiler: Callable[..., Any], bw_compiler: Callable[..., Any] | None = None,
                 inference_compiler: Callable[..., Any] | None = None, decompositions: Any = None, partition_fn: Any = None,
                 keep_inference_input_mutations: bool = False) -> None:  # fmt: skip
        from facula.compiler import _partitioners

        _partitioners.check(partition_fn)
        self.fw_compiler, self.bw_compiler = fw_compiler, bw_compiler or fw_compiler
        self.inference_compiler, self.decompositions = inference_compiler or fw_compiler, decompositions
        self.__name__ = "aot_autograd"
        self.kwargs = {"fw_compiler": fw_compiler, "bw_compiler": bw_compiler, "decompositions": decompositions}

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        stretches = being_compiled()
        if stretches is not None:
            stretches.compile_backward_by(lambda graph, examples: self._compiled(self.bw_compiler, graph, examples))
        trains = stretches.trains if stretches is not None else any(x.requires_grad for x in example_inputs)
        return self._compiled(self.fw_compiler if trains else self.inference_compiler, gm, example_inputs)

    def _compiled(self, compiler, graph, examples):
        if self.decompositions:
            graph = graph_of(graph, examples, self.decompositions)
        return plain_call(compiler(graph, list(examples)))


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """Return a backend of compilers for calls and for backward passes.

    Args:
        kwargs: `fw_compiler`, and the others of `AotAutograd`.

    >>> from facula._dynamo.backends.common import aot_autograd
    >>> def compiler(graph, examples):
    ...     print([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
    ...     return graph.forward
    >>> x = torch.ones(2, requires_grad=True)
    >>> f = torch.compile(lambda x: x.sin().sum(), backend=aot_autograd(fw_compiler=compiler))
    >>> f(x).backward()
    ['aten.sin.default', 'aten.sum.default']
    ['aten.cos.default', 'aten.mul.Tensor']
    """
    return AotAutograd(**kwargs)


def device_from_inputs(example_inputs: Sequence[Any]) -> Any:
    """Return the device of the first input that has one.

    Args:
        example_inputs: tensors and others.
    """
    return next(x.device for x in example_inputs if hasattr(x, "device"))


def dtype_from_inputs(example_inputs: Sequence[Any]) -> Any:
    """Return the dtype of the first input that has one.

    Args:
        example_inputs: tensors and others.
    """
    return next(x.dtype for x in example_inputs if hasattr(x, "dtype"))


def fake_tensor_unsupported(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give a backend back: example inputs are real tensors in any case.

    Args:
        fn: the backend.
    """
    return fn
