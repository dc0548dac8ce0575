"""Transforms against their definition and NumPy, their gradients against the adjoint transform, the frequency helpers."""

import functools

import numpy as np
import pytest

import facula
from facula.autograd.gradcheck import gradcheck, gradgradcheck


def signal(*shape, real=False):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape)
    return values if real else values + 1j * rng.standard_normal(shape)


REAL_INPUT = {"rfft", "ihfft"}


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 8, 9])
@pytest.mark.parametrize("dim", [0, 1])
def test_one_dimension(name, norm, n, dim):
    x = signal(6, 5, real=name in REAL_INPUT)
    result = getattr(facula.fft, name)(facula.from_numpy(x), n=n, dim=dim, norm=norm)
    np.testing.assert_allclose(
        result.resolve_conj().numpy(), getattr(np.fft, name)(x, n=n, axis=dim, norm=norm), atol=1e-12
    )


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions(name):
    x = signal(3, 6, 5, real=name.startswith("rfft"))
    result = getattr(facula.fft, name)(facula.from_numpy(x))
    np.testing.assert_allclose(result.numpy(), getattr(np.fft, name)(x), atol=1e-12)


def test_single_precision_stays_single():
    x = facula.ones(8)
    assert facula.fft.fft(x).dtype == facula.complex64 and facula.fft.irfft(facula.fft.rfft(x)).dtype == facula.float32
    assert facula.fft.fft(facula.arange(4)).dtype == facula.complex64


def test_strided_input():
    x = signal(8, 6)
    t = facula.from_numpy(x)
    np.testing.assert_allclose(facula.fft.fft(t[::2, 1::2].T).numpy(), np.fft.fft(x[::2, 1::2].T), atol=1e-12)
    np.testing.assert_allclose(facula.fft.fft(t.conj()).numpy(), np.fft.fft(x.conj()), atol=1e-12)


@pytest.mark.parametrize("n", [6, 7])
def test_real_transform_gradients(n):
    x = facula.from_numpy(signal(n, real=True)).requires_grad_()
    weights = signal(n // 2 + 1)
    y = facula.fft.rfft(x)
    (y.real * facula.from_numpy(weights.real.copy()) + y.imag * facula.from_numpy(weights.imag.copy())).sum().backward()
    matrix = np.fft.rfft(np.eye(n))
    np.testing.assert_allclose(x.grad.numpy(), matrix.real @ weights.real + matrix.imag @ weights.imag, atol=1e-12)
    z = facula.fft.rfft(facula.from_numpy(signal(n, real=True))).requires_grad_()
    facula.fft.irfft(z, n=n).sum().backward()
    expected = np.zeros(n // 2 + 1)
    expected[0] = 1
    np.testing.assert_allclose(z.grad.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 5, 1023])
def test_frequencies_and_shifts(n):
    np.testing.assert_allclose(facula.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5), rtol=1e-6)
    np.testing.assert_allclose(facula.fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5), rtol=1e-6)
    x = signal(n, 3)
    np.testing.assert_array_equal(facula.fft.fftshift(facula.from_numpy(x)).numpy(), np.fft.fftshift(x))
    np.testing.assert_array_equal(
        facula.fft.ifftshift(facula.from_numpy(x), dim=0).numpy(), np.fft.ifftshift(x, axes=0)
    )


def test_errors():
    with pytest.raises(RuntimeError, match=r"^fft.rfft: .*complex"):
        facula.fft.rfft(facula.ones(3, dtype=facula.complex64))
    with pytest.raises(RuntimeError, match=r"^fft.fft: .*'loud'"):
        facula.fft.fft(facula.ones(3), norm="loud")
    with pytest.raises(RuntimeError, match=r"^fft.fft: "):
        facula.fft.fft(facula.ones(3), n=0)
    with pytest.raises(IndexError, match=r"^fft.fft: "):
        facula.fft.fft(facula.ones(3), dim=2)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [-1, 0, -(2**63)])
