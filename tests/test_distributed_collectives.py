"""Collectives and messages between processes, by MPI: every one against what NumPy or a formula says."""

import pytest
from distributed_ranks import HEAD, needs_mpi, run_ranks

pytestmark = needs_mpi

INIT = """
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
assert (dist.get_rank(), dist.get_world_size()) == (RANK, SIZE)
"""

COLLECTIVES = INIT + """
import numpy as np
REAL = [facula.float32, facula.float64, facula.float16, facula.bfloat16]
INTEGER = [facula.uint8, facula.int8, facula.int16, facula.int32, facula.int64]
ALL = [*REAL, *INTEGER, facula.bool, facula.complex64, facula.complex128]

def values(rank, n, dtype):
    x = np.arange(n) % 3 + rank
    return facula.tensor(x % 2 == 0) if dtype == facula.bool else facula.tensor(x).to(dtype)

def layouts(t):
    # the same values: contiguous, with steps, transposed
    yield t.clone()
    yield facula.stack([t, t], -1)[..., 0]
    if t.numel() % 2 == 0 and t.numel():
        yield t.reshape(2, -1).t().contiguous().t()

def same(t, expected):
    assert facula.equal(t.cpu().reshape(-1), expected.reshape(-1).to(t.dtype)), (t, expected)

everyone = range(SIZE)
for dtype in ALL:
    for n in (0, 1, 7, 600):
        mine = values(RANK, n, dtype)
        parts = [values(r, n, dtype) for r in everyone]
        for x in layouts(mine):
            dist.broadcast(x, SIZE - 1)
            same(x, parts[-1])
        for x in layouts(mine):
            out = [facula.zeros_like(x) for _ in everyone]
            dist.all_gather(out, x)
            for o, p in zip(out, parts):
                same(o, p)
            flat = facula.zeros(SIZE * n, dtype=dtype)
            dist.all_gather_into_tensor(flat, x)
            same(flat, facula.cat(parts))
            out = [facula.zeros_like(x) for _ in everyone] if RANK == 0 else None
            dist.gather(x, out)
            for o, p in zip(out or (), parts):
                same(o, p)
        for x in layouts(facula.zeros(n, dtype=dtype)):
            dist.scatter(x, [values(r + 1, n, dtype) for r in everyone] if RANK == 1 else None, src=1)
            same(x, values(RANK + 1, n, dtype))
        out = [facula.zeros(n, dtype=dtype) for _ in everyone]
        dist.all_to_all(out, [values(RANK + r, n, dtype) for r in everyone])
        for r, o in enumerate(out):
            same(o, values(RANK + r, n, dtype))

def expected(op, n, dtype):
    stack = np.stack([(np.arange(n) % 3 + r).astype(np.int64) for r in everyone])
    return {"SUM": stack.sum(0), "PRODUCT": stack.prod(0), "MIN": stack.min(0), "MAX": stack.max(0), "AVG": stack.sum(0) / SIZE,
            "BAND": np.bitwise_and.reduce(stack), "BOR": np.bitwise_or.reduce(stack), "BXOR": np.bitwise_xor.reduce(stack)}[op]

def operations(dtype):
    if dtype in INTEGER:
        return ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    return ("SUM", "PRODUCT", "MIN", "MAX", "AVG") if dtype in REAL else ("SUM", "AVG")

for dtype in [*REAL, *INTEGER, facula.complex64, facula.complex128]:
    for name in operations(dtype):
        op = getattr(dist.ReduceOp, name)
        for n in (0, 1, 7, 600):
            want = facula.tensor(expected(name, n, dtype)).to(dtype)
            for x in layouts(values(RANK, n, dtype)):
                dist.all_reduce(x, op)
                if name == "AVG":
                    assert facula.allclose(x.reshape(-1), want, rtol=1e-2 if dtype in (facula.float16, facula.bfloat16) else 1e-6)
                else:
                    same(x, want)
            x = values(RANK, n, dtype)
            dist.reduce(x, SIZE - 1, op)
            if name != "AVG":
                same(x, want if RANK == SIZE - 1 else values(RANK, n, dtype))
                full = facula.cat([values(RANK, n, dtype) for _ in everyone])
                out = facula.zeros(n, dtype=dtype)
                dist.reduce_scatter_tensor(out, full, op)
                same(out, want)
                out = facula.zeros(n, dtype=dtype)
                dist.reduce_scatter(out, [values(RANK, n, dtype) for _ in everyone], op)
                same(out, want)

# bool: sums are any, products all
x = facula.tensor([RANK == 0, True, False, RANK > 0])
dist.all_reduce(x)
assert x.tolist() == [True, True, False, True]
x = facula.tensor([RANK == 0, True, False, RANK > 0])
dist.all_reduce(x, dist.ReduceOp.PRODUCT)
assert x.tolist() == [False, True, False, False]
# narrow numbers are added in float32, and rounded for each addition
x = facula.full((3,), 1.0 if RANK else 256.0, dtype=facula.bfloat16)
dist.all_reduce(x)
assert x[0].item() in (256.0, 256.0 + (SIZE - 1) // 2 * 2, 256.0 + SIZE - 1, 260.0), x
x = facula.full((5,), RANK + 1.0)
dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
assert x.tolist() == [SIZE * (SIZE + 1) / 4] * 5
out = facula.zeros(2)
given = facula.ones(2 * SIZE)
dist.reduce_scatter_tensor(out, given, dist._make_nccl_premul_sum(3))
assert out.tolist() == [3 * SIZE] * 2 and given.sum() == 2 * SIZE

# many pieces; several tensors; the write is counted
x = facula.arange(700_001, dtype=facula.float32) % 97 + RANK
version = x._version
dist.all_reduce(x)
assert x._version > version
same(x, (facula.arange(700_001) % 97) * SIZE + SIZE * (SIZE - 1) // 2)
several = [facula.full((3,), float(RANK)), facula.full((2, 2), 2.0)]
dist.all_reduce_coalesced(several)
assert several[0][0] == sum(everyone) and several[1][0, 0] == 2 * SIZE

# uneven parts
sends = [facula.full((RANK + r, 2), float(10 * RANK + r)) for r in everyone]
out = facula.zeros(sum(r + RANK for r in everyone), 2)
dist.all_to_all_single(out, facula.cat(sends), [r + RANK for r in everyone], [RANK + r for r in everyone])
same(out, facula.cat([facula.full((r + RANK, 2), float(10 * r + RANK)) for r in everyone]))
dist.barrier()
dist.monitored_barrier()
print("ok")
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_collectives(size):
    assert run_ranks(COLLECTIVES, size) == ["ok\n"] * size


@pytest.mark.slow
def test_collectives_over_the_network():
    """Ranks that are told that they share no machine."""
    code = "os.environ['FACULA_DIST_MACHINE'] = f'machine{RANK}'\n" + COLLECTIVES.replace("(0, 1, 7, 600)", "(1, 600)")
    assert run_ranks(code, 2) == ["ok\n"] * 2


EARLY = INIT + """
# messages that come long before anybody waits for them, and are waited for in the other order
for count, n in ((3, 10), (300, 10), (100, 20_000), (70, 100_000)):
    dist.barrier()
    if RANK == 0:
        works = [dist.isend(facula.full((n,), float(i)), 1, tag=i) for i in range(count)]
        [w.wait() for w in works]
    else:
        time.sleep(0.1)
        for i in reversed(range(count)):
            got = facula.empty(n)
            dist.recv(got, 0, tag=i)
            assert (got == i).all()
