"""Remote calls between processes: values, references, errors, faults, autograd through them, optimizers, modules."""

import pytest
from distributed_ranks import run_ranks
from rpc_ranks import HEAD, run

from facula.distributed import rpc


def test_workers_know_each_other():
    run(
        """
assert rpc.get_worker_info() == rpc.WorkerInfo(ME, RANK) and repr(rpc.get_worker_info()) == f"WorkerInfo(id={RANK}, name={ME})"
assert rpc.get_worker_info(NEXT).id == (RANK + 1) % SIZE
assert [i.name for i in rpc._get_current_rpc_agent().get_worker_infos()] == [f"worker{r}" for r in range(SIZE)]
assert rpc.get_rpc_timeout() == 60
raised(lambda: rpc.get_worker_info("nobody"), "RuntimeError", "'worker0', 'worker1' or 'worker2'", "'nobody'")
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
raised(lambda: rpc.rpc_sync(NEXT, no_future), "RuntimeError", "must return a Future, got int")
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
raised(lambda: rpc.rpc_sync(NEXT, facula.add, (facula.ones(2), facula.ones(3))), "RuntimeError", "(2,)")
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