def test_a_single_size_counts_data_points(name, n):
    """Among several sizes -1 stands for the tensor's own; None does for a single one."""
    with pytest.raises(RuntimeError, match=f"fft.{name}: .* data point.*, got .?{n}"):
        getattr(facula.fft, name)(facula.ones(4), n)
    assert facula.fft.fftn(facula.ones(4), [-1]).shape == (4,)


# ---- the algorithms: every length takes another way through the plans

LARGE = [1000, 1024, 1009, 1536, 2018, 4095, 4096, 10_007, 44_100]
EPS = {"complex64": 6e-8, "complex128": 1.1e-16}


@functools.lru_cache(maxsize=1)
def matrix(n):
    turns = np.outer(np.arange(n), np.arange(n)) % n
    return np.exp(-2j * np.pi / n * np.arange(n))[turns]


def by_definition(x):
    """Sums over all points, in double precision."""
    return x.astype("complex128") @ matrix(x.shape[-1])


def close(result, expected, dtype):
    """The largest error, in units of the rounding of the root mean square, grows as the logarithm of the length."""
    scale = np.sqrt(np.mean(np.abs(expected) ** 2))
    bound = 8 * EPS[dtype] * scale * (2 + np.log2(expected.shape[-1]))
    np.testing.assert_array_less(np.abs(result.resolve_conj().numpy() - expected), bound)


@pytest.fixture
def one_thread():
    threads = facula.get_num_threads()
    facula.set_num_threads(1)
    yield
    facula.set_num_threads(threads)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("first", range(1, 301, 50))
def test_every_length(one_thread, dtype, first):
    for n in range(first, first + 50):
        x = signal(19, n).astype(dtype)
        expected, t = by_definition(x), facula.from_numpy(x)
        for lines in (1, 5, 8, 19):
            close(facula.fft.fft(t[:lines]), expected[:lines], dtype)
        close(facula.fft.ifft(t, norm="forward"), by_definition(x.conj()).conj(), dtype)
        close(facula.fft.fft(t.t().contiguous(), dim=0).t(), expected, dtype)
        r = t.real.contiguous()
        half = by_definition(x.real)[:, : n // 2 + 1]
        for lines in (1, 8, 19):
            close(facula.fft.rfft(r[:lines]), half[:lines], dtype)
            back = facula.fft.irfft(facula.from_numpy(half[:lines].astype(dtype)), n)
            close(back, x.real[:lines], dtype)
        close(facula.fft.rfft(r.t().contiguous(), dim=0).t(), half, dtype)
        close(facula.fft.irfft(facula.from_numpy(half.T.astype(dtype).copy()), n, 0).t(), x.real, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LARGE)
def test_long_lines(dtype, n):
    """NumPy's transforms are in double precision, whose own error is of the size of Facula's there."""
    x = signal(3, n).astype(dtype)
    t, expected = facula.from_numpy(x), np.fft.fft(x.astype("complex128"))
    half = np.fft.rfft(x.real.astype("float64"))
    close(facula.fft.fft(t), expected, dtype)
    close(facula.fft.ifft(facula.from_numpy(expected.astype(dtype))), x, dtype)
    close(facula.fft.fft(t.t().contiguous(), dim=0).t(), expected, dtype)
    close(facula.fft.rfft(t.real), half, dtype)
    close(facula.fft.rfft(t.real.t(), dim=0).t(), half, dtype)
    close(facula.fft.irfft(facula.from_numpy(half.astype(dtype)), n), x.real, dtype)


@pytest.mark.parametrize("shape", [(7, 9, 5), (40, 3, 24), (3, 64, 17), (1, 31, 2), (37, 1, 16)])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 0), (2, 0), (0, 2, 1), (2, 1, 0)])
def test_dimensions_and_layouts(shape, dims):
    x = signal(*shape)
    layouts = {
        "contiguous": facula.from_numpy(x), "transposed": facula.from_numpy(x.T.copy()).permute(2, 1, 0),
        "every second": facula.from_numpy(np.repeat(x, 2, axis=2))[:, :, ::2], "flipped": facula.from_numpy(x[::-1].copy()).flip(0),
    }  # fmt: skip
    layouts["conjugate"] = facula.from_numpy(x.conj()).conj()
    half = np.fft.rfftn(x.real, axes=dims)
    for t in layouts.values():
        np.testing.assert_allclose(facula.fft.fftn(t, dim=dims).numpy(), np.fft.fftn(x, axes=dims), atol=1e-11)
        np.testing.assert_allclose(facula.fft.ifftn(t, dim=dims).numpy(), np.fft.ifftn(x, axes=dims), atol=1e-11)
        np.testing.assert_allclose(facula.fft.rfftn(t.real, dim=dims).numpy(), half, atol=1e-11)
    sizes = [shape[d] for d in dims]
    back = facula.fft.irfftn(facula.from_numpy(half), sizes, dims)
    np.testing.assert_allclose(back.numpy(), x.real, atol=1e-12)


