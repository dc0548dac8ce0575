"""Remote calls between processes: values, references, errors, faults, autograd through them, optimizers, modules."""

import re
import signal
import time

import pytest
from cuda_environment import environment
from distributed_ranks import Ranks, run_ranks

import facula
from facula import _C
from facula.distributed import autograd as dist_autograd
from facula.distributed import rpc

# what workers call is found by its name in their __main__
HEAD = """
import threading
import numpy as np
import facula.distributed.rpc as rpc
import facula.distributed.autograd as dist_autograd
from facula.distributed.rpc import RRef
options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=60, num_worker_threads=8)
ME = f"worker{RANK}"
NEXT = f"worker{(RANK + 1) % SIZE}"
class Counter:
    def __init__(self, start=0): self.value = start
    def add(self, n): self.value += n; return self.value
    def fail(self): raise KeyError("no such key")
    def __call__(self, n): return self.value + n
def same(x): return x
def nap(seconds, value=None): time.sleep(seconds); return value
def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
def references(): return {k: int(v) for k, v in rpc._rref_context_get_debug_info().items()}
"""
MEET = "rpc.init_rpc(ME, rpc_backend_options=options)\n"
INIT = HEAD + MEET
END = "rpc.shutdown()\nprint('ok')\n"


def run(code, size=2, **options):
    """Ranks with what is defined above a line "---" before they meet."""
    definitions, _, body = code.rpartition("---\n")
    assert run_ranks(HEAD + definitions + MEET + body + END, size, **options) == ["ok\n"] * size


def test_workers_know_each_other():
    run(
        """
assert rpc.get_worker_info() == rpc.WorkerInfo(ME, RANK) and repr(rpc.get_worker_info()) == f"WorkerInfo(id={RANK}, name={ME})"
assert rpc.get_worker_info(NEXT).id == (RANK + 1) % SIZE
assert [i.name for i in rpc._get_current_rpc_agent().get_worker_infos()] == [f"worker{r}" for r in range(SIZE)]
assert rpc.get_rpc_timeout() == 60
raised(lambda: rpc.get_worker_info("nobody"), "RuntimeError", "worker0, worker1, worker2", "'nobody'")
raised(lambda: rpc.rpc_sync("nobody", same, (1,)), "RuntimeError", "rpc_sync", "'nobody'")
raised(lambda: rpc.rpc_sync(7, same, (1,)), "RuntimeError", "below 3, got 7")
raised(lambda: rpc.rpc_sync(None, same, (1,)), "ValueError", "got None")
raised(lambda: rpc.remote("nobody", same, (1,)), "RuntimeError", "'nobody'")
raised(lambda: rpc.rpc_sync(NEXT, 3), "TypeError", "got int")
raised(lambda: rpc.init_rpc("again"), "RuntimeError", "already", "'again'")
assert [rpc.rpc_sync(to, same, (5,)) for to in (NEXT, (RANK + 1) % SIZE, rpc.get_worker_info(NEXT), ME)] == [5] * 4
found = rpc.api._all_gather(RANK * 10)
assert found == {f"worker{r}": r * 10 for r in range(SIZE)}, found
assert rpc.api._all_gather(RANK, {"worker0", "worker2"}) == {"worker0": 0, "worker2": 2} if RANK != 1 else True
""",
        size=3,
    )


def test_values_arrive_as_they_were():
    run(
        """
def check(value):
    for to in (NEXT, ME):
        got = rpc.rpc_sync(to, same, (value,))
        assert type(got) is type(value) and got.dtype == value.dtype and got.shape == value.shape, (value, got)
        assert facula.equal(got, value) and got.stride() == value.stride() and got.requires_grad == value.requires_grad
for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "bool", "complex64"):
    check(facula.tensor([[1, 0, 3], [4, 5, 0]]).to(getattr(facula, dtype)))
x = facula.arange(24.0).reshape(2, 3, 4)
for t in (facula.tensor(3.0), facula.empty(0, 3), x, x.permute(2, 0, 1), facula.zeros(2, 3, 4, 5).to(memory_format=facula.channels_last),
          facula.ones(1 << 20), facula.ones(3, requires_grad=True)):
    check(t)
got = rpc.rpc_sync(NEXT, same, (x[:, 1::2, ::2],))
assert facula.equal(got, x[:, 1::2, ::2]) and got.is_contiguous()
got = rpc.rpc_sync(NEXT, same, (x.to(facula.complex64).conj(),))
assert facula.equal(got, x.to(facula.complex64))
a = np.arange(100000.0)
values = {"a": [x, x], "n": a, "s": "text", "none": None, "p": facula.nn.Parameter(facula.ones(2)), "f": np.float64(2), "b": b"1" * 70000}
got = rpc.rpc_sync(NEXT, same, (values,))
assert got["a"][0] is got["a"][1] and facula.equal(got["a"][0], x) and (got["n"] == a).all() and got["n"].flags.writeable
assert isinstance(got["p"], facula.nn.Parameter) and got["p"].requires_grad and got["b"] == values["b"] and got["none"] is None
got["a"][0].add_(1)  # and it can be written to
module = rpc.rpc_sync(NEXT, same, (facula.nn.Linear(3, 2),))
assert module(facula.ones(1, 3)).shape == (1, 2)
assert facula.equal(rpc.rpc_sync(NEXT, facula.add, (facula.ones(2), 3)), facula.tensor([4.0, 4.0]))
assert rpc.rpc_sync(NEXT, facula.add, (facula.ones(2), facula.ones(2)), {"alpha": 2}).tolist() == [3, 3]
many = [facula.full((n % 5,), float(n)) for n in range(3000)]
assert all(facula.equal(a, b) for a, b in zip(rpc.rpc_sync(NEXT, same, (many,)), many))
"""
    )


