"""DistributedDataParallel: gradients are those of one process with the joined batch, whatever the passes look like."""

import pytest
from distributed_ranks import needs_mpi, run_ranks

pytestmark = needs_mpi

SETUP = """
import copy
from facula import nn
from facula.nn.parallel import DistributedDataParallel as DDP
import facula.nn.functional as F
dist.init_process_group("gloo", timeout=timedelta(seconds=60))

def model(seed=0):
    facula.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3))

def batch(step, rank=None, n=4):
    g = facula.Generator().manual_seed(100 + step)
    x, y = facula.randn(SIZE * n, 6, generator=g), facula.randn(SIZE * n, 3, generator=g)
    return (x, y) if rank is None else (x[rank * n : (rank + 1) * n], y[rank * n : (rank + 1) * n])

def same(a, b, tolerance=1e-6):
    for (name, p), (_, q) in zip(a.named_parameters(), b.named_parameters()):
        assert (p.grad is None) == (q.grad is None), (name, p.grad, q.grad)
        if p.grad is not None:
            assert facula.allclose(p.grad, q.grad, atol=tolerance, rtol=1e-4), (name, (p.grad - q.grad).abs().max())
        assert facula.allclose(p, q, atol=tolerance, rtol=1e-4), name
"""

PASSES = SETUP + """
# training: buckets of every size give what one process with the joined batch gives
for options in ({}, {"bucket_cap_mb": 0.001}, {"static_graph": True}, {"find_unused_parameters": True, "gradient_as_bucket_view": True}):
    one, ddp = model(), DDP(model(RANK), **options)  # rank 0's parameters hold
    optimizers = [facula.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (one, ddp)]
    for step in range(4):
        for m, o, (x, y) in ((one, optimizers[0], batch(step)), (ddp, optimizers[1], batch(step, RANK))):
            o.zero_grad()
            F.mse_loss(m(x), y).backward()
            o.step()
        same(one, ddp.module)
    assert ddp.reducer.was_rebuilt

# gradients that are kept, accumulated, and not zeroed
one, ddp = model(), DDP(model())
kept = None
for step in range(3):
    one.zero_grad(set_to_none=step != 1)
    ddp.zero_grad(set_to_none=step != 1)
    for m, (x, y) in ((one, batch(step)), (ddp, batch(step, RANK))):
        F.mse_loss(m(x), y).backward()
    same(one, ddp.module)
    if step == 0:
        kept, copied = [p.grad for p in ddp.parameters()], [p.grad.clone() for p in ddp.parameters()]
        ddp.zero_grad()
        one.zero_grad()
assert all(facula.equal(a, b) for a, b in zip(kept, copied))  # gradients that somebody keeps are left alone

# no_sync: gradients of several passes are averaged once
one, ddp = model(), DDP(model())
with ddp.no_sync():
    for step in range(2):
        F.mse_loss(ddp(batch(step, RANK)[0]), batch(step, RANK)[1]).backward()
local = [p.grad.clone() for p in ddp.parameters()]
F.mse_loss(ddp(batch(2, RANK)[0]), batch(2, RANK)[1]).backward()
for step in range(3):
    F.mse_loss(one(batch(step)[0]), batch(step)[1]).backward()
same(one, ddp.module)
out = [facula.zeros_like(local[0]) for _ in range(SIZE)]
dist.all_gather(out, local[0])
assert not facula.equal(out[0], out[1])  # they had not been averaged before

# two forwards, two backwards; and a backward twice
one, ddp = model(), DDP(model())
for m, (x, y), (u, v) in ((one, batch(0), batch(1)), (ddp, batch(0, RANK), batch(1, RANK))):
    a, b = F.mse_loss(m(x), y), F.mse_loss(m(u), v)
    a.backward(retain_graph=True)
    b.backward()
    a.backward()
same(one, ddp.module)
# inputs of its own, eval, and no grad
x = batch(0, RANK)[0].requires_grad_()
assert facula.autograd.grad(ddp(x).sum(), x)[0].shape == x.shape
ddp.eval()
with facula.no_grad():
    ddp(x)
print("ok")
"""

