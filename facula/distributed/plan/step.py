"""Simulate a step of many processes: computation and collectives run on two streams, each in its order, and wait for
each other.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .cluster import Cluster
from .collectives import cost
from .trace import Trace

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes, as DistributedDataParallel's
COPIES_OF_GATHERED, COPIES_OF_SCATTERED = 1, 3  # how often fully_shard copies a byte: apart; zeros, their values, the division


@dataclass(eq=False)
class Task:
    """Describe a piece of work that takes `seconds` of a stream once the tasks `after` are complete. `end` is the time
    when it is complete, after the timeline has run.

    Args:
        stream: a name.
        seconds: how long it takes.
        after: tasks that must be done before.
        end: 0 at first.

    >>> from torch.distributed.plan.step import Task
    >>> Task("compute", 2.0).end
    0.0
    """

    stream: str
    seconds: float
    after: Sequence[Task] = ()
    end: float = 0.0


class Timeline:
    """Run tasks: each stream runs its own one after another, in the order in which they were added.

    >>> from torch.distributed.plan.step import Timeline
    >>> line = Timeline()
    >>> made = line.add("compute", 2.0)
    >>> sent = line.add("network", 3.0, made)
    >>> other = line.add("compute", 1.0)
    >>> line.run(), line.busy("compute"), sent.end
    (5.0, 3.0, 5.0)
    """

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def add(self, stream: str, seconds: float, *after: Task) -> Task:
        """Add a task, and give it.

        Args:
            stream: the name of the stream.
            seconds: how long it takes.
            after: tasks that must be done before.

        Returns: the Task.
        """
        self.tasks.append(Task(stream, seconds, after))
        return self.tasks[-1]

    def run(self) -> float:
        """Return when everything is done."""
        free: dict[str, float] = {}
        for task in self.tasks:
            begin = max([free.get(task.stream, 0.0), *(other.end for other in task.after)])
            task.end = free[task.stream] = begin + task.seconds
        return max(free.values(), default=0.0)

    def busy(self, stream: str) -> float:
        """Return the seconds that the tasks of a stream take.

        Args:
            stream: its name.
        """
        return sum(task.seconds for task in self.tasks if task.stream == stream)


@dataclass(frozen=True)
class Prediction:
    """Describe the time and memory of a step; `predict` makes it.

    Attributes:
        strategy, ranks: of what.
        seconds: of a step.
        compute: seconds that a rank would take if collectives took none and all ranks the same.
        communication: seconds of all collectives.
        hidden: share of these that does not make the step longer.
        samples: of all ranks together.
        memory: bytes in a rank, by what they are for.

    >>> from torch.distributed.plan import Prediction
    >>> told = Prediction("ddp", 8, 0.04, compute=0.03, communication=0.02, hidden=0.5, samples=256, memory={"saved": 100})
    >>> told.efficiency, told.bytes
    (0.75, 100)
    """

    strategy: str
    ranks: int
    seconds: float
    compute: float
    communication: float
    hidden: float
    samples: int
    memory: dict[str, int]

    @property
    def efficiency(self) -> float:
        """Samples of each rank and second, as a share of what it does without collectives."""
        return self.compute / self.seconds

    @property
    def bytes(self) -> int:
        """Memory of a rank."""
        return sum(self.memory.values())


class _Step:
    """Add collectives to a timeline, with the time that they take from the computation beside them."""

    def __init__(self, cluster: Cluster, ranks: int, crowd: float) -> None:
        self.cluster, self.ranks, self.crowd, self.line = cluster, ranks, crowd, Timeline()

    def compute(self, seconds: float, *after: Task) -> Task:
        """Add what takes `seconds` in a rank alone."""
        return self.line.add("compute", max(0.0, seconds) * self.crowd, *after)

    def copy(self, nbytes: float, *after: Task) -> Task:
        """Add copies in memory."""
        return self.compute(nbytes * self.cluster.copy if self.ranks > 1 else 0.0, *after)

    def send(self, kind: str, nbytes: float, *after: Task) -> Task:
        """Add a collective that the program waits for."""
        return self.line.add("network", cost(self.cluster, kind, self.ranks, nbytes), *after)

    def send_beside(self, kind: str, nbytes: float, *after: Task) -> Task:
        """Add a collective that runs while the program computes on, which takes longer for it."""
        task = self.send(kind, nbytes, *after)
        self.line.add("compute", task.seconds * (1 - self.cluster.overlap))
        return task


def buckets(trace: Trace, first: int = FIRST_BUCKET, size: int = BUCKET) -> list[tuple[int, float]]:
    """Return (bytes, when the last gradient comes) of DistributedDataParallel's buckets, filled as gradients come.

    Args:
        trace: a Trace.
        first: bytes of the first bucket.
        size: bytes of the others.

    >>> from torch.distributed.plan.step import buckets
    >>> from torch.distributed.plan.trace import Parameter, Trace
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 1000, 2.0, 0)
    >>> buckets(trace)
    [(4000, 0.02)]
    """
    made, nbytes, ready = [], 0, 0.0
    for p in sorted(trace.parameters, key=lambda p: p.ready):
        nbytes, ready = nbytes + p.nbytes, max(ready, p.ready)
        if nbytes >= (size if made else min(first, size)):
            made.append((nbytes, ready))
            nbytes, ready = 0, 0.0
    return made + ([(nbytes, ready)] if nbytes else [])


def _gradients_averaged(trace: Trace, step: _Step, bucket: int) -> list[Task]:
    """Run forward and backward, with an all_reduce of each bucket as it is full."""
    step.compute(trace.forward)
    now, works = 0.0, []
    for nbytes, ready in buckets(trace, size=bucket):
        step.compute(ready - now)
        now = max(now, ready)
        works.append(step.send_beside("all_reduce", nbytes, step.copy(nbytes)))
    step.compute(trace.backward - now)
    return works


def _ddp(trace: Trace, step: _Step, bucket: int, prefetch: int) -> None:
    works = _gradients_averaged(trace, step, bucket)
    step.compute(trace.update, *works)


def shares(trace: Trace, ranks: int) -> list[int]:
    """Return the bytes of the parameters that each rank of a ZeroRedundancyOptimizer updates, without ranks that have none.

    Whole parameters, the largest first, each to the rank with the least so far.

    Args:
        trace: a Trace.
        ranks: how many.

    >>> from torch.distributed.plan.step import shares
    >>> from torch.distributed.plan.trace import Parameter, Trace
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 1000, 2.0, 0)
    >>> shares(trace, ranks=4)
    [4000]
    """
    heap = [0] * min(ranks, len(trace.parameters))
    for nbytes in sorted((p.nbytes for p in trace.parameters), reverse=True):
        heapq.heapreplace(heap, heap[0] + nbytes)
    return sorted(heap, reverse=True)


def _zero(trace: Trace, step: _Step, bucket: int, prefetch: int) -> None:
    """Add ZeroRedundancyOptimizer: every rank updates its share and broadcasts it; shares come one after another."""
    works, parts = _gradients_averaged(trace, step, bucket), shares(trace, step.ranks)
    done = step.compute(trace.update * parts[0] / trace.parameter_bytes, *works)
    done = step.copy(parts[0], done)
    for nbytes in parts if step.ranks > 1 else ():
        done = step.send("broadcast", nbytes, done)
    step.copy(trace.parameter_bytes, done)


def _unit_times(trace: Trace) -> tuple[list[float], list[float]]:
    """Return (forward, backward) seconds of each unit, from where it begins to where the next one does."""
    ends = [*trace.begins[1:], trace.forward]
    forward = [end - begin for begin, end in zip(trace.begins, ends)]
    backward, now = [0.0] * len(trace.units), 0.0
    for unit in range(len(trace.units) - 1, 0, -1):
        ready = max([now, *(p.ready for p in trace.parameters if p.unit == unit)])
        backward[unit], now = ready - now, ready
    backward[0] = trace.backward - now
    return forward, backward


def unit_bytes(trace: Trace) -> list[int]:
    """Return the bytes of the parameters of each unit.

    Args:
        trace: a Trace.

    >>> from torch.distributed.plan.step import unit_bytes
    >>> from torch.distributed.plan.trace import Parameter, Trace
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 1000, 2.0, 0)
    >>> unit_bytes(trace)
    [4000]
    """
    sizes = [0] * len(trace.units)
    for p in trace.parameters:
        sizes[p.unit] += p.nbytes
    return sizes


def _fsdp(trace: Trace, step: _Step, bucket: int, prefetch: int) -> None:
    """Add fully_shard of each unit: gathered for forward and again for backward, gradients scattered after it.

    The first unit, the model itself, stays gathered in between. It gathers `prefetch` units ahead, and scatters while it
    computes on; with 0 the program waits for every message.
    """
    sizes, (forward, backward) = unit_bytes(trace), _unit_times(trace)
    units = range(len(sizes))
    done = _pass(step, [(unit, forward[unit]) for unit in units], sizes, prefetch, step.compute(0))
    _pass(step, [(unit, backward[unit]) for unit in reversed(units)], sizes, prefetch, done, backward=True)
    step.compute(trace.update / step.ranks, *(task for task in step.line.tasks if task.stream == "network"))


def _pass(step: _Step, work, sizes, prefetch: int, done: Task, backward: bool = False) -> Task:
    """Compute units one after another; each is gathered when the one `prefetch` before it begins."""
    send = step.send_beside if prefetch else step.send
    gathered: dict[int, Task] = {}
    for position, (unit, seconds) in enumerate(work):
        for ahead, _ in work[position : position + prefetch + 1]:
            if sizes[ahead] and ahead not in gathered and (ahead or not backward):
                gathered[ahead] = send("all_gather", sizes[ahead], done)
        if unit in gathered:
            done = step.copy(sizes[unit] * COPIES_OF_GATHERED, done, gathered[unit])
        done = step.compute(seconds, done)
        if backward and sizes[unit]:
            done = step.copy(sizes[unit] * COPIES_OF_SCATTERED, done)
            sent = send("reduce_scatter", sizes[unit], done)
            done = done if prefetch else sent
    return done


STRATEGIES = {"ddp": _ddp, "zero": _zero, "fsdp": _fsdp}


def _around(sizes: list[int], unit: int, prefetch: int) -> int:
    """Return the bytes that lie around while a unit's backward pass runs.

    Its parameters, their gradients and the message that these become; the message of the unit before; and the units that are
    gathered ahead, as they come and as they are used.
    """
    beside = sum(sizes[unit + 1 : unit + 2]) + 2 * sum(sizes[max(0, unit - prefetch) : unit]) if prefetch else 0
    return 3 * sizes[unit] + beside


def memory(trace: Trace, strategy: str, ranks: int, prefetch: int = 1) -> dict[str, int]:
    """Return the bytes in a rank at the height of a step, by what they are for.

    Gradients of DistributedDataParallel are its buckets; one that has just been made lies beside its place there. Updated
    shares of a ZeroRedundancyOptimizer lie beside the parameters. What `fully_shard` gathers and scatters is told by `_around`.

    Args:
        trace: a Trace.
        strategy: "ddp", "zero" or "fsdp".
        ranks: how many.
        prefetch: how many units fsdp gathers ahead.

    >>> from torch.distributed.plan.step import memory
    >>> from torch.distributed.plan.trace import Parameter, Trace
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 1000, 2.0, 0)
    >>> memory(trace, "fsdp", ranks=4)["parameters"]
    1000
    """
    whole, sizes = trace.parameter_bytes, unit_bytes(trace)
    parameters, updated = whole, {"ddp": whole, "zero": shares(trace, ranks)[0], "fsdp": -(-whole // ranks)}[strategy]
    saved, messages = trace.saved, max(p.nbytes for p in trace.parameters)
    if strategy == "zero" and whole > saved + messages:  # at the end of a step that is the height
        saved, messages = 0, whole
    elif strategy == "fsdp":
        most = max((_around(sizes[1:], unit, prefetch) for unit in range(len(sizes) - 1)), default=0)
        parameters, messages = updated, sizes[0] + most
    return {
        "parameters": parameters, "gradients": parameters, "optimizer": int(updated * trace.state), "saved": saved,
        "messages": messages if ranks > 1 else 0, "buffers": trace.buffers,
    }  # fmt: skip


def slowest(ranks: int, jitter: float) -> float:
    """Return how much longer the slowest of `ranks` takes than the mean.

    Args:
        ranks: how many.
        jitter: the relative standard deviation of what they take.

    >>> from torch.distributed.plan.step import slowest
    >>> slowest(1, 0.1), round(slowest(100, 0.1), 2)
    (1.0, 1.25)
    """
    if ranks == 1 or jitter == 0:
        return 1.0
    # Blom's approximation of the expected maximum of normal values.
    return 1 + jitter * statistics.NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def predict(
    trace: Trace, cluster: Cluster, ranks: int, strategy: str = "ddp", bucket: int = BUCKET, prefetch: int = 1,
    jitter: float = 0.0,
) -> Prediction:  # fmt: skip
    """Return the step of `ranks` ranks, each with the batch that was traced.

    Args:
        trace: a Trace.
        cluster: a Cluster.
        ranks: from 1 to 1,000,000.
        strategy: ddp, fsdp or zero (ZeroRedundancyOptimizer with DistributedDataParallel).
        bucket: bytes of DistributedDataParallel's buckets.
        prefetch: how many units fsdp gathers ahead: 1 in Facula, if nothing else is said.
        jitter: relative standard deviation of a rank's computation: everybody waits for the slowest.

    Errors: ValueError for another strategy, and numbers out of range.

    >>> from torch.distributed.plan import Cluster, predict
    >>> from torch.distributed.plan.trace import Parameter, Trace
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 1000, 2.0, 0)
    >>> told = predict(trace, Cluster(), ranks=64)
    >>> told.samples, 0.9 < told.efficiency < 1
    (2048, True)
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"plan: strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if not 1 <= ranks <= 1_000_000 or bucket < 1 or prefetch < 0 or jitter < 0:
        raise ValueError(
            "plan: expected 1 to 1,000,000 ranks, a bucket of at least one byte, prefetch and jitter of at least 0, got "
            f"{ranks}, {bucket}, {prefetch} and {jitter}"
        )
    crowd, longer = cluster.crowding(ranks), slowest(ranks, jitter)
    step = _Step(cluster, ranks, crowd * longer)
    STRATEGIES[strategy](trace, step, bucket, prefetch)
    part = {"ddp": 1.0, "zero": shares(trace, ranks)[0] / trace.parameter_bytes, "fsdp": 1 / ranks}[strategy]
    alone = (trace.forward + trace.backward + trace.update * part) * crowd
    seconds, communication = step.line.run(), step.line.busy("network")
    exposed = max(0.0, seconds - alone * longer)
    hidden = 1 - min(1.0, exposed / communication) if communication else 1.0
    needed = memory(trace, strategy, ranks, prefetch)
    return Prediction(strategy, ranks, seconds, alone, communication, hidden, ranks * trace.samples, needed)
