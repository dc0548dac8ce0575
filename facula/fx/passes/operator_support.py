"""Decide which nodes a backend supports; partitioners call these classes."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from facula.fx._compatibility import compatibility
from facula.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import facula
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "OpSupports", "any_chain"]

TargetTypeName = str
SupportedArgumentDTypes = tuple | None
SupportDict = dict


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Decide whether a node is supported.

    >>> from facula.fx.passes.operator_support import OperatorSupportBase
    >>> class Elementwise(OperatorSupportBase):
    ...     def is_node_supported(self, submodules, node):
    ...         return node.target in (facula.relu, facula.tanh)
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x).sum())
    >>> [Elementwise().is_node_supported({}, node) for node in gm.graph.nodes if node.op.startswith("call")]
    [True, False]
    """

    @abc.abstractmethod
    def is_node_supported(self, submodules: Any, node: Node) -> None:
        """Return whether a node is supported.

        Args:
            submodules: {path: module}
            node: the node.
        """


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """Decide by a dict whether a node is supported: the dict maps the name of a target to dtypes of arguments, or to
    None for all.

    Args:
        support_dict: {name: ([dtypes of each positional argument], {name of argument: [dtypes]}) or None}

    >>> from facula.fx.passes.operator_support import OperatorSupport
    >>> support = OperatorSupport({"torch.relu": None})
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.tanh(facula.relu(x)))
    >>> [support.is_node_supported({}, node) for node in gm.graph.nodes]
    [True, True, False, True]
    """

    _support_dict: SupportDict = {}

    def __init__(self, support_dict: dict[str, Sequence[dict[Any, Any] | tuple[Any, ...]] | None] = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: dict[str, Module], node: Node) -> bool:
        """Return whether a node is supported.

        Args:
            submodules: {path: module}
            node: the node.
        """
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        by_position, by_name = wanted
        found = lambda arg: _dtype_of(arg)
        positions = all(found(node.args[at]) in dtypes for at, dtypes in enumerate(by_position) if at < len(node.args))
        return positions and all(found(node.kwargs[k]) in dtypes for k, dtypes in by_name.items() if k in node.kwargs)


def _dtype_of(arg):
    meta = getattr(arg, "meta", {})
    return getattr(meta.get("tensor_meta", meta.get("val")), "dtype", None)


class _Function(OperatorSupportBase):
    def __init__(self, is_node_supported):
        self._ask = is_node_supported

    def is_node_supported(self, submodules, node):
        return self._ask(submodules, node)


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported: Callable[..., Any]) -> Any:
    """Return an OperatorSupportBase of a function.

    Args:
        is_node_supported: (submodules, node) -> bool

    >>> from facula.fx.passes.operator_support import create_op_support
    >>> support = create_op_support(lambda submodules, node: node.op == "call_function")
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> [support.is_node_supported({}, node) for node in gm.graph.nodes]
    [False, True, False]
    """
    return _Function(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support: Any) -> Any:
    """Return a support of what all support.

    Args:
        op_support: OperatorSupportBases, which are asked in turn.

    >>> from facula.fx.passes.operator_support import OpSupports, OperatorSupport, chain
    >>> support = chain(OperatorSupport({"torch.relu": None}), OpSupports.decline_if_node_in_names({"relu_1"}))
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(facula.relu(x)))
    >>> [support.is_node_supported({}, node) for node in gm.graph.nodes if node.op == "call_function"]
    [True, False]
    """
    return _Function(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: Any) -> Any:
    """Return a support of what one supports.

    Args:
        op_support: OperatorSupportBases, which are asked in turn.

    >>> from facula.fx.passes.operator_support import OperatorSupport, any_chain
    >>> support = any_chain(OperatorSupport({"torch.relu": None}), OperatorSupport({"torch.tanh": None}))
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.exp(facula.tanh(facula.relu(x))))
    >>> [support.is_node_supported({}, node) for node in gm.graph.nodes if node.op == "call_function"]
    [True, True, False]
    """
    return _Function(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Make some OperatorSupportBases.

    >>> from facula.fx.passes.operator_support import OpSupports
    >>> support = OpSupports.decline_if_node_in_names({"add"})
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> [support.is_node_supported({}, node) for node in gm.graph.nodes]
    [True, False, True]
    >>> OpSupports.decline_if_input_dtype(facula.int64).is_node_supported({}, list(gm.graph.nodes)[1])
    True
    """

    @classmethod
    def decline_if_input_dtype(cls, dtype: facula.dtype) -> Any:
        """Return a support of what takes no tensor of a dtype, as far as dtypes of nodes are known (`meta`).

        Args:
            dtype: the dtype.
        """
        return _Function(lambda _, node: all(_dtype_of(arg) is not dtype for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> Any:
        """Return a support of all but the nodes of some names.

        Args:
            disallow_set: the names.
        """
        return _Function(lambda _, node: node.name not in disallow_set)