# two groups, in another order on each rank
pair = dist.new_group([0, 1])
x, y = facula.ones(500_000), facula.ones(500_000)
works = []
for group, tensor in ((pair, x), (None, y))[:: 1 if RANK else -1]:
    works.append(dist.all_reduce(tensor, group=group, async_op=True))
    time.sleep(0.05)
[w.wait() for w in works]
assert (x == 2).all() and (y == 2).all()
print("ok")
"""


@pytest.mark.parametrize("machines", ["", "os.environ['FACULA_DIST_MACHINE'] = f'machine{RANK}'\n"])
def test_messages_that_come_early(machines):
    assert run_ranks(machines + EARLY, 2) == ["ok\n"] * 2


ASYNC = INIT + """
everyone = range(SIZE)
tensors = [facula.full((1000 * (i + 1),), float(RANK + i)) for i in range(20)]
works = [dist.all_reduce(t, async_op=True) for t in tensors]
for i, (t, w) in reversed(list(enumerate(zip(tensors, works)))):
    assert w.wait() is True and w.is_completed() and w.is_success() and w.exception() is None and w.result()[0] is t
    assert t[-1] == sum(r + i for r in everyone)
future = dist.all_reduce(facula.ones(4), async_op=True).get_future()
assert future.wait()[0].tolist() == [SIZE] * 4
chained = dist.broadcast(facula.full((2,), float(RANK)), 1, async_op=True).get_future().then(lambda f: f.value()[0] + 1)
assert chained.wait().tolist() == [2, 2]
work = dist.barrier(async_op=True)
work.wait(timedelta(seconds=30))
x = facula.stack([facula.full((3,), float(RANK))] * 2, -1)[..., 0]  # copied back without a wait
w = dist.all_reduce(x, async_op=True)
while not w.is_completed():
    time.sleep(0.001)
