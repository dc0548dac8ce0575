"""The machine and the versions that a result was measured with."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys

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
    """Starts this program anew where the variables of the level are not set yet."""
    missing = {name: value for name, value in LEVELS.get(level, {}).items() if os.environ.get(name) != value}
    if missing:
        os.environ.update(missing)
        os.execv(sys.executable, sys.orig_argv)


def version(package: str) -> str:
    """Without loading it: a program that measures memory holds nothing that it does not use."""
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
