"""Programs within a memory budget, and the same without one: a small model, and what is compared."""

from __future__ import annotations

import gc

import pytest
from fuzz.budget import bits, counts

import facula
from facula import _C, nn

WIDE, ROWS = 128, 512  # an activation has 256 KiB, a weight 64


@pytest.fixture(autouse=True)
def every_storage():
    smallest, threads = _C._budget_threshold(0), facula.get_num_threads()
    facula.set_num_threads(1)
    yield
    _C._budget_threshold(smallest)
    facula.set_num_threads(threads)


def layers(count=8, make=lambda: nn.Linear(WIDE, WIDE), act=nn.Tanh):
    return nn.Sequential(*(part for _ in range(count) for part in (make(), act())))


def loss_of(model, x):
    return model(x).square().mean()


def gradients(model):
    return [p.grad for p in model.parameters()]


class Plain:
    """What a program gives without a budget, and what it holds."""

    def __init__(self, make):
        self.make = make
        self.seen()  # what is made once
        self.bits = self.seen()

    def seen(self, share=None):
        facula.manual_seed(0)
        run = self.make()
        gc.collect()
        facula.cpu.empty_cache()
        begin = facula.cpu.memory_allocated()
        facula.cpu.reset_peak_memory_stats()
        if share is None:
            found = run()
            self.room = facula.cpu.max_memory_allocated() - begin
        else:
            with facula.cpu.memory_budget(begin + self.room * share // 100):
                found = run()
        return [bits(t) if t is None or isinstance(t, facula.Tensor) else t for t in found]


def alike(make, share=60, again=True):
    """Run what `make` gives without a budget and within one of this share of what it takes."""
    plain, before = Plain(make), counts()
    within = plain.seen(share)
    after = counts()
    differing = [place for place, (a, b) in enumerate(zip(plain.bits, within)) if a != b]
    assert not differing and len(within) == len(plain.bits), differing
    assert after["let go"] > before["let go"], "nothing went"
    assert not again or after["again"] > before["again"], "nothing was made again"
