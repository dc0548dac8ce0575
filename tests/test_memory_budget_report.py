"""What a user sees of a memory budget: limits in words, the summary, events, the picture; marks in histories of memory.

Texts and pictures are made of numbers that a stand-in for the core gives; that the core's own reach them is asked at the end.
"""

import gc
import re
import types
import warnings
import xml.etree.ElementTree as ElementTree

import pytest

import facula
from facula import nn
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
        self.now, self.last_pass_end = 100 * SECOND, 0

    def _budget_set(self, device, bytes):
        before, self.bound = self.bound, bytes
        return before

    def _budget_folder(self, path):
        return ""

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
                "rooms": 0, "now": self.now}  # fmt: skip

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


# -- the core's own


def test_a_bound_is_set_and_put_back():
    assert facula._C._budget_get(CPU) == 0
    with facula.cpu.memory_budget("64GB") as budget:
        assert facula._C._budget_get(CPU) == budget.limit == 64 * 10**9
        with facula.cpu.memory_budget(None) as none:
            assert none.limit is None and facula._C._budget_get(CPU) == 0
        assert facula._C._budget_get(CPU) == 64 * 10**9
    assert facula._C._budget_get(CPU) == 0
    with facula.cpu.memory_budget(0.5) as budget:
        assert budget.limit == facula._C._cpu_total_memory() // 2
    for name in ("_budget_set", "_budget_report", "_budget_get"):
        with pytest.raises(TypeError, match="^memory_budget: . arguments, got 3"):
            getattr(facula._C, name)(CPU, 1, 2)
    with pytest.raises(ValueError, match="^memory_budget: the CPU or a CUDA device, got meta$"):
        facula._C._budget_get(facula.device("meta"))


def held_by_kind():
    kinds = {}
    for kind, bytes, shape, dtype in facula._C._budget_held(CPU):
        kinds.setdefault(kind, []).append((bytes, tuple(shape), dtype))
    return kinds


def test_what_the_program_holds_by_kind():
    net = nn.Sequential(nn.Linear(101, 103), nn.BatchNorm1d(103))
    leaf = facula.ones(107, requires_grad=True)
    optimizer = facula.optim.SGD([*net.parameters(), leaf], lr=0.1, momentum=0.5)
    box = types.SimpleNamespace(batch=[facula.ones(11, 101)], twice={"a": facula.ones(109)})
    box.view = box.twice["a"][:5]
    (net(box.batch[0]).sum() + leaf.sum()).backward()
    optimizer.step()
    kinds = held_by_kind()
    weight = (101 * 103 * 4, (103, 101), facula.float32)
    assert kinds["model"].count(weight) == 2 and kinds["gradient"].count(weight) == 1  # with its momentum
    assert (107 * 4, (107,), facula.float32) in kinds["model"] and (8, (), facula.int64) in kinds["model"]
    assert (11 * 101 * 4, (11, 101), facula.float32) in kinds["program"]
    assert sum(bytes == 109 * 4 for bytes, *_ in kinds["program"]) == 1  # a view is no second storage
    del net, optimizer, box
    assert weight not in held_by_kind().get("model", [])


def test_memory_changes_of_the_program_have_no_budget_mark():
    from facula.cpu import memory_snapshot, record_memory_history

    record_memory_history()
    try:
        facula.ones(1234)
        changes = [c for c in memory_snapshot()["trace"] if c["size"] == 4936]
        assert [(c["action"], c["budget"]) for c in changes] == [("alloc", ""), ("free", "")]
    finally:
        record_memory_history(None)


# -- what the core does is told


@pytest.fixture
def everything():
    """Cells for results of any size."""
    before = facula._C._budget_threshold(0)
    with facula.cpu.memory_budget("1TiB") as budget:
        yield budget
    facula._C._budget_threshold(before)


def let_go(bytes=1):
    """Do what an allocator does that is short of memory."""
    return facula._C._budget_let_go(CPU, bytes)


def net_and_batch():
    facula.manual_seed(5)
    net = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)
    )
    return net, facula.randn(128, 64)


def step_that_is_short(net, x, lets_go=1 << 17):
    net.zero_grad()
    result = net(x)
    went = let_go(lets_go)
    result.square().sum().backward()
    return went


def test_what_goes_and_runs_again_is_told(everything, tmp_path):
    net, x = net_and_batch()
    net(x).square().sum().backward()
    wanted = [p.grad.clone() for p in net.parameters()]
    assert step_that_is_short(net, x) >= 1 << 17
    first = len(everything.events())
    assert step_that_is_short(net, x) >= 1 << 17
    assert all(facula.equal(p.grad, grad) for p, grad in zip(net.parameters(), wanted, strict=True))

    events = everything.events()
    went, again = ([e for e in events if e.cause == cause] for cause in ("request", "again"))
    assert went and again and len(went) + len(again) == len(events)
    assert {"linear", "gelu", "layer_norm"} <= {e.op for e in again} and {e.op for e in went} <= {
        "linear",
        "gelu",
        "layer_norm",
        "",
    }
    assert all(e.dtype == facula.float32 and e.shape.numel() * 4 == e.bytes and e.seconds == 0 for e in went)
    assert all(e.shape is None and e.dtype is None and e.bytes > 0 and e.seconds >= 0 for e in again)
    assert [e.time for e in events] == sorted(e.time for e in events)
    assert re.fullmatch(r"test_memory_budget_report.py:\d+", went[-1].place)  # known from the first pressure on
    text = everything.summary()
    assert re.search(r"^gelu test_memory_budget_report.py:\d+ +\d", text, re.M) and "3 steps of backward" in text
    assert re.search(r"cannot go: [\d.]+ KiB parameters and optimizer, [\d.]+ KiB gradients; smallest budget", text)
    everything.picture(tmp_path / "budget.svg")
    words = [node.text for node in ElementTree.parse(tmp_path / "budget.svg").getroot().iter(f"{SVG}text")]
    assert f"run again ({sum(e.cause == 'again' for e in events[first:])})" in words  # those of the last step


