"""Predictions of steps: formulas against cases computed by hand and messages sent one by one, timelines, the command."""

import json
import math
import os
import subprocess
import sys

import pytest
from distributed_ranks import needs_mpi

from facula.distributed.plan import Cluster, Link, Trace, cost, load_program, predict, trace_step
from facula.distributed.plan.__main__ import main
from facula.distributed.plan.cluster import quantity
from facula.distributed.plan.collectives import KINDS, algorithms, best
from facula.distributed.plan.fit import fit, least_squares
from facula.distributed.plan.step import Timeline, buckets, memory, shares, slowest, unit_bytes
from facula.distributed.plan.trace import Parameter, units_of

PLAIN = Cluster(64, Link(1e-6, 1e9), Link(1e-6, 1e9), call=0.0, agree=False)


# ---- collectives, against messages that are sent one by one


class Messages:
    """Ranks with parts of a tensor; each part is the set of ranks whose values are in it. Counts rounds and bytes."""

    def __init__(self, ranks, whole):
        self.ranks, self.rounds = ranks, []
        self.parts = [{p: frozenset([r]) for p in range(ranks)} if whole else {r: frozenset([r])} for r in range(ranks)]

    def round(self, sends, adds):
        """sends: {rank: (to, parts)}, all at once."""
        taken = [(to, {p: self.parts[rank][p] for p in parts}) for rank, (to, parts) in sends.items()]
        for to, parts in taken:
            for p, values in parts.items():
                had = self.parts[to].get(p, frozenset())
                assert not adds or not had & values, "a value is added twice"
                self.parts[to][p] = had | values if adds else values
        self.rounds.append(max(len(parts) for _, parts in taken))


def ring(n, reduces, gathers):
    m = Messages(n, reduces)
    if reduces:
        for k in range(n - 1):
            m.round({r: ((r + 1) % n, [(r - k) % n]) for r in range(n)}, True)
        m.parts = [{(r + 1) % n: parts[(r + 1) % n]} for r, parts in enumerate(m.parts)]
    for k in range(n - 1) if gathers else ():
        first = 1 if reduces else 0
        m.round({r: ((r + 1) % n, [(r + first - k) % n]) for r in range(n)}, False)
    return m


def doubling(n):
    m = Messages(n, True)
    for k in range(n.bit_length() - 1):
        m.round({r: (r ^ 1 << k, list(range(n))) for r in range(n)}, True)
    return m


