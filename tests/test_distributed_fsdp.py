"""fully_shard: losses and parameters of one process, with parts in memory."""

from distributed_ranks import needs_mpi, run_ranks

pytestmark = needs_mpi

SETUP = """
import copy
from facula import nn
import facula.nn.functional as F
from facula.distributed.tensor import DTensor, Shard, init_device_mesh
from facula.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
dist.init_process_group("gloo", timeout=timedelta(seconds=60))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 13), nn.Linear(13, 6)
        self.unused = nn.Parameter(facula.ones(3))
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(6, 2)
    def forward(self, x):
        x = self.first(x)
        for b in self.blocks:
            x = b(x)
        return self.last(x)

def network():
    facula.manual_seed(0)
    return Net()

def spread(net, **options):
    for b in net.blocks:
        fully_shard(b, **options)
    return fully_shard(net, **options)

def batch(step, rank=None, n=3):
    g = facula.Generator().manual_seed(step)
    x, y = facula.randn(SIZE * n, 5, generator=g), facula.randn(SIZE * n, 2, generator=g)
    return (x, y) if rank is None else (x[rank * n : (rank + 1) * n], y[rank * n : (rank + 1) * n])

def same(one, many, what="", atol=1e-5):
    assert [n for n, _ in one.named_parameters()] == [n for n, _ in many.named_parameters()]
    for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
        assert facula.allclose(p, q.full_tensor(), atol=atol), (what, name, (p - q.full_tensor()).abs().max())
"""

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


