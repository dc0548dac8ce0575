"""Pipelines: losses and gradients of one process."""

import pytest
from distributed_ranks import needs_mpi, run_ranks

import facula
from facula import nn
from facula.distributed.pipelining import SplitPoint, pipe_split, pipeline

PIPELINE = """
import copy
from facula import nn
import facula.nn.functional as F
from facula.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
dist.init_process_group("gloo", timeout=timedelta(seconds=60))

class Two(nn.Module):  # two tensors between stages, one of them without a gradient
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
    def forward(self, x):
        return self.linear(x).tanh(), facula.arange(x.shape[0])

class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
    def forward(self, x, n, scale=1.0):
        return self.linear(x).relu() * scale + n.unsqueeze(1)

def parts():
    facula.manual_seed(0)
    return [Two(), Middle(), nn.Linear(5, 3)]

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(parts())
    def forward(self, x):
        return self.parts[2](self.parts[1](*self.parts[0](x)))

for kind in (ScheduleGPipe, Schedule1F1B):
    for pieces in (1, 2, 5):
        one, mine = Whole(), parts()[RANK]
        optimizers = [facula.optim.SGD(m.parameters(), lr=0.1) for m in (one, mine)]
        schedule = kind(PipelineStage(mine, RANK, SIZE, "cpu"), pieces, loss_fn=F.mse_loss)
        for step in range(3):
            g = facula.Generator().manual_seed(step)
            x, y = facula.randn(10, 4, generator=g), facula.randn(10, 3, generator=g)
            for o in optimizers:
                o.zero_grad()
            outputs, losses = [], []
            for a, b in zip(x.tensor_split(pieces), y.tensor_split(pieces)):
                outputs.append(one(a))
                losses.append(F.mse_loss(outputs[-1], b))
            (sum(losses) / pieces).backward()
            told = []
            result = schedule.step(*([x] if RANK == 0 else []), **({"target": y, "losses": told} if RANK == SIZE - 1 else {}))
            if RANK == SIZE - 1:
                assert facula.allclose(result, facula.cat(outputs), atol=1e-6)
                assert facula.allclose(facula.stack(told), facula.stack(losses), atol=1e-6)
            else:
                assert result is None
            for p, q in zip(one.parts[RANK].parameters(), mine.parameters()):
                assert facula.allclose(p.grad, q.grad, atol=1e-6), (kind, pieces, step)
            for o in optimizers:
                o.step()
        result = schedule.eval(*([x] if RANK == 0 else []))
        if RANK == SIZE - 1:
            assert facula.allclose(result, facula.cat([one(a) for a in x.tensor_split(pieces)]), atol=1e-6)
raised(lambda: PipelineStage(mine, RANK, 7, "cpu"), "ValueError", "got 7 stages")
raised(lambda: PipelineStage(mine, 3, SIZE, "cpu"), "ValueError", "got stage_index 3")
raised(lambda: PipelineStage(mine, RANK, SIZE, "cpu", dw_builder=3), "TypeError", "dw_builder")
raised(lambda: ScheduleGPipe(PipelineStage(mine, (RANK + 1) % SIZE, SIZE, "cpu"), 2), f"rank {RANK} of 3 has stages [{RANK}]")
raised(lambda: ScheduleGPipe(PipelineStage(mine, RANK, SIZE, "cpu"), 0), "must be positive, got 0")
if RANK == 0:
    raised(lambda: schedule.step(facula.ones(2, 4)), "an element for each of 5 pieces", "(2, 4)")
if RANK == SIZE - 1:
    raised(lambda: schedule.step(), "needs a target")
print("ok")
"""