def halving(n, gathers):
    m, mine = Messages(n, True), [list(range(n)) for _ in range(n)]
    for k in range(n.bit_length() - 1):
        halves = [(parts[: len(parts) // 2], parts[len(parts) // 2 :]) for parts in mine]
        keep = [halves[r][r >> k & 1] for r in range(n)]
        m.round({r: (r ^ 1 << k, halves[r][1 - (r >> k & 1)]) for r in range(n)}, True)
        mine = keep
    m.parts = [{p: parts[p] for p in mine[r]} for r, parts in enumerate(m.parts)]
    for k in reversed(range(n.bit_length() - 1)) if gathers else ():
        m.round({r: (r ^ 1 << k, list(m.parts[r])) for r in range(n)}, False)
    return m


def bruck(n):
    m = Messages(n, False)
    for k in range((n - 1).bit_length()):
        have = min(1 << k, n - (1 << k))
        m.round({r: ((r + (1 << k)) % n, [(r - i) % n for i in range(have)]) for r in range(n)}, False)
    return m


ANY, POWERS = (2, 4, 8, 16, 3, 7, 12), (2, 4, 8, 16)  # numbers that are no powers of two are folded: see test_costs_by_hand
SENT = [
    (kind, name, messages, n)
    for kind, name, messages, numbers in [
        ("all_reduce", "ring", lambda n: ring(n, True, True), ANY),
        ("all_gather", "ring", lambda n: ring(n, False, True), ANY),
        ("reduce_scatter", "ring", lambda n: ring(n, True, False), ANY),
        ("all_gather", "doubling", bruck, ANY),
        ("all_reduce", "doubling", doubling, POWERS),
        ("all_reduce", "halving", lambda n: halving(n, True), POWERS),
        ("reduce_scatter", "halving", lambda n: halving(n, False), POWERS),
    ]
    for n in numbers
]


@pytest.mark.parametrize(("kind", "name", "messages", "n"), SENT, ids=[f"{kind}-{name}-{n}" for kind, name, _, n in SENT])
def test_rounds_are_those_of_messages_sent_one_by_one(kind, name, messages, n):
    sent = messages(n)
    everybody = frozenset(range(n))
    for rank, parts in enumerate(sent.parts):
        if kind != "reduce_scatter":
            assert len(parts) == n
        for p, values in parts.items():
            assert values == (frozenset([p]) if kind == "all_gather" else everybody), (rank, p)
    nbytes = 1000.0 * n
    told = [r.bytes for r in algorithms(PLAIN, kind, n, nbytes)[name] for _ in range(r.times)]
    assert told == pytest.approx([1000.0 * parts for parts in sent.rounds])
    seconds = sum(1e-6 + 1000.0 * parts / 1e9 for parts in sent.rounds)
    assert cost(PLAIN, kind, n, nbytes, name) == pytest.approx(seconds)


def test_costs_by_hand():
    n, size, latency, byte = 5, 1e6, 1e-6, 1e-9
    assert cost(PLAIN, "all_reduce", n, size, "ring") == pytest.approx(8 * latency + 8 / 5 * size * byte)
    assert cost(PLAIN, "all_reduce", n, size, "doubling") == pytest.approx(4 * (latency + size * byte))  # 2 of 4 ranks, 2 for the fifth
    assert cost(PLAIN, "all_reduce", n, size, "halving") == pytest.approx(6 * latency + (2 + 2 * 3 / 4) * size * byte)
    assert cost(PLAIN, "broadcast", n, size, "tree") == pytest.approx(3 * (latency + size * byte))
    assert cost(PLAIN, "broadcast", 4, size, "pieces") == pytest.approx(5 * latency + (3 / 4 + 3 / 4) * size * byte)
    assert cost(PLAIN, "all_gather", 1, size) == 0
    talking = Cluster(64, PLAIN.inside, PLAIN.between, call=0.0)
    assert cost(talking, "all_reduce", 8, 100) == pytest.approx(3 * (latency + 16 * byte))  # travels with what ranks compare
    adding = Cluster(64, PLAIN.inside, PLAIN.between, call=3e-6, agree=True, reduce=2e-9)
    agree = 3e-6 + 3 * (latency + 16 * (byte + 2e-9))  # 8 ranks: three rounds of 16 bytes
    assert cost(adding, "all_reduce", 8, size, "ring") == pytest.approx(agree + 14 * latency + 7 / 8 * size * (2 * byte + 2e-9))


def test_nodes():
    slow = Cluster(8, Link(1e-6, 10e9), Link(5e-6, 1e9), call=0.0, agree=False)
    size = 8e6
    ring = 2 * 31 * (5e-6 + size / 32 / 1e9)  # one message of each round leaves a node; the others wait for it
    assert cost(slow, "all_reduce", 32, size, "ring") == pytest.approx(ring)
    inside = 2 * (3 * 1e-6 + 7 / 8 * size / 10e9)  # halving and doubling
    between = 4 * 5e-6 + 2 * 3 / 4 * size / 8 * 8 / 1e9  # of an eighth, by eight ranks at once
    assert cost(slow, "all_reduce", 32, size, "hierarchical") == pytest.approx(inside + between)
    assert best(slow, "all_reduce", 24, size)[0] == "hierarchical"  # of 32, halves that stay in the node first are as quick
    # the first three partners are in the node; for the other two all eight ranks share what leaves it
    near, far = 3 * (1e-6 + size / 10e9), 2 * (5e-6 + 8 * size / 1e9)
    assert cost(slow, "all_reduce", 32, size, "doubling") == pytest.approx(near + far)
    assert cost(slow, "broadcast", 32, size, "tree") == pytest.approx(2 * (5e-6 + size / 1e9) + 3 * (1e-6 + size / 10e9))


@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_and_worse_links_never_help(kind):
    worse = Cluster(8, Link(2e-6, 5e9), Link(9e-6, 5e8))
    better = Cluster(8, Link(1e-6, 10e9), Link(5e-6, 1e9))
    for ranks in (2, 3, 8, 24, 1000, 10_000):
        costs = [cost(better, kind, ranks, nbytes) for nbytes in (0, 10, 1e4, 1e7, 1e9)]
        assert costs == sorted(costs) and costs[0] > 0
        assert all(cost(worse, kind, ranks, n) > c for n, c in zip((0, 10, 1e4, 1e7, 1e9), costs))
    assert best(better, "all_reduce", 1024, 8)[0] != "ring"  # 2,046 messages one after another


def test_crowded_nodes():
    c = Cluster(8, Link(1e-6, 1e9), call=0.0, agree=False, processors=2, switch=1e-4)
    free = cost(PLAIN, "all_reduce", 8, 1e6, "ring")
    assert cost(c, "all_reduce", 8, 1e6, "ring") == pytest.approx(4 * free + 14e-4)
    assert cost(c, "all_reduce", 2, 1e6, "ring") == pytest.approx(cost(PLAIN, "all_reduce", 2, 1e6, "ring"))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: cost(PLAIN, "gather", 2, 1), "one of all_reduce.*'gather'"),
        (lambda: cost(PLAIN, "all_reduce", 0, 1), "got 0 and 1"),
        (lambda: cost(PLAIN, "all_reduce", 2, -1), "got 2 and -1"),
        (lambda: cost(PLAIN, "all_reduce", 2, 1, "star"), "ring.*'star'"),
        (lambda: Link(-1, 1), "latency"),
        (lambda: Link(0, 0), "bandwidth"),
        (lambda: Link(float("nan"), 1), "latency"),
        (lambda: Cluster(0), "a rank on a node"),
        (lambda: Cluster(processors=0), "processors"),
        (lambda: quantity("5 parsec"), "parsec"),
        (lambda: quantity("1.2.3s"), "1.2.3"),
        (lambda: predict(TRACE, PLAIN, 0), "ranks"),
        (lambda: predict(TRACE, PLAIN, 2, "magic"), "ddp, zero, fsdp.*'magic'"),
        (lambda: TRACE.faster(0), "above 0"),
    ],
)
def test_what_cannot_be(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_quantities():
    assert [quantity(t) for t in ("5us", "2e-6", "25GB", "200Gbit/s", "1.5 ms")] == pytest.approx([5e-6, 2e-6, 25e9, 25e9, 1.5e-3])


# ---- fitting


def test_least_squares_has_no_negative_part():
    assert least_squares([[1, 0], [0, 1], [1, 1]], [1, 2, 3]).tolist() == pytest.approx([1, 2])
    assert least_squares([[1, 1], [1, 2], [1, 3]], [3, 2, 1]).tolist() == pytest.approx([2, 0])


def test_a_fit_finds_the_cluster_that_was_measured(tmp_path):
    true = Cluster(8, Link(4e-6, 3e9), Link(4e-6, 3e9), call=7e-6, reduce=4e-10, processors=2, switch=2e-4)
    measured = [(k, n, s, cost(true, k, n, s)) for k in KINDS for n in (2, 4, 8) for s in (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24)]
    found = fit(measured, 2, overlap=0.25, copy=1e-10)
    for kind, ranks, nbytes, seconds in measured:
        assert cost(found, kind, ranks, nbytes) == pytest.approx(seconds, rel=0.02)
    assert found.inside.bandwidth == pytest.approx(3e9, rel=0.05) and found.switch == pytest.approx(2e-4, rel=0.05)
    spoilt = [(k, n, s, t * (30 if i == 7 else 1)) for i, (k, n, s, t) in enumerate(measured)]  # something else ran meanwhile
    again = fit(spoilt, 2)
    assert sorted(abs(math.log(cost(again, k, n, s) / t)) for k, n, s, t in measured)[-1] < 0.2
    found.save(tmp_path / "c.json")
    assert Cluster.load(tmp_path / "c.json") == found
    (tmp_path / "bad.json").write_text('{"inside": 3}')
    with pytest.raises(ValueError, match="bad.json: a cluster"):
        Cluster.load(tmp_path / "bad.json")


# ---- steps

MB = 1 << 20
# three units of 30 MB, whose gradients come after 1, 2 and 3 s; the model itself has none
TRACE = Trace(
    tuple(Parameter(f"p{i}", 30 * MB, 3.0 - i, i + 1) for i in range(3)), ("", "a", "b", "c"), (0.0, 0.0, 1.0, 2.0), forward=3.0,
    backward=3.5, update=1.0, samples=4, saved=7, state=2.0, buffers=5,
)  # fmt: skip


def cluster_where(nbytes, seconds):
    """Two ranks; a message of nbytes takes as many seconds."""
    return Cluster(2, Link(0, nbytes / seconds), call=0, agree=False)


def test_a_timeline():
    line = Timeline()
    a = line.add("x", 2)
    b = line.add("y", 1, a)
    c = line.add("y", 1)
    d = line.add("x", 1, c)
    assert line.run() == 5 and (a.end, b.end, c.end, d.end) == (2, 3, 4, 5)
    assert line.busy("x") == 3 and line.busy("z") == 0 and Timeline().run() == 0


def test_ddp_hides_what_runs_beside_backward():
    assert buckets(TRACE) == [(30 * MB, 1.0), (30 * MB, 2.0), (30 * MB, 3.0)]
    assert buckets(TRACE, size=50 * MB) == [(30 * MB, 1.0), (60 * MB, 3.0)]  # the first is full with 1 MB
    quick = predict(TRACE, cluster_where(30 * MB, 0.5), 2)  # two halves there, two back: 0.5 s for each bucket
    assert (quick.seconds, quick.communication, quick.hidden, quick.efficiency) == pytest.approx((7.5, 1.5, 1.0, 1.0))
    slow = predict(TRACE, cluster_where(30 * MB, 4), 2)  # buckets end at 8, 12 and 16, then the update
    assert (slow.seconds, slow.communication, slow.hidden) == pytest.approx((17, 12, 2.5 / 12))
    busy = predict(TRACE, Cluster(2, Link(0, 30 * MB / 0.5), call=0, agree=False, overlap=0.0), 2)
    assert busy.hidden == pytest.approx(0) and busy.seconds == pytest.approx(9)
    assert predict(TRACE, PLAIN, 1).seconds == pytest.approx(7.5) and predict(TRACE, PLAIN, 1).communication == 0


def test_fsdp_waits_for_every_message_or_gathers_ahead():
    c = cluster_where(15 * MB, 0.25)  # half of a unit: gathered, or scattered, in 0.25 s
    waits = predict(TRACE, c, 2, "fsdp", prefetch=0)
    assert waits.communication == pytest.approx(3 * 3 * 0.25) and waits.hidden == pytest.approx(0)
    assert waits.seconds == pytest.approx(3 + 3.5 + 0.5 + 9 * 0.25)
    ahead = predict(TRACE, c, 2, "fsdp")
    # the first gather shows, and that of the pass back; the model itself computes after its units, and hides the last scatter
    assert ahead.seconds == pytest.approx(3 + 3.5 + 0.5 + 2 * 0.25) and ahead.hidden == pytest.approx(7 / 9)
    assert unit_bytes(TRACE) == [0, 30 * MB, 30 * MB, 30 * MB]


def test_zero_broadcasts_shares():
    c = cluster_where(30 * MB, 0.5)
    assert shares(TRACE, 2) == [60 * MB, 30 * MB] and shares(TRACE, 100) == [30 * MB] * 3
    told = predict(TRACE, c, 2, "zero")
    assert told.communication == pytest.approx(3 * 0.5 + 1.0 + 0.5)  # all_reduce of buckets, two broadcasts
    assert told.seconds == pytest.approx(6.5 + 2 / 3 + 1.5)
    copies = predict(TRACE, Cluster(2, c.inside, call=0, agree=False, copy=0.1 / (30 * MB)), 2, "zero")
    assert copies.seconds == pytest.approx(told.seconds + 0.3 + 0.2 + 0.3)  # gradients, the share, what the others have sent


def test_memory_of_a_rank():
    whole = 90 * MB
    base = {"parameters": whole, "gradients": whole, "optimizer": 2 * whole, "saved": 7, "messages": 30 * MB, "buffers": 5}
    assert memory(TRACE, "ddp", 4) == base and memory(TRACE, "ddp", 1)["messages"] == 0
    assert memory(TRACE, "zero", 2) == {**base, "optimizer": 120 * MB, "saved": 0, "messages": whole}
    fsdp = memory(TRACE, "fsdp", 3, prefetch=0)
    assert fsdp == {"parameters": 30 * MB, "gradients": 30 * MB, "optimizer": 60 * MB, "saved": 7, "messages": 90 * MB, "buffers": 5}
    assert predict(TRACE, PLAIN, 3, "fsdp").bytes == sum(fsdp.values()) + 90 * MB  # one unit is scattered, one gathered
    assert memory(TRACE, "fsdp", 3, prefetch=2)["messages"] == 210 * MB  # of the last unit: its own three, two more twice


def test_everybody_waits_for_the_slowest():
    assert slowest(1, 0.1) == 1 and slowest(100, 0) == 1
    assert 1.24 < slowest(100, 0.1) < 1.26 and slowest(10_000, 0.1) > slowest(100, 0.1)
    told = predict(TRACE, PLAIN, 32, jitter=0.1)
    assert told.seconds > 1.15 * 7.5 and told.efficiency < 1 / 1.15


def test_a_faster_device():
    fast = TRACE.faster(10)
    assert fast.forward == pytest.approx(0.3) and fast.parameters[0].ready == pytest.approx(0.3) and fast.saved == TRACE.saved
    assert predict(fast, cluster_where(30 * MB, 0.5), 2).efficiency < predict(TRACE, cluster_where(60 * MB, 0.5), 2).efficiency


# ---- traces and the command

MODEL = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 3))

