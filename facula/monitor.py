"""Events and statistics of a running program, given to whoever registered a handler.

    handle = register_event_handler(print)
    seconds = Stat("step_seconds", (Aggregation.MEAN, Aggregation.MAX), timedelta(seconds=60))
    seconds.add(0.25)    # an Event with "step_seconds.mean" and "step_seconds.max" follows every minute
"""

from __future__ import annotations

import datetime
import enum
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"
_NO_LIMIT = (1 << 63) - 1
#: What an event may hold.
_VALUES = (str, int, float, bool)


class data_value_t:
    """The type of what an event holds: str, float, int or bool. For annotations."""


class Aggregation(enum.Enum):
    """What a Stat makes of the values of a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """Something that happened.

    Args:
        name: the kind of event; handlers expect the same data under the same name.
        timestamp: a datetime.
        data: dict of text to str, float, int or bool.
    """

    name: str
    timestamp: datetime
    data: dict[Any, Any]

    def __init__(self, name: str, timestamp: Any, data: Any) -> None:
        if not isinstance(name, str) or not isinstance(timestamp, datetime.datetime):
            raise TypeError(
                f"Event: expected a name and a datetime, got {type(name).__name__} and {type(timestamp).__name__}"
            )
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, _VALUES):
                raise TypeError(f"Event: data must be text to str, float, int or bool, got {key!r}: {value!r}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)

    def __repr__(self) -> str:
        return f"Event(name={self.name!r}, timestamp={self.timestamp!r}, data={self.data!r})"


class EventHandlerHandle:
    """What `register_event_handler` gives and `unregister_event_handler` takes."""


_lock = threading.Lock()
_handlers = {}


def register_event_handler(callback: Callable[..., Any]) -> EventHandlerHandle:
    """Calls `callback(event)` with each event from now on; returns a handle to end that."""
    if not callable(callback):
        raise TypeError(f"register_event_handler: expected a function, got {type(callback).__name__}")
    handle = EventHandlerHandle()
    with _lock:
        _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Ends what `register_event_handler` began."""
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler: expected a handle, got {type(handler).__name__}")
    with _lock:
        _handlers.pop(handler, None)


def log_event(event: Any) -> None:
    """Gives `event` to all handlers, on this thread."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event: expected an Event, got {type(event).__name__}")
    with _lock:
        handlers = list(_handlers.values())
    for handler in handlers:
        handler(event)


class Stat:
    """Statistics over windows of time; each window that saw values ends in an Event named "torch.monitor.Stat".

    A window is looked at when a value is added, so it ends with the first value after it, with `max_samples` values,
    or with the Stat itself.

    Args:
        name: of the statistic; the event holds "name.mean" and so on.
        aggregations: what to compute.
        window_size: a timedelta.
        max_samples: values of a window beyond these are dropped.
    """

    def __init__(self, name: str, aggregations: Sequence[Aggregation], window_size: Any, max_samples: int = _NO_LIMIT) -> None:
        self._values = []  # first: __del__ finds it whatever follows
        aggregations = list(aggregations)
        if not isinstance(name, str) or not isinstance(window_size, datetime.timedelta):
            raise TypeError(
                f"Stat: expected a name and a timedelta, got {type(name).__name__} and {type(window_size).__name__}"
            )
        for aggregation in aggregations:
            if not isinstance(aggregation, Aggregation):
                raise TypeError(f"Stat: expected an Aggregation, got {aggregation!r}")
        self._name, self._aggregations = name, sorted(set(aggregations), key=lambda a: a.value)
        self._window, self._max_samples = window_size.total_seconds(), int(max_samples)
        self._lock = threading.Lock()
        self._window_number = self._now()
        self._full = False
        self._last = dict.fromkeys(self._aggregations, 0.0)

    @property
    def name(self) -> str:
        """What the statistic is called."""
        return self._name

    @property
    def count(self) -> int:
        """How many values the window has so far."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Adds a value to the window of now."""
        value, ended = float(v), []
        with self._lock:
            if self._now() != self._window_number:
                ended.append(self._end_window())
            if not self._full:
                self._values.append(value)
                if len(self._values) >= self._max_samples:
                    ended.append(self._end_window())
                    self._full = True
        for event in ended:
            if event is not None:
                log_event(event)

    def get(self) -> dict[Aggregation, float]:
        """Aggregation -> its value in the last window that ended; zeros before the first one has."""
        with self._lock:
            return dict(self._last)

    def _now(self):
        """The number of the current window."""
        return int(time.monotonic() / self._window) if self._window > 0 else 0

    def _end_window(self):
        """Begins a new window; the event of the old one, None where it had no values."""
        values, self._values = self._values, []
        self._window_number, self._full = self._now(), False
        if not values:
            return None
        self._last = {aggregation: _AGGREGATE[aggregation](values) for aggregation in self._aggregations}
        data = {f"{self._name}.{aggregation.name.lower()}": value for aggregation, value in self._last.items()}
        return Event(STAT_EVENT, datetime.datetime.now(), data)

    def __del__(self) -> None:
        if self._values:
            log_event(self._end_window())


_AGGREGATE = {
    VALUE: lambda values: values[-1],
    MEAN: lambda values: sum(values) / len(values),
    COUNT: lambda values: float(len(values)),
    SUM: sum,
    MAX: max,
    MIN: min,
}


class TensorboardEventHandler:
    """An event handler that writes the numbers of Stat events as scalars.

    Args:
        writer: a SummaryWriter.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Any) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