CUT = """
import copy
from facula import nn
import facula.nn.functional as F
from facula.distributed.pipelining import Schedule1F1B, SplitPoint, build_stage, pipeline
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
facula.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(4, 5), nn.ModuleList([nn.Linear(5, 5) for _ in range(3)])
    def forward(self, x):
        start = h = self.first(x)
        for layer in self.layers:
            h = layer(h).tanh()
        return h + start  # goes through all parts

one = Net()
pipe = pipeline(copy.deepcopy(one), (facula.ones(2, 4),), split_spec={"layers.0": SplitPoint.END, "layers.2": SplitPoint.BEGINNING})
stage = pipe.build_stage(RANK, "cpu")
names = [name for name, _ in stage.submod.named_parameters()]
schedule = Schedule1F1B(stage, 3, loss_fn=F.mse_loss)
x, y = facula.randn(6, 4), facula.randn(6, 5)
out = [one(part) for part in x.chunk(3)]
(sum(F.mse_loss(o, part) for o, part in zip(out, y.chunk(3))) / 3).backward()
result = schedule.step(*([x] if RANK == 0 else []), **({"target": y} if RANK == SIZE - 1 else {}))
if RANK == SIZE - 1:
    assert facula.allclose(result, facula.cat(out), atol=1e-6)
whole = dict(one.named_parameters())
assert names and all(facula.allclose(p.grad, whole[name].grad, atol=1e-6) for name, p in stage.submod.named_parameters())
print("ok")
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.scale = nn.Parameter(facula.full((4,), 2.0))
        self.register_buffer("shift", facula.ones(4))

    def forward(self, x, flag=True, y=None):
        start = x = self.first(x)
        for layer in self.layers:
            x = facula.relu(layer(x)) + self.shift
        return x * self.scale + start if flag else x


def test_a_model_is_cut_where_it_is_said():
    net, x = Net(), facula.randn(2, 4)
    spec = {"layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.END}
    for flag in ((), (True,), (False,)):
        pipe = pipeline(net, (x, *flag), split_spec=spec)
        assert pipe.num_stages == pipe.info().num_stages == 3 and facula.equal(pipe(x), net(x, *flag))
    pipe = pipeline(net, (x,), {"flag": True}, split_spec=spec)
    names = [[name for name, _ in pipe.get_stage_module(i).named_parameters()] for i in range(3)]
    assert names[0] == ["first.weight", "first.bias", "layers.0.weight", "layers.0.bias"]
    assert set(names[2]) == {"scale", "layers.3.weight", "layers.3.bias"}
    assert [n.name for n in pipe.get_stage_module(1).graph.nodes if n.op == "placeholder"] == ["first", "add"]
    with pytest.raises(ValueError, match="there are 3 stages, got 3"):
        pipe.get_stage_module(3)


def test_a_model_says_itself_where_it_is_cut():
    class Said(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.a(x)
            pipe_split()
            return self.b(x)

    net, x = Said(), facula.randn(2, 4)
    pipe = pipeline(net, (x,))
    assert pipe.num_stages == 2 and facula.equal(pipe(x), net(x)) and pipeline(nn.Linear(4, 4), (x,)).num_stages == 1

    def policy(gm):
        relu = next(node for node in gm.graph.nodes if node.name == "relu")
        with gm.graph.inserting_after(relu):
            gm.graph.call_function(pipe_split, ())
        return gm

    pipe = pipeline(Net(), (x,), split_policy=policy)
    assert pipe.num_stages == 2


def test_what_cannot_be_cut():
    x = facula.randn(2, 4)
    with pytest.raises(AttributeError, match="has no module 'none'"):
        pipeline(Net(), (x,), split_spec={"none": SplitPoint.END})
    with pytest.raises(TypeError, match="is a SplitPoint, got 1"):
        pipeline(Net(), (x,), split_spec={"first": 1})
    with pytest.raises(ValueError, match="^pipeline: .*got both"):
        pipeline(Net(), (x,), split_spec={}, split_policy=lambda gm: gm)
    with pytest.raises(NotImplementedError, match="tensors are given by position"):
        pipeline(Net(), (x,), {"y": x})

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            x = self.a(x)
            pipe_split()
            return x @ self.a.weight

    with pytest.raises(NotImplementedError, match=r"a parameter belongs to one stage, got 'a.weight' in stages \[0, 1\]"):
        pipeline(Tied(), (x,))


@needs_mpi
def test_processes_run_the_parts_of_a_model_that_was_cut():
    assert run_ranks(CUT, 3) == ["ok\n"] * 3


SEVERAL = """
from facula import nn
import facula.nn.functional as F
from facula.distributed.pipelining import PipelineStage, ScheduleDualPipeV, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleLoopedBFS, ScheduleZBVZeroBubble
from facula.distributed.pipelining.schedules import get_schedule_class
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
facula.set_default_dtype(facula.float64)

