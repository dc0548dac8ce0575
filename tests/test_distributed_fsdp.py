"""fully_shard: losses and parameters of one process, with parts in memory."""

import pytest
from distributed_ranks import needs_mpi, run_ranks
from fsdp_setup import SETUP

pytestmark = needs_mpi

TRAINING = SETUP + """
for options in ({}, {"reshard_after_forward": False}, {"reshard_after_forward": True},
                {"shard_placement_fn": lambda p: Shard(p.dim() - 1)}):
    for kind, settings in ((facula.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (facula.optim.AdamW, {"lr": 0.01})):
        one, many = network(), spread(network(), **options)
        assert isinstance(many, FSDPModule) and isinstance(many, Net) and type(many).__name__ == "FSDPNet"
        assert all(isinstance(p, DTensor) and isinstance(p, nn.Parameter) for p in many.parameters())
        a, b = kind(one.parameters(), **settings), kind(many.parameters(), **settings)
        for step in range(4):
            for m, o, (x, y) in ((one, a, batch(step)), (many, b, batch(step, RANK))):
                o.zero_grad()
                F.mse_loss(m(x), y).backward()
                if step == 2:
                    norm = nn.utils.clip_grad_norm_(m.parameters(), 0.1)
                    norms = (norms[0], norm.full_tensor()) if m is many else (norm,)
                o.step()
        assert facula.allclose(*norms, atol=1e-6)
        same(one, many, options)
        if "shard_placement_fn" not in options:
            assert many.last.weight.to_local().shape[0] == len(facula.arange(2).chunk(SIZE)[RANK] if RANK < 2 else [])
        assert not any(g.is_gathered or g._again for g in many._fsdp_groups())

# gradients of several passes: accumulated on parts, and kept whole until they are summed
one, many = network(), spread(network())
for step in range(3):
    many.set_requires_gradient_sync(step == 2)
    for m, (x, y) in ((one, batch(step)), (many, batch(step, RANK))):
        F.mse_loss(m(x), y).backward()
    assert (many.first.weight.grad is None) == (step < 2)
for step in range(2):
    for m, (x, y) in ((one, batch(step)), (many, batch(step, RANK))):
        F.mse_loss(m(x), y).backward()
for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
    if p.grad is not None:
        assert facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), name
# two forwards, then two backwards; no_grad; eval
x, y = batch(0, RANK), batch(1, RANK)
many.zero_grad()
a, b = F.mse_loss(many(x[0]), x[1]), F.mse_loss(many(y[0]), y[1])
(a + b).backward()
one.zero_grad()
(F.mse_loss(one(batch(0)[0]), batch(0)[1]) + F.mse_loss(one(batch(1)[0]), batch(1)[1])).backward()
assert facula.allclose(one.last.weight.grad, many.last.weight.grad.full_tensor(), atol=1e-5)
with facula.no_grad():
    assert facula.allclose(many(x[0]), one(x[0]), atol=1e-5)
# by hand, and methods beside forward
many.blocks[0].unshard()
assert many.blocks[0].up.weight.shape == (13, 6) and not isinstance(many.blocks[0].up.weight, DTensor)
many.blocks[0].reshard()
assert isinstance(many.blocks[0].up.weight, DTensor)
Block.other = lambda self, x: self.up(x)
register_fsdp_forward_method(many.blocks[0], "other")
assert facula.allclose(many.blocks[0].other(facula.ones(2, 6)), one.blocks[0].up(facula.ones(2, 6)), atol=1e-6)
# state
state = many.state_dict()
assert all(isinstance(v, DTensor) for v in state.values())
fresh = spread(Net())
fresh.load_state_dict(state)
same(one, fresh)
fresh.load_state_dict({k: v + 1 for k, v in one.state_dict().items()})
for p, q in zip(one.parameters(), fresh.parameters()):
    assert facula.allclose(p + 1, q.full_tensor(), atol=1e-5)
# an error in forward leaves parts behind
raised(lambda: many(facula.ones(2, 7)), "linear")
assert not any(g.is_gathered for g in many._fsdp_groups()) and isinstance(many.first.weight, DTensor)
many(batch(0, RANK)[0]).sum().backward()
# checkpointed blocks
from facula.utils.checkpoint import checkpoint
for reentrant in (False, True):
    one, many = network(), spread(network())
    def run(m, x):
        x = m.first(x)
        for b in m.blocks:
            x = checkpoint(b, x, use_reentrant=reentrant)
        return m.last(x)
    Net.run = run
    register_fsdp_forward_method(many, "run")
    for m, (x, y) in ((one, batch(0)), (many, batch(0, RANK))):
        F.mse_loss(m.run(x), y).backward()
    for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
        if p.grad is not None:
            assert facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), (reentrant, name)
print("ok")
"""

