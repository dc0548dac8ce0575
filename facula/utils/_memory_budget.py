"""Set the `memory_budget` of a device, and report what it did as text, events and a picture.

The core (src/budget) has sums since the process began, and a `MemoryBudget` subtracts their values at its beginning.
Values that cannot be subtracted, such as the highest one, are recorded from its beginning on. `_memory_budget_drawing`
draws.
"""

from __future__ import annotations

import os
import re
import weakref
from typing import TYPE_CHECKING, NamedTuple

from facula import _C
from facula._shared.quantities import size_text, time_text
from facula._shared.text_table import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    import facula

_UNITS = {"B": 1} | {
    letter + kind: base ** (i + 1) for kind, base in (("B", 1000), ("iB", 1024)) for i, letter in enumerate("KMGT")
}
_BY_NAME = {name.lower(): size for name, size in _UNITS.items()}
_EXPECTED = "a number of bytes, a text such as '2GB' or '512MiB', a share of the memory from 0 to 1 as a float, or None"


class BudgetEvent(NamedTuple):
    """Describe one action of a memory budget.

    Attributes:
        time: seconds since the budget began.
        op: the op that made the bytes, "" where it is not known.
        place: the line of the program that called it, such as "train.py:31", "" where it is not known.
        shape: of the tensor, None where an op ran again.
        dtype: of the tensor, None where an op ran again.
        bytes: how many.
        cause: "request" (they went since memory was asked for), "moved away" (they were copied elsewhere, and went), "moved
            back", "again" (the op ran again, and made them), "copied" (others can write to them, so a copy was kept).
        seconds: that it took; 0 where it is not measured.
    """

    time: float
    op: str
    place: str
    shape: facula.Size | None
    dtype: facula.dtype | None
    bytes: int
    cause: str
    seconds: float


def parse_limit(limit: Any, memory: Callable[[], int]) -> int:
    """Return the bytes that a limit means, 0 for None.

    Args:
        limit: as memory_budget() takes it.
        memory: gives the bytes of the device's memory.
    """
    if limit is None:
        return 0
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", limit, re.I | re.A)
        if not found or found[2].lower() not in _BY_NAME:
            names = ", ".join(_UNITS)
            raise ValueError(f"memory_budget: a number and one of {names}, such as '2GB' or '512MiB', got {limit!r}")
        bytes = int(float(found[1]) * _BY_NAME[found[2].lower()])
    elif isinstance(limit, float):
        if not 0 < limit <= 1:
            raise ValueError(f"memory_budget: a share is above 0 and at most 1 (bytes are an int), got {limit!r}")
        bytes = int(limit * memory())
    elif isinstance(limit, int) and not isinstance(limit, bool):
        bytes = limit
    else:
        raise TypeError(f"memory_budget: expected {_EXPECTED}, got {type(limit).__name__}")
    if not 1 <= bytes < 2**63:
        raise ValueError(f"memory_budget: at least one byte and less than 2^63 (None is no budget), got {limit!r}")
    return bytes


def tensor_text(shape: Any, dtype: Any) -> str:
    """Return "(8, 64) float32"."""
    return f"{tuple(shape)} {str(dtype).removeprefix('torch.')}"


class Row(NamedTuple):
    """Hold the sums of one op and line: numbers, bytes and nanoseconds."""

    op: str
    place: str
    let_go: int
    let_go_bytes: int
    again: int
    again_bytes: int
    again_ns: int
    moved: int
    moved_bytes: int
    moved_ns: int

    @property
    def name(self) -> str:
        return f"{self.op or 'an op'} {self.place}".rstrip()


class _Facts(NamedTuple):
    """Hold what was measured during the time of a budget."""

    end: int  # monotonic clock, nanoseconds
    rows: list[Row]
    copied: list[tuple[Any, Any, str, int, int]]  # shape, dtype, place, how often, bytes
    passes: int
    share: float  # of the time of steps that went into ops run again, from 0 to 1
    highest: int
    plain: int
    smallest: int


def _difference(now, before):
    """Yield the rows (texts and numbers) less those of equal texts before; what did not change is left out."""
    for key, numbers in now.items():
        changed = tuple(a - b for a, b in zip(numbers, before.get(key, (0,) * len(numbers)), strict=True))
        if any(changed):
            yield (*key, *changed)