class Plain(nn.Module):  # each kind of stage takes and gives (x, n): n has no gradient
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 4)
    def forward(self, x, n=None):
        n = facula.arange(x.shape[0]) if n is None else n + 1
        return self.down(self.up(x).tanh()), n
class Shared(Plain):  # one weight in two places
    def forward(self, x, n=None):
        x, n = super().forward(x, n)
        return super().forward(x + x.sin(), n)
class Nothing(nn.Module):  # no weights
    def forward(self, x, n=None):
        return x.sin() + n.unsqueeze(1) / 10, n
class Aside(Plain):  # weights that the input does not reach, and a weight that is computed
    def __init__(self):
        super().__init__()
        self.shift, self.scale = nn.Parameter(facula.ones(4)), nn.Parameter(facula.ones(3))
    def forward(self, x, n=None):
        return F.layer_norm(x, (4,), self.scale.exp().sum() * self.shift, self.shift.tanh()) @ self.up.weight.t() @ self.down.weight.t() + self.up.bias.sum(), n
class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)
    def forward(self, x, n):
        return self.out(x) * (n.unsqueeze(1) % 3 + 1)

def parts(count):
    facula.manual_seed(0)
    kinds = [Plain, Shared, Nothing, Aside]
    return [Last() if i == count - 1 else kinds[i % 4]() for i in range(count)]

def whole(parts, x):
    x = (x,)
    for p in parts:
        x = p(*x)
        x = x if isinstance(x, tuple) else (x,)
    return x[0]

for kind, count, pieces in ((ScheduleLoopedBFS, 2 * SIZE, 3), (ScheduleInterleaved1F1B, 2 * SIZE, 2 * SIZE), (ScheduleInterleaved1F1B, 3 * SIZE, SIZE),
                            (ScheduleInterleaved1F1B, 2 * SIZE, 1), (ScheduleInterleavedZeroBubble, 2 * SIZE, 2 * SIZE), (ScheduleInterleavedZeroBubble, 3 * SIZE, 2),
                            (ScheduleInterleavedZeroBubble, SIZE, 4), (ScheduleZBVZeroBubble, 2 * SIZE, 2 * SIZE), (ScheduleZBVZeroBubble, 2 * SIZE, 1),
                            (ScheduleDualPipeV, 2 * SIZE, 2 * SIZE), (ScheduleDualPipeV, 2 * SIZE, 2 * SIZE + 3)):
    one, all_parts = nn.ModuleList(parts(count)), parts(count)
    places = [kind._place(s, SIZE) for s in range(count)]
    mine = {s: all_parts[s] for s in range(count) if places[s] == RANK}
    stages = [PipelineStage(p, s, count, "cpu") for s, p in mine.items()]
    options = {"loss_fn": F.mse_loss}
    schedule = kind(stages, pieces, **options)
    optimizers = [facula.optim.SGD([p for m in ms for p in m.parameters()] or [facula.zeros(1)], lr=0.005) for ms in (one, list(mine.values()))]
    for step in range(3):
        g = facula.Generator().manual_seed(step)
        x, y = facula.randn(2 * pieces, 4, generator=g), facula.randn(2 * pieces, 3, generator=g)
        for o in optimizers:
            o.zero_grad()
        outputs = [whole(one, a) for a in x.tensor_split(pieces)]
        losses = [F.mse_loss(o, b) for o, b in zip(outputs, y.tensor_split(pieces))]
        (sum(losses) / pieces).backward()
        told = []
        result = schedule.step(*([x] if places[0] == RANK else []), **({"target": y, "losses": told} if places[-1] == RANK else {}))
        if places[-1] == RANK:
            assert facula.allclose(result, facula.cat(outputs), atol=1e-5), (kind, step)
            assert facula.allclose(facula.stack(told), facula.stack(losses), atol=1e-5)
        else:
            assert result is None
        for s, m in mine.items():
            for (name, p), (_, q) in zip(one[s].named_parameters(), m.named_parameters()):
                assert (p.grad is None) == (q.grad is None), (kind, s, name)
                assert p.grad is None or facula.allclose(p.grad, q.grad, atol=1e-5, rtol=1e-4), (kind, s, name, p.grad, q.grad)
        for o in optimizers:
            o.step()
    result = schedule.eval(*([x] if places[0] == RANK else []))
    assert places[-1] != RANK or facula.allclose(result, facula.cat([whole(one, a) for a in x.tensor_split(pieces)]), atol=1e-5)
