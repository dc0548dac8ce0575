"""Define the base class and the result of passes."""

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
    """Hold the result of a pass.

    Args:
        graph_module: the module.
        modified: whether it was changed.

    >>> from facula.fx.passes.infra.pass_base import PassResult
    >>> PassResult(nn.ReLU(), False)
    PassResult(graph_module=ReLU(), modified=False)
    """

    graph_module: facula.nn.Module
    modified: bool


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """Change a module in `call`; `requires` and `ensures` check it before and after. It is the base class of passes.

    >>> from facula.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Checked(PassBase):
    ...     def requires(self, graph_module):
    ...         graph_module.graph.lint()
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> result = Checked()(facula.fx.symbolic_trace(lambda x: x + 1))
    >>> result.modified
    False
    """

    def __call__(self, graph_module: Module) -> PassResult:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> None:
        """Do the work and give a PassResult, or None.

        Args:
            graph_module: the module.

        >>> facula.fx.passes.infra.pass_base.PassBase.call.__isabstractmethod__
        True
        """

    def requires(self, graph_module: Module) -> None:  # noqa: B027
        """Check the module before: raise where it is not as the pass needs it.

        Args:
            graph_module: the module.

        >>> class Empty(facula.fx.passes.infra.pass_base.PassBase):
        ...     def call(self, graph_module):
        ...         return None
        >>> Empty().requires(nn.ReLU())
        """

    def ensures(self, graph_module: Module) -> None:  # noqa: B027
        """Check the module after: raise where it is not as it should be.

        Args:
            graph_module: the module.

        >>> class Empty(facula.fx.passes.infra.pass_base.PassBase):
        ...     def call(self, graph_module):
        ...         return None
        >>> Empty().ensures(nn.ReLU())
        """
