"""Describe the machine and the versions that a result was measured with."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable

# What holds Facula, PyTorch and the libraries below them to one instruction-set level of x86-64, when set before they load.
LEVELS = {
    "v2": {
        "FACULA_ISA": "v2", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OPENBLAS_CORETYPE": "Nehalem",
    },
    "v3": {
        "FACULA_ISA": "v3", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell",
    },
    "v4": {"FACULA_ISA": "v4"},
}  # fmt: skip


def add_level(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--level", choices=LEVELS, help="hold both libraries to this level (default: the machine's)")


def at_level(level: str | None) -> None:
    """Start this program anew where the variables of the level are not set yet."""
    missing = {name: value for name, value in LEVELS.get(level, {}).items() if os.environ.get(name) != value}
    if missing:
        os.environ.update(missing)
        os.execv(sys.executable, sys.orig_argv)


def version(package: str) -> str:
    """Return the version without loading it: a program that measures memory holds nothing that it does not use."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def describe() -> dict[str, str | int]:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.processor())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "pytorch": version("torch"),
        "level": os.environ.get("FACULA_ISA", "the machine's"),
    }


def row_options(doc: str, rounds: int) -> tuple[argparse.Namespace, Callable[[], float]]:
    """Return the options of a benchmark of rows, at the level and with the threads that they name, and the clock for it."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name or group contains this")
    parser.add_argument("--json", help="write the figures here")
    add_level(parser)
    options = parser.parse_args()
    at_level(options.level)
    for library in ("facula", "torch"):
        sys.modules[library].set_num_threads(options.threads)
    # of one thread, its processor time: what other programs take of the machine does not count
    return options, time.thread_time if options.threads == 1 else time.perf_counter


def save_rows(options: argparse.Namespace, rows: list[dict]) -> None:
    if not options.json:
        return
    facts = {"threads": options.threads, "machine": describe(), "date": time.strftime("%Y-%m-%d"), "rows": rows}
    with open(options.json, "w") as file:
        json.dump(facts, file, indent=1)
