"""What ranks are told when something goes wrong between them: who, what, where; soon; and nobody hangs."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from distributed_ranks import Ranks, free_port, needs_mpi, run_ranks

pytestmark = needs_mpi

# The deadline is that of operations, once the ranks have met: when interpreters start is not what is looked at here.
INIT = """
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
x = facula.ones(1000)
dist.all_reduce(x)
dist.group.WORLD._timeout = timedelta(seconds=float(sys.argv[1]))
"""

DISAGREE = INIT + """
cases = {
    "shape": lambda: dist.all_reduce(facula.ones(1000 + RANK)),
    "dtype": lambda: dist.all_reduce(facula.ones(10, dtype=facula.float32 if RANK else facula.int32)),
    "kind": lambda: dist.all_reduce(x) if RANK else dist.broadcast(x, 0),
    "reduction": lambda: dist.all_reduce(x, dist.ReduceOp.SUM if RANK else dist.ReduceOp.MAX),
    "root": lambda: dist.broadcast(x, RANK),
    "barrier": lambda: dist.barrier() if RANK else dist.all_reduce(x),
    "group": lambda: dist.new_group([0, 1] if RANK else [0]),
}
words = {"shape": ["float32[1000]", "float32[1001]"], "dtype": ["int32[10]", "float32[10]"], "kind": ["broadcast", "all_reduce"],
         "reduction": ["SUM", "MAX"], "root": ["root 0", "root 1"], "barrier": ["barrier", "all_reduce"], "group": ["new_group (rank 0)", "new_group (ranks 0 1)"]}
for name, call in cases.items():
    x = facula.full((1000,), float(RANK))
    start = time.monotonic()
    text = raised(call, "DistBackendError", "do not agree", "rank 0: ", "rank 1: ", "<string>:", *words[name])
    assert time.monotonic() - start < 20
    assert x[0] == RANK, name  # what the program has is as it was
    y = facula.ones(3)
    dist.all_reduce(y)  # and the group goes on
    assert y[0] == SIZE
print("ok")
"""


def test_ranks_that_do_not_agree():
    assert run_ranks(DISAGREE, 2, arguments=["60"]) == ["ok\n"] * 2


MISSING = INIT + """
a, b = sign_of("told", 0), sign_of("told", 1)
def read_shard():
    while not (os.access(a, os.F_OK) and os.access(b, os.F_OK)):  # calls nothing whose lines the others could see
        time.sleep(0.02)
if RANK == 2:
    read_shard()
    print("ok")
    sign("ok")
else:
    text = raised(lambda: dist.all_reduce(facula.ones(3, 4)), "DistBackendError")
    print(text)
    sign("told")
    await_signs("ok", 2)
"""


@pytest.mark.slow
def test_a_rank_that_does_not_come():
    outputs = run_ranks(MISSING, 3, arguments=["3"])
    assert outputs[2] == "ok\n"
    for text in outputs[:2]:
        first, *lines = text.splitlines()
        assert re.match(r"DistBackendError: all_reduce #2 of group WORLD \(float32\[3, 4\], SUM\) at <string>:\d+ gave up after 3 s: 2 of 3 ranks arrived", first)
        (missing,) = [line for line in lines if "missing" in line]
        assert re.search(r"rank 2  \S+ pid \d+  alive, last finished #1 \(all_reduce\), now at <string>:\d+ in read_shard <- <string>:\d+", missing)
        (arrived,) = [line for line in lines if "arrived" in line]
        assert re.search(r"arrived  ranks 0 1 at <string>:\d+", arrived)


SLOW = INIT + """
if RANK == 1:
    time.sleep(2)
before = time.process_time()
dist.all_reduce(x)
used = time.process_time() - before
assert RANK == 1 or used < 1, used  # who waits does not work
print("ok")
"""


def test_a_rank_that_is_late():
    results = Ranks(SLOW, 2, arguments=["60"], FACULA_DIST_WARN_AFTER="0.5").ends()
    assert [(status, out) for status, out, _ in results] == [(0, "ok\n")] * 2
    assert re.search(r"facula.distributed: all_reduce #2 .* waits: 1 of 2 ranks arrived.\n  missing  rank 1 .*now at <string>", results[0][2])
    assert results[1][2] == ""


LOOP = INIT + """
print("ready", flush=True)
try:
    while True:
        dist.all_reduce(facula.ones(int(sys.argv[2])))
