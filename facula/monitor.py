"""Report events and statistics of a running program to registered handlers.

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
    from collections.abc import Callable, Mapping, Sequence
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


if TYPE_CHECKING:
    data_value_t = str | float | int | bool
else:

    class data_value_t:
        """Name the type of an event's values, str, float, int or bool, for annotations; it has no instances.

        >>> values: dict[str, torch.monitor.data_value_t] = {"loss": 0.5}
        """


class Aggregation(enum.Enum):
    """Name what a Stat computes from the values of a window: the last VALUE, MEAN, COUNT, SUM, MAX or MIN.

    >>> torch.monitor.Aggregation.MEAN.name
    'MEAN'
    """

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """Describe something that happened, for the handlers that are registered.

    Args:
        name: the kind of event; handlers expect the same data under the same name.
        timestamp: a datetime.
        data: dict of text to str, float, int or bool.

    Errors: TypeError for other types.

    >>> import datetime
    >>> event = torch.monitor.Event("epoch", datetime.datetime(2026, 1, 1), {"loss": 0.5})
    >>> event.name, event.data
    ('epoch', {'loss': 0.5})
    """

    name: str
    timestamp: datetime.datetime
    data: dict[str, data_value_t]

    def __init__(self, name: str, timestamp: datetime.datetime, data: Mapping[str, data_value_t]) -> None:
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
    """Identify a handler: register_event_handler returns it and unregister_event_handler takes it. It has no methods.

    >>> handle = torch.monitor.register_event_handler(print)
    >>> isinstance(handle, torch.monitor.EventHandlerHandle)
    True
    >>> torch.monitor.unregister_event_handler(handle)
    """


_lock = threading.Lock()
_handlers = {}


def register_event_handler(callback: Callable[..., Any]) -> EventHandlerHandle:
    """Call a function with each event from now on; give a handle to end that.

    Args:
        callback: takes an Event; what it returns is not looked at.

    Errors: TypeError for what cannot be called.

    >>> import datetime
    >>> handle = torch.monitor.register_event_handler(lambda event: print(event.name, event.data))
    >>> torch.monitor.log_event(torch.monitor.Event("epoch", datetime.datetime.now(), {"loss": 0.5}))
    epoch {'loss': 0.5}
    >>> torch.monitor.unregister_event_handler(handle)
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler: expected a function, got {type(callback).__name__}")
    handle = EventHandlerHandle()
    with _lock:
        _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """End what register_event_handler began; a second time changes nothing.

    Args:
        handler: the handle.

    Errors: TypeError for something else.

    >>> handle = torch.monitor.register_event_handler(print)
    >>> torch.monitor.unregister_event_handler(handle)
    """
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler: expected a handle, got {type(handler).__name__}")
    with _lock:
        _handlers.pop(handler, None)


def log_event(event: Any) -> None:
    """Give an event to all handlers, on this thread, before it returns.

    Args:
        event: the Event.

    Errors: TypeError for something else; what a handler raises.

    >>> import datetime
    >>> handle = torch.monitor.register_event_handler(lambda event: print(event.name, event.data))
    >>> torch.monitor.log_event(torch.monitor.Event("epoch", datetime.datetime.now(), {"loss": 0.5}))
    epoch {'loss': 0.5}
    >>> torch.monitor.unregister_event_handler(handle)
    """
    if not isinstance(event, Event):
        raise TypeError(f"log_event: expected an Event, got {type(event).__name__}")
    with _lock:
        # Handlers are called without the lock, since they may register or unregister others.
        handlers = list(_handlers.values())
    for handler in handlers:
        handler(event)


class Stat:
    """Compute statistics over windows of time. Each window that has values ends in an Event named "torch.monitor.Stat".

    A window is looked at when a value is added, so it ends with the first value after it, with `max_samples` values,
    or with the Stat itself.

    Args:
        name: that of the statistic; the event holds "name.mean" and so on.
        aggregations: a sequence of Aggregation, what to compute.
        window_size: a timedelta.
        max_samples: values of a window beyond these are dropped.

    Errors: TypeError for other types.

    >>> from datetime import timedelta
    >>> from torch.monitor import Aggregation, Stat
    >>> seconds = Stat("step", [Aggregation.MEAN, Aggregation.MAX], timedelta(days=1000000), max_samples=2)
    >>> seconds.add(1.0)
    >>> seconds.count
    1
    >>> seconds.add(2.0)
    >>> seconds.get()[Aggregation.MEAN]
    1.5
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
        """Add a value to the window of now.

        Args:
            v: the value, a number.
        """
        value, ended = float(v), []
        with self._lock:
            if self._now() != self._window_number:
                ended.append(self._end_window())
            if not self._full:
                self._values.append(value)
                if len(self._values) >= self._max_samples:
                    ended.append(self._end_window())
                    self._full = True
        # Without the lock, since a handler may add to this Stat.
        for event in ended:
            if event is not None:
                log_event(event)

    def get(self) -> dict[Aggregation, float]:
        """Return {aggregation: its value in the last window that ended}; zeros before the first one has."""
        with self._lock:
            return dict(self._last)

    def _now(self):
        """Return the number of the current window."""
        return int(time.monotonic() / self._window) if self._window > 0 else 0

    def _end_window(self):
        """Begin a new window; return the event of the old one, None where it had no values."""
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
    """Write the numbers of a Stat's events as scalars.

    Args:
        writer: a SummaryWriter, or something else with its `add_scalar(name, value, walltime=...)`.

    >>> import datetime
    >>> class Printer:
    ...     def add_scalar(self, name, value, walltime):
    ...         print(name, value)
    >>> handler = torch.monitor.TensorboardEventHandler(Printer())
    >>> handler(torch.monitor.Event("torch.monitor.Stat", datetime.datetime.now(), {"step.mean": 1.5}))
    step.mean 1.5
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Any) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
