"""Recurrent layers by cuDNN on the emulated CUDA device: the stand-in checks arguments and the order of passes, and computes."""


import pytest
from cuda_environment import run_emulated

BEGIN = """
import copy, ctypes, warnings
import facula as t, facula.nn as nn
from facula.backends import cudnn
from facula.nn.utils.rnn import pack_padded_sequence
from cuda_stand_in import request_lines, stand_in
t.manual_seed(1)
ALL = ["cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8"]
def requests():
    lines = [line.split() for line in request_lines() if line.startswith("cudnn")]
    return [(name, dict(w.split("=") for w in words)) for name, *words in lines]
def names():
    return [name for name, _ in requests()]
def run(module, x, states, packed):
    x, *states = [s.detach().requires_grad_() for s in (x, *states)]
    given = pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False) if packed else x
    y, final = module(given, tuple(states) if len(states) > 1 else states[0])
    y, final = y.data if packed else y, final if isinstance(final, tuple) else (final,)
    ((y * y).sum() + sum((f * f * f).sum() for f in final)).backward()
    return [y, *final, x.grad, *[s.grad for s in states], *[p.grad for p in module.parameters()]]
def compare(kind, features=4, hidden=6, packed=False, dtype=t.float32, tolerance=2e-5, asked=ALL, **options):
    here = kind(features, hidden, **options).to(dtype)
    there = copy.deepcopy(here).to("cuda")
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    sizes = [options.get("proj_size", 0) or hidden] + [hidden] * (kind is nn.LSTM)
    data = [t.randn(5, 3, features).to(dtype), *[t.randn(rows, 3, size).to(dtype) for size in sizes]]
    requests()
    results = [run(m, *[(x.to(d), [s.to(d) for s in states]) for x, *states in [data]][0], packed)
               for m, d in ((here, "cpu"), (there, "cuda"))]
    assert names() == asked
    for i, (a, b) in enumerate(zip(*results)):
        assert a.shape == b.shape and a.dtype == b.dtype
        apart = (a.double() - b.cpu().double()).abs().max().item()
        assert apart <= tolerance * max(a.double().abs().max().item(), 1e-9), (kind, options, i, apart)
"""

NETWORKS = """
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    for options in ({}, dict(num_layers=2, bidirectional=True), dict(bias=False, num_layers=3)):
        for packed in (False, True):
            compare(kind, packed=packed, **options)
compare(nn.RNN, nonlinearity="relu", num_layers=2)
for packed in (False, True):
    compare(nn.LSTM, proj_size=3, num_layers=2, bidirectional=True, packed=packed)
compare(nn.LSTM, features=1, num_layers=2)
compare(nn.GRU, hidden=1)
compare(nn.LSTM, dtype=t.float64, tolerance=1e-12, num_layers=2, batch_first=False)
compare(nn.GRU, dtype=t.float16, tolerance=3e-2)
compare(nn.LSTM, dtype=t.bfloat16, tolerance=2e-1, asked=[])  # which the library (as the stand-in has it) does not know
"""

