"""Optimizers over several processes: the parameters of one process, state in shares."""

import pytest
from distributed_ranks import needs_mpi, run_ranks
from test_distributed_ddp import SETUP

import facula

pytestmark = needs_mpi

ZERO = SETUP + """
from facula.distributed.optim import ZeroRedundancyOptimizer as Zero
import io
for kind, options in ((facula.optim.Adam, {"lr": 0.01}), (facula.optim.SGD, {"lr": 0.1, "momentum": 0.9})):
    one, ddp = model(), DDP(model())
    plain = kind(one.parameters(), **options)
    zero = Zero(ddp.parameters(), optimizer_class=kind, **options)
    scheduler = [facula.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (plain, zero)]
    def train(steps):
        for step in steps:
            for m, o, (x, y) in ((one, plain, batch(step)), (ddp, zero, batch(step, RANK))):
                o.zero_grad()
                F.mse_loss(m(x), y).backward()
                o.step()
            for s in scheduler:
                s.step()
    train(range(4))
    same(one, ddp.module, 1e-5)
    mine = len(zero.optim.state)
    assert 0 < mine < len(list(one.parameters()))
    counts = [None] * SIZE
    dist.all_gather_object(counts, mine)
    assert sum(counts) == len(list(one.parameters()))
    zero.consolidate_state_dict(to=1)
    if RANK == 1:
        state, expected = zero.state_dict(), plain.state_dict()
        assert state["param_groups"][0]["params"] == expected["param_groups"][0]["params"]
        assert state["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"]
        for number, values in expected["state"].items():
            for key, value in values.items():
                assert facula.allclose(facula.as_tensor(state["state"][number][key]), facula.as_tensor(value), atol=1e-6), (number, key)
    else:
        raised(zero.state_dict, "consolidate_state_dict")
        state = None
    told = [state]
    dist.broadcast_object_list(told, src=1)
    again = Zero(ddp.parameters(), optimizer_class=kind, **options)
    again.load_state_dict(told[0])
    zero = again
    scheduler.pop()
    train(range(4, 6))
    for g in zero.param_groups:
        assert g["lr"] == told[0]["param_groups"][0]["lr"]
# groups that are added, and a share that is empty
zero = Zero([nn.Parameter(facula.ones(3))], facula.optim.SGD, lr=1.0)
extra = nn.Parameter(facula.ones(2))
zero.add_param_group({"params": [extra], "lr": 2.0})
for g in zero.param_groups:
    for p in g["params"]:
        p.grad = facula.ones_like(p)
zero.step()
assert [g["params"][0].tolist() for g in zero.param_groups] == [[0.0] * 3, [-1.0] * 2]
raised(lambda: Zero([], facula.optim.SGD, lr=1.0), "got none")
raised(Zero([extra], facula.optim.SGD, lr=1.0, overlap_with_ddp=True).step, "RuntimeError", "hook_with_zero_step")
print("ok")
"""

