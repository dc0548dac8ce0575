"""Profile programs: which ops, backward nodes and ranges ran, when, on which thread, and how long they took.

The core records (src/profiler) on all threads: an op where its kernel runs (`aten::mm`), an op made of others around them
(`aten::matmul`), a backward node where the engine runs it, a range where `record_function` names it.
`facula.profiler.profile` adds schedules and files.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from .. import _C
from ._recording import Recording
from .grad_mode import _Switch
from .profiler_util import EventList as EventList
from .profiler_util import FunctionEvent as FunctionEvent
from .profiler_util import FunctionEventAvg as FunctionEventAvg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor

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


#: What ended elsewhere than it began, while a profile runs: rows (name, tensors' (sizes, dtype), begin, end) with times in ns.
_asynchronous: list | None = None


def begin_asynchronous(name: str, tensors: Sequence[Tensor]) -> Callable[[], None] | None:
    """Record that a collective begins that another thread may end; what this gives is called at the end. None without a
    profile.

    Complex tensors are shown as the pairs of numbers that travel.
    """
    rows = _asynchronous
    if rows is None:
        return None
    noted = [([*t.shape, 2] if t.is_complex() else list(t.shape), str(t.dtype).removeprefix("torch.")) for t in tensors]
    begin = time.monotonic_ns()
    return lambda: rows.append((name, noted, begin, time.monotonic_ns()))


def _set_asynchronous(rows):
    global _asynchronous
    _asynchronous = rows


class record_function(_Switch):
    """Name a range of the program. Observers and profiles see it as one event with everything that happens inside.

    Args:
        name: shown in tables and traces.
        args: shown behind the name.

    It is a context manager, and a decorator of functions.

    >>> with torch.profiler.profile() as p:
    ...     with torch.profiler.record_function("step"):
    ...         y = torch.ones(3) + 1
    >>> "step" in [event.name for event in p.events()]
    True
    >>> torch.profiler.record_function("step").clone().name
    'step'
    """

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self.args = args
        self._open = 0

    def __enter__(self) -> Self:
        if _C._watching():
            _C._range_begins(self.name if self.args is None else f"{self.name} {self.args}")
            self._open += 1
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open:
            self._open -= 1
            _C._range_ends()

    def clone(self) -> Self:
        """Return another context manager of the same name."""
        return type(self)(self.name, self.args)


class profile:
    """Record ops, backward nodes and ranges of all threads in a block.

    Args:
        enabled: off, it does nothing.
        use_cpu: False leaves out what the host does, for what devices do only.
        use_device: "cuda" records what CUDA devices do as well. Beginning and end wait for them. CUPTI reports every kernel
        and copy; where it cannot be used, events measure how long each op's work took.
        record_shapes: keeps shapes and dtypes of tensor arguments and results.
        with_flops: counts the operations of products, convolutions and element-wise arithmetic; keeps shapes.
        profile_memory: follows the bytes of storages.
        with_stack: keeps the source lines of ops that Python calls.
        with_modules: shows calls of modules as ranges "nn.Module: Name".
        use_cuda: the earlier form of use_device="cuda".
        use_kineto, experimental_config, acc_events, custom_trace_id_callback, post_processing_timeout_s: taken for
            compatibility; they set what PyTorch's own recorder does.

    One profile can run at a time.

    Errors: RuntimeError for a second one, and for results that are read before it ended.

    >>> with torch.autograd.profiler.profile(record_shapes=True) as recorded:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 2)
    >>> [row.count for row in recorded.key_averages() if row.key == "aten::mm"]
    [1]
    >>> recorded.total_average().count == len(recorded.function_events)
    True
    >>> "Self CPU" in recorded.table(sort_by="cpu_time_total", row_limit=5)
    True
    """

    _running: profile | None = None

    def __init__(self, enabled: bool = True, *, use_cpu: bool = True, use_device: Any = None, record_shapes: bool = False,
                 with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
                 use_kineto: bool = False, use_cuda: bool = False, experimental_config: Any = None, acc_events: bool = False,
                 custom_trace_id_callback: Any = None, post_processing_timeout_s: Any = None) -> None:  # fmt: skip
        use_device = "cuda" if use_cuda else use_device
        if use_device not in (None, "cpu", "cuda"):
            raise NotImplementedError(f"profile: activities of the CPU and of CUDA, got use_device={use_device!r}")
        self._on_host = use_cpu
        self._on_device = use_device == "cuda" and _C._cuda_device_count() > 0 and not _C._cuda_is_in_bad_fork()
        self._activity = None
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.entered = False
        self._lanes = self._recording = None
        self._module_hooks = []

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("profile: Profiler context manager is not reentrant")
        if self._on_host:
            _C._profiler_start(self.record_shapes or self.with_flops, self.with_stack, self.profile_memory)
        if self._on_device:
            try:
                _C._cuda_activity_start()
            except BaseException:
                if self._on_host:
                    _C._profiler_stop()
                raise
        self.entered: bool = True
        profile._running = self
        self._asynchronous = []
        _set_asynchronous(self._asynchronous)
        if self.with_modules:
            self._module_hooks = _module_ranges()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.enabled:
            return
        for handle in self._module_hooks:
            handle.remove()
        _set_asynchronous(None)
        profile._running = None
        self._lanes = _C._profiler_stop() if self._on_host else []
        if self._on_device:
            *self._activity, lost, _ = _C._cuda_activity_stop()
            if lost:
                warnings.warn(f"profile: {lost} records of what CUDA devices did are lost", stacklevel=2)

    def _finished(self):
        if self._lanes is None and self._recording is None:
            raise RuntimeError("profile: Profiler didn't finish running: results are there after the with block")
        if self._recording is None:
            self._recording = Recording(self._lanes, self.with_flops, self._activity, self._asynchronous)
            self._lanes = None
            if not self.record_shapes:
                for event in self._recording.events:
                    event.input_shapes = event.input_dtypes = event.output_shapes = None
        return self._recording

    @property
    def recording(self) -> Recording:
        """Events, changes of memory and threads as they were recorded (a Recording of autograd._recording)."""
        return self._finished()

    @property
    def function_events(self) -> EventList | None:
        """The events that were recorded; None before the end."""
        return None if self._lanes is None and self._recording is None else self._finished().events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """Return the events of one name added up, an EventList of FunctionEventAvg.

        Args:
            group_by_input_shape: keeps calls with other shapes of inputs apart; needs record_shapes.
            group_by_stack_n: keeps calls apart whose innermost that many source lines differ; needs with_stack.
            group_by_overload_name: taken for compatibility: events have no names of overloads.
        """
        return self._finished().events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return all events added up, a FunctionEventAvg."""
        return self._finished().events.total_average()

    @property
    def self_cpu_time_total(self) -> int:
        """Time of all events without that of the events inside them, in microseconds."""
        return self._finished().events.self_cpu_time_total

    def table(self, sort_by: Any = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
              max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False,
              time_unit: Any = None) -> str:  # fmt: skip
        """Return the events as a table of names, times, bytes and numbers of calls.

        Args:
            sort_by: a column's attribute, such as "self_cpu_time_total"; default: the order of first calls.
            row_limit: rows at most; -1: all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are cut; None: never.
            header: a line above.
            top_level_events_only: only events that are in no other.
            time_unit: "s", "ms" or "us" for all times; default: what suits each.
        """
        widths = max_src_column_width, max_name_column_width, max_shapes_column_width
        return self._finished().events.table(sort_by, row_limit, *widths, header, top_level_events_only, time_unit)

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the events to the file `path`, as a trace that Perfetto and browsers' trace viewers read.

        Args:
            path: the file.

        >>> import pathlib, tempfile
        >>> with torch.autograd.profiler.profile() as recorded:
        ...     y = torch.ones(2) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     recorded.export_chrome_trace(f"{folder}/trace.json")
        ...     "aten::add" in pathlib.Path(folder, "trace.json").read_text()
        True
        """
        from ..profiler._export import write_trace

        recording = self._finished()
        write_trace(recording.events, path, recording)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write "outer;inner value" lines to the file `path`, the input of flame graph tools.

        Args:
            path: the file.
            metric: the time that is the value, "self_cpu_time_total" or "self_cuda_time_total".

        Errors: RuntimeError for a profile without `with_stack=True`.

        >>> import pathlib, tempfile
        >>> with torch.autograd.profiler.profile(with_stack=True) as recorded:
        ...     y = torch.ones(2) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     recorded.export_stacks(f"{folder}/stacks.txt")
        ...     pathlib.Path(folder, "stacks.txt").exists()
        True
        """
        if not self.with_stack:
            raise RuntimeError("export_stacks: expected a profile with with_stack=True, got one without")
        self._finished().events.export_stacks(path, metric)

    def __str__(self) -> str:
        finished = self._lanes is not None or self._recording is not None
        return str(self._finished().events) if finished else "<unfinished profile>"

    __repr__ = __str__


