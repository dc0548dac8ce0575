"""Provide helpers of tests: backends that count, and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.fx.graph_module import GraphModule

__all__ = [
    "AotEagerAndRecordGraphs", "CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "rand_strided",
    "reset_rng_state", "same",
]  # fmt: skip


class CompileCounter:
    """Count graphs in `frame_count` and their ops in `op_count`, as a backend that returns the graphs unchanged.

    >>> from facula._dynamo.testing import CompileCounter
    >>> count = CompileCounter()
    >>> double = torch.compile(lambda x: 2 * x, backend=count)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    >>> count.frame_count, count.op_count
    (1, 1)
    """

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Count from nothing again."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Count graphs and pass them to another backend; `graphs` has all of them.

    Args:
        backend: its name.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        super().__init__()

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from facula.compiler._backends.registry import lookup_backend

        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Count from nothing again, and forget the graphs."""
        super().clear()
        self.graphs: list[GraphModule] = []


class EagerAndRecordGraphs:
    """Store graphs in `graphs`, as a backend that returns them unchanged.

    >>> from facula._dynamo.testing import EagerAndRecordGraphs
    >>> seen = EagerAndRecordGraphs()
    >>> torch.compile(lambda x: 2 * x, backend=seen)(torch.ones(2))
    tensor([2., 2.])
    >>> print(seen.graphs[0].code.strip())
    def forward(self, arg0_1):
        mul = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None
        return (mul,)
    """

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """Store graphs by `aot_autograd`: `graphs` of all calls, `fw_graphs`, and `bw_graphs` of backward passes."""

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []
        self.fw_graphs: list[GraphModule] = []
        self.bw_graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from facula.compiler._backends.common import aot_autograd

        def remember(graphs):
            return lambda graph, examples: graphs.append(graph) or graph.forward

        self.graphs.append(gm)
        how = aot_autograd(fw_compiler=remember(self.fw_graphs), bw_compiler=remember(self.bw_graphs))
        return how(gm, example_inputs)


def rand_strided(size: Sequence[int], stride: Sequence[int], dtype: Any = facula.float32, device: Any = "cpu",
                 extra_size: int = 0) -> facula.Tensor:  # fmt: skip
    """Return a tensor of random numbers with given sizes and strides.

    Args:
        size, stride: the sizes and strides.
        dtype, device: those of the tensor.
        extra_size: how many elements its storage has beyond.
    """
    needed = sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 + extra_size if all(size) else extra_size
    random = facula.randn if dtype.is_floating_point or dtype.is_complex else facula.zeros
    return facula.as_strided(random(needed, dtype=dtype, device=device), size, stride)


def reset_rng_state(use_xpu: bool = False) -> None:
    """Seed all generators with 1337.

    Args:
        use_xpu: there are no such devices; without effect.
    """
    import random

    facula.manual_seed(1337)
    random.seed(1337)


def same(a: Any, b: Any, cos_similarity: bool = False, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Return whether two results agree: nested lists, tuples and dicts of tensors and of other things.

    Args:
        a, b: the results.
        cos_similarity: compares directions, not values.
        tol: the tolerance, relative and absolute.
        equal_nan: whether NaN equals NaN.
    """
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(
            same(x, y, cos_similarity, tol, equal_nan) for x, y in zip(a, b, strict=True)
        )  # fmt: skip
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k], cos_similarity, tol, equal_nan) for k in a)
    if not isinstance(a, facula.Tensor):
        return type(a) is type(b) and bool(a == b)
    if not isinstance(b, facula.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if cos_similarity:
        x, y = a.detach().flatten().double(), b.detach().flatten().double()
        return facula.equal(x, y) or facula.nn.functional.cosine_similarity(x, y, dim=0, eps=1e-12).item() > 1 - tol
    if not (a.is_floating_point() or a.is_complex()):
        return facula.equal(a, b)
    return facula.allclose(a, b, rtol=tol, atol=tol, equal_nan=equal_nan)
