"""Train within a memory budget: six models at shares of their peak, and the cost of a budget that is never reached.

    python benchmarks/memory_budget.py [--models gpt bert] [--shares 80 60 50 40 30] [--repeat 3] [--threads 1] [--json FILE]
    python benchmarks/memory_budget.py --folder DIR         (values may be moved to a file there)
    python benchmarks/memory_budget.py --costs [--repeat 200] [--json FILE]

Each model runs in a process of its own. A step is a forward and a backward pass; the optimizer's state is there, its time is
not. Times are processor time, the least of steps that follow one of their kind and alternate with plain ones, so that a busy
machine does not show; only the ratio means anything. A step that is not timed is compared with a plain one bit for bit (loss,
gradients, buffers, generator), and its resident set, less what the process has without tensors, with the budget. Shares are of
the plain peak.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "models"))
import budget_models  # noqa: E402
from machine import describe  # noqa: E402
from worker import forget_peak, memory  # noqa: E402

SHARES = (80, 60, 50, 40, 30)
FAR = 1 << 40  # a budget that nothing reaches
MIB = 1 << 20


class Model:
    """Hold a model, its optimizer's state, and its steps."""

    def __init__(self, m, name: str, small: bool, threads: int, folder: str | None = None) -> None:
        self.m, self.clock = m, time.thread_time if threads == 1 else time.process_time
        self.clock = time.perf_counter if folder else self.clock  # who waits for a disk takes no processor time
        m.set_num_threads(threads)
        m.manual_seed(0)
        self.model, self.loss, self.optimizer = budget_models.build(m, name, small)
        self.passes()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.buffers = [b.clone() for b in self.model.buffers()]

    def passes(self):
        loss = self.loss()
        loss.backward()
        return loss

    def begin(self) -> None:
        """Put everything in the state that all steps begin with."""
        self.optimizer.zero_grad()
        with self.m.no_grad():
            for buffer, value in zip(self.model.buffers(), self.buffers):
                buffer.copy_(value)
            for parameter in self.model.parameters():
                parameter.mul_(1)  # as an optimizer writes: no layout of a weight is kept from step to step
        self.m.manual_seed(1)
        gc.collect()
        self.m.cpu.reset_peak_memory_stats()

    def seconds(self) -> float:
        """Return the time of a step after another one of its kind, which has left the allocator its pages."""
        self.begin()
        self.passes()
        self.begin()
        begun = self.clock()
        self.passes()
        return self.clock() - begun

    def seen(self, loss) -> list[bytes]:
        """Return hashes of what has to be the same within any budget."""
        tensors = [loss, *(p.grad for p in self.model.parameters()), *self.model.buffers(), self.m.get_rng_state()]
        return [hashlib.blake2b(t.detach().clone().numpy()).digest() for t in tensors]

    def with_optimizer(self) -> int:
        """Return the highest of a step with the optimizer in it."""
        self.begin()
        self.passes()
        self.optimizer.step()
        return self.m.cpu.max_memory_allocated()


def sums(m) -> dict:
    """Return what the device's report has counted so far."""
    rows = m._C._budget_report(m.device("cpu"))["rows"]
    columns = {"let_go": 2, "let_go_bytes": 3, "again": 4, "again_ns": 6, "moved_bytes": 8, "moved_ns": 9}
    return {key: sum(row[column] for row in rows) for key, column in columns.items()}


def within(m, model: Model, limit: int, plain: list, repeat: int, folder: str | None) -> dict:
    """Return the figures of one budget: exactness and memory of one step, then times by turns with plain steps."""
    row = {"budget": limit}
    try:
        with m.cpu.memory_budget(limit, folder):
            model.begin()
            m.cpu.empty_cache()
            aside = memory("VmRSS") * MIB - m.cpu.memory_reserved()
            forget_peak()
            before = sums(m)
            loss = model.passes()
            row["highest"], row["resident"] = m.cpu.max_memory_allocated(), memory("VmHWM") * MIB - aside
            after = sums(m)
        row |= {key: after[key] - before[key] for key in after}
        row["exact"] = model.seen(loss) == plain
        del loss
        times = {"plain": [], "within": []}
        for _ in range(repeat):
            times["plain"].append(model.seconds())
            with m.cpu.memory_budget(limit, folder):
                times["within"].append(model.seconds())
        row |= {key: min(values) for key, values in times.items()}
    except m.OutOfMemoryError as error:
        row["error"] = str(error)
    return row


def one_model(name: str, options) -> dict:
    """Return everything about one model; run in a process of its own."""
    import facula as m

    model = Model(m, name, options.small, options.threads, options.folder)
    model.begin()
    loss = model.passes()
    plain, peak = model.seen(loss), m.cpu.max_memory_allocated()
    model.begin()
    loss = model.passes()
    assert model.seen(loss) == plain, "two plain steps differ"
    peak = max(peak, m.cpu.max_memory_allocated())
    del loss
    figures = {"name": name, "peak": peak, "rows": []}
    for share in options.shares:
        limit = peak * share // 100
        figures["rows"].append({"share": share, **within(m, model, limit, plain, options.repeat, options.folder)})
        print(json.dumps(figures), flush=True)
    return {**figures, "with_optimizer": model.with_optimizer()}


