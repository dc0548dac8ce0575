"""Describe this build as text."""

from __future__ import annotations

import os
import platform

import facula


def show() -> str:
    """Return a few lines on version, platform and threads."""
    return (
        f"Facula {facula.__version__}\n"
        f"  - Python {platform.python_version()}, {platform.system()} {platform.machine()}\n"
        f"  - CPU kernels: {facula.backends.cpu.get_cpu_capability()}\n"
        f"  - CPU threads: {facula.get_num_threads()} of {os.cpu_count()}\n"
    )


def parallel_info() -> str:
    """Return how work is divided among threads."""
    omp = os.environ.get("OMP_NUM_THREADS")
    return f"facula.get_num_threads(): {facula.get_num_threads()}\nOMP_NUM_THREADS: {omp}\n"
