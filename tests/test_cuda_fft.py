"""Fourier transforms on CUDA devices, by our own kernels and by cuFFT, whose stand-in on the emulated device checks what it
is given as the library does and remembers it: lengths of all kinds against NumPy."""

import subprocess
import sys

import pytest
from cuda_environment import environment

START = """
import numpy as np, facula
rng = np.random.default_rng(0)
d = facula.device('cuda')

def close(made, expected, what):
    made = made.cpu().numpy()
    assert made.shape == expected.shape and made.dtype == expected.dtype, (what, made.shape, made.dtype)
    unit = np.finfo(made.dtype).eps * max(np.log2(max(expected.size, 2)), 3)
    error = np.abs(made - expected).max() / max(np.abs(expected).max(), 1e-30)
    assert error < unit, (what, error / unit)

def points(shape, dtype, rng=rng):
    x = rng.standard_normal(shape)
    return (x if np.dtype(dtype).kind == 'f' else x + 1j * rng.standard_normal(shape)).astype(dtype)

def check(shape, dim, single):
    real, complex_ = ('float32', 'complex64') if single else ('float64', 'complex128')
    what, F = (shape, dim, single), np.fft
    z, x = points(shape, complex_), points(shape, real)
    tz, tx, wide = facula.tensor(z).to(d), facula.tensor(x).to(d), z.astype('complex128')
    ortho = dict(dim=dim, norm='ortho')
    close(facula.fft.fft(tz, dim=dim), F.fft(wide, axis=dim).astype(complex_), ('fft', what))
    close(facula.fft.ifft(tz, **ortho), F.ifft(wide, axis=dim, norm='ortho').astype(complex_), ('ifft', what))
    wide = x.astype('float64')
    close(facula.fft.rfft(tx, dim=dim), F.rfft(wide, axis=dim).astype(complex_), ('rfft', what))
    close(facula.fft.fft(tx, dim=dim), F.fft(wide, axis=dim).astype(complex_), ('fft of real', what))
    n, half = shape[dim], F.rfft(wide, axis=dim)
    half[tuple(0 if i == dim % len(shape) else slice(None) for i in range(len(shape)))] += 3j  # is ignored
    made = facula.fft.irfft(facula.tensor(half.astype(complex_)).to(d), n=n, dim=dim)
    close(made, x, ('irfft', what))
"""


OWN = {"FACULA_CUDA_DISABLE": "cufft"}
LIBRARY = {"FACULA_CUDA": "emulated"}
both_ways = pytest.mark.parametrize("way", [OWN, LIBRARY], ids=["own", "cufft"])


def child(program, **extra):
    command, env = [sys.executable, "-c", START + program], environment(**extra)
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@both_ways
@pytest.mark.parametrize("single", [True, False], ids=["float32", "float64"])
def test_short_lengths_are_as_numpy(single, way):
    child(f"""
for n in {"range(1, 71)" if way is OWN else "(1, 2, 3, 4, 5, 6, 8, 15, 31, 64, 67)"}:
    check((3, n), -1, {single})
    check((2, n, 5), 1, {single})
    check((n, 5), 0, {single})
""", **way)


@pytest.mark.parametrize("single", [True, False], ids=["float32", "float64"])
def test_long_lengths_are_as_numpy(single):
    child(f"""
for n in (1021, 1024, 1331, 4096, 4913, 8190, 10007, 2 ** 17):
    check((n,), 0, {single})
for n in (1021, 2048, 2187):
    check((n, 3), 0, {single})
""", **OWN)


def test_lines_of_several_passes_lie_anywhere():
    child("""
check((2 ** 14 * 9, 2), 0, True)
check((2, 29 * 29 * 31, 1), 1, True)
check((1050 * 1050,), 0, True)  # two passes in float32
check((1 << 21,), 0, True)      # three
""", **OWN)


@both_ways
def test_several_dimensions_and_derivatives(way):
    child("""
x, z = points((3, 6, 10), 'float64'), points((3, 6, 10), 'complex128')
tx, tz = facula.tensor(x).to(d), facula.tensor(z).to(d)
F = np.fft
for norm in ('backward', 'ortho', 'forward'):
    close(facula.fft.fftn(tz, norm=norm), F.fftn(z, norm=norm), norm)
    close(facula.fft.rfft2(tx, dim=(0, 1), norm=norm), F.rfft2(x, axes=(0, 1), norm=norm), norm)
    made = facula.fft.irfftn(tz, s=(4, 7), dim=(2, 0), norm=norm)
    close(made, F.irfftn(z, s=(4, 7), axes=(2, 0), norm=norm), norm)
close(facula.fft.fft(tz.transpose(0, 2), n=13, dim=1), F.fft(z.transpose(2, 1, 0), n=13, axis=1), 'padded, strided')
a = tx.clone().requires_grad_()
facula.fft.rfft(a, dim=1).abs().pow(2).sum().backward()
b = facula.tensor(x).requires_grad_()
facula.fft.rfft(b, dim=1).abs().pow(2).sum().backward()
close(a.grad, b.grad.numpy(), 'gradient')
assert facula.fft.fft(facula.empty(0, 4, device=d)).shape == (0, 4)
""", **way)