assert x.tolist() == [sum(everyone)] * 3

# messages
x = facula.full((5,), float(RANK))
got = facula.zeros(5)
right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, got, left)])
[w.wait() for w in works]
assert got[0] == left
if RANK == 0:
    for tag in (2, 1):
        dist.send(facula.full((2,), float(tag)), 1, tag=tag)
elif RANK == 1:
    for tag in (1, 2):  # by tag, not by order
        got = facula.zeros(2)
        assert dist.recv(got, 0, tag=tag) == 0 and got[0] == tag
if RANK == 0:
    got = facula.zeros(3)
    sources = {dist.recv(got) for _ in range(SIZE - 1)}
    assert sources == set(range(1, SIZE))
else:
    dist.send(facula.ones(3), 0)
large = facula.arange(300_000.0)
if RANK == 0:
    w = dist.isend(large[::2], 1)
    assert w.wait()
elif RANK == 1:
    got = facula.zeros(150_000)
    dist.recv(got, 0)
    assert facula.equal(got, large[::2])
dist.barrier()
if RANK == 0:
    dist.send(facula.ones(4), 1)
    dist.send(facula.ones(2), 1)
elif RANK == 1:
    raised(lambda: dist.recv(facula.zeros(3), 0), "DistBackendError", "recv", "more was sent")
    raised(lambda: dist.recv(facula.zeros(3), 0), "DistBackendError", "the tensor holds 12 bytes, rank 0 sent 8")
dist.barrier()

with dist._coalescing_manager():
    tensors = [facula.full((10,), float(i)) for i in range(5)]
    for t in tensors:
        dist.all_reduce(t)
assert [t[0].item() for t in tensors] == [i * SIZE for i in range(5)]
with dist._coalescing_manager(async_ops=True) as together:
    dist.all_reduce(tensors[1])
together.wait()
assert tensors[1][0] == SIZE * SIZE

# objects
value = {"rank": RANK, "list": list(range(RANK * 100))}
found = [None] * SIZE
dist.all_gather_object(found, value)
assert found == [{"rank": r, "list": list(range(r * 100))} for r in everyone]
found = [None] * SIZE if RANK == 1 else None
dist.gather_object(value, found, dst=1)
assert found is None or [f["rank"] for f in found] == list(everyone)
objects = ["a", {"b": 2}, None] if RANK == 1 else [None] * 3
dist.broadcast_object_list(objects, src=1)
assert objects == ["a", {"b": 2}, None]
out = [None]
dist.scatter_object_list(out, [f"for {r}" * (r + 1) for r in everyone] if RANK == 0 else None, src=0)
assert out == [f"for {RANK}" * (RANK + 1)]
if RANK == 0:
    dist.send_object_list(["x", [1, 2]], 1)
elif RANK == 1:
    got = [None, None]
    assert dist.recv_object_list(got, 0) == 0 and got == ["x", [1, 2]]
print("ok")
"""


def test_handles_messages_and_objects():
    assert run_ranks(ASYNC, 2) == ["ok\n"] * 2


GROUPS = INIT + """
everyone = list(range(SIZE))
even = dist.new_group(everyone[::2])
odd = dist.new_group([2, 1], sort_ranks=False)
x = facula.full((4,), float(RANK))
if RANK % 2 == 0:
    dist.all_reduce(x, group=even)
    assert x[0] == sum(everyone[::2]) and dist.get_world_size(even) == 2
    assert dist.get_process_group_ranks(even) == [0, 2] and dist.get_global_rank(even, 1) == 2 and dist.get_group_rank(even, 2) == 1
else:
    assert even is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(even) == -1 and dist.all_reduce(x, group=even) is None
    assert dist._rank_not_in_group(even) and not dist._rank_not_in_group(None)