GRID = SETUP + """
# tensor parallel inside fully_shard, on a grid of two dimensions (three with replicas): losses of one process
import sys
import facula.distributed.checkpoint as dcp
from facula.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from facula.distributed.tensor import Replicate
from facula.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, PrepareModuleInput, parallelize_module
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.layers, self.out = nn.Embedding(11, 8), nn.ModuleList(Layer() for _ in range(2)), nn.Linear(8, 11)
    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
def make():
    facula.manual_seed(0)
    return Model()
def tokens(step, rank, ways):
    ids = facula.randint(11, (4 * ways, 5), generator=facula.Generator().manual_seed(step))
    return ids if rank is None else ids[4 * rank : 4 * rank + 4]
def loss_of(m, ids):
    return F.cross_entropy(m(ids).flatten(0, 1), ids.roll(1, 1).flatten())
def cut(model, tp, data):
    plan = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
    if WHAT == "all":
        plan |= {"tokens": RowwiseParallel(input_layouts=Replicate()), "out": ColwiseParallel(output_layouts=Replicate()), "layers.*.norm": SequenceParallel(sequence_dim=1),
                 "layers.*.up": ColwiseParallel(input_layouts=Shard(1)), "layers.*.down": RowwiseParallel()}
        plan["layers.*.norm"] = SequenceParallel(sequence_dim=1, use_local_output=True)
    if tp is not None:
        if WHAT == "all":
            del plan["layers.*.norm"]
            plan["layers.*.up"] = ColwiseParallel()
        parallelize_module(model, tp, plan)
    for layer in model.layers:
        fully_shard(layer, mesh=data)
    return fully_shard(model, mesh=data)
for shape, names in (((2, 2), ("data", "tp")), ((2, 1, 2), ("replicas", "data", "tp"))):
    grid = init_device_mesh("cpu", shape, mesh_dim_names=names)
    tp, data = grid["tp"], grid[names[:-1] if len(names) > 2 else "data"]
    mine, ways = RANK // 2, 2
    for WHAT in ("layers", "all"):
        one, many = make(), cut(make(), tp, data)
        weight = many.layers[0].up.weight
        assert weight.device_mesh.mesh_dim_names == names and weight.shape == (12, 8) and weight.to_local().shape == (12 // 2 // shape[-2], 8)
        close = lambda a, b, what: facula.allclose(a, b, atol=2e-5) or exec("raise AssertionError((what, (a - b).abs().max()))")
        for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
            assert facula.equal(p, q.full_tensor()), name
        a, b = (facula.optim.AdamW(m.parameters(), lr=0.01) for m in (one, many))
        for step in range(3):
            for o in (a, b):
                o.zero_grad()
            expected = loss_of(one, tokens(step, None, ways))
            got = loss_of(many, tokens(step, mine, ways))
            expected.backward()
            got.backward()
            total = got.detach().clone()
            dist.all_reduce(total)
            assert abs(total.item() / SIZE - expected.item()) < 1e-5
            for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
                assert q.grad.placements == q.placements
                close(p.grad, q.grad.full_tensor(), (WHAT, step, name))
            norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5) for m in (one, many)]
            assert isinstance(norms[1], DTensor) and facula.allclose(norms[0], norms[1].full_tensor(), rtol=1e-5), norms
            for p in (1.0, float("inf"), 3.0):
                assert facula.allclose(nn.utils.get_total_norm([p.grad for p in one.parameters()], p), nn.utils.get_total_norm([p.grad for p in many.parameters()], p).full_tensor(), rtol=1e-4)
            for o in (a, b):
                o.step()
        for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
            close(p, q.full_tensor(), (WHAT, name))
        # a checkpoint of the grid, loaded by other grids and by plain modules
        folder = f"{sys.argv[1]}/{WHAT}{len(shape)}"
        state, optim_state = get_state_dict(many, b)
        dcp.save({"model": state, "optim": optim_state}, checkpoint_id=folder)
        line = init_device_mesh("cpu", (4,), mesh_dim_names=("data",))
        turned = init_device_mesh("cpu", (1, 4), mesh_dim_names=("data", "tp"))
        for other in (lambda: fully_shard(make()), lambda: cut(make(), None, line), lambda: cut(make(), turned["tp"], turned["data"]), make):
            fresh = other()
            c = facula.optim.AdamW(fresh.parameters(), lr=0.01)
            state, optim_state = get_state_dict(fresh, c)
            told = {"model": state, "optim": optim_state}
            dcp.load(told, checkpoint_id=folder)
            set_state_dict(fresh, c, model_state_dict=told["model"], optim_state_dict=told["optim"])
            whole = lambda t: t.full_tensor() if isinstance(t, DTensor) else t
            for (name, p), (_, q) in zip(one.named_parameters(), fresh.named_parameters()):
                close(p, whole(q), ("loaded", WHAT, name))
            for p, q in zip(one.parameters(), fresh.parameters()):
                value = c.state[q]["exp_avg"]
                value = value if isinstance(value, DTensor) or not isinstance(q, DTensor) else DTensor.from_local(value, q.device_mesh, q.placements, shape=q.shape)
                close(a.state[p]["exp_avg"], whole(value), ("state", WHAT))
# parts of parts that do not divide, in every dimension
for shape, place in (((7, 5), 0), ((7, 5), 1), ((3, 2), 0), ((1, 6), 0)):
    for cut_dim in (0, 1):
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tp"))
        from facula.distributed.tensor import distribute_tensor
        linear = nn.Linear(shape[1], shape[0], bias=False)
        whole = facula.arange(float(shape[0] * shape[1])).view(shape)
        linear.weight = nn.Parameter(distribute_tensor(whole, grid["tp"], [Shard(place)]))
        fully_shard(linear, mesh=grid["data"], shard_placement_fn=lambda p: Shard(cut_dim))
        assert facula.equal(linear.weight.full_tensor(), whole), (shape, place, cut_dim, linear.weight)
        for layout in ([Shard(0), Shard(0)], [Replicate(), Shard(1)], [Shard(1), Replicate()]):
            moved = linear.weight.redistribute(placements=layout)
            assert facula.equal(moved.full_tensor(), whole)
            assert facula.equal(moved.redistribute(placements=linear.weight.placements).to_local(), linear.weight.to_local())
        out = linear(distribute_tensor(facula.ones(2, shape[1]), grid["tp"], [Replicate()]))
        assert facula.equal(out.full_tensor(), whole.sum(1).expand(2, -1))
        out.sum().full_tensor().backward()
        assert facula.equal(linear.weight.grad.full_tensor(), facula.full(shape, 2.0)), (shape, place, cut_dim)
line = init_device_mesh("cpu", (4,))
linear.weight = nn.Parameter(distribute_tensor(facula.ones(4, 4), line, [Shard(0)]))
plain = nn.Linear(4, 4)
plain.weight = linear.weight
raised(lambda: fully_shard(plain, mesh=grid["data"]), "ValueError", "other dimensions", "weight")
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


def test_tensor_parallel_inside(tmp_path):
    assert run_ranks(GRID, 4, arguments=[str(tmp_path)]) == ["ok\n"] * 4


def test_order_of_messages():
    assert run_ranks(ORDER, 2) == ["ok\n"] * 2


def test_replicas_and_frozen_parameters():
    assert run_ranks(REPLICAS, 4) == ["ok\n"] * 4


def test_training():
    assert run_ranks(TRAINING, 3) == ["ok\n"] * 3


def test_kinds_of_parameters():
    assert run_ranks(KINDS, 4) == ["ok\n"] * 4


def test_memory():
    assert run_ranks(MEMORY, 2) == ["ok\n"] * 2


WRAPPER = SETUP + """
import functools
from facula.distributed.fsdp import (CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel as FSDP, MixedPrecision,
    ShardingStrategy, StateDictType)