except dist.DistBackendError as error:
    print(time.time(), error)
    try:
        dist.barrier()
    except dist.DistBackendError as again:
        print(again)
    sys.exit(5)
"""


def wait_until_ready(ranks):
    for process in ranks.processes:
        assert process.stdout.readline() == "ready\n", process.communicate(timeout=30)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("elements", [1, 3_000_000])
@pytest.mark.parametrize("machines", ["one", "each its own"])
def test_a_rank_that_is_killed(victim, elements, machines):
    code = "os.environ['FACULA_DIST_MACHINE'] = f'machine{RANK}'\n" + LOOP if machines != "one" else LOOP
    ranks = Ranks(code, 3, arguments=["60", str(elements)])
    wait_until_ready(ranks)
    time.sleep(0.2)
    pid = ranks.processes[victim].pid
    ranks.signal(victim, signal.SIGKILL)
    killed = time.time()
    for rank, (status, out, err) in enumerate(ranks.ends(60)):
        if rank == victim:
            assert status == -signal.SIGKILL
            continue
        assert status == 5, (out, err)
        when, text = out.split(" ", 1)
        assert float(when) - killed < 20  # on a machine that does much else
        assert re.search(r"all_reduce( #\d+ of group WORLD .* at <string>:\d+|: the group WORLD)", text), text
        assert re.search(f"rank {victim} .*pid {pid}.* is gone", text) and "cannot be used any more" in text
        # rank 0 may be waited for already, and forgotten by the system
        assert victim == 0 or not sys.platform.startswith("linux") or "is gone: killed by signal 9" in text, text


FAULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "distributed_faults.py"
CUT = """
import runpy, signal
os.environ["FACULA_DIST_MACHINE"] = f"machine{RANK}"
faults = runpy.run_path(sys.argv[2])
signal.signal(signal.SIGUSR1, faults["shut_connections"])
""" + INIT + """
print("ready", flush=True)
try:
    while True:
        for work in [dist.all_reduce(facula.ones(1000), async_op=True) for _ in range(8)]:
            work.wait()
except RuntimeError as error:
    print(error)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of a process's files")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_whose_network_is_gone(victim):
    """MPI goes on for ever in such calls as look for a connection; all ranks are told nevertheless, and end."""
    ranks = Ranks(CUT, 3, arguments=["60", str(FAULTS)])
    wait_until_ready(ranks)
    time.sleep(0.1)
    ranks.signal(victim, signal.SIGUSR1)
    for status, out, err in ranks.ends(60):
        assert status == 0 and re.search(r"rank \d \(.*is gone", out), (status, out, err)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm to look at")
def test_no_shared_memory_is_left():
    before = set(os.listdir("/dev/shm"))
    ranks = Ranks(LOOP, 2, arguments=["60", "300000"])
    wait_until_ready(ranks)
    while_running = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("mpich")}
    ranks.kill()
    ranks.ends(30)
    assert not while_running & set(os.listdir("/dev/shm"))


@pytest.mark.slow
def test_a_rank_that_is_stopped():
    ranks = Ranks(LOOP, 2, arguments=["3", "1"])
    wait_until_ready(ranks)
    ranks.signal(1, signal.SIGSTOP)
    ranks.processes[0].wait(60)
    ranks.kill()
    status, out, err = ranks.ends(60)[0]
    assert status == 5 and re.search(r"gave up after 3 s: 1 of 2 ranks arrived.\n  missing  rank 1  .*does not answer \(stopped", out), (out, err)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before", "within"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_while_all_meet(victim, point):
    """Before it has come it is missing at the deadline; after that the others hear at once."""
    code = f"""
from facula.distributed import _rendezvous
def killed():
    os.kill(os.getpid(), 9)
if RANK == {victim}:
    if {point!r} == "before":
        killed()
    _rendezvous.look_for_mpi = killed  # what follows the meeting
start = time.monotonic()
raised(lambda: dist.init_process_group("gloo", timeout=timedelta(seconds=60 if {point!r} == "within" else 3)), "init_process_group: ")
assert time.monotonic() - start < 40
print("ok")
"""
    for rank, (status, out, err) in enumerate(Ranks(code, 3).ends()):
        assert (status, out) == ((-signal.SIGKILL, "") if rank == victim else (0, "ok\n")), err


