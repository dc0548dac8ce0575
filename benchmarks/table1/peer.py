"""Run one model in one framework that is neither Facula nor PyTorch: a worker that answers as
benchmarks/models/worker.py does.

    python benchmarks/table1/peer.py jax|tensorflow|paddle|mxnet MODEL THREADS

`with_<framework>.py` has `training(name, batch, threads)`, which returns a function that does one step and returns the loss
as a number, so that the step is over when it returns.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "models"))

from worker import Worker, serve  # noqa: E402


class Peer(Worker):
    def __init__(self, framework: str, name: str, threads: int) -> None:
        self.threads = threads
        batch = importlib.import_module(name).ITEMS
        self.train = importlib.import_module(f"with_{framework}").training(name, batch, threads)

    def losses(self, count: int) -> dict:
        return {"losses": [self.train() for _ in range(count)]}


if __name__ == "__main__":
    framework, name, threads = sys.argv[1:]
    serve(lambda: Peer(framework, name, int(threads)))