from facula.distributed.fsdp.wrap import (CustomPolicy, ModuleWrapPolicy, always_wrap_policy, enable_wrap, size_based_auto_wrap_policy,
    transformer_auto_wrap_policy, wrap)

policies = [ModuleWrapPolicy({Block}), functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
            functools.partial(size_based_auto_wrap_policy, min_num_params=100), CustomPolicy(lambda m: isinstance(m, Block)), None]
for number, policy in enumerate(policies):
    strategy = list(ShardingStrategy)[number % 3]
    one = network()
    if RANK:
        facula.manual_seed(RANK)
    inside = Net() if RANK else network()
    many = FSDP(inside, auto_wrap_policy=policy, sharding_strategy=strategy, sync_module_states=True, use_orig_params=True, device_id=facula.device("cpu"))
    if number in (0, 1, 3):
        assert len(FSDP.fsdp_modules(many)) == 4 and FSDP.fsdp_modules(many, root_only=True) == [many], number
    a, b = (facula.optim.AdamW(m.parameters(), lr=0.01) for m in (one, many))
    for step in range(3):
        for m, o, (x, y) in ((one, a, batch(step)), (many, b, batch(step, RANK))):
            o.zero_grad()
            if step == 1 and m is many:
                with many.no_sync():
                    F.mse_loss(m(x), y).backward()
            elif step == 1:
                F.mse_loss(m(x), y).backward()
            F.mse_loss(m(x), y).backward()
            norm = m.clip_grad_norm_(1.0) if m is many else nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
    same(one, many, number)
    state, expected = many.state_dict(), one.state_dict()
    assert list(state) == list(expected), (list(state), list(expected))
    assert all(facula.allclose(state[k], expected[k], atol=1e-5) for k in expected)