@pytest.mark.slow
def test_the_holder_of_the_store_ends_early_or_is_stopped():
    code = INIT + "if RANK:\n    raised(lambda: dist.all_reduce(x), 'DistBackendError', 'rank 0 has left the group')\n    print('ok')"
    assert run_ranks(code, 3, arguments=["60"]) == ["", "ok\n", "ok\n"]
    ranks = Ranks(LOOP, 2, arguments=["3", "1"])
    wait_until_ready(ranks)
    ranks.signal(0, signal.SIGSTOP)
    begin = time.monotonic()
    ranks.processes[1].wait(60)
    assert time.monotonic() - begin < 30  # nobody waits for the store
    ranks.kill()
    status, out, err = ranks.ends(60)[1]
    assert status == 5 and re.search(r"gave up after 3 s\n  missing  rank 0 .*does not answer \(stopped", out), (out, err)


@pytest.mark.slow
def test_who_gave_up_says_why():
    """A rank that comes when the others have given up hears what they waited for."""
    code = INIT + """
if RANK == 2:
    await_signs("told", 0, 1)
text = raised(lambda: dist.all_reduce(x), "DistBackendError")
sign("told")
assert RANK != 2 or "gave up: all_reduce #2" in text and "missing  rank 2" in text, text
print("ok")
"""
    assert run_ranks(code, 3, arguments=["3"]) == ["ok\n"] * 3


def test_who_sends_what_nobody_expects():
    code = INIT + """
x, y = facula.ones(4), facula.zeros(4)
sides = ([1, 3], [1, 3]) if RANK == 0 else ([3, 1], [3, 1])
dist.all_to_all_single(y, x, *sides)  # every rank has other sizes, which fit
assert y.sum() == 4
raised(lambda: dist.all_to_all_single(facula.zeros(4 + 2 * RANK), facula.ones(4 + 2 * RANK)), "do not agree", "sends 2 2", "sends 3 3")
dist.all_reduce(x)
assert x[0] == 2
print("ok")
"""
    assert run_ranks(code, 2, arguments=["60"]) == ["ok\n"] * 2


def test_a_rank_that_is_stopped_and_goes_on():
    code = INIT + "print('ready', flush=True)\nfor i in range(60):\n    dist.all_reduce(x.fill_(1))\n    time.sleep(0.01)\n    assert x[0] == SIZE\nprint('ok')"
    ranks = Ranks(code, 2, arguments=["60"])
    wait_until_ready(ranks)
    ranks.signal(1, signal.SIGSTOP)
    time.sleep(1)
    ranks.signal(1, signal.SIGCONT)
    assert [(status, out) for status, out, _ in ranks.ends()] == [(0, "ok\n")] * 2


def test_a_rank_that_ends_early():
    code = INIT + "if RANK == 0:\n    raised(lambda: [dist.all_reduce(x) for _ in range(3)], 'DistBackendError', 'rank 1 has left')\n    print('ok')"
    assert run_ranks(code, 2, arguments=["60"]) == ["ok\n", ""]


def test_an_exception_of_one_rank():
    code = INIT + "if RANK == 1:\n    raise KeyError('the cause')\ndist.all_reduce(x)"
    (status, _, err), (other, _, cause) = Ranks(code, 2, arguments=["60"]).ends()
    assert status == other == 1 and "KeyError: 'the cause'" in cause
    assert re.search(r"failed: rank 1 \(.* pid \d+\) ended by KeyError: 'the cause' \(<string>:\d+\)", err)


def test_messages_that_nobody_sends():
    code = INIT + "if RANK == 0:\n    print(raised(lambda: dist.recv(x, 1, tag=7), 'recv of group WORLD (float32[1000], rank 1, tag 7)', 'gave up after 2 s'))\n    sign('told')\n"
    code += "while not os.access(sign_of('told', 0), os.F_OK):\n    time.sleep(0.02)"
    assert re.search(r"missing  rank 1 .* alive, last finished #1 \(all_reduce\), now at <string>", run_ranks(code, 2, arguments=["2"])[0])


