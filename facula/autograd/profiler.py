"""Names of the profiler. Ranges are accepted and cost nothing; collecting results is not part of Facula yet."""

from __future__ import annotations

from .grad_mode import _Switch

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


class record_function(_Switch):
    """Names a range of the program."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self.args = args

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def clone(self):
        """Another context manager of the same name."""
        return type(self)(self.name, self.args)


class profile:
    """Raises NotImplementedError when it is entered enabled: timings of ops are not collected."""

    def __init__(self, enabled=True, **options):
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            raise NotImplementedError("autograd.profiler.profile: ops are not timed; use time.perf_counter around them")
        return self

    def __exit__(self, *exception):
        return None


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
