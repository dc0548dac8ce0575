"""Convert what the core recorded during a profile to events and changes of memory."""

from __future__ import annotations

import bisect
import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .profiler_util import EventList, EventMetadata, FunctionEvent, Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

_NODE_PREFIX = "autograd::engine::evaluate_function: "
_PREFIX = {"op": "aten::", "composite": "aten::", "node": _NODE_PREFIX}


def _shown(kind, name):
    """Return what PyTorch's profiles call an event."""
    if kind == "node" and name == "AccumulateGrad":
        return f"{_NODE_PREFIX}torch::autograd::AccumulateGrad"
    if kind in ("op", "composite"):
        name = name.removeprefix("functional_")  # of nn.functional, beside a method of the same name
    return _PREFIX.get(kind, "") + name


class Recording:
    """Hold events and changes of memory, as the core recorded them.

    Attributes:
        events: an EventList of ops, composites, nodes and ranges, then of what devices did ("device" events), and of what ended
            elsewhere than it began ("async" events).
        details: an EventList of what ops are made of: kernels, pieces of them that threads of the pool did, and calls of
            CUDA's that queued work. They are no children: an op's own time is that of its kernels.
        memory: rows (time in us, thread, address, bytes, event around it or None, stack).
        device_memory: the same of devices' memory.
        streams: {(device, handle): number}, 0 being the default stream's.
        threads: {number: name}.
    """

    events: EventList
    details: EventList
    memory: list[Any]
    threads: dict[Any, Any]
    device_memory: list[Any]
    streams: dict[Any, Any]

    def __init__(self, lanes: Sequence[Sequence[Sequence[Any] | int | str]], flops: bool = False, activity: Any = None,
                 asynchronous: Sequence[Any] = ()) -> None:  # fmt: skip
        from .. import _C

        self.events, self.details, self.memory, self.threads = EventList(), EventList(), [], {}
        self.device_memory, self.streams = [], {}
        stacks = _Stacks(_C._stack)
        for thread, title, rows in lanes:
            self.threads[thread] = title
            self._add_lane(thread, rows, stacks)
        self._link_forward()
        if activity is not None:
            self._add_activity(*activity)
        self._add_asynchronous(asynchronous)
        if flops:
            from ..profiler._flops import flops_of

            for event in self.events:
                event.flops = flops_of(event)

    def _add_lane(self, thread, rows, stacks):
        made = []
        for kind, name, begin, end, parent, sequence, nbytes, address, stack, inputs, outputs, _, device_bytes in rows:
            if kind == "memory":
                around = made[parent] if parent >= 0 else None
                changes = self.device_memory if device_bytes else self.memory
                changes.append((begin / 1e3, thread, address, nbytes + device_bytes, around, stacks[stack]))
                made.append(None)
                continue
            if kind in ("kernel", "work"):
                self.details.append(FunctionEvent(len(self.details), name, thread, begin / 1e3, end / 1e3, kind))
                made.append(made[parent] if parent >= 0 else None)  # what it contains belongs to the op
                if made[-1] is not None:
                    made[-1].self_cpu_memory_usage += nbytes
                    made[-1].self_device_memory_usage += device_bytes
                continue
            event = FunctionEvent(len(self.events), _shown(kind, name), thread, begin / 1e3, end / 1e3, kind)
            event.sequence_nr = sequence
            event.self_cpu_memory_usage = nbytes
            event.self_device_memory_usage = device_bytes
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

    def _add_activity(self, done, calls):
        """Add what devices did, each piece linked to the call on the host that was running when it was queued."""
        around = _Around(self.events)
        launches = {}
        for number, thread, begin, end, name in calls:
            launches[number] = launch = FunctionEvent(len(self.details), name, thread, begin / 1e3, end / 1e3, "launch")
            launch.linked_correlation_id = number
            self.details.append(launch)
        for row in sorted(map(_Activity._make, done), key=lambda row: row.begin):
            call = around.innermost(row.thread, row.queued / 1e3)
            event = FunctionEvent(len(self.events), row.shown(call), row.thread, row.begin / 1e3, row.end / 1e3, "device")
            event.device_type, event.device_index = "CUDA", row.device
            event.device_resource_id = self._stream_number(row.device, row.stream)
            event.activity_type, event.event_metadata = row.kind, row.metadata(event.device_resource_id)
            event.linked_correlation_id = row.call
            event.queued, event.queued_by, event.launch = row.queued / 1e3, call, launches.get(row.call)
            if call is not None:
                event.stack = call.stack
                call.kernels.append(Kernel(event.name, row.device, event.time_range.elapsed_us()))
            self.events.append(event)

    def _add_asynchronous(self, rows):
        """Add what ended elsewhere than it began, such as collectives, as a thread of its own."""
        if not rows:
            return
        thread = 1 + max(self.threads, default=0)
        self.threads[thread] = "collectives"
        for name, tensors, begin, end in rows:
            event = FunctionEvent(len(self.events), name, thread, begin / 1e3, end / 1e3, "async")
            event.is_async = True
            event.input_shapes, event.input_dtypes = [shape for shape, _ in tensors], [dtype for _, dtype in tensors]
            event.output_shapes = []
            self.events.append(event)

    def _stream_number(self, device, stream):
        """Return 0 for the default stream; others are numbered as they are seen."""
        fresh = 1 + sum(s != 0 for _, s in self.streams) if stream else 0
        return self.streams.setdefault((device, stream), fresh)

    def _link_forward(self):
        """Give a node and the op that it belongs to one number; the op is the latest before it."""
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


