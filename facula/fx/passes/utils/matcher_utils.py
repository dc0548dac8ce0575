"""Find the occurrences of a small graph in a larger one."""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import facula
from facula._operators.namespaces import OpOverload
from facula.fx.node import Node
from facula.fx.passes.utils._cycles import leads_back

if TYPE_CHECKING:
    from facula.fx.graph import Graph

__all__ = ["SubgraphMatcher", "InternalMatch"]

logger: Any = logging.getLogger(__name__)


@dataclass
class InternalMatch:
    """Describe one occurrence of a pattern; SubgraphMatcher returns it.

    Args:
        anchors: nodes of the pattern, those that give its results.
        nodes_map: node of the pattern -> node of the graph.
        placeholder_nodes: what stands for the pattern's inputs, in order.
        returning_nodes: what stands for its results.
        name_node_map: {name: node}, by SubgraphMatcherWithNameNodeMap.

    >>> from facula.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> trace = lambda f: facula.fx.symbolic_trace(f).graph
    >>> match = SubgraphMatcher(trace(lambda x: x + 1)).match(trace(lambda y: (y + 1) * 2))[0]
    >>> match.placeholder_nodes, match.returning_nodes
    ([y], [add])
    """

    anchors: list[Any]
    nodes_map: dict[Any, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Any] = field(default_factory=list)
    name_node_map: dict[Any, Any] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            anchors=self.anchors, nodes_map=self.nodes_map.copy(), placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )  # fmt: skip


