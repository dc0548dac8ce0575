"""With deterministic algorithms the same bytes go in every run: what ops cost is modeled instead of measured."""

from __future__ import annotations

import gc

import pytest

import facula
from facula import nn


@pytest.fixture
def deterministic():
    facula.use_deterministic_algorithms(True)
    yield
    facula.use_deterministic_algorithms(False)


def model():
    def block(inputs):
        return [nn.Conv2d(inputs, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 8, 1), nn.GELU()]

    return nn.Sequential(*block(8), *block(8), *block(8), nn.Flatten(), nn.Linear(8 * 24 * 24, 64), nn.Tanh(), nn.Linear(64, 8))


def run(net, x, share=None, room=0):
    """Run a step; return what it took, and what went and came back."""
    gc.collect()
    facula.cpu.empty_cache()
    facula.cpu.reset_peak_memory_stats()
    begin = facula.cpu.memory_allocated()
    if share is None:
        net(x).square().mean().backward()
        return facula.cpu.max_memory_allocated() - begin, []
    with facula.cpu.memory_budget(begin + room * share // 100) as budget:
        net(x).square().mean().backward()
    return 0, [(event.op, event.shape, event.bytes, event.cause) for event in budget.events()]


@pytest.mark.parametrize("share", [60, 45])
def test_the_same_bytes_go(deterministic, share):
    facula.manual_seed(0)
    net, x = model(), facula.randn(16, 8, 24, 24)
    run(net, x)
    room, _ = run(net, x)
    events = [run(net, x, share, room)[1] for _ in range(4)]
    assert any(event[3] == "request" for event in events[0])
    assert any(event[3] == "again" for event in events[0])
    assert events[1] == events[0] and events[2] == events[0] and events[3] == events[0]


def test_products_cost_more_than_what_is_element_by_element(deterministic):
    net, x = model(), facula.randn(16, 8, 24, 24)
    run(net, x)
    room, _ = run(net, x)
    _, events = run(net, x, 60, room)
    gone = {event[0] for event in events if event[3] == "request"}
    assert gone and "linear" not in gone
