"""What a user sees of a memory budget: limits in words, the summary, events, the picture; marks in histories of memory.

Texts and pictures are made of numbers that a stand-in for the core gives; test_memory_budget_told.py has the core's own.
"""

import gc
import re
import xml.etree.ElementTree as ElementTree

import pytest

import facula
from facula.utils import _memory_budget
from facula.utils._memory_budget import BudgetEvent, MemoryBudget, parse_limit, size_text, time_text
from facula.utils._memory_budget_drawing import Step, bands_of, drawing

CPU = facula.device("cpu")
MIB, SECOND = 2**20, 10**9


# -- limits


@pytest.mark.parametrize(
    ("limit", "bytes"),
    [(None, 0), (1, 1), (123456, 123456), ("2GB", 2 * 10**9), ("512MiB", 512 * 2**20), (" 1.5 kib ", 1536), ("7b", 7), (".5TiB", 2**39),
     ("3 KB", 3000), ("2.TB", 2 * 10**12), ("10mb", 10**7), ("1GiB", 2**30), (0.5, 500), (1.0, 1000), (0.001, 1)],
)  # fmt: skip
def test_limits(limit, bytes):
    assert parse_limit(limit, lambda: 1000) == bytes


@pytest.mark.parametrize("limit", ["", "GB", "2", "2 G", "2 GB x", "-2GB", "1e9B", "0.1B", "2 parsecs", "٢GB", 0, -5, 2**63, 0.0, 1.5, -0.1, float("nan"), 1e-9])  # fmt: skip
def test_limits_that_are_no_sizes(limit):
    with pytest.raises(ValueError, match=rf"^memory_budget: .*, got {re.escape(repr(limit))}$"):
        parse_limit(limit, lambda: 1000)


@pytest.mark.parametrize("limit", [True, b"2GB", [1], 1j])
def test_limits_of_other_types(limit):
    with pytest.raises(TypeError, match=rf"^memory_budget: expected a number of bytes, .*, got {type(limit).__name__}$"):
        parse_limit(limit, lambda: 1000)


def test_words_for_numbers():
    assert [size_text(n) for n in (0, 1023, 1024, 98 * MIB, 371 * MIB, 2**30 - 1, 2**50)] == ["0 B", "1023 B", "1.00 KiB", "98.0 MiB", "371 MiB", "1.00 GiB", "1024 TiB"]  # fmt: skip
    assert [time_text(s) for s in (0, 2e-6, 0.0154, 0.5, 0.9999, 12, 300)] == [
        "0 us",
        "2 us",
        "15.4 ms",
        "500 ms",
        "1.00 s",
        "12.0 s",
        "300 s",
    ]


# -- a stand-in for the core


class Core:
    """What `_C` says of budgets, from what a test puts in."""

    def __init__(self):
        self.bound, self.watch, self.peak, self.calls = 0, (0, 0, 0, 0), 9, []
        self.rows, self.copied, self.events, self.samples, self.passes, self.held = [], [], [], [], [], []
        self.now, self.last_pass_end, self.steps = 100 * SECOND, 0, (10 * SECOND, SECOND)

    def _budget_set(self, device, bytes):
        before, self.bound = self.bound, bytes
        return before

    def _budget_folder(self, path):
        return b""

    def _budget_begin_watch(self, device):
        return 3

    def _budget_peak(self, device):
        return self.peak

    def _budget_watched(self, device, watch):
        assert watch == 3
        return self.watch

    def _budget_end_watch(self, device, watch):
        self.calls.append(("end", watch))

    def _budget_report(self, device):
        return {"rows": list(self.rows), "copied": list(self.copied), "passes": len(self.passes), "last_pass_end": self.last_pass_end,
                "rooms": 0, "now": self.now, "steps_ns": self.steps[0], "steps_again_ns": self.steps[1]}  # fmt: skip

    def _budget_events(self, device, since):
        return [event for event in self.events if event[0] >= since]

    def _budget_samples(self, device, since):
        return [sample for sample in self.samples if sample[0] >= since]

    def _budget_passes(self, device, since):
        return [each for each in self.passes if each[0] >= since]

    def _budget_held(self, device):
        return self.held