def _summed(rows, texts):
    """Return {texts: numbers} of rows; equal texts (of several numbers of a line) are added."""
    sums: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in rows:
        key, numbers = tuple(row[:texts]), row[texts:]
        sums[key] = tuple(map(sum, zip(sums[key], numbers, strict=True))) if key in sums else tuple(numbers)
    return sums


def _set_folder(device, limit, folder):
    """Set where bytes of the CPU are moved to; return the folder before, None for another device."""
    if device.type != "cpu":
        return None
    return _C._budget_folder(None if folder is None and limit else os.fsencode(folder or ""))


class MemoryBudget:
    """Bound the memory of a device, and report what the bound caused; memory_budget() returns it.

    As a context manager it ends with its block: the bound before is restored, and the report covers the time until then.

    Attributes:
        device: whose memory is bounded.
        limit: the bound in bytes, None: there is none.

    Args:
        device: the device.
        limit: bytes; 0 for no bound.
        folder: where bytes of the CPU lie meanwhile, see torch.cpu.memory_budget().

    >>> with torch.cpu.memory_budget("64GB") as budget:
    ...     torch.ones(3).sum()
    tensor(3.)
    >>> budget.limit
    64000000000
    >>> budget.events()
    []
    """

    def __init__(self, device: facula.device, limit: int, folder: str | os.PathLike[str] | None = None) -> None:
        if folder is not None and not limit:
            raise ValueError(f"memory_budget: a folder is for a budget, got {folder!r} and no limit")
        self.device = device
        self.limit = limit or None
        self._folder_before = _set_folder(device, limit, folder)
        self._before = _C._budget_set(device, limit)
        self._watch = _C._budget_begin_watch(device)
        self._peak: int = _C._budget_peak(device)
        self._ended: _Facts | None = None
        self._forget = weakref.finalize(self, _C._budget_end_watch, device, self._watch)
        report = _C._budget_report(device)
        self._begin: int = report["now"]
        self._rows = _summed(report["rows"], 2)
        self._copied = _summed(report["copied"], 3)
        self._passes: int = report["passes"]
        self._steps = report["steps_ns"], report["steps_again_ns"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._ended is None:
            self._ended = self._facts()
            self._forget()
            _C._budget_set(self.device, self._before)
            if self._folder_before is not None:
                _C._budget_folder(os.fsencode(self._folder_before))

    def __repr__(self) -> str:
        bound = size_text(self.limit) if self.limit else "none"
        return f"<memory budget of {self.device}: {bound}{', ended' if self._ended else ''}>"

    def _facts(self):
        if self._ended is not None:
            return self._ended
        report = _C._budget_report(self.device)
        highest, plain, smallest, _ = _C._budget_watched(self.device, self._watch)
        peak = _C._budget_peak(self.device)
        highest = max(highest, peak) if peak > self._peak else highest  # what is held within ops
        rows = [Row(*row) for row in _difference(_summed(report["rows"], 2), self._rows)]
        copied = list(_difference(_summed(report["copied"], 3), self._copied))
        passes = report["passes"] - self._passes
        steps, again = (report[name] - before for name, before in zip(("steps_ns", "steps_again_ns"), self._steps, strict=True))
        if passes and not steps:  # a first step has no begin but that of the budget
            steps, again = report["last_pass_end"] - self._begin, sum(row.again_ns for row in rows)
        return _Facts(report["now"], rows, copied, passes, again / max(steps, 1), highest, plain, smallest)

    @property
    def highest(self) -> int:
        """The most bytes that were held while it lasted."""
        return self._facts().highest

    def events(self) -> list[BudgetEvent]:
        """Return what it did, oldest first; of more than 65,536 events the last ones."""
        end = self._facts().end
        return [
            BudgetEvent((time - self._begin) / 1e9, *facts, ns / 1e9)
            for time, *facts, ns in _C._budget_events(self.device, self._begin)
            if time <= end
        ]

    def summary(self, rows: int = 20) -> str:
        """Return what it did as a text: a row for each op and line whose bytes went.

        Args:
            rows: so many rows, those with most time and bytes; the others are added up in one.
        """
        facts = self._facts()
        lines = [self._head(facts)]
        if facts.rows:
            lines += table(("made by", "let go", "bytes", "run again", "time", "moved"), list(_cells(facts.rows, rows)))
        lines += _copied_lines(facts.copied)
        lines.append(self._what_stays(facts))
        return "\n".join(lines) + "\n"

    def _head(self, facts):
        bound = size_text(self.limit) if self.limit else "none"
        text = f"budget {bound}, highest {size_text(facts.highest)}"
        text += f"; without it {size_text(facts.plain)}" if facts.plain > facts.highest else ""
        if facts.passes:
            steps = f"{facts.passes:,} step{'s' * (facts.passes != 1)} of backward"
            text += f". {steps}, {facts.share:.1%} of the time in ops run again".replace("%", " %")
        return text

    def _what_stays(self, facts):
        sums: dict[str, int] = {}
        for kind, count, *_ in _C._budget_held(self.device):
            sums[kind] = sums.get(kind, 0) + count
        kinds = (("model", "parameters and optimizer"), ("gradient", "gradients"))
        held = ", ".join(f"{size_text(sums.get(kind, 0))} {words}" for kind, words in kinds)
        least = f"smallest budget for this program: {size_text(facts.smallest)}" if facts.smallest else "memory was never short"
        return f"cannot go: {held}; {least}"

    def picture(self, path: str | os.PathLike[str], step: int = -1) -> None:
        """Draw memory over one step of training, what went and what was run again, into an SVG file.

        A step ends with its backward pass, and begins with the end of the pass before it.

        Args:
            path: the file.
            step: which of the steps that are still known; -1 is the last one.

        Errors: RuntimeError where nothing was seen yet; IndexError where there is no such step.
        """
        from . import _memory_budget_drawing

        with open(path, "w", encoding="utf-8") as file:
            file.write(_memory_budget_drawing.drawing(self._step(step)))

    def _step(self, step):
        """Return what a picture shows."""
        from ._memory_budget_drawing import Step

        end = self._facts().end
        samples = [sample for sample in _C._budget_samples(self.device, self._begin) if sample[0] <= end]
        if not samples:
            raise RuntimeError("picture: expected a budget under which ops have run, got one that has seen none")
        passes = [(a, b) for a, b in _C._budget_passes(self.device, self._begin) if 0 < b <= end]
        if passes and not -len(passes) <= step < len(passes):
            raise IndexError(f"picture: one of the {len(passes)} steps that are known, got {step}")
        number = step % len(passes) if passes else 0
        first = passes[number - 1][1] if number else self._begin
        last = passes[number][1] if passes else samples[-1][0]
        events = [event for event in _C._budget_events(self.device, first) if event[0] <= last]
        before = [sample for sample in samples if sample[0] < first][-1:]
        inside = [sample for sample in samples if first <= sample[0] <= last]
        return Step(first, last, passes[number] if passes else None, before + inside, events, self.limit or 0)


def _cells(rows, most):
    """Yield the cells of the table, those with most time and bytes first."""
    ordered = sorted(rows, key=lambda row: (-row.again_ns - row.moved_ns, -row.let_go_bytes, row.name))
    shown = [(row.name, row) for row in ordered[:most]]
    if others := ordered[most:]:
        sums = map(sum, zip(*(row[2:] for row in others), strict=True))
        shown.append((f"{len(others)} others", Row("", "", *sums)))
    for name, row in shown:
        yield (
            name,
            f"{row.let_go:,}" if row.let_go else "-",
            size_text(row.let_go_bytes) if row.let_go else "-",
            f"{row.again:,}" if row.again else "-",
            time_text((row.again_ns + row.moved_ns) / 1e9) if row.again or row.moved else "-",
            size_text(row.moved_bytes) if row.moved else "-",
        )


def _copied_lines(copied):
    """Yield one line for each kind of tensors, at most five."""
    for shape, dtype, place, count, size in sorted(copied, key=lambda row: -row[-1])[:5]:
        what = ", ".join(filter(None, (tensor_text(shape, dtype), place, f"{count:,} times, {size_text(size)}")))
        yield f"copied because others can write to them (NumPy, DLPack, .data): {what}"
    if len(copied) > 5:
        yield f"and {len(copied) - 5:,} other kinds of tensors were copied"
