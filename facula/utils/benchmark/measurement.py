"""Hold the times of one statement, and compute statistics of them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_UNITS = (("ns", 1e-9, "nanosecond"), ("us", 1e-6, "microsecond"), ("ms", 1e-3, "millisecond"), ("s", 1.0, "second"))
_FEW_FIGURES, _MANY_FIGURES = 1, 5
_NOISY = 0.1, 0.25  # interquartile range over median from which a measurement is remarked on, and warned about


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    r"""Describe what is measured: the statements, and the names that tables show.

    Args:
        stmt, setup: the statement, and what runs before it.
        global_setup: of statements in C++.
        label, sub_label, description: titles: of a table, of a row and of a column.
        env: a name for the surroundings, where several are compared.
        num_threads: of the ops.

    >>> task = torch.utils.benchmark.TaskSpec("x + 1", "x = 1", label="sum", sub_label="small")
    >>> task.title, task.setup_str(), task.summarize()
    ('sum: small', 'setup: x = 1', 'sum: small\nsetup: x = 1')
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Label and sub-label, or the statement."""
        label = self.label or f"stmt: {self.stmt}"
        return f"{label}: {self.sub_label}" if self.sub_label else label

    def setup_str(self) -> str:
        """Return the setup as a line to print, empty where there is none."""
        return "" if self.setup in ("pass", "") else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return title, description, setup and statement, a line each."""
        lines = [self.title, self.description or "", self.setup_str()]
        return "\n".join(line for line in lines if line)


class Measurement:
    """Hold the times of blocks of runs.

    Args:
        number_per_run: runs in a block.
        raw_times: seconds of each block.
        task_spec: what was run.
        metadata: whatever shall be kept with it.
    Attributes:
        times: seconds per run.
        median, mean, iqr: of these; iqr is the distance between the quartiles.

    >>> from facula.utils.benchmark import Measurement, TaskSpec
    >>> found = Measurement(10, [1.0, 2.0, 3.0], TaskSpec("x", ""))
    >>> found.times, found.median, round(found.iqr, 3), found.meets_confidence(threshold=0.1)
    ([0.1, 0.2, 0.3], 0.2, 0.1, False)
    >>> len(Measurement.merge([found, found])[0].times)
    6
    """

    def __init__(self, number_per_run: int, raw_times: Sequence[float], task_spec: TaskSpec,
                 metadata: dict[str, Any] | None = None) -> None:  # fmt: skip
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.task_spec = task_spec
        self.metadata = metadata

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run of the statement, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    def _known(self):
        if not self.raw_times:
            raise ValueError("Measurement: expected times, got none")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """Median of the times, in seconds."""
        return statistics.median(self._known())

    @property
    def mean(self) -> float:
        """Mean of the times, in seconds."""
        return statistics.fmean(self._known())

    @property
    def iqr(self) -> float:
        """Distance of the quartiles of the times, in seconds."""
        low, high = self._quartiles()
        return high - low

    def _quartiles(self):
        times = self._known()
        if len(times) == 1:
            return times[0], times[0]
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return low, high

    @property
    def significant_figures(self) -> int:
        """Figures of the median that twice its standard error, estimated from the quartiles of a normal sample, leaves."""
        if len(self.raw_times) < 2:
            return _FEW_FIGURES
        # The standard error of a median is sqrt(pi / 2), about 1.2533, times that of a mean, and the quartiles of a
        # normal distribution are 1.349 standard deviations apart.
        error = 2 * 1.2533 * self.iqr / 1.349 / math.sqrt(len(self.raw_times))
        if error == 0:
            return _MANY_FIGURES
        return min(max(math.floor(math.log10(self.median / error)) + 1, _FEW_FIGURES), _MANY_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the spread is large."""
        return self.iqr / self.median > _NOISY[0]

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Return whether the quartiles are less than `threshold` of the median apart."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was measured, for a heading."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Name of the environment that was measured."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """What was measured, for a row of a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Sequence[Measurement]) -> list[Measurement]:
        """Return the `measurements` of equal tasks as one each, of times of single runs, in the order in which tasks come
        first."""
        groups = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [Measurement(1, [t for one in group for t in one.times], spec) for spec, group in groups.items()]

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count, threads = len(self.raw_times), self.task_spec.num_threads
        lines = [f"{super().__repr__()}", self.task_spec.summarize()]
        if count == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            low, high = self._quartiles()
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low / scale:.2f} to {high / scale:.2f})")
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {self.number_per_run} runs each, "
            f"{threads} thread{'s' if threads > 1 else ''}"
        )
        spread = self.iqr / self.median
        if spread > _NOISY[0]:
            word = "WARNING" if spread > _NOISY[1] else "NOTE"
            lines.append(f"  {word}: the quartiles are {spread:.1%} of the median apart; something else was running?")
        return "\n".join(lines)


def select_unit(t: float) -> tuple[str, float]:
    """Name and seconds of the unit in which the time `t`, in seconds, is a number between 1 and 1000.

    >>> torch.utils.benchmark.select_unit(0.0025)
    ('ms', 0.001)
    """
    fitting = [(name, scale) for name, scale, _ in _UNITS if t >= scale]
    return fitting[-1] if fitting else _UNITS[0][:2]


def unit_to_english(u: str) -> str:
    """Return the word for the short name `u` of a unit of time: "ns", "us", "ms" or "s"; KeyError for others.

    >>> torch.utils.benchmark.unit_to_english("us")
    'microsecond'
    """
    return {short: word for short, _, word in _UNITS}[u]


def trim_sigfig(x: float, n: int) -> float:
    """Return the number `x` rounded to `n` significant figures.

    >>> torch.utils.benchmark.trim_sigfig(1234.5, 2)
    1200.0
    """
    if x == 0:
        return 0.0
    magnitude = math.floor(math.log10(abs(x)))
    return float(round(x, n - 1 - magnitude))


def ordered_unique(elements: Any) -> list[str | tuple[int, str, str]]:
    """Return each of the `elements` once, in the order in which they come first, as a list.

    >>> torch.utils.benchmark.ordered_unique([2, 1, 2])
    [2, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int):
    """Return a context manager: within the block, ops use `n` threads.

    >>> with torch.utils.benchmark.set_torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = facula.get_num_threads()
    facula.set_num_threads(n)
    try:
        yield
    finally:
        facula.set_num_threads(before)