@pytest.mark.parametrize("extra", [{"FACULA_EMULATED_MODE": "lazy"}, {"FACULA_EMULATED_ORDER": "reverse"},
                                   {"FACULA_EMULATED_ORDER": "random"}], ids=str)  # fmt: skip
def test_transforms_do_not_depend_on_the_order_of_threads(extra):
    child("""
for n in (8, 30, 77, 1009, 6561):
    check((3, n), -1, True)
    check((n, 3), 0, False)
streams = [facula.cuda.Stream() for _ in range(3)]
z = points((70, 83), 'complex128')
there = facula.tensor(z).to(d)
facula.cuda.synchronize()
made = []
for stream in streams:  # each makes tables of its own
    with facula.cuda.stream(stream):
        made.append(facula.fft.fft2(there))
facula.cuda.synchronize()
for m in made:
    close(m, np.fft.fft2(z), 'streams')
""", **OWN, **extra)


def test_plans_are_kept_and_forgotten():
    child("""
plans = facula.backends.cuda.cufft_plan_cache
assert plans.size == 0 and plans.max_size == 64
z = facula.ones(8, 32, dtype=facula.complex64, device=d)
first = facula.fft.fft2(z)
assert plans.size == 2 == plans[0].size == plans['cuda:0'].size
assert facula.equal(facula.fft.fft2(z), first) and plans.size == 2
plans.max_size = 1
assert plans.size == 1 and facula.equal(facula.fft.fft2(z), first) and plans.size == 1
plans.max_size = 0
assert plans.size == 0 and facula.equal(facula.fft.fft2(z), first) and plans.size == 0
plans[0].max_size = 3
facula.fft.fft(facula.ones(1009, device=d))  # a plan of a convolution, and that of its length
assert plans.size == 2
plans.clear()
assert plans.size == 0 and plans.max_size == 3
for bad in (lambda: setattr(plans, 'size', 3), lambda: setattr(plans, 'max_size', -1)):
    try:
        bad()
        raise SystemExit('no error')
    except RuntimeError as error:
        assert 'cufft_plan_cache' in str(error)
""", **OWN)


ASKED = """
import ctypes
stand_in = ctypes.CDLL(facula.cuda.libraries()["cufft"])
stand_in.facula_emulated_requests.restype = ctypes.c_char_p
plans = facula.backends.cuda.cufft_plan_cache
def asked():
    facula.cuda.synchronize()
    lines = stand_in.facula_emulated_requests().decode().splitlines()
    return [{k: int(v) for k, v in (w.split("=") for w in line.split()[1:])} for line in lines if line.startswith("cufftXtExec ")]
"""


def test_what_the_library_is_asked_for():
    child(ASKED + """
z, x = points((3, 4, 5, 6), 'complex128'), points((3, 4, 5, 6), 'float32')
tz, tx = facula.tensor(z).to(d), facula.tensor(x).to(d)
def ranks(function, dims, t=tz):
    asked()
    made, here = function(t, dim=dims), function(t.cpu(), dim=dims)
    close(made, here.numpy(), (function, dims))
    return [a["rank"] for a in asked()]
F = facula.fft
assert ranks(F.fft, -1) == [1] and ranks(F.fft, 0) == [1] and ranks(F.fft, 1) == []  # neighbors on both sides
assert ranks(F.fftn, (1, 2, 3)) == [3] and ranks(F.fftn, (0, 1, 2)) == [3] and ranks(F.fftn, (0, 3)) == [2]
assert ranks(F.fftn, (3, 0)) == [2] and ranks(F.ifftn, (0, 1, 2, 3)) == [3, 1] and ranks(F.fftn, (1, 2)) == []
assert ranks(F.fftn, (1, 3)) == [1]  # one by the library, one by our own
assert ranks(F.rfftn, (2, 3), tx) == [2] and ranks(F.rfftn, (3, 0), tx) == [1, 1] and ranks(F.rfftn, (0, 1, 2, 3), tx) == [3, 1]
assert ranks(F.irfftn, (2, 3)) == [1] and ranks(F.irfftn, (0, 1, 2, 3)) == [3, 1] and ranks(F.hfft, 3) == [1]
F.fftn(tz, dim=(0, 3))
(a,) = asked()
assert a == {'rank': 2, 'batch': 20, 'in': 5, 'out': 5, 'stride': 1, 'distance': 6, 'stream': 0}, a
before = tz.clone()
F.irfft(tz, dim=3)  # the library spoils what it transforms to real numbers
assert facula.equal(tz, before)
line = facula.arange(33.0, device=d)
for begin in (0, 1):  # real elements that begin between complex ones
    close(F.rfft(line[begin : begin + 32]), np.fft.rfft(np.arange(32.0) + begin).astype('complex64'), begin)
stream = facula.cuda.Stream()
stream.wait_stream(facula.cuda.current_stream())
with facula.cuda.stream(stream):
    F.fft(tz)
assert asked()[-1]["stream"] == stream.cuda_stream
infinite = facula.full((4,), complex(float('inf'), 1), dtype=facula.complex128, device=d)
scaled, plain = (facula.view_as_real(F.fft(infinite, norm=norm)).isnan().cpu() for norm in ('ortho', 'backward'))
assert facula.equal(scaled, plain)  # infinity times a real number is infinite
""", **LIBRARY)


