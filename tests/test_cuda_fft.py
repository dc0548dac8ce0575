"""Fourier transforms on CUDA devices: lengths of all kinds against NumPy."""

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


def child(program, **extra):
    command, env = [sys.executable, "-c", START + program], environment(**extra)
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.parametrize("single", [True, False], ids=["float32", "float64"])
def test_short_lengths_are_as_numpy(single):
    child(f"""
for n in range(1, 71):
    check((3, n), -1, {single})
    check((2, n, 5), 1, {single})
""")


@pytest.mark.parametrize("single", [True, False], ids=["float32", "float64"])
def test_long_lengths_are_as_numpy(single):
    child(f"""
for n in (1021, 1024, 1331, 4096, 4913, 8190, 10007, 2 ** 17):
    check((n,), 0, {single})
for n in (1021, 2048, 2187):
    check((n, 3), 0, {single})
""")


def test_lines_of_several_passes_lie_anywhere():
    child("""
check((2 ** 14 * 9, 2), 0, True)
check((2, 29 * 29 * 31, 1), 1, True)
check((1050 * 1050,), 0, True)  # two passes in float32
check((1 << 21,), 0, True)      # three
""")


def test_several_dimensions_and_derivatives():
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
""")


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
""", **extra)


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
""")
