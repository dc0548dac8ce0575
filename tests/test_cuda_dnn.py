"""cuDNN on the emulated CUDA device, whose stand-in checks graphs as the library does, and remembers what it computed; and the
flags of facula.backends.cudnn."""


import pytest
from cuda_environment import run_emulated

BEGIN = """
import ctypes
import facula as t, facula.nn.functional as F
from facula.backends import cudnn
t.manual_seed(1)
from cuda_stand_in import request_lines, stand_in
def requests():
    return [dict(w.split("=") for w in line.split()[1:]) for line in request_lines() if line.startswith("cudnnBackendExecute ")]
def check(f, *tensors, tolerance=1e-5):
    results = []
    for device in ("cpu", "cuda"):
        given = [x.to(device).detach().requires_grad_() for x in tensors]
        out = f(*given)
        (out * out).sum().backward()
        results.append([out.detach()] + [x.grad for x in given])
    for a, b in zip(*results):
        assert a.shape == b.shape and a.dtype == b.dtype and (a.dim() < 3 or a.stride() == b.stride())
        scale = max(a.double().abs().max().item(), 1e-30)
        assert (a.double() - b.cpu().double()).abs().max().item() <= tolerance * scale
"""

CONVOLUTIONS = """
for channels, results, groups, stride, padding, dilation in (
    (6, 4, 2, 2, 1, 1), (4, 8, 1, (2, 1), 1, (1, 2)), (6, 6, 6, 1, 1, 1), (3, 5, 1, 3, 2, 2), (1, 4, 1, 1, 0, 1)):
    x, bias = t.randn(2, channels, 9, 7), t.randn(results)
    how = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    for last in (False, True):
        given = x.to(memory_format=t.channels_last) if last else x
        w, turned = t.randn(results, channels // groups, 3, 2), t.randn(channels, results // groups, 3, 2)
        for weights in (w, w.to(memory_format=t.channels_last)):
            check(lambda x, w, b: F.conv2d(x, w, b, **how), given, weights, bias)
        check(lambda x, w, b: F.conv_transpose2d(x, w, b, **how), given, turned, bias)
check(lambda x, w: F.conv3d(x, w, stride=(1, 2, 3), padding=1, dilation=(2, 1, 1)), t.randn(1, 3, 5, 6, 7), t.randn(4, 3, 2, 3, 2))
volume = t.randn(2, 3, 4, 5, 6).to(memory_format=t.channels_last_3d)
check(lambda x, w: F.conv3d(x, w, padding=1), volume, t.randn(4, 3, 3, 3, 3))
for dtype, tolerance in ((t.float16, 1e-2), (t.bfloat16, 4e-2), (t.float64, 1e-12)):
    check(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), t.randn(3, 4, 19).to(dtype), t.randn(6, 4, 5).to(dtype),
          t.randn(6).to(dtype), tolerance=tolerance)
check(lambda x, w: F.conv2d(x, w), t.randn(2, 3, 1, 1).to(memory_format=t.channels_last), t.randn(4, 3, 1, 1))
empty = F.conv2d(t.ones(0, 3, 5, 5, device="cuda"), t.ones(2, 3, 3, 3, device="cuda"))
assert empty.shape == (0, 2, 3, 3)
"""

