"""Record the history of the CPU's memory: storages with the ops and source lines that made them, and a picture of it.

    facula.cpu.record_memory_history()
    train()
    snapshot = facula.cpu.memory_snapshot()
    facula.cpu.memory_picture("memory.svg", snapshot)

The history has only storages that were made while it was recorded. Recording a storage takes about half a microsecond,
with a short stack twice as long.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

__all__ = ["memory_picture", "memory_snapshot", "record_memory_history"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def record_memory_history(enabled: str | None = "all", *, max_entries: int = 100_000, stacks: str | None = "python") -> None:
    """Begin to record who makes storages, on all threads; beginning anew forgets what was recorded.

    Args:
        enabled: "all", "state" (what lives, without the changes before) or None (stop; what is known stays).
        max_entries: so many changes are kept, the last ones.
        stacks: "python" or "all": source lines are kept; None: they are not.

    Errors: ValueError for other values.

    >>> torch.cpu.record_memory_history()
    >>> x = torch.ones(3)
    >>> torch.cpu.record_memory_history(enabled=None)
    >>> torch.cpu.memory_snapshot()["blocks"][-1]["op"]
    'ones'
    """
    if enabled not in ("all", "state", None):
        raise ValueError(f"record_memory_history: enabled is 'all', 'state' or None, got {enabled!r}")
    if stacks not in ("python", "all", None):
        raise ValueError(f"record_memory_history: stacks is 'python', 'all' or None, got {stacks!r}")
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or not 0 <= max_entries < 2**40:
        raise ValueError(f"record_memory_history: max_entries is an integer from 0 on, got {max_entries!r}")
    if enabled is None:
        _C._memory_history_stop()
    else:
        _C._memory_history_start(max_entries if enabled == "all" else 0, stacks is not None)


def memory_snapshot() -> dict[str, Any]:
    """Return what is known of the CPU's memory.

    Returns a dict:
        blocks: live storages in the order in which they were made, each a dict with `address` (which storage), `size` in bytes,
            `op` that made it ("" where none ran), `frames` ((file, line, function), innermost first), `time_us` and `thread`.
        trace: the last changes, oldest first: the same, with `action` "alloc" or "free", and `budget`: "let go" where a memory
            budget made room, "made again" where it computed bytes again, "" for what the program did.
        forgotten: how many changes came before those.
        stats: what memory_stats() says now.

    Without record_memory_history() before, there are no blocks and no trace.

    >>> sorted(torch.cpu.memory_snapshot())
    ['blocks', 'forgotten', 'stats', 'trace']
    """
    live, changes, forgotten = _C._memory_history()
    frames = _Frames()
    return {
        "blocks": [_block(record, frames) for record in live],
        "trace": [_change(record, frames) for record in changes],
        "forgotten": forgotten,
        "stats": _C._cpu_memory_stats(),
    }


def _block(record, frames):
    storage, size, op, stack, time, thread, _ = record
    return {
        "address": storage, "size": abs(size), "op": op, "frames": frames[stack], "time_us": time / 1e3, "thread": thread,
    }  # fmt: skip


def _change(record, frames):
    return {**_block(record, frames), "action": "alloc" if record[1] > 0 else "free", "budget": record[-1]}


class _Frames(dict):
    def __missing__(self, number):
        self[number] = _C._stack(number)
        return self[number]


def _place(block):
    """Return the line of the program that a block is due to: the innermost one outside of this package."""
    for file, line, function in block["frames"]:
        if not file.startswith(_PACKAGE):
            return f"{os.path.basename(file)}:{line} {function}"
    return "backward" if not block["frames"] else "facula"


def memory_picture(path: str | PathLike[str], snapshot: Any = None, lines: int = 15) -> None:
    """Draw what holds memory, by the source lines and ops that made it, and how the total changed.

    Args:
        path: a file whose ending names the format: ".png", ".svg", ".pdf".
        snapshot: of memory_snapshot(); default: taken now.
        lines: so many source lines are named, those with most bytes.

    Errors: RuntimeError when nothing is recorded; ImportError without Matplotlib.

    >>> import importlib.util, os, tempfile
    >>> torch.cpu.record_memory_history()
    >>> x = torch.ones(3)
    >>> torch.cpu.record_memory_history(enabled=None)
    >>> if importlib.util.find_spec("matplotlib"):
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         torch.cpu.memory_picture(os.path.join(folder, "memory.svg"))
    ...         assert os.listdir(folder) == ["memory.svg"]
    """
    import matplotlib

    # A backend that needs no display, since the picture goes into a file.
    matplotlib.use("agg")
    from matplotlib import pyplot

    snapshot = memory_snapshot() if snapshot is None else snapshot
    if not snapshot["blocks"] and not snapshot["trace"]:
        raise RuntimeError("memory_picture: expected a history (record_memory_history()), got one without storages")
    held = _held_by_line(snapshot["blocks"])
    largest = sorted(held, key=lambda place: -sum(held[place].values()))[:lines]
    figure, (top, bottom) = pyplot.subplots(2, figsize=(11, 3.5 + 0.35 * len(largest)), layout="constrained",
                                            height_ratios=[max(len(largest), 1) * 0.35, 2.2])  # fmt: skip
    _draw_lines(top, held, largest)
    _draw_total(bottom, snapshot)
    figure.savefig(path)
    pyplot.close(figure)


def _held_by_line(blocks):
    """Return {line of the program: {op: bytes}}."""
    held = defaultdict(lambda: defaultdict(int))
    for block in blocks:
        held[_place(block)][block["op"] or "no op"] += block["size"]
    return held


def _draw_lines(axes, held, largest):
    ops = sorted({op for place in largest for op in held[place]}, key=lambda op: -sum(held[p].get(op, 0) for p in largest))
    shown = ops[:9]
    left = [0.0] * len(largest)
    for op in [*shown, "other ops"]:
        names = [op] if op in shown else ops[9:]
        sizes = [sum(held[place].get(name, 0) for name in names) / 2**20 for place in largest]
        if any(sizes):
            axes.barh(range(len(largest)), sizes, left=left, label=op)
            left = [a + b for a, b in zip(left, sizes)]
    axes.set_yticks(range(len(largest)), largest, fontsize=8)
    axes.invert_yaxis()
    total = sum(sum(ops.values()) for ops in held.values()) / 2**20
    axes.set(xlabel="MiB", title=f"What holds memory: {total:.1f} MiB, by the line that made it and the op it called")
    axes.legend(fontsize=8, loc="lower right")


def _draw_total(axes, snapshot):
    trace = snapshot["trace"]
    if not trace:
        axes.set_axis_off()
        return
    start, total, times, totals = trace[0]["time_us"], 0, [], []
    for change in trace:
        total += change["size"] if change["action"] == "alloc" else -change["size"]
        times.append((change["time_us"] - start) / 1e3)
        totals.append(total / 2**20)
    for cause, color in (("let go", "tab:red"), ("made again", "tab:blue")):
        marked = [i for i, change in enumerate(trace) if change.get("budget") == cause]
        if marked:
            points = [times[i] for i in marked], [totals[i] for i in marked]
            axes.plot(*points, linestyle="", marker="v" if cause == "let go" else "^", color=color, label=f"budget: {cause}")
            axes.legend(fontsize=8, loc="upper left")
    axes.step(times, totals, where="post")
    axes.fill_between(times, totals, step="post", alpha=0.3)
    axes.set(xlabel="ms", ylabel="MiB", title=f"The last {len(trace):,} changes")