assert get_schedule_class("zbvzerobubble") is ScheduleZBVZeroBubble and get_schedule_class("Interleaved1F1B") is ScheduleInterleaved1F1B
raised(lambda: get_schedule_class("none"), "ValueError", "'none'", "1f1b")
raised(lambda: ScheduleZBVZeroBubble(stages[:1], 2), "has stages")
raised(lambda: ScheduleDualPipeV(stages, 2 * SIZE - 1), "as many pieces as there are stages")
raised(lambda: ScheduleLoopedBFS(stages, 2, backward_requires_autograd=False), "NotImplementedError")
print("ok")
"""


SUMMED = """
# stages in two processes each, whose gradients are summed once for a batch
from facula import nn
import facula.nn.functional as F
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.fsdp import FSDPModule, fully_shard
from facula.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleDualPipeV, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble
from facula.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stages"))
data, place = RANK // 2, RANK % 2
def parts(count):
    facula.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(count)]
messages = []
def spread(module):
    def gradients(output_tensor, input_tensor, group, op, async_op=False):
        messages.append("sum")
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group=group, async_op=async_op)
    fully_shard(module[2], mesh=grid["data"])
    fully_shard(module, mesh=grid["data"])
    for m in (module, module[2]):
        m.set_custom_reduce_scatter(gradients)
    return module
def shared(module):
    ddp = DDP(module, process_group=grid.get_group("data"))
    ddp.register_comm_hook(None, lambda state, bucket: messages.append("sum") or average(bucket))
    return ddp
def average(bucket):
    tensor = bucket.buffer().div_(2)
    return dist.all_reduce(tensor, group=grid.get_group("data"), async_op=True).get_future()
for wrap in (shared, spread):
    for kind, count, pieces in ((ScheduleDualPipeV, 4, 5), (Schedule1F1B, 2, 4), (ScheduleInterleavedZeroBubble, 4, 4), (ScheduleZBVZeroBubble, 4, 3)):
        one, mine = parts(count), {s: p for s, p in enumerate(parts(count)) if kind._place(s, 2) == place}
        mine = {s: wrap(p) for s, p in mine.items()}
        stages = [PipelineStage(p, s, count, "cpu", group=grid.get_group("stages")) for s, p in mine.items()]
        schedule = kind(stages[0] if count == 2 else stages, pieces, loss_fn=F.mse_loss)
        optimizers = [facula.optim.SGD([p for m in ms for p in m.parameters()], lr=0.1) for ms in (one, mine.values())]
        for step in range(3):
            g = facula.Generator().manual_seed(step)
            x, y = facula.randn(4 * pieces, 4, generator=g), facula.randn(4 * pieces, 4, generator=g)
            for o in optimizers:
                o.zero_grad()
            F.mse_loss(nn.Sequential(*one)(x), y).backward()
            half = slice(2 * pieces * data, 2 * pieces * (data + 1))
            last = place == kind._place(count - 1, 2)
            messages.clear()
            schedule.step(*([x[half]] if place == 0 else []), **({"target": y[half]} if last else {}))
            assert len(messages) == (1 if wrap is shared else 2) * len(mine), (wrap, kind, messages)
            for s, m in mine.items():
                for p, q in zip(one[s].parameters(), m.parameters()):
                    grad = q.grad.full_tensor() if wrap is spread else q.grad
                    assert facula.allclose(p.grad, grad, atol=1e-5), (wrap, kind, s, step)
            for o in optimizers:
                o.step()