OVERLAP = SETUP + """
from facula.distributed.optim import ZeroRedundancyOptimizer as Zero
from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from facula.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step, hook_with_zero_step_interleaved
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, m) for n, m in ((5, 40), (40, 40), (40, 40), (40, 2)))
        self.never, self.sometimes = nn.Parameter(facula.ones(3)), nn.Parameter(facula.ones(2))
    def forward(self, x, other=False):
        for layer in self.layers[:-1]:
            x = layer(x).tanh()
        x = self.layers[-1](x)
        return x * self.sometimes if other else x
def make():
    facula.manual_seed(0)
    return Net()
g = lambda step, n: facula.randn(SIZE * 2, n, generator=facula.Generator().manual_seed(10 * step + n))
for kind, options in ((facula.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}), (facula.optim.SGD, {"lr": 0.1, "momentum": 0.9})):
    for hook in (hook_with_zero_step, hook_with_zero_step_interleaved):
        one, ddp = make(), DDP(make(), bucket_cap_mb=0.003)
        plain = kind(one.parameters(), **options)
        zero = Zero(ddp.parameters(), kind, overlap_with_ddp=True, **options)
        ddp.register_comm_hook(None, hook(allreduce_hook, ddp, zero))
        schedulers = [facula.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (plain, zero)]
        for step in range(5):
            x, y = g(step, 5), g(step, 2)
            plain.zero_grad()
            zero.zero_grad()
            # the last process alone uses one parameter, in some steps
            other = step % 2 == 1
            parts = [F.mse_loss(one(x[2 * r : 2 * r + 2], other and r == SIZE - 1), y[2 * r : 2 * r + 2]) for r in range(SIZE)]
            (sum(parts) / SIZE).backward()
            before = ddp.module.layers[0].weight.detach().clone()
            F.mse_loss(ddp(x[2 * RANK : 2 * RANK + 2], other and RANK == SIZE - 1), y[2 * RANK : 2 * RANK + 2]).backward()
            assert not facula.equal(ddp.module.layers[0].weight, before)
            plain.step()
            assert zero.step() is None
            for (name, p), q in zip(one.named_parameters(), ddp.module.parameters()):
                assert facula.allclose(p, q, atol=1e-5), (kind, hook, step, name)
            for s in schedulers:
                s.step()
        assert len(ddp.reducer._buckets) > 2
        zero.consolidate_state_dict(to=0)
        if RANK == 0:
            state, expected = zero.state_dict(), plain.state_dict()
            assert set(state["state"]) == set(expected["state"]) and state["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"]
            for number, values in expected["state"].items():
                for key, value in values.items():
                    assert facula.allclose(facula.as_tensor(state["state"][number][key]), facula.as_tensor(value), atol=1e-5), (number, key)
# kept back by no_sync, and in half precision
ddp = DDP(make())
zero = Zero(ddp.parameters(), facula.optim.SGD, overlap_with_ddp=True, lr=0.1)
ddp.register_comm_hook(None, hook_with_zero_step(bf16_compress_hook, ddp, zero))
before = [p.detach().clone() for p in ddp.parameters()]
with ddp.no_sync():
    ddp(g(0, 5)).sum().backward()
assert all(facula.equal(p, q) for p, q in zip(ddp.parameters(), before))
ddp(g(0, 5)).sum().backward()
for p, q in zip(ddp.parameters(), before):
    assert p.grad is None or facula.allclose(p, q - 0.1 * p.grad, atol=1e-6)
assert not facula.equal(ddp.module.layers[0].weight, before[0])
raised(lambda: hook_with_zero_step(allreduce_hook, ddp, Zero(ddp.parameters(), facula.optim.SGD, lr=0.1)), "ValueError", "overlap_with_ddp=True")
raised(lambda: hook_with_zero_step(allreduce_hook, ddp.module, zero), "TypeError", "Net")
print("ok")
"""

AVERAGES = SETUP + """
from facula.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from facula.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from facula.distributed.optim import PostLocalSGDOptimizer
def differs(p):
    parts = [facula.zeros_like(p) for _ in range(SIZE)]
    dist.all_gather(parts, p.detach())
    return not all(facula.allclose(q, parts[0]) for q in parts)
net = model()
optimizer = PostLocalSGDOptimizer(facula.optim.SGD(net.parameters(), lr=0.1), PeriodicModelAverager(2, warmup_steps=1))
seen = []
for step in range(5):
    optimizer.zero_grad()
    F.mse_loss(net(batch(step, RANK)[0]), batch(step, RANK)[1]).backward()
    optimizer.step()
    seen.append(differs(net[0].weight))
assert seen == [True, False, True, False, True], seen
state = optimizer.state_dict()
assert state["step"] == 5
optimizer.averager.step = 0
optimizer.load_state_dict(state)
assert optimizer.averager.step == 5
p = nn.Parameter(facula.full((2,), float(RANK)))
p.grad = facula.zeros(2)
averager = HierarchicalModelAverager({2: 2, 4: 4})
values = []
for step in range(4):
    averager.average_parameters([p])
    values.append(p[0].item())
    with facula.no_grad():
        p.add_(RANK)
# step 0: all four, then own values; step 2: pairs
expected = [1.5, 1.5 + RANK, (1.5 * 2 + 2 * (RANK // 2 * 4 + 1)) / 2, None]
assert values[0] == 1.5 and values[1] == 1.5 + RANK and values[2] == expected[2], values
raised(lambda: PeriodicModelAverager(0), "period must be positive, got 0")
raised(lambda: HierarchicalModelAverager({2: 2}), "last size must be that of the group, 4, got 2")
print("ok")
"""