def test_input_is_left_alone():
    for n in (8, 60, 1000, 1009):
        x = facula.from_numpy(signal(5, n))
        before = x.clone()
        for f in (facula.fft.fft, facula.fft.ifft, facula.fft.irfft, facula.fft.fft2, facula.fft.irfft2):
            f(x)
            assert facula.equal(x, before)


def test_zero_frequencies_of_halves_are_real():
    """What their imaginary parts are does not matter."""
    for n in (6, 7, 64, 1000, 1009):
        x = signal(n // 2 + 1)
        y = x.copy()
        y[0] = x[0].real
        if n % 2 == 0:
            y[-1] = x[-1].real
        a, b = (facula.fft.irfft(facula.from_numpy(z), n) for z in (x, y))
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-15)


@pytest.mark.parametrize("shape", [(1, 1 << 16), (64, 1000), (3, 30_011), (300, 300), (4099, 16)])
def test_results_do_not_depend_on_threads(shape):
    x, r = facula.from_numpy(signal(*shape)), facula.from_numpy(signal(*shape, real=True))
    calls = (
        lambda: facula.fft.fft(x), lambda: facula.fft.ifft(x, dim=0), lambda: facula.fft.rfft(r),
        lambda: facula.fft.irfft(x), lambda: facula.fft.rfft2(r),
    )  # fmt: skip
    threads = facula.get_num_threads()
    try:
        for call in calls:
            facula.set_num_threads(1)
            alone = call()
            for count in (2, 3):
                facula.set_num_threads(count)
                assert facula.equal(call(), alone)
    finally:
        facula.set_num_threads(threads)


@pytest.mark.parametrize("name", ["fft", "ifft", "hfft", "irfft", "fft2", "ifftn", "irfftn", "hfft2"])
def test_gradients_of_complex_inputs(name):
    x = facula.from_numpy(signal(4, 5)).requires_grad_()
    assert facula.autograd.gradcheck(getattr(facula.fft, name), [x])


@pytest.mark.parametrize("name", ["fft", "rfft", "ihfft", "rfft2", "rfftn", "ihfftn"])
def test_gradients_of_real_inputs(name):
    x = facula.from_numpy(signal(3, 6, real=True)).requires_grad_()
    assert facula.autograd.gradcheck(getattr(facula.fft, name), [x])
    assert facula.autograd.gradgradcheck(getattr(facula.fft, name), [x])


def test_batches_of_vmap():
    x = facula.from_numpy(signal(6, 4, 5))
    assert facula.equal(facula.func.vmap(facula.fft.fft)(x), facula.fft.fft(x))
    result = facula.func.vmap(lambda t: facula.fft.fft(t, dim=0), in_dims=2, out_dims=2)(x)
    np.testing.assert_allclose(result.numpy(), facula.fft.fft(x, dim=0).numpy(), atol=1e-14)