def test_many_calls_at_once_and_nested_ones():
    run(
        """
def bounce(depth, names):
    return depth if depth == 0 else rpc.rpc_sync(names[depth % len(names)], bounce, (depth - 1, names)) + 1
---
names = [f"worker{r}" for r in range(SIZE)]
assert rpc.rpc_sync(NEXT, bounce, (6, names)) == 6
futures = [rpc.rpc_async(names[i % SIZE], same, (facula.full((i % 7 * 3000,), float(i)),)) for i in range(300)]
for i, future in enumerate(futures):
    assert facula.equal(future.wait(), facula.full((i % 7 * 3000,), float(i)))
results = []
def caller(k):
    for i in range(50):
        results.append(rpc.rpc_sync(NEXT, facula.add, (facula.tensor(k), i)).item() == k + i)
threads = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert len(results) == 400 and all(results)
# more calls than threads that run them: the others wait, and connections are read all the same
futures = [rpc.rpc_async(NEXT, nap, (0.05, i)) for i in range(40)]
assert rpc.rpc_sync(ME, same, (1,)) == 1 and [f.wait() for f in futures] == list(range(40))
big = facula.ones(1 << 21)
both = [rpc.rpc_async(NEXT, same, (big,)) for _ in range(6)]  # both ways at the same time, more than sockets hold
assert all(f.wait().sum() == 1 << 21 for f in both)
""",
        size=3,
    )


def test_futures_and_functions_that_give_futures():
    run(
        """
@rpc.functions.async_execution
def later(to, x): return rpc.rpc_async(to, facula.add, (x, 1)).then(lambda f: f.wait() * 2)
@rpc.functions.async_execution
def no_future(): return 3
class Batch:
    def __init__(self): self.lock, self.future, self.seen = threading.Lock(), facula.futures.Future(), []
    @staticmethod
    @rpc.functions.async_execution
    def join(rref, x):
        self = rref.local_value()
        with self.lock:
            self.seen.append(x)
            future = self.future
            if len(self.seen) == 4:
                future.set_result(sum(self.seen))
        return future
    @rpc.functions.async_execution
    def method(self, x): return rpc.rpc_async("worker0", same, (x,))
---
future = rpc.rpc_async(NEXT, nap, (0.05, 4))
assert isinstance(future, facula.futures.Future) and not future.done()
chained = future.then(lambda f: rpc.rpc_sync(NEXT, same, (f.wait() + 1,)))  # a callback that calls again
assert chained.wait() == 5 and future.wait() == 4
assert facula.futures.wait_all([rpc.rpc_async(NEXT, same, (i,)) for i in range(5)]) == list(range(5))
assert rpc.rpc_sync(NEXT, later, (ME, facula.ones(2))).tolist() == [4, 4]
assert rpc.remote(NEXT, later, (ME, facula.ones(2))).to_here().tolist() == [4, 4]
raised(lambda: rpc.rpc_sync(NEXT, no_future), "RuntimeError", "returns a Future, got int")
if RANK == 0:
    batch = rpc.remote("worker1", Batch)
    futures = [rpc.rpc_async("worker1", Batch.join, (batch, x)) for x in range(4)]  # no thread waits for the others
    assert [f.wait() for f in futures] == [6] * 4
    assert batch.rpc_sync().method(9) == 9
"""
    )


