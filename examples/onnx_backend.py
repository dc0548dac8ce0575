"""A backend of `torch.compile` that runs graphs by another runtime: onnxruntime, or the reference evaluator of package onnx.

    python examples/onnx_backend.py [--calls 3] [--seed 0]

Each stretch of ops of the model below is exported as an ONNX program when it is first met, and run by the runtime from then on.
What the program asks for in between (here a norm, for a message) is Python's, as ever.
"""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING

import facula as torch
from facula import nn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def session(program: bytes) -> Callable[[dict[str, Any]], list[Any]]:
    """Return what runs an ONNX program on arrays by name."""
    try:
        import onnxruntime
    except ImportError:
        import onnx.reference

        evaluator = onnx.reference.ReferenceEvaluator(onnx.load_from_string(program))
        return lambda arrays: evaluator.run(None, arrays)
    runtime = onnxruntime.InferenceSession(program, providers=["CPUExecutionProvider"])
    return lambda arrays: runtime.run(None, arrays)


def by_onnx(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., Any]:
    """Return the graph as an ONNX program, whose inputs are those of the graph."""
    names = [f"input_{i}" for i in range(len(examples))]
    file = io.BytesIO()
    torch.onnx.export(graph, tuple(example.detach() for example in examples), file, input_names=names, dynamo=True)
    run = session(file.getvalue())

    def code(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arrays = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(array.copy()) for array in run(arrays))

    return code


class Model(nn.Module):
    """Two layers, and a look at what is between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        print(f"norm between the layers: {x.norm().item():.3f}")
        return torch.softmax(self.second(x), -1)


def main(arguments: list[str] | None = None) -> float:
    """Run the model both ways; give the largest difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    model, differences = Model(), []
    compiled = torch.compile(model, backend=by_onnx)
    with torch.no_grad():
        for _ in range(options.calls):
            x = torch.randn(8, 16)
            differences.append((compiled(x) - model(x)).abs().max().item())
    print(f"largest difference of {options.calls} calls: {max(differences):.1e}")
    return max(differences)


if __name__ == "__main__":
    main()
