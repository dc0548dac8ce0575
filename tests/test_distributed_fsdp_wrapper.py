"""FullyShardedDataParallel, the older wrapper: its losses and its kinds of state."""

from distributed_ranks import needs_mpi, run_ranks
from fsdp_setup import SETUP

pytestmark = needs_mpi


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