def test_errors_of_the_function_come_back():
    run(
        """
class Odd(Exception):
    def __init__(self, a, b): super().__init__(a)
class Mine(ValueError): pass
def fail(kind, *given): raise kind(*given)
def leave(): sys.exit(3)
class Closed:
    def __reduce__(self): raise TypeError("cannot be pickled")
def closed(): return Closed()
class Opens:
    def __reduce__(self): return fail, (ValueError, "while it was read")
---
text = raised(lambda: rpc.rpc_sync(NEXT, fail, (ValueError, "the cause")), "ValueError", f"On WorkerInfo(id={(RANK + 1) % SIZE}, name={NEXT})", "the cause")
assert "Traceback" in text and "in fail" in text
raised(lambda: rpc.rpc_sync(NEXT, fail, (Mine, "mine")), "Mine", "mine")
raised(lambda: rpc.rpc_async(NEXT, fail, (IndexError, "i")).wait(), "IndexError")
raised(lambda: rpc.rpc_sync(ME, fail, (ValueError, "here")), "ValueError", "here")
raised(lambda: rpc.rpc_sync(NEXT, fail, (Odd, 1, 2)), "RuntimeError", "Odd", "Traceback")
raised(lambda: rpc.rpc_sync(NEXT, leave), "RuntimeError", "SystemExit(3)")
raised(lambda: rpc.rpc_sync(NEXT, closed), "TypeError", "cannot be pickled")
raised(lambda: rpc.rpc_sync(NEXT, same, (Opens(),)), "ValueError", "while it was read")
raised(lambda: rpc.rpc_sync(NEXT, same), "TypeError", "missing 1 required positional argument")
raised(lambda: rpc.rpc_sync(NEXT, lambda: 3), "AttributeError", "lambda")  # nothing was sent
raised(lambda: rpc.rpc_sync(NEXT, same, (threading.Lock(),)), "TypeError", "pickle")
raised(lambda: rpc.rpc_sync(NEXT, facula.add, (facula.ones(2), facula.ones(3))), "RuntimeError", "[2]")
assert rpc.rpc_sync(NEXT, same, (3,)) == 3  # and all goes on
rref = rpc.remote(NEXT, fail, (Mine, "there"))
raised(rref.to_here, "Mine", "there", "On WorkerInfo")
raised(rref.rpc_sync().anything, "Mine", "there")
counter = rpc.remote(NEXT, Counter)
raised(counter.rpc_sync().fail, "KeyError", "no such key")
raised(counter.rpc_sync().nothing, "AttributeError", "nothing")
raised(counter.rpc_async().nothing().wait, "AttributeError", "nothing")
raised(counter.remote().nothing().to_here, "AttributeError", "nothing")
"""
    )


def test_timeouts():
    run(
        """
start = time.monotonic()
raised(lambda: rpc.rpc_sync(NEXT, nap, (1.5,), timeout=0.2), "RuntimeError", "rpc_sync of nap to worker", NEXT, "timeout of 0.2 s")
assert time.monotonic() - start < 1.4
raised(lambda: rpc.rpc_async(NEXT, nap, (1.5,), timeout=0.1).wait(), "RuntimeError", "0.1 s")
slow = rpc.remote(NEXT, nap, (0.6, 5))
raised(lambda: slow.to_here(timeout=0.1), "RuntimeError", "to_here", "0.1 s")
assert slow.to_here() == 5
assert rpc.rpc_sync(NEXT, nap, (0.1, 1), timeout=0) == 1  # for ever
rpc._set_rpc_timeout(0.2)
raised(lambda: rpc.rpc_sync(NEXT, nap, (1,)), "RuntimeError", "0.2 s")
rpc._set_rpc_timeout(60)
"""
    )


def test_references():
    run(
        """
def holds(rref): return rref.is_owner(), rref.owner_name(), rref.local_value().value if rref.is_owner() else rref.to_here().value
def passes_on(to, rref): return rpc.rpc_sync(to, same, (rref,))
---
mine = RRef(Counter(3))
assert mine.is_owner() and mine.confirmed_by_owner() and mine.owner_name() == ME and mine.local_value().value == 3 and mine.to_here().value == 3
theirs = rpc.remote(NEXT, Counter, (10,))
assert not theirs.is_owner() and theirs.owner() == rpc.get_worker_info(NEXT)
raised(theirs.local_value, "RuntimeError", "to_here")
assert theirs.rpc_sync().add(2) == 12 and theirs.rpc_async().add(1).wait() == 13 and theirs.to_here().value == 13
assert theirs.remote().add(1).to_here() == 14 and theirs.rpc_sync()(1) == 15 and theirs.confirmed_by_owner()
local = rpc.remote(ME, Counter, (7,))
assert local.is_owner() and local.local_value().value == 7 and local.rpc_sync().add(1) == 8 and local.remote().add(1).to_here() == 9
import pickle
raised(lambda: pickle.dumps(mine), "RuntimeError", "only in calls")
assert rpc.rpc_sync(NEXT, holds, (theirs,)) == (True, NEXT, 14)
assert rpc.rpc_sync(NEXT, holds, (mine,)) == (False, ME, 3)
assert rpc.rpc_sync(ME, holds, (mine,)) == (True, ME, 3)
third = f"worker{(RANK + 2) % SIZE}"
assert rpc.rpc_sync(third, holds, (theirs,)) == (False, NEXT, 14)  # from one user to another
fresh = rpc.remote(NEXT, nap, (0.3, Counter(1)))
assert rpc.rpc_sync(third, holds, (fresh,)) == (False, NEXT, 1)  # perhaps before the owner knows of it
back = rpc.rpc_sync(NEXT, passes_on, (third, mine))
assert back.is_owner() and back.local_value() is mine.local_value()
inside = rpc.remote(NEXT, same, ([mine, theirs],)).to_here()
assert inside[0].local_value() is mine.local_value() and inside[1].rpc_sync().add(0) == 14
""",
        size=3,
    )


