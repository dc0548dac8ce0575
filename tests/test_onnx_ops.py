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


def _products(u, s, v):
    return s, (u * s.unsqueeze(-2)) @ v


def _full_products(u, s, v):
    """What is determined: the matrix, and that columns are orthogonal."""
    return s, (u[..., : len(s)] * s) @ v.mT, u.mT @ u, v.mT @ v


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
    "svd": (lambda a: _products(*linalg.svd(a, full_matrices=False)), numbers(2, 3, 5)),
    "svd_square": (lambda a: _products(*linalg.svd(a)), SQUARE),
    "svd_full": (lambda a: _full_products(*facula.svd(a, some=False)), TALL),
    "svd_of_low_rank": (lambda a: _full_products(*facula.svd(a)), facula.ones(4, 3)),
    "pinv_hermitian": (lambda a: linalg.pinv(a, hermitian=True, rtol=1e-5), positive(3, 3)),
    "nuclear": (lambda a: linalg.matrix_norm(a, "nuc"), TALL),
    "spectral": (lambda a: linalg.matrix_norm(a, 2), TALL),
}
PLACES = facula.from_numpy(np.random.default_rng(3).random((2, 2, 2, 3, 3), dtype="f4") * 3 - 1.5)
X = facula.tensor([0.5, -2.5, 3.0, 0.1, 20.0])
GAPS = facula.tensor([[3.0, math.nan, 1.0, 2.0], [math.nan, 5.0, math.nan, 4.0]])
OTHERS = {
    "clamp": (lambda x, low, high: (x.clamp(low, high), x.clamp(max=high)), X, facula.tensor(-1.0), facula.tensor(2.0)),
    "embedding_norm": (lambda i, w: nn.functional.embedding(i, w.clone(), max_norm=1.0), facula.tensor([[4, 0], [0, 2]]), numbers(5, 3)),
    "embedding_bag": (
        lambda i, w, o: nn.functional.embedding_bag(i, w, o, mode="max", padding_idx=-1),
        facula.tensor([4, 1, 1, 0, 4, 4]), numbers(5, 4), facula.tensor([0, 3]),
    ),
    "gcd": (facula.gcd, facula.tensor([12, -18, 0, 7]), facula.tensor([18, 12, 5, 0])),
    "lcm": (facula.lcm, facula.tensor([4, -6, 0]), facula.tensor([6, 4, 5])),
    "frexp": (lambda x: tuple(facula.frexp(x)), facula.tensor([0.0, 1.0, -3.0, 0.5, 1e-30, math.inf])),
    "nextafter": (facula.nextafter, facula.tensor([1.0, 1.0, 0.0, -2.0, 3.4028234663852886e38]), facula.tensor([2.0, 0.0, -1.0, 0.0, math.inf])),
    "digamma": (facula.digamma, X),
    "lgamma": (facula.lgamma, X),
    "trigamma": (lambda x: facula.polygamma(1, x), X),
    "polygamma": (lambda x: facula.polygamma(3, x), X),
    "polygamma_far_below": (lambda x: (facula.polygamma(4, x), facula.polygamma(5, x)), facula.tensor([-1001.2, -35.5, -0.25, 0.25, 0.0, -2.0])),
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
    "conv_transpose_more": (
        lambda x, w, b: nn.functional.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=2, dilation=3),
        numbers(1, 2, 4), numbers(2, 3, 2), numbers(3),
    ),
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


LOGS, CLASSES = numbers(7, 4, 5).log_softmax(-1), facula.tensor([[1, 1, 2], [3, 4, 0], [4, 4, 4], [2, 0, 0]])
CTC = {  # targets, how long the inputs and the targets are
    "padded": (LOGS, CLASSES, [7, 5, 3, 7], [3, 2, 3, 0]),
    "joined": (LOGS, facula.tensor([1, 1, 2, 3, 4, 4, 4, 4]), [7, 5, 6, 0], [3, 2, 3, 0]),
    "lengths_as_tensors": (LOGS, facula.tensor([1, 1, 2, 3, 4, 4, 4, 4]), facula.tensor([7, 5, 6, 1]), facula.tensor([3, 2, 3, 0])),
    "without_batch": (LOGS[:, 0], CLASSES[0], [6], [3]),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", CTC)
def test_ctc_loss(name, reduction):
    logs, classes, *lengths = CTC[name]
    for blank, finite in ((0, False), (0, True), (2, False)):
        targets = facula.where(classes == blank, 0, classes)
        loss = lambda *given, b=blank, f=finite: nn.functional.ctc_loss(*given[:2], *(given[2:] or lengths), b, reduction, f)
        given = lengths if isinstance(lengths[0], facula.Tensor) else ()
        same(*computed(loss, logs, targets, *given), bound=1e-5)


def test_shapes_are_results():
    for shapes in (((), ()), ((2, 1), (3,))):
        program = facula.onnx.export(Call(lambda s=shapes: facula.broadcast_shapes(*s)), ())
        (got,) = onnx_reader.Model(program.serialize()).run()
        assert got.dtype == np.int64 and got.tolist() == list(facula.broadcast_shapes(*shapes))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_samples_of_volumes(mode, padding, align):
    function = lambda x, at: nn.functional.grid_sample(x, at, mode, padding, align)
    same(*computed(function, numbers(2, 3, 3, 4, 5), PLACES, opset=18))


RANDOM = {  # and how many of the numbers are below 1
    "exponential": (lambda x: x.clone().exponential_(2.0), 1 - math.exp(-2)),
    "cauchy": (lambda x: x.clone().cauchy_(1.0, 3.0), 0.5),
    "log_normal": (lambda x: x.clone().log_normal_(0.0, 2.0), 0.5),
    "geometric": (lambda x: x.clone().geometric_(0.25), 0.0),
    "geometric_more": (lambda x: x.clone().geometric_(0.25) - 1, 0.25),
    "random": (lambda x: x.clone().random_(-2, 4), 0.5),
    "uniform": (lambda x: x.clone().uniform_(0, 4), 0.25),
    "normal": (lambda x: x.clone().normal_(1.0, 5.0), 0.5),
    "rrelu": (lambda x: nn.functional.rrelu(x * 0 - 4, 0.0, 1.0, training=True) / -2, 0.5),
    "randperm": (lambda x: facula.randperm(4000).float() / 1000, 0.25),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_have_the_distribution(name):
    function, share = RANDOM[name]
    program = facula.onnx.export(Call(function), (facula.zeros(4000),), opset_version=21)
    model = onnx_reader.Model(program.serialize())
    (got,) = model.run(**dict.fromkeys(model.inputs, np.zeros(4000, "f4")))
    drawn = function(facula.zeros(4000)).numpy()
    for values in (got, drawn):
        assert values.shape == (4000,) and values.dtype == np.float32
        assert abs((values < 1).mean() - share) < 0.04
