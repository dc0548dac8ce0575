"""Attention on the emulated CUDA device: which implementation is used, and what each computes."""


import pytest
from cuda_environment import run_emulated

BEGIN = """
import ctypes, warnings
import facula as t, facula.nn.functional as F
from facula.backends import cuda, cudnn
from facula.nn.attention import SDPBackend as B, sdpa_kernel
t.manual_seed(1)
attend = F.scaled_dot_product_attention
from cuda_stand_in import request_lines, stand_in
def requests():
    return [dict(w.split("=") for w in line.split()[1:]) for line in request_lines() if "graph=" in line]
def compare(*tensors, mask=None, tolerance=1e-2, **options):
    # cuDNN on the device against float32 on the CPU, forwards and backwards
    wide = [x.float().requires_grad_() for x in tensors]
    narrow = [x.to("cuda").requires_grad_() for x in tensors]
    bias = {} if mask is None else {"attn_mask": mask}
    want = attend(*wide, **{k: m.float() for k, m in bias.items()}, **options)
    requests()
    with sdpa_kernel(B.CUDNN_ATTENTION):
        got = attend(*narrow, **{k: m.to("cuda") for k, m in bias.items()}, **options)
    weights = t.randn_like(want)
    want.backward(weights)
    got.backward(weights.to(got.dtype).to("cuda"))
    assert got.grad_fn.name() == "ScaledDotProductCudnnAttentionBackward0" and len(requests()) == 2
    for a, b in zip((want, *(x.grad for x in wide)), (got, *(x.grad for x in narrow))):
        assert a.shape == b.shape and b.dtype == tensors[0].dtype
        assert (a - b.float().cpu()).abs().max().item() <= tolerance * max(a.abs().max().item(), 1)
def heads(batch, count, length, size, dtype=t.float16):
    return t.randn(batch, count, length, size).to(dtype)
"""

CUDNN = """
for dtype, tolerance in ((t.float16, 1e-2), (t.bfloat16, 6e-2)):
    q, k, v = heads(2, 2, 5, 16, dtype), heads(2, 2, 7, 16, dtype), heads(2, 2, 7, 8, dtype)
    compare(q, k, v, tolerance=tolerance)
    compare(q, k, v, is_causal=True, scale=0.3, tolerance=tolerance)
    for sizes in ((2, 2, 5, 7), (1, 1, 5, 7), (2, 1, 5, 7)):
        compare(q, k, v, mask=t.randn(sizes).to(dtype), tolerance=tolerance)
# other layouts, and fewer heads of keys and values
q, k, v = (heads(2, 6, 4, 8).transpose(1, 2) for _ in range(3))
compare(q, k, v)
compare(heads(1, 4, 5, 8), heads(1, 2, 6, 8), heads(1, 2, 6, 8), enable_gqa=True, is_causal=True)
compare(heads(1, 1, 1, 8), heads(1, 1, 3, 8), heads(1, 1, 3, 8))
"""

