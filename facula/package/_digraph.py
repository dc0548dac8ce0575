"""Define a graph of modules with edges from a module to those that it needs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class DiGraph:
    """Hold nodes with attributes, in the order in which they came, and edges between them."""

    def __init__(self):
        self.nodes: dict[Any, Any] = {}
        self._after = {}
        self._before = {}

    def add_node(self, name: str, **attributes: Any) -> None:
        """Add a node, or attributes to one that is there."""
        self.nodes.setdefault(name, {}).update(attributes)
        self._after.setdefault(name, {})
        self._before.setdefault(name, {})

    def add_edge(self, start: str, end: str) -> None:
        """Say that `start` needs `end`; nodes that are not there are added."""
        self.add_node(start)
        self.add_node(end)
        self._after[start][end] = True
        self._before[end][start] = True

    def __contains__(self, name: Any) -> bool:
        return name in self.nodes

    def successors(self, name: str) -> list[Any]:
        """Return what `name` needs."""
        return list(self._after[name])

    def predecessors(self, name: str) -> list[str]:
        """Return what needs `name`."""
        return list(self._before[name])

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All (start, end)."""
        return [(start, end) for start, ends in self._after.items() for end in ends]

    def first_path(self, name: str) -> list[str]:
        """Return a shortest list of nodes from one that nothing needs to `name`; of `name` alone where there is none."""
        came, pending = {name: None}, deque([name])
        while pending:
            node = pending.popleft()
            if not self._before[node]:
                path = []
                while node is not None:
                    path.append(node)
                    node = came[node]
                return path
            for before in self._before[node]:
                if before not in came:
                    came[before] = node
                    pending.append(before)
        return [name]

    def all_paths(self, start: str, end: str) -> str:
        """Return the graph of the nodes between `start` and `end`, as `to_dot` writes it."""
        between = self._reached(start, self._after) & self._reached(end, self._before)
        part = DiGraph()
        for first, last in self.edges:
            if first in between and last in between:
                part.add_edge(first, last)
        return part.to_dot()

    def _reached(self, start, towards):
        if start not in self.nodes:
            raise ValueError(f"all_paths: the graph has no such module, got {start!r}")
        seen, pending = {start}, [start]
        while pending:
            for node in towards[pending.pop()]:
                if node not in seen:
                    seen.add(node)
                    pending.append(node)
        return seen

    def to_dot(self) -> str:
        """Return the graph as Graphviz reads it."""
        edges = "".join(f'"{start}" -> "{end}";\n' for start, end in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}}}\n"