UNUSED = SETUP + """
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.never = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x, which):
        return self.a(x) + sum(getattr(self, name)(x) for name in which)

facula.manual_seed(1)
one = Branches()
ddp = DDP(copy.deepcopy(one))
for step, names in enumerate((["b", "c"], ["b", ""], ["", ""], ["c", "b"])):
    mine = [n for n in names[RANK % 2] if n]
    one.zero_grad()
    ddp.zero_grad()
    F.mse_loss(ddp(batch(step, RANK)[0], mine), batch(step, RANK)[1]).backward()
    losses = [F.mse_loss(one(batch(step, r)[0], [n for n in names[r % 2] if n]), batch(step, r)[1]) for r in range(SIZE)]
    (sum(losses) / SIZE).backward()
    same(one, ddp.module)  # also that what nobody used has no gradient

# a parameter that no formula gives a gradient, though the pass leads to it
class Nothing(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return None

class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.w = nn.Linear(6, 3), nn.Parameter(facula.ones(3))
    def forward(self, x):
        return self.a(x) + Nothing.apply(self.w)
ddp = DDP(Partly())
for step in range(2):
    ddp.zero_grad()
    ddp(batch(step, RANK)[0]).sum().backward()
    assert ddp.module.w.grad is None and ddp.module.a.weight.grad is not None
print("ok")
"""

CHECKPOINTS = SETUP + """
from facula.utils.checkpoint import checkpoint
class Twice(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.body, self.reentrant = nn.Linear(6, 6), nn.Linear(6, 6), reentrant
    def forward(self, x):
        x = self.first(x)
        for _ in range(2):
            x = checkpoint(self.body, x, use_reentrant=self.reentrant)
        return x[:, :3]
for reentrant in (False, True):
    facula.manual_seed(0)
    one = Twice(reentrant)
    ddp = DDP(copy.deepcopy(one), static_graph=reentrant)
    for step in range(3):
        for m, (x, y) in ((one, batch(step)), (ddp, batch(step, RANK))):
            m.zero_grad()
            F.mse_loss(m(x), y).backward()
        same(one, ddp.module)
ddp = DDP(Twice(True))
raised(lambda: ddp(batch(0, RANK)[0]).sum().backward(), "RuntimeError", "DistributedDataParallel: body", "static_graph")
print("ok")
"""

STATE = SETUP + """
# buffers of rank 0, before every forward; batch norm over all processes
class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 3), nn.BatchNorm1d(3)
        self.register_buffer("own", facula.full((2,), float(RANK)))
    def forward(self, x):
        return self.norm(self.linear(x))
ddp = DDP(Counted())
assert ddp.module.own.tolist() == [0.0, 0.0] and ddp.will_sync_module_buffers()
for step in range(2):
    ddp(batch(step, RANK)[0]).sum().backward()
ddp(batch(2, RANK)[0])
means = [facula.zeros(3) for _ in range(SIZE)]
with facula.no_grad():
    ddp._sync_buffers()
dist.all_gather(means, ddp.module.norm.running_mean)
assert all(facula.equal(m, means[0]) for m in means)

facula.manual_seed(0)
one = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one))
ddp = DDP(synced)
for step in range(3):
    sizes = [3 + r + step for r in range(SIZE)]
    g = facula.Generator().manual_seed(step)
    x = facula.randn(sum(sizes), 6, generator=g)
    part = x.split(sizes)[RANK]
    one.zero_grad()
    ddp.zero_grad()
    one(x).square().sum().backward()
    (ddp(part).square().sum() * SIZE).backward()
    same(one, synced, 1e-4)
    assert facula.allclose(one[1].running_mean, synced[1].running_mean, atol=1e-6)
    assert facula.allclose(one[1].running_var, synced[1].running_var, atol=1e-5)
synced.eval()
one.eval()
assert facula.allclose(one(x), synced(x), atol=1e-5)

# channels-last weights, half precision, frozen and shared parameters
conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)).to(memory_format=facula.channels_last)
conv[1].weight.requires_grad_(False)
ddp = DDP(conv)
ddp(facula.randn(2, 3, 8, 8)).sum().backward()
assert conv[0].weight.grad.stride() == conv[0].weight.stride() and conv[1].weight.grad is None
half = DDP(nn.Sequential(nn.Linear(4, 4).to(facula.bfloat16), nn.Linear(4, 4).to(facula.bfloat16)))
half(facula.ones(2, 4, dtype=facula.bfloat16)).sum().backward()
assert half.module[0].weight.grad.dtype == facula.bfloat16
tied = nn.Linear(6, 6)
ddp = DDP(nn.Sequential(tied, nn.ReLU(), tied))
ddp(batch(0, RANK)[0]).sum().backward()
assert len(ddp._get_ddp_logging_data()["bucket_sizes"].split(", ")) == 1

# what is refused, in every process
class Different(nn.Module):
    def __init__(self):
        super().__init__()
        self.same, self.mine = nn.Linear(2, 2), nn.Linear(2, 2 + RANK)
raised(lambda: DDP(Different()), "every process must have the same parameters", "mine.weight", "rank 1")
raised(lambda: DDP(nn.ReLU()), "must have a parameter")
raised(lambda: DDP(nn.Linear(1, 1), device_ids=[0]), "device_ids must", "[0]")
raised(lambda: DDP(nn.Linear(1, 1)).register_comm_hook(None, 3), "must be callable, got int")
print("ok")
"""

