"""The guard device: a second device that shows what the library takes for granted about memory (src/guard/guard.h).

Every op with samples runs on it in every form, forwards and backwards, and gives the CPU's results. Runs happen in other
processes, since an op that touches the device's memory from the host dies."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from op_samples import all_ops

HERE = Path(__file__).resolve().parent
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}

# Ops that do not run there, and why.
EXCEPTIONS = {
    "tensor_split_tensor_indices_or_sections": "the sections are numbers, and have to be on the CPU; PyTorch wants them there, too",
}

# Ops that make the host wait for a device, by reason: what they give, or its shape, depends on values. docs/internals/devices.md
# has the table. Those in BACKWARD wait in their derivative, and those of the last reason only there.
WAITS = {
    "The shape of the result depends on values": """
        nonzero where_nonzero argwhere masked_select masked_scatter bincount _unique _unique_consecutive _unique_rows
        repeat_interleave_Tensor repeat_interleave_self_Tensor nms
    """,
    "The result is a Python object": """
        equal allclose
    """,
    "A number on the device decides what is computed": """
        histc histogram narrow_Tensor linalg_matrix_exp
    """,
    "LAPACK reports failure as a number, which becomes an exception, and it must not receive wrong row numbers": """
        linalg_cholesky cholesky linalg_inv linalg_lu_factor linalg_solve _lu_solve linalg_ldl_factor linalg_ldl_solve _linalg_svd
        linalg_svd linalg_svdvals svd _linalg_eigh linalg_eigh linalg_eigvalsh linalg_eig _linalg_eigvals linalg_eigvals
        _linalg_pinv linalg_pinv_tensor linalg_pinv_float linalg_pinv_rcond pinverse linalg_cond
        linalg_matrix_rank_tensor linalg_matrix_rank_float linalg_matrix_rank_tol linalg_tensorinv linalg_tensorsolve
    """,
    "Only the derivative waits: it solves, or it picks elements by a mask": """
        linalg_solve_ex linalg_det linalg_slogdet logdet linalg_lstsq masked_fill_Tensor index_fill_int_Tensor
    """,
}
BACKWARD = """
    masked_select masked_scatter linalg_matrix_exp linalg_solve linalg_eig linalg_eigvals
    linalg_tensorsolve linalg_solve_ex linalg_det linalg_slogdet logdet linalg_lstsq masked_fill_Tensor
    index_fill_int_Tensor
"""


def with_samples():
    return [op for op in all_ops() if op.samples is not None or op.elementwise]


@functools.cache
def results(topic):
    """What became of the topic's ops, by id."""
    left = [op.id for op in with_samples() if op.topic == topic]
    found = {}
    while left:
        run = subprocess.run([sys.executable, str(HERE / "device_worker.py"), *left], env=ENV, capture_output=True, text=True)
        lines = run.stdout.splitlines()
        for line in lines:
            if line.startswith("{"):
                report = json.loads(line)
                found[report["id"]] = report
        if run.returncode == 0:
            return found
        at = [line[3:] for line in lines if line.startswith("at ")]
        assert at, run.stderr
        found[at[-1]] = {"errors": [f"died with {run.returncode}: {run.stderr[-1500:]}"], "made": 0, "waits": []}
        left = left[left.index(at[-1]) + 1 :]
    return found


@pytest.mark.parametrize("op", with_samples(), ids=lambda op: op.id)
def test_op_on_the_guard_device(op):
    report = results(op.topic)[op.id]
    if op.id in EXCEPTIONS:
        assert report["errors"], f"{op.id} works: it is no exception any more"
        return
    assert not report["errors"], "\n".join(report["errors"])
    assert report["made"], "no sample of the op runs"


def test_which_ops_wait():
    """An op that waits without need is slow on a device with a queue: a new one in the list needs a reason."""
    found = {}
    for topic in sorted({op.topic for op in with_samples()}):
        found.update({name: r["waits"] for name, r in results(topic).items() if r["waits"]})
    *others, derivatives = (set(names.split()) for names in WAITS.values())
    assert {n for n, phases in found.items() if "forward" in phases} == set().union(*others)
    assert {n for n, phases in found.items() if "backward" in phases} == set(BACKWARD.split())
    assert {n for n, phases in found.items() if phases == ["backward"]} == derivatives


def test_the_ops_that_wait_are_documented():
    text = (HERE.parent / "docs" / "internals" / "devices.md").read_text()
    table = text[text.index("## Ops that wait") :]
    for reason, names in WAITS.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| {reason} |"))
        assert set(names.split()) == set(row.split("|")[2].replace("`", "").replace(",", " ").split()), reason


def child(program):
    return subprocess.run([sys.executable, "-c", program], env=ENV, capture_output=True, text=True)


def test_the_device_is_unknown_until_it_is_enabled():
    run = child("import facula\ntry: facula.device('guard')\nexcept RuntimeError as e: print(e)")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "Expected one of cpu, cuda, meta device type at start of device string: guard"


def test_a_host_access_is_reported():
    run = child(
        "import ctypes, facula\nfacula._C._enable_guard_device()\n"
        "t = facula.ones(4, device='guard')\nprint(t.device, t.sum().item(), flush=True)\n"
        "ctypes.string_at(t.data_ptr(), 4)"
    )
    assert run.stdout == "guard:0 4.0\n" and run.returncode < 0
    assert "the host touched memory of the guard device; the last kernel was item" in run.stderr
    assert run.stderr.count("[0x") > 3, run.stderr