def test_zero_inside_the_backward_pass():
    assert run_ranks(OVERLAP, 3) == ["ok\n"] * 3


def test_zero():
    assert run_ranks(ZERO, 3) == ["ok\n"] * 3


def test_averages_of_parameters():
    assert run_ranks(AVERAGES, 4) == ["ok\n"] * 4


def test_optimizers_that_are_given_gradients():
    from facula.distributed.optim.utils import as_functional_optim, functional_optim_map, register_functional_optim

    start = facula.randn(3, 2, generator=facula.Generator().manual_seed(0))
    grads = [facula.randn(3, 2, generator=facula.Generator().manual_seed(i)) for i in range(1, 4)]
    for kind in [key for key in functional_optim_map if isinstance(key, type)]:  # other tests register names
        plain, given, alone = (facula.nn.Parameter(start.clone()) for _ in range(3))
        ours, several, one = kind([plain], lr=0.1), functional_optim_map[kind]([given], lr=0.1), as_functional_optim(kind, lr=0.1)
        given.grad = facula.full((3, 2), 5.0)
        for grad in grads:
            plain.grad = grad.clone()
            ours.step()
            several.step([grad])
            one.step_param(alone, grad)
        assert facula.equal(given, plain) and facula.equal(alone, plain) and given.grad.unique().tolist() == [5.0], kind
        assert several.state[given].keys() == ours.state[plain].keys()
        one.step_param(alone, None)
        assert facula.equal(alone, plain)
    with pytest.raises(ValueError, match="there is no functional form"):
        as_functional_optim(facula.optim.LBFGS)
    with pytest.raises(ValueError, match="empty parameter list"):
        functional_optim_map[facula.optim.SGD]([])
    with pytest.raises(ValueError, match="expected 1 gradients, got 2"):
        several.step(grads[:2])
    register_functional_optim("mine", functional_optim_map[facula.optim.SGD])
    assert type(as_functional_optim("mine", lr=0.5)) is functional_optim_map[facula.optim.SGD]
    del functional_optim_map["mine"]


def test_steps_in_backward_passes():
    from facula.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers

    def network():
        facula.manual_seed(0)
        return facula.nn.Sequential(facula.nn.Linear(3, 4), facula.nn.Tanh(), facula.nn.Linear(4, 1))

    plain, inside = network(), network()
    ours = [facula.optim.SGD(plain.parameters(), lr=0.1), facula.optim.Adam(plain[2].parameters(), lr=0.01)]
    _apply_optimizer_in_backward(facula.optim.SGD, inside.parameters(), {"lr": 0.1})
    _apply_optimizer_in_backward(facula.optim.Adam, inside[2].parameters(), {"lr": 0.01})
    assert [type(o).__name__ for o in _get_in_backward_optimizers(inside)] == ["SGD", "SGD", "SGD", "Adam", "SGD", "Adam"]
    for step in range(3):
        x = facula.randn(5, 3, generator=facula.Generator().manual_seed(step))
        for optimizer in ours:
            optimizer.zero_grad()
        plain(x).square().sum().backward()
        for optimizer in ours:
            optimizer.step()
        inside(x).square().sum().backward()
        assert all(p.grad is None for p in inside.parameters())
        assert all(facula.equal(p, q) for p, q in zip(plain.parameters(), inside.parameters()))
    kept = facula.nn.Parameter(facula.ones(2))
    _apply_optimizer_in_backward(facula.optim.SGD, [kept], {"lr": 1.0}, register_hook=False)
    kept.sum().backward()
    assert kept.tolist() == [1.0, 1.0] and kept._optimizer_kwargs == [{"lr": 1.0}]
