"""Check the arguments of nodes, and the modules and attributes that they name, for `Graph.lint`."""

from __future__ import annotations


def _check_argument(graph, node, arg, seen):
    if arg.graph is not graph:
        raise RuntimeError(
            f"lint: {node} has the argument {arg}, a node of another graph; node_copy takes arg_transform, which gives the "
            f"node of this graph for it\n{graph}"
        )
    if arg not in seen:
        raise RuntimeError(
            f"lint: {node} has the argument {arg}, which comes later in the graph: expected every node after its arguments\n"
            f"{graph}"
        )


def _check_reference(module, node):
    holder = module
    parts = node.target.split(".")
    for at, part in enumerate(parts):
        if not hasattr(holder, part):
            what = "submodule" if at < len(parts) - 1 or node.op == "call_module" else "attribute"
            raise RuntimeError(
                f"Graph.lint: the target of node {node} must be in the module, got {node.target}: there is no {what} {part} "
                f"in {holder}"
            )
        holder = getattr(holder, part)
    if node.op == "call_module" and not callable(holder):
        raise RuntimeError(f"Graph.lint: the target of node {node} must be an nn.Module, got {node.target}")


def _has_attribute(module, path):
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def _has_module(module, path):
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True