def test_enabled_by_the_environment():
    run = subprocess.run([sys.executable, "-c", "import facula; print(facula.device('guard'), facula.zeros(2, device='guard').cpu())"],
                         env={**ENV, "FACULA_GUARD_DEVICE": "1"}, capture_output=True, text=True)  # fmt: skip
    assert run.stdout == "guard tensor([0., 0.])\n", run.stderr


PROGRAM = """
import copy, io, pickle
import facula
from facula import nn
facula._C._enable_guard_device()
G = "guard"

# index -1 is made concrete
a = facula.ones(3, device="guard")
assert a.device == facula.device("guard:0") and a.device.index == 0 and facula.device("guard").index is None
assert a.to("guard") is a and a.to("guard:0") is a

# numbers and 0-d CPU tensors beside it
assert (a + 1).device.type == G and (a * facula.tensor(2.0)).cpu().tolist() == [2, 2, 2]
assert facula.where(a > 0, facula.tensor(5.0), a).cpu().tolist() == [5, 5, 5]
for wrong in (lambda: a + facula.ones(3), lambda: facula.cat([a, facula.ones(3)]), lambda: a.numpy(), lambda: memoryview(a)):
    try: wrong()
    except (RuntimeError, TypeError, BufferError): pass
    else: raise SystemExit("devices mix")

# random numbers: the device's own generator, with the CPU's numbers
facula.manual_seed(3)
here = facula.randn(5), facula.rand(3)
there = facula.randn(5, device=G), facula.rand(3, device=G)
assert all(facula.equal(x, y.cpu()) for x, y in zip(here, there))
g = facula.Generator(device=G)
g.manual_seed(4)
state = g.get_state()
x = facula.randn(4, device=G, generator=g)
g.set_state(state)
assert facula.equal(x, facula.randn(4, device=G, generator=g)) and str(g.device) == "guard:0"
assert facula.equal(g.clone_state().set_state(state).get_state(), state) and pickle.loads(pickle.dumps(g)).device == g.device
try: facula.randn(4, device=G, generator=facula.Generator())
except RuntimeError as e: assert "expected one of device guard:0, got one of cpu" in str(e), e
else: raise SystemExit("a generator of another device")

# gradients across devices
w = facula.ones(3, dtype=facula.float64, requires_grad=True)
(w.to(G, facula.float32) * facula.arange(3, device=G)).sum().backward()
assert w.grad.tolist() == [0, 1, 2] and w.grad.dtype == facula.float64 and w.grad.device.type == "cpu"
b = facula.zeros(3, device=G)
b.copy_(w)
b.sum().backward()
assert w.grad.tolist() == [1, 2, 3]

# values for Python
assert repr(a) == "tensor([1., 1., 1.], device='guard:0')", repr(a)
assert a.tolist() == [1, 1, 1] and facula.tensor([a[0], a[1]]).tolist() == [1, 1] and bool(a[0]) and list(a)[1].item() == 1
a[1] = 7
assert a[facula.tensor(1, device=G)].item() == 7 and a[facula.tensor([1], device=G)].item() == 7
assert facula.tensor([[1, 2], [3, 4]], device=G).t().tolist() == [[1, 3], [2, 4]]

# storages
s = a.untyped_storage()
assert s.nbytes() == 12 and s[3] == 63 and s.clone()[3] == 63
s.fill_(0)
s[0] = 1
assert a.view(facula.int32).tolist() == [1, 0, 0]
assert facula.zeros(2, device=G).resize_(1000).fill_(2).sum().item() == 2000
big = facula.arange(2000, device=G)
big.untyped_storage().resize_(16000 + 64)
assert big.sum().item() == 1999000
try: s.share_memory_()
except RuntimeError: pass

# copies of objects
c = copy.deepcopy(a)
assert c.device == a.device and facula.equal(a, c)
f = io.BytesIO()
facula.save({"a": big, "b": big[1:3]}, f)
f.seek(0)
back = facula.load(f)
assert back["a"].device == big.device and back["b"].tolist() == [1, 2]
f.seek(0)
assert facula.load(f, map_location="cpu")["a"].device.type == "cpu"

# a model trains there as on the CPU
def train(device):
    facula.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    model.to(device)
    losses = []
    for optimizer in (facula.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), facula.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True)):
        for step in range(3):
            facula.manual_seed(step)
            x, y = facula.randn(6, 1, 8, 8), facula.arange(6) % 3
            facula.manual_seed(step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses, {k: v.cpu() for k, v in model.state_dict().items()}

(here, weights), (there, weights_there) = train("cpu"), train(G)
assert all(abs(p - q) < 1e-5 for p, q in zip(here, there)), (here, there)
assert all(facula.allclose(weights[k], weights_there[k], atol=1e-5) for k in weights)
lstm = nn.LSTM(4, 5, 2, bidirectional=True).to(G)
out, _ = lstm(facula.randn(3, 2, 4, device=G))
out.sum().backward()

# memory comes back
import gc
del a, b, c, x, big, s, g, back, f, lstm, out, there, weights_there
gc.collect()
left = facula._C._guard_used_bytes()
t = facula.zeros(1 << 20, device=G)
assert facula._C._guard_used_bytes() == left + (4 << 20)
del t
assert facula._C._guard_used_bytes() == left
print("done")
"""


def test_a_program_on_the_guard_device():
    run = child(PROGRAM)
    assert run.returncode == 0 and run.stdout == "done\n", run.stdout[-500:] + run.stderr[-3000:]
