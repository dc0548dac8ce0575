"""facula.monitor: events reach their handlers, statistics end with their windows."""

import datetime
import math

import pytest

from facula import monitor
from facula.monitor import Aggregation, Event, Stat

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(monitor, "time", clock)
    return clock


def test_events_reach_handlers_until_they_are_unregistered():
    first, second = [], []
    handle = monitor.register_event_handler(first.append)
    other = monitor.register_event_handler(second.append)
    event = Event("step", datetime.datetime(2020, 1, 2), {"loss": 1.5, "epoch": 1, "phase": "train", "last": False})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    monitor.unregister_event_handler(other)
    monitor.log_event(event)
    assert first == [event] and second == [event, event]
    assert (event.name, event.timestamp.year, event.data["loss"]) == ("step", 2020, 1.5)


def test_a_window_ends_with_the_first_value_after_it(events, clock):
    stat = Stat("s", list(Aggregation), datetime.timedelta(seconds=10))
    for value in (1, 3, 2):
        stat.add(value)
    assert stat.count == 3 and events == [] and set(stat.get().values()) == {0.0}
    clock.now += 10
    stat.add(5)
    assert [event.name for event in events] == ["torch.monitor.Stat"]
    assert events[0].data == {"s.value": 2, "s.mean": 2, "s.count": 3, "s.sum": 6, "s.max": 3, "s.min": 1}
    assert stat.count == 1 and stat.get()[Aggregation.SUM] == 6


def test_a_window_holds_so_many_values(events, clock):
    stat = Stat("s", (Aggregation.SUM,), HOUR, max_samples=2)
    for value in (1, 2, 4, 8):
        stat.add(value)
    assert [event.data for event in events] == [{"s.sum": 3}] and stat.count == 0
    clock.now += 3600
    stat.add(16)
    stat.add(32)
    assert [event.data for event in events] == [{"s.sum": 3}, {"s.sum": 48}]


def test_what_is_left_is_logged_at_the_end(events):
    stat = Stat("s", (Aggregation.COUNT,), HOUR)
    stat.add(math.pi)
    del stat
    Stat("empty", (Aggregation.COUNT,), HOUR)
    assert [event.data for event in events] == [{"s.count": 1}]


def test_the_tensorboard_handler_writes_statistics_only():
    written = []

    class Writer:
        def add_scalar(self, *args, **options):
            written.append((args, options))

    handler = monitor.TensorboardEventHandler(Writer())
    when = datetime.datetime.fromtimestamp(5)
    handler(Event("other", when, {"a": 1}))
    handler(Event("torch.monitor.Stat", when, {"s.mean": 1.5}))
    assert written == [(("s.mean", 1.5), {"walltime": 5.0})]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Event("n", datetime.datetime.now(), {"a": None}),
        lambda: Event("n", 3, {}),
        lambda: Stat("s", ["sum"], HOUR),
        lambda: Stat("s", [Aggregation.SUM], 1.0),
        lambda: monitor.register_event_handler(3),
        lambda: monitor.unregister_event_handler(3),
        lambda: monitor.log_event(3),
    ],
)
def test_wrong_arguments_are_type_errors(wrong):
    with pytest.raises(TypeError, match="got|expected"):
        wrong()