HOOKS = SETUP + """
from facula.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from facula.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks, powerSGD_hook as power, post_localSGD_hook as post
def train(hook, state=None, steps=4, bucket=0.001):
    one, ddp = model(), DDP(model(), bucket_cap_mb=bucket)
    if hook is not None:
        ddp.register_comm_hook(state, hook)
    for step in range(steps):
        for m, (x, y) in ((one, batch(step)), (ddp, batch(step, RANK))):
            m.zero_grad()
            F.mse_loss(m(x), y).backward()
    return one, ddp.module
def mine(state, bucket):
    assert bucket.is_last() == (bucket.index() == state["count"] - 1) if state["count"] else True
    state["seen"].append(bucket.index())
    assert sum(g.numel() for g in bucket.gradients()) == bucket.buffer().numel() == sum(p.numel() for p in bucket.parameters())
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda f: f.value()[0] / SIZE)
state = {"count": 0, "seen": []}
same(*train(mine, state))
assert len(state["seen"]) > 4
same(*train(hooks.allreduce_hook))
for hook in (hooks.bf16_compress_hook, hooks.fp16_compress_hook, hooks.fp16_compress_wrapper(hooks.allreduce_hook), hooks.bf16_compress_wrapper(hooks.allreduce_hook)):
    same(*train(hook), tolerance=2e-2)
# at full rank PowerSGD is exact
same(*train(power.powerSGD_hook, power.PowerSGDState(None, 40, 2, min_compression_rate=0.1), bucket=25), tolerance=1e-4)
exact = power.PowerSGDState(None, 1000, 2, min_compression_rate=0.0001)
same(*train(power.batched_powerSGD_hook, exact, bucket=25), tolerance=1e-4)
state = power.PowerSGDState(None, 1, 2)
train(power.powerSGD_hook, state, steps=6)
assert state.compression_stats()[0] > 2 and state.iter == 6
same(*train(post.post_localSGD_hook, post.PostLocalSGDState(None, None, 2)))
ddp = DDP(model())
register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, ddp)
raised(lambda: register_ddp_comm_hook(DDPCommHookType.ALLREDUCE, ddp), "registered already")
bad = DDP(model())
bad.register_comm_hook(None, lambda s, b: 3)
raised(lambda: bad(batch(0, RANK)[0]).sum().backward(), "must return a Future", "int")
print("ok")
"""

