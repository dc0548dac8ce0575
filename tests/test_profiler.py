"""The profiler and observers: what is seen, by whom, on which threads, and the files that are written."""

import gzip
import json
import re
import threading

import pytest

import facula
from facula import _C, nn
from facula.autograd import profiler
from facula.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def named(events, name):
    return [e for e in events if e.name == name]


def test_ops_composites_nodes_and_ranges():
    x = facula.ones(8, 8, requires_grad=True)
    with profiler.profile(record_shapes=True) as p:
        with profiler.record_function("forward"):
            y = (x @ x).relu().sum()
        y.backward()
    averages = {e.key: e for e in p.key_averages()}
    assert averages["aten::matmul"].count == 1 and averages["aten::relu"].count == 1
    assert averages["forward"].cpu_time_total >= averages["aten::matmul"].cpu_time_total > 0
    assert averages["autograd::engine::evaluate_function: ReluBackward0"].count == 1
    (forward,) = named(p.function_events, "forward")
    assert [e.name for e in forward.cpu_children] == ["aten::matmul", "aten::relu", "aten::sum"]
    assert forward.self_cpu_time_total <= forward.cpu_time_total
    (product,) = named(p.function_events, "aten::matmul")
    assert product.cpu_parent is forward and product.input_shapes == [[8, 8], [8, 8]]
    assert [e.name for e in product.cpu_children] == ["aten::mm"]  # a composite shows what it is made of
    x.relu()
    assert averages["aten::relu"].count == 1  # nothing is recorded afterwards


def test_backward_nodes_know_their_forward_op():
    x = facula.ones(4, requires_grad=True)
    with profiler.profile() as p:
        (x.exp() * 2).sum().backward()
    for op, node in (("aten::exp", "ExpBackward0"), ("aten::mul", "MulBackward0"), ("aten::sum", "SumBackward0")):
        (forward,) = (e for e in named(p.function_events, op) if e.cpu_parent is None)
        (backward,) = named(p.function_events, f"autograd::engine::evaluate_function: {node}")
        assert forward.sequence_nr == backward.sequence_nr >= 0
        assert backward.forward_event is forward and backward.fwd_thread == forward.thread


def test_inplace_out_and_factories_are_seen():
    with profiler.profile() as p:
        x = facula.zeros(3)
        x.add_(1)
        facula.mul(x, 2, out=facula.empty(3))
        x.view(3, 1).copy_(facula.ones(3, 1))
        x.zero_()
        facula.rand(2)
    seen = {e.name for e in p.function_events}
    wanted = {"zeros", "add_", "mul_out", "empty", "view", "copy_", "ones", "zero_", "rand"}
    assert {f"aten::{name}" for name in wanted} <= seen


def test_kernels_and_pieces_are_details():
    x = facula.rand(400_000)
    threads = facula.get_num_threads()
    facula.set_num_threads(2)
    try:
        for _ in range(100):  # on a busy machine the calling thread may have done every piece before the other one runs
            with profiler.profile() as p:
                x.sort()
                facula.sin(x)
            pieces = [e for e in p.recording.details if e.kind == "work"]
            if pieces:
                break
    finally:
        facula.set_num_threads(threads)
    assert {e.kind for e in p.function_events} == {"op"}
    (sort,) = named(p.function_events, "aten::sort")
    kernels = [e for e in p.recording.details if e.kind == "kernel"]
    assert any(e.name == "sort" and e.thread == sort.thread for e in kernels)
    assert pieces and all(e.thread != sort.thread for e in pieces)


def test_failed_calls_end():
    with profiler.profile() as p:
        with pytest.raises(RuntimeError):
            facula.ones(2, 3).mm(facula.ones(2, 3))
        facula.ones(1)
    (failed,) = named(p.function_events, "aten::mm")
    assert all(e.cpu_parent is not failed for e in named(p.function_events, "aten::ones"))


def test_all_threads_are_seen():
    ready, go = threading.Event(), threading.Event()

    def work():
        ready.set()
        go.wait()
        facula.ones(5).exp()

    early = threading.Thread(target=work)  # begins before the profile
    early.start()
    ready.wait()
    with profiler.profile() as p:
        go.set()
        early.join()
        late = threading.Thread(target=lambda: facula.ones(5).log())
        late.start()
        late.join()
        facula.ones(5).sin()
    threads = {name: named(p.function_events, f"aten::{name}")[0].thread for name in ("exp", "log", "sin")}
    assert len(set(threads.values())) == 3