class _Activity(NamedTuple):
    """Hold one row of _cuda_activity_stop()."""

    kind: str
    kernel: str | None
    name: str
    device: int
    stream: int
    thread: int
    queued: int
    begin: int
    end: int
    call: int
    graph_node: int
    grid: tuple
    block: tuple
    registers: int
    shared: int
    bytes: int

    def shown(self, call):
        """Return its name in tables. Element-wise kernels are told apart by the op that queued them; so is work that events
        time."""
        op = call.name.rpartition("::")[2] if self.kernel == "elementwise" and call else None
        if self.kind != "work":
            return re.sub(r"facula::cuda::Loop\d*\b", op, self.name, count=1) if op else self.name
        return f"{self.kernel}: {op}" if op else self.kernel

    def metadata(self, stream):
        found = EventMetadata(stream=stream, graph_node_id=self.graph_node or None)
        if self.kind == "kernel":
            return found._replace(
                grid=list(self.grid), block=list(self.block), registers_per_thread=self.registers, shared_memory=self.shared
            )
        if self.kind in ("gpu_memcpy", "gpu_memset"):
            return found._replace(bytes=self.bytes, bandwidth_gb_s=self.bytes / max(1, self.end - self.begin))
        return found


class _Around:
    """Find the innermost call that was running on a thread at a given time."""

    def __init__(self, events):
        self._by_thread = {}
        for event in sorted(events, key=lambda event: (event.time_range.start, event.id)):
            self._by_thread.setdefault(event.thread, []).append(event)

    def innermost(self, thread, time):
        events = self._by_thread.get(thread, [])
        at = bisect.bisect_right(events, time, key=lambda event: event.time_range.start)
        found = events[at - 1] if at else None
        # The latest call that had begun may have ended already, unlike a call around it.
        while found is not None and found.time_range.end < time:
            found = found.cpu_parent
        return found


class _Stacks(dict):
    """Translate the core's numbers of stacks to source lines."""

    def __init__(self, lookup):
        super().__init__({0: []})
        self.lookup = lookup

    def __missing__(self, number):
        lines = [f"{file}({line}): {function}" for file, line, function in self.lookup(number)]
        # The lines of the profiler itself are left out.
        here = list(itertools.dropwhile(lambda text: "/facula/autograd/profiler" in text, lines))
        self[number] = here
        return here