JOIN = SETUP + """
# rank r has r + 2 batches; rank 0 ends first
ddp = DDP(nn.Sequential(model(), nn.BatchNorm1d(3)))
optimizer = facula.optim.SGD(ddp.parameters(), lr=0.01)
done = 0
with ddp.join():
    for step in range(RANK + 2):
        optimizer.zero_grad()
        ddp(batch(step, RANK)[0]).square().sum().backward()
        optimizer.step()
        done += 1
assert done == RANK + 2
parts = [facula.zeros_like(ddp.module[0][0].weight) for _ in range(SIZE)]
dist.all_gather(parts, ddp.module[0][0].weight.detach())
assert all(facula.equal(p, parts[0]) for p in parts)

# gradients divided by those that have inputs
ddp = DDP(nn.Linear(1, 1, bias=False))
grads = []
with ddp.join(divide_by_initial_world_size=False):
    for step in range(RANK + 1):
        ddp.zero_grad()
        ddp(facula.full((1, 1), 3.0)).sum().backward()
        grads.append(ddp.module.weight.grad.item())
assert all(abs(g - 3.0) < 1e-5 for g in grads), grads
ddp = DDP(nn.Linear(1, 1, bias=False))
def early():
    with ddp.join(throw_on_early_termination=True):
        for step in range(RANK + 1):
            ddp(facula.ones(1, 1)).sum().backward()
raised(early, "no more inputs")
print("ok")
"""

LIFE = SETUP + """
import gc, pickle, weakref
# a pass that fails is forgotten
class Fails(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x, now):
        ctx.now = now
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        if ctx.now:
            raise ArithmeticError("this one fails")
        return grad, None
class Sometimes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
    def forward(self, x, fails):
        return self.last(Fails.apply(self.first(x), fails))
facula.manual_seed(0)
one = Sometimes()
ddp = DDP(copy.deepcopy(one), bucket_cap_mb=0.00001)  # a bucket for each parameter
for step in range(4):
    x, y = batch(step, RANK)
    if step % 2 == 0:
        raised(lambda: F.mse_loss(ddp(x, True), y).backward(), "ArithmeticError", "this one fails")
    for m, (x, y) in ((one, batch(step)), (ddp, (x, y))):
        m.zero_grad()
        F.mse_loss(m(x, False), y).backward()
    same(one, ddp.module)

# hooks of programs, before and after ours; what observers see
net, seen = model(), []
net[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(("before", p.grad.clone())))
net[0].weight.register_hook(lambda g: seen.append(("gradient", g.clone())))
ddp = DDP(net)
net[4].bias.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.clone())))
F.mse_loss(ddp(batch(0, RANK)[0]), batch(0, RANK)[1]).backward()
assert sorted(name for name, _ in seen) == ["after", "before", "gradient"]
with facula.profiler.profile() as profile:
    ddp(batch(1, RANK)[0]).sum().backward()
assert any("all_reduce" in event.name for event in profile.events()), [event.name for event in profile.events()]

# the wrapper dies: gradients are this process's alone, and nothing is kept alive
one = copy.deepcopy(net)
one.zero_grad()
ddp.zero_grad()
alive = weakref.ref(ddp.reducer)
del ddp
gc.collect()
assert alive() is None
for m in (one, net):
    m(batch(2, RANK)[0]).sum().backward()
assert facula.equal(one[0].weight.grad, net[0].weight.grad)
ddp = DDP(net)  # and it can be wrapped again
ddp.zero_grad()
one.zero_grad()
F.mse_loss(one(batch(3)[0]), batch(3)[1]).backward()
F.mse_loss(ddp(batch(3, RANK)[0]), batch(3, RANK)[1]).backward()
same(one, net)
parameter = weakref.ref(net[0].weight)
del ddp, net, m
seen.clear()
gc.collect()
assert parameter() is None

# the values of every dtype are those of the sum, divided as the tensor's own arithmetic does it
for dtype in (facula.float16, facula.bfloat16, facula.float32, facula.float64):
    layer = nn.Linear(3, 2, bias=False).to(dtype)
    x = (facula.arange(6.0).reshape(2, 3) / 7 + RANK).to(dtype)
    mine = facula.autograd.grad(layer(x).sum(), layer.weight)[0]
    DDP(layer)(x).sum().backward()  # dies before its pass
    assert facula.equal(layer.weight.grad, mine)
    layer.zero_grad()
    ddp = DDP(layer)
    ddp(x).sum().backward()
    want = mine * (1 / SIZE)
    dist.all_reduce(want)
    assert facula.equal(layer.weight.grad, want), (layer.weight.grad, want)
print("ok")
"""