CASES = {
    "cudnn": CUDNN,
    "choice": """
q, k, v = (heads(1, 2, 8, 16).to("cuda") for _ in range(3))
params = lambda q, k, v, mask=None, p=0.0, causal=False, gqa=False: cuda.SDPAParams(q, k, v, mask, p, causal, gqa)
def why(*given):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        can = cuda.can_use_cudnn_attention(params(*given), debug=True)
    assert can is (not said)
    return str(said[0].message) if said else None
assert why(q, k, v) is None and why(q, k, v, None, 0.5, True) is None
assert "float16 and bfloat16" in why(q.float(), k.float(), v.float()) and "4 dimensions" in why(q[0], k[0], v[0])
assert "multiples of 8" in why(q[..., :4], k[..., :4], v) and "aligned" in why(q[..., 1:9], k[..., 1:9], v)
assert "enable_gqa" in why(q, k[:, :1], v[:, :1]) and why(q, k[:, :1], v[:, :1], None, 0.0, False, True) is None
assert "rows without any position" in why(q, k, v, t.ones(1, 1, 8, 8, device="cuda", dtype=t.bool))
assert "mask must have 4" in why(q, k, v, t.zeros(8, 8, device="cuda", dtype=q.dtype))
wide = heads(1, 2, 8, 256).to("cuda")
assert "no way to compute it" in why(wide, wide, wide)
with cudnn.flags(enabled=False):
    assert "enabled" in why(q, k, v)
requests()
attend(q, k, v)
assert len(requests()) == 1  # it comes first in float16
attend(q.float(), k.float(), v.float())
attend(wide, wide, wide)
with sdpa_kernel([B.FLASH_ATTENTION, B.CUDNN_ATTENTION], set_priority=True):
    attend(q, k, v)
cuda.enable_cudnn_sdp(False)
attend(q, k, v)
assert not requests()
cuda.enable_cudnn_sdp(True)
q.requires_grad_()
attend(q, k, v).sum().backward()
assert [r["any_order"] for r in requests()] == ["0", "1"]
with cudnn.flags(enabled=True, deterministic=True):
    attend(q, k, v).sum().backward()
assert [r["any_order"] for r in requests()] == ["0", "0"]
g, = t.autograd.grad(attend(q, k, v).float().sum(), q, create_graph=True)
g.float().sum().backward()  # written with ops
g, = t.autograd.grad(attend(q, k, v).float().sum(), q, t.ones((), device="cuda"))
with sdpa_kernel(B.CUDNN_ATTENTION):
    out = attend(q, k, v, dropout_p=0.5)
try:
    t.autograd.grad(out.float().sum(), q, create_graph=True)
except NotImplementedError as error:
    assert "sdpa_kernel" in str(error)
else:
    raise AssertionError
""",
    "dropout": """
q, k, v = (heads(1, 2, 8, 16).to("cuda") for _ in range(3))
one = t.eye(8, 8).half().repeat(1, 2, 1, 1).to("cuda")
with sdpa_kernel(B.CUDNN_ATTENTION):
    def out(seed, p=0.5, v=v):
        t.manual_seed(seed)
        return attend(q, k, v, dropout_p=p)
    assert t.equal(out(1), out(1)) and not t.equal(out(1), out(2))
    whole, kept = attend(q, k, one).float(), out(3, 0.25, one).float()  # the weights themselves
    shown = kept != 0
    assert 0.6 < shown.float().mean().item() < 0.9 and t.allclose(kept[shown], whole[shown] / 0.75, rtol=5e-3)
    # the derivative keeps the same: of the values it is the weights, transposed
    given = v.clone().requires_grad_()
    t.manual_seed(3)
    attend(q, k, given, dropout_p=0.25).backward(t.ones_like(v))
    sums = kept.sum(-2)[..., None].expand(v.shape)
    assert t.allclose(given.grad.float(), sums, rtol=1e-2, atol=1e-2)
""",
    "plans": """
# an engine that fails, or finds no memory for its workspace, is left out; without any our own kernels compute
x, w = t.randn(1, 4, 6, 6, device="cuda"), t.randn(4, 4, 3, 3, device="cuda")
want = F.conv2d(x.cpu(), w.cpu())
engine = lambda i, workspace=0, status=0: stand_in.facula_emulated_dnn_engine(i, ctypes.c_int64(workspace), status)
def used():
    t.cuda.synchronize()
    stand_in.facula_emulated_requests()
    out = F.conv2d(x, w)
    t.cuda.synchronize()
    assert t.allclose(out.cpu(), want, atol=1e-5)
    x.resize_(x.size(0) + 1, 4, 6, 6).copy_(t.randn(x.shape))  # another problem, which knows no plans
    globals().update(want=F.conv2d(x.cpu(), w.cpu()))
    lines = stand_in.facula_emulated_requests().decode().splitlines()
    return [line.split("engine=")[1][0] for line in lines if "engine=" in line]
assert used() == ["0"]
engine(0, status=3000)
assert used() == ["1"]
engine(0, status=5000)
assert used() == ["1"]
for i in (1, 2):
    engine(i, status=4000)
assert used() == []
engine(0, workspace=2**50)
engine(1)
assert used() == ["1"]  # more than a quarter of the device's memory
total = t.cuda.get_device_properties(0).total_memory
engine(0, workspace=total // 8)
t.cuda.set_per_process_memory_fraction(0.05)
assert used() == ["1"]
for i in range(3):
    engine(i)
with cudnn.flags(enabled=True, benchmark=True, benchmark_limit=2):
    assert len(used()) == 2 * 2 + 1
with cudnn.flags(enabled=True, benchmark=True, benchmark_limit=0):
    assert len(used()) == 2 * 3 + 1
w = t.randn(4, 1, 3, 3)
with cudnn.flags(enabled=True, depthwise_kernel="native"):
    requests()
    stand_in.facula_emulated_requests()
    F.conv2d(x, w.to("cuda"), groups=4)
    t.cuda.synchronize()
    assert b"engine" not in stand_in.facula_emulated_requests()
""",
    "refusals": """
# a graph through the C functions, as a wrong caller would write it
L = stand_in
def make(type, *attributes, finish=0):
    d = ctypes.c_void_p()
    L.cudnnBackendCreateDescriptor(type, ctypes.byref(d))
    for name, kind, values in attributes:
        c = {1: ctypes.c_int, 2: ctypes.c_bool, 3: ctypes.c_int64, 5: ctypes.c_double, 14: ctypes.c_int, 18: ctypes.c_int,
             29: ctypes.c_int}.get(kind, ctypes.c_void_p)
        values = values if isinstance(values, (tuple, list)) else (values,)
        assert L.cudnnBackendSetAttribute(d, name, kind, ctypes.c_int64(len(values)), (c * len(values))(*values)) == 0
    status = L.cudnnBackendFinalize(d)
    assert status == finish, (status, finish)
    return d
def tensor(id, sizes, type=2, virtual=False, value=False, finish=0):
    a, b, c, d = sizes
    more = [(907, 2, True)] * virtual + [(908, 2, True)] * value
    return make(17, (901, 1, type), (902, 3, sizes), (903, 3, (b * c * d, c * d, d, 1)), (906, 3, id), (900, 3, 16), *more, finish=finish)
matmul = make(18, (1500, 1, 0))
def product(a, b, c, finish=0):
    return make(19, (1523, 15, matmul), (1520, 15, a), (1521, 15, b), (1522, 15, c), finish=finish)
def pointwise(mode, y, *inputs, finish=0, axis=None):
    how = make(0, (0, 14, mode), (1, 1, 0), *([(9, 3, axis)] if axis is not None else []))
    return make(13, (750, 15, how), (753, 15, y), *zip((751, 752, 758), (15,) * 3, inputs), finish=finish)
q, k, v, out = (tensor(i, s) for i, s in enumerate(((1, 2, 4, 8), (1, 2, 8, 8), (1, 2, 8, 8), (1, 2, 4, 8)), 1))
s = tensor(10, (1, 2, 4, 8), 0, virtual=True)
tensor(20, (1, 2, 4, 4), virtual=True, value=True, finish=2000)
product(q, tensor(3, (1, 2, 4, 8)), s, finish=2000)  # inner sizes
product(q, k, tensor(10, (1, 3, 4, 8), 0, virtual=True), finish=2000)  # heads
product(tensor(1, (1, 2, 4, 8), 0), k, s, finish=2000)  # a wide factor in memory
narrow = tensor(11, (1, 2, 4, 8), virtual=True)
pointwise(13, narrow, s, s, finish=2000)  # exp of two
pointwise(1, narrow, s, finish=2000)
pointwise(501, tensor(12, (1, 2, 4, 8), 0, virtual=True), s, axis=2, finish=2000)  # an index of type float
pointwise(601, narrow, s, s, s, finish=2000)  # a choice by floats
rng = make(32, (2300, 29, 0), (2305, 5, 0.5))
seed = tensor(30, (1, 1, 1, 1), 10)
make(33, (2312, 15, rng), (2311, 15, seed), (2313, 15, tensor(31, (1, 1, 1, 1), 0)), (2310, 15, s), finish=2000)
first, exp, second = product(q, k, s), pointwise(13, narrow, s), product(narrow, v, out)
handle = ctypes.c_void_p()
L.cudnnCreate(ctypes.byref(handle))
graph = lambda *operations, finish=0: make(15, (800, 0, handle), (801, 15, operations), finish=finish)
graph(exp, first, second, finish=2000)  # not in order
graph(first, exp, exp, second, finish=2000)  # made twice
graph(first, exp, finish=3000)  # no attention
good = graph(first, exp, second)
config, count = ctypes.c_void_p(), ctypes.c_int64()
L.cudnnBackendCreateDescriptor(3, ctypes.byref(config))
heuristic = make(4, (201, 15, good), (200, 8, 3))
assert L.cudnnBackendGetAttribute(heuristic, 202, 15, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(config)) == 0
plan = make(5, (400, 0, handle), (401, 15, config))
data = t.zeros(256, dtype=t.float16, device="cuda")
def run(*pointers, ids=(1, 2, 3, 4)):
    return L.cudnnBackendExecute(handle, plan, make(16, (1000, 3, ids), (1001, 6, pointers)))
p = data.data_ptr()
assert run(p, p, p, p + 128) == 0 and run(p, p, p, ids=(1, 2, 3)) == 2000 and run(p, p, p, p, ids=(1, 2, 3, 5)) == 2000
assert run(p, p, p, 64) == 2000 and run(p, p, p, p + 4) == 2000
""",
    "can_use": """
q, k, v = (t.randn(2, 2, 8, 16, device="cuda") for _ in range(3))
can = cuda.can_use_flash_attention, cuda.can_use_efficient_attention
params = cuda.SDPAParams(q, k, v, None, 0.5, True, False)
assert cuda.is_flash_attention_available() and all(each(params) for each in can)
mask = t.zeros(8, 8, device="cuda", requires_grad=True)
for wrong, why in ((cuda.SDPAParams(q, k, v, mask, 0.0, False, False), "requires a gradient"),
                   (cuda.SDPAParams(q, k, v, None, 1.0, False, False), "below 1")):
    for each in can:
        with warnings.catch_warnings(record=True) as said:
            assert not each(wrong, debug=True) and why in str(said[0].message)
cuda.enable_flash_sdp(False)
assert [each(params) for each in can] == [False, True]
want = attend(q.cpu(), k.cpu(), v.cpu(), is_causal=True)
for backend in (B.MATH, B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION):
    with sdpa_kernel(backend):
        assert t.allclose(attend(q, k, v, is_causal=True).cpu(), want, atol=1e-5)
""",
}


def child(code, **variables):
    run_emulated(BEGIN + code, **variables)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_attention(case):
    child(CASES[case])


def test_no_wait_is_missing():
    child(CUDNN, FACULA_EMULATED_MODE="lazy")


def test_without_the_library():
    child("""
q = heads(1, 2, 8, 16).to("cuda")
assert not cuda.can_use_cudnn_attention(cuda.SDPAParams(q, q, q, None, 0.0, False, False))
attend(q, q, q)
with sdpa_kernel(B.CUDNN_ATTENTION):
    try:
        attend(q, q, q)
    except RuntimeError as error:
        assert "FACULA_CUDA_DISABLE" in str(error)
    else:
        raise AssertionError
""", FACULA_CUDA_DISABLE="cudnn")
