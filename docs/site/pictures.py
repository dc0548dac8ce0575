"""Pictures of the API's pages, drawn while the site is built: `write(folder)` draws them all, `of(name)` finds those of a page.

A picture belongs to one or more public names, and says in words what it shows. curves.py and windows.py add theirs. The
colors can be read on white and on black.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

import facula  # noqa: E402

INK, BLUE, ORANGE, GREEN, RED, VIOLET = "#7c7c7c", "#2f80d0", "#d9730d", "#2a9d5c", "#d64545", "#8e63ce"
COLORS = (BLUE, ORANGE, GREEN, VIOLET, RED)
SETTINGS = {
    "svg.hashsalt": "facula", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "text.color": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.prop_cycle": matplotlib.cycler(color=COLORS), "axes.titlesize": 9,
    "axes.titlecolor": INK, "legend.frameon": False, "lines.linewidth": 1.8, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "figure.constrained_layout.use": True,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """The name of a file, what it shows, and what draws it."""

    file: str
    words: str
    draw: Callable[[], object]


#: By the public names on whose pages they stand.
PICTURES: dict[str, list[Picture]] = {}


def add(names: str, words: str, draw: Callable[[], object]) -> None:
    """Put a picture on the pages of `names`; its file has the first name."""
    first, *_ = names.split()
    picture = Picture(f"{first}{len(PICTURES.get(first, ())) or ''}.svg", words, draw)
    for name in names.split():
        PICTURES.setdefault(name, []).append(picture)


def of(name: str) -> list[tuple[str, str]]:
    """Return the files of the pictures of a public name, with what they show."""
    return [(f"pictures/{picture.file}", picture.words) for picture in PICTURES.get(name, ())]


def write(folder: Path, wanted: Callable[[str], bool] = lambda file: True) -> int:
    """Draw all pictures below `folder`, or the wanted files; return how many there are."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    drawn: set[str] = set()
    with plt.rc_context(SETTINGS):
        for picture in {picture.file: picture for found in PICTURES.values() for picture in found}.values():
            if not wanted(picture.file):
                continue
            facula.manual_seed(0)
            picture.draw()
            plt.savefig(folder / "pictures" / picture.file, metadata={"Date": None})
            plt.close("all")
            drawn.add(picture.file)
    for path in (folder / "pictures").glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    return len(drawn)
