"""Provide names that programs import from this module."""

from __future__ import annotations


def first_call_function_nn_module_stack(graph):
    """Return the module stack of the first call of a function that has one, or None."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return node.meta["nn_module_stack"]
    return None


def get_node_context(node, num_nodes=2):
    """Return the last few nodes up to this one, as text."""
    lines, current = [], node
    while len(lines) < num_nodes and current.op != "root":
        lines.append(current.format_node())
        current = current.prev
    return "\n".join(line for line in reversed(lines) if line)
