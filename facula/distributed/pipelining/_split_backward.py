"""A backward pass in two halves: gradients of inputs first, those of weights when there is time.

The way from outputs to inputs is a part of the graph; weights hang on it by branches. The first half runs the way and keeps
what arrives at every node that has a branch; the second runs each of these nodes again, for its branch only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.autograd.graph import GradientEdge, get_gradient_edge

if TYPE_CHECKING:
    from typing import Any


def _walk(roots) -> list:
    """All nodes that are reached."""
    seen, found, waiting = set(), [], list(roots)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.append(node)
        waiting += [n for n, _ in node.next_functions]
    return found


def _on_the_way(nodes, ends) -> set:
    """Nodes from which an end can be reached."""
    before: dict[Any, Any] = {}
    for node in nodes:
        for n, _ in node.next_functions:
            before.setdefault(n, []).append(node)
    found, waiting = set(), list(ends)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += before.get(node, [])
    return found


def _leaves(branches) -> list:
    """Tensors at the ends of branches."""
    return [node.variable for node in _walk(branches) if hasattr(node, "variable")]


class WeightGradients:
    """The second half of a backward pass.

    Args:
        outputs, grads: the roots, and their gradients.
        inputs: what the first half, which is run here, gives gradients of: `input_grads`, None for those that have none.
    """

    def __init__(self, outputs, grads, inputs) -> None:
        self._outputs, self._grads, self._kept = outputs, grads, []
        wanted = [t for t in inputs if isinstance(t, facula.Tensor) and t.requires_grad]
        found: dict[Any, Any] = {}
        if wanted:
            roots = [get_gradient_edge(t).node for t in outputs]
            way = _on_the_way(_walk(roots), [get_gradient_edge(t).node for t in wanted])
            self._branches = self._branches_of(way)
            handles = [node.register_prehook(self._keeper(node)) for node in self._branches] if self._splits(roots, way) else []
            try:
                found = dict(
                    zip(map(id, wanted), facula.autograd.grad(outputs, wanted, grads, retain_graph=True, allow_unused=True))
                )
            finally:
                for handle in handles:
                    handle.remove()
            if handles or not self._branches:
                self._outputs = []
        self.input_grads = [found.get(id(t)) for t in inputs]
        self._inputs = wanted

    @staticmethod
    def _branches_of(way) -> dict:
        """{node on the way: tensors at the ends of its branches}"""
        found = {}
        for node in way:
            leaves = _leaves(n for n, _ in node.next_functions if n is not None and n not in way)
            if leaves:
                found[node] = leaves
        return found

    def _splits(self, roots, way) -> bool:
        """Whether every weight hangs on one place of the way only; else the second half runs the whole pass."""
        hanging = [id(leaf) for leaves in self._branches.values() for leaf in leaves]
        return all(root in way for root in roots) and len(set(hanging)) == len(hanging)

    def _keeper(self, node):
        def keep(grads):
            self._kept.append((node, grads))

        return keep

    def run(self) -> None:
        """Accumulates the gradients of weights."""
        for node, grads in self._kept:
            edges = [GradientEdge(node, i) for i, g in enumerate(grads) if g is not None]
            if edges:
                facula.autograd.backward(edges, [g for g in grads if g is not None], inputs=self._branches[node])
        if self._outputs:
            others = {id(t) for t in self._inputs}
            leaves = [t for t in _leaves(get_gradient_edge(t).node for t in self._outputs) if id(t) not in others]
            if leaves:
                facula.autograd.backward(self._outputs, self._grads, inputs=leaves)
        self._kept, self._outputs, self._grads, self._inputs = [], [], [], []