def test_meta_and_empty():
    assert facula.fft.rfft(facula.empty(3, 8, device="meta")).shape == (3, 5)
    assert facula.fft.fft(facula.empty(0, 4)).shape == (0, 4)
    assert facula.fft.irfft(facula.empty(0, 4, dtype=facula.complex64)).shape == (0, 6)


def test_infinities_and_nans_stay_in_their_line():
    x = signal(20, 33)
    x[3, 5], x[7, 2] = np.nan, np.inf
    result = facula.fft.fft(facula.from_numpy(x)).numpy()
    assert not np.isfinite(result[[3, 7]]).any()
    rest = np.delete(np.arange(20), [3, 7])
    np.testing.assert_allclose(result[rest], np.fft.fft(x[rest]), atol=1e-12)


@pytest.mark.parametrize("shape, dims", [((1,), (0,)), ((2,), (0,)), ((7,), (0,)), ((300, 64), (1,)), ((5, 9, 3), (1,)), ((4, 6, 5), (0, 2)),
                                         ((33, 130, 70), (1,)), ((3, 131072), (1,)), ((0, 8), (1,)), ((6, 5, 4), (2, 0, 1))])  # fmt: skip
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.int64])
@pytest.mark.parametrize("name", ["fftn", "ifftn"])
def test_whole_transforms_of_real_elements(shape, dims, dtype, name):
    facula.manual_seed(len(shape))
    x = (facula.randn(shape, dtype=facula.float64) * 8).to(dtype)
    ours = getattr(facula.fft, name)(x, dim=dims)
    assert ours.dtype == (facula.complex128 if dtype == facula.float64 else facula.complex64)
    want = getattr(np.fft, name)(x.double().numpy(), axes=dims)
    scale = np.abs(want).max() if want.size else 1
    np.testing.assert_allclose(ours.numpy(), want, atol=(1e-14 if dtype == facula.float64 else 2e-6) * scale)
    if len(dims) == 1:  # the mirror image to the last bit
        rest = ours.narrow(dims[0], 1, ours.size(dims[0]) - 1)
        assert facula.equal(rest, rest.flip(dims).conj()) and not ours.select(dims[0], 0).imag.any()


def test_gradients_of_whole_transforms_of_real_elements():
    x = facula.randn(3, 6, 5, dtype=facula.float64, requires_grad=True)
    for call in (facula.fft.fft, facula.fft.ifft, facula.fft.fft2, lambda t: facula.fft.fftn(t, (4, 7), (0, 1), "ortho")):
        assert gradcheck(call, (x,)) and gradgradcheck(call, (x,))


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_gradients_of_transforms_of_real_elements(n):
    x = facula.randn(3, n, dtype=facula.float64, requires_grad=True)
    for dims in ((1,), (0, 1), (1, 0)):
        assert facula.autograd.gradcheck(lambda a, dims=dims: facula.fft.rfftn(a, dim=dims), (x,))
        assert facula.autograd.gradgradcheck(lambda a, dims=dims: facula.fft.rfftn(a, dim=dims) ** 2, (x,))
    spectrum = facula.fft.rfft(x)
    weights = facula.randn(spectrum.shape, dtype=facula.complex128)
    (gradient,) = facula.autograd.grad(spectrum, x, weights)
    k = np.arange(spectrum.size(1))[:, None] * np.arange(n)
    np.testing.assert_allclose(gradient.numpy(), (weights.numpy() @ np.exp(2j * np.pi * k / n)).real, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "bfloat16", "complex32"])
def test_private_transforms_refuse_other_dtypes(dtype):
    ops, x = facula._C._ops, facula.ones(3, 4).to(getattr(facula, dtype))
    for run in (lambda: ops._fft_c2c(x, [1], 1.0, True), lambda: ops._fft_r2c(x, [1], 1.0), lambda: ops._fft_c2r(x, [1], 1.0, 6),
                lambda: ops._fft_real(x, [0, 1], 1.0, True)):  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"^fft: .*, got (torch.)?{dtype}"):
            run()