print("ok")
"""


LATER = """
# a part that computes gradients of its weights when it is told to
from facula import nn
import facula.nn.functional as F
from facula.distributed.pipelining import PipelineStage, ScheduleDualPipeV, ScheduleInterleaved1F1B, ScheduleZBVZeroBubble
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
facula.set_default_dtype(facula.float64)

class Product(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.save_for_backward(x)
        ctx.layer = layer
        return x @ layer.weight
    @staticmethod
    def backward(ctx, grad):
        ctx.layer.put_off(ctx.saved_tensors[0], grad)
        return grad @ ctx.layer.weight.detach().t(), None

class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.pieces, self.most, self.waiting = nn.Parameter(facula.randn(4, 4)), [], 0, 0
    def forward(self, x):
        return Product.apply(x if x.requires_grad else x.clone().requires_grad_(), self).tanh()
    def put_off(self, x, grad):
        self.pieces.append((x, grad))
    def weights_later(self):
        mine, self.pieces = self.pieces, []
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        def compute():
            self.waiting -= 1
            for x, grad in mine:
                g = x.detach().t() @ grad
                self.weight.grad = g if self.weight.grad is None else self.weight.grad + g
        return compute

for kind, pieces in ((ScheduleInterleaved1F1B, 4), (ScheduleZBVZeroBubble, 4), (ScheduleDualPipeV, 5)):
    facula.manual_seed(0)
    parts = [Late() for _ in range(4)]
    mine = {s: parts[s] for s in range(4) if kind._place(s, 2) == RANK}
    stages = [PipelineStage(p, s, 4, "cpu", dw_builder=p.weights_later) for s, p in mine.items()]
    x, y = facula.randn(10, 4), facula.randn(10, 4)
    last = kind._place(3, 2) == RANK
    kind(stages, pieces, loss_fn=F.mse_loss).step(*([x] if RANK == 0 else []), **({"target": y} if last else {}))
    weights = [p.weight.detach().requires_grad_() for p in parts]
    loss = 0.0
    for a, b in zip(x.tensor_split(pieces), y.tensor_split(pieces)):
        for w in weights:
            a = (a @ w).tanh()
        loss = loss + F.mse_loss(a, b)
    (loss / pieces).backward()
    for s, p in mine.items():
        assert facula.allclose(p.weight.grad, weights[s].grad), (kind, s)
        assert p.waiting == 0, (kind, s)
    most = facula.tensor([max(p.most for p in mine.values())])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert (most.item() > 1) == (kind is ScheduleZBVZeroBubble), (kind, most)
print("ok")
"""


@needs_mpi
@pytest.mark.parametrize("size", [2, 3])
def test_several_stages(size):
    assert run_ranks(SEVERAL, size) == ["ok\n"] * size


@needs_mpi
def test_weights_by_hand():
    assert run_ranks(LATER, 2) == ["ok\n"] * 2


@pytest.mark.slow
@needs_mpi
def test_sums_over_processes():
    assert run_ranks(SUMMED, 4) == ["ok\n"] * 4


@needs_mpi
def test_pipelines():
    assert run_ranks(PIPELINE, 3) == ["ok\n"] * 3