CROSSED = INIT + """
pair = dist.new_group([0, 1])
def of_pair(**options):
    return dist.all_reduce(facula.ones(5), group=pair, **options)
def of_all(**options):
    return dist.all_reduce(facula.ones(7), **options)
calls = {0: [of_pair, of_all], 1: [of_all, of_pair], 2: [of_all]}[RANK]
"""


def test_groups_in_another_order():
    """No deadline is needed to see that ranks wait for each other, and who waits for them is told as well."""
    code = CROSSED + """
start = time.monotonic()
text = raised(lambda: [call() for call in calls], "DistBackendError")
assert time.monotonic() - start < 60
print(text)
"""
    outputs = run_ranks(code, 3, arguments=["600"])
    for text in outputs[:2]:
        assert re.search(r"cannot end: the ranks do not agree on the order of their calls|gave up: ", text), text
        assert re.search(r"\n  rank 0: all_reduce #1 of group \[0, 1\] \(float32\[5\], SUM\) at <string>:\d+, waits for rank 1", text), text
        assert re.search(r"\n  rank 1: all_reduce #3 of group WORLD \(float32\[7\], SUM\) at <string>:\d+, waits for rank 0", text), text
    assert re.search("waits for rank 0|gave up", outputs[2]), outputs[2]


@pytest.mark.slow
def test_groups_in_another_order_that_is_allowed():
    """Work that was started, and other threads that may call what is missing."""
    code = CROSSED + """
for work in [call(async_op=True) for call in calls]:
    work.wait()
import threading
def later():
    time.sleep(4)
    calls[-1]()
first = calls[0]
thread = threading.Thread(target=later if RANK == 1 else lambda: None)
thread.start()
if RANK == 1:
    of_all()
else:
    [call() for call in calls]
thread.join()
print("ok")
"""
    assert run_ranks(code, 3, arguments=["120"]) == ["ok\n"] * 3


@pytest.mark.slow
def test_groups_in_another_order_where_threads_may_call():
    """The report at the deadline says what is known."""
    code = CROSSED.replace("dist.new_group([0, 1])", "dist.new_group([0, 1], timeout=timedelta(seconds=5))") + """
import threading
threading.Thread(target=time.sleep, args=(15,), daemon=True).start()
dist.barrier()
dist.group.WORLD._timeout = timedelta(seconds=5)
print(raised(lambda: [call() for call in calls], "DistBackendError", "gave up"))
"""
    outputs = run_ranks(code, 3, arguments=["60"])
    assert any("unless another of their threads calls what is missing, ranks wait for each other:" in text for text in outputs), outputs


@pytest.mark.slow
def test_meeting():
    """Wrong world sizes, numbers that two have, and ranks that do not come."""
    code = "size = 2 + RANK\nprint(raised(lambda: dist.init_process_group(rank=RANK, world_size=size, timeout=timedelta(seconds=60)), 'init_process_group: '))"
    results = Ranks(code, 2).ends()
    assert [status for status, _, _ in results] == [0, 0], results
    assert any("all processes need one world_size, another has" in out for _, out, _ in results), results
    assert all("need one world_size" in out or "rank 0, which holds the store, is gone" in out for _, out, _ in results), results
    code = "dist.init_process_group(rank=RANK, world_size=3, timeout=timedelta(seconds=6))"
    errors = [err for _, _, err in Ranks(code, 2).ends()]
    told = "[12] of 3 ranks came within 6 s, missing: ranks? .*2|rank 0, which holds the store, is gone|nobody listens"
    assert all(re.search(f"init_process_group: .*({told})", err) for err in errors), errors
    assert any("ranks came within 6 s" in err for err in errors), errors
    ranks = Ranks("dist.init_process_group(rank=0, world_size=2, timeout=timedelta(seconds=100))", 2)
    while all(process.poll() is None for process in ranks.processes):
        time.sleep(0.05)
    ranks.kill()
    errors = [err for _, _, err in ranks.ends()]
    assert any("already in use" in e or "two processes say that they are rank 0" in e for e in errors), errors