def test_types_of_references():
    run(
        """
---
import queue
far, near = rpc.remote(NEXT, Counter, (3,)), RRef([1])
assert far._get_type() is Counter and near._get_type() is list and far._get_type(blocking=False).wait() is Counter
assert far._get_future().wait() is None and near._get_future().done() and far.confirmed_by_owner()
broken = rpc.remote(NEXT, Counter().fail)
raised(lambda: broken._get_type(timeout=30), "no such key")
"""
    )


def test_the_one_way_of_calls():
    from facula.distributed.rpc import backend_registry

    assert rpc.backend_registered("TENSORPIPE") and not rpc.backend_registered("tensorpipe")
    made = backend_registry.construct_rpc_backend_options(rpc.BackendType.TENSORPIPE, rpc_timeout=7, num_worker_threads=3)
    assert (made.rpc_timeout, made.num_worker_threads) == (7.0, 3)
    with pytest.raises(TypeError, match="got 'gloo'"):
        rpc.construct_rpc_backend_options("gloo")


def test_references_let_go():
    run(
        """
kept = {}
def keep(key, rref): kept[key] = rref
def let_go(key): del kept[key]
class Heavy:
    alive = 0
    def __init__(self): Heavy.alive += 1
    def __del__(self): Heavy.alive -= 1
def alive(): return Heavy.alive
def nothing_left(): return all(n == 0 for n in references().values())
---
if RANK == 0:
    rref = rpc.remote("worker1", Heavy)
    until(lambda: rpc.rpc_sync("worker1", alive) == 1)
    rpc.rpc_sync("worker2", keep, (0, rref))
    del rref
    time.sleep(0.2)
    assert rpc.rpc_sync("worker1", alive) == 1  # worker2 has it
    rpc.rpc_sync("worker2", let_go, (0,))
    until(lambda: rpc.rpc_sync("worker1", alive) == 0)
    until(lambda: all(rpc.rpc_sync(f"worker{r}", references)["num_owner_rrefs"] == 0 for r in range(3)))
    for i in range(50):  # forks of forks, dropped at once
        made = rpc.remote("worker1", Heavy)
        rpc.rpc_sync("worker2", same, (made,))
    del made
    until(lambda: rpc.rpc_sync("worker1", alive) == 0)
    mine = RRef(Heavy())
    rpc.rpc_sync("worker1", keep, (1, mine))
    del mine
    assert alive() == 1
    rpc.rpc_sync("worker1", let_go, (1,))
    until(lambda: alive() == 0)
    raised(lambda: rpc.rpc_sync("worker1", same, ([RRef(1), threading.Lock()],)), "TypeError")
    until(nothing_left)  # what was never sent is not held
rpc.api._all_gather(None)
until(nothing_left)
""",
        size=3,
    )


def test_shutdown_with_calls_and_references_left():
    out = run_ranks(
        HEAD
        + """
done = []
def slowly(to, hops):
    time.sleep(0.1)
    if hops: rpc.rpc_async(to, slowly, (ME, hops - 1))
    done.append(hops)
rpc.init_rpc(ME, rpc_backend_options=options)
rref = rpc.remote(NEXT, nap, (0.3, Counter()))
rpc.rpc_async(NEXT, slowly, (ME, 5))
rpc.shutdown()
assert len(done) == 6, done  # one call after another was waited for
raised(rref.to_here, "RuntimeError", "shut down")
raised(lambda: rpc.rpc_sync(NEXT, same, (1,)), "RuntimeError", "call init_rpc first")
raised(rpc.get_worker_info, "RuntimeError", "call init_rpc first")
raised(lambda: RRef(1), "RuntimeError", "call init_rpc first")
del rref
until(lambda: threading.active_count() == 1)
rpc.init_rpc(ME + "again", rank=RANK, world_size=SIZE, rpc_backend_options=options)  # and once more
assert rpc.rpc_sync(NEXT + "again", same, (2,)) == 2
rpc.shutdown()
print("ok")
""",
        2,
    )
    assert out == ["ok\n"] * 2


DEATH = INIT + """
if RANK == 0:
    number = rpc.rpc_sync("worker1", os.getpid)
    held = rpc.remote("worker1", Counter)
    held.to_here()
    futures = [rpc.rpc_async("worker1", nap, (60,)) for _ in range(3)]
    print("calls", flush=True)
    start = time.monotonic()
    for future in futures:
        raised(future.wait, "DistNetworkError", "nap to worker 'worker1' (rank 1", f"pid {number}", "is gone")
    raised(lambda: rpc.rpc_sync("worker1", same, (1,)), "DistNetworkError", "'worker1'", "is gone")
    raised(held.to_here, "DistNetworkError", "'worker1'")
    rref = rpc.remote("worker1", Counter)
    until(lambda: rref._created.done())
    raised(rref.to_here, "DistNetworkError", "'worker1'")
    assert time.monotonic() - start < 30
    assert rpc.rpc_sync("worker2", same, (5,)) == 5  # the others go on
    raised(rpc.shutdown, "DistNetworkError", "shutdown", "'worker1'")
    print("ok")
elif RANK == 2:
    raised(lambda: rpc.shutdown(), "DistNetworkError", "'worker")
    print("ok")
else:
    time.sleep(60)
"""


