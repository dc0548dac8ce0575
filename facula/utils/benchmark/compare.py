"""Print measurements as a table with a row for each sub-label (or statement) and a column for each description."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

if TYPE_CHECKING:
    from collections.abc import Sequence

_GREEN, _BOLD, _END = "\033[92m", "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """Name the measurements of a table among which the best one is colored: NONE, COLUMNWISE or ROWWISE.

    >>> torch.utils.benchmark.Colorize.ROWWISE.value
    'rowwise'
    """

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Print a table for each label, with a section for each number of threads, in one unit of time.

    Rows are sub-labels (or statements), columns descriptions; measurements of the same are joined.

    Args:
        results: Measurements; ValueError for anything else.

    >>> from facula.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def measured(label, seconds):
    ...     return Measurement(1, [seconds], TaskSpec("x @ x", "", label="product", sub_label=label, description="time"))
    >>> table = Compare([measured("small", 2e-6)])
    >>> table.extend_results([measured("large", 8e-6)])
    >>> table.trim_significant_figures()
    >>> table.highlight_warnings()
    >>> table.print()
    [----- product ------]
                 |  time
    1 threads: ---------
          small  |     2
          large  |     8
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    >>> table.colorize(rowwise=False)
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = []
        self._trim = self._highlight = False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements, `results`; ValueError for anything else."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: expected measurements, got {type(result).__name__}")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show, from now on, only figures that the spread leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Make, from now on, the best of each column (with `rowwise` of each row) green and bold."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show, from now on, measurements of a large spread with it, in percent of the median."""
        self._highlight = True

    def print(self) -> None:
        """Print the table."""
        print(str(self))

    def __str__(self) -> str:
        groups = {}
        for result in Measurement.merge(self._results):
            groups.setdefault(result.task_spec.label, []).append(result)
        return "\n".join(self._table(label, results) for label, results in groups.items())

    def _table(self, label, results):
        unit, scale = select_unit(min(r.median for r in results))
        columns = ordered_unique(r.task_spec.description or "" for r in results)
        rows = ordered_unique((r.task_spec.num_threads, r.env, r.as_row_name) for r in results)
        cells = {((r.task_spec.num_threads, r.env, r.as_row_name), r.task_spec.description or ""): r for r in results}
        text = {at: self._cell(r, scale) for at, r in cells.items()}
        several_envs = len({row[1] for row in rows}) > 1
        names = {row: (f"({row[1]}) " if several_envs else "") + row[2] for row in rows}
        first = max(len(name) for name in names.values()) + 6
        widths = {c: max([len(c)] + [len(t) for (_, column), t in text.items() if column == c]) for c in columns}
        total = first + sum(width + 5 for width in widths.values())
        lines = [f" {label or ''} ".center(total, "-").join("[]"), self._line("", first, {c: c for c in columns}, widths)]
        threads = None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(total, "-"))
            shown = {c: text.get((row, c), "") for c in columns}
            lines.append(self._line(f"      {names[row]}", first, shown, widths, self._best(row, rows, columns, cells)))
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _cell(self, result, scale):
        value = result.median / scale
        text = f"{trim_sigfig(value, result.significant_figures):g}" if self._trim else f"{value:.1f}"
        if self._highlight and result.has_warnings:
            text += f" (! {result.iqr / result.median:.0%})"
        return text

    def _best(self, row, rows, columns, cells):
        """Return the columns of this row that hold the smallest time of their column, or of the row."""
        if self._colorize is Colorize.NONE:
            return ()
        found = []
        for column in columns:
            rivals = [(row, c) for c in columns] if self._colorize is Colorize.ROWWISE else [(r, column) for r in rows]
            times = [cells[at].median for at in rivals if at in cells]
            if (row, column) in cells and cells[row, column].median == min(times):
                found.append(column)
        return found

    @staticmethod
    def _line(name, first, shown, widths, best=()):
        parts = [name.ljust(first)]
        for column, width in widths.items():
            text = shown[column].rjust(width)
            parts.append(f"  |  {_GREEN}{_BOLD}{text}{_END}" if column in best else f"  |  {text}")
        return "".join(parts).rstrip()