def line(figures: dict, row: dict) -> str:
    peak = figures["peak"]
    text = f"{figures['name']:13} {row['share']:3} %"
    if "error" in row:
        return f"{text}  {row['error']}"
    highest, resident = (100 * row[key] / peak for key in ("highest", "resident"))
    added, again = 100 * (row["within"] / row["plain"] - 1), row["again_ns"] / 1e7 / row["plain"]
    same = "exact" if row["exact"] else "DIFFERENT"
    moved = f"moved {row['moved_bytes'] >> 20} MiB in {row['moved_ns'] / 1e9:.2f} s, " if row["moved_bytes"] else ""
    return (
        f"{text}  held {highest:5.1f} %, resident {resident:5.1f} %, time {added:+6.1f} %, run again {row['again']:5} ops "
        f"{again:5.1f} %, let go {row['let_go']:5} ({row['let_go_bytes'] >> 20} MiB), {moved}{same}"
    )


# ---- what a budget costs that is never reached


def small_ops(m) -> dict:
    """Return calls, and how many of them are timed at once."""
    a, b = m.ones(8, 8), m.ones(8, 8)
    w, bias = m.ones(8, 8, requires_grad=True), m.ones(8, requires_grad=True)
    large, weight = m.ones(128, 256), m.ones(256, 256, requires_grad=True)
    linear = m.nn.functional.linear
    return {
        "a + b": (lambda: a + b, 500),
        "a * w, recorded": (lambda: a * w, 500),
        "F.linear of 8 x 8, recorded": (lambda: linear(a, w, bias), 500),
        "large * 2, recorded (128 KiB)": (lambda: weight * 2, 100),
        "F.linear of 128 x 256, recorded": (lambda: linear(large, weight), 20),
    }


def timed(call, count: int, clock) -> float:
    begun = clock()
    for _ in range(count):
        call()
    return (clock() - begun) / count


def alternated(m, call, count: int, repeat: int, clock) -> dict:
    """Return the least time of a call without a budget and with one that is far."""
    times = {"off": [], "far": []}
    for _ in range(repeat):
        for kind, limit in (("off", None), ("far", FAR)):
            m.cpu.memory_budget(limit)
            times[kind].append(timed(call, count, clock))
    m.cpu.memory_budget(None)
    return {kind: min(values) for kind, values in times.items()}


def costs(options) -> list[dict]:
    import facula as m

    m.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.process_time
    rows = []
    for name, (call, count) in small_ops(m).items():
        rows.append({"name": name, **alternated(m, call, count, options.repeat, clock)})
        print(
            f"{name:34} off {rows[-1]['off'] * 1e9:8.1f} ns, far {(rows[-1]['far'] - rows[-1]['off']) * 1e9:+8.1f} ns",
            flush=True,
        )
    for name in options.models:
        if name not in ("gpt", "resnet50", "lstm"):
            continue
        model = Model(m, name, options.small, options.threads)
        rows.append({"name": f"{name}, a step", **alternated(m, model.seconds, 1, max(options.repeat // 40, 3), clock)})
        added = rows[-1]["far"] / rows[-1]["off"] - 1
        print(f"{rows[-1]['name']:34} off {rows[-1]['off'] * 1e3:8.1f} ms, far {100 * added:+8.2f} %", flush=True)
        del model
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=budget_models.NAMES, choices=budget_models.NAMES)
    parser.add_argument("--shares", nargs="+", type=int, default=SHARES, help="budgets, in per cent of the peak")
    parser.add_argument("--repeat", type=int, help="timed steps at each share (3), or turns of small ops (200)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="models of a few MiB, as tests have them")
    parser.add_argument("--costs", action="store_true", help="what a budget costs that is never reached")
    parser.add_argument("--folder", help="values may be moved to a file there; times are then those of the clock")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.repeat = options.repeat or (200 if options.costs else 3)
    if options.worker:
        print(json.dumps(one_model(options.worker, options)))
        return
    found = costs(options) if options.costs else []
    for name in () if options.costs else options.models:
        command = [sys.executable, *sys.argv, "--worker", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            for answer in map(json.loads, worker.stdout):
                if "with_optimizer" not in answer:
                    print(line(answer, answer["rows"][-1]), flush=True)
        if worker.returncode:
            sys.exit(f"{name}: its process ended with {worker.returncode}")
        found.append(answer)
        print(f"{name:13} peak {answer['peak'] >> 20} MiB, with the optimizer's step {answer['with_optimizer'] >> 20} MiB")
    if options.json:
        facts = {"threads": options.threads, "small": options.small, "machine": describe(), "date": time.strftime("%Y-%m-%d")}
        Path(options.json).write_text(json.dumps({**facts, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