# kinds of state
with FSDP.state_dict_type(many, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
    state = many.state_dict()
assert (len(state) > 0) == (RANK == 0)
with FSDP.state_dict_type(many, StateDictType.SHARDED_STATE_DICT):
    assert all(isinstance(v, DTensor) for v in many.state_dict().values())
with FSDP.state_dict_type(many, StateDictType.LOCAL_STATE_DICT):
    assert many.state_dict()["first.weight"].shape == many.module.first.weight.to_local().shape
fresh = FSDP(Net(), auto_wrap_policy=ModuleWrapPolicy({Block}))
fresh.load_state_dict(one.state_dict())
same(one, fresh)
# state of optimizers: whole by names, and back in other processes' shares
full = FSDP.optim_state_dict(many, b)
assert set(full["state"]) == {n for n, _ in one.named_parameters() if "unused" not in n} or len(full["state"]) == len(a.state_dict()["state"])
names = [n for n, _ in one.named_parameters()]
for number, values in a.state_dict()["state"].items():
    assert facula.allclose(full["state"][names[number]]["exp_avg"], values["exp_avg"], atol=1e-5), names[number]
again = facula.optim.AdamW(fresh.parameters(), lr=0.01)
again.load_state_dict(FSDP.optim_state_dict_to_load(fresh, again, full))
kept = FSDP.full_optim_state_dict(many, b)  # the first process has it all
assert (set(kept.get("state", ())) == set(full["state"])) == (RANK == 0)
for number, values in FSDP.scatter_full_optim_state_dict(kept if RANK == 0 else None, fresh, optim=again)["state"].items():
    assert all(facula.equal(v, again.state_dict()["state"][number][k]) for k, v in values.items()), number
for m, o, (x, y) in ((one, a, batch(7)), (fresh, again, batch(7, RANK))):
    o.zero_grad()
    F.mse_loss(m(x), y).backward()
    o.step()
same(one, fresh, "after loading")
# whole parameters for a while
with FSDP.summon_full_params(fresh):
    assert fresh.module.first.weight.shape == (6, 5) and not isinstance(fresh.module.first.weight, DTensor)
    fresh.module.first.weight.fill_(2.0)
assert fresh.module.first.weight.full_tensor().unique().tolist() == [2.0]
fresh.apply(lambda m: m.weight.data.fill_(0.25) if isinstance(m, nn.Linear) else None)
assert fresh.module.last.weight.full_tensor().unique().tolist() == [0.25]
# by hand, from the meta device, dtypes, attributes of the module inside
with enable_wrap(wrapper_cls=FSDP):
    net = nn.Sequential(wrap(nn.Linear(5, 4)), nn.Linear(4, 2))
assert isinstance(net[0], FSDP) and wrap(net[1]) is net[1] and net[0].in_features == 5
with facula.device("meta"):
    net = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2))
net = FSDP(net, sync_module_states=True)
assert net(facula.ones(2, 5)).shape == (2, 2) and net[0].weight.shape == (4, 5)
net = FSDP(nn.Linear(5, 4), mixed_precision=MixedPrecision(param_dtype=facula.bfloat16, reduce_dtype=facula.float32))
out = net(facula.ones(2, 5))
out.sum().backward()
assert out.dtype == facula.bfloat16 and net.weight.grad.dtype == facula.float32
ignored = nn.Linear(2, 2)
net = FSDP(nn.Sequential(nn.Linear(2, 2), ignored), ignored_modules=[ignored])
assert not isinstance(net[1].weight, DTensor) and isinstance(net[0].weight, DTensor)
raised(lambda: FSDP(net), "wrapped already")
raised(lambda: FSDP.set_state_dict_type(net, StateDictType.FULL_STATE_DICT, FullOptimStateDictConfig()), "expected a FullStateDictConfig")
raised(lambda: net.register_comm_hook(None, print), "NotImplementedError", "register_comm_hook")
print("ok")
"""


def test_the_older_wrapper():
    assert run_ranks(WRAPPER, 2) == ["ok\n"] * 2


GRIDS = """
# parameters and inputs on one grid, of which some dimensions are those of data
from facula import nn
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.fsdp import DataParallelMeshDims, fully_shard
from facula.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
R, S0, S1 = Replicate(), Shard(0), Shard(1)
def network():
    facula.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
def on_grid(module, mesh, cuts):
    def spread(name, part, mesh):
        for key, p in list(part.named_parameters(recurse=False)):
            cut = cuts.get(f"{name}.{key}")
            layout = [cut if n == "tp" and cut else R for n in mesh.mesh_dim_names]
            part.register_parameter(key, nn.Parameter(distribute_tensor(p.detach(), mesh, layout)))
    return distribute_module(module, mesh, spread)
