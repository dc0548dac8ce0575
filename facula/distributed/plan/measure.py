"""Run ranks on this machine and measure their collectives and steps of a model, to find the error of a prediction."""

from __future__ import annotations

import functools
import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import facula
import facula.distributed as dist

from ..elastic.multiprocessing import DefaultLogsSpecs
from ..launcher.api import LaunchConfig, elastic_launch
from . import trace as tracing
from .cluster import Cluster
from .fit import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any

SIZES = tuple(1 << k for k in range(10, 25, 2))  # bytes
_CALLS = {
    "all_reduce": lambda whole, part: dist.all_reduce(whole),
    "all_gather": lambda whole, part: dist.all_gather_into_tensor(whole, part),
    "reduce_scatter": lambda whole, part: dist.reduce_scatter_tensor(part, whole),
    "broadcast": lambda whole, part: dist.broadcast(whole, 0),
}


def launch(ranks: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what a function returns in each of several processes, that can make a group of them; a list by rank.

    Args:
        ranks: how many processes.
        function: one that can be pickled.
        arguments: its arguments.

    >>> from torch.distributed.plan.measure import launch
    >>> launch(1, pow, 2, 5)
    [32]
    """
    with tempfile.TemporaryDirectory() as logs:
        specs = DefaultLogsSpecs(logs)
        config = LaunchConfig(1, 1, ranks, specs, rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
        returned = elastic_launch(config, function)(*arguments)
    return [returned[rank] for rank in range(ranks)]


# ---- in the ranks


def _time_of(action, repeats: int) -> float:
    """Return the median over repeats of the slowest rank's seconds."""
    times = []
    for _ in range(repeats + 2):
        dist.barrier()
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    slowest = facula.tensor(times[2:], dtype=facula.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return statistics.median(slowest.tolist())


def _work(seconds: float):
    """Return an action that computes for about so long."""
    a, result = facula.randn(192, 192), facula.empty(192, 192)

    def action(count):
        for _ in range(count):
            facula.mm(a, a, out=result)

    action(5)
    start = time.perf_counter()
    action(20)
    count = max(1, round(seconds * 20 / (time.perf_counter() - start)))
    return lambda: action(count)


def _collectives(sizes, repeats: int) -> list:
    """Return [(kind, ranks, bytes, seconds)]."""
    facula.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks, found = dist.get_world_size(), []
    for nbytes in sizes:
        count = -(-nbytes // 4 // ranks)
        whole, part = facula.zeros(count * ranks), facula.zeros(count)
        for kind, call in _CALLS.items():
            found.append((kind, ranks, whole.nbytes, _time_of(functools.partial(call, whole, part), repeats)))
    dist.destroy_process_group()
    return found


def _beside(nbytes: int, repeats: int) -> tuple[float, float, float]:
    """Return the seconds of an all_reduce, of a computation that takes as long, and of both at once."""
    facula.set_num_threads(1)
    dist.init_process_group("gloo")
    t = facula.zeros(nbytes // 4)
    alone = _time_of(lambda: dist.all_reduce(t), repeats)
    longest = facula.tensor(alone)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    compute = _work(longest.item())

    def both():
        work = dist.all_reduce(t, async_op=True)
        compute()
        work.wait()

    result = alone, _time_of(compute, repeats), _time_of(both, repeats)
    dist.destroy_process_group()
    return result


def _copy_rate(nbytes: int = 32 << 20) -> float:
    """Return the seconds to copy one byte, from memory to memory."""
    source, target = facula.zeros(nbytes // 4), facula.zeros(nbytes // 4)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / nbytes


# ---- from outside


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(ranks: Sequence[int] = (2, 4), sizes: Any = SIZES, repeats: int = 31) -> Cluster:
    """Return the cluster of this machine: runs collectives between local ranks, of several numbers and sizes. It takes minutes,
    and needs MPI.

    Args:
        ranks: numbers of ranks, of at least 2.
        sizes: bytes, of at least 4.
        repeats: how often each is run; medians count.

    Errors: ValueError for smaller numbers.

    >>> from torch.distributed.plan.measure import measure
    >>> measure(ranks=(2, 4)).save("cluster.json")  # doctest: +SKIP
    """
    if not ranks or min(ranks) < 2 or min(sizes) < 4 or repeats < 1:
        raise ValueError(f"plan: expected at least 2 ranks, 4 bytes and one repeat, got {ranks}, {sizes} and {repeats}")
    measured = [entry for count in ranks for entry in launch(count, _collectives, tuple(sizes), repeats)[0]]
    alone, compute, both = launch(min(ranks), _beside, 4 << 20, repeats)[0]
    overlap = min(1.0, max(0.0, (alone + compute - both) / min(alone, compute)))
    return fit(measured, _processors(), overlap, launch(1, _copy_rate)[0])


# ---- a model


def _optimizer(program, model, strategy):
    if strategy != "zero":
        return program.optimizer(model.parameters())
    from ..optim import ZeroRedundancyOptimizer

    chosen = type(program.optimizer([facula.nn.Parameter(facula.zeros(1))]))
    return ZeroRedundancyOptimizer(model.parameters(), chosen)


def _wrapped(model, strategy, unit_classes):
    if strategy != "fsdp":
        return facula.nn.parallel.DistributedDataParallel(model)
    from ..fsdp import fully_shard

    for unit in tracing.units_of(model, unit_classes).values():
        fully_shard(unit)
    return fully_shard(model)


def _train(path: str, batch: int, strategy: str, steps: int, unit_classes) -> tuple[float, int]:
    """Return (median seconds of a step of the slowest rank, peak of allocated bytes in this one)."""
    facula.set_num_threads(1)
    dist.init_process_group("gloo")
    facula.manual_seed(0)
    program = tracing.load_program(path)
    inputs = program.example(batch)
    model = _wrapped(program.model(), strategy, unit_classes)
    optimizer = _optimizer(program, model, strategy)

    def step():
        optimizer.zero_grad()
        program.loss(tracing.call(model, inputs)).backward()
        optimizer.step()

    seconds = _time_of(step, steps)
    peak = facula.cpu.memory_stats()["allocated_bytes.peak"]
    dist.destroy_process_group()
    return seconds, peak


def _trace(path: str, batch: int, steps: int, unit_classes) -> tracing.Trace:
    facula.set_num_threads(1)
    facula.manual_seed(0)
    return tracing.trace_step(tracing.load_program(path), batch, steps, unit_classes)


def traced(path: str | PathLike[str], batch: int, steps: int = 7, unit_classes: Any = ()) -> tracing.Trace:
    r"""Return the trace of one process with one thread, as `train` gives its ranks.

    Args:
        path: a file with model() and example(batch).
        batch: how many samples.
        steps: how many steps; medians of them count.
        unit_classes: names of classes of modules that get a `fully_shard` of their own.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/model.py"
    >>> with open(path, "w") as file:
    ...     text = file.write("from facula import nn, randn\n\n")
    ...     text = file.write("def model():\n    return nn.Linear(4, 2)\n\n")
    ...     text = file.write("def example(batch):\n    return randn(batch, 4)\n")
    >>> from torch.distributed.plan.measure import traced
    >>> traced(path, batch=3, steps=1).parameter_bytes
    40
    >>> folder.cleanup()
    """
    return launch(1, _trace, str(path), batch, steps, tuple(unit_classes))[0]


def train(path: str | PathLike[str], batch: int, ranks: int, strategy: str, steps: int = 7,
          unit_classes: Any = ()) -> tuple[float, int]:  # fmt: skip
    r"""Return (seconds of a step, peak of allocated bytes in a rank) of `ranks` local ranks with one thread each.

    Args:
        path: a file with model() and example(batch).
        batch: how many samples in a rank.
        ranks: how many processes.
        strategy: "ddp", "zero" or "fsdp".
        steps: how many steps; medians of the slowest rank count.
        unit_classes: names of classes of modules that get a `fully_shard` of their own.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/model.py"
    >>> with open(path, "w") as file:
    ...     text = file.write("from facula import nn, randn\n\n")
    ...     text = file.write("def model():\n    return nn.Linear(4, 2)\n\n")
    ...     text = file.write("def example(batch):\n    return randn(batch, 4)\n")
    >>> from torch.distributed.plan.measure import train
    >>> seconds, peak = train(path, batch=3, ranks=1, strategy="ddp", steps=1)
    >>> folder.cleanup()
    """
    results = launch(ranks, _train, str(path), batch, strategy, steps, tuple(unit_classes))
    return max(seconds for seconds, _ in results), max(peak for _, peak in results)
