"""Compare compiled programs with eager ones, and with PyTorch's eager execution and its inductor, in one run.

    python benchmarks/compile.py                        prints microseconds of processor time, the least of several rounds
    python benchmarks/compile.py --only "arith 1M" --threads 1 --rounds 5 --json FILE
    python benchmarks/compile.py --without torch        Facula alone
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compile_workloads import PROGRAMS  # noqa: E402
from turns import Failed, Process  # noqa: E402

WARM = 40  # calls before the first measured one: the trial of a compiled function is over


def microseconds(call, seconds: float) -> float:
    """Return the least processor time of a call over rounds that take `seconds` together."""
    begin = time.process_time()
    call()
    one = max(time.process_time() - begin, 1e-7)
    count = max(1, int(seconds / 9 / one))
    least = float("inf")
    for _ in range(9):
        begin = time.process_time()
        for _ in range(count):
            call()
        least = min(least, (time.process_time() - begin) / count)
    return least * 1e6


def work(library: str, threads: int) -> None:
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    print(json.dumps({"ready": library}), flush=True)
    kept = {}
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["program"], asked["way"]
        try:
            if key not in kept:
                torch.manual_seed(0)
                function = PROGRAMS[asked["program"]](torch)
                begin = time.perf_counter()
                if asked["way"] == "compiled":
                    function = torch.compile(function)
                function()
                kept[key] = function, time.perf_counter() - begin
                for _ in range(WARM if asked["way"] == "compiled" else 2):
                    function()
            function, first = kept[key]
            us = microseconds(function, asked["seconds"])
            answer = {"us": us, "first_call_s": first, "state": getattr(function, "state", None)}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json")
    parser.add_argument("--worker")
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.threads)
        return
    ways = [("facula", "eager"), ("facula", "compiled")]
    if args.without != "torch":
        ways += [("torch", "eager"), ("torch", "compiled")]
    command = [sys.executable, os.path.abspath(__file__), "--threads", str(args.threads), "--worker"]
    workers = {library: Process([*command, library], 900) for library in dict(ways)}
    names = [name for name in PROGRAMS if not args.only or name in args.only.split(",")]
    results = {}
    print(f"{'':24s}{'eager':>10s}{'compiled':>10s}{'times':>7s}{'PyTorch':>11s}{'inductor':>10s}{'ratio':>7s}")
    for name in names:
        row: dict[str, dict] = {}
        for _ in range(args.rounds):
            for library, way in ways:
                try:
                    answer = workers[library].ask(program=name, way=way, seconds=args.seconds)
                except Failed as error:
                    answer = {"failed": str(error)}
                old = row.setdefault(f"{library} {way}", answer)
                if "us" in answer and answer["us"] < old.get("us", float("inf")):
                    row[f"{library} {way}"] = answer
        results[name] = row
        keys = [f"{library} {way}" for library in ("facula", "torch") for way in ("eager", "compiled")]
        us = [row.get(key, {}).get("us", float("nan")) for key in keys]
        line = f"{name:24s}{us[0]:10.1f}{us[1]:10.1f}{us[0] / us[1]:7.2f}{us[2]:11.1f}{us[3]:10.1f}{us[3] / us[1]:7.2f}"
        print(f"{line}  {row['facula compiled'].get('state') or ''}", flush=True)
        for way, answer in row.items():
            if "failed" in answer:
                print(f"    {way}: {answer['failed']}")
    for worker in workers.values():
        worker.end()
    if args.json:
        Path(args.json).write_text(json.dumps({"threads": args.threads, "programs": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
