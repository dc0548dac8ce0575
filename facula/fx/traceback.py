"""Record where nodes come from, while graphs are run to make other graphs."""

from __future__ import annotations

import contextlib
import copy
import enum
import threading
import traceback as _traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from facula.fx.graph import Graph
    from facula.fx.node import Node, Target

__all__ = [
    "annotate", "annotate_fn", "preserve_node_meta", "has_preserved_node_meta", "set_stack_trace", "set_grad_fn_seq_nr",
    "reset_grad_fn_seq_nr", "format_stack", "set_current_meta", "get_current_meta", "NodeSource", "NodeSourceAction",
    "get_graph_provenance_json", "set_current_replay_node", "get_current_replay_node",
]  # fmt: skip


class _State(threading.local):
    def __init__(self):
        self.meta, self.preserve, self.replayed = {}, False, None


_state = _State()


class NodeSourceAction(enum.Enum):
    """Name what a pass did to make a node.

    >>> [action.name for action in facula.fx.traceback.NodeSourceAction]
    ['CREATE', 'REPLACE']
    """

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    r"""Name the node from which a node was made, and the pass that made it.

    Args:
        node: the node that was there before, or None.
        pass_name: the pass.
        action: what it did, or a list of that.

    >>> from facula.fx.traceback import NodeSource, NodeSourceAction
    >>> source = NodeSource(facula.fx.Graph().placeholder("x"), "mine", NodeSourceAction.REPLACE)
    >>> source.to_dict()["action"]
    'replace'
    >>> source.print_readable()
    '(name=x, pass_name=mine, action=replace)\n'
    """

    def __init__(self, node: Node | None, pass_name: str = "", action: NodeSourceAction | None = None) -> None:
        self.pass_name = pass_name
        actions = action if isinstance(action, list) else [action]
        self.action: list[Any] = [a for a in actions if a is not None]
        self.node_info: tuple[str, Target, int] | None = None if node is None else (node.name, node.target, id(node.graph))
        self.name: str = node.name if node is not None else ""
        self.target: str = str(node.target) if node is not None else ""
        self.graph_id: int = id(node.graph) if node is not None else -1
        self.from_node: Any = copy.copy(node.meta.get("from_node", [])) if node is not None else []

    def _get_action_string(self):
        return "+".join(action.name.lower() for action in self.action)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: a dict with "name", "target", "graph_id", "pass_name", "action" and, in the same form,
        "from_node".
        """
        return {
            "name": self.name, "target": self.target, "graph_id": self.graph_id, "pass_name": self.pass_name,
            "action": self._get_action_string(), "from_node": [source.to_dict() for source in self.from_node],
        }  # fmt: skip

    def print_readable(self, indent: int = 0) -> str:
        """Return indented text.

        Args:
            indent: by how much.
        """
        line = f"{' ' * indent}(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()})\n"
        return line + "".join(source.print_readable(indent + 4) for source in self.from_node)

    def __repr__(self) -> str:
        return self.print_readable()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.target, self.graph_id, self.pass_name))


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True):
    """Let new nodes within it get the meta of the nodes that are run to make them, as by Interpreter and Transformer.

    Args:
        enable: False turns that off within.

    >>> import facula.fx.traceback as fx_traceback
    >>> with fx_traceback.preserve_node_meta():
    ...     fx_traceback.has_preserved_node_meta()
    True
    >>> fx_traceback.has_preserved_node_meta()
    False
    """
    before, before_meta = _state.preserve, _state.meta
    _state.preserve, _state.meta = enable, dict(before_meta)
    try:
        yield
    finally:
        _state.preserve, _state.meta = before, before_meta


def has_preserved_node_meta() -> bool:
    """Return whether new nodes get meta of others.

    >>> facula.fx.traceback.has_preserved_node_meta()
    False
    """
    return _state.preserve


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]):
    """Give nodes made within these entries in `meta["custom"]`.

    Args:
        annotation_dict: the entries; those of annotations around it stay.

    >>> import facula.fx.traceback as fx_traceback
    >>> def step(x):
    ...     with fx_traceback.annotate({"stage": 1}):
    ...         return x + 1
    >>> gm = facula.fx.symbolic_trace(step)
    >>> list(gm.graph.nodes)[1].meta["custom"]
    {'stage': 1}
    """
    before, preserved = _state.meta, _state.preserve
    _state.meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    _state.preserve = True
    try:
        yield
    finally:
        _state.meta, _state.preserve = before, preserved


def annotate_fn(annotation_dict: Any) -> Any:
    """Return a decorator: nodes made by the function get these entries in `meta["custom"]`.

    Args:
        annotation_dict: the entries.

    >>> import facula.fx.traceback as fx_traceback
    >>> step = fx_traceback.annotate_fn({"stage": 2})(lambda x: x + 1)
    >>> gm = facula.fx.symbolic_trace(lambda x: step(x))
    >>> list(gm.graph.nodes)[1].meta["custom"]
    {'stage': 2}
    """
    import functools

    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return run

    return decorate


def set_stack_trace(stack: Any) -> None:
    r"""Set the stack trace of nodes to come, where meta is kept (`preserve_node_meta`); without effect elsewhere.

    Args:
        stack: the trace as a list of text, joined.

    >>> import facula.fx.traceback as fx_traceback
    >>> with fx_traceback.preserve_node_meta():
    ...     fx_traceback.set_stack_trace(["line 1\n", "line 2"])
    ...     fx_traceback.format_stack()
    ['line 1\nline 2']
    """
    if _state.preserve and stack:
        _state.meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: Any) -> None:
    """Note the number of the node of autograd that runs, where meta is kept, as the last of "grad_fn_seq_nr".

    Args:
        seq_nr: the number.

    >>> import facula.fx.traceback as fx_traceback
    >>> with fx_traceback.preserve_node_meta():
    ...     fx_traceback.set_grad_fn_seq_nr(7)
    ...     print(fx_traceback.get_current_meta())
    ...     fx_traceback.reset_grad_fn_seq_nr()
    ...     print(fx_traceback.get_current_meta())
    {'grad_fn_seq_nr': [7]}
    {}
    """
    if _state.preserve:
        _state.meta["grad_fn_seq_nr"] = [*_state.meta.get("grad_fn_seq_nr", []), seq_nr]


def reset_grad_fn_seq_nr() -> None:
    """Take back the number that `set_grad_fn_seq_nr` noted last.

    >>> facula.fx.traceback.reset_grad_fn_seq_nr()
    """
    if _state.preserve:
        numbers = _state.meta.get("grad_fn_seq_nr", [])[:-1]
        _state.meta["grad_fn_seq_nr"] = numbers
        if not numbers:
            del _state.meta["grad_fn_seq_nr"]


def format_stack() -> list[Any] | list[str]:
    """Return the stack trace of nodes to come, as a list of text; where no meta is kept, that of the program itself.

    >>> import facula.fx.traceback as fx_traceback
    >>> with fx_traceback.preserve_node_meta():
    ...     fx_traceback.format_stack()
    ['']
    """
    if _state.preserve:
        return [_state.meta.get("stack_trace", "")]
    return _traceback.format_list(_traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = ""):
    """Let new nodes within it get the meta of `node`, where meta is kept, and a NodeSource of it as "from_node".

    Args:
        node: the node.
        pass_name: who makes the new nodes.

    >>> import facula.fx.traceback as fx_traceback
    >>> node = facula.fx.Graph().placeholder("x")
    >>> node.meta["stage"] = 1
    >>> with fx_traceback.preserve_node_meta(), fx_traceback.set_current_meta(node, "mine"):
    ...     sorted(fx_traceback.get_current_meta())
    ['from_node', 'stage']
    """
    if not (_state.preserve and node.meta):
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    _state.meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        _state.meta = before


def get_current_meta() -> dict[str, Any]:
    """Return the meta that new nodes get.

    >>> facula.fx.traceback.get_current_meta()
    {}
    """
    return _state.meta


@contextlib.contextmanager
def set_current_replay_node(node: Node):
    """Make `node` the one that is run within it (`get_current_replay_node`).

    Args:
        node: the node.

    >>> import facula.fx.traceback as fx_traceback
    >>> with fx_traceback.set_current_replay_node(facula.fx.Graph().placeholder("x")):
    ...     fx_traceback.get_current_replay_node()
    x
    """
    before, _state.replayed = _state.replayed, node
    try:
        yield
    finally:
        _state.replayed = before


def get_current_replay_node() -> Any:
    """Return the node that is run within `set_current_replay_node`, else None.

    >>> facula.fx.traceback.get_current_replay_node() is None
    True
    """
    return _state.replayed


def get_graph_provenance_json(graph: Graph) -> dict[Any, list[Any]]:
    """Return {name of a node: the list of its sources as dicts (NodeSource.to_dict)} of a graph.

    Args:
        graph: the graph.

    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> list(gm.graph.nodes)[1].meta["from_node"] = [facula.fx.traceback.NodeSource(None, "mine")]
    >>> {name: len(found) for name, found in facula.fx.traceback.get_graph_provenance_json(gm.graph).items()}
    {'x': 0, 'add': 1, 'output': 0}
    """
    return {node.name: [source.to_dict() for source in node.meta.get("from_node", [])] for node in graph.nodes}
