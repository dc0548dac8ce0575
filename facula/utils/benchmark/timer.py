"""Run a statement often enough to tell how long it takes."""

from __future__ import annotations

import enum
import textwrap
import time
import timeit
from typing import TYPE_CHECKING

import facula

from .measurement import Measurement, TaskSpec, set_torch_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

timer: Callable[[], float] = time.perf_counter


class Language(enum.Enum):
    """Name the language of a measured statement: PYTHON, the only one that is supported, or CPP.

    >>> torch.utils.benchmark.Language.PYTHON.name
    'PYTHON'
    """

    PYTHON = 0
    CPP = 1


class Timer:
    """Measure a statement after one warm-up, with a given number of threads (one unless stated otherwise).

    Args:
        stmt: Python source of what is measured.
        setup: Python source that runs before each block.
        global_setup: must be empty: it is for statements in C++.
        timer: function that returns seconds.
        globals: names that both see; the module itself is there as `torch`.
        label, sub_label, description, env: names that tables show.
        num_threads: of the ops.
        language: only Python.

    Errors: ValueError for a statement that is no text, an unknown language and a global_setup; NotImplementedError for C++.

    >>> timer = torch.utils.benchmark.Timer("x + 1", "x = torch.ones(3)", label="sum")
    >>> found = timer.timeit(10)
    >>> found.number_per_run, found.median > 0
    (10, True)
    >>> found = timer.blocked_autorange(min_run_time=0.001)
    >>> found.mean > 0 and timer.adaptive_autorange(0.5, max_run_time=0.05).mean > 0
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[..., Any] = timer,
        globals: dict[str, Callable[..., Any]] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: Any = None,
        num_threads: int = 1,
        language: Language = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError(f"Timer: stmt must be a str, got {type(stmt).__name__}")
        if language not in (Language.PYTHON, "py", "python"):
            if language in (Language.CPP, "cpp", "c++"):
                raise NotImplementedError(f"Timer: statements in C++, got language={language!r}")
            raise ValueError(f"Timer: expected the language python, got {language!r}")
        if global_setup:
            raise ValueError(f"Timer: global_setup is for C++ only, got {global_setup!r}")
        stmt, setup = (textwrap.dedent(text).strip("\n").rstrip() for text in (stmt, setup))
        names = dict(globals or {})
        names.setdefault("torch", facula)
        self._globals = names
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _seconds(self, number):
        # A coarse clock may show no difference, and times are divided by later.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Time one block of `number` runs, after a hundredth of it as a warm-up; give a Measurement."""
        with set_torch_threads(self._task_spec.num_threads):
            self._seconds(max(number // 100, 2))
            return Measurement(number, [self._seconds(number)], self._task_spec)

    def blocked_autorange(self, callback: Callable[..., Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Time blocks large enough that starting them does not count, until they took `min_run_time` seconds together.

        Args:
            callback: is called with the runs of a block and its seconds, after each.
            min_run_time: seconds.

        Returns: a Measurement.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._repeat(number, callback, lambda times: sum(times) >= min_run_time)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[..., Any] | None = None) -> Measurement:  # fmt: skip
        """Time blocks until the quartiles lie within `threshold` of the median, or for `max_run_time` seconds.

        Args:
            threshold: a part of the median.
            min_run_time, max_run_time: seconds that blocks take together, at least and about at most.
            callback: is called with the runs of a block and its seconds, after each.

        Returns: a Measurement.
        """

        def steady(times):
            found = Measurement(number, times, self._task_spec)
            enough = len(times) > 3 and sum(times) >= min_run_time and found.meets_confidence(threshold)
            return enough or sum(times) >= max_run_time

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times = self._repeat(number, callback, steady)
        return Measurement(number, times, self._task_spec)

    def _block_size(self, min_run_time):
        """Return the runs of a block that takes a thousandth of the time, at least, and 10,000 times what an empty one does."""
        empty = min(timeit.Timer("pass", globals=self._globals).timeit(0) for _ in range(100))
        number = 1
        while True:
            seconds = self._seconds(number)
            if empty / seconds <= 1e-4 and seconds >= min_run_time / 1000:
                return number
            if seconds > min_run_time:
                return number
            number *= 10

    def _repeat(self, number, callback, finished):
        times = []
        while not (times and finished(times)):
            times.append(self._seconds(number))
            if callback is not None:
                callback(number, times[-1])
        return times

    def repeat(self, repeat: int = -1, number: int = -1) -> Any:
        """Raise NotImplementedError, as this is not supported; `repeat` and `number` are those of the standard class.

        >>> torch.utils.benchmark.Timer().repeat()
        Traceback (most recent call last):
            ...
        NotImplementedError: Timer.repeat: use blocked_autorange or adaptive_autorange
        """
        raise NotImplementedError("Timer.repeat: use blocked_autorange or adaptive_autorange")

    def autorange(self, callback: Callable[..., Any] | None = None) -> Any:
        """Raise NotImplementedError, as this is not supported; `callback` is that of the standard class.

        >>> torch.utils.benchmark.Timer().autorange()
        Traceback (most recent call last):
            ...
        NotImplementedError: Timer.autorange: use blocked_autorange
        """
        raise NotImplementedError("Timer.autorange: use blocked_autorange")

    def collect_callgrind(self, number: int = 100, *, repeats: int | None = None, collect_baseline: bool = True,
                          retain_out_file: bool = False) -> Any:  # fmt: skip
        """Raise NotImplementedError, as this is not supported; `number`, `repeats`, `collect_baseline` and `retain_out_file`
        are PyTorch's.

        >>> torch.utils.benchmark.Timer().collect_callgrind()
        Traceback (most recent call last):
            ...
        NotImplementedError: Timer.collect_callgrind: counting instructions
        """
        raise NotImplementedError("Timer.collect_callgrind: counting instructions")