def test_a_worker_that_is_killed_is_named_in_every_call():
    ranks = Ranks(DEATH, 3)
    assert ranks.processes[0].stdout.readline() == "calls\n"
    time.sleep(0.3)
    start = time.monotonic()
    ranks.signal(1, signal.SIGKILL)
    results = ranks.ends()
    assert time.monotonic() - start < 40
    assert [(s, out.split()[-1:]) for s, out, _ in results] == [(0, ["ok"]), (-9, []), (0, ["ok"])], results


STOPPED = """
number = rpc.rpc_sync("worker1", os.getpid)
if RANK == 0:
    os.kill(number, signal.SIGSTOP)
    big = facula.ones(16 << 20)
    start = time.monotonic()
    raised(lambda: rpc.rpc_sync("worker1", same, (big,), timeout=0.5), "RuntimeError", "worker1", "0.5 s")  # half of it is sent
    raised(lambda: rpc.rpc_sync("worker1", same, (1,), timeout=0.5), "RuntimeError", "worker1", "0.5 s")  # none of it
    rref = rpc.remote("worker1", Counter, timeout=0.5)
    assert rpc.rpc_sync("worker2", same, (big[:1000],)).sum() == 1000  # the others do not wait for it
    raised(rref.to_here, "RuntimeError", "worker1", "0.5 s")
    assert time.monotonic() - start < 20
    os.kill(number, signal.SIGCONT)
    assert rpc.rpc_sync("worker1", same, (5,)) == 5
"""


def test_a_worker_that_is_stopped_keeps_nobody_longer_than_the_timeout():
    run("import signal\n---\n" + STOPPED, 3)


def test_a_worker_that_leaves_by_itself():
    out = run_ranks(
        INIT
        + """
if RANK == 1:
    rpc.rpc_sync("worker0", same, (1,))
    rpc.shutdown(graceful=False)
else:
    future = rpc.rpc_async("worker1", nap, (30,))
    raised(future.wait, "DistNetworkError", "'worker1'", "is gone: it was shut down")
    rpc.shutdown(graceful=False)
print("ok")
""",
        2,
    )
    assert out == ["ok\n"] * 2


def test_a_forked_child_neither_keeps_nor_ends_connections():
    run(
        """
child = os.fork()
if child == 0:
    ok = False
    try:
        raised(lambda: rpc.rpc_sync(NEXT, same, (1,)), "call init_rpc first")
        ok = True
    finally:
        os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
assert rpc.rpc_sync(NEXT, same, (3,)) == 3
"""
    )


STRANGER = INIT + """
import socket, struct
from facula.distributed.rpc import _connection
agent = rpc._get_current_rpc_agent()
place = agent._listener.address, agent._listener.port
assert place[0] == "127.0.0.1"
raised(lambda: _connection.open_to(*place, b"another key", 1 - RANK, RANK, 5), "DistNetworkError", "key of this job")
for words in (b"", b"GET / HTTP/1.0\\r\\n\\r\\n" * 10, os.urandom(500), b"fcl-rpc1" + os.urandom(40) * 3):
    with socket.create_connection(place, 5) as stranger:
        stranger.settimeout(20)
        try:
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1000): pass
        except TimeoutError:
            raise
        except OSError:  # sent away before all was said
            pass
assert rpc.rpc_sync(NEXT, same, (3,)) == 3
"""


def test_strangers_are_sent_away():
    assert run_ranks(STRANGER + END, 2, FACULA_STORE_TOKEN="secret") == ["ok\n"] * 2


def test_a_worker_with_another_token_does_not_come_in():
    code = HEAD + """
os.environ["FACULA_STORE_TOKEN"] = f"secret of {RANK if RANK else 'all'}"
options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=5)
import facula.distributed._rendezvous, facula.distributed.rpc.api as api
from datetime import timedelta
api.default_store_timeout = timedelta(seconds=4)
print(raised(lambda: rpc.init_rpc(ME, rpc_backend_options=options), "Dist"))
"""
    out = run_ranks(code, 2)
    assert all("Error" in text for text in out), out


def test_a_worker_that_does_not_come():
    code = HEAD + """
import facula.distributed.rpc.api as api
from datetime import timedelta
api.default_store_timeout = timedelta(seconds=2)
options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=2)
if RANK != 1:
    print(raised(lambda: rpc.init_rpc(ME, rpc_backend_options=options), "DistStoreError"))
    time.sleep(3)  # rank 0 holds the store
else:
    time.sleep(4)
"""
    for rank, text in enumerate(run_ranks(code, 3)):
        assert rank == 1 or "2 of 3 workers came within 2 s, missing: ranks 1" in text, text


def test_programs_may_end_without_shutdown():
    assert run_ranks(INIT + "assert rpc.rpc_sync(ME, same, (1,)) == 1\nprint('ok')\n", 2) == ["ok\n"] * 2