columns_and_rows = {"0.weight": S0, "0.bias": S0, "2.weight": S1}
for names, dims, layout, cuts in (
    (("dp", "tp"), {"shard": "dp"}, [S0, R], columns_and_rows),
    (("tp", "dp"), {"shard": "dp"}, [R, S0], columns_and_rows),
    (("copies", "dp"), {"shard": "dp", "replicate": "copies"}, [S0, S0], {}),
    (("dp", "copies"), {"shard": "dp", "replicate": "copies"}, [S0, S0], {}),
    (("a", "b"), {"shard": ("a", "b")}, [S0, S0], {}),
    (("copies", "tp"), {"replicate": "copies"}, [S0, R], columns_and_rows),
):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
    one, many = network(), on_grid(network(), mesh, cuts)
    whole = [p.shape for p in one.parameters()]
    uneven = isinstance(dims.get("shard"), tuple)  # 5 rows do not go into 4 parts
    if uneven:
        raised(lambda: fully_shard(many, mesh=mesh, dp_mesh_dims=DataParallelMeshDims(**dims)), "ValueError", "cut evenly", "got 5 rows")
        many[2].requires_grad_(False)
        one[2].requires_grad_(False)
    wanted = DataParallelMeshDims(**dims)
    for part in (many[0],) if uneven else (many[0], many):
        fully_shard(part, mesh=mesh, dp_mesh_dims=wanted)
    for m in [many[0]] + ([] if uneven else [many]):
        m.set_gradient_divide_factor(1.0)  # sums are those of the loss; without it they are divided, as elsewhere
    for p, shape in zip(many.parameters(), whole):
        assert p.device_mesh == mesh and p.shape == shape
    a, b = (facula.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=0.01) for m in (one, many))
    for step in range(3):
        g = facula.Generator().manual_seed(step)
        x, y = facula.randn(8, 6, generator=g), facula.randn(8, 5, generator=g)
        losses = []
        for m, o, place in ((one, a, lambda t: t), (many, b, lambda t: distribute_tensor(t, mesh, layout))):
            o.zero_grad()
            loss = (m(place(x)) - place(y)).square().mean()
            loss.backward()
            losses.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
            if m is many:
                for p, q in zip(one.parameters(), many.parameters()):
                    assert (q.grad is None) == (p.grad is None)
                    if q.grad is not None:
                        assert q.grad.placements == q.placements
                        assert facula.allclose(q.grad.full_tensor(), p.grad, atol=1e-5), (names, dims, step)
            o.step()
        assert abs(losses[0] - losses[1]) < 1e-5, (names, losses)
    for p, q in zip(one.parameters(), many.parameters()):
        assert facula.allclose(q.full_tensor() if isinstance(q, DTensor) else q, p, atol=1e-4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
only = DataParallelMeshDims(shard="dp")
raised(lambda: fully_shard(network(), mesh=mesh, dp_mesh_dims=only), "ValueError", "parameters must be DTensors", "a Tensor")
cut = distribute_module(nn.Linear(4, 4), mesh, lambda n, m, g: m.register_parameter("weight", nn.Parameter(distribute_tensor(m.weight.detach(), g, [S0, R]))))
raised(lambda: fully_shard(cut, mesh=mesh, dp_mesh_dims=only), "ValueError", "weight must be Replicate() over dp_mesh_dims")
raised(lambda: fully_shard(cut, mesh=mesh, dp_mesh_dims=DataParallelMeshDims(shard="no")), "ValueError", "dimensions of ('dp', 'tp')")
raised(lambda: DataParallelMeshDims(), "ValueError", "got neither")
plain = on_grid(network(), mesh, {})
fully_shard(plain, mesh=mesh, dp_mesh_dims=only)
plain(distribute_tensor(facula.ones(4, 6), mesh, [S0, R])).sum().backward()
one = network()
one(facula.ones(4, 6)).sum().backward()
assert facula.allclose(plain[2].bias.grad.full_tensor(), one[2].bias.grad / 2)
print("ok")
"""


def test_grids_of_which_some_dimensions_are_data():
    assert run_ranks(GRIDS, 4) == ["ok\n"] * 4
