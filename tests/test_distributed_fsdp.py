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
raised(lambda: fully_shard(nn.Linear(2, 2), dp_mesh_dims=1), "NotImplementedError", "dp_mesh_dims")
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