if RANK in (1, 2):
    assert dist.get_rank(odd) == [2, 1].index(RANK)
    out = [facula.zeros(1) for _ in range(2)]
    dist.all_gather(out, facula.full((1,), float(RANK)), group=odd)
    assert [o.item() for o in out] == [2, 1]
    x = facula.full((1,), float(RANK))
    dist.broadcast(x, 1, group=odd)
    assert x == 1
    dist.broadcast(x.fill_(RANK), group=odd, group_src=0)
    assert x == 2
    raised(lambda: dist.broadcast(x, 0, group=odd), "ValueError", "the group has ranks [2, 1], got 0")
    dist.reduce(x, group_dst=1, group=odd)
local = dist.new_group([0, 2], use_local_synchronization=True) if RANK != 1 else None
if local is not None:
    x = facula.ones(1)
    dist.all_reduce(x, group=local)
    assert x == 2
# groups are independent of each other: no order between them
a, b = dist.new_group(), dist.new_group()
x, y = facula.ones(3), facula.ones(3)
if RANK == 0:
    works = [dist.all_reduce(x, group=a, async_op=True), dist.all_reduce(y, group=b, async_op=True)]
else:
    works = [dist.all_reduce(y, group=b, async_op=True), dist.all_reduce(x, group=a, async_op=True)]
for w in works:
    w.wait()
assert x[0] == y[0] == SIZE
mine, groups = dist.new_subgroups(1)
assert dist.get_world_size(mine) == 1 and len(groups) == SIZE
before = dist.get_pg_count()
for _ in range(20):
    g = dist.new_group()
    dist.barrier(g)
    dist.destroy_process_group(g)
assert dist.get_pg_count() == before
raised(lambda: dist.all_reduce(x, group=g), "was destroyed")
raised(lambda: dist.new_group([0, 9]), "ValueError", "new_group")
g.get_group_store().set(f"k{RANK}", "v")
assert g.get_group_store().get("k0") == b"v"
dist.barrier()
print("ok")
"""


def test_groups():
    assert run_ranks(GROUPS, 3) == ["ok\n"] * 3


AGAIN = """
for i in range(12):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    x = facula.full((3,), float(RANK + i))
    dist.all_reduce(x)
    assert x[0] == sum(r + i for r in range(SIZE))
    dist.destroy_process_group()
    assert not dist.is_initialized()
import pathlib
for i in range(2):  # by a file
    dist.init_process_group("mpi", init_method="file://" + sys.argv[1] + str(i), rank=RANK, world_size=SIZE, timeout=timedelta(seconds=60))
    dist.barrier()
    assert dist.get_backend() == "mpi"
    dist.destroy_process_group()
url = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}?rank={RANK}&world_size={SIZE}"
dist.init_process_group("cpu:gloo,cuda:nccl", init_method=url, timeout=timedelta(seconds=60))
dist.barrier()
dist.destroy_process_group()
store = dist.FileStore(sys.argv[1] + "store", SIZE)
dist.init_process_group(store=store, rank=SIZE - 1 - RANK, world_size=SIZE, timeout=timedelta(seconds=60))  # other numbers
x = facula.full((1,), float(RANK))
dist.broadcast(x, 0)
assert x == SIZE - 1
print("ok")
"""


def test_many_times_and_by_every_way(tmp_path):
    assert run_ranks(AGAIN, 2, arguments=[str(tmp_path / "file")]) == ["ok\n"] * 2


FORK = INIT + """
from facula.utils.data import DataLoader, TensorDataset
data = TensorDataset(facula.arange(64.0))
for method in ("fork", "spawn"):
    for (batch,) in DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context=method):
        x = batch.clone()
        dist.all_reduce(x)
        assert facula.equal(x, batch * SIZE)
pid = os.fork()
if pid == 0:
    try:
        raised(lambda: dist.all_reduce(facula.ones(1)), "forked child")
        os._exit(0)
    except BaseException as error:
        print(error)
        os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
dist.barrier()
print("ok")
"""


def test_children_of_ranks(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(HEAD + "if __name__ == '__main__':\n" + "\n".join("    " + line for line in FORK.splitlines()))
    assert run_ranks("import runpy; runpy.run_path(sys.argv[1], run_name='__main__')", 2, arguments=[str(script)]) == ["ok\n"] * 2
