"""Find a pattern whose nodes have names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.fx._compatibility import compatibility
from facula.fx.passes.utils.matcher_utils import SubgraphMatcher

if TYPE_CHECKING:
    from facula.fx.graph import Graph
    from facula.fx.passes.utils.matcher_utils import InternalMatch
    from facula.nn.modules.module import Module

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm):
    """Return the graph without the dict of names that it gives last, and that dict."""
    output = gm.graph.output_node()
    flat = output.args[0]
    if not isinstance(flat, (list, tuple)) or not flat or not isinstance(flat[-1], dict):
        raise AssertionError(
            "SubgraphMatcherWithNameNodeMap: the last result of the pattern must be a dict, got something else"
        )
    *values, names = flat
    output.args = (tuple(values),)
    gm.recompile()
    return gm, dict(names)


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Find a pattern whose last result is a dict {name: node}; a match maps each of these names to a node of the graph.

    Args:
        pattern_gm: the GraphModule of the pattern.
        match_output, match_placeholder, remove_overlapping_matches, ignore_literals: as of SubgraphMatcher.

    >>> from facula.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
    >>> def pattern(x):
    ...     plus = x + 1
    ...     return facula.relu(plus), {"inner": plus}
    >>> matcher = SubgraphMatcherWithNameNodeMap(facula.fx.symbolic_trace(pattern))
    >>> [match] = matcher.match(facula.fx.symbolic_trace(lambda y: facula.relu(y + 1)).graph)
    >>> match.name_node_map
    {'inner': add}
    """

    name_node_map: Any

    def __init__(self, pattern_gm: Module, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:  # fmt: skip
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the list of occurrences in a graph.

        Args:
            graph: where to look.
            node_name_match: nodes whose name contains this match whatever they do.
        """
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
        return found
