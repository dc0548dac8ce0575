"""Profile programs: `profile` is a context manager, with a schedule for long runs.

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        step()
    print(p.key_averages().table(sort_by="self_cpu_time_total"))
    p.export_chrome_trace("trace.json")  # for https://ui.perfetto.dev
"""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from typing import TYPE_CHECKING

from .. import _C
from ..autograd import profiler as _autograd
from ..autograd.profiler import KinetoStepTracker, record_function
from . import itt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any

    from typing_extensions import Self

    from facula.autograd.profiler_util import EventList
    from facula.types import Device

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """Name what is recorded; Facula records the CPU and CUDA devices.

    >>> from facula.profiler import ProfilerActivity
    >>> ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """Name what happens in a step: nothing, warming up (nothing is recorded), recording, or recording and a result at
    its end.

    >>> [action.name for action in torch.profiler.ProfilerAction]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> Any:
    """Return whether PyTorch's tracing library does the recording; Facula records by itself.

    >>> torch.profiler.kineto_available()
    False
    """
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be recorded: a set with the CPU, and CUDA where there is a device.

    >>> from facula.profiler import ProfilerActivity
    >>> ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if _C._cuda_device_count() else set())


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[..., Any]:  # fmt: skip
    """Return a function from steps to actions: after `skip_first` steps, cycles of `wait`, `warmup` and `active` steps.

    Args:
        wait: steps of a cycle in which nothing happens.
        warmup: steps after these that are not recorded either.
        active: steps that are recorded, at least one; after the last there is a result.
        repeat: how many cycles; 0: without end.
        skip_first: steps before the first cycle.
        skip_first_wait: other than 0: the first cycle has no waiting steps.

    Errors: AssertionError for negative numbers.

    >>> action = torch.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [action(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"schedule: numbers that are not negative, and a positive active, are expected, got wait={wait}, "
            f"warmup={warmup}, active={active}, "
            f"repeat={repeat}, skip_first={skip_first}"
        )
    cycle = wait + warmup + active

    def action(step):
        if step < 0:
            raise AssertionError(f"schedule: steps count from 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step):
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[..., Any]:
    """Return an `on_trace_ready` that writes traces into a folder, one file each.

    Args:
        dir_name: the folder, which is made.
        worker_name: the beginning of the files' names; by default the machine's name and the number of the process.
        use_gzip: whether files are compressed.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(folder, "worker")):
    ...         y = torch.ones(3) + 1
    ...     [name.split(".")[0] for name in os.listdir(folder)]
    ['worker']
    """

    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json{ending}"))

    return handler


class profile:
    """Record the ops, backward nodes, kernels and ranges of all threads.

    Args:
        activities: ProfilerActivity members; default: all that can be recorded: the CPU, and CUDA devices where there are.
            With CUDA, beginning and end of the recording wait for the devices.
        schedule: a function from steps to ProfilerAction, such as `schedule()` makes; `step()` ends a step.
        on_trace_ready: called with the profile whenever a recording is complete.
        record_shapes: keeps shapes and dtypes of tensor arguments and results.
        profile_memory: follows the bytes of storages; shown per op and by export_memory_timeline().
        with_stack: keeps the source lines of ops that Python calls; for export_stacks() and `group_by_stack_n`.
        with_flops: counts the operations of products, convolutions and element-wise arithmetic.
        with_modules: shows calls of modules as ranges.
        custom_trace_id_callback: names recordings, see get_trace_id().
        execution_trace_observer: must be None.
        use_cuda: deprecated (a FutureWarning): adds CUDA to the activities, or takes it out.
        experimental_config, acc_events, post_processing_timeout_s: accepted, without effect.

    Errors: NotImplementedError for an execution_trace_observer; AssertionError for no activity; RuntimeError for a second
    profile while one records. An activity of a device that is not there is a UserWarning.

    >>> with torch.profiler.profile() as p:
    ...     y = torch.ones(3, 3) @ torch.ones(3, 3)
    >>> sorted(event.key for event in p.key_averages()), len(p.events())
    (['aten::matmul', 'aten::mm', 'aten::ones'], 4)
    """

    step_num: int

    def __init__(self, *, activities: Sequence[ProfilerActivity] | None = None, schedule: Callable[[int], Any] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
                 experimental_config: Any = None, execution_trace_observer: Any = None, acc_events: bool = False,
                 use_cuda: bool | None = None, custom_trace_id_callback: Any = None,
                 post_processing_timeout_s: Any = None) -> None:  # fmt: skip
        chosen = supported_activities() if activities is None else set(activities)
        if use_cuda is not None:
            warnings.warn("profile: use_cuda is deprecated, activities say so", FutureWarning, stacklevel=2)
            chosen = chosen | {ProfilerActivity.CUDA} if use_cuda else chosen - {ProfilerActivity.CUDA}
        if not chosen:
            raise AssertionError("profile: No valid profiler activities found, got an empty set")
        if execution_trace_observer is not None:
            raise NotImplementedError("profile: execution_trace_observer, got " + type(execution_trace_observer).__name__)
        if absent := sorted(kind.name for kind in chosen - supported_activities()):
            warnings.warn(f"profile: there is no such device, so nothing is recorded of {', '.join(absent)}", stacklevel=2)
        self.activities = chosen
        self.schedule: Any = schedule or _always
        self.records_steps: bool = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.profiler: Any = None
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._custom_trace_id = custom_trace_id_callback
        self._metadata = {}
        self._running = False
        self._step = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as entering the with block does.

        >>> p = torch.profiler.profile()
        >>> p.start()
        >>> y = torch.ones(3) + 1
        >>> p.stop()
        >>> [event.name for event in p.events()]
        ['aten::ones', 'aten::add']
        """
        self._begin_if_recording()
        self._begin_step()

    def stop(self) -> None:
        """End, as leaving the with block does.

        >>> p = torch.profiler.profile()
        >>> p.start()
        >>> p.stop()
        """
        self._end_step()
        if self._running:
            self._end()
            if self.on_trace_ready:
                self.on_trace_ready(self)

    def step(self) -> None:
        """End a step; what the next one does is up to the schedule.

        >>> ready = []
        >>> schedule = torch.profiler.schedule(wait=1, warmup=0, active=1, repeat=1)
        >>> with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda p: ready.append(p.step_num)) as p:
        ...     for _ in range(4):
        ...         y = torch.ones(3) + 1
        ...         p.step()
        >>> ready
        [2]
        """
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action: Any = self.schedule(self.step_num)
        if before == ProfilerAction.RECORD_AND_SAVE and self._running:
            self._end()
            if self.on_trace_ready:
                self.on_trace_ready(self)
        if self._running and self.current_action in (ProfilerAction.NONE, ProfilerAction.WARMUP):
            self._end()
        self._begin_if_recording()
        self._begin_step()
        KinetoStepTracker.increment_step("ProfilerStep")

    def toggle_collection_dynamic(self, enable: Any, activities: Any) -> Any:
        """Raise NotImplementedError: this is not supported. Give the profile a `schedule`.

        Args:
            enable: whether activities would be recorded.
            activities: which.

        >>> torch.profiler.profile().toggle_collection_dynamic(True, [torch.profiler.ProfilerActivity.CPU])
        Traceback (most recent call last):
            ...
        NotImplementedError: profile.toggle_collection_dynamic: use a schedule, got enable=True
        """
        raise NotImplementedError(f"profile.toggle_collection_dynamic: use a schedule, got enable={enable}")

    def _begin_if_recording(self):
        if not self._running and self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self.profiler = _autograd.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_device="cuda" if ProfilerActivity.CUDA in self.activities else None, record_shapes=self.record_shapes,
                with_flops=self.with_flops, profile_memory=self.profile_memory, with_stack=self.with_stack,
                with_modules=self.with_modules,
            )  # fmt: skip
            self.profiler.__enter__()
            self._running = True

    def _end(self):
        self.profiler.__exit__(None, None, None)
        self._running = False

    def _begin_step(self):
        if self.records_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _recorded(self):
        if self.profiler is None:
            raise AssertionError("profile: nothing was recorded yet (see schedule)")
        return self.profiler

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """Return the events by name, as an EventList with `table()`.

        Args:
            group_by_input_shape: whether calls with other shapes are apart; needs `record_shapes=True`.
            group_by_stack_n: by how many lines of their stacks calls are apart; needs `with_stack=True`.
            group_by_overload_name: whether overloads of an op are apart.

        Errors: AssertionError where nothing was recorded yet.
        """
        return self._recorded().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def events(self) -> EventList:
        """Return all events, in the order in which they began: an EventList.

        Errors: AssertionError where nothing was recorded yet.
        """
        return self._recorded().function_events

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the events as JSON for Perfetto or a browser's trace viewer.

        Args:
            path: the file; compressed where it ends in ".gz".

        >>> import json, os, tempfile
        >>> with torch.profiler.profile() as p:
        ...     y = torch.ones(3) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.add_metadata("run", 1)
        ...     p.add_metadata_json("sizes", "[1, 2]")
        ...     p.export_chrome_trace(os.path.join(folder, "trace.json"))
        ...     with open(os.path.join(folder, "trace.json")) as file:
        ...         "traceEvents" in json.load(file)
        True
        """
        from ._export import write_trace

        recording = self._recorded()._finished()
        write_trace(recording.events, path, recording, self._metadata)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write "outer;inner value" lines for flame graphs; needs `with_stack=True`.

        Args:
            path: the file.
            metric: "self_cpu_time_total" or "self_cuda_time_total", in microseconds.

        >>> import os, tempfile
        >>> with torch.profiler.profile(with_stack=True) as p:
        ...     y = torch.ones(3) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.export_stacks(os.path.join(folder, "stacks.txt"))
        ...     os.listdir(folder)
        ['stacks.txt']
        """
        self._recorded().export_stacks(path, metric)

    def export_memory_timeline(self, path: str | PathLike[str], device: Device = None) -> None:
        """Write the memory that was taken over time, by what took it; needs `profile_memory=True`.

        Args:
            path: ".html", ".png" or ".svg" for a picture (needs Matplotlib), ".json" or ".json.gz" for numbers.
            device: "cpu" (default) or "cuda", also with the number of a device, which says nothing more.

        Errors: ValueError for another device.

        >>> import os, tempfile
        >>> with torch.profiler.profile(profile_memory=True) as p:
        ...     y = torch.ones(3) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.export_memory_timeline(os.path.join(folder, "memory.json"))
        ...     os.listdir(folder)
        ['memory.json']
        """
        from ._export import write_memory_timeline

        kind = "cpu" if device is None else str(device).partition(":")[0]
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"export_memory_timeline: device must be {_C._one_of(device, ('cpu', 'cuda'))}")
        write_memory_timeline(self._recorded()._finished(), path, kind)

    def add_metadata(self, key: Any, value: Any) -> None:
        """Add a text to the traces that are written.

        Args:
            key: its name.
            value: the text, or what is made one.

        >>> p = torch.profiler.profile()
        >>> p.add_metadata("batch", 32)
        """
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: Any, value: Any) -> None:
        """Add a value, given as JSON, to the traces that are written.

        Args:
            key: its name.
            value: the JSON text.

        Errors: ValueError where it is no JSON.

        >>> p = torch.profiler.profile()
        >>> p.add_metadata_json("sizes", "[32, 64]")
        >>> p.preset_metadata_json("rank", "0")
        """
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> Any:
        """Return the identifier of the recording: what `custom_trace_id_callback` gave, or None before one began.

        >>> p = torch.profiler.profile(custom_trace_id_callback=lambda: "first")
        >>> p.get_trace_id()
        >>> with p:
        ...     p.get_trace_id()
        'first'
        """
        if self.profiler is None:
            return None
        return self._custom_trace_id() if self._custom_trace_id else f"{id(self.profiler):032X}"

    def set_custom_trace_id_callback(self, callback: Callable[..., Any]) -> None:
        """Set who names recordings.

        Args:
            callback: a function without arguments that gives a text, or None.

        >>> with torch.profiler.profile() as p:
        ...     p.set_custom_trace_id_callback(lambda: "second")
        ...     p.get_trace_id()
        'second'
        """
        self._custom_trace_id = callback
