"""Training within a memory budget of a CUDA device (the emulated one), which its allocator keeps."""

import pytest
from cuda_environment import run_emulated

START = """
import gc
import facula, pytest
from facula import cuda, nn, _C

facula.manual_seed(0)
_C._budget_threshold(0)
WIDE, ROWS, LAYERS = 16, 16384, 8
model = nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDE, WIDE), nn.GELU(), nn.Dropout(0.1)))).cuda()
x = facula.randn(ROWS, WIDE, device="cuda")

def step():
    cuda.manual_seed(1)
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return [loss.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]

def same(found, wanted):
    return all(facula.equal(a, b) for a, b in zip(found, wanted, strict=True))

step()
wanted = step()
cuda.synchronize()
cuda.empty_cache()
model.zero_grad()
begin = cuda.memory_allocated()
cuda.reset_peak_memory_stats()
step()
room = cuda.max_memory_allocated() - begin
model.zero_grad()
gc.collect()
"""

WITHIN = """
for share in (70, 55):
    cuda.empty_cache()
    limit = begin + room * share // 100
    with cuda.memory_budget(limit) as budget:
        cuda.reset_peak_memory_stats()
        for _ in range(2):
            assert same(step(), wanted)
        assert cuda.max_memory_reserved() <= limit, (cuda.max_memory_reserved(), limit)
        assert all(s["is_expandable"] for s in cuda.memory_snapshot() if s["allocated_size"] == 0)
    assert {e.cause for e in budget.events()} >= {"request", "again"}
assert same(step(), wanted)
"""

STREAMS = """
side = cuda.Stream()
side.wait_stream(cuda.current_stream())
with cuda.memory_budget(begin + room * 6 // 10):
    for _ in range(2):
        with cuda.stream(side):
            found = step()
        side.synchronize()
        assert same(found, wanted)
    cuda.current_stream().wait_stream(side)
    h = nn.functional.gelu(x.clone().requires_grad_())
    y = h * 2
    h.record_stream(side)
    with cuda.stream(side):
        z = y.exp()
    y.record_stream(side)
    assert same(step(), wanted)
"""

REFUSED = """
with cuda.memory_budget(begin + room // 20):
    with pytest.raises(cuda.OutOfMemoryError) as error:
        step()
    text = str(error.value)
    assert "within the memory budget of" in text and "cannot go" in text, text
    assert not text.startswith("empty:"), text
    assert "The largest of what is in use" in text
model.zero_grad()
assert same(step(), wanted)
"""

CAPTURED = """
graph = cuda.CUDAGraph()
y = model[0](x.clone())  # could go, and is what the pass wants
with cuda.memory_budget(cuda.memory_allocated() + (6 << 20)) as budget:
    gone = len(budget.events())
    with pytest.raises(RuntimeError, match="within the memory budget of"):
        with cuda.graph(graph):
            facula.empty(7 << 20, dtype=facula.uint8, device="cuda")
    assert len(budget.events()) == gone
y.sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [WITHIN, STREAMS, REFUSED, CAPTURED], ids=["within", "streams", "refused", "captured"])
def test_a_budget_of_a_device_is_kept(program):
    run_emulated(START + program)
