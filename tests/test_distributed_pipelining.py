"""Pipelines: losses and gradients of one process."""

from distributed_ranks import needs_mpi, run_ranks

pytestmark = needs_mpi

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
raised(lambda: PipelineStage(mine, RANK, 7, "cpu"), "NotImplementedError", "got 7 stages")
raised(lambda: PipelineStage(mine, (RANK + 1) % SIZE, SIZE, "cpu"), "has its number")
raised(lambda: ScheduleGPipe(PipelineStage(mine, RANK, SIZE, "cpu"), 0), "must be positive, got 0")
if RANK == 0:
    raised(lambda: schedule.step(facula.ones(2, 4)), "an element for each of 5 pieces", "(2, 4)")
if RANK == SIZE - 1:
    raised(lambda: schedule.step(), "needs a target")
print("ok")
"""


def test_pipelines():
    assert run_ranks(PIPELINE, 3) == ["ok\n"] * 3