@pytest.fixture
def core(monkeypatch):
    core = Core()
    monkeypatch.setattr(_memory_budget, "_C", core)
    return core


def row(op, place, let_go=0, let_go_bytes=0, again=0, again_ns=0, moved=0, moved_bytes=0, moved_ns=0):
    return (op, place, let_go, let_go_bytes, again, again, again_ns, moved, moved_bytes, moved_ns)


def test_summary(core):
    core.rows = [row("linear", "model.py:41", 6, 100 * MIB, 1, SECOND)]  # before the budget
    core.copied = [((64, 3), facula.float32, "train.py:12", 1, 768)]
    budget = MemoryBudget(CPU, 8 * 2**30)
    core.rows = [
        row("gelu", "", 1236, int(9.7 * 2**30), 1236, int(1.4 * SECOND)),
        row("linear", "model.py:41", 106, 200 * MIB, 131, 6 * SECOND),  # two numbers of one line
        row("linear", "model.py:41", 100, 100 * MIB, 100, 7 * SECOND),
        row("add", "", 2, 5 * MIB, moved=3, moved_bytes=7 * MIB, moved_ns=SECOND // 2),
    ]
    core.copied = [((64, 3), facula.float32, "train.py:12", 3, 2304)]
    core.passes, core.last_pass_end = [(0, 1)] * 412, 221 * SECOND
    core.watch = (int(7.98 * 2**30), int(14.3 * 2**30), int(4.9 * 2**30), 5)
    core.held = [
        ("model", 2 * 2**30, (1,), facula.float32),
        ("model", 2**30, (1,), facula.float32),
        ("program", 5, (1,), facula.int8),
    ]
    assert budget.summary().splitlines() == [
        "budget 8.00 GiB, highest 7.98 GiB; without it 14.3 GiB. 412 steps of backward, 11.1 % of the time in ops run again",
        "made by             let go     bytes  run again    time     moved",
        "------------------  ------  --------  ---------  ------  --------",
        "linear model.py:41     200   200 MiB        230  12.0 s         -",
        "gelu                 1,236  9.70 GiB      1,236  1.40 s         -",
        "add                      2  5.00 MiB          -  500 ms  7.00 MiB",
        "copied because others can write to them (NumPy, DLPack, .data): (64, 3) float32, train.py:12, 2 times, 1.50 KiB",
        "cannot go: 3.00 GiB parameters and optimizer, 0 B gradients; smallest budget for this program: 4.90 GiB",
    ]
    assert budget.summary(rows=1).splitlines()[4].split() == [
        "2",
        "others",
        "1,238",
        "9.70",
        "GiB",
        "1,236",
        "1.90",
        "s",
        "7.00",
        "MiB",
    ]


def test_the_share_of_the_time_is_that_of_steps(core):
    core.passes, core.steps = [(0, 1)] * 2, (20 * SECOND, 4 * SECOND)
    budget = MemoryBudget(CPU, 8)
    core.passes, core.steps = [(0, 1)] * 5, (50 * SECOND, 10 * SECOND)
    assert "3 steps of backward, 20.0 % of the time" in budget.summary()


def test_summary_of_a_budget_that_was_never_short(core):
    core.watch = (5 * MIB, 5 * MIB, 0, 0)
    assert MemoryBudget(CPU, 8 * MIB).summary().splitlines() == [
        "budget 8.00 MiB, highest 5.00 MiB",
        "cannot go: 0 B parameters and optimizer, 0 B gradients; memory was never short",
    ]
    core.passes, core.last_pass_end = [(0, 1)], 101 * SECOND
    assert MemoryBudget(CPU, 0).summary().startswith("budget none, highest 5.00 MiB\n")  # the pass was before


def test_the_highest_is_what_the_allocator_saw_where_it_rose(core):
    budget = MemoryBudget(CPU, 1)
    core.watch = (4, 4, 0, 0)
    assert budget.highest == 4  # the peak is older
    core.peak = 11
    assert budget.highest == 11


def test_many_copied_kinds(core):
    budget = MemoryBudget(CPU, 1)
    core.copied = [((i,), facula.uint8, "", 1, i) for i in range(1, 9)]
    lines = [line for line in budget.summary().splitlines() if "copied" in line]
    assert (
        len(lines) == 6 and "(8,) uint8, 1 times, 8 B" in lines[0] and lines[-1] == "and 3 other kinds of tensors were copied"
    )


def test_a_block_ends_it(core):
    core.bound = 77
    with MemoryBudget(CPU, 1000) as outer:
        assert core.bound == 1000 and outer.limit == 1000
        core.rows = [row("mul", "", 1, 10)]
        with MemoryBudget(CPU, 500) as inner:
            assert core.bound == 500
            core.rows = [row("mul", "", 3, 30)]
        assert core.bound == 1000 and "ended" in repr(inner) and "ended" not in repr(outer)
        core.rows, core.watch = [row("mul", "", 9, 90)], (6, 6, 0, 0)
        assert re.search(r"^mul +2 +20 B", inner.summary(), re.M) and re.search(r"^mul +9 +90 B", outer.summary(), re.M)
        assert (inner.highest, outer.highest) == (0, 6)
    assert core.bound == 77 and core.calls == [("end", 3)] * 2
    inner.__exit__()
    assert core.bound == 77 and len(core.calls) == 2


def test_a_budget_that_nobody_keeps_is_not_watched(core):
    budget = MemoryBudget(CPU, 10)
    del budget
    gc.collect()
    assert core.calls == [("end", 3)] and core.bound == 10  # the bound stays


def test_events(core):
    budget = MemoryBudget(CPU, 1)
    core.now = 103 * SECOND
    shape = facula.Size([2, 3])
    core.events = [
        (99 * SECOND, "mul", "", None, None, 1, "again", 5),
        (101 * SECOND, "linear", "model.py:41", shape, facula.float32, 24, "request", 0),
        (int(102.5 * SECOND), "linear", "", None, None, 24, "again", SECOND // 4),
        (104 * SECOND, "mul", "", None, None, 1, "again", 5),
    ]
    assert budget.events() == [
        BudgetEvent(1.0, "linear", "model.py:41", shape, facula.float32, 24, "request", 0.0),
        BudgetEvent(2.5, "linear", "", None, None, 24, "again", 0.25),
    ]
    assert BudgetEvent._fields == ("time", "op", "place", "shape", "dtype", "bytes", "cause", "seconds")


# -- the picture


def sample(milliseconds, held, saved=0, gone=0, gradients=0):
    return (100 * SECOND + milliseconds * 10**6, held * MIB, saved * MIB, gone * MIB, gradients * MIB)


SAMPLES = [
    sample(0, 60, 0, 0, 20),  # gradients of the step before
    sample(10, 40, 0, 0, 20),  # they have gone
    sample(20, 90, 45, 0, 20),
    sample(30, 100, 55, 30, 20),
    sample(40, 100, 40, 30, 0),  # backward has begun
    sample(50, 80, 10, 0, 15),
    sample(60, 65, 0, 0, 20),
]
BACKWARD = (100 * SECOND + 35 * 10**6, 100 * SECOND + 62 * 10**6)


def step_of(samples, events=(), backward=BACKWARD, limit=100 * MIB):
    return Step(100 * SECOND, 100 * SECOND + 62 * 10**6, backward, list(samples), list(events), limit)


def test_bands():
    rows = bands_of(step_of(SAMPLES))
    assert [tuple(size // MIB for size in bands) for _, bands, _ in rows] == [
        (40, 20, 0, 0), (40, 0, 0, 0), (40, 0, 45, 5), (40, 0, 55, 5), (40, 0, 40, 20), (40, 15, 10, 15), (40, 20, 0, 5),
    ]  # fmt: skip
    assert [sum(bands) for _, bands, _ in rows] == [held for _, held, *_ in SAMPLES]
    assert [plain // MIB for *_, plain in rows] == [60, 40, 90, 130, 130, 80, 65]


def test_bands_never_pass_what_is_held():
    for _, bands, _ in bands_of(step_of([sample(1, 50), sample(2, 60, 90, 0, 90), sample(50, 70, 15, 0, 90)])):
        assert min(bands) >= 0 and bands[0] == 50 * MIB


EVENTS = [
    (100 * SECOND + 25 * 10**6, "linear", "model.py:41", (2, 3), facula.float32, 10 * MIB, "request", 0),
    (100 * SECOND + 25 * 10**6, "<gelu>", "", (2, 3), facula.float32, 20 * MIB, "request", 0),
    (100 * SECOND + 45 * 10**6, "linear", "model.py:41", None, None, 10 * MIB, "again", 7 * 10**6),
    (100 * SECOND + 46 * 10**6, "linear", "model.py:41", None, None, 10 * MIB, "again", 5 * 10**6),
    (100 * SECOND + 47 * 10**6, "<gelu>", "", None, None, 20 * MIB, "moved back", 10**6),
    (100 * SECOND + 48 * 10**6, "", "train.py:3", (2,), facula.float32, 5, "copied", 0),
]
SVG = "{http://www.w3.org/2000/svg}"


def test_drawing():
    text = drawing(step_of(SAMPLES, EVENTS))
    root = ElementTree.fromstring(text)
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert "Memory over one step of 62.0 ms" in words and "backward" in words and "budget 100 MiB" in words
    assert "let go (2)" in words and "run again (3)" in words and "run again: 13.0 ms of 62.0 ms" in words
    assert words[words.index("linear model.py:41") + 1] == "12.0 ms, 2 x" and "<gelu> (moved back)" in words
    titles = [node.text for node in root.iter(f"{SVG}title")]
    assert "2 x, 30.0 MiB: <gelu>, linear model.py:41" in titles and "without a budget" in titles
    bands = {polygon[0].text: polygon.get("points").split() for polygon in root.iter(f"{SVG}polygon")}
    assert list(bands) == ["base", "gradients", "saved and here", "the rest"]
    heights = [float(point.split(",")[1]) for point in bands["the rest"]]
    assert min(heights) == pytest.approx(66 + 280 * (1 - 100 / (130 * 1.05)), abs=0.1)
    inside = [float(x) for points in bands.values() for x in (point.split(",")[0] for point in points)]
    assert min(inside) >= 76 and max(inside) <= 76 + 880


def test_drawing_of_little_and_of_much():
    root = ElementTree.fromstring(drawing(Step(5, 5, None, [(5, 0, 0, 0, 0)], [], 0)))
    assert "nothing was run again" in [node.text for node in root.iter(f"{SVG}text")]
    many = [(100 * SECOND + i * 1000, (i % 97) * MIB, 0, 0, 0) for i in range(60_000)]
    events = [(100 * SECOND + i * 1000, f"op{i % 40}", "", None, None, 1, "again", 10) for i in range(60_000)]
    text = drawing(step_of(many, events))
    assert len(text) < 500_000 and "and 28 others" in text
    assert max(sum(bands) for _, bands, _ in bands_of(step_of(many))) == 96 * MIB


def test_picture_of_a_step(core, tmp_path):
    budget = MemoryBudget(CPU, 100 * MIB)
    path = tmp_path / "budget.svg"
    with pytest.raises(RuntimeError, match="^picture: expected a budget under which ops have run"):
        budget.picture(path)
    core.now = 101 * SECOND
    core.samples = SAMPLES
    budget.picture(path)  # no pass yet: from the begin on
    assert "Memory over one step of 60.0 ms" in path.read_text() and "backward" not in path.read_text()
    core.passes = [(100 * SECOND + 5 * 10**6, 100 * SECOND + 20 * 10**6), BACKWARD, (BACKWARD[1] + 5, 0)]
    core.events = EVENTS
    budget.picture(str(path))
    assert "Memory over one step of 42.0 ms" in path.read_text() and "run again (3)" in path.read_text()
    assert budget._step(-1) == budget._step(1) and budget._step(1).samples[0] == SAMPLES[1]
    budget.picture(path, step=0)
    assert "Memory over one step of 20.0 ms" in path.read_text() and "run again (0)" in path.read_text()
    for wrong in (2, -3):
        with pytest.raises(IndexError, match=f"^picture: one of the 2 steps that are known, got {wrong}$"):
            budget.picture(path, step=wrong)