RECORDED = INIT + """
import pickle
from facula.distributed import _recorder
part = dist.new_group([0, 1])
dist.all_reduce(x, group=part)
work = dist.isend(x, 1, tag=3) if RANK == 0 else dist.irecv(x, 0, tag=3)
work.wait()
names = [e["profiling_name"] for e in _recorder.records()["entries"]]
assert names == ["gloo:all_reduce", "gloo:barrier", "gloo:all_reduce", "gloo:send 0->1" if RANK == 0 else "gloo:recv 1<-0"], names
raised(lambda: dist.all_reduce(facula.ones(3 + RANK)), "do not agree")
with open(sys.argv[2] + str(RANK), "rb") as file:
    found = pickle.load(file)
assert found["version"] == "2.10" and found["rank"] == RANK and len(found["pg_config"]) == 2
first, *_, last = found["entries"]
assert first["state"] == "completed" and first["input_sizes"] == [[1000]] and first["input_dtypes"] == ["float32"]
assert first["time_created_ns"] <= first["time_discovered_started_ns"] <= first["time_discovered_completed_ns"]
assert last["state"] == "started" and last["collective_seq_id"] == 3 and last["input_sizes"] == [[3 + RANK]], last
assert last["frames"][0]["filename"] == "<string>" and last["frames"][0]["line"] > 10
for i in range(2100):
    dist.all_reduce(facula.ones(1), group=dist.group.WORLD)
assert len(_recorder.records()["entries"]) == 2000
print("ok")
"""


def test_the_flight_recorder(tmp_path):
    prefix = str(tmp_path / "trace")
    assert run_ranks(RECORDED, 2, arguments=["60", prefix], FACULA_FLIGHT_RECORDER=prefix) == ["ok\n"] * 2


def test_the_flight_recorder_at_a_signal(tmp_path):
    """Also while an operation waits."""
    code = INIT + """
import pickle, signal
pids = [None, None]
dist.all_gather_object(pids, os.getpid())
if RANK == 0:
    dist.recv(x, 1)
else:
    time.sleep(0.5)
    os.kill(pids[0], signal.SIGUSR2)
    while not os.path.exists(sys.argv[2] + "0"):
        time.sleep(0.02)
    time.sleep(0.2)
    with open(sys.argv[2] + "0", "rb") as file:
        assert pickle.load(file)["entries"][-1]["state"] == "started"
    dist.send(x, 0)
print("ok")
"""
    prefix = str(tmp_path / "trace")
    assert run_ranks(code, 2, arguments=["60", prefix], FACULA_FLIGHT_RECORDER=prefix) == ["ok\n"] * 2


def test_processes_of_different_worlds():
    """Some of the same processes meet again; with others they cannot."""
    code = """
def meet(rank, size, port):
    url = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(init_method=url, rank=rank, world_size=size, timeout=timedelta(seconds=30))
    x = facula.ones(1)
    dist.all_reduce(x)
    assert x == size
    dist.destroy_process_group()
ports = [int(p) for p in sys.argv[1:]]
meet(2 - RANK, 3, ports[0])
if RANK < 2:
    meet(RANK, 2, ports[1])
if RANK == 2:
    import subprocess
    other = [sys.executable, "-c", "import sys, facula.distributed as d; d.init_process_group(init_method=sys.argv[1], rank=1, world_size=2)"]
    child = subprocess.Popen([*other, f"tcp://127.0.0.1:{ports[2]}"], stderr=subprocess.PIPE, text=True)
    raised(lambda: meet(0, 2, ports[2]), "DistBackendError", "ranks 0 were in a group of other processes")
    assert "ranks 0 were in a group of other processes" in child.communicate(timeout=30)[1] and child.returncode == 1
print("ok")
"""
    assert run_ranks(code, 3, arguments=[str(free_port()) for _ in range(3)]) == ["ok\n"] * 3


def test_without_an_mpi():
    code = "raised(dist.init_process_group, 'DistBackendError', 'pip install', 'FACULA_MPI')\nprint('ok')"
    assert run_ranks(code, 2, FACULA_MPI="/none/libmpi_abi.so") == ["ok\n"] * 2