def test_stacks(tmp_path):
    def inner(x):
        return x.exp()

    def outer(x):
        return inner(x)

    with profile(with_stack=True) as p:
        outer(facula.ones(3))
    (event,) = named(p.events(), "aten::exp")
    assert re.search(r"test_profiler\.py\(\d+\): inner$", event.stack[0])
    assert event.stack[1].endswith(": outer")
    grouped = [e for e in p.key_averages(group_by_stack_n=2) if e.key == "aten::exp"]
    assert grouped[0].stack == event.stack[:2] and "Source Location" in p.key_averages(group_by_stack_n=2).table()
    path = tmp_path / "stacks.txt"
    p.export_stacks(str(path), "self_cpu_time_total")
    lines = [line for line in path.read_text().splitlines() if "inner" in line]
    assert lines and all(re.search(r"outer;.*inner \d+$", line) for line in lines)
    with profile() as without:
        facula.ones(1)
    with pytest.raises(RuntimeError, match="^export_stacks: .*with_stack"):
        without.export_stacks(str(path))


def test_memory():
    with profile(profile_memory=True) as p:
        kept = facula.ones(1000, 1000)
        kept.exp()
    averages = {e.key: e for e in p.key_averages()}
    assert averages["aten::ones"].self_cpu_memory_usage == 4_000_000
    assert averages["aten::exp"].self_cpu_memory_usage == 4_000_000  # its result goes after it has ended
    assert sum(row[3] for row in p.profiler._finished().memory) == 4_000_000
    assert "CPU Mem" in p.key_averages().table(sort_by="self_cpu_memory_usage") and "3.81 MB" in p.key_averages().table()


def test_memory_timeline(tmp_path):
    model = nn.Linear(100, 100)
    optimizer = facula.optim.Adam(model.parameters())
    with profile(profile_memory=True) as p:
        loss = model(facula.ones(50, 100)).relu().sum()
        loss.backward()
        optimizer.step()
    path = tmp_path / "memory.json"
    p.export_memory_timeline(str(path), "cpu")
    found = json.loads(path.read_text())
    final = {name: values[-1] for name, values in found["bytes"].items()}
    assert final["gradient"] == 4 * (100 * 100 + 100) and final["optimizer"] >= 2 * final["gradient"]
    assert max(found["bytes"]["saved for backward"]) >= 4 * 50 * 100
    assert found["times_us"] == sorted(found["times_us"])
    for ending in ("html", "png"):
        p.export_memory_timeline(str(tmp_path / f"memory.{ending}"))
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (tmp_path / "memory.html").read_text()
    with pytest.raises(ValueError, match="^export_memory_timeline: .*got 'memory.txt'"):
        p.export_memory_timeline("memory.txt")
    with profile() as without:
        facula.ones(1)
    with pytest.raises(RuntimeError, match="^export_memory_timeline: .*profile_memory=True"):
        without.export_memory_timeline(str(path))


def test_flops():
    x, conv = facula.ones(2, 3, 8, 8), nn.Conv2d(3, 4, 3, padding=1)
    with profile(with_flops=True) as p:
        facula.ones(4, 5).mm(facula.ones(5, 6))
        conv(x)
        nn.functional.linear(facula.ones(7, 5), facula.ones(3, 5))
        facula.ones(10) + 1
    flops = {e.key: e.flops for e in p.key_averages()}
    assert flops["aten::mm"] == 2 * 4 * 5 * 6 and flops["aten::linear"] == 2 * 7 * 5 * 3 and flops["aten::add"] == 10
    assert flops["aten::convolution"] == 2 * (2 * 4 * 8 * 8) * 3 * 9
    assert "Total MFLOPs" in p.key_averages().table(sort_by="flops")
    assert p.events()[0].input_shapes is None  # shapes were kept for this only