def test_two_workers_of_one_name():
    code = HEAD + """
raised(lambda: rpc.init_rpc("same", rpc_backend_options=options), "RuntimeError", "ranks 0 and 1", "'same'")
print("ok")
time.sleep(1)
"""
    assert run_ranks(code, 2) == ["ok\n"] * 2


def test_arguments_of_init_rpc():
    cases = [
        (lambda: rpc.init_rpc("", rank=0, world_size=1), ValueError, "got ''"),
        (lambda: rpc.init_rpc(3, rank=0, world_size=1), ValueError, "got 3"),
        (lambda: rpc.init_rpc("a", backend="gloo", rank=0, world_size=1), TypeError, "'gloo'"),
        (lambda: rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options={}), TypeError, "dict"),
        (lambda: rpc.TensorPipeRpcBackendOptions(num_worker_threads=0), ValueError, "got 0"),
        (lambda: rpc.TensorPipeRpcBackendOptions(rpc_timeout=-1), ValueError, "got -1"),
        (lambda: rpc.TensorPipeRpcBackendOptions(device_maps={"a": {"cpu": "cuda:0"}}), ValueError, "got cpu"),
        (lambda: rpc.TensorPipeRpcBackendOptions(device_maps={"a": {0: 1, 1: 1}}), ValueError, "twice"),
        (lambda: rpc.rpc_sync("a", abs, (1,)), RuntimeError, "init_rpc first"),
        (lambda: dist_autograd.context().__enter__(), RuntimeError, "init_rpc first"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=re.escape(text)):
            call()
    assert rpc.is_available() and dist_autograd.is_available()


def test_one_worker_alone():
    rpc.init_rpc("alone", rank=0, world_size=1)
    try:
        x = facula.ones(2, requires_grad=True)
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("alone", facula.mul, (x, 3)).sum() + rpc.remote(0, facula.sum, (x,)).to_here()
            dist_autograd.backward(context, [loss])
            assert dist_autograd.get_gradients(context)[x].tolist() == [4, 4] and x.grad is None
    finally:
        rpc.shutdown()


def test_tensors_of_devices_go_where_the_map_says():
    definitions = """
def where(x): return str(x.device), x.sum().item(), x.requires_grad
if RANK == 0:
    options.set_device_map("worker1", {0: 0})
"""
    code = """
if RANK == 0:
    x = facula.ones(3, device="cuda:0", requires_grad=True)
    assert rpc.rpc_sync("worker1", where, (x,)) == ("cuda:0", 3, True)
    y = rpc.rpc_sync("worker1", same, ([x, facula.ones(2)],))  # the answer goes back the same way
    assert str(y[0].device) == "cuda:0" and y[0].sum().item() == 3 and y[1].is_cpu
    raised(lambda: rpc.rpc_sync("worker2", where, (x,)), "RuntimeError", "device map", "cuda:0", "'worker2'", "got none")
    with dist_autograd.context() as context:
        dist_autograd.backward(context, [rpc.rpc_sync("worker1", facula.mul, (x, x)).sum()])
        gradient = dist_autograd.get_gradients(context)[x]
        assert gradient.tolist() == [2, 2, 2] and str(gradient.device) == "cuda:0"
"""
    run(definitions + "---\n" + code, 3, **environment())


def test_maps_for_workers_that_are_not_there():
    code = HEAD + """
options.set_device_map("nobody", {0: 0})
raised(lambda: rpc.init_rpc(ME, rpc_backend_options=options), "ValueError", "worker0, worker1", "'nobody'")
print("ok")
time.sleep(1)
"""
    assert run_ranks(code, 2) == ["ok\n"] * 2


# ---- autograd


def test_passes_whose_roots_get_their_gradients_one_by_one():
    x, w = facula.tensor([1.0, 2.0], requires_grad=True), facula.tensor([3.0, 4.0], requires_grad=True)
    shared = x * w
    first, second, third = shared * 2, shared.sum(), w * 5
    stepped = _C._stepped_pass((first, second, third), False)
    assert _C._stepped_pass_step(stepped, 2, (facula.ones(2),)) == []  # w waits for what the other roots bring
    assert _C._stepped_pass_step(stepped, 0, (facula.ones(2),)) == []
    found = dict(_C._stepped_pass_step(stepped, 1, (facula.tensor(1.0),)))
    assert found[x].tolist() == [9, 12] and found[w].tolist() == [5 + 3, 5 + 6] and x.grad is None
    assert _C._stepped_pass_step(stepped, 0, (facula.ones(2),)) == []  # each root once
    nothing = _C._stepped_pass((x * 1, x * w), True)
    assert _C._stepped_pass_step(nothing, 0, (None,)) == []
    assert [g.tolist() for _, g in _C._stepped_pass_step(nothing, 1, (facula.ones(2),))] in ([[3, 4], [1, 2]], [[1, 2], [3, 4]])
    leaf_itself = _C._stepped_pass((x,), False)
    assert _C._stepped_pass_step(leaf_itself, 0, (facula.ones(2),))[0][0] is x
    wrong = _C._stepped_pass((x * 1,), False)
    for arguments, kind in (
        ((wrong, -1, ()), ValueError),
        ((wrong, 0, (facula.ones(2),) * 2), ValueError),
        ((wrong, 2, ()), ValueError),
        ((wrong, 0, (3,)), TypeError),
        ((wrong, 0, (facula.ones(5),)), RuntimeError),
        ((wrong, 0, [facula.ones(2)]), TypeError),
        ((3, 0, ()), ValueError),
    ):
        with pytest.raises(kind):
            _C._stepped_pass_step(*arguments)
    with pytest.raises(RuntimeError, match="root 1"):
        _C._stepped_pass((x, facula.ones(1)), False)



