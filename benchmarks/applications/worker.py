"""Run one application in a process of its own: read commands as JSON lines, and answer each with a JSON line.

    python worker.py KIND NAME THREADS              under PyTorch
    python -m facula worker.py KIND NAME THREADS    the same file under Facula

The files of applications import `torch` and nothing of Facula's, because what is measured is a program that runs
unchanged.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch  # noqa: E402
from kinds import APPLICATIONS  # noqa: E402


def processor() -> float:
    """Return the processor seconds of this process and of the children that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def turn(step, seconds: float) -> dict:
    """Repeat the step until the time is over, at least once."""
    start, used, count = time.perf_counter(), processor(), 0
    while not count or time.perf_counter() - start < seconds:
        step()
        count += 1
    return {"seconds": (time.perf_counter() - start) / count, "processor": (processor() - used) / count, "count": count}


def main() -> None:
    kind, name, threads = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a package prints is no answer
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    importlib.import_module(kind)
    step = APPLICATIONS[name].start()
    print(json.dumps({"result": step()}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(step, **json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
