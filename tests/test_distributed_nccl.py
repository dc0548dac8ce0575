"""CUDA tensors of several processes: by NCCL, whose stand-in on the emulated device connects processes and checks what it is asked,
and by way of the host. No machine with several GPUs has run this."""

import subprocess
import sys

import pytest
from cuda_environment import environment
from distributed_ranks import free_port, needs_mpi
from nccl_ranks import ranks_end

import facula

pytestmark = [needs_mpi, pytest.mark.skipif(facula.cuda.is_available(), reason="each rank would need a GPU of its own")]


COLLECTIVES = """
start()
assert dist.get_backend() == "nccl" and dist.is_nccl_available() and dist.is_backend_available("nccl")
d = facula.device("cuda")
def part(rank, n=5, dtype=facula.float32):
    return (facula.arange(n) + 10 * rank).to(dtype).to(d)
def parts(n=5):
    return [np.arange(n) + 10.0 * r for r in range(SIZE)]
everything = np.stack(parts())

x = part(RANK)
assert dist.all_reduce(x) is None
close(x, everything.sum(0))
for op, expected in [(dist.ReduceOp.MAX, everything.max(0)), (dist.ReduceOp.MIN, everything.min(0)),
                     (dist.ReduceOp.PRODUCT, everything.prod(0)), (dist.ReduceOp.AVG, everything.mean(0)),
                     (dist._make_nccl_premul_sum(0.5), everything.sum(0) / 2)]:
    x = part(RANK)
    dist.all_reduce(x, op)
    close(x, expected, op)
x = part(RANK, 6).reshape(2, 3).t()  # elements not in order
dist.all_reduce(x)
close(x, np.stack(parts(6)).sum(0).reshape(2, 3).T)
x = part(RANK)[::2]
dist.broadcast(x, SIZE - 1)
close(x, parts()[-1][::2])
x = part(RANK)
dist.reduce(x, 1)
close(x, everything.sum(0) if RANK == 1 else parts()[RANK])
x = part(RANK)
dist.reduce(x, 0, dist._make_nccl_premul_sum(2.0))
close(x, 2 * everything.sum(0) if RANK == 0 else parts()[RANK])

out = [facula.zeros(5, device=d) for _ in range(SIZE)]
dist.all_gather(out, part(RANK))
close(facula.stack(out), everything)
whole = facula.zeros(5 * SIZE, device=d)
dist.all_gather_into_tensor(whole, part(RANK))
close(whole, everything.ravel())
out = [facula.zeros(5, device=d) for _ in range(SIZE)] if RANK == 1 else None
dist.gather(part(RANK), out, 1)
if RANK == 1:
    close(facula.stack(out), everything)
x = facula.zeros(5, device=d)
dist.scatter(x, [part(r) for r in range(SIZE)] if RANK == 0 else None, 0)
close(x, parts()[RANK])
x = facula.zeros(3, device=d)
dist.reduce_scatter_tensor(x, part(RANK, 3 * SIZE))
close(x, np.stack(parts(3 * SIZE)).sum(0)[3 * RANK : 3 * RANK + 3])
x = facula.zeros(3, device=d)
dist.reduce_scatter(x, [part(RANK, 3) * (r + 1) for r in range(SIZE)], dist.ReduceOp.AVG)
close(x, np.stack(parts(3)).mean(0) * (RANK + 1))
x = facula.zeros(2 * SIZE, device=d)
dist.all_to_all_single(x, part(RANK, 2 * SIZE))
close(x, np.concatenate([p[2 * RANK : 2 * RANK + 2] for p in parts(2 * SIZE)]))
counts = [r + RANK for r in range(SIZE)]  # also none
out = [facula.zeros(r + RANK, device=d) for r in range(SIZE)]
dist.all_to_all(out, [facula.full((n,), float(RANK), device=d) for n in counts])
for r in range(SIZE):
    close(out[r], np.full(r + RANK, float(r)))
dist.barrier()
x = facula.zeros(0, device=d)
dist.all_reduce(x)

# messages: both directions at once, without a group
right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
for n in (3, 4):
    got = facula.zeros(n, device=d)
    works = [dist.isend(part(RANK, n), right), dist.irecv(got, left)]
    [w.wait() for w in works]
    close(got, parts(n)[left])
got = facula.zeros(5, device=d)
works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, left), dist.P2POp(dist.isend, part(RANK), right)])
[w.wait() for w in works]
close(got, parts()[left])
if RANK == 0:
    dist.send(part(0), 1)
elif RANK == 1:
    assert dist.recv(got, 0) == 0
    close(got, parts()[0])
raised(lambda: dist.recv(got), "must be named")

# objects, and tensors of the CPU, go by way of the host
x = facula.ones(2)
dist.all_reduce(x)
close(x, [SIZE, SIZE])
objects = [None] * SIZE
dist.all_gather_object(objects, {"rank": RANK})
assert objects == [{"rank": r} for r in range(SIZE)]
x = part(RANK)
work = dist.all_reduce(x, async_op=True)
assert work.wait() and work.get_future().wait()[0] is x
close(x, everything.sum(0))
cuda.synchronize()
assert work.is_completed() and work.is_success() and work.exception() is None
dist.destroy_process_group()
asked = {line.split()[0] for line in requests()}
assert {"ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv"} <= asked, asked
"""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_collectives(size):
    code = COLLECTIVES
    if size == 1:
        begin, end = code.index("x = part(RANK)\ndist.reduce(x, 1)"), code.index("# objects")
        code = code[:begin] + code[end:code.index("asked =")]
    ranks_end(code, size)


