"""Ops that ONNX has not, made of what it has: computed by tests/onnx_reader.py they give what Facula gives.

`benchmarks/onnx_ops.py` compares all ops by onnxruntime.
"""

import math

import numpy as np
import onnx_reader
import pytest

import facula
from facula import linalg, nn, special


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def computed(function, *args, opset=21, **options):
    """What the model gives, and what the function gives, as lists of arrays."""
    program = facula.onnx.export(Call(function), args, opset_version=opset, **options)
    model = onnx_reader.Model(program.serialize())
    got = model.run(**{name: a.numpy() for name, a in zip(model.inputs, args)})
    return got, arrays(function, *args)


def arrays(function, *args):
    return [t.numpy() for t in facula.utils._pytree.tree_leaves(function(*args))]


def same(got, wanted, bound=1e-4):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound / 10)


def numbers(*shape):
    return facula.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape).astype("f4"))


def positive(*shape):
    a = numbers(*shape)
    return a @ a.mT + facula.eye(shape[-1])


SQUARE, MANY, TALL = numbers(4, 4), numbers(2, 3, 3), numbers(5, 3)
COUNTS = facula.tensor([[3, 1, 1], [2, 3, 1]])
MATRICES = {
    "cholesky": (lambda a: linalg.cholesky(a), positive(2, 4, 4)),
    "cholesky_upper": (lambda a: facula.cholesky(a, upper=True), positive(3, 3)),
    "cholesky_solve": (lambda a, b: facula.cholesky_solve(b, facula.cholesky(a)), positive(3, 3), numbers(3, 2)),
    "cholesky_inverse": (lambda a: facula.cholesky_inverse(facula.cholesky(a)), positive(3, 3)),
    "lu": (lambda a: tuple(linalg.lu(a)), numbers(2, 3, 4)),
    "lu_factor": (lambda a: tuple(linalg.lu_factor(a)), TALL),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), MANY, numbers(2, 3, 2)),
    "lu_solve_right": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, left=False, adjoint=True), MANY, numbers(2, 2, 3)),
    "lu_unpack": (lambda a: tuple(facula.lu_unpack(*linalg.lu_factor(a))), SQUARE),
    "solve": (linalg.solve, MANY, numbers(2, 3, 2)),
    "solve_vector": (linalg.solve, SQUARE, numbers(4)),
    "solve_right": (lambda a, b: linalg.solve(a, b, left=False), SQUARE, numbers(2, 4)),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=True), SQUARE, numbers(4, 2)),
    "triangular_solve": (lambda b, a: tuple(facula.triangular_solve(b, a, transpose=True)), numbers(4, 2), SQUARE),
    "inv": (linalg.inv, MANY),
    "slogdet": (lambda a: tuple(linalg.slogdet(a)), MANY),
    "det": (linalg.det, MANY),
    "qr": (lambda a: tuple(linalg.qr(a)), TALL),
    "qr_complete": (lambda a: tuple(linalg.qr(a, mode="complete")), TALL),
    "qr_wide": (lambda a: tuple(linalg.qr(a)), numbers(2, 2, 4)),
    "geqrf": (lambda a: tuple(facula.geqrf(a)), TALL),
    "householder": (lambda a: linalg.householder_product(*facula.geqrf(a)), TALL),
    "ormqr": (lambda a, b: facula.ormqr(*facula.geqrf(a), b, left=False, transpose=True), TALL, numbers(2, 5)),
    "matrix_exp": (linalg.matrix_exp, MANY),
    "svdvals": (linalg.svdvals, numbers(2, 3, 5)),
    "pinv": (linalg.pinv, TALL),
    "matrix_rank": (linalg.matrix_rank, TALL[:, [0, 1, 0]]),
    "nuclear": (lambda a: linalg.matrix_norm(a, "nuc"), TALL),
    "spectral": (lambda a: linalg.matrix_norm(a, 2), TALL),
}
X = facula.tensor([0.5, -2.5, 3.0, 0.1, 20.0])
GAPS = facula.tensor([[3.0, math.nan, 1.0, 2.0], [math.nan, 5.0, math.nan, 4.0]])
OTHERS = {
    "gcd": (facula.gcd, facula.tensor([12, -18, 0, 7]), facula.tensor([18, 12, 5, 0])),
    "lcm": (facula.lcm, facula.tensor([4, -6, 0]), facula.tensor([6, 4, 5])),
    "frexp": (lambda x: tuple(facula.frexp(x)), facula.tensor([0.0, 1.0, -3.0, 0.5, 1e-30, math.inf])),
    "nextafter": (facula.nextafter, facula.tensor([1.0, 1.0, 0.0, -2.0, 3.4028234663852886e38]), facula.tensor([2.0, 0.0, -1.0, 0.0, math.inf])),
    "digamma": (facula.digamma, X),
    "lgamma": (facula.lgamma, X),
    "trigamma": (lambda x: facula.polygamma(1, x), X),
    "polygamma": (lambda x: facula.polygamma(3, x), X),
    "zeta": (special.zeta, facula.tensor([2.0, 3.5]), facula.tensor([1.0, 0.5])),
    "igamma": (facula.igamma, X.abs(), facula.tensor([1.0, 2.0, 0.5, 3.0, 25.0])),
    "igammac": (facula.igammac, X.abs(), facula.tensor([1.0, 2.0, 0.5, 0.0, 25.0])),
    "i0e": (special.i0e, X),
    "mode": (lambda x: tuple(facula.mode(x)), COUNTS),
    "nanmedian": (lambda x: tuple(facula.nanmedian(x, 1)), GAPS),
    "nanmedian_all": (facula.nanmedian, GAPS),
    "nanquantile": (lambda x: facula.nanquantile(x, facula.tensor([0.25, 0.5]), dim=1, keepdim=True), GAPS),
    "histogram": (lambda x: tuple(facula.histogram(x, 4)), numbers(20)),
    "histogram_edges": (lambda x, e: tuple(facula.histogram(x, e, density=True)), numbers(20), facula.tensor([-1.0, 0.0, 2.0])),
    "histogramdd": (lambda x: facula.histogramdd(x, (2, 3)).hist, numbers(20, 2)),
    "unique": (lambda x: facula.unique(x, return_inverse=True, return_counts=True), COUNTS),
    "unique_rows": (lambda x: facula.unique(x, dim=1), COUNTS),
    "unique_consecutive": (lambda x: facula.unique_consecutive(x, return_counts=True), COUNTS),
    "nonzero_static": (lambda x: facula.nonzero_static(x > 1, size=5), COUNTS),
    "one_hot": (nn.functional.one_hot, COUNTS),
    "cov": (lambda x, w: facula.cov(x, fweights=w), numbers(3, 4), facula.tensor([1, 2, 0, 3])),
    "corrcoef": (facula.corrcoef, numbers(3, 6)),
    "as_strided_scatter": (lambda x, y: facula.as_strided_scatter(x, y, (2, 2), (1, 2), 1), numbers(3, 3), numbers(2, 2)),
    "fractional_max_pool": (
        lambda x, u: nn.functional.fractional_max_pool2d(x, 2, 3, return_indices=True, _random_samples=u),
        numbers(2, 3, 7, 6), facula.from_numpy(np.random.default_rng(0).random((2, 3, 2), dtype="f4")),
    ),
    "max_pool_ceil": (lambda x: nn.functional.max_pool2d(x, 3, 3, 1, ceil_mode=True), numbers(1, 2, 5, 5)),
    "relu6": (nn.functional.relu6, X),
    "threshold": (lambda x: nn.functional.threshold(x, 1.0, 7.0), X),
    "relu6_inplace": (lambda x: (lambda y: (nn.functional.relu6(y, inplace=True), y))(x + 1), X),
    "gaussian_nll_loss": (nn.functional.gaussian_nll_loss, numbers(5), numbers(4, 5)[0], facula.ones(5)),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_of_matrices(name):
    function, *args = MATRICES[name]
    same(*computed(function, *args))


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("name", OTHERS)
def test_others(name, opset):
    function, *args = OTHERS[name]
    same(*computed(function, *args, opset=opset), bound=1e-5)


DYNAMIC = {
    "cholesky": (linalg.cholesky, positive(2, 3, 3), lambda n: positive(n, 3, 3)),
    "solve": (lambda a: linalg.solve(a, a + 1), positive(2, 3, 3), lambda n: positive(n, 3, 3)),
    "qr": (lambda a: tuple(linalg.qr(a)), numbers(2, 4, 3), lambda n: numbers(n, 4, 3)),
    "unique": (lambda x: facula.unique(x), numbers(5), lambda n: numbers(n)),
    "softmax": (lambda x: x.softmax(0) + x.mean(), numbers(5), lambda n: numbers(n)),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_that_vary(name):
    function, first, other = DYNAMIC[name]
    program = facula.onnx.export(Call(function), (first,), dynamic_shapes=(({0: facula.export.Dim("n", min=2)},),))
    model = onnx_reader.Model(program.serialize())
    for size in (2, 3, 7):
        x = other(size)
        same(model.run(**{next(iter(model.inputs)): x.numpy()}), arrays(function, x))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: facula.nextafter(x.double(), x.double()), "nextafter of float64 has no translation to ONNX"),
        (lambda x: special.bessel_j1(x), "no translation to ONNX of aten::special_bessel_j1"),
        (lambda x: linalg.svdvals(x.expand(100, 100)), "singular values need a size of at most 64, got 100"),
        (lambda x: linalg.eigvals(x.expand(2, 2)).real, "no translation to ONNX of aten::linalg_eigvals"),
    ],
)
def test_what_is_not_there_is_named(function, text):
    with pytest.raises(NotImplementedError, match=rf"^onnx\.export: .*{text}"):
        facula.onnx.export(Call(function), (facula.ones(1),))