KINDS = SETUP + """
# half precision: parameters and gradients travel in bfloat16, parts stay float32
policy = MixedPrecisionPolicy(param_dtype=facula.bfloat16, reduce_dtype=facula.float32, output_dtype=facula.float32)
one, many = network(), network()
for b in many.blocks:
    fully_shard(b, mp_policy=MixedPrecisionPolicy(facula.bfloat16, facula.float32))
fully_shard(many, mp_policy=policy)
seen = []
many.blocks[0].up.register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, i[0].dtype, o.dtype)))
for m, (x, y) in ((one, batch(0)), (many, batch(0, RANK))):
    out = m(x)
    assert out.dtype == facula.float32
    F.mse_loss(out, y).backward()
assert seen == [(facula.bfloat16,) * 3], seen
assert many.first.weight.dtype == facula.float32 and many.first.weight.grad.dtype == facula.float32
assert facula.allclose(one.first.weight.grad, many.first.weight.grad.full_tensor(), atol=3e-2)
# frozen and shared parameters, buffers
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.bn = nn.Linear(5, 5), nn.Linear(5, 5), nn.BatchNorm1d(5)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad_(False)
    def forward(self, x):
        return self.bn(self.b(self.a(x)))
facula.manual_seed(1)
tied = Tied()
many = fully_shard(copy.deepcopy(tied))
assert many.a.weight is many.b.weight and len(list(many.parameters())) == 5 and not many.a.bias.requires_grad
tied.eval()
many.eval()
for m, (x, y) in ((tied, batch(0)), (many, batch(0, RANK))):
    m(x).square().mean().backward()
for p, q in zip(tied.parameters(), many.parameters()):
    assert (p.grad is None) == (q.grad is None)
    assert p.grad is None or facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5)
# from the meta device
with facula.device("meta"):
    net = Net()
spread(net)
net.to_empty(device="cpu")
for p in net.parameters():
    nn.init.constant_(p, 0.5)
assert net(facula.ones(2, 5)).shape == (2, 2) and net.last.weight.full_tensor().unique().tolist() == [0.5]
# replicas of shards
if SIZE == 4:
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    one, many = network(), spread(network(), mesh=grid)
    a, b = (facula.optim.SGD(m.parameters(), lr=0.1) for m in (one, many))
    for step in range(3):
        for m, o, (x, y) in ((one, a, batch(step)), (many, b, batch(step, RANK))):
            o.zero_grad()
            F.mse_loss(m(x), y).backward()
            o.step()
    same(one, many)
    assert many.first.weight.to_local().shape == (3, 5)
fresh = type(many)()
assert type(fresh) is Net and len(list(fresh.parameters())) == len(list(many.parameters()))
raised(lambda: copy.deepcopy(many), "NotImplementedError", "before it is spread")
raised(lambda: fully_shard(many), "spread already")
raised(lambda: fully_shard(nn.ModuleList()), "expected modules that have a forward", "ModuleList")
raised(lambda: fully_shard(nn.Linear(2, 2), dp_mesh_dims=1), "TypeError", "expected a DataParallelMeshDims, got int")
print("ok")
"""

MEMORY = SETUP + """
# between forward and backward nothing holds the whole parameters of blocks
import gc
net = spread(network(), reshard_after_forward=True)
out = net(batch(0, RANK)[0])
gc.collect()
held = [t.shape for t in gc.get_objects() if isinstance(t, facula.Tensor) and not isinstance(t, DTensor) and tuple(t.shape) == (13, 6)]
assert held == [], held
assert not any(g._again for g in net._fsdp_groups())
out.sum().backward()
print("ok")
"""