def test_profiles_have_a_range_for_each_op_that_runs_again(everything):
    from facula.profiler import profile

    net, x = net_and_batch()
    step_that_is_short(net, x)
    before = len(everything.events())
    with profile() as recorded:
        step_that_is_short(net, x)
    again = [f"budget: {e.op}" for e in everything.events()[before:] if e.cause == "again"]
    ranges = [e for e in recorded.events() if e.name.startswith("budget: ")]
    assert again and [e.name for e in ranges] == again
    inside = {child.name for e in ranges for child in e.cpu_children}
    assert "aten::linear" in inside or "aten::gelu" in inside or "aten::_gelu_erf" in inside


def test_histories_of_memory_know_what_a_budget_let_go(everything, tmp_path):
    from facula.cpu import memory_picture, memory_snapshot, record_memory_history

    net, x = net_and_batch()
    step_that_is_short(net, x)
    before = len(everything.events())
    record_memory_history()
    try:
        step_that_is_short(net, x)
        trace = memory_snapshot()["trace"]
    finally:
        record_memory_history(None)
    went = sorted(e.bytes for e in everything.events()[before:] if e.cause == "request")
    freed = sorted(c["size"] for c in trace if c["budget"] == "let go" and c["action"] == "free")
    assert went and not [size for size in went if size not in freed]
    assert any(c["budget"] == "made again" and c["action"] == "alloc" for c in trace) and any(c["budget"] == "" for c in trace)
    pytest.importorskip("matplotlib")
    memory_picture(tmp_path / "memory.svg")
    assert "budget: let go" in (tmp_path / "memory.svg").read_text()


def test_an_error_names_what_the_program_holds(everything):
    net, x = net_and_batch()
    step_that_is_short(net, x)  # from here on lines are known
    kept = [net[0](x) for _ in range(2)]
    let_go(1 << 40)
    text = facula._C._budget_why(CPU, 5_000_000)
    sizes = r"[\d.]+ [KM]iB"
    assert re.match(
        rf"{sizes} are held that cannot go: {sizes} parameters and optimizer, {sizes} gradients, {sizes} in tensors ", text
    )
    assert re.search(r"\(largest: .*\(128, 256\) float32, 128 KiB, test_memory_budget_report.py:\d+[;)]", text)
    assert re.search(rf"\. {sizes} were let go before\. This step needs a budget of at least [\d.]+ [KMT]iB\.$", text)
    del kept


def test_an_error_in_backward_knows_parameters_and_optimizer():
    """The pass runs without the interpreter: what Python's objects hold is found when the error is raised."""
    facula.manual_seed(1)
    net, x = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))), facula.randn(64, 256)
    optimizer = facula.optim.Adam(net.parameters())
    net(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = net(x).square().sum()
    with facula.cpu.memory_budget(facula.cpu.memory_allocated() + 2**19), pytest.raises(facula.OutOfMemoryError) as caught:
        loss.backward()  # gradients take 3 MiB
    size = r"([\d.]+) MiB"
    found = re.search(
        rf"within the memory budget of .*: {size} are held that cannot go: {size} parameters and optimizer, ", str(caught.value)
    )
    assert found and 9 <= float(found[2]) <= float(found[1])
    optimizer.zero_grad()
    net(x).sum().backward()  # the program goes on


def test_gradients_and_saved_bytes_over_time(everything):
    net, x = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))), facula.randn(1024, 512)
    net(x).sum().backward()
    rows = facula._C._budget_samples(CPU, everything._begin)
    assert max(row[2] for row in rows) >= 5 * 2**21 and rows[-1][2] < 2**21  # saved bytes come and go
    assert rows[-1][4] >= 4 * 2**20 and all(row[1] >= row[2] for row in rows)


def test_the_program_of_the_page(capsys):
    from pathlib import Path

    page = (Path(__file__).resolve().parents[1] / "docs" / "memory_budget.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.S)[1]
    exec(program, {})
    told = capsys.readouterr().out
    assert re.match(r"budget 80.0 MiB, highest 7\d\.\d MiB; without it 11\d MiB. 4 steps of backward, [\d.]+ % of the time in ops run again\n", told)
    (columns,) = re.findall(r"^made by .*$", page, re.M)
    assert columns.split() == re.search(r"^made by .*$", told, re.M)[0].split() and "gelu" in told


def test_a_step_that_is_mostly_run_again_is_warned_of_once():
    def chain(x):
        for _ in range(40):
            x = (x * 1.01).tanh()
        return x

    x = facula.ones(1 << 18, requires_grad=True)
    with facula.cpu.memory_budget(facula.cpu.memory_allocated() + (7 << 20)):
        chain(x).sum().backward()
        with pytest.warns(
            UserWarning,
            match=r"^memory_budget: ops that ran again took \d+ of the \d+ ms of the last step, within .* would let go",
        ):
            for _ in range(3):
                chain(x).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            chain(x).sum().backward()
