"""Define the results of a profile: events, sums by name, and tables.

Long because PyTorch has events, sums and tables in one file of this name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from facula import _C
from facula._shared.text_table import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from typing_extensions import Self

__all__ = [
    "EventList", "EventMetadata", "FunctionEvent", "FunctionEventAvg", "Interval", "format_memory", "format_time",
]  # fmt: skip


def format_time(microseconds: float) -> str:
    """Return a time, given in `microseconds`, in the unit that suits it.

    Args:
        microseconds: a time in microseconds.

    >>> torch.autograd.profiler_util.format_time(1500.0)
    '1.500ms'
    """
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def format_memory(nbytes: int) -> str:
    """Return a number of bytes, `nbytes`, which may be negative, in the unit that suits it.

    Args:
        nbytes: a number of bytes.

    >>> torch.autograd.profiler_util.format_memory(-2048)
    '-2.00 KB'
    """
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class Interval:
    """Hold the beginning and end of an event.

    Args:
        start, end: in microseconds.

    >>> torch.autograd.profiler_util.Interval(1.0, 3.5).elapsed_us()
    2.5
    """

    def __init__(self, start: Any, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Describe a kernel, copy or fill that an op ran on a device."""

    name: str
    device: int
    duration: float


class EventMetadata(NamedTuple):
    """Describe a piece of work of a device. A field is None where it is not reported or does not apply.

    Attributes:
        registers_per_thread, shared_memory (bytes of a block), grid, block: of a kernel, as it was launched.
        bytes, bandwidth_gb_s: of a copy or a fill.
        graph_node_id: of what a CUDA graph did.
        stream: the number of the stream.

    >>> torch.autograd.profiler_util.EventMetadata(bytes=4096, stream=0).bytes
    4096
    """

    registers_per_thread: int | None = None
    shared_memory: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    bytes: int | None = None
    bandwidth_gb_s: float | None = None
    graph_node_id: int | None = None
    stream: int | None = None


class FunctionEvent:
    """Describe an op, a backward node, a range, a kernel, or other work of a device. Times are in microseconds.

    Attributes:
        id, name, thread: the thread is the system's number.
        kind: "op", "composite", "node" or "range"; "device" for the work of a device; among the details "kernel", "work" and
            "launch", a call of CUDA's that queued work.
        activity_type: of "device" events, "kernel", "gpu_memcpy" or "gpu_memset"; "work" is all that an op queued, where
            CUPTI cannot be used.
        event_metadata: of "device" events, an EventMetadata.
        linked_correlation_id: the same number for a launch and what it queued; 0 where that is not known.
        device_type, device_index, device_resource_id: "CPU" or "CUDA"; of "device" events, the number of the device and of
            the stream.
        kernels: what the call made devices do, without the events inside.
        time_range: an Interval on the clock of all events of the recording.
        cpu_parent, cpu_children: the event around it on its thread, and those directly inside.
        input_shapes, input_dtypes, output_shapes: of tensor arguments and results; [] for other arguments.
        stack: source lines as "file(line): function", innermost first.
        sequence_nr: of the autograd node that records the op; of a node, its own: they link forward and backward.
        forward_event, fwd_thread: of a node: its op, and the thread of that.
        flops: floating-point operations, where a formula is known.
        self_cpu_memory_usage, self_device_memory_usage: bytes taken minus bytes given back, without the events inside.

    Args:
        id, name, thread, kind: as the attributes.
        start_us, end_us: the ends of its time.

    >>> event = torch.autograd.profiler_util.FunctionEvent(0, "aten::mm", 1, 10.0, 30.0)
    >>> event
    <FunctionEvent id=0 name=aten::mm cpu_time=20.000us thread=1>
    """

    device_type = "CPU"
    device_resource_id = linked_correlation_id = 0
    activity_type = event_metadata = None
    cuda_time_total: Any
    cuda_time: Any
    key: str
    trace_name: str
    forward_event: Any
    fwd_thread: Any
    input_shapes: Any
    input_dtypes: Any
    output_shapes: Any

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float, kind: str = "op") -> None:
        self.id = id
        self.trace_name = name
        self.name = self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name  # one row for all steps
        self.overload_name = ""
        self.kind = kind
        self.thread = thread
        self.forward_event = self.fwd_thread = None
        self.time_range: Interval = Interval(start_us, end_us)
        self.input_shapes = self.input_dtypes = self.output_shapes = None
        self.stack: list[Any] = []
        self.sequence_nr = -1
        self.flops = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.kernels: list[Any] = []
        self.cpu_children: list[Any] = []
        self.cpu_parent: Any = None
        self.count = 1
        self.is_async = self.is_remote = self.is_legacy = False
        self.device_index = 0

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a range that the program named."""
        return self.kind == "range"

    @property
    def concrete_inputs(self) -> NoReturn:
        """Raise NotImplementedError, since the values of arguments are not recorded."""
        raise NotImplementedError(f"FunctionEvent.concrete_inputs: argument values are not kept, got the event {self.name}")

    @property
    def cpu_time_total(self) -> float:
        """Time of the host from start to end, in microseconds."""
        return self.time_range.elapsed_us() if self.kind != "device" else 0.0

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Time without that of the events inside, in microseconds."""
        if self.is_async:
            return 0.0  # other things ran meanwhile
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> int:
        """Time of devices for this call, without that for the events inside, in microseconds."""
        if self.kind == "device":
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> int:
        """Time of devices for this call, in microseconds."""
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    device_time = cuda_time = cuda_time_total = device_time_total
    self_cuda_time_total = self_device_time_total

    @property
    def device_memory_usage(self) -> int:
        """Bytes of devices taken minus bytes given back, with the events inside."""
        return self.self_device_memory_usage + sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes taken minus bytes given back, with the events inside."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent id={self.id} name={self.name} cpu_time={format_time(self.cpu_time_total)} thread={self.thread}>"