@pytest.mark.parametrize("size", [2, 3])
def test_passes(size):
    assert run_ranks(PASSES, size) == ["ok\n"] * size


def test_parameters_that_are_not_used():
    assert run_ranks(UNUSED, 2) == ["ok\n"] * 2


def test_checkpoints():
    assert run_ranks(CHECKPOINTS, 2) == ["ok\n"] * 2


def test_state():
    assert run_ranks(STATE, 2) == ["ok\n"] * 2


def test_communication_hooks():
    assert run_ranks(HOOKS, 2) == ["ok\n"] * 2


def test_uneven_inputs():
    assert run_ranks(JOIN, 3) == ["ok\n"] * 3


def test_passes_that_fail_and_wrappers_that_die():
    assert run_ranks(LIFE, 2) == ["ok\n"] * 2


LOGS = SETUP + """
import types
net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2).double())
net[1].forward = types.MethodType(lambda self, x: x.double().tanh(), net[1])
ddp = DDP(net, bucket_cap_mb=1, broadcast_buffers=False)
ddp._set_ddp_runtime_logging_sample_rate(4)
start = time.time_ns()
seen = []
for i in range(18):
    ddp(batch(i, RANK)[0]).sum().backward()
    data = ddp._get_ddp_logging_data()
    seen.append(data["iteration"])
    if data["iteration"] == i and i:
        assert start <= data["forward_compute_time_start"] <= data["backward_compute_time_start"] <= data["backward_compute_time_end"] <= time.time_ns()
        assert data["backward_compute_time_start"] <= data["backward_comm_time_start"] <= data["backward_comm_time_end"]
        assert min(data["backward_compute_time"], data["backward_comm_time"]) >= data["backward_compute_comm_overlap_time"] >= 0
        assert data["forward_compute_time"] >= 1 and data["backward_comm_time"] >= 1
assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 12, 12, 12, 16, 16], seen
expected = {"world_size": 2, "rank": RANK, "module_name": "Sequential", "dtypes": "double, float", "num_parameter_tensors": 4, "device_ids": "", "output_device": -1,
            "broadcast_buffers": 0, "bucket_cap_bytes": 1 << 20, "total_parameter_size_bytes": 28 * 4 + 10 * 8, "bucket_sizes": "80, 112", "has_rebuilt_buckets": 1,
            "rebuilt_bucket_sizes": "80, 112", "backend_name": "gloo", "master_addr": "127.0.0.1", "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES", "N/A")}
assert {k: data[k] for k in expected} == expected, {k: (data[k], v) for k, v in expected.items() if data[k] != v}
assert sorted(map(int, data["prev_iteration_grad_ready_order_indices"].split(", "))) == [0, 1, 2, 3]
assert data["rebuilt_per_bucket_param_indices"].replace(",", "").split() == data["prev_iteration_grad_ready_order_indices"].split(", ")
assert 0 < data["avg_backward_comm_time"] < 60e9 and "comm_hook" not in data and "has_error" not in data
raised(lambda: ddp._set_static_graph(), "before training loop starts")
data = ddp._get_ddp_logging_data()
assert data["has_error"] == 1 and "before training loop starts" in data["error"]
def hook(state, bucket):
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future()
ddp.register_comm_hook(None, hook)
assert ddp._get_ddp_logging_data()["comm_hook"] == "hook"
raised(lambda: ddp._set_ddp_runtime_logging_sample_rate(0), "ValueError", "got 0")
print("ok")
"""


def test_logs():
    assert run_ranks(LOGS, 2) == ["ok\n"] * 2


def test_without_a_group_nothing_is_wrapped():
    import pickle

    from facula import distributed as dist
    from facula import nn

    with pytest.raises(ValueError, match="^DistributedDataParallel: expected init_process_group"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    with pytest.raises(TypeError, match="^DistributedDataParallel: process_group must be a ProcessGroup, got int"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 1), process_group=3)
    dist.init_process_group("gloo", rank=0, world_size=1)
    pickled = pickle.dumps(nn.parallel.DistributedDataParallel(nn.Linear(2, 1)))
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="^DistributedDataParallel: expected init_process_group"):
        pickle.loads(pickled)
