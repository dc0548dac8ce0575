"""Replace every occurrence of a small graph in a larger one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import facula
from facula.fx._compatibility import compatibility
from facula.fx._symbolic_trace import symbolic_trace
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula.nn.modules.module import Module

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(NamedTuple):
    """Describe where a pattern was found; `replace_pattern` returns it.

    Args:
        anchor: its last node.
        nodes_map: node of the pattern -> node of the graph.

    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x + 1))
    >>> [match] = facula.fx.replace_pattern(gm, lambda x: x + 1, lambda x: x + 2)
    >>> match.anchor, match.nodes_map
    (add, {add: add, x: x})
    """

    anchor: Node
    nodes_map: dict[Any, Any]


@dataclass
class ReplacedPatterns:
    """Describe where a pattern was found, and the nodes that replaced it; `replace_pattern_with_filters` returns it.

    Args:
        anchor: its last node.
        nodes_map: node of the pattern -> node of the graph.
        replacements: the new nodes.

    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x + 1))
    >>> replace = facula.fx.subgraph_rewriter.replace_pattern_with_filters
    >>> replace(gm, lambda x: x + 1, lambda x: x * 2)[0].replacements
    [mul]
    """

    anchor: Node
    nodes_map: dict[Any, Any]
    replacements: list[Any]


def _replace_attributes(gm, replacement):
    """Bring the attributes that a replacement names into the module."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _find(gm, node.target) is not None:
            continue
        found = _find(replacement, node.target)
        if found is None:
            raise RuntimeError(
                f"replace_pattern: {node.target!r}, the target of a new {node.op} node, is found neither in the module nor "
                "in the replacement"
            )
        if isinstance(found, facula.nn.Module):
            gm.add_submodule(node.target, copy.deepcopy(found))
        else:
            *prefix, field = node.target.split(".")
            holder = gm
            for part in prefix:
                if not hasattr(holder, part):
                    holder.add_module(part, facula.nn.Module())
                holder = getattr(holder, part)
            setattr(holder, field, copy.deepcopy(found))
    gm.graph.lint()


def _find(module, path):
    for part in path.split("."):
        if not hasattr(module, part):
            return None
        module = getattr(module, part)
    return module


@compatibility(is_backward_compatible=True)
def replace_pattern(gm: Module, pattern: Callable[..., Any], replacement: Callable[..., Any] | Module) -> list[Match]:
    """Replace every occurrence of `pattern` in a GraphModule, which is changed.

    Args:
        gm: the module.
        pattern: a function or module, whose parameters stand for anything.
        replacement: a function or module with the same parameters.

    Returns:
        A list of Match.

    The parameters of both stand for each other in order. Occurrences do not overlap, and values within one are not used outside
    of it.

    >>> gm = facula.fx.symbolic_trace(lambda x, y: facula.relu(x + y).sum())
    >>> matches = facula.fx.replace_pattern(gm, lambda a, b: facula.relu(a + b), lambda a, b: facula.tanh(a * b))
    >>> len(matches), gm.code.strip().splitlines()[1].strip()
    (1, 'mul = x * y;  x = y = None')
    """
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(gm: Module, pattern: Callable[..., Any], replacement: Callable[..., Any] | None = None,
                                 match_filters: Sequence[Callable[..., Any]] | None = None, ignore_literals: bool = False,
                                 replacement_callback: Any = None,
                                 node_name_match: str = "") -> list[ReplacedPatterns]:  # fmt: skip
    """Return `replace_pattern` for those occurrences that filters let through.

    Args:
        gm, pattern, replacement: as of replace_pattern.
        match_filters: functions (match, graph, pattern graph) -> bool, all of which must say yes.
        ignore_literals: if True, numbers and strings may differ.
        replacement_callback: (match, graph, pattern graph) -> the graph that takes this occurrence's place.
        node_name_match: nodes whose name contains this match whatever they do.

    Returns:
        A list of ReplacedPatterns.

    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    >>> keep = lambda match, graph, pattern: match.returning_nodes[0].args[1] == 1
    >>> replace = facula.fx.subgraph_rewriter.replace_pattern_with_filters
    >>> found = replace(gm, lambda x: x + 5, lambda x: x - 5, match_filters=[keep], ignore_literals=True)
    >>> len(found)
    1
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
    )


def _graph_of(program):
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace_pattern(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None, node_name_match=""
):
    from facula.fx.passes.utils.matcher_utils import SubgraphMatcher

    original, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, remove_overlapping_matches=True, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(original, node_name_match=node_name_match)
        if all(keep(match, original, pattern_graph) for keep in match_filters or ())
    ]
    common = _graph_of(replacement) if replacement_callback is None and replacement is not None else None
    if common is None and replacement_callback is None:
        raise AssertionError("replace_pattern: a replacement or a replacement_callback is expected, got neither")
    replaced, changed = [], {}
    for match in matches:
        new = common if common is not None else replacement_callback(match, original, pattern_graph)
        replaced.append(_replace_one(original, match, new, changed))
    gm.recompile()
    if isinstance(replacement, facula.nn.Module):
        _replace_attributes(gm, replacement)
    return replaced


def _replace_one(graph, match, replacement, changed):
    """Put the replacement in the place of one occurrence; `changed` says what became of nodes of earlier ones."""
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"replace_pattern: the pattern has {len(match.placeholder_nodes)} inputs, got a replacement with {len(inputs)}"
        )
    values = {}
    for node, given in zip(inputs, match.placeholder_nodes):
        values[node] = changed.get(given, given) if isinstance(given, Node) else given
    users = {user for node in match.returning_nodes for user in node.users}
    with graph.inserting_before(_first_place(graph, match, values, users)):
        result = graph.graph_copy(replacement, values)
    nodes_map = {pn: changed.get(gn, gn) if pn.op == "placeholder" else gn for pn, gn in match.nodes_map.items()}
    results = (result,) if isinstance(result, Node) else tuple(result) if isinstance(result, (list, tuple)) else (result,)
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"replace_pattern: the pattern gives {len(match.returning_nodes)} values, got {len(results)}")
    anchor = match.returning_nodes[0] if match.returning_nodes else None
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(_in_order(match)):
        graph.erase_node(node)
    new_nodes = [values[node] for node in replacement.nodes if node.op not in ("placeholder", "output") and node in values]
    pattern_anchor = next(iter(match.anchors), anchor)
    return ReplacedPatterns(anchor=pattern_anchor, nodes_map=nodes_map, replacements=new_nodes)


def _in_order(match):
    inner = {gn for pn, gn in match.nodes_map.items() if isinstance(gn, Node) and pn.op not in ("placeholder", "output")}
    return sorted(inner)


def _first_place(graph, match, values, users):
    """Return where the replacement goes: before the first user, behind what it takes."""
    users = users or {graph.output_node()}
    return min(users)
