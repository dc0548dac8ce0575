"""Remote calls when something fails: workers that die, stop, leave or never come, strangers, arguments, maps of devices."""

import re
import signal
import time

import pytest
from cuda_environment import environment
from distributed_ranks import Ranks, run_ranks
from rpc_ranks import END, HEAD, INIT, MEET, run

import facula
from facula.distributed import autograd as dist_autograd
from facula.distributed import rpc

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
    sign("told")
await_signs("told", 0, 2)  # rank 0 holds the store
"""
    for rank, text in enumerate(run_ranks(code, 3)):
        assert rank == 1 or "2 of 3 workers came within 2 s, missing: ranks 1" in text, text


def test_programs_may_end_without_shutdown():
    assert run_ranks(INIT + "assert rpc.rpc_sync(ME, same, (1,)) == 1\nprint('ok')\n", 2) == ["ok\n"] * 2


SLOW = """
from facula.distributed.rpc import _connection
send = _connection.Connection.send
def slow(*arguments):
    time.sleep(0.5)
    return send(*arguments)
if RANK == 0:  # the leader, whose process ends as soon as it has met the others
    _connection.Connection.send = slow
"""


def test_a_leader_that_ends_at_once_has_answered_the_others():
    assert run_ranks(HEAD + SLOW + MEET + "print('ok')\n", 3) == ["ok\n"] * 3


def test_two_workers_of_one_name():
    code = HEAD + """
raised(lambda: rpc.init_rpc("same", rpc_backend_options=options), "RuntimeError", "ranks 0 and 1", "'same'")
print("ok")
sign("told")
await_signs("told", 0, 1)  # nobody is gone before all were told
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
sign("told")
await_signs("told", 0, 1)  # nobody is gone before all were told
"""
    assert run_ranks(code, 2) == ["ok\n"] * 2
