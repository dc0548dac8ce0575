"""Find fake tensors for nodes by running the graph on them, so that nothing is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula._tensor.fake import FakeTensorMode
from facula.fx._compatibility import compatibility
from facula.fx.interpreter import Interpreter
from facula.fx.node import map_aggregate
from facula.fx.passes.shape_prop import _extract_tensor_metadata, fake_copy
from facula.utils import _pytree

if TYPE_CHECKING:
    from typing import Any

    from facula.fx.node import Node, Target
    from facula.nn.modules.module import Module

__all__ = ["FakeTensorProp"]


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Run a graph on fake tensors, and store each node's result in its `meta` under "val".

    Args:
        module: the GraphModule.
        mode: the mode of the fake tensors.

    >>> from facula.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> gm = facula.fx.symbolic_trace(nn.Linear(3, 2))
    >>> FakeTensorProp(gm).propagate(facula.ones(4, 3)).shape
    torch.Size([4, 2])
    >>> [(node.name, tuple(node.meta["val"].shape)) for node in gm.graph.nodes if node.op == "call_function"]
    [('linear', (4, 2))]
    """

    def __init__(self, module: Module, mode: Any = None) -> None:
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()
        self._real, self._fakes = module, {}

    def fetch_attr(self, target: Target) -> Any:
        """Return what lies at a path of the module; of modules, a copy with fake tensors.

        Args:
            target: the path.
        """
        found = super().fetch_attr(target)
        if target not in self._fakes:
            if isinstance(found, facula.Tensor):
                found = self._mode.from_tensor(found)
            elif isinstance(found, facula.nn.Module):
                found = fake_copy(found, self._mode)
            self._fakes[target] = found
        return self._fakes[target]

    def run_node(self, n: Node) -> Any:
        """Return the value of a node, which its `meta` gets.

        Args:
            n: the node.
        """
        result = super().run_node(n)
        keep = lambda value: value if isinstance(value, (facula.Tensor, int, float, bool)) else None
        meta = map_aggregate(result, keep)
        if meta is not None:
            n.meta["val"] = meta
            n.meta.setdefault("tensor_meta", _described(meta))
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake tensors like the arguments.

        Args:
            args: the arguments.
        """
        fake = lambda a: self._mode.from_tensor(a) if isinstance(a, facula.Tensor) else a
        return self.propagate_dont_convert_inputs(*_pytree.tree_map(fake, args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on arguments that are fake already.

        Args:
            args: the arguments.

        >>> from facula._subclasses.fake_tensor import FakeTensorMode
        >>> from facula.fx.passes.fake_tensor_prop import FakeTensorProp
        >>> mode, gm = FakeTensorMode(), facula.fx.symbolic_trace(lambda x: x + 1)
        >>> FakeTensorProp(gm, mode).propagate_dont_convert_inputs(mode.from_tensor(facula.ones(2))).shape
        torch.Size([2])
        """
        with self._mode:
            return super().run(*args)


def _described(meta):
    return map_aggregate(meta, lambda v: _extract_tensor_metadata(v) if isinstance(v, facula.Tensor) else v)