def test_random_numbers_have_the_right_distribution_in_the_file():
    draws = lambda x: (x.clone().exponential_(2.0), x.clone().cauchy_(), x.clone().log_normal_(), x.clone().geometric_(0.5))
    ops = onnx_reader.Model(facula.onnx.export(Call(draws), (numbers(4),)).serialize()).ops()
    assert ops.count("RandomUniformLike") == 3 and ops.count("RandomNormalLike") == 1


def signal(*shape):
    return facula.from_numpy(np.random.default_rng(7).normal(size=shape).astype("f4"))


REAL = facula.view_as_real
SPECTRA = {
    "rfft": (lambda x: REAL(facula.fft.rfft(x)), signal(3, 8)),
    "fft": (lambda x: REAL(facula.fft.fft(x, dim=0, norm="ortho")), signal(6, 3)),
    "fft_padded": (lambda x: REAL(facula.fft.fft(x, n=12)), signal(2, 8)),
    "ifft": (lambda x: facula.fft.ifft(facula.fft.fft(x)).real, signal(2, 5)),
    "irfft": (lambda x: facula.fft.irfft(facula.fft.rfft(x)), signal(2, 8)),
    "irfft_odd": (lambda x: facula.fft.irfft(facula.fft.rfft(x), n=7, norm="forward"), signal(2, 7)),
    "hfft": (lambda x: facula.fft.hfft(facula.view_as_complex(x)), signal(2, 5, 2)),
    "ihfft": (lambda x: REAL(facula.fft.ihfft(x)), signal(2, 6)),
    "fft2": (lambda x: facula.fft.fft2(x).abs(), signal(2, 4, 6)),
    "rfftn": (lambda x: REAL(facula.fft.irfftn(facula.fft.rfftn(x)) * (1 + 2j)), signal(2, 4, 6)),
    "stft": (lambda x: facula.stft(x, 8, return_complex=False), signal(40)),
    "stft_magnitude": (lambda x: facula.stft(x, 8, window=facula.hann_window(8), return_complex=True).abs(), signal(40)),
    "filter": (lambda x: facula.fft.irfft(facula.fft.rfft(x) * facula.polar(facula.ones(5), facula.arange(5.0))), signal(2, 8)),
    "arithmetic": (lambda x: REAL((facula.complex(x, x * 2).exp() / (2 - 1j)).conj().reshape(6) + 1j), signal(2, 3)),
    "angle": (lambda x: facula.view_as_complex(x).angle(), signal(5, 2)),
}


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("name", SPECTRA)
def test_complex_numbers_within(name, opset):
    function, *args = SPECTRA[name]
    same(*computed(function, *args, opset=opset))


def test_complex_numbers_outside():
    complex_ = facula.rand(2, dtype=facula.complex64)
    with pytest.raises(NotImplementedError, match=r"^onnx\.export: the input .* is complex: give view_as_real"):
        facula.onnx.export(Call(lambda x: x), (complex_,))
    with pytest.raises(NotImplementedError, match=r"^onnx\.export: a result is complex: give view_as_real\(\) of it"):
        facula.onnx.export(Call(lambda x: facula.fft.fft(x)), (facula.ones(2),))
    with pytest.raises(NotImplementedError, match=r"^onnx\.export: no translation to ONNX of aten::acos of complex numbers"):
        facula.onnx.export(Call(lambda x: facula.fft.fft(x).acos().real), (facula.ones(2),))
