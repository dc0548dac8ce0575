"""Run one model in one library in a process of its own: read commands as JSON lines, and answer each with a JSON line.

    python benchmarks/models/worker.py facula|torch|compiled MODEL THREADS

`__main__.py` holds two workers open and calls them by turns, so that memory, page faults and processor time are each
library's.
"""

from __future__ import annotations

import functools
import importlib
import json
import resource
import sys
import time

import common


def memory(key: str) -> float:
    """Return MiB of this process: VmRSS is now, VmHWM the most."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024


def forget_peak() -> None:
    """Start VmHWM anew; without the right to it, the peak includes what preparing took."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def usage() -> tuple[float, float, int]:
    """Return the seconds, processor seconds and page faults until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime, used.ru_minflt + used.ru_majflt


class Worker:
    def __init__(self, framework: str, name: str, threads: int) -> None:
        self.m = importlib.import_module("facula" if framework == "facula" else "torch")
        self.threads = threads
        self.m.set_num_threads(threads)
        self.empty = memory("VmRSS")
        self.module = importlib.import_module(name)
        self.m.manual_seed(0)
        self.model = self.module.network(self.m)
        common.fill(self.m, self.model)
        self.called = self.m.compile(self.model) if framework == "compiled" else self.model
        self.train = self.module.training(self.m, self.called)
        self.infer = None
        forget_peak()

    def products(self) -> dict:
        return {"flops": common.count_products(self.model, self.train, True)}

    def losses(self, count: int) -> dict:
        """Return the losses of the first steps, without dropout: each library draws its own random numbers."""
        dropouts = [module for module in self.model.modules() if type(module).__name__ == "Dropout"]
        kept = [module.p for module in dropouts]
        for module in dropouts:
            module.p = 0.0
        losses = [self.train().item() for _ in range(count)]
        for module, p in zip(dropouts, kept):
            module.p = p
        return {"losses": losses}

    def turn(self, call, seconds: float) -> dict:
        """Call until the time is over, at least once."""
        start, processor, faults = usage()
        count = 0
        while True:
            call()
            count += 1
            now = time.perf_counter()
            if now - start >= seconds:
                break
        end, processor_end, faults_end = usage()
        alone = self.threads == 1  # what other programs take of the machine does not count
        return {
            "seconds": (processor_end - processor if alone else end - start) / count,
            "processor": (processor_end - processor) / count,
            "faults": (faults_end - faults) / count,
            "count": count,
        }

    def steps(self, seconds: float) -> dict:
        return self.turn(self.train, seconds)

    def answers(self, seconds: float) -> dict:
        if self.infer is None:
            self.infer = self.module.inference(self.m, self.called)
            self.infer()
        return self.turn(self.infer, seconds)

    def answer_products(self) -> dict:
        call = self.module.inference(self.m, self.called)
        return {"flops": common.count_products(self.model, call, False)}

    def peak(self) -> dict:
        return {"peak": memory("VmHWM"), "empty": self.empty}

    def rate(self) -> dict:
        """Return the best rate of a square product, in floating-point operations a second."""
        best = 0.0
        for size in (1024, 2048):
            a, b = common.normal(self.m, size, size), common.normal(self.m, size, size, seed=2)
            for _ in range(12):
                best = max(best, 2 * size**3 / self.turn(functools.partial(self.m.mm, a, b), 0)["seconds"])
        return {"rate": best}

    def table(self, count: int, rows: int) -> dict:
        """Return what the library's own profiler says of a few steps."""
        profiler = importlib.import_module(self.m.__name__ + ".profiler")
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as watched:
            for _ in range(count):
                self.train()
        return {"table": watched.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows)}


def serve(make) -> None:
    """Make a worker, then answer on standard output."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    worker = make()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    framework, name, threads = sys.argv[1:]
    serve(lambda: Worker(framework, name, int(threads)))


if __name__ == "__main__":
    main()