@pytest.mark.parametrize("mode", [{"FACULA_EMULATED_MODE": "lazy"}, {"FACULA_EMULATED_JITTER": "300", "FACULA_CUDA_POISON": "1"}],
                         ids=["lazy", "late"])  # fmt: skip
def test_waits_are_not_missing(mode):
    """Work of the device runs late: what is read before it shows."""
    ranks_end("""
start()
d = facula.device("cuda")
for i in range(5):
    x = facula.full((1000,), 1.0 + RANK, device=d)
    y = (x * 2).t() if i % 2 else x[::3] * 2
    work = dist.all_reduce(y, async_op=True)
    del x
    z = facula.full((1000,), 7.0, device=d)  # may take memory that was given back
    work.wait()
    close(y + 1, np.full(y.shape, 7.0))
    close(z, np.full(1000, 7.0))
side = cuda.Stream()
with cuda.stream(side):
    x = facula.full((300,), 1.0 + RANK, device=d) * 3
    dist.all_reduce(x)
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0].div_(2))
    x = future.wait() + 1
    close(x, np.full(300, 10.0))
dist.destroy_process_group()
""", **mode)  # fmt: skip


def test_dtypes():
    ranks_end("""
start("cpu:gloo,cuda:nccl")
d = facula.device("cuda")
for dtype in (facula.int8, facula.uint8, facula.int32, facula.int64, facula.float16, facula.bfloat16, facula.float32, facula.float64):
    x = (facula.arange(4) + RANK).to(dtype).to(d)
    dist.all_reduce(x)
    assert x.dtype == dtype
    close(x, 2 * np.arange(4) + 1, dtype)
    x = (2 * facula.arange(4) + 2 * RANK).to(dtype).to(d)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    close(x, 2 * np.arange(4) + 1, dtype)
    if dtype.is_floating_point:
        x = facula.ones(3, dtype=dtype, device=d)
        dist.all_reduce(x, dist._make_nccl_premul_sum(0.25))
        close(x, [0.5] * 3, dtype)
x = facula.tensor([1 + 1j, 2.0]).to(d)
dist.all_reduce(x, dist.ReduceOp.AVG)
assert x.cpu().tolist() == [1 + 1j, 2]
for op, expected in [(dist.ReduceOp.SUM, [True, True, False]), (dist.ReduceOp.PRODUCT, [True, False, False]),
                     (dist.ReduceOp.BAND, [True, False, False]), (dist.ReduceOp.BOR, [True, True, False])]:
    x = facula.tensor([True, RANK == 0, False]).to(d)
    dist.all_reduce(x, op)
    assert x.cpu().tolist() == expected, (op, x)
for dtype in (facula.int16, facula.bool, facula.complex128, facula.uint16):
    out = [facula.zeros(2, dtype=dtype, device=d) for _ in range(SIZE)]
    dist.all_gather(out, facula.tensor([RANK, 1]).to(dtype).to(d))
    assert [t.cpu().tolist() for t in out] == [facula.tensor([r, 1]).to(dtype).tolist() for r in range(SIZE)]
x = facula.ones(2, dtype=facula.int16, device=d)
raised(lambda: dist.all_reduce(x), "NCCL has no SUM", "int16", "gloo")
x = facula.ones(2, dtype=facula.int32, device=d)
raised(lambda: dist.all_reduce(x, dist.ReduceOp.BXOR), "NCCL has no BXOR")
dist.all_reduce(x)
close(x, [2, 2])
""")


