"""Styles of tensor parallel modules: the values and the gradients of one process."""

from distributed_ranks import needs_mpi, run_ranks
from dtensor_setup import SETUP

pytestmark = needs_mpi


PARALLEL = SETUP + """
import warnings
from facula.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput,
    RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)

class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        return self.down(F.gelu(self.up(x)))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(8), Feed()
    def forward(self, x):
        return x + self.feed(self.norm(x))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.layers, self.norm, self.out = nn.Embedding(12, 8), nn.ModuleList(Block() for _ in range(2)), nn.LayerNorm(8), nn.Linear(8, 12)
    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))

def make():
    facula.manual_seed(0)
    return Model()

plans = {
    "columns and rows": {"layers.*.feed.up": ColwiseParallel(), "layers.*.feed.down": RowwiseParallel()},
    "embedding by rows": {"tokens": RowwiseParallel(), "out": ColwiseParallel(output_layouts=Replicate()),
                          "layers.*.feed.up": ColwiseParallel(), "layers.*.feed.down": RowwiseParallel()},
    "embedding by features": {"tokens": ColwiseParallel(output_layouts=Replicate())},
    "sequence": {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
        "layers.*.norm": SequenceParallel(), "norm": SequenceParallel(),
        "layers.*.feed": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "layers.*.feed.up": ColwiseParallel(use_local_output=False),
        "layers.*.feed.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    },
    "classes": {"out": ColwiseParallel(use_local_output=False)},
}
for what, plan in plans.items():
    one, many = make(), parallelize_module(make(), mesh, plan)
    a, b = (facula.optim.AdamW(m.parameters(), lr=0.01) for m in (one, many))
    for step in range(3):
        ids = facula.randint(12, (2, 6), generator=facula.Generator().manual_seed(step))
        losses = []
        for m, o in ((one, a), (many, b)):
            o.zero_grad()
            out = m(ids)
            target = ids.roll(1, 1)
            if isinstance(out, DTensor):
                with loss_parallel():
                    loss = F.cross_entropy(out.flatten(0, 1), distribute_tensor(target.flatten(), mesh, [R]))
            else:
                loss = F.cross_entropy(out.flatten(0, 1), target.flatten())
            loss.backward()
            o.step()
            losses.append(whole(loss).item())
        assert abs(losses[0] - losses[1]) < 2e-5, (what, losses)
    for (name, p), q in zip(one.named_parameters(), many.parameters()):
        close(q.detach(), p.detach(), (what, name))
assert many.out.weight.to_local().shape == (12 // SIZE, 8)
layer = parallelize_module(nn.Identity(), mesh, PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate()))
assert layer(facula.full((2,), float(RANK))).tolist() == [float(r) for r in range(SIZE) for _ in range(2)]
both = PrepareModuleInputOutput(input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),), output_layouts=(Replicate(),), desired_output_layouts=(Shard(0),))
layer = parallelize_module(nn.Identity(), mesh, both)
assert layer(facula.full((2,), float(RANK))).tolist() == [float(RANK)] * 2
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    parallelize_module(nn.Linear(2, 2), mesh, {"no": ColwiseParallel()})
assert "'no'" in str(caught[0].message)
raised(lambda: parallelize_module(nn.Conv1d(2, 2, 1), mesh, ColwiseParallel()), "ColwiseParallel", "Conv1d")
raised(lambda: PrepareModuleInput(input_layouts=(R, R), desired_input_layouts=(R,)), "a desired layout for every layout")
print("ok")
"""


def test_parallel_styles():
    assert run_ranks(PARALLEL, 2) == ["ok\n"] * 2
