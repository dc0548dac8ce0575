"""What a profile recorded: events, their sums by name, and tables."""

from __future__ import annotations

import itertools

from facula._text_table import table

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "format_memory", "format_time"]


def format_time(microseconds):
    """A time in the unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def format_memory(nbytes):
    """A number of bytes, which may be negative, in the unit that suits it."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class Interval:
    """Begin and end in microseconds."""

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """Length in microseconds."""
        return self.end - self.start


class FunctionEvent:
    """One call: an op, a backward node, a kernel, or a range of the program. Times are microseconds.

    Attributes:
        id, name, thread: the thread is the system's number.
        kind: "op", "composite", "node" or "range"; among the details "kernel" and "work".
        time_range: an Interval on the clock of all events of the recording.
        cpu_parent, cpu_children: the event around it on its thread, and those directly inside.
        input_shapes, input_dtypes, output_shapes: of tensor arguments and results; [] for other arguments.
        stack: source lines as "file(line): function", innermost first.
        sequence_nr: of the autograd node that records the op; of a node, its own: they link forward and backward.
        forward_event, fwd_thread: of a node: its op, and the thread of that.
        flops: floating-point operations, where a formula is known.
        self_cpu_memory_usage: bytes taken minus bytes given back, without the events inside.
    """

    def __init__(self, id, name, thread, start_us, end_us, kind="op"):
        self.id = id
        self.name = self.key = self.trace_name = name
        self.overload_name = ""
        self.kind = kind
        self.thread = thread
        self.forward_event = self.fwd_thread = None
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = self.input_dtypes = self.output_shapes = None
        self.stack = []
        self.sequence_nr = -1
        self.flops = 0
        self.self_cpu_memory_usage = 0
        self.cpu_children = []
        self.cpu_parent = None
        self.count = 1
        self.is_async = self.is_remote = self.is_legacy = False
        self.device_index = 0

    @property
    def is_user_annotation(self):
        """Whether it is a range that the program named."""
        return self.kind == "range"

    @property
    def cpu_time_total(self):
        """Time from start to end, in microseconds."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self):
        """Time without that of the events inside, in microseconds."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def cpu_memory_usage(self):
        """Bytes taken minus bytes given back, with the events inside."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self):
        return f"<FunctionEvent id={self.id} name={self.name} cpu_time={format_time(self.cpu_time_total)} thread={self.thread}>"


_SUMS = ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops")


class FunctionEventAvg:
    """The events of one name together."""

    def __init__(self, key=None, input_shapes=None, stack=None):
        self.key = self.name = key
        self.overload_name = ""
        self.input_shapes = input_shapes
        self.stack = stack or []
        self.is_user_annotation = False
        for name in _SUMS:
            setattr(self, name, 0)

    def add(self, event):
        """Adds an event, or a sum of events. A range inside one of its own name does not count its time twice."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(event, name))
        self.is_user_annotation |= event.is_user_annotation
        return self

    __iadd__ = add

    @property
    def cpu_time(self):
        """Mean time of an event, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={format_time(self.self_cpu_time_total)} "
            f"cpu_time={format_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


_SORT_KEYS = ("cpu_time", *(name for name in _SUMS))


class EventList(list):
    """Events in the order in which they began, thread by thread."""

    @property
    def self_cpu_time_total(self):
        """Time of all events without that of the events inside them, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """One FunctionEventAvg per name (and input shapes, and innermost `group_by_stack_n` source lines)."""
        groups = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else None
            stack = tuple(event.stack[:group_by_stack_n])
            group = groups.get(key := (event.key, str(shapes), stack))
            if group is None:
                group = groups[key] = FunctionEventAvg(event.key, shapes, list(stack))
            group.add(event)
        return EventList(groups.values())

    def total_average(self):
        """All events added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55, max_shapes_column_width=80,
        header=None, top_level_events_only=False, time_unit=None,
    ):  # fmt: skip
        """A table of names, times, bytes and numbers of calls.

        Args:
            sort_by: a column's attribute, such as "self_cpu_time_total"; default: the order of first calls.
            row_limit: rows at most; -1: all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are cut; None: never.
            header: a line above.
            top_level_events_only: only events that are in no other.
            time_unit: "s", "ms" or "us" for all times; default: what suits each.

        Errors: ValueError for a `sort_by` or `time_unit` that is not known.
        """
        rows = [e for e in self if not (top_level_events_only and getattr(e, "cpu_parent", None) is not None)]
        if sort_by is not None:
            sort_by = sort_by.replace("device_", "cpu_").replace("cuda_", "cpu_")
            if sort_by not in _SORT_KEYS:
                raise ValueError(f"table: sort_by is one of {sorted(_SORT_KEYS)}, got {sort_by!r}")
            rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        total = self.self_cpu_time_total
        time = _time_formatter(time_unit)
        columns = [c for c in _columns(time, total or 1.0, max_name_column_width, max_shapes_column_width, max_src_column_width)
                   if c.shown is None or any(map(c.shown, rows))]  # fmt: skip
        lines = [[c.text(event) for c in columns] for event in rows[: row_limit if row_limit >= 0 else None]]
        if any(c.title == "Source Location" for c in columns):
            lines = _with_stacks(lines, rows, columns, max_src_column_width)
        return f"{_laid_out([c.title for c in columns], lines, header)}\nSelf CPU time total: {time(total)}\n"

    def export_chrome_trace(self, path):
        """Writes the events as JSON that Perfetto and browsers' trace viewers show."""
        from ..profiler._export import write_trace

        write_trace(self, path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes "outer;inner value" lines, the input of flame graph tools. Needs a profile with stacks."""
        from ..profiler._export import write_stacks

        write_stacks(self, path, metric)

    def supported_export_stacks_metrics(self):
        """Names of the times that stacks can be written with."""
        return ["self_cpu_time_total"]

    def __str__(self):
        return self.table()


class _Column:
    def __init__(self, title, text, shown=None):
        self.title, self.text, self.shown = title, text, shown


def _columns(time, total, name_width, shapes_width, source_width):
    def share(value):
        return f"{100 * value / total:.2f}%"

    def used(event):
        return event.cpu_memory_usage or event.self_cpu_memory_usage

    unit, divisor = "MFLOPs", 1e6
    return [
        _Column("Name", lambda e: _shortened(e.key, name_width)),
        _Column("Self CPU %", lambda e: share(e.self_cpu_time_total)),
        _Column("Self CPU", lambda e: time(e.self_cpu_time_total)),
        _Column("CPU total %", lambda e: share(e.cpu_time_total)),
        _Column("CPU total", lambda e: time(e.cpu_time_total)),
        _Column("CPU time avg", lambda e: time(e.cpu_time_total / e.count)),
        _Column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage), used),
        _Column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage), used),
        _Column("# of Calls", lambda e: str(e.count)),
        _Column("Input Shapes", lambda e: _shortened(str(e.input_shapes or ""), shapes_width), lambda e: e.input_shapes),
        _Column("Source Location", lambda e: _shortened(e.stack[0] if e.stack else "", source_width), lambda e: e.stack),
        _Column(f"Total {unit}", lambda e: f"{e.flops / divisor:.3f}" if e.flops else "--", lambda e: e.flops),
    ]


def _with_stacks(lines, rows, columns, width):
    """Further lines of a stack stand below the first, in a column of their own."""
    at = next(i for i, c in enumerate(columns) if c.title == "Source Location")
    spread = []
    for line, event in zip(lines, rows):
        spread.append(line)
        for place in event.stack[1:5]:
            spread.append(["" if i != at else _shortened(place, width) for i in range(len(line))])
    return spread


def _time_formatter(unit):
    if unit is None:
        return format_time
    scale = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit not in scale:
        raise ValueError(f"table: time_unit is one of s, ms and us, got {unit!r}")
    return lambda microseconds: f"{microseconds / scale[unit]:.3f}{unit}"


def _shortened(text, width):
    return text if width is None or len(text) <= width else text[: width - 3] + "..."


def _laid_out(columns, lines, header):
    names, rule, *rows = table(columns, lines, left=0)
    return "\n".join([*([header] if header else []), rule, names, rule, *rows, rule])


# ---- from what the core recorded

_NODE_PREFIX = "autograd::engine::evaluate_function: "
_PREFIX = {"op": "aten::", "composite": "aten::", "node": _NODE_PREFIX}


class Recording:
    """Events and changes of memory, as the core recorded them.

    Attributes:
        events: an EventList of ops, composites, nodes and ranges.
        details: an EventList of what ops are made of: kernels, and pieces of them that threads of the pool did. They are no
            children: an op's own time is that of its kernels.
        memory: rows (time in us, thread, address, bytes, event around it or None, stack).
        threads: {number: name}.
    """

    def __init__(self, lanes, flops=False):
        from .. import _C

        self.events, self.details, self.memory, self.threads = EventList(), EventList(), [], {}
        stacks = _Stacks(_C._stack)
        for thread, title, rows in lanes:
            self.threads[thread] = title
            self._add_lane(thread, rows, stacks)
        self._link_forward()
        if flops:
            from ..profiler._flops import flops_of

            for event in self.events:
                event.flops = flops_of(event)

    def _add_lane(self, thread, rows, stacks):
        made = []
        for kind, name, begin, end, parent, sequence, nbytes, address, stack, inputs, outputs, _ in rows:
            if kind == "memory":
                around = made[parent] if parent >= 0 else None
                self.memory.append((begin / 1e3, thread, address, nbytes, around, stacks[stack]))
                made.append(None)
                continue
            if kind in ("kernel", "work"):
                self.details.append(FunctionEvent(len(self.details), name, thread, begin / 1e3, end / 1e3, kind))
                made.append(made[parent] if parent >= 0 else None)  # what it contains belongs to the op
                if made[-1] is not None:
                    made[-1].self_cpu_memory_usage += nbytes
                continue
            event = FunctionEvent(len(self.events), _PREFIX.get(kind, "") + name, thread, begin / 1e3, end / 1e3, kind)
            event.sequence_nr = sequence
            event.self_cpu_memory_usage = nbytes
            event.stack = stacks[stack]
            if inputs is not None:
                event.input_shapes = [i[0] if i else [] for i in inputs]
                event.input_dtypes = [str(i[1]).removeprefix("torch.") if i else "" for i in inputs]
            if outputs is not None:
                event.output_shapes = [o[0] if o else [] for o in outputs]
            if parent >= 0 and made[parent] is not None:
                event.cpu_parent = made[parent]
                made[parent].cpu_children.append(event)
            made.append(event)
            self.events.append(event)

    def _link_forward(self):
        """A node and the op that it belongs to have one number; the op is the latest before it."""
        ops = {}
        for event in sorted(self.events, key=lambda e: e.time_range.start):
            if event.sequence_nr < 0:
                continue
            if event.kind == "node":
                forward = ops.get(event.sequence_nr)
                event.fwd_thread = forward.thread if forward else None
                event.forward_event = forward
            else:
                ops[event.sequence_nr] = event


class _Stacks(dict):
    """Numbers of the core -> source lines."""

    def __init__(self, lookup):
        super().__init__({0: []})
        self.lookup = lookup

    def __missing__(self, number):
        lines = [f"{file}({line}): {function}" for file, line, function in self.lookup(number)]
        here = list(itertools.dropwhile(lambda text: "/facula/autograd/profiler" in text, lines))
        self[number] = here
        return here
