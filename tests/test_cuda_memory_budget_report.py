"""What a user sees of a memory budget of a CUDA device (the emulated one)."""

import subprocess
import sys

from cuda_environment import environment

PROGRAM = """
import facula, pytest
from facula import cuda, _C

device = facula.device("cuda", 0)
for limit in ("2 parsecs", 1.5):
    with pytest.raises(ValueError, match="^memory_budget: "):
        cuda.memory_budget(limit)
with cuda.memory_budget(0.25) as share:
    assert share.limit == cuda.mem_get_info()[1] // 4
assert _C._budget_get(device) == 0
x = facula.linspace(-1, 1, 1 << 19, device=device, requires_grad=True)

def step():
    x.grad = None
    result = (x * 0.5).exp().exp().exp()
    went = _C._budget_let_go(device, 1)
    result.sum().backward()
    return went

step()
wanted = x.grad.clone()
with cuda.memory_budget("1GiB", device=0) as budget:
    assert _C._budget_get(device) == budget.limit == 2**30 and _C._budget_get(facula.device("cpu")) == 0
    assert step() and step()
    assert facula.equal(x.grad, wanted)
events = budget.events()
assert {e.op for e in events} <= {"exp", "mul"} and {e.cause for e in events} == {"request", "again"}
assert all(e.bytes == 1 << 21 for e in events) and events[-1].place.startswith("<string>:")
text = budget.summary()
assert text.startswith("budget 1.00 GiB, highest ") and "2 steps of backward" in text, text
assert "cannot go: 2.00 MiB parameters and optimizer, 2.00 MiB gradients" in text, text
assert budget.highest >= 8 << 20
_, held, saved, _, gradients = max(_C._budget_samples(device, budget._begin), key=lambda sample: sample[1])
assert held >= 8 << 20 and saved >= 4 << 20
assert _C._budget_samples(device, budget._begin)[-1][4] == 1 << 21  # the gradient of x
assert not _C._budget_samples(facula.device("cpu"), budget._begin)
budget.picture(sys.argv[1])
"""


def test_a_budget_of_a_device(tmp_path):
    path = tmp_path / "budget.svg"
    done = subprocess.run([sys.executable, "-c", "import sys" + PROGRAM, path], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert "backward" in text and "budget 1.00 GiB" in text