@pytest.mark.parametrize("eager", ["0", "1"])
def test_groups(eager):
    """With a device named, communicators of groups are split off; else they are made when first used."""
    ranks_end("""
eager = os.environ["EAGER"] == "1"
start(device_id=facula.device("cuda:0") if eager else None)
d = facula.device("cuda")
pairs = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
local = dist.new_group([0, 1], use_local_synchronization=True) if RANK < 2 else None
for _ in range(3):
    for ranks, group in zip([(0, 1), (1, 2), (0, 2)], pairs):
        if RANK in ranks:
            x = facula.full((4,), 1.0 + RANK, device=d)
            dist.all_reduce(x, group=group)
            close(x, np.full(4, 2.0 + sum(ranks)), ranks)
    if local:
        x = facula.ones(2, device=d)
        dist.all_reduce(x, group=local)
        close(x, [2, 2])
    x = facula.ones(2, device=d)
    dist.all_reduce(x)
    close(x, [3, 3])
host = dist.new_group(backend="gloo")
x = facula.full((3, 2), 1.0 + RANK, device=d).t()
dist.all_reduce(x, group=host)
close(x, np.full((2, 3), 6.0))
if RANK in (0, 1):
    dist.destroy_process_group(pairs[0])
dist.destroy_process_group()
dist.init_process_group("nccl", store=None, init_method=f"tcp://127.0.0.1:{int(os.environ['PORT2'])}", rank=RANK, world_size=SIZE)
x = facula.ones(2, device=d)
dist.all_reduce(x)
close(x, [3, 3])
""", 3, EAGER=eager, PORT2=str(free_port()))


def test_by_way_of_the_host():
    """backend='gloo' takes CUDA tensors, as PyTorch's."""
    ranks_end("""
start("gloo")
d = facula.device("cuda")
x = facula.full((3, 2), 1.0 + RANK, device=d)
dist.all_reduce(x, dist.ReduceOp.AVG)
close(x, np.full((3, 2), 1.5))
y = facula.arange(4, device=d).to(facula.int16)[::2] + RANK
dist.broadcast(y, 1)
close(y, [1, 3])
out = [facula.zeros(2, device=d) for _ in range(2)]
work = dist.all_gather(out, x[0] + RANK, async_op=True)
work.wait()
close(facula.stack(out), [[1.5, 1.5], [2.5, 2.5]])
got = facula.zeros(2, device=d)
works = [dist.isend(x[0] * RANK, 1 - RANK), dist.irecv(got, 1 - RANK)]
[w.wait() for w in works]
close(got, [1.5 * (1 - RANK)] * 2)
assert not [r for r in requests() if "nccl" in r]
raised(lambda: dist.all_gather([facula.zeros(2), facula.zeros(2)], x[0]), "one device", "cpu")
""")


