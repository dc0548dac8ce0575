"""Backends of `torch.compile` in a few lines: one that counts ops, and one that rewrites graphs before they run.

    python examples/graph_backend.py [--calls 3] [--seed 0]

The rewriting one puts `addcmul` in the place of a product that is only added to something, in calls and in backward passes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

import facula as torch
from facula._dynamo.backends.common import aot_autograd

if TYPE_CHECKING:
    from collections.abc import Callable

aten = torch.ops.aten


class Counts:
    """A backend that counts the ops of its graphs and runs them as they are."""

    def __init__(self) -> None:
        self.ops: Counter[str] = Counter()

    def __call__(self, graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
        self.ops.update(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward


def with_addcmul(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a compiler that rewrites: a + b * c becomes addcmul(a, b, c), where nobody else wants the product."""
    for node in list(graph.graph.nodes):
        if node.target is not aten.add.Tensor or len(node.args) != 2 or node.kwargs:
            continue
        for product, other in (node.args, node.args[::-1]):
            tensors = [*getattr(product, "args", ()), other]
            single = getattr(product, "target", None) is aten.mul.Tensor and len(product.users) == 1
            if single and len(tensors) == 3 and all(isinstance(t, torch.fx.Node) for t in tensors):
                with graph.graph.inserting_before(node):
                    fused = graph.graph.call_function(aten.addcmul.default, (other, *product.args))
                node.replace_all_uses_with(fused)
                graph.graph.erase_node(node)
                break
    graph.graph.eliminate_dead_code()
    graph.recompile()
    print(graph.code.strip())
    return graph.forward


def polynomial(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """Compute by Horner's rule."""
    y = weights[0]
    for weight in weights[1:]:
        y = y * x + weight
    return y


def main(arguments: list[str] | None = None) -> Counter[str]:
    """Run a polynomial by both; give what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    x, weights = torch.linspace(-1, 1, 5), [torch.randn(5, requires_grad=True) for _ in range(4)]
    counts = Counts()
    counted = torch.compile(polynomial, backend=counts)
    fused = torch.compile(polynomial, backend=aot_autograd(fw_compiler=with_addcmul))
    for _ in range(options.calls):
        difference = (fused(x, weights) - counted(x, weights)).abs().max()
        fused(x, weights).sum().backward()
    print(f"ops: {dict(counts.ops)}; largest difference: {difference.item():.1e}")
    return counts.ops


if __name__ == "__main__":
    main()