def test_gradients_through_other_workers():
    run(
        """
weight = facula.tensor([2.0, 3.0], requires_grad=True)
def scale(x): return x * weight
def there(context): return dist_autograd.get_gradients(context)[weight], weight.grad
---
if RANK == 0:
    x = facula.tensor([1.0, 4.0], requires_grad=True)
    with dist_autograd.context() as context:
        y = rpc.rpc_sync("worker1", scale, (x,))
        assert y.requires_grad and y.grad_fn.name() == "RecvRpcBackward"
        z = rpc.rpc_sync("worker1", scale, (y * x,))  # back and forth: x^2 w^2
        dist_autograd.backward(context, [z.sum()], retain_graph=True)
        gradients = dist_autograd.get_gradients(context)
        assert list(gradients) == [x] and gradients[x].tolist() == [2 * 1 * 4, 2 * 4 * 9] and x.grad is None
        gradient, grad = rpc.rpc_sync("worker1", there, (context,))
        assert gradient.tolist() == [2 * 2 * 1, 2 * 3 * 16] and grad is None
        dist_autograd.backward(context, [z.sum()])  # once more, added up
        assert dist_autograd.get_gradients(context)[x].tolist() == [16, 144]
        raised(lambda: dist_autograd.backward(context, [z.sum()]), "RuntimeError", "second time")
        raised(lambda: dist_autograd.backward(context, []), "RuntimeError", "got none")
        raised(lambda: dist_autograd.backward(context, [z]), "RuntimeError", "one element", "[2]")
        raised(lambda: dist_autograd.backward(context, [facula.ones(())]), "RuntimeError", "requires grad")
        raised(lambda: dist_autograd.backward(99, [z.sum()]), "RuntimeError", "99")
        raised(dist_autograd.context().__enter__, "RuntimeError", "already")
        w = rpc.rpc_sync("worker1", scale, (x,))
        raised(lambda: w.sum().backward(), "RuntimeError", "distributed.autograd.backward")
    raised(lambda: dist_autograd.get_gradients(context), "RuntimeError", "get_gradients")
    until(lambda: rpc.rpc_sync("worker1", dist_autograd._get_debug_info)["num_autograd_contexts"] == 0)
    y = rpc.rpc_sync("worker1", scale, (x,))
    assert y.is_leaf  # outside of contexts nothing is recorded
"""
    )


def test_gradients_over_three_workers_equal_those_of_one_process():
    run(
        """
facula.manual_seed(1)
layers = [facula.nn.Linear(4, 4).double() for _ in range(3)]
def layer(i, x, hops):
    y = facula.tanh(layers[i](x))
    return y if not hops else y + rpc.rpc_sync(f"worker{(RANK + 1) % 3}", layer, ((i + 1) % 3, y, hops - 1))
def gradients(context):
    found = dist_autograd.get_gradients(context)
    return [found.get(p) for l in layers for p in l.parameters()]
def alone(i, x, hops):
    y = facula.tanh(layers[i](x))
    return y if not hops else y + alone((i + 1) % 3, y, hops - 1)
---
if RANK == 0:
    x = facula.linspace(-1, 1, 8, dtype=facula.float64).reshape(2, 4)
    expected = facula.autograd.grad(alone(0, x, 5).sum() + alone(1, x, 2).pow(2).sum(), [p for l in layers for p in l.parameters()])
    with dist_autograd.context() as context:
        first = rpc.rpc_async("worker1", layer, (1, x, 2))
        loss = layer(0, x, 5).sum() + first.wait().pow(2).sum()
        dist_autograd.backward(context, [loss])
        parts = [rpc.rpc_sync(f"worker{r}", gradients, (context,)) for r in range(3)]
        for i, e in enumerate(expected):
            total = sum(part[i] for part in parts if part[i] is not None)
            assert facula.allclose(total, e), (i, total, e)
""",
        size=3,
    )