TRAINING = """
d = facula.device("cuda")
def net():
    facula.manual_seed(3)
    return facula.nn.Sequential(facula.nn.Linear(6, 8), facula.nn.ReLU(), facula.nn.Linear(8, 3)).to(d)
rng = np.random.default_rng(0)
inputs = facula.tensor(rng.standard_normal((4, 8, 6)).astype("float32"))
def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x.to(d)).square().mean().backward()
    optimizer.step()
alone = net()
optimizer = facula.optim.SGD(alone.parameters(), 0.1, momentum=0.9)
for x in inputs:
    step(alone, optimizer, x)
mine = slice(4 * RANK, 4 * RANK + 4)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_data_parallel_as_one_process(mode):
    ranks_end("""
start(device_id=facula.device("cuda:0"))
""" + TRAINING + """
from facula.nn.parallel import DistributedDataParallel as DDP
from facula.distributed.algorithms.ddp_comm_hooks import default_hooks
for hook in (None, default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
    model = DDP(net(), device_ids=[0], bucket_cap_mb=0.0002)
    if hook:
        model.register_comm_hook(None, hook)
    optimizer = facula.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for x in inputs:
        step(model, optimizer, x[mine])
    for p, q in zip(model.parameters(), alone.parameters()):
        assert facula.allclose(p, q, atol=2e-3 if hook is default_hooks.fp16_compress_hook else 1e-6), hook
dist.destroy_process_group()
""", FACULA_EMULATED_MODE=mode)  # fmt: skip


def test_fully_shard_as_one_process():
    ranks_end("""
start()
""" + TRAINING + """
from facula.distributed.fsdp import fully_shard
model = net()
fully_shard(model[0]), fully_shard(model[2]), fully_shard(model)
optimizer = facula.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for x in inputs:
    step(model, optimizer, x[mine])
for p, q in zip(model.parameters(), alone.parameters()):
    assert facula.allclose(p.full_tensor(), q, atol=1e-6)
dist.destroy_process_group()
""")  # fmt: skip


def test_version():
    code = """
import facula, facula.distributed as dist
major, minor, patch = facula.cuda.nccl.version()
assert (major, minor) >= (2, 18) and dist.is_nccl_available() and facula.cuda.libraries()["nccl"]
x = facula.ones(2, device="cuda")
assert facula.cuda.nccl.is_available([x]) and not facula.cuda.nccl.is_available([x, x])
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
assert dist.get_backend() == "cpu:gloo,cuda:nccl" and dist.get_default_backend_for_device("cuda") == "nccl"
"""
    run = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


GRAPHS = """
start()
d = facula.device("cuda")
others = list(range(SIZE))
x, weights = facula.zeros(4, device=d), facula.ones(4, device=d)
for _ in range(2):  # connects, and fills caches
    dist.all_reduce(facula.ones(4, device=d))
    dist.all_gather_into_tensor(facula.empty(SIZE * 4, device=d), x)
    dist.broadcast(facula.ones(4, device=d), 0)
    dist.reduce_scatter_tensor(facula.empty(2, device=d), facula.ones(2 * SIZE, device=d))
    if RANK == 0:
        dist.send(facula.ones(3, device=d), 1)
    elif RANK == 1:
        dist.recv(facula.empty(3, device=d), 0)
strided = facula.zeros(4, 2, device=d)
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    y = x * 2
    dist.all_reduce(y)
    work = dist.all_gather_into_tensor(whole := facula.empty(SIZE * 4, device=d), y + RANK, async_op=True)
    beside = (y + 1).exp().log()
    work.wait()
    z = whole.sum() + beside.sum()
    dist.broadcast(strided[:, 1], 0)
    dist.all_reduce(kept := strided * 2)
    dist.reduce_scatter_tensor(part := facula.empty(2, device=d), facula.arange(2 * SIZE, device=d) * weights[0])
    note = y[:3] + 0
    if RANK == 0:
        dist.send(note, 1)
    elif RANK == 1:
        dist.recv(note, 0)
assert y.shape == (4,)
counted = len(requests())
for step in range(4):
    x.fill_(RANK + step)
    weights.fill_(step + 1)
    strided.fill_(RANK + 10 * step)
    graph.replay()
    cuda.synchronize()
    total = 2.0 * sum(r + step for r in others)
    close(y, [total] * 4, step)
    close(whole, [total + r for r in others for _ in range(4)], step)
    close(z, sum(4 * (total + r) for r in others) + 4 * (total + 1), step)
    close(strided, [[RANK + 10 * step, 10 * step]] * 4)
    close(kept, [[2.0 * sum(r + 10 * step for r in others), 2.0 * SIZE * 10 * step]] * 4)
    close(part, [SIZE * (step + 1) * (2 * RANK + i) for i in range(2)])
    if RANK < 2:
        close(note, [total] * 3)
    dist.all_reduce(between := facula.ones(2, device=d))  # others than those of the graph, between replays
    close(between, [SIZE] * 2)
# a group whose devices have not met cannot be captured, and stays usable; groups without NCCL never can
group, host = dist.new_group(others), dist.new_group(others, backend="gloo")
for refused, word in ((group, "run it once before a graph is captured"), (host, "without NCCL")):
    broken = cuda.CUDAGraph()
    t = facula.ones(2, device=d)
    with cuda.graph(broken):
        t + 1
        raised(lambda: dist.all_reduce(t, group=refused), word)
    dist.all_reduce(t, group=refused)
    close(t, [SIZE] * 2)
del graph
dist.barrier()
dist.destroy_process_group()
print("ok")
"""


@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_graphs(mode):
    assert ranks_end(GRAPHS, 2, FACULA_EMULATED_MODE=mode) == ["ok\n"] * 2


BATCHES = """
start()
d = facula.device("cuda")
left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
def exchange(rounds, n=5):
    sent = [facula.full((n + i,), RANK * 100.0 + i, device=d) for i in range(rounds)]
    gotten = [facula.zeros(n + i, device=d) for i in range(rounds)]
    ops = []
    for a, b in zip(sent, gotten):
        ops += [dist.P2POp(dist.isend, a, right), dist.P2POp(dist.irecv, b, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for i, t in enumerate(gotten):
        close(t, [left * 100.0 + i] * (n + i))
def messages():
    return [line.rpartition("group=")[2] for line in requests() if line.startswith(("ncclSend", "ncclRecv"))]
exchange(1)  # connects: each message by itself
assert messages() == ["0", "0"], messages()
for rounds in (1, 3, 20):
    before = len(messages())
    exchange(rounds)
    assert messages()[before:] == ["1"] * (2 * rounds), messages()
# one with messages by themselves before and behind it
x, y = facula.full((3,), float(RANK), device=d), facula.zeros(3, device=d)
works = [dist.isend(x, right)]
works += dist.batch_isend_irecv([dist.P2POp(dist.irecv, y, left), dist.P2POp(dist.isend, x + 1, right)])
z = facula.zeros(3, device=d)
works.append(dist.irecv(z, left))
for w in works:
    w.wait()
close(y, [float(left)] * 3)
close(z, [left + 1.0] * 3)
exchange(2)
dist.barrier()
dist.destroy_process_group()
print("ok")
"""


@pytest.mark.parametrize("jitter", ["0", "2000"])
def test_batches_of_messages(jitter):  # streams that run one after another cannot exchange anything
    assert ranks_end(BATCHES, 3, FACULA_EMULATED_JITTER=jitter) == ["ok\n"] * 3