_SUMS = (
    "count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops",
    "device_time_total", "self_device_time_total", "device_memory_usage", "self_device_memory_usage",
)  # fmt: skip


class FunctionEventAvg:
    """Sum times, bytes and calls of all events of one name, in attributes of the same names as those of FunctionEvent.

    Args:
        key: the name.
        input_shapes: what the events have in common of shapes, where they are kept apart by it.
        stack: the same of source lines.

    >>> util = torch.autograd.profiler_util
    >>> total = util.FunctionEventAvg("mm")
    >>> total = total.add(util.FunctionEvent(0, "mm", 1, 10.0, 30.0)).add(util.FunctionEvent(1, "mm", 1, 40.0, 80.0))
    >>> total.count, total.cpu_time_total, total.cpu_time
    (2, 60.0, 30.0)
    """

    name: Any
    is_user_annotation: bool
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    flops: int
    device_time_total: float
    self_device_time_total: float
    device_memory_usage: int
    self_device_memory_usage: int

    def __init__(self, key: Any = None, input_shapes: Sequence[Sequence[int]] | None = None,
                 stack: Sequence[str] | None = None) -> None:  # fmt: skip
        self.key = self.name = key
        self.overload_name = ""
        self.input_shapes = input_shapes
        self.stack: Sequence[str] | list[str] = stack or []
        self.is_user_annotation = False
        self.device_type = "CPU"
        for name in _SUMS:
            setattr(self, name, 0)

    def add(self, event: FunctionEvent | FunctionEventAvg) -> Self:
        """Add an event, or a sum of events. A range inside one of its own name does not count its time twice.

        Args:
            event: a FunctionEvent or a FunctionEventAvg.
        """
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(event, name))
        self.is_user_annotation |= event.is_user_annotation
        self.device_type: str = event.device_type
        return self

    __iadd__ = add

    @property
    def cpu_time(self) -> float:
        """Mean time of an event, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Mean time of devices for an event, in microseconds."""
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = device_time

    @property
    def cuda_time_total(self) -> Any:
        """device_time_total, by its earlier name."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> Any:
        """self_device_time_total, by its earlier name."""
        return self.self_device_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={format_time(self.self_cpu_time_total)} "
            f"cpu_time={format_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


_SORT_KEYS = ("cpu_time", "device_time", *(name for name in _SUMS))


class EventList(list["Any"]):
    """Hold events in the order in which they began, thread by thread, and then the work of devices. It is a list.

    Args:
        iterable: the events.

    >>> util = torch.autograd.profiler_util
    >>> events = util.EventList([util.FunctionEvent(0, "mm", 1, 10.0, 30.0), util.FunctionEvent(1, "mm", 1, 40.0, 80.0)])
    >>> [(row.key, row.count) for row in events.key_averages()], events.total_average().cpu_time_total
    ([('mm', 2)], 60.0)
    >>> print(events.key_averages().table().splitlines()[-1], events.supported_export_stacks_metrics())
    Self CPU time total: 60.000us ['self_cpu_time_total', 'self_cuda_time_total']
    """

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events without that of the events inside them, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    @property
    def self_device_time_total(self) -> int:
        """Time in which devices worked, in microseconds."""
        return sum(event.self_device_time_total for event in self if event.device_type != "CPU")

    @property
    def has_device(self) -> bool:
        """Whether a device's work was recorded."""
        return any(event.device_type != "CPU" for event in self)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """Return one FunctionEventAvg per name.

        Args:
            group_by_input_shapes: and per shapes of inputs.
            group_by_stack_n: and per that many innermost source lines.
            group_by_overload_name: taken for compatibility: events have no names of overloads.
        """
        groups = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else None
            stack = tuple(event.stack[:group_by_stack_n])
            group = groups.get(key := (event.key, event.device_type, str(shapes), stack))
            if group is None:
                group = groups[key] = FunctionEventAvg(event.key, shapes, list(stack))
            group.add(event)
        return EventList(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """Return all events added up."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:  # fmt: skip
        """Return a table of names, times, bytes and numbers of calls.

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
            sort_by = sort_by.replace("cuda_", "device_")
            if not self.has_device:
                sort_by = sort_by.replace("device_", "cpu_")
            if sort_by not in _SORT_KEYS:
                raise ValueError(f"table: sort_by must be {_C._one_of(sort_by, _SORT_KEYS)}")
            rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        total = self.self_cpu_time_total
        time = _time_formatter(time_unit)
        totals = total or 1.0, self.self_device_time_total or 1.0
        columns = _columns(time, totals, max_name_column_width, max_shapes_column_width, max_src_column_width)
        columns = [c for c in columns if c.shown is None or any(map(c.shown, rows))]
        lines = [[c.text(event) for c in columns] for event in rows[: row_limit if row_limit >= 0 else None]]
        if any(c.title == "Source Location" for c in columns):
            lines = _with_stacks(lines, rows, columns, max_src_column_width)
        device = f"Self CUDA time total: {time(self.self_device_time_total)}\n" if self.has_device else ""
        return f"{_laid_out([c.title for c in columns], lines, header)}\nSelf CPU time total: {time(total)}\n{device}"

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the events to the file `path`, as JSON that Perfetto and browsers' trace viewers show.

        Args:
            path: the file.

        >>> import pathlib, tempfile
        >>> util = torch.autograd.profiler_util
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     util.EventList([util.FunctionEvent(0, "mm", 1, 10.0, 30.0)]).export_chrome_trace(f"{folder}/trace.json")
        ...     '"mm"' in pathlib.Path(folder, "trace.json").read_text()
        True
        """
        from ..profiler._export import write_trace

        write_trace(self, path)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write "outer;inner value" lines, the input of flame graph tools. Needs a profile with stacks.

        Args:
            path: the file.
            metric: the time that is the value, one of `supported_export_stacks_metrics()`.

        >>> import pathlib, tempfile
        >>> util = torch.autograd.profiler_util
        >>> event = util.FunctionEvent(0, "mm", 1, 10.0, 30.0)
        >>> event.stack = ["train.py(3): step", "train.py(9): main"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     util.EventList([event]).export_stacks(f"{folder}/stacks.txt")
        ...     pathlib.Path(folder, "stacks.txt").read_text()
        'train.py(9):_main;train.py(3):_step 20\\n'
        """
        from ..profiler._export import write_stacks

        write_stacks(self, path, metric)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the names of the times that stacks can be written with."""
        return ["self_cpu_time_total", "self_cuda_time_total"]

    def __str__(self) -> str:
        return self.table()


class _Column:
    def __init__(self, title, text, shown=None):
        self.title, self.text, self.shown = title, text, shown


def _columns(time, totals, name_width, shapes_width, source_width):
    def share(value, total=totals[0]):
        return f"{100 * value / total:.2f}%"

    def used(event):
        return event.cpu_memory_usage or event.self_cpu_memory_usage

    def used_there(event):
        return event.device_memory_usage or event.self_device_memory_usage

    def worked(event):
        return event.device_time_total

    unit, divisor = "MFLOPs", 1e6
    return [
        _Column("Name", lambda e: _shortened(e.key, name_width)),
        _Column("Self CPU %", lambda e: share(e.self_cpu_time_total)),
        _Column("Self CPU", lambda e: time(e.self_cpu_time_total)),
        _Column("CPU total %", lambda e: share(e.cpu_time_total)),
        _Column("CPU total", lambda e: time(e.cpu_time_total)),
        _Column("CPU time avg", lambda e: time(e.cpu_time_total / e.count)),
        _Column("Self CUDA", lambda e: time(e.self_device_time_total), worked),
        _Column("Self CUDA %", lambda e: share(e.self_device_time_total, totals[1]), worked),
        _Column("CUDA total", lambda e: time(e.device_time_total), worked),
        _Column("CUDA time avg", lambda e: time(e.device_time_total / e.count), worked),
        _Column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage), used),
        _Column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage), used),
        _Column("CUDA Mem", lambda e: format_memory(e.device_memory_usage), used_there),
        _Column("Self CUDA Mem", lambda e: format_memory(e.self_device_memory_usage), used_there),
        _Column("# of Calls", lambda e: str(e.count)),
        _Column("Input Shapes", lambda e: _shortened(str(e.input_shapes or ""), shapes_width), lambda e: e.input_shapes),
        _Column("Source Location", lambda e: _shortened(e.stack[0] if e.stack else "", source_width), lambda e: e.stack),
        _Column(f"Total {unit}", lambda e: f"{e.flops / divisor:.3f}" if e.flops else "--", lambda e: e.flops),
    ]


def _with_stacks(lines, rows, columns, width):
    """Put further lines of a stack below the first, in a column of their own."""
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
