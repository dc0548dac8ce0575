"""Training of six small models within a budget: the same bits as without one, at shares of what it takes without one."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path

import pytest
from fuzz.budget import REFUSED, bits, counts

import facula
from facula import _C

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
NAMES = ("gpt", "bert", "resnet50", "mobilenet_v2", "unet", "lstm")
SHARES = (80, 60, 50, 40)
STEPS = 3
SLACK = 1 << 19  # blocks that threads keep for themselves
SPANS = 1 << 18  # of small blocks, which a budget counts whole: much beside a small model


@pytest.fixture(scope="module")
def models():
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS / "models"))
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("budget_models")
        for name in set(sys.modules) - before:
            if name in ("budget_models", "common"):
                del sys.modules[name]


@pytest.fixture
def every_storage():
    smallest, threads = _C._budget_threshold(0), facula.get_num_threads()
    yield
    _C._budget_threshold(smallest)
    facula.set_num_threads(threads)


class Trained:
    """A model that is trained for some steps: what there is to see afterwards, and the highest of what was held."""

    def __init__(self, models, name, narrow, limit=None):
        facula.manual_seed(0)
        model, loss_of, optimizer = models.build(facula, name, small=True)
        facula.cpu.empty_cache()
        self.least = facula.cpu.memory_reserved()
        facula.cpu.reset_peak_memory_stats()
        cast = facula.autocast("cpu", facula.bfloat16) if narrow else contextlib.nullcontext()
        with facula.cpu.memory_budget(limit) if limit else contextlib.nullcontext():
            losses = [self.step(loss_of, optimizer, cast) for _ in range(STEPS)]
            self.highest = facula.cpu.max_memory_allocated()
        self.seen = {f"loss {number}": bits(loss) for number, loss in enumerate(losses)}
        self.seen |= {key: bits(value) for key, value in model.state_dict().items()}
        self.seen |= {f"gradient of {key}": bits(value.grad) for key, value in model.named_parameters()}
        self.seen["generator"] = bits(facula.get_rng_state())

    def step(self, loss_of, optimizer, cast):
        optimizer.zero_grad()
        with cast:
            loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()


# The smallest share at which a small model is trained in float32 and under autocast. What one op reads, makes and works with is
# a larger part of a small model than of one that does not fit; which bytes go depends on times, and some room is left for that.
TRAINED = {
    "gpt": (50, 60),
    "bert": (40, 50),
    "resnet50": (80, 80),
    "mobilenet_v2": (50, 60),
    "unet": (80, 80),
    "lstm": (60, 80),
}


def taken(models, name, narrow):
    """What is held before a model is there, and its training without a budget."""
    Trained(models, name, narrow)
    facula.cpu.empty_cache()
    return facula.cpu.memory_reserved(), Trained(models, name, narrow)  # reserved: with what small blocks are cut from


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_training_within_a_budget_gives_the_same_bits(models, every_storage, name, narrow, threads):
    facula.set_num_threads(threads)
    begin, plain = taken(models, name, narrow)
    for share in (share for share in SHARES if share >= TRAINED[name][narrow]):
        limit, before = begin + SPANS + (plain.highest - begin) * share // 100, counts()
        within = Trained(models, name, narrow, limit)
        differing = [key for key, value in plain.seen.items() if within.seen[key] != value]
        assert not differing, (share, differing)
        assert within.highest <= max(limit, within.least) + SLACK, (share, within.highest, limit)
        after = counts()
        assert after["let go"] > before["let go"] and after["again"] > before["again"]


def test_a_refused_step_leaves_the_model_as_it_was(models, every_storage):
    begin, plain = taken(models, "bert", False)
    facula.manual_seed(0)
    model, loss_of, optimizer = models.build(facula, "bert", small=True)
    before = {key: bits(value) for key, value in model.state_dict().items()}
    with facula.cpu.memory_budget(begin + (plain.highest - begin) // 20), pytest.raises(facula.OutOfMemoryError, match=REFUSED):
        loss_of().backward()
    assert before == {key: bits(value) for key, value in model.state_dict().items()}
    losses = [loss_of() for _ in range(2)]
    losses[1].backward()
    optimizer.step()
    assert all(loss.isfinite() for loss in losses)


def held_after_small_values() -> int:
    x = facula.ones(32, 32, requires_grad=True)
    with facula.cpu.memory_budget(facula.cpu.memory_allocated() + (400 << 10)):
        y = x
        for _ in range(400):
            y = y.tanh()
        y.sum().backward()
    del x, y
    facula.cpu.empty_cache()
    return facula.cpu.memory_allocated()


@pytest.mark.filterwarnings("ignore:memory_budget")
def test_small_blocks_that_went_are_used_again(every_storage):
    """Values of 4 KiB go into the list of the thread that fills it at that moment."""
    first, *_, last = [held_after_small_values() for _ in range(3)]
    assert last - first < 64 << 10
