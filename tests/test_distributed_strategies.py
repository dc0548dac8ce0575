"""One small transformer, trained for 20 steps in every way there is to spread it: the losses of one process.

The program has no random numbers and no names of Facula's own, so that it runs with PyTorch as well
(`python tests/test_distributed_strategies.py torch` prints it): by hand the losses are compared with PyTorch's.
"""

import json
import sys

import pytest
from distributed_ranks import HEAD, needs_mpi, run_ranks

pytestmark = needs_mpi

PROGRAM = """
import json, math
from facula import nn
import facula.nn.functional as F
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from facula.distributed.fsdp import fully_shard
from facula.distributed.optim import ZeroRedundancyOptimizer
from facula.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble, ScheduleLoopedBFS, ScheduleZBVZeroBubble)
from facula.distributed.tensor import DTensor, Replicate, Shard
from facula.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
    loss_parallel, parallelize_module)
from facula.nn.parallel import DistributedDataParallel as DDP
facula.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
WORDS, WIDTH, HEADS, LENGTH, BATCH, STEPS = 24, 32, 4, 8, 8, 20

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (m(x).view(b, t, -1, WIDTH // HEADS).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))

class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
    def forward(self, x):
        return self.down(F.gelu(self.up(x)))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.attention, self.n2, self.feed = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Feed()
    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.feed(self.n2(x))

class Begin(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.block = nn.Embedding(WORDS, WIDTH), Block()
    def forward(self, ids):
        return self.block(self.tokens(ids))

class End(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.norm, self.out = Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
    def forward(self, x):
        return self.out(self.norm(self.block(x)))

def make():
    model = nn.Sequential(Begin(), Block(), Block(), End())
    with facula.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            values = facula.sin(facula.arange(p.numel(), dtype=facula.float64) * (i + 1.37) + i).view(p.shape)
            scale = 1.0 if "tokens" in name else 1.7 / math.sqrt(p.shape[-1])
            p.copy_((values * scale if p.dim() > 1 else 1 + 0.1 * values if name.split(".")[-2].startswith("n") else 0.1 * values).float())
    return model

def batch(step):
    n = facula.arange(BATCH * (LENGTH + 1)).view(BATCH, LENGTH + 1)
    ids = (n * n * 5 + n * 3 + step % 2 * 11) % WORDS
    return ids[:, :-1], ids[:, 1:]

def loss_of(out, target):
    return F.cross_entropy(out.flatten(0, 1), target.flatten())

def adam(parameters):
    return facula.optim.AdamW(parameters, lr=0.01)

def mean(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss.item() / SIZE

def run(model, optimizer, everything=False, clip=False, step_of=None):
    losses = []
    n = BATCH // SIZE
    for step in range(STEPS):
        x, y = batch(step)
        if not everything:
            x, y = x[RANK * n : (RANK + 1) * n], y[RANK * n : (RANK + 1) * n]
        optimizer.zero_grad()
        with loss_parallel():
            loss = loss_of(model(x), y)
            loss.backward()
        if clip:
            facula.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        whole = loss.full_tensor() if isinstance(loss, DTensor) else loss
        losses.append(whole.item() if everything else mean(whole))
    return losses

def one():
    model = make()
    return run(model, adam(model.parameters()), everything=True)

def ddp():
    model = DDP(make())
    return run(model, adam(model.parameters()))

def zero():
    model = DDP(make())
    return run(model, ZeroRedundancyOptimizer(model.parameters(), facula.optim.AdamW, lr=0.01))

def zero_overlap():
    model = DDP(make())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), facula.optim.AdamW, overlap_with_ddp=True, lr=0.01)
    model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, optimizer))
    return run(model, optimizer)

def cut(model, tp):
    keep = {"use_local_output": False}
    for name, m in model.named_modules():
        if isinstance(m, Block):
            parallelize_module(m, tp, {
                "n1": SequenceParallel(), "n2": SequenceParallel(),
                "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                **{f"attention.{n}": ColwiseParallel() for n in "qkv"},
                "attention.o": RowwiseParallel(output_layouts=Shard(1), **keep),
                "feed": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "feed.up": ColwiseParallel(), "feed.down": RowwiseParallel(output_layouts=Shard(1), **keep),
            })
    return parallelize_module(model, tp, {
        "0.tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), **keep),
        "3.norm": SequenceParallel(),
        "3.out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate() if NO_LOSS_PARALLEL else Shard(-1), use_local_output=NO_LOSS_PARALLEL),
    })

NO_LOSS_PARALLEL = False

def tensor():
    model = cut(make(), init_device_mesh("cpu", (SIZE,)))
    return run(model, adam(model.parameters()), everything=True)

def spread(model, mesh):
    for m in model:
        fully_shard(m, mesh=mesh)
    return fully_shard(model, mesh=mesh)

def fsdp():
    model = spread(make(), init_device_mesh("cpu", (SIZE,)))
    return run(model, adam(model.parameters()))

def fsdp_tensor():
    grid = init_device_mesh("cpu", (1, SIZE), mesh_dim_names=("data", "tp"))
    model = spread(cut(make(), grid["tp"]), grid["data"])
    return run(model, adam(model.parameters()), everything=True)

def pipeline(kind, places):
    mine = [s for s, rank in enumerate(places) if rank == RANK]
    parts = list(make())
    if len(places) == 2:
        parts = [nn.Sequential(*parts[:2]), nn.Sequential(*parts[2:])]
    stages = [PipelineStage(parts[s], s, len(places), facula.device("cpu")) for s in mine]
    schedule = kind(stages[0] if len(places) == 2 else stages, 4, loss_fn=loss_of)
    optimizer = adam([p for s in mine for p in parts[s].parameters()])
    losses = []
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        told = []
        schedule.step(*([x] if 0 in mine else []), **({"target": y, "losses": told} if len(places) - 1 in mine else {}))
        optimizer.step()
        total = facula.stack(told).mean() if told else facula.zeros(())
        losses.append(mean(total) * SIZE)
    return losses

ways = {"one process": one, "DDP": ddp, "ZeRO": zero, "ZeRO inside": zero_overlap, "FSDP": fsdp, "tensor": tensor, "FSDP of tensor": fsdp_tensor}
for kind, places in ((ScheduleGPipe, [0, 1]), (Schedule1F1B, [0, 1]), (ScheduleLoopedBFS, [0, 1] * 2), (ScheduleInterleaved1F1B, [0, 1] * 2),
                     (ScheduleInterleavedZeroBubble, [0, 1] * 2), (ScheduleZBVZeroBubble, [0, 1, 1, 0])):
    ways[kind.__name__] = lambda kind=kind, places=places: pipeline(kind, places)
found = {}
for name, way in ways.items():
    if name not in LEAVE_OUT:
        found[name] = way()
if RANK == 0:
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def losses():
    return json.loads(run_ranks("LEAVE_OUT = ()\n" + PROGRAM, 2)[0])


@pytest.mark.slow
def test_all_ways_ran(losses):
    assert len(losses) == 13 and all(len(found) == 20 for found in losses.values())
    one = losses["one process"]
    assert one[-1] < 0.85 * one[0]  # it learns something


@pytest.mark.parametrize(
    "way",
    [
        "DDP", "ZeRO", "ZeRO inside", "FSDP", "tensor", "FSDP of tensor", "ScheduleGPipe", "Schedule1F1B", "ScheduleLoopedBFS",
        "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble",
    ],
)  # fmt: skip
def test_losses_of_one_process(losses, way):
    assert losses[way] == pytest.approx(losses["one process"], rel=1e-5)


if __name__ == "__main__":
    print(HEAD.replace("facula", sys.argv[1]) + "LEAVE_OUT = ('ZeRO inside',)" + PROGRAM.replace("facula", sys.argv[1]))
