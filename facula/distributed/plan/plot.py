"""Draw predictions over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .step import Prediction

if TYPE_CHECKING:
    from os import PathLike

_INK, _MUTED, _COLORS = "#22313f", "#8395a7", ("#2e86c1", "#c0392b", "#27ae60")


def draw(predictions: Sequence[Prediction], path: str | PathLike[str]) -> None:
    """Write a picture of efficiency and memory, a line for each strategy. ImportError without Matplotlib.

    Args:
        predictions: a list of Prediction.
        path: the file; its ending says the format.

    >>> import importlib.util, os, tempfile
    >>> from torch.distributed.plan import Cluster, Trace, predict
    >>> from torch.distributed.plan.plot import draw
    >>> from torch.distributed.plan.trace import Parameter
    >>> trace = Trace((Parameter("weight", 4000, 0.02, 0),), ("",), (0.0,), 0.01, 0.02, 0.001, 32, 100, 2.0, 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     if importlib.util.find_spec("matplotlib"):
    ...         draw([predict(trace, Cluster(), ranks) for ranks in (8, 64)], f"{folder}/scaling.svg")
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    style = {"svg.hashsalt": "facula", "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": _MUTED}
    inked = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)
    with plt.rc_context({**style, **inked}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
        for strategy, color in zip(dict.fromkeys(p.strategy for p in predictions), _COLORS):
            line = sorted((p for p in predictions if p.strategy == strategy), key=lambda p: p.ranks)
            ranks = [p.ranks for p in line]
            left.plot(ranks, [100 * p.efficiency for p in line], color=color, label=strategy, marker="o", markersize=3)
            right.plot(ranks, [p.bytes / 1e6 for p in line], color=color, label=strategy, marker="o", markersize=3)
        left.set(title="efficiency, %", xlabel="ranks", xscale="log", ylim=(0, 105))
        right.set(title="memory of a rank, MB", xlabel="ranks", xscale="log", yscale="log")
        for axes in (left, right):
            axes.grid(color=_MUTED, alpha=0.3, linewidth=0.6)
        left.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
        plt.close(figure)