def example(batch):
    return torch.randn(batch, 8)
"""
LOSS = """
def loss(output):
    return nn.functional.cross_entropy(output, torch.zeros(len(output), dtype=torch.long))

def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.1)
"""
BYTES = 4 * (8 * 64 + 64 + 2 * 64 + 64 * 64 + 64 + 3 * 64 + 3)


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def test_a_trace(model_file):
    program = load_program(model_file)
    trace = trace_step(program, 16, steps=2)
    assert trace.parameter_bytes == BYTES and trace.samples == 16 and trace.state == pytest.approx(2)
    assert trace.units == ("", "0", "1", "3.0", "4") and unit_bytes(trace)[0] == 0
    assert trace.begins == tuple(sorted(trace.begins)) and 0 < trace.begins[-1] < trace.forward
    ready = {p.name: p.ready for p in trace.parameters}
    assert 0 < ready["4.weight"] < ready["3.0.weight"] < ready["0.weight"] <= trace.backward
    assert trace.buffers == 2 * 64 * 4 + 8 and trace.saved >= 16 * (8 + 64 + 64 + 64) * 4
    assert list(units_of(program.model(), ("BatchNorm1d",))) == ["1"]


def test_what_a_file_may_define(tmp_path):
    (tmp_path / "m.py").write_text(MODEL + LOSS)
    assert trace_step(load_program(tmp_path / "m.py"), 4, steps=1).state == 0
    (tmp_path / "empty.py").write_text("def model(): pass\n")
    with pytest.raises(ValueError, match=r"empty.py must define .* example"):
        load_program(tmp_path / "empty.py")
    (tmp_path / "frozen.py").write_text(MODEL + "trained = model\ndef model():\n    return trained().requires_grad_(False)\n")
    with pytest.raises(ValueError, match="nothing to train"):
        trace_step(load_program(tmp_path / "frozen.py"), 4, steps=1)


def test_the_command(model_file, tmp_path, capsys, monkeypatch):
    small = ["--ranks", "1,8,1024,10000", "--steps", "1", "--batch", "4"]
    assert main([model_file, *small, "--strategy", "all", "--bandwidth", "100Gbit", "--latency", "10us"]) == 0
    printed = capsys.readouterr().out
    assert "between nodes 10 us + 12.5 GB/s" in printed and printed.count("10,000") == 3
    assert main([model_file, *small, "--json", "--ranks-per-node", "4", "--strategy", "fsdp", "--prefetch", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["ranks"] for row in rows] == [1, 8, 1024, 10000] and rows[0]["communication"] == 0 < rows[1]["communication"]
    assert main([str(tmp_path / "none.py")]) == 2 and "none.py" in capsys.readouterr().err
    assert main([model_file, "--cluster", model_file, "--steps", "1"]) == 2 and "a cluster" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([model_file, "--steps", "1", "--plot", str(tmp_path / "p.svg")]) == 2 and "matplotlib" in capsys.readouterr().err
    assert main([model_file, "--steps", "1", "--ranks", "0"]) == 2 and "1 to 1,000,000 ranks" in capsys.readouterr().err
    for wrong in ([], [model_file, "--strategy", "magic"], [model_file, "--bandwidth", "much"]):
        with pytest.raises(SystemExit):
            main(wrong)


def test_a_picture(model_file, tmp_path):
    pytest.importorskip("matplotlib")
    assert main([model_file, "--steps", "1", "--batch", "4", "--strategy", "all", "--plot", str(tmp_path / "p.svg")]) == 0
    text = (tmp_path / "p.svg").read_text()
    assert "</svg>" in text and text.count("<path") > 20


@pytest.mark.slow
@needs_mpi
def test_measured_between_local_ranks(model_file, tmp_path):
    """That it runs and adds up: how well it predicts is a measurement, in docs/distributed_planning.md."""
    script = (
        "import sys\nfrom facula.distributed.plan import measure\n"
        "if __name__ == '__main__':\n    measure.measure((2,), (1024, 65536), 3).save(sys.argv[1])\n"
    )
    (tmp_path / "run.py").write_text(script)
    path = tmp_path / "c.json"
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, tmp_path / "run.py", path], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    cluster = Cluster.load(path)
    assert len(cluster.measured) == 2 * len(KINDS) and all(seconds > 0 for *_, seconds in cluster.measured)
    assert cluster.ranks_per_node == 2 and 0 <= cluster.overlap <= 1 and cluster.copy > 0
    command = [sys.executable, "-m", "facula.distributed.plan", model_file, "--cluster", path, "--check", "2", "--strategy", "all"]
    done = subprocess.run([*command, "--steps", "2"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[-3:]]
    assert [row[:2] for row in rows] == [["ddp", "2"], ["zero", "2"], ["fsdp", "2"]]
    assert all(float(row[2]) > 0 and float(row[3]) > 0 for row in rows)