CASES = {
    "convolutions": CONVOLUTIONS + 'assert {r["map"] for r in requests()} == {"output", "input", "weight"}',
    "flags": """
x, w = t.randn(1, 4, 6, 6, device="cuda"), t.randn(4, 2, 3, 3, device="cuda", requires_grad=True)
def asked(dtype=t.float32):
    requests()
    F.conv2d(x.to(dtype).requires_grad_(), w.to(dtype), groups=2).sum().backward()
    return [r["engine"] for r in requests()]
assert cudnn.is_available() and cudnn.version() == 91900 and cudnn.is_acceptable(x) and not cudnn.is_acceptable(x.cpu())
# the first engine rounds to TF32, the first two add up in any order backwards
assert asked() == ["0", "0", "0"] and asked(t.float64) == ["0", "0", "0"]
cudnn.allow_tf32 = False
assert asked() == ["1", "1", "1"] and asked(t.float16) == ["0", "0", "0"]
cudnn.deterministic = True
assert asked() == ["1", "2", "2"] and asked(t.float16) == ["0", "2", "2"]
cudnn.deterministic = False
t.use_deterministic_algorithms(True)
assert asked() == ["1", "2", "2"]
t.use_deterministic_algorithms(False)
cudnn.conv.fp32_precision = "tf32"
assert asked() == ["0", "0", "0"]
with cudnn.flags(enabled=False):
    assert asked() == []
with cudnn.flags(enabled=True, benchmark=True):
    requests()
    F.conv2d(x, w, groups=2)
    assert len(requests()) == 3 * 2 + 1  # each way twice, and the best
    F.conv2d(x, w, groups=2)
    assert len(requests()) == 1
""",
    "threads": """
# plans are all threads', and each thread has a handle for each of its streams
import threading
x, w = t.randn(2, 3, 9, 9, device="cuda"), t.randn(4, 3, 3, 3, device="cuda")
wanted = F.conv2d(x, w).cpu()
t.cuda.synchronize()
made, told = stand_in.facula_emulated_dnn_handles(), stand_in.facula_emulated_dnn_streams()
assert made == 2  # with the one that makes plans
found, count, together = [[] for _ in range(4)], 20, threading.Barrier(4)
def work(i):
    for stream in (t.cuda.Stream(), t.cuda.Stream()):
        with t.cuda.stream(stream):
            for _ in range(count):
                found[i].append(F.conv2d(x, w).cpu())
                found[i].append(F.conv2d(x[:, :, i:], w).cpu())
    together.wait()  # handles of threads that have ended would be used by others
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i, results in enumerate(found):
    assert len(results) == 4 * count
    cut = F.conv2d(x[:, :, i:], w).cpu()
    assert all(t.equal(r, wanted if k % 2 == 0 else cut) for k, r in enumerate(results))
assert stand_in.facula_emulated_dnn_handles() - made == 8  # 4 threads, 2 streams
again = stand_in.facula_emulated_dnn_streams()
assert again - told == 8
for _ in range(2):
    F.conv2d(x, w)
assert stand_in.facula_emulated_dnn_streams() == again  # nothing is told twice
other = threading.Thread(target=lambda: F.conv2d(x, w))
other.start()
other.join()
assert stand_in.facula_emulated_dnn_handles() - made == 8  # that of a thread that has ended
for _ in range(9):  # of many streams, handles are shared
    with t.cuda.stream(t.cuda.Stream()):
        assert t.equal(F.conv2d(x, w).cpu(), wanted)
assert stand_in.facula_emulated_dnn_handles() - made <= 8
""",
    "heuristics": """
import warnings
A, FALLBACK = 3, 2  # as the library numbers its modes
x, w = t.randn(1, 3, 6, 6, device="cuda"), t.randn(2, 3, 3, 3, device="cuda")
def engines(x):
    requests()
    F.conv2d(x, w)
    return [r["engine"] for r in requests()]
def clear():
    for mode in (A, FALLBACK):
        stand_in.facula_emulated_dnn_heuristics(mode, 0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for size, status in enumerate((3000, 2000, 4000)):  # not supported, a parameter, of its own
        stand_in.facula_emulated_dnn_heuristics(A, status)
        assert engines(x[:, :, size:]) == ["2"]  # the other mode's
    stand_in.facula_emulated_dnn_heuristics(A, 3000)
    stand_in.facula_emulated_dnn_heuristics(FALLBACK, 3000)
    assert engines(x[:, :, :, 1:]) == []  # our own kernels
    assert not caught
    stand_in.facula_emulated_dnn_heuristics(FALLBACK, 4000)
    assert engines(x[:, :, :, 2:]) == []
    check(lambda x, w: F.conv2d(x, w), t.randn(1, 3, 5, 5), t.randn(2, 3, 3, 3))
    assert len(caught) == 1 and "Facula's own kernels" in str(caught[0].message) and "4000" in str(caught[0].message)
for status in (5000, 1001):  # the device has failed, the library is not initialized
    stand_in.facula_emulated_dnn_heuristics(A, status)
    try:
        F.conv2d(t.randn(1, 3, 7, 7, device="cuda"), w)
        raise SystemExit("no error")
    except RuntimeError as error:
        assert f"cuDNN's status {status}" in str(error), error
clear()
assert engines(t.randn(1, 3, 7, 7, device="cuda")) == ["0"]  # what failed was not kept
""",
    "refusals": """
# through the C functions, as a wrong caller would
L = stand_in
data = t.ones(256, device="cuda")
def make(type, *attributes, finish=0):
    d = ctypes.c_void_p()
    L.cudnnBackendCreateDescriptor(type, ctypes.byref(d))
    for name, kind, values in attributes:
        c = {1: ctypes.c_int, 3: ctypes.c_int64, 4: ctypes.c_float, 7: ctypes.c_int, 8: ctypes.c_int}.get(kind, ctypes.c_void_p)
        values = values if isinstance(values, (tuple, list)) else (values,)
        assert L.cudnnBackendSetAttribute(d, name, kind, ctypes.c_int64(len(values)), (c * len(values))(*values)) == 0
    status = L.cudnnBackendFinalize(d)
    assert status == finish, status
    return d
def tensor(id, sizes, strides, finish=0):
    return make(17, (901, 1, 0), (902, 3, sizes), (903, 3, strides), (906, 3, id), (900, 3, 16), finish=finish)
def convolution(stride=(1, 1), dims=2, finish=0):
    pads = (0,) * len(stride)
    return make(1, (106, 3, dims), (100, 1, 0), (101, 7, 1), (103, 3, stride), (102, 3, (1,) * len(stride)), (105, 3, pads),
                (104, 3, pads), finish=finish)
def operation(c, x, w, y, finish=0):
    return make(10, (702, 15, c), (704, 15, x), (703, 15, w), (705, 15, y), (700, 4, 1.0), (701, 4, 0.0), finish=finish)
x, w = tensor(1, (1, 2, 4, 4), (32, 16, 4, 1)), tensor(2, (2, 2, 1, 1), (2, 1, 1, 1))
y = tensor(3, (1, 2, 4, 4), (32, 16, 4, 1))
tensor(4, (1, 2, 4), (32, 16, 4, 1), finish=2000)  # as many strides as sizes
tensor(4, (1, 0, 4, 4), (32, 16, 4, 1), finish=2000)
convolution(dims=3, finish=2000)
c = convolution()
operation(c, x, w, tensor(3, (1, 2, 3, 4), (24, 12, 4, 1)), finish=2000)  # sizes
operation(c, x, tensor(2, (2, 3, 1, 1), (3, 1, 1, 1)), y, finish=2000)  # channels
operation(c, x, w, tensor(3, (1, 2, 4, 4), (32, 1, 8, 2)), finish=3000)  # two layouts
op = operation(c, x, w, y)
handle = ctypes.c_void_p()
L.cudnnCreate(ctypes.byref(handle))
graph = make(15, (800, 0, handle), (801, 15, op))
heuristic = make(4, (201, 15, graph), (200, 8, 3))
config, count = ctypes.c_void_p(), ctypes.c_int64()
L.cudnnBackendCreateDescriptor(3, ctypes.byref(config))
assert L.cudnnBackendGetAttribute(heuristic, 202, 15, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(config)) == 0
plan = make(5, (400, 0, handle), (401, 15, config))
def run(*pointers, ids=(1, 2, 3)):
    return L.cudnnBackendExecute(handle, plan, make(16, (1000, 3, ids), (1001, 6, pointers)))
p = data.data_ptr()
assert run(p, p + 512, p + 768) == 0
assert run(p, p + 512, p + 768, ids=(1, 2, 4)) == 2000  # one is not told
assert run(p, p + 512, p + 772) == 2000  # alignment
assert run(p, 16, p + 768) == 2000  # no device memory
t.cuda.synchronize()
assert data[192:224].tolist() == [2.0] * 32 and data[:192].sum().item() == 192
""",
}


def child(code, **variables):
    run_emulated(BEGIN + code, **variables)


@pytest.mark.parametrize("case", CASES)
def test_stand_in(case):
    child(CASES[case])


def test_no_wait_is_missing():
    child(CASES["convolutions"], FACULA_EMULATED_MODE="lazy")


def test_without_the_library():
    code = 'assert not requests() and not cudnn.is_available() and cudnn.version() is None'
    child(CONVOLUTIONS + code, FACULA_CUDA_DISABLE="cudnn")