ORDER = SETUP + """
# what is asked for when: events of messages and of modules, of three blocks (b0 b1 b2) and the outermost module (net)
events = []
class Gather:
    def __init__(self, name):
        self.name = name
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        events.append(f"gather {self.name}")
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
class Scatter(Gather):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        assert op == dist.ReduceOp.SUM and async_op
        events.append(f"scatter {self.name}")
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group=group, async_op=async_op)
def watched(**options):
    net = spread(network(), **options)
    for name, m in (("net", net), *((f"b{i}", b) for i, b in enumerate(net.blocks))):
        m.set_custom_all_gather(Gather(name))
        m.set_custom_reduce_scatter(Scatter(name))
    for i, b in enumerate(net.blocks):
        b.up.register_forward_hook(lambda m, x, y, i=i: (events.append(f"run b{i}"), y.register_hook(lambda g: events.append(f"back b{i}")))[0] and None)
    return net
def told():
    found = events.copy()
    events.clear()
    return found
def step(net, number, forward=None):
    x, y = batch(number, RANK)
    out = net(x)
    forward = told()
    F.mse_loss(out, y).backward()
    return forward, told()
one, net = network(), watched()
optimizers = [facula.optim.SGD(m.parameters(), lr=0.1) for m in (one, net)]
first = step(net, 0)
assert first[0] == ["gather net", "gather b0", "run b0", "gather b1", "run b1", "gather b2", "run b2"], first
assert first[1] == ["gather b2", "back b2", "scatter b2", "gather b1", "back b1", "scatter b1", "gather b0", "back b0", "scatter b0", "scatter net"], first
second = step(net, 1)
assert second[0] == ["gather net", "gather b0", "gather b1", "run b0", "gather b2", "run b1", "run b2"], second
assert second[1] == ["gather b2", "gather b1", "back b2", "scatter b2", "gather b0", "back b1", "scatter b1", "back b0", "scatter b0", "scatter net"], second
for n in (0, 1):
    F.mse_loss(one(batch(n)[0]), batch(n)[1]).backward()
def compare(what):
    for (name, p), (_, q) in zip(one.named_parameters(), net.named_parameters()):
        assert (p.grad is None) == (q.grad is None), (what, name)
        assert p.grad is None or facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), (what, name)
    for o in optimizers:
        o.step()
        o.zero_grad()
compare("guesses")
def both(what, number=2):
    result = step(net, number)
    F.mse_loss(one(batch(number)[0]), batch(number)[1]).backward()
    compare(what)
    return result
# chosen by the user
net.set_modules_to_forward_prefetch([net.blocks[0], net.blocks[1]])
net.blocks[0].set_modules_to_forward_prefetch([net.blocks[2]])
net.blocks[1].set_modules_to_forward_prefetch([])
net.blocks[2].set_modules_to_backward_prefetch([net.blocks[1], net.blocks[0]])
net.blocks[1].set_modules_to_backward_prefetch([])
forward, backward = both("chosen")
assert forward == ["gather net", "gather b0", "gather b1", "gather b2", "run b0", "run b1", "run b2"], forward
assert backward[:3] == ["gather b2", "gather b1", "gather b0"], backward
net.blocks[0].set_unshard_in_backward(False)
assert both("not ahead")[1][:3] == ["gather b2", "gather b1", "back b2"]
net.blocks[0].set_unshard_in_backward(True)
net.set_reduce_scatter_max_input_buffers(3)
net.set_separate_reduce_scatter_group()
both("own group for sums")
assert net.blocks[0]._fsdp_group.scatter_group is net._fsdp_group.scatter_group is not net._fsdp_group.group
net.set_separate_reduce_scatter_group(False)
# another way through the model: the guesses are wrong, the values right
net = watched()
optimizers[1] = facula.optim.SGD(net.parameters(), lr=0.1)
net.load_state_dict(one.state_dict())
both("first")
def backwards(self, x):
    x = self.first(x)
    for b in reversed(list(self.blocks)):
        x = b(x)
    return self.last(x)
Net.forward, forward = backwards, Net.forward
both("backwards")
Net.forward = forward
both("forwards again")
assert not any(g._under_way or g._again for g in net._fsdp_groups())
# gathered ahead by the user; kept over passes
handle = net.blocks[0].unshard(async_op=True)
assert told() == ["gather b0"] and isinstance(net.blocks[0].up.weight, DTensor)
assert "gather b0" not in both("ahead by hand")[0] and isinstance(net.blocks[0].up.weight, DTensor)
handle = net.blocks[1].unshard(async_op=True)
handle.wait()
assert net.blocks[1].up.weight.shape == (13, 6) and not isinstance(net.blocks[1].up.weight, DTensor)
net.blocks[1].reshard()
told()
net.set_requires_gradient_sync(False)
net.set_reshard_after_backward(False)
step(net, 0)
forward, backward = step(net, 1)
assert not [e for e in forward if "gather" in e] and not [e for e in backward if "scatter" in e], (forward, backward)
net.set_requires_gradient_sync(True)
net.set_reshard_after_backward(True)
forward, backward = step(net, 2)
assert sum("gather" in e for e in forward) == 0 and sum("gather" in e for e in backward) == 3, (forward, backward)
for n in (0, 1, 2):
    F.mse_loss(one(batch(n)[0]), batch(n)[1]).backward()
compare("kept")
forward, backward = both("let go", 3)
assert len([e for e in forward if "gather" in e]) == 4
# a divisor, a hook, an event
seen = []
net.set_all_reduce_hook(lambda flat: seen.append(flat.numel()) or flat.mul_(2))
net.set_gradient_divide_factor(2.0 * SIZE)
class Event:
    def synchronize(self):
        events.append("event")
net.set_post_optim_event(Event())
assert both("hook")[0][0] == "event" and seen == [sum(s.count for s in net._fsdp_group.slots)]
# after an error: from the start
def fail(*ignored):
    raise KeyError("here")
hook = net.blocks[1].down.register_forward_hook(fail)
raised(lambda: net(batch(0, RANK)[0]), "here")
hook.remove()
hook = net.blocks[1].norm.register_full_backward_hook(fail)
raised(lambda: net(batch(0, RANK)[0]).sum().backward(), "here")
hook.remove()
net.reset_iter_state()
net.zero_grad()
told()
forward, backward = both("after errors")
assert forward[:3] == ["gather net", "gather b0", "run b0"] and backward[:2] == ["gather b2", "back b2"], (forward, backward)
forward, backward = both("once more")
assert forward[:3] == ["gather net", "gather b0", "gather b1"] and backward[:2] == ["gather b2", "gather b1"], (forward, backward)
hook = net.register_forward_pre_hook(fail)
raised(lambda: net(batch(0, RANK)[0]), "here")
hook.remove()
told()
both("after an error in front")
assert net._fsdp_passes._depth == 0 and not net._fsdp_calls
assert all(p.dtype == facula.float64 for p in net.double().parameters())
raised(lambda: net.set_modules_to_forward_prefetch([nn.Linear(1, 1)]), "set_modules_to_forward_prefetch", "Linear")
raised(lambda: net.set_reduce_scatter_max_input_buffers(0), "must be positive, got 0")
raised(lambda: net.set_reduce_scatter_max_input_buffers(True), "TypeError", "bool")
raised(lambda: net.set_reshard_after_forward(1), "expected a bool")
raised(lambda: net.set_allocate_memory_from_process_group_for_comm(True), "NotImplementedError")
raised(lambda: net.set_symm_mem_for_comm(), "NotImplementedError")
print("ok")
"""