def _module_ranges():
    """Return hooks that show every call of a module as a range."""
    from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    def enter(module, inputs):
        _C._range_begins(f"nn.Module: {type(module).__name__}")

    def leave(module, inputs, outputs):
        _C._range_ends()

    return [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]


class _Unsupported:
    def __init__(self, enabled: bool = True, *args: Any, **kwargs: Any) -> None:
        if enabled:
            from facula.compat import placeholders

            placeholders.refuse(f"torch.autograd.profiler.{type(self).__name__}", (enabled, *args), kwargs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class emit_itt(_Unsupported):
    """Refuse ranges for Intel's tracer, which Facula does not support: NotImplementedError unless `enabled` is False.

    Args:
        enabled: False makes a context manager that does nothing.
        args, kwargs: taken for compatibility.

    >>> with torch.autograd.profiler.emit_itt(enabled=False):
    ...     y = torch.ones(2) * 2
    """


class emit_nvtx:
    """Mark ops, backward nodes and named ranges of all threads in a block as NVTX ranges for NVIDIA's profilers (see
    cuda.nvtx).

    Args:
        enabled: off, it does nothing.
        record_shapes: puts shapes of tensor arguments into the names.

    Names are those of the profiler: "aten::mul", "MulBackward0, seq = 3". RuntimeError when entered twice.

    >>> with torch.autograd.profiler.emit_nvtx(enabled=False):
    ...     y = torch.ones(2) * 2
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Self:
        if self.enabled and not _C._nvtx_emit(True, self.record_shapes):
            raise RuntimeError("emit_nvtx: NVTX annotation context manager is not reentrant")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            _C._nvtx_emit(False, False)


class EnforceUnique:
    """Raise RuntimeError when a key is seen twice.

    >>> unique = torch.autograd.profiler.EnforceUnique()
    >>> unique.see("step", 1)
    >>> unique.see("step", 1)
    Traceback (most recent call last):
        ...
    RuntimeError: EnforceUnique: duplicate key: ('step', 1)
    """

    def __init__(self):
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Remember `key`, all arguments together; a RuntimeError if it was seen before."""
        if key in self.seen:
            raise RuntimeError(f"EnforceUnique: duplicate key: {key}")
        self.seen.add(key)


class KinetoStepTracker:
    """Count the steps of named users, and the maximum over all of them, which schedules of profiles use.

    >>> tracker = torch.autograd.profiler.KinetoStepTracker
    >>> before = tracker.current_step()
    >>> tracker.init_step_count("loop")
    >>> tracker.increment_step("loop") - before, tracker.erase_step_count("loop")
    (1, True)
    """

    _current_step = 0
    _steps: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: Any) -> None:
        """Start counting for `requester`, from the present step.

        Args:
            requester: the name of who counts.
        """
        cls._steps[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: Any) -> bool:
        """Stop counting for `requester`; return whether it was counted.

        Args:
            requester: the name of who counts.
        """
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count one step of `requester`; return the most that anyone has counted.

        Args:
            requester: the name of who counts.
        """
        cls._steps[requester] = cls._steps.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._steps.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Return the most steps that anyone has counted."""
        return cls._current_step


def load_nvprof(path: str | PathLike[str]) -> Any:
    """Raise NotImplementedError, whatever `path` is: files that nvprof wrote are not read.

    Args:
        path: a file.

    >>> torch.autograd.profiler.load_nvprof("trace.nvvp")
    Traceback (most recent call last):
        ...
    NotImplementedError: autograd.profiler.load_nvprof: not supported
    """
    raise NotImplementedError("autograd.profiler.load_nvprof: not supported")


def parse_nvprof_trace(path: str | PathLike[str]) -> Any:
    """Raise NotImplementedError, whatever `path` is: files that nvprof wrote are not read.

    Args:
        path: a file.

    >>> torch.autograd.profiler.parse_nvprof_trace("trace.nvvp")
    Traceback (most recent call last):
        ...
    NotImplementedError: autograd.profiler.parse_nvprof_trace: not supported
    """
    raise NotImplementedError("autograd.profiler.parse_nvprof_trace: not supported")
