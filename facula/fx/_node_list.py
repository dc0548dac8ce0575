"""Store the nodes of a graph in order and by op and target, and the position where new nodes are inserted."""

from __future__ import annotations


class _node_list:  # noqa: N801
    """Iterate over the nodes of a graph in order. The graph may be changed during the iteration."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            # An erased node still has its neighbors, so that the iteration can go on from it.
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __reversed__(self):
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _FindNodesLookupTable:
    """Find nodes by op and target."""

    def __init__(self):
        self.table = {}

    def _key(self, node):
        return (node.op, node.target if node.op == "call_function" else None)

    def __contains__(self, node):
        return node in self.table.get(self._key(node), ())

    def insert(self, node):
        """Add a node."""
        self.table.setdefault(self._key(node), {})[node] = None

    def remove(self, node):
        """Take a node out."""
        self.table.get(self._key(node), {}).pop(node, None)

    def find_nodes(self, *, op, target=None):
        """Return the nodes with this op, and this target if one is given."""
        if op == "call_function" and target is not None:
            return list(self.table.get((op, target), ()))
        found = [node for (kind, _), nodes in self.table.items() if kind == op for node in nodes]
        return found if target is None else [node for node in found if node.target == target]


class _Insertion:
    """Set where new nodes are inserted, as a context manager until its end."""

    def __init__(self, graph, insert):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        self.graph._insert = self.before
