"""Predict steps of a model on a cluster, from a step on this machine.

    python -m facula.distributed.plan model.py --ranks 8,64,1024 --strategy ddp,fsdp --bandwidth 25GB
    python -m facula.distributed.plan --measure cluster.json --local-ranks 2,4
    python -m facula.distributed.plan model.py --cluster cluster.json --check 2,4,8

model.py defines `model()` and `example(batch)`, what the model is called with; it may define `loss(output)`, by default the
mean of squares, and `optimizer(parameters)`, by default Adam.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING

from facula._shared.text_table import table

from .cluster import Cluster, Link, quantity
from .step import BUCKET, STRATEGIES, Prediction, predict
from .trace import Trace, load_program, trace_step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _strategies(text: str) -> list[str]:
    chosen = list(STRATEGIES) if text == "all" else text.split(",")
    if set(chosen) - set(STRATEGIES):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(STRATEGIES)} or all, got {text!r}")
    return chosen


def _quantity(text: str) -> float:
    try:
        return quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m facula.distributed.plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("model", nargs="?", help="a file with model() and example(batch)")
    made.add_argument("--ranks", type=_numbers, default=[8, 64, 512], help="numbers of processes: 8,64,512")
    made.add_argument("--strategy", type=_strategies, default=["ddp"], help="ddp, fsdp, zero, several with commas, or all")
    made.add_argument("--batch", type=int, default=32, help="samples in a rank's batch (32)")
    made.add_argument("--steps", type=int, default=7, help="how many steps are measured (7)")
    made.add_argument("--speed", type=float, default=1.0, help="how many times as fast as this process a rank computes")
    made.add_argument("--units", default="", help="classes of modules that fsdp shards each for itself: Block,Head")
    made.add_argument("--bucket", type=_quantity, default=BUCKET, help="bytes of ddp's buckets: 25MB")
    made.add_argument("--prefetch", type=int, default=1, help="how many units fsdp gathers ahead (1)")
    made.add_argument("--jitter", type=float, default=0.0, help="relative standard deviation of a rank's computation")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--plot", metavar="FILE", help="draw efficiency and memory over the number of ranks (needs Matplotlib)")
    _add_cluster(made.add_argument_group("the cluster"))
    return made


def _add_cluster(group) -> None:
    group.add_argument("--cluster", metavar="FILE", help="what --measure wrote; the options below change it")
    group.add_argument("--ranks-per-node", type=int)
    group.add_argument("--latency", type=_quantity, help="of a message between nodes: 5us")
    group.add_argument("--bandwidth", type=_quantity, help="of what joins a node to the others: 25GB or 200Gbit")
    group.add_argument("--inside-latency", type=_quantity, help="of a message in a node")
    group.add_argument("--inside-bandwidth", type=_quantity, help="of a rank to another in its node")
    group.add_argument("--measure", metavar="FILE", help="run collectives between local processes and write their cluster")
    group.add_argument("--local-ranks", type=_numbers, default=[2, 4], help="of which numbers of processes (2,4)")
    group.add_argument("--check", type=_numbers, help="run the model with these numbers of local processes and compare")


def cluster_of(options: Any) -> Cluster:
    """Return the cluster that the options describe."""
    cluster = Cluster.load(options.cluster) if options.cluster else Cluster()
    changes: dict[Any, Any] = {"ranks_per_node": options.ranks_per_node} if options.ranks_per_node else {}
    given = {"between": (options.latency, options.bandwidth), "inside": (options.inside_latency, options.inside_bandwidth)}
    for name, (latency, bandwidth) in given.items():
        old = getattr(cluster, name)
        new = Link(old.latency if latency is None else latency, old.bandwidth if bandwidth is None else bandwidth)
        if new != old:
            changes[name] = new
    return dataclasses.replace(cluster, **changes)


def _size(nbytes: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


def _head(options, trace: Trace, cluster: Cluster) -> str:
    step = trace.forward + trace.backward + trace.update
    lines = [
        f"{options.model}: {_size(trace.parameter_bytes)} of parameters, {trace.samples} samples on each rank; a step alone "
        f"{step * 1e3:.3g} ms: forward {trace.forward * 1e3:.3g}, backward {trace.backward * 1e3:.3g}, "
        f"update {trace.update * 1e3:.3g}",
        f"cluster: {cluster.ranks_per_node} ranks on a node; messages in a node {cluster.inside.latency * 1e6:.3g} us + "
        f"{_size(cluster.inside.bandwidth)}/s for each rank, between nodes {cluster.between.latency * 1e6:.3g} us + "
        f"{_size(cluster.between.bandwidth)}/s for each node",
    ]
    return "\n".join(lines)


def _row(p: Prediction) -> list[str]:
    return [
        p.strategy, f"{p.ranks:,}", f"{p.seconds * 1e3:.4g}", f"{p.communication * 1e3:.4g}", f"{p.hidden:.0%}",
        f"{p.efficiency:.0%}", f"{p.samples / p.seconds:,.4g}", _size(p.bytes),
        ", ".join(f"{k} {_size(v)}" for k, v in p.memory.items() if v),
    ]  # fmt: skip


_COLUMNS = ["", "ranks", "step ms", "collectives ms", "hidden", "efficiency", "samples/s", "memory", "of which"]


def _plan(options) -> None:
    cluster = cluster_of(options)
    units = tuple(filter(None, options.units.split(",")))
    trace = trace_step(load_program(options.model), options.batch, options.steps, units).faster(options.speed)
    found = [
        predict(trace, cluster, ranks, strategy, int(options.bucket), options.prefetch, options.jitter)
        for strategy in options.strategy for ranks in options.ranks
    ]  # fmt: skip
    if options.plot:
        from .plot import draw

        draw(found, options.plot)
    if options.json:
        print(json.dumps([dataclasses.asdict(p) for p in found], indent=1))
    else:
        print("\n".join([_head(options, trace, cluster), *table(_COLUMNS, [_row(p) for p in found])]))


def _check(options) -> None:
    from .measure import traced, train

    cluster = cluster_of(options)
    units = tuple(filter(None, options.units.split(",")))
    trace = traced(options.model, options.batch, options.steps, units)
    print(_head(options, trace, cluster))
    rows = []
    for strategy in options.strategy:
        for ranks in options.check:
            here = dataclasses.replace(cluster, ranks_per_node=max(ranks, cluster.ranks_per_node))
            told = predict(trace, here, ranks, strategy)
            seconds, peak = train(options.model, options.batch, ranks, strategy, options.steps, units)
            times = [f"{told.seconds * 1e3:.4g}", f"{seconds * 1e3:.4g}", f"{told.seconds / seconds - 1:+.0%}"]
            rows.append([strategy, str(ranks), *times, _size(told.bytes), _size(peak), f"{told.bytes / peak - 1:+.0%}"])
    print("\n".join(table(["", "ranks", "step ms", "measured", "error", "memory", "measured", "error"], rows)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    options = parser().parse_args(arguments)
    try:
        if options.measure:
            from .measure import measure

            measure(options.local_ranks).save(options.measure)
            print(f"wrote {options.measure}")
        if options.model:
            (_check if options.check else _plan)(options)
        elif not options.measure:
            parser().error("a model's file or --measure is expected, got neither")
    except (ValueError, OSError, ImportError) as error:
        print(f"plan: {str(error).removeprefix('plan: ')}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