def test_results_that_the_loss_does_not_use():
    """What waits for their gradients runs all the same: in PyTorch's FAST mode it would not."""
    run(
        """
weight = facula.tensor([2.0], requires_grad=True)
def scale(x): return x * weight
def twice(x): return rpc.rpc_sync("worker0", scale, (x * weight,))
def there(context): return dist_autograd.get_gradients(context).get(weight)
---
if RANK == 0:
    x = facula.tensor([5.0], requires_grad=True)
    with dist_autograd.context() as context:
        y, unused = rpc.rpc_sync("worker1", scale, (x,)), rpc.rpc_sync("worker1", scale, (x * 2,))
        far_unused = rpc.rpc_sync("worker1", twice, (y,))
        z = rpc.rpc_sync("worker1", twice, (x,))  # x w1 w0
        dist_autograd.backward(context, [y.sum() + z.sum()])
        assert dist_autograd.get_gradients(context)[x].tolist() == [2 + 4]
        assert dist_autograd.get_gradients(context)[weight].tolist() == [10]
        assert rpc.rpc_sync("worker1", there, (context,)).tolist() == [5 + 10]
"""
    )


def test_backward_from_a_reference_and_failing_backward():
    run(
        """
class Fails(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): raise ArithmeticError("in the formula")
def square(x): return (x * x).sum()
def fails(x): return Fails.apply(x)
def leaf(): return facula.ones(3, requires_grad=True)
---
if RANK == 0:
    x = facula.tensor([3.0], requires_grad=True)
    with dist_autograd.context() as context:
        rref = rpc.remote("worker1", square, (x,))
        rref.backward(context)
        assert dist_autograd.get_gradients(context)[x].tolist() == [6]
        bad = rpc.rpc_sync("worker1", fails, (x,)).sum()
        raised(lambda: dist_autograd.backward(context, [bad]), "ArithmeticError", "in the formula", "WorkerInfo(id=1")
    rref = rpc.remote("worker1", facula.ones, (), {"size": (), "requires_grad": True})
    rref.backward()
    assert rref.to_here().requires_grad
    raised(rpc.remote("worker1", same, (3,)).backward, "RuntimeError", "Tensor", "int")
    local = RRef(square(x))
    local.backward()
    assert x.grad.tolist() == [6]
"""
    )


def test_optimizers_of_other_workers_parameters():
    run(
        """
from facula.distributed.optim import DistributedOptimizer
from facula.distributed.nn import RemoteModule
class Net(facula.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = facula.nn.Linear(3, width)
        with facula.no_grad():
            for p in self.parameters(): p.fill_(0.5)
    def forward(self, x): return self.layer(x)
def forward_of(remote, x): return remote(x)
---
if RANK == 0:
    remote = RemoteModule("worker1/cpu", Net, (2,))
    here = Net(2)
    expected = Net(2)
    second = Net(2)
    parameters = remote.remote_parameters() + [RRef(p) for p in here.parameters()]
    assert [p.owner_name() for p in parameters] == ["worker1"] * 2 + ["worker0"] * 2
    optimizer = DistributedOptimizer(facula.optim.Adam, parameters, lr=0.1)
    reference = facula.optim.Adam([*expected.parameters(), *second.parameters()], lr=0.1)
    for step in range(3):
        x = facula.full((4, 3), step + 1.0)
        with dist_autograd.context() as context:
            loss = (remote(x) * here(x)).sum() + remote.forward_async(x).wait().sum()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
        reference.zero_grad()
        (expected(x) * second(x) + expected(x)).sum().backward()
        reference.step()
    for p, e in zip(parameters, [*expected.parameters(), *second.parameters()]):
        assert facula.allclose(p.to_here(), e), (p.to_here(), e)
    assert all(p.grad is None for p in here.parameters())
    assert remote.training and not remote.eval().training and not remote.module_rref.to_here().training
    assert facula.equal(rpc.rpc_sync("worker1", forward_of, (remote, x)), remote(x))
    again = RemoteModule.init_from_module_rref("worker1/cpu", remote.get_module_rref())
    assert facula.equal(again(x), remote(x))
    raised(remote.parameters, "ValueError", "remote_parameters")
    raised(lambda: remote.to("cpu"), "ValueError", "another worker")
    raised(lambda: RemoteModule("worker1/cpu", Net, ("x",)), "TypeError")
    raised(lambda: RemoteModule("worker1/cpu", Counter), "ValueError", "nn.Module")
    raised(lambda: RemoteModule("/cpu", Net), "ValueError", "'/cpu'")
    raised(lambda: RemoteModule("nobody/cpu", Net, (2,)), "RuntimeError", "'nobody'")
    raised(lambda: DistributedOptimizer(facula.optim.SGD, []), "ValueError", "got none")
    raised(lambda: DistributedOptimizer(facula.optim.SGD, parameters, lr=-1), "ValueError", "-1")
    raised(lambda: optimizer.step(77), "RuntimeError", "77")
"""
    )


def test_calls_are_ranges_of_profiles():
    run(
        """
if RANK == 0:
    with facula.profiler.profile() as profile:
        rpc.rpc_sync("worker1", facula.add, (facula.ones(2), 3))
        rpc.rpc_async("worker1", same, (3,)).wait()
        rpc.remote("worker1", same, (3,)).to_here()
    names = [event.name for event in profile.events()]
    for name in ("rpc_sync#aten::add(worker0 -> worker1)", "rpc_async#same(worker0 -> worker1)",
                 "rpc_remote#same(worker0 -> worker1)", "to_here#(worker0)->(worker1)"):
        assert name in names, names
"""
    )
