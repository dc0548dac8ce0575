"""CUDA tensors of several processes when something goes wrong: mistakes that are planted, which the stand-in finds, and ranks that die."""

import signal
import subprocess
import sys
import time

import pytest
from cuda_environment import environment
from distributed_ranks import Ranks, needs_mpi
from nccl_ranks import BEGIN, ranks_end, variables

import facula

pytestmark = [needs_mpi, pytest.mark.skipif(facula.cuda.is_available(), reason="each rank would need a GPU of its own")]


# ---- mistakes that are planted: the stand-in finds them

PLANTED = """
import ctypes as c
facula.zeros(1, device="cuda")
with open("/proc/self/maps") as maps:
    nccl = c.CDLL(next(line.split()[-1] for line in maps if "facula_emulated_cuda" in line))
class Id(c.Structure):
    _fields_ = [("text", c.c_char * 128)]
class Config(c.Structure):
    _fields_ = [("size", c.c_size_t), ("magic", c.c_uint), ("version", c.c_uint), ("blocking", c.c_int)]
P, N = c.c_void_p, c.c_size_t
SUCCESS, INTERNAL, ARGUMENT, USAGE, PROGRESS, FLOAT, SUM = 0, 3, 4, 5, 7, 7, 0
dist.init_process_group("gloo")
ids = [None, None]
mine = Id()
assert nccl.ncclGetUniqueId(c.byref(mine)) == SUCCESS
dist.all_gather_object(ids, bytes(mine))
comm, config = P(), Config(24, 0xcafebeef, 21400, 0)
first = Id.from_buffer_copy(ids[0])
made = nccl.ncclCommInitRankConfig(c.byref(comm), 2, first, RANK, c.byref(config))
assert made == PROGRESS
def state():
    found = c.c_int()
    assert nccl.ncclCommGetAsyncError(comm, c.byref(found)) == SUCCESS
    return found.value
def settle(until=lambda s: s != PROGRESS, seconds=20):
    end = time.monotonic() + seconds
    while not until(state()) and time.monotonic() < end:
        time.sleep(0.001)
    return state()
stream = cuda.Stream()
s = P(stream.cuda_stream)
x = facula.full((8,), 1.0 + RANK, device="cuda")
cuda.synchronize()
def reduce(n=8, type=FLOAT, address=None, stream=s):
    a = x.data_ptr() if address is None else address
    return nccl.ncclAllReduce(P(a), P(a), N(n), type, SUM, comm, stream)
def send(n=8):
    return nccl.ncclSend(P(x.data_ptr()), N(n), FLOAT, 1 - RANK, comm, s)
def receive(n=8):
    y = facula.zeros(n, device="cuda")
    return nccl.ncclRecv(P(y.data_ptr()), N(n), FLOAT, 1 - RANK, comm, s)
if RANK == 0:
    assert reduce() == USAGE  # before all ranks have joined, or were seen to
assert settle() == SUCCESS
assert reduce() == PROGRESS  # connects
assert reduce() == USAGE
assert settle() == SUCCESS
stream.synchronize()
close(x, [3.0] * 8)
"""


@pytest.mark.parametrize("mistake", [
    "assert reduce(8 + RANK if RANK == 0 else 7) == SUCCESS; assert settle(lambda s: s == INTERNAL) == INTERNAL",
    "assert reduce(4, type=FLOAT if RANK else 8) == SUCCESS; assert settle(lambda s: s == INTERNAL) == INTERNAL",
    "assert send() == receive() == SUCCESS; assert settle(lambda s: s == INTERNAL) == INTERNAL",
    "assert (receive(3) if RANK else send(4)) == SUCCESS; assert RANK == 0 or settle(lambda s: s == INTERNAL) == INTERNAL",
    "assert reduce(address=np.zeros(8).ctypes.data) == ARGUMENT",
    "assert reduce(n=1 << 40) == ARGUMENT",
    "assert reduce(type=77) == ARGUMENT",
    "assert reduce(address=x.data_ptr() + 2, n=2) == ARGUMENT",
    "assert reduce(stream=P(cuda.Stream().cuda_stream)) == ARGUMENT",
    "assert nccl.ncclCommDestroy(comm) == USAGE",
    "assert nccl.ncclGroupEnd() == USAGE",
    "again = P(); assert nccl.ncclCommInitRankConfig(c.byref(again), 2, first, RANK, c.byref(config)) == 2",
    "assert nccl.ncclCommAbort(comm) == SUCCESS and nccl.ncclCommAbort(comm) == ARGUMENT and reduce() == ARGUMENT",
])  # fmt: skip
def test_planted_mistakes(mistake):
    ranks_end(PLANTED + mistake + "\ndist.barrier()\nnccl.ncclCommAbort(comm)\n")