def test_modules_optimizer_and_loader_are_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    optimizer = facula.optim.SGD(model.parameters(), lr=0.1)
    loader = facula.utils.data.DataLoader(facula.utils.data.TensorDataset(facula.ones(6, 4)), batch_size=3)
    with profile(with_modules=True) as p:
        for (x,) in loader:
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    counts = {e.key: e.count for e in p.key_averages()}
    assert counts["nn.Module: Sequential"] == counts["nn.Module: Linear"] == 2
    assert counts["Optimizer.step#SGD.step"] == counts["Optimizer.zero_grad#SGD.zero_grad"] == 2
    assert counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3
    (first, *_) = named(p.events(), "nn.Module: Sequential")
    assert [e.name for e in first.cpu_children] == ["nn.Module: Linear", "nn.Module: ReLU"]


def test_table():
    with profile(record_shapes=True) as p:
        for _ in range(3):
            facula.ones(4, 4).exp()
        facula.ones(2).exp()
    averages = p.key_averages()
    table = averages.table(sort_by="count", row_limit=1, header="HEAD")
    lines = table.splitlines()
    assert lines[0] == "HEAD" and "# of Calls" in lines[2] and len([line for line in lines if "aten::" in line]) == 1
    assert "Self CPU time total" in lines[-1]
    grouped = p.key_averages(group_by_input_shape=True)
    assert {(str(e.input_shapes), e.count) for e in grouped if e.key == "aten::exp"} == {("[[4, 4]]", 3), ("[[2]]", 1)}
    assert "[[4, 4]]" in grouped.table()
    assert re.search(r"\d+\.\d{3}us", averages.table(time_unit="us"))
    assert averages.total_average().count == len(p.events())
    with pytest.raises(ValueError, match="^table: sort_by must be .*got 'color'$"):
        averages.table(sort_by="color")
    with pytest.raises(ValueError, match="^table: time_unit is one of s, ms and us, got 'h'$"):
        averages.table(time_unit="h")


def test_chrome_trace(tmp_path):
    x = facula.ones(3, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True) as p:
        with record_function("block"):
            y = x.exp()
        y.sum().backward()
    p.add_metadata("run", 7)
    p.add_metadata_json("options", '{"a": [1]}')
    path = tmp_path / "trace.json"
    p.export_chrome_trace(str(path))
    document = json.loads(path.read_text())
    assert document["run"] == "7" and document["options"] == {"a": [1]}
    rows = document["traceEvents"]
    complete = {e["name"]: e for e in rows if e["ph"] == "X"}
    block, op = complete["block"], complete["aten::exp"]
    assert block["cat"] == "user_annotation" and op["cat"] == "cpu_op" and op["args"]["Input Dims"] == [[3]]
    assert block["ts"] <= op["ts"] and op["ts"] + op["dur"] <= block["ts"] + block["dur"]
    starts = {e["id"]: e for e in rows if e["ph"] == "s"}
    ends = {e["id"]: e for e in rows if e["ph"] == "f"}
    assert starts and starts.keys() == ends.keys() and all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
    assert any(e["name"] == "[memory]" and e["args"]["Bytes"] == 12 for e in rows)
    assert {e["name"] for e in rows if e["ph"] == "M"} >= {"process_name", "thread_name"}


def test_trace_handler(tmp_path):
    for use_gzip in (False, True):
        with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / str(use_gzip)), use_gzip=use_gzip)):
            facula.ones(3).exp()
    (plain,) = (tmp_path / "False").glob("*.pt.trace.json")
    (packed,) = (tmp_path / "True").glob("*.pt.trace.json.gz")
    assert json.loads(plain.read_text())["traceEvents"] and json.loads(gzip.decompress(packed.read_bytes()))["traceEvents"]


def test_schedule():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    assert [plan(i).name for i in range(9)] == [
        "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip
    assert plan(3) == ProfilerAction.RECORD_AND_SAVE
    ready = []
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append(p.key_averages())) as p:
        for _ in range(9):
            facula.ones(3).exp()
            p.step()
    assert [next(e.count for e in r if e.key == "aten::exp") for r in ready] == [2, 2]
    assert any(e.key == "ProfilerStep*" and e.count == 2 for e in ready[0])


