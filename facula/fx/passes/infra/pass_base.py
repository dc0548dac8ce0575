"""What a pass is."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, NamedTuple

import facula
from facula.fx._compatibility import compatibility

if TYPE_CHECKING:
    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module

__all__ = ["PassResult", "PassBase"]


@compatibility(is_backward_compatible=False)
class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it was changed."""

    graph_module: facula.nn.Module
    modified: bool


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass: `call` changes a module; `requires` and `ensures` look at it before and after."""

    def __call__(self, graph_module: Module) -> PassResult:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> None:
        """Does the work and gives a PassResult, or None.

        Args:
            graph_module: the module.
        """

    def requires(self, graph_module: Module) -> None:  # noqa: B027
        """Called before; raises where the module is not as the pass needs it.

        Args:
            graph_module: the module.
        """

    def ensures(self, graph_module: Module) -> None:  # noqa: B027
        """Called after; raises where the module is not as it should be.

        Args:
            graph_module: the module.
        """