class SubgraphMatcher:
    """Find a pattern in graphs.

    Args:
        pattern: the graph to look for; its inputs stand for anything.
        match_output: if True, the pattern's output must be the graph's.
        match_placeholder: if True, the pattern's inputs must be inputs.
        remove_overlapping_matches: if True, a node is in one occurrence at most.
        ignore_literals: if True, numbers and strings may differ.

    Errors: ValueError for an empty pattern, AssertionError for one with nodes that nobody uses.

    >>> from facula.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> trace = lambda f: facula.fx.symbolic_trace(f).graph
    >>> matches = SubgraphMatcher(trace(lambda x: facula.relu(x + 1))).match(trace(lambda y: facula.relu(y + 1) * 2))
    >>> matches[0].nodes_map
    {relu: relu, add: add, x: y}
    """

    match_output: bool
    match_placeholder: bool
    remove_overlapping_matches: bool
    ignore_literals: bool

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:  # fmt: skip
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not pattern.nodes:
            raise ValueError("SubgraphMatcher: the pattern has no nodes")
        for node in pattern.nodes:
            if node.op != "output" and not node.users:
                raise AssertionError(f"SubgraphMatcher: nothing in the pattern uses its node {node}")
        self.pattern_placeholder_nodes: list[Any] = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes: Any = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors: list[Any] = [n for n in output.all_input_nodes if len(n.users) == 1]

    # ---- single nodes

    def _match_attributes(self, pn, gn):
        """Return whether two get_attr nodes may stand for each other: tensors with tensors, modules with modules."""
        pattern, given = _attribute(pn), _attribute(gn)
        if isinstance(given, facula.Tensor):
            return isinstance(pattern, facula.Tensor)
        return type(given) is type(pattern) if given is not None and pattern is not None else pn.target == gn.target

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return pn.target == gn.target

    def _is_contained(self, nodes_map):
        """Return whether nobody outside uses what is inside, but for what the pattern gives."""
        inner = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        for gn, pn in inner.items():
            if pn in self.pattern_returning_nodes:
                continue
            if any(user not in inner for user in gn.users):
                return False
        return True

    def _remove_overlapping_matches(self, matches):
        kept, taken = [], set()
        for match in matches:
            inner = {gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output")}
            if not inner & taken:
                kept.append(match)
                taken |= inner
        return kept

    # ---- nodes with what they take

    def _match_literals(self, pn, gn, match):
        if isinstance(pn, Node) and isinstance(gn, Node):
            raise AssertionError("SubgraphMatcher: at most one node is expected, got two")
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return match.nodes_map[pn] == gn
            match.nodes_map[pn] = gn
            return True
        return not isinstance(gn, Node) and (type(gn) is type(pn) and gn == pn or gn == pn)

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        if not isinstance(pn, Node) or not isinstance(gn, Node):
            raise AssertionError(f"SubgraphMatcher: two nodes are expected, got {pn} and {gn}")
        if pn in match.nodes_map:
            return match.nodes_map[pn] == gn
        if gn in match.nodes_map.values():
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        saved = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if not self._match_calls(pn, gn, match):
            match.nodes_map, match.placeholder_nodes = saved.nodes_map, saved.placeholder_nodes
            return False
        return True

    def _match_calls(self, pn, gn, match):
        pargs, gargs, pkwargs, gkwargs = pn.args, gn.args, pn.kwargs, gn.kwargs
        if len(pargs) == len(gargs) and pkwargs.keys() == gkwargs.keys():
            given = [gkwargs[key] for key in pkwargs]
            return self._match_all([*pargs, *pkwargs.values()], [*gargs, *given], match)
        pattern, found = _by_name(pn), _by_name(gn)
        if pattern is None or found is None:
            return False
        return self._match_all(pattern, found, match)

    def _match_all(self, pattern, given, match):
        if isinstance(pattern, (list, tuple)) and isinstance(given, (list, tuple)):
            return len(pattern) == len(given) and all(self._match_one(p, g, match) for p, g in zip(pattern, given))
        return False

    def _match_one(self, p, g, match):
        if isinstance(p, Node) and isinstance(g, Node):
            return self._match_nodes(p, g, match)
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return self._match_all(p, g, match)
        if isinstance(p, dict) and isinstance(g, dict):
            return p.keys() == g.keys() and all(self._match_one(p[key], g[key], match) for key in p)
        if isinstance(p, slice) and isinstance(g, slice):
            return self._match_all([p.start, p.stop, p.step], [g.start, g.stop, g.step], match)
        if self.ignore_literals and not isinstance(p, Node) and not isinstance(g, Node):
            return True
        return self._match_literals(p, g, match)

    # ---- all occurrences

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the list of occurrences in a graph.

        Args:
            graph: where to look.
            node_name_match: nodes whose name contains this match whatever they do.
        """
        candidates = defaultdict(list)
        for anchor in self.pattern_anchors:
            for node in graph.nodes:
                if self._nodes_are_equal(anchor, node, node_name_match):
                    candidates[anchor].append(node)
        matches = []

        def extend(match, number):
            if number == len(self.pattern_anchors):
                match.placeholder_nodes = [match.nodes_map[pn] for pn in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
                matches.append(match)
                return
            anchor = self.pattern_anchors[number]
            for node in candidates[anchor]:
                attempt = copy.copy(match)
                if self._match_nodes(anchor, node, attempt, node_name_match):
                    extend(attempt, number + 1)

        extend(InternalMatch(anchors=self.pattern_anchors), 0)
        valid = [m for m in matches if self._is_contained(m.nodes_map) and len(m.placeholder_nodes) == len(
            self.pattern_placeholder_nodes)]  # fmt: skip
        valid = [m for m in valid if _is_acyclic(m)]
        return self._remove_overlapping_matches(valid) if self.remove_overlapping_matches else valid


def _is_acyclic(match):
    """Return whether an occurrence can become one step: none of its inputs is computed from what it gives."""
    inner = {gn for pn, gn in match.nodes_map.items() if isinstance(gn, Node) and pn.op not in ("placeholder", "output")}
    return len(match.returning_nodes) <= 1 or not leads_back(inner)


def _attribute(node):
    found = node.graph.owning_module
    for part in node.target.split("."):
        if found is None or not hasattr(found, part):
            return None
        found = getattr(found, part)
    return found


def _by_name(node):
    """Return the arguments of a call in the order of the function's own, or None where that is not known."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    from facula.fx.operator_schemas import normalize_function

    found = normalize_function(node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True)
    return None if found is None else [found.kwargs[key] for key in sorted(found.kwargs)]