def test_off_unfinished_and_second_profiles():
    with profiler.profile(enabled=False) as p:
        facula.ones(2) + 1
    with pytest.raises(RuntimeError, match="^profile: Profiler didn't finish"):
        p.key_averages()
    assert p.function_events is None and str(p) == "<unfinished profile>"
    with profile(activities=[ProfilerActivity.CPU]):
        with pytest.raises(RuntimeError, match="^profile: expected no recording"):
            with profile():
                pass
    with profile() as again:
        facula.ones(2)
    assert named(again.events(), "aten::ones")
    with pytest.raises(RuntimeError, match="^profile: expected a recording that runs, got none"):
        _C._profiler_stop()


# Observers


class Log:
    def __init__(self):
        self.rows = []

    def op_begins(self, name, arguments):
        facula.ones(1)  # what an observer does is not seen
        self.rows.append(("begin", name, arguments))

    def op_ends(self, name, results):
        self.rows.append(("end", name, results))

    def node_begins(self, name, sequence):
        self.rows.append(("node", name, sequence))


def test_python_observer():
    log, x = Log(), facula.ones(2, requires_grad=True)
    _C._add_observer(log, False)
    try:
        y = x * 3.0
        y.sum().backward()
        with pytest.raises(RuntimeError):
            x.mm(x)
    finally:
        _C._remove_observer(log)
    facula.ones(2) + 1
    names = [(kind, name) for kind, name, _ in log.rows]
    assert names[:4] == [("begin", "mul"), ("end", "mul"), ("begin", "sum"), ("end", "sum")]
    assert ("node", "MulBackward0") in names and names[-2:] == [("begin", "mm"), ("end", "mm")]
    (_, _, arguments), (_, _, results) = log.rows[:2]
    assert arguments[0] is x and arguments[1] == 3.0 and results[0].tolist() == [3.0, 3.0]
    assert log.rows[-1][2] is None  # it failed
    with pytest.raises(ValueError, match="^remove_observer: "):
        _C._remove_observer(log)


def test_an_observer_that_calls_ops_does_not_disturb_arguments():
    log = Log()
    log.op_begins = lambda name, arguments: facula.ones(5, 1).view(1, 5)
    _C._add_observer(log, False)
    try:
        assert facula.ones(6).reshape(2, 3).shape == (2, 3) and facula.ones(2, 1).repeat(1, 3).shape == (2, 3)
    finally:
        _C._remove_observer(log)


def test_observer_of_one_thread_and_of_all():
    log = Log()
    for everywhere, expected in ((False, 0), (True, 2)):
        log.rows.clear()
        _C._add_observer(log, everywhere)
        thread = threading.Thread(target=lambda: facula.ones(3))
        thread.start()
        thread.join()
        _C._remove_observer(log)
        assert len(log.rows) == expected


def test_an_observer_of_one_thread_is_removed_there():
    log, errors = Log(), []
    _C._add_observer(log, False)

    def elsewhere():
        try:
            _C._remove_observer(log)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    facula.ones(2)
    _C._remove_observer(log)
    assert errors == ["remove_observer: expected an observer that was added, got another"] and len(log.rows) == 2


def test_an_observer_that_raises_changes_nothing(monkeypatch):
    caught = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: caught.append(args.exc_type))

    class Bad:
        def op_begins(self, name, arguments):
            raise ValueError("no")

    bad = Bad()
    _C._add_observer(bad, False)
    try:
        assert (facula.ones(2) + 1).tolist() == [2.0, 2.0]
    finally:
        _C._remove_observer(bad)
    assert caught and set(caught) == {ValueError}


def test_empty_observer():
    _C._set_empty_observer(True)
    try:
        assert _C._watching() and (facula.ones(2) + 1).tolist() == [2.0, 2.0]
    finally:
        _C._set_empty_observer(False)
    assert not _C._watching()


def test_activities_that_are_not_there_are_a_warning():
    activities = [ProfilerActivity.CPU, ProfilerActivity.XPU]
    with pytest.warns(UserWarning, match="nothing is recorded of XPU"), profile(activities=activities) as p:
        facula.ones(2).sum()
    assert "aten::sum" in [event.name for event in p.events()]


def test_use_cuda_is_an_older_way_to_say_activities():
    with pytest.warns(FutureWarning, match="use_cuda is deprecated"):
        made = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], use_cuda=False)
    assert made.activities == {ProfilerActivity.CPU}