@pytest.mark.parametrize("extra", [{"FACULA_EMULATED_MODE": "lazy"}, {"FACULA_EMULATED_JITTER": "300"}], ids=str)
def test_the_library_waits_for_nothing(extra):
    child("""
check((4, 30), -1, True)
check((30, 4), 0, False)
z = points((3, 6, 10), 'complex128')
there = facula.tensor(z).to(d)
stream = facula.cuda.Stream()
stream.wait_stream(facula.cuda.current_stream())
with facula.cuda.stream(stream):
    made = [facula.fft.fftn(there, dim=(1, 2)), facula.fft.fftn(there)]
facula.cuda.current_stream().wait_stream(stream)
close(made[0], np.fft.fftn(z, axes=(1, 2)), 'two dimensions')
close(made[1], np.fft.fftn(z), 'three')
""", **extra, **LIBRARY)


@both_ways
def test_half_precision(way):
    """As in PyTorch on CUDA alone; cuFFT takes powers of two, and our own kernels the rest."""
    child((ASKED if way is LIBRARY else "asked = list") + """
F = facula.fft
def same(function, numpy, t, x, **how):
    made = function(t, **how)
    how = {{'dim': 'axis'}.get(k, k): v for k, v in how.items()}
    expected = numpy(x.astype('complex128' if x.dtype.kind == 'c' else 'float64'), **how)
    assert made.dtype == (facula.complex32 if expected.dtype.kind == 'c' else facula.float16) and made.shape == expected.shape
    wide = made.to(facula.complex64 if made.is_complex() else facula.float32).cpu().numpy()
    assert np.abs(wide - expected).max() < 4e-3 * np.abs(expected).max(), (function, x.shape, how)
    return [a['in'] for a in asked()]
for n in (16, 12):
    x, z = points((4, n), 'float32'), points((4, n), 'complex64')
    tx, tz = facula.tensor(x).half().to(d), facula.tensor(z).to(facula.complex32).to(d)
    asked()
    kinds = [same(F.fft, np.fft.fft, tz, z), same(F.ifft, np.fft.ifft, tz, z, norm='ortho'), same(F.fft, np.fft.fft, tx, x),
             same(F.rfft, np.fft.rfft, tx, x), same(F.irfft, np.fft.irfft, tz[:, : n // 2 + 1].contiguous(), z[:, : n // 2 + 1])]
    if asked is not list:
        assert kinds == ([[6], [6], [6], [2], [6]] if n == 16 else [[]] * 5), kinds
    same(F.fft2, np.fft.fft2, tz, z), same(F.rfft, np.fft.rfft, tx.T, x.T, dim=0), same(F.ihfft, np.fft.ihfft, tx, x)
a, b = tx.clone().requires_grad_(), tx.cpu().float().requires_grad_()
for t in (a, b):
    F.rfft(t).abs().pow(2).sum().backward()
assert a.grad.dtype == facula.float16 and (a.grad.cpu().float() - b.grad).abs().max().item() < 1e-2 * b.grad.abs().max().item()
for bad in (lambda: F.fft(tx.cpu()), lambda: F.fft(tx.bfloat16())):
    try:
        bad()
        raise SystemExit('no error')
    except RuntimeError as error:
        assert 'not implemented for dtype' in str(error)
""", **way)