CASES = {
    "networks": NETWORKS,
    "flags": """
lstm, x = nn.LSTM(4, 6, device="cuda"), t.randn(5, 3, 4, device="cuda")
def asked():
    requests()
    lstm(x)
    return [r["math"] for name, r in requests()]
assert asked() == ["0"]
cudnn.allow_tf32 = False
assert asked() == ["3"]
cudnn.rnn.fp32_precision = "tf32"
assert asked() == ["0"]
with cudnn.flags(enabled=False):
    assert asked() == []
lstm.half()
x = x.half()
assert asked() == ["1"]
with t.no_grad():
    requests()
    lstm(x)
    (_, asked), = requests()
assert asked["training"] == "0"
lstm = lstm.float()
with t.autocast("cuda"):
    y, _ = lstm(x.float())
assert y.dtype == t.float16 and [r["type"] for _, r in requests()] == ["2"]
empty, _ = lstm(t.ones(5, 0, 4, device="cuda"))
assert empty.shape == (5, 0, 6) and not requests()
""",
    "weights": """
lstm, x = nn.LSTM(4, 6, 2, device="cuda"), t.randn(5, 3, 4, device="cuda")
def block(module):
    return {p.untyped_storage().data_ptr() for p in module.parameters()}
def copies():
    before = t.cuda.memory_stats()["requested_bytes.all.allocated"]
    lstm(x)
    return t.cuda.memory_stats()["requested_bytes.all.allocated"] - before
assert len(block(lstm)) == 1
want, together = lstm(x)[0].clone(), copies()
lstm.weight_hh_l1.data = lstm.weight_hh_l1.data.clone()
assert len(block(lstm)) == 2 and t.equal(lstm(x)[0], want) and copies() > together
lstm.flatten_parameters()
assert len(block(lstm)) == 1 and t.equal(lstm(x)[0], want) and copies() == together
other = copy.deepcopy(lstm)
other.load_state_dict(lstm.state_dict())
assert t.equal(other(x)[0], want)
moved = nn.GRU(4, 6).to("cuda")
assert len(block(moved)) == 1 and len(block(moved.cpu())) == 4
assert len(block(moved.to("cuda").double())) == 1
with cudnn.flags(enabled=False):
    assert len(block(nn.GRU(4, 6, device="cuda"))) == 4
optimizer = t.optim.SGD(lstm.parameters(), 0.1)
lstm(x)[0].sum().backward()
optimizer.step()
assert len(block(lstm)) == 1 and not t.equal(lstm(x)[0], want)
lstm.weight_ih_l0.grad = None
y = lstm(x)[0]
with t.no_grad():
    lstm.weight_hh_l0.mul_(2)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "modified" in str(error) or "changed" in str(error) or "in-place" in str(error), error
else:
    raise AssertionError
""",
    "dropout": """
lstm, x = nn.LSTM(4, 64, 2, dropout=0.5, device="cuda"), t.randn(5, 3, 4, device="cuda")
def outputs():
    return [lstm(x)[0].detach() for _ in range(2)]
t.manual_seed(4)
first, second = outputs()
t.manual_seed(4)
again = outputs()
assert t.equal(first, again[0]) and t.equal(second, again[1]) and not t.equal(first, second)
t.manual_seed(5)
assert not t.equal(first, outputs()[0])
lstm.eval()
assert t.equal(*outputs())
lstm.train()
# the derivative knows what was kept
t.manual_seed(4)
given = x.clone().double().requires_grad_()
lstm.double()
(lstm(given)[0] ** 2).sum().backward()
step = t.zeros_like(x).double()
step[2, 1, 3] = 1e-5
ends = []
for sign in (1, -1):
    t.manual_seed(4)
    ends.append((lstm(given.detach() + sign * step)[0] ** 2).sum())
assert abs(((ends[0] - ends[1]) / 2e-5 - given.grad[2, 1, 3]).item()) < 1e-6
lstm.dropout = 1.0
assert lstm(given)[0].isfinite().all()
""",
    "checkpoint": """
# the second run of a checkpoint draws the first one's masks, also where the library's states have gone on before
from facula.utils.checkpoint import checkpoint
lstm = nn.LSTM(4, 16, 3, dropout=0.5, device="cuda")
x = t.randn(5, 3, 4, device="cuda", requires_grad=True)
def run(call):
    lstm.zero_grad()
    x.grad = None
    (call() ** 2).sum().backward()
    return [x.grad.clone(), *[p.grad.clone() for p in lstm.parameters()]]
for reentrant in (True, False):
    lstm(x)  # the states go on
    state = t.cuda.get_rng_state()
    wanted = run(lambda: lstm(lstm(x)[0][..., :4])[0])  # two draws in one stretch
    other = run(lambda: lstm(lstm(x)[0][..., :4])[0])
    assert not t.equal(wanted[0], other[0])
    t.cuda.set_rng_state(state)
    found = run(lambda: checkpoint(lambda x: lstm(lstm(x)[0][..., :4])[0], x, use_reentrant=reentrant))
    assert all(t.equal(a, b) for a, b in zip(found, wanted, strict=True))
with t.random.fork_rng():
    t.cuda.set_rng_state(state)
    first = lstm(x)[0]
t.cuda.set_rng_state(state)
assert t.equal(lstm(x)[0], first)
""",
    "gradients": """
gru, x = nn.GRU(4, 6, device="cuda"), t.randn(5, 3, 4, device="cuda", requires_grad=True)
y, h = gru(x)
assert names() == ALL[:1]
loss = y.sum() + (h * h).sum()
grads = [t.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2)]
assert t.equal(*grads) and names() == ALL[1:2] * 2  # no gradient of weights was asked for
g, = t.autograd.grad(loss, x, create_graph=True)
assert t.equal(g, grads[0])
try:
    g.sum().backward()
except NotImplementedError as error:
    assert "flags(enabled=False)" in str(error)
else:
    raise AssertionError
with cudnn.flags(enabled=False):
    y, h = gru(x)
    g, = t.autograd.grad(y.sum() + (h * h).sum(), x, create_graph=True)
    g.sum().backward()
each = t.autograd.grad(gru(x)[0], x, t.eye(2).repeat(1, 45)[:, :90].reshape(2, 5, 3, 6).to("cuda"), is_grads_batched=True)[0]
assert each.shape == (2, 5, 3, 4)
batch = t.randn(2, 5, 3, 4, device="cuda")
assert t.allclose(t.vmap(lambda x: gru(x)[0])(batch)[1], gru(batch[1])[0], atol=1e-6)
requests()
state = t.zeros(1, 3, 6, device="cuda", requires_grad=True)
gru(x.detach(), state)[1].sum().backward()
assert state.grad is not None and names() == ALL
""",
    "graphs": """
lstm, x = nn.LSTM(4, 6, device="cuda"), t.randn(5, 3, 4, device="cuda")
with t.no_grad():
    lstm(x)
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        y, _ = lstm(x)
    x.copy_(t.randn(5, 3, 4))
    graph.replay()
    assert t.allclose(y, lstm(x)[0], atol=1e-6)
""",
    "refusals": """
# through the C functions, as a wrong caller would
L, n = stand_in, ctypes.c_size_t()
def made(name):
    p = ctypes.c_void_p()
    assert getattr(L, name)(ctypes.byref(p)) == 0
    return p
handle, rnn = made("cudnnCreate"), made("cudnnCreateRNNDescriptor")
x_is, y_is, h_is, drops = (made(f"cudnnCreate{kind}Descriptor") for kind in ("RNNData", "RNNData", "Tensor", "Dropout"))
def network(mode=3, type=0, computed=0, input=4, hidden=6, projected=6):
    return L.cudnnSetRNNDescriptor_v8(rnn, 0, mode, 2, 0, 0, type, computed, 0, input, hidden, projected, 1, drops, 0)
def data(is_, features, lengths=(3, 2), layout=1, steps=3):
    return L.cudnnSetRNNDataDescriptor(is_, 0, layout, steps, len(lengths), features, (ctypes.c_int * len(lengths))(*lengths), None)
def state(*sizes):
    return L.cudnnSetTensorNdDescriptor(h_is, 0, 3, (ctypes.c_int * 3)(*sizes), (ctypes.c_int * 3)(sizes[1] * sizes[2], sizes[2], 1))
assert network() == 2000  # dropout is not set
assert L.cudnnSetDropoutDescriptor(drops, handle, ctypes.c_float(0), None, 0, 0) == 0
assert L.cudnnSetDropoutDescriptor(drops, handle, ctypes.c_float(0.5), None, 0, 0) == 2000  # no states
assert network(projected=3) == 2000 and network(projected=7) == 2000 and network(computed=1) == 2000 and network(input=0) == 2000
assert network(type=9) == 3000 and network() == 0
assert data(x_is, 4, (2, 3)) == 2000 and data(x_is, 4, (4, 2)) == 2000 and data(x_is, 4, (3, 0)) == 2000
assert data(x_is, 4) == 0 and data(y_is, 6) == 0 and state(1, 2, 6) == 0
L.cudnnGetRNNWeightSpaceSize(handle, rnn, ctypes.byref(n))
weight_bytes, reserve_bytes = n.value, ctypes.c_size_t()
L.cudnnGetRNNTempSpaceSizes(handle, rnn, 1, x_is, ctypes.byref(n), ctypes.byref(reserve_bytes))
work_bytes = n.value
byte = lambda count: t.zeros(count, dtype=t.uint8, device="cuda")
x, y, weights, work, reserve = byte(5 * 4 * 4), byte(5 * 6 * 4), byte(weight_bytes), byte(work_bytes), byte(reserve_bytes.value)
at = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
size = ctypes.c_size_t
def forward(x=x, work_bytes=work_bytes, weight_bytes=weight_bytes, reserve=reserve, y=y):
    return L.cudnnRNNForward(handle, rnn, 1, None, x_is, at(x), y_is, at(y), h_is, None, None, None, None, None,
                             size(weight_bytes), at(weights), size(work_bytes), at(work), reserve_bytes, at(reserve))
def weights_back(reserve=reserve, add=0):
    return L.cudnnRNNBackwardWeights_v8(handle, rnn, add, None, x_is, at(x), h_is, None, y_is, at(y), size(weight_bytes),
                                        at(weights), size(work_bytes), at(work), reserve_bytes, at(reserve))
assert forward() == 0
assert forward(work_bytes=16) == 2000 and forward(weight_bytes=weight_bytes - 4) == 2000
small = t.zeros(1, device="cuda")
assert forward(reserve=t.zeros(8)) == 2000 and forward(x=t.zeros(20)) == 2000 and forward(y=t.zeros(30)) == 2000
assert weights_back(add=1) == 3000
assert data(y_is, 5) == 0 and forward() == 2000
assert data(y_is, 6, (3, 1)) == 0 and forward() == 2000
assert data(y_is, 6) == 0 and state(1, 2, 5) == 0 and forward() == 2000
assert data(x_is, 4, layout=0) == 0 and data(y_is, 6, layout=0) == 0 and state(1, 2, 6) == 0
assert forward() == 2000  # sequences of several lengths, not packed
""",
}


def child(code, **variables):
    return run_emulated(BEGIN + code, **variables).stderr


@pytest.mark.parametrize("case", CASES)
def test_stand_in(case):
    child(CASES[case])


def test_passes_out_of_order_are_found():
    code = """
L.cudnnSetRNNDataDescriptor
assert data(x_is, 4) == 0 and data(y_is, 6) == 0 and forward() == 0 and weights_back() == 0
t.cuda.synchronize()
"""
    assert "the reserve is not what the pass before has left" in child(CASES["refusals"] + code)


def test_no_wait_is_missing():
    child(NETWORKS, FACULA_EMULATED_MODE="lazy")


def test_without_the_library():
    child("compare(nn.LSTM, num_layers=2, asked=[])", FACULA_CUDA_DISABLE="cudnn")