REPLICAS = SETUP + """
# sums over shards that wait for those over replicas; frozen parameters; a module that is called twice
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
one, many = network(), spread(network(), mesh=grid)
for step in range(3):
    many.set_requires_all_reduce(step == 2)
    for m, (x, y) in ((one, batch(step)), (many, batch(step, RANK))):
        F.mse_loss(m(x), y).backward()
    assert (many.first.weight.grad is None) == (step < 2)
for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
    assert (p.grad is None) == (q.grad is None), name
    assert p.grad is None or facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), name
assert not any(g.partial for g in many._fsdp_groups())
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
    def forward(self, x):
        return self.a(self.b(self.a(x).relu()).relu())
for frozen in ("", "b", "a"):
    facula.manual_seed(1)
    one = Twice()
    many = copy.deepcopy(one)
    for m in (one, many):
        if frozen:
            getattr(m, frozen).weight.requires_grad_(False)
            getattr(m, frozen).bias.requires_grad_(frozen != "b")
    for m in (many.a, many.b, many):
        fully_shard(m, mesh=grid, reshard_after_forward=True)
    for step in range(3):
        for m, x in ((one, batch(step)[0]), (many, batch(step, RANK)[0])):
            m(x).square().mean().backward()
        assert not any(g._again or g._under_way for g in many._fsdp_groups())
        for p, q in zip(one.parameters(), many.parameters()):
            assert (p.grad is None) == (q.grad is None), frozen
            assert p.grad is None or facula.allclose(p.grad, q.grad.full_tensor(), atol=1e-5), (frozen, step)
many.a.unshard()
many.b.unshard()
assert [p.requires_grad for p in (many.a.weight, many.a.bias, many.b.weight)] == [False, True, True]
# gradients asked for, not accumulated
one, many = network(), spread(network())
x, y = batch(0), batch(0, RANK)
expected = facula.autograd.grad(F.mse_loss(one(x[0]), x[1]), [one.first.weight, one.blocks[0].up.weight])
got = facula.autograd.grad(F.mse_loss(many(y[0]), y[1]), [many.first.weight, many.blocks[0].up.weight])
for e, g, p in zip(expected, got, (many.first.weight, many.blocks[0].up.weight)):
    whole = g.full_tensor() if isinstance(g, DTensor) else DTensor.from_local(g, p.device_mesh, p.placements, shape=p.shape).full_tensor()
    assert facula.allclose(e, whole, atol=1e-5)
print("ok")
"""