def test_plans_of_the_library_are_kept_by_device():
    child(ASKED + """
assert plans.size == 0 and plans.max_size == 4096
z = facula.ones(8, 32, dtype=facula.complex64, device=d)
first = facula.fft.fft2(z)
assert plans.size == 1 == plans[0].size == plans['cuda:0'].size
assert facula.equal(facula.fft.fft2(z), first) and plans.size == 1
facula.fft.ifft2(z)  # both directions are one plan
assert plans.size == 1
facula.fft.fft(z), facula.fft.rfft(z.real)
assert plans.size == 3
plans.max_size = 2
facula.fft.fft(z)
assert plans.size == 2
facula.fft.fft2(z)  # the one of rfft goes
facula.fft.fft(z)
assert plans.size == 2 and facula.equal(facula.fft.fft2(z), first)
plans.max_size = 0
assert plans.size == 0 and facula.equal(facula.fft.fft2(z), first) and plans.size == 0
plans[0].max_size = 3
facula.fft.fft(z)
plans.clear()
assert plans.size == 0 and plans.max_size == 3
""", **LIBRARY)


def test_the_stand_in_finds_wrong_arguments():
    child(ASKED + """
C, I, L = ctypes, ctypes.c_int, ctypes.c_longlong
x = facula.ones(4096, dtype=facula.float64, device=d)
def plan():
    handle = I()
    assert stand_in.cufftCreate(C.byref(handle)) == 0 and stand_in.cufftSetAutoAllocation(handle, 0) == 0
    return handle
def make(sizes, rows=None, stride=1, distance=None, types=(5, 5, 5), batch=2, out_rows=None, out_distance=None):
    handle, work = plan(), C.c_size_t()
    array = lambda values: (L * 3)(*values)
    rows, distance = rows or sizes, distance or 64
    made = stand_in.cufftXtMakePlanMany(handle, len(sizes), array(sizes), array(rows), L(stride), L(distance), types[0],
                                        array(out_rows or rows), L(stride), L(out_distance or distance), types[1], L(batch),
                                        C.byref(work), types[2])
    return (made, handle, work.value) if made == 0 else made
P = C.c_void_p
def run(handle, source=None, target=None, work=None, direction=-1):
    if work:
        assert stand_in.cufftSetWorkArea(handle, P(work)) == 0
    return stand_in.cufftXtExec(handle, P(source or x.data_ptr()), P(target or x.data_ptr() + 8 * 1024), direction)
assert make((4, 0)) == 8 and make((2, 2, 2, 2)[:3], batch=0) == 4
assert make((4, 8), rows=(4, 7)) == 4          # shorter rows
assert make((4, 8), distance=31) == 4          # a batch that overlaps
assert make((4, 8), stride=2, distance=1)[0] == 0 and make((4, 8), stride=2, distance=1, batch=3) == 4
assert make((8,), types=(5, 4, 5)) == 3 and make((8,), types=(1, 1, 5)) == 3
assert make((8,), types=(1, 5, 5), out_distance=4) == 4  # half of the points do not fit
assert make((8,), types=(1, 5, 5), distance=8, out_distance=5)[0] == 0
assert make((6,), types=(6, 6, 6)) == 8 and make((8,), types=(2, 6, 6), stride=2) == 16  # half precision
made, handle, work = make((4, 8))
assert made == 0 and work > 0
good = x.data_ptr() + 8 * 3072
assert run(handle) == 13                       # no workspace was said
assert run(handle, work=good) == 0
assert run(handle) == 13                       # nor was it said again
assert run(handle, work=good + 8) == 13        # not aligned
assert run(handle, work=x.data_ptr() + 8 * 4096 * 1024) == 13
assert run(handle, work=good, source=x.data_ptr() + (1 << 40)) == 4
assert run(handle, work=good, source=8) == 4 and run(handle, work=good, target=x.data_ptr() + 8) == 4
assert run(handle, work=good, direction=0) == 4
made, real, work = make((8,), types=(1, 5, 5), distance=8, out_distance=5)
assert run(real, work=good, direction=1) == 4
assert run(real, work=good, source=x.data_ptr() + 8) == 4  # aligned for real elements, not for complex ones
assert stand_in.cufftDestroy(handle) == 0 and stand_in.cufftDestroy(handle) == 1 and run(handle) == 1
assert run(plan()) == 1                        # not made
automatic = I()
stand_in.cufftCreate(C.byref(automatic))
assert stand_in.cufftXtMakePlanMany(automatic, 1, (L * 1)(8), (L * 1)(8), L(1), L(8), 5, (L * 1)(8), L(1), L(8), 5, L(1),
                                    C.byref(C.c_size_t()), 5) == 4
# half of the points with an imaginary first one, which the library leaves open
made, real, work = make((8,), types=(5, 1, 5), distance=5, out_distance=8, batch=1)
x.fill_(1)
facula.cuda.synchronize()
assert run(real, work=good, direction=1) == 0
facula.cuda.synchronize()
assert x[1024:1032].isnan().any().item()
""", **LIBRARY)


def test_without_the_library():
    says = "not used: FACULA_CUDA_DISABLE names it"
    child(f"""
assert facula.cuda.libraries()["cufft"] is None and "{says}" in facula.cuda.libraries(details=True)["cufft"]
""", **{**LIBRARY, **OWN})
