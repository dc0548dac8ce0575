"""What several examples need: the digits, and a line that shows progress."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np

import facula as torch

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"


def load_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images, (1797, 1, 8, 8) with values from 0 to 1, and their digits, (1797,)."""
    with gzip.open(DIGITS, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :64]).reshape(-1, 1, 8, 8) / 16
    return images, torch.from_numpy(table[:, 64]).long()


def progress(title: str, done: int, total: int, note: str = "") -> None:
    """Show a bar that fills up on one line, on terminals only; the next line printed replaces a full one."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        bar = "#" * filled + "." * (30 - filled)
        print(f"\r{title} [{bar}] {note}\033[K", end="\r" if done == total else "", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Print a line where a progress bar may stand."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(line, flush=True)


def pyplot():
    """Return Matplotlib's pyplot drawing to files, or None where it is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        say("no picture: matplotlib is not installed (pip install matplotlib)")
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