SCALED = SETUP + """
# a gradient that overflows in one process's part: all leave the step out
from facula.amp import GradScaler
from facula.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
for made in (lambda: GradScaler("cpu", init_scale=256.0, growth_interval=2), lambda: ShardedGradScaler("cpu", init_scale=256.0, growth_interval=2)):
    one, many = network(), spread(network())
    a, b = (facula.optim.SGD(m.parameters(), lr=0.1) for m in (one, many))
    scalers = GradScaler("cpu", init_scale=256.0, growth_interval=2), made()
    for step in range(5):
        for m, o, s, (x, y) in ((one, a, scalers[0], batch(step)), (many, b, scalers[1], batch(step, RANK))):
            o.zero_grad()
            s.scale(F.mse_loss(m(x), y)).backward()
            if step == 2:
                grad = m.first.weight.grad
                if m is one:
                    grad[0, 0] = float("inf")
                elif RANK == 0:
                    grad.to_local()[0, 0] = float("inf")
            if step == 3:
                s.unscale_(o)
                nn.utils.clip_grad_norm_(m.parameters(), 0.1)
            s.step(o)
            s.update()
        assert scalers[0].get_scale() == scalers[1].get_scale() == [256.0, 512.0, 256.0, 256.0, 512.0][step], (step, scalers[1].get_scale())
        same(one, many, step)
# plain parameters, of which every process has others
own = nn.Parameter(facula.ones(2))
scaler, optimizer = ShardedGradScaler("cpu", init_scale=4.0), facula.optim.SGD([own], lr=1.0)
for bad in (False, True):
    scaler.scale(own.sum()).backward()
    if bad and RANK == 1:
        own.grad[0] = float("nan")
    scaler.step(optimizer)
    scaler.update()
    assert own.tolist() == [0.0, 0.0] and scaler.get_scale() == (2.0 if bad else 4.0)
    optimizer.zero_grad()
print("ok")
"""


def test_scaled_gradients():
    assert run_ranks(SCALED, 2) == ["ok\n"] * 2


def test_order_of_messages():
    assert run_ranks(ORDER, 2) == ["ok\n"] * 2


def test_replicas_and_frozen_parameters():
    assert run_ranks(REPLICAS, 4) == ["ok\n"] * 4


@pytest.mark.slow
def test_training():
    assert run_ranks(TRAINING, 3) == ["ok\n"] * 3


def test_kinds_of_parameters():
    assert run_ranks(KINDS, 4) == ["ok\n"] * 4


def test_memory():
    assert run_ranks(MEMORY, 2) == ["ok\n"] * 2
