"""The profiler: which ops and backward nodes ran, when, and how long.

An op is recorded where Python calls it (`aten::matmul`), a backward node where the engine runs it (`MulBackward0`), and a
range where `record_function` names it. Times are wall-clock times of the calling thread.
"""

from __future__ import annotations

import threading
import time

from .. import _C
from .grad_mode import _Switch
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg, nest  # noqa: F401

__all__ = [
    "profile",
    "record_function",
    "emit_itt",
    "emit_nvtx",
    "EnforceUnique",
    "load_nvprof",
    "KinetoStepTracker",
    "parse_nvprof_trace",
]

Tensor = _C.Tensor
_active = []  # the profiles that record now, innermost last


class _Recording:
    """Raw events: (name, thread, begin, end, shapes, is a range) with times in nanoseconds."""

    def __init__(self, record_shapes=False):
        self.record_shapes = record_shapes
        self.raw = []
        self.began = time.perf_counter_ns()

    def add(self, name, start, end, shapes=None, annotation=False):
        self.raw.append((name, threading.get_ident(), start, end, shapes, annotation))

    def events(self):
        return nest([
            FunctionEvent(i, name, thread, (start - self.began) / 1e3, (end - self.began) / 1e3, shapes, annotation)
            for i, (name, thread, start, end, shapes, annotation) in enumerate(self.raw)
        ])  # fmt: skip


def _op_name(func):
    name = getattr(func, "__name__", None) or repr(func)
    if name == "__get__":
        return None  # reading a property is no op
    return "aten::" + (name.strip("_") if name.startswith("__") else name)


def _shapes(args):
    return [list(a.shape) if isinstance(a, Tensor) else [] for a in args]


def _op_recorder(recording):
    from ..overrides import TorchFunctionMode

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = _op_name(func)
            if name is None:
                return func(*args, **(kwargs or {}))
            start = time.perf_counter_ns()
            try:
                return func(*args, **(kwargs or {}))
            finally:
                end = time.perf_counter_ns()
                recording.add(name, start, end, _shapes(args) if recording.record_shapes else None)

    return Recorder()


def _record_nodes(recording):
    """The engine reports every node it runs on this thread."""

    def ran(name, start, end):
        recording.add(f"autograd::engine::evaluate_function: {name}", start, end)

    return _C._set_node_profiler(ran if recording is not None else None)


class record_function(_Switch):
    """Names a range of the program; profiles that run show it as one event with what happened inside."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self.args = args

    def __enter__(self):
        self.start = time.perf_counter_ns()
        return self

    def __exit__(self, *exception):
        end = time.perf_counter_ns()
        for profiling in _active:
            profiling.add(self.name, self.start, end, annotation=True)

    def clone(self):
        """Another context manager of the same name."""
        return type(self)(self.name, self.args)


class profile:
    """Records the ops, backward nodes and ranges of this thread while it is entered.

    Args:
        enabled: off, it does nothing.
        record_shapes: keeps the shapes of tensor arguments.

    `use_cpu`, `profile_memory`, `with_stack`, `with_flops` and `with_modules` are accepted; memory, stacks and numbers of
    operations are not collected. Errors: RuntimeError for results that are asked for before it ended.
    """

    def __init__(
        self, enabled=True, *, use_cpu=True, use_device=None, record_shapes=False, with_flops=False, profile_memory=False,
        with_stack=False, with_modules=False, use_kineto=False, use_cuda=False, experimental_config=None, acc_events=False,
        custom_trace_id_callback=None, post_processing_timeout_s=None,
    ):  # fmt: skip
        self.enabled = enabled
        self.record_shapes = record_shapes
        self._recording = None
        self.entered = False
        self._events = None

    def __enter__(self):
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("profile: Profiler context manager is not reentrant")
        self.entered = True
        self._recording = _Recording(self.record_shapes)
        self._mode = _op_recorder(self._recording)
        self._mode.__enter__()
        self._node_profiler_before = _record_nodes(self._recording)
        _active.append(self._recording)
        return self

    def __exit__(self, *exception):
        if not self.enabled:
            return
        _active.remove(self._recording)
        _C._set_node_profiler(self._node_profiler_before)
        self._mode.__exit__(*exception)
        self._events = self._recording.events()

    def _finished(self):
        if self._events is None:
            raise RuntimeError("profile: Profiler didn't finish running: results are there after the with block")
        return self._events

    @property
    def function_events(self):
        """The events that were recorded."""
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """The events of one name added up; see EventList.key_averages."""
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self):
        """All events added up."""
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self):
        """Time of all events without that of the events inside them, in microseconds."""
        return self._finished().self_cpu_time_total

    def table(self, *args, **kwargs):
        """The events as a table; see EventList.table."""
        return self._finished().table(*args, **kwargs)

    def export_chrome_trace(self, path):
        """Writes the events as a trace file, which trace viewers of browsers read."""
        self._finished().export_chrome_trace(path)

    def __str__(self):
        return "<unfinished profile>" if self._events is None else str(self._events)

    __repr__ = __str__


class _Unsupported:
    def __init__(self, enabled=True, *args, **kwargs):
        if enabled:
            raise NotImplementedError(f"autograd.profiler.{type(self).__name__}: not supported")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


class emit_itt(_Unsupported):
    """Ranges for Intel's tracer."""


class emit_nvtx(_Unsupported):
    """Ranges for NVIDIA's tracer."""


class EnforceUnique:
    """Raises RuntimeError when it sees a key twice."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        """Remembers the key; a RuntimeError if it was seen before."""
        if key in self.seen:
            raise RuntimeError(f"EnforceUnique: duplicate key: {key}")
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps of named users."""

    _current_step = 0
    _steps: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester):
        """Starts counting for `requester`, from the present step."""
        cls._steps[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        """Stops counting for `requester`; whether it was counted."""
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        """Counts one step of `requester`; the most that anyone has counted."""
        cls._steps[requester] = cls._steps.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._steps.values())
        return cls._current_step

    @classmethod
    def current_step(cls):
        """The most steps that anyone has counted."""
        return cls._current_step


def load_nvprof(path):
    """Not supported: raises NotImplementedError."""
    raise NotImplementedError("autograd.profiler.load_nvprof: not supported")


def parse_nvprof_trace(path):
    """Not supported: raises NotImplementedError."""
    raise NotImplementedError("autograd.profiler.parse_nvprof_trace: not supported")