def test_the_same_without_mistakes():
    ranks_end(PLANTED + """
assert nccl.ncclGroupStart() == SUCCESS
assert send() == receive() == SUCCESS
assert nccl.ncclGroupEnd() == SUCCESS
assert reduce() == SUCCESS
stream.synchronize()
assert state() == SUCCESS
close(x, [6.0] * 8)
assert nccl.ncclCommFinalize(comm) == SUCCESS and settle() == SUCCESS and nccl.ncclCommDestroy(comm) == SUCCESS
""")


# ---- what goes wrong


def test_a_rank_that_dies_is_named():
    ranks = Ranks(BEGIN + """
start(seconds=30)
x = facula.ones(4, device="cuda")
dist.all_reduce(x)
close(x, [SIZE] * 4)
print("ready", flush=True)
if RANK == 1:
    time.sleep(60)
print(raised(lambda: dist.all_reduce(x), "rank 1", "is gone", "all_reduce #2", "float32[4] on cuda:0"))
raised(lambda: dist.all_reduce(x), "rank 1")
""", 2, **variables())  # fmt: skip
    assert [p.stdout.readline() for p in ranks.processes] == ["ready\n"] * 2
    time.sleep(0.3)
    ranks.signal(1, signal.SIGKILL)
    (status, out, err), _ = ranks.ends(40)
    assert status == 0, err
    assert "pid" in out and "DistBackendError" in out


def test_what_the_device_waits_for_in_vain():
    """Without the comparison of calls a rank that dies leaves the others' devices waiting: their next wait throws."""
    ranks = Ranks(BEGIN + """
start(seconds=30)
x = facula.ones(4, device="cuda")
dist.all_reduce(x)
close(x, [SIZE] * 4)
print("ready", flush=True)
if RANK == 1:
    time.sleep(60)
dist.all_reduce(x)
print("queued", flush=True)
print(raised(lambda: x.cpu(), "rank 1", "is gone"))
raised(lambda: dist.all_reduce(x), "rank 1")
""", 2, **variables(FACULA_DIST_CHECK="0"))  # fmt: skip
    assert ranks.processes[1].stdout.readline() == "ready\n"
    assert [ranks.processes[0].stdout.readline() for _ in range(2)] == ["ready\n", "queued\n"]
    time.sleep(0.3)
    ranks.signal(1, signal.SIGKILL)
    (status, out, err), _ = ranks.ends(40)
    assert status == 0, err
    assert "DistBackendError" in out


def test_deadlines():
    ranks_end("""
start(seconds=2)
x = facula.ones(4, device="cuda")
dist.all_reduce(x)
close(x, [2] * 4)
if RANK == 0:
    work = dist.all_reduce(x, async_op=True)  # is queued, as nothing is compared
    raised(lambda: work.wait(timedelta(seconds=0.2)), "is not done after 0.2 s")
    work.wait()  # the stream's wait
    raised(lambda: x.cpu(), "all_reduce #2", "gave up after 2 s", "float32[4] on cuda:0", "missing  rank 1")
    assert work.is_completed() and not work.is_success() and "gave up" in str(work.exception())
    raised(lambda: work.wait(), "gave up")
    raised(lambda: dist.all_reduce(x), "cannot be used any more", "gave up")
    y = facula.ones(3, device="cuda") + 1  # the device goes on
    close(y, [2, 2, 2])
    sign("told")
else:
    await_signs("told", 0)
""", FACULA_DIST_CHECK="0")


def test_ranks_that_call_different_things():
    ranks_end("""
start()
x = facula.ones(4 + RANK, device="cuda")
text = raised(lambda: dist.all_reduce(x), "do not agree", "float32[4] on cuda:0", "float32[5]")
raised(lambda: dist.broadcast(x, 0) if RANK else dist.all_reduce(x), "do not agree")
raised(lambda: dist.all_reduce(facula.ones(2, device="cuda" if RANK else "cpu")), "do not agree", "float32[2] on cuda:0")
x = facula.ones(3, device="cuda")
dist.all_reduce(x)
close(x, [2, 2, 2])
""")


def test_what_cannot_be():
    code = """
import facula, facula.distributed as dist
from facula.cuda import nccl
assert not dist.is_nccl_available() and not nccl.is_available()
for call in (nccl.version, lambda: dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)):
    try:
        call()
    except RuntimeError as error:
        assert "FACULA_CUDA_DISABLE" in str(error), error
    else:
        raise AssertionError
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
assert dist.get_backend() == "gloo"
x = facula.ones(2, device="cuda")
dist.all_reduce(x)
assert x.tolist() == [1, 1]
"""
    run = subprocess.run([sys.executable, "-c", code], env=environment(FACULA_CUDA_DISABLE="nccl"), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
