"""What a profile recorded: events, their sums by name, tables and traces."""

from __future__ import annotations

import json
import os
from collections import defaultdict

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "format_time"]


def format_time(microseconds):
    """A time in the unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


class Interval:
    """Begin and end in microseconds."""

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """Length in microseconds."""
        return self.end - self.start


class FunctionEvent:
    """One call: an op, a backward node, or a range of the user's. Times are microseconds since the profile began."""

    def __init__(self, id, name, thread, start_us, end_us, input_shapes=None, is_user_annotation=False):
        self.id = id
        self.name = self.key = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes
        self.is_user_annotation = is_user_annotation
        self.cpu_children = []
        self.cpu_parent = None
        self.count = 1

    @property
    def cpu_time_total(self):
        """Time from start to end, in microseconds."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        """Time without that of the events inside, in microseconds."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    cpu_time = cpu_time_total

    def __repr__(self):
        return f"<FunctionEvent id={self.id} name={self.name} cpu_time={format_time(self.cpu_time_total)} thread={self.thread}>"


class FunctionEventAvg:
    """The events of one name together."""

    def __init__(self, key, input_shapes=None):
        self.key = self.name = key
        self.input_shapes = input_shapes
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.is_user_annotation = False

    def add(self, event):
        """Adds an event, or a sum of events."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.is_user_annotation |= event.is_user_annotation
        return self

    @property
    def cpu_time(self):
        """Mean time of an event, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} self_cpu_time={format_time(self.self_cpu_time_total)} count={self.count}>"


_SORT_KEYS = {
    "cpu_time": "cpu_time",
    "cpu_time_total": "cpu_time_total",
    "self_cpu_time_total": "self_cpu_time_total",
    "count": "count",
}


class EventList(list):
    """Events in the order in which they began."""

    @property
    def self_cpu_time_total(self):
        """Time of all events without that of the events inside them, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0):
        """One FunctionEventAvg per name (and input shapes), in the order of first calls."""
        groups = {}
        for event in self:
            key = (event.key, str(event.input_shapes)) if group_by_input_shapes else event.key
            if key not in groups:
                groups[key] = FunctionEventAvg(event.key, event.input_shapes if group_by_input_shapes else None)
            groups[key].add(event)
        return EventList(groups.values())

    def total_average(self):
        """All events added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55, max_shapes_column_width=80,
        header=None, top_level_events_only=False,
    ):  # fmt: skip
        """A table of names, times and numbers of calls, sorted by a column's attribute such as "self_cpu_time_total"."""
        rows = list(self)
        if sort_by is not None:
            if sort_by not in _SORT_KEYS:
                raise ValueError(f"table: sort_by is one of {sorted(_SORT_KEYS)}, got {sort_by!r}")
            rows.sort(key=lambda event: getattr(event, _SORT_KEYS[sort_by]), reverse=True)
        total = sum(event.self_cpu_time_total for event in self) or 1.0
        shapes = any(event.input_shapes for event in rows)
        columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        columns += ["Input Shapes"] if shapes else []
        lines = [
            [
                _shortened(event.key, max_name_column_width),
                f"{100 * event.self_cpu_time_total / total:.2f}%",
                format_time(event.self_cpu_time_total),
                f"{100 * event.cpu_time_total / total:.2f}%",
                format_time(event.cpu_time_total),
                format_time(event.cpu_time_total / event.count),
                str(event.count),
                *([_shortened(str(event.input_shapes or ""), max_shapes_column_width)] if shapes else []),
            ]
            for event in rows[: row_limit if row_limit >= 0 else None]
        ]
        text = _laid_out(columns, lines, header)
        return f"{text}\nSelf CPU time total: {format_time(total if self else 0.0)}\n"

    def export_chrome_trace(self, path):
        """Writes the events as JSON that chrome://tracing and Perfetto show."""
        events = [
            {
                "ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name, "pid": os.getpid(),
                "tid": e.thread, "ts": e.time_range.start, "dur": e.time_range.elapsed_us(),
                "args": {"Input Dims": e.input_shapes} if e.input_shapes else {},
            }
            for e in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}, file)

    def supported_export_stacks_metrics(self):
        """Names of the times that stacks can be written with."""
        return ["self_cpu_time_total"]

    def __str__(self):
        return self.table()


def _shortened(text, width):
    return text if width is None or len(text) <= width else text[: width - 3] + "..."


def _laid_out(columns, lines, header):
    widths = [max(len(row[i]) for row in [columns, *lines]) for i in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)

    def row(cells):
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths))

    top = [header] if header else []
    return "\n".join([*top, rule, row(columns), rule, *map(row, lines), rule])


def nest(events):
    """Gives every event its parent: the innermost event of its thread that contains it. Sorts by begin."""
    events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
    open_events = defaultdict(list)
    for event in events:
        stack = open_events[event.thread]
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)
    return EventList(events)
