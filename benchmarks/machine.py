"""The machine and the versions that a result was measured with."""

from __future__ import annotations

import os
import platform

import numpy
import torch


def describe() -> dict[str, str | int]:
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.processor())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pytorch": torch.__version__,
    }
