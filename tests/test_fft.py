"""Transforms against NumPy, their gradients against the adjoint transform, and the frequency helpers."""

import numpy as np
import pytest

import facula


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


@pytest.mark.parametrize("n", [1, 4, 5])
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
    with pytest.raises(RuntimeError, match=f"fft.{name}: at least one data point.*, got .*{n}"):
        getattr(facula.fft, name)(facula.ones(4), n)
    assert facula.fft.fftn(facula.ones(4), [-1]).shape == (4,)
