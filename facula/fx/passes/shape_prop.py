"""Find shapes and dtypes of nodes by running the graph."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import facula
from facula.fx._compatibility import compatibility
from facula.fx.interpreter import Interpreter
from facula.fx.node import map_aggregate

if TYPE_CHECKING:
    from facula import Tensor
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["TensorMetadata", "ShapeProp"]


@compatibility(is_backward_compatible=True)
class TensorMetadata(NamedTuple):
    """Describe a tensor without its values; ShapeProp stores it in `meta["tensor_meta"]`.

    Args:
        shape, dtype, requires_grad: the tensor's.
        stride: its strides, a tuple.
        memory_format: contiguous_format, channels_last or channels_last_3d, or None where it is none of these.
        is_quantized: False here.
        qparams: {} here.

    >>> from facula.fx.passes.shape_prop import ShapeProp
    >>> gm = facula.fx.symbolic_trace(lambda x: x.t())
    >>> y = ShapeProp(gm).propagate(facula.ones(2, 3))
    >>> list(gm.graph.nodes)[1].meta["tensor_meta"].stride
    (1, 3)
    """

    shape: facula.Size
    dtype: facula.dtype
    requires_grad: bool
    stride: tuple[Any, ...]
    memory_format: facula.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


_FORMATS = (facula.contiguous_format, facula.channels_last, facula.channels_last_3d)


def _memory_format(tensor):
    for found in _FORMATS:
        dims = {facula.channels_last: 4, facula.channels_last_3d: 5}.get(found, tensor.dim())
        if tensor.dim() == dims and tensor.is_contiguous(memory_format=found):
            return found
    return None


def _extract_tensor_metadata(result, include_contiguity=True):
    """Return the TensorMetadata of a tensor."""
    found = _memory_format(result) if include_contiguity else None
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {})


def fake_copy(module: Module, mode: str) -> Module:
    """Return a copy of a module with fake parameters and buffers."""
    memo = {}
    for tensor in (*module.parameters(), *module.buffers()):
        memo[id(tensor)] = mode.from_tensor(tensor)
    return copy.deepcopy(module, memo)


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """Run a graph, and store "tensor_meta" and "type" of each node's result in its `meta`.

    Args:
        gm: the GraphModule.
        fake_mode: a mode of fake tensors in which it runs, so that nothing is computed.

    Errors: RuntimeError, with the node, where one cannot be run.

    >>> from facula.fx.passes.shape_prop import ShapeProp
    >>> gm = facula.fx.symbolic_trace(lambda x: x.reshape(-1))
    >>> y = ShapeProp(gm).propagate(facula.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in gm.graph.nodes]
    [(2, 3), (6,), (6,)]
    """

    def __init__(self, gm: Module, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module = None
        self.real_module: Any = self.module
        if fake_mode is not None:
            self.fake_module: Module | None = fake_copy(self.module, fake_mode)

    def run_node(self, n: Node) -> Tensor | Any:
        """Return the value of a node, whose `meta` gets what is known of it.

        Args:
            n: the node.
        """
        result = self._run(n)
        found_tensor = False

        def describe(value):
            nonlocal found_tensor
            if isinstance(value, facula.Tensor):
                found_tensor = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, describe)
        if found_tensor:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def _run(self, n):
        try:
            if self.fake_mode is None:
                return super().run_node(n)
            self.module = self.fake_module
            try:
                with self.fake_mode:
                    return super().run_node(n)
            finally:
                self.module: Any = self.real_module
        except Exception as error:
            raise RuntimeError(f"ShapeProp: a node cannot be run: {n.format_node()} with meta={n.meta}") from error

    def propagate(self, *args: Any) -> tuple[Tensor, Tensor]:
        """Run the graph and give its result.

        Args:
            args: the arguments.
        """
        if self.fake_mode is not None:
            args = [self.fake_mode.from_tensor(a) if isinstance(a, facula.Tensor) else a for a in args]
        return super().run(*args)


