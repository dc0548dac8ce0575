"""Normalisations against their definitions in NumPy, and their derivatives against differences."""

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.autograd.gradcheck import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def double(*shape, grad=False):
    return facula.tensor(rng.standard_normal(shape).tolist(), dtype=facula.float64, requires_grad=grad)


def normalised(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def values(t):
    return np.array(t.tolist())


@pytest.mark.parametrize("shape, dims", [((4, 6), 1), ((2, 3, 5), 2), ((3, 1030), 1), ((7,), 1)])
def test_layer_norm(shape, dims):
    inner = shape[-dims:]
    x, w, b = double(*shape), double(*inner), double(*inner)
    want = normalised(values(x), tuple(range(-dims, 0))) * values(w) + values(b)
    np.testing.assert_allclose(values(facula.layer_norm(x, inner, w, b)), want, atol=1e-12)
    result, mean, rstd = facula.native_layer_norm(x, inner, w, b, 1e-5)
    np.testing.assert_allclose(values(result), want, atol=1e-12)
    assert mean.shape == rstd.shape == (*shape[:-dims], *[1] * dims)


def test_layer_norm_of_views_and_nothing():
    x = double(6, 4)
    got = facula.layer_norm(x.transpose(0, 1), [6])
    np.testing.assert_allclose(values(got), normalised(values(x).T, -1), atol=1e-12)
    assert facula.layer_norm(facula.zeros(0, 4), [4]).shape == (0, 4)
    assert np.isnan(values(facula.layer_norm(facula.tensor([[1.0, float("nan")]]), [2]))).all()


@pytest.mark.parametrize("dtype, atol", [(facula.float32, 1e-5), (facula.float16, 4e-3), (facula.bfloat16, 3e-2)])
def test_layer_norm_dtypes(dtype, atol):
    x = double(3, 50)
    result = facula.layer_norm(x.to(dtype), [50])
    assert result.dtype == dtype
    np.testing.assert_allclose(values(result), normalised(values(x), -1), atol=atol)


def test_layer_norm_errors():
    x = facula.zeros(2, 3)
    for shape, weight in (([4], None), ([], None), ([3], facula.zeros(4))):
        with pytest.raises(RuntimeError, match="layer_norm"):
            facula.layer_norm(x, shape, weight)
    with pytest.raises(NotImplementedError, match="int64"):
        facula.layer_norm(facula.ones(2, 3, dtype=facula.int64), [3])


def test_rms_norm():
    x, w = double(4, 6), double(6)
    want = values(x) / np.sqrt((values(x) ** 2).mean(-1, keepdims=True) + 0.1) * values(w)
    np.testing.assert_allclose(values(facula.rms_norm(x, [6], w, 0.1)), want, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(2, 6, 3, 2), (3, 6)])
def test_group_norm(shape, groups):
    x, w, b = double(*shape), double(6), double(6)
    grouped = values(x).reshape(shape[0], groups, -1)
    column = (1, 6, *[1] * (len(shape) - 2))
    want = normalised(grouped, -1).reshape(shape) * values(w).reshape(column) + values(b).reshape(column)
    np.testing.assert_allclose(values(facula.group_norm(x, groups, w, b)), want, atol=1e-12)


def test_group_norm_errors():
    for groups in (4, 0):
        with pytest.raises(RuntimeError, match="group_norm"):
            facula.group_norm(facula.zeros(2, 6), groups)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 40, 30)])
def test_batch_norm(shape):
    x, w, b = double(*shape), double(3), double(3)
    mean, var = facula.zeros(3, dtype=facula.float64), facula.ones(3, dtype=facula.float64)
    axes = tuple(a for a in range(len(shape)) if a != 1)
    column = (1, 3, *[1] * (len(shape) - 2))
    affine = lambda y: y * values(w).reshape(column) + values(b).reshape(column)  # noqa: E731
    got = facula.batch_norm(x, w, b, mean, var, True, 0.1, 1e-5, False)
    np.testing.assert_allclose(values(got), affine(normalised(values(x), axes)), atol=1e-10)
    np.testing.assert_allclose(values(mean), 0.1 * values(x).mean(axes), atol=1e-12)
    np.testing.assert_allclose(values(var), 0.9 + 0.1 * values(x).var(axes, ddof=1), atol=1e-12)
    got = facula.batch_norm(x, w, b, mean, var, False, 0.1, 1e-5, False)
    want = (values(x) - values(mean).reshape(column)) / np.sqrt(values(var).reshape(column) + 1e-5)
    np.testing.assert_allclose(values(got), affine(want), atol=1e-10)


def test_batch_norm_needs_statistics():
    with pytest.raises(RuntimeError, match="batch_norm: expected running_mean"):
        facula.batch_norm(facula.zeros(2, 3), None, None, None, None, False, 0.1, 1e-5, False)


def test_instance_norm():
    x, w, b = double(2, 3, 5), double(3), double(3)
    mean, var = facula.zeros(3, dtype=facula.float64), facula.ones(3, dtype=facula.float64)
    want = normalised(values(x), -1) * values(w)[:, None] + values(b)[:, None]
    for m, v in ((None, None), (mean, var)):
        got = facula.instance_norm(x, w, b, m, v, True, 0.1, 1e-5, False)
        np.testing.assert_allclose(values(got), want, atol=1e-12)
    np.testing.assert_allclose(values(mean), 0.1 * values(x).mean((0, 2)), atol=1e-12)
    np.testing.assert_allclose(values(var), 0.9 + 0.1 * values(x).var(2, ddof=1).mean(0), atol=1e-12)


NORMS = {
    "layer": lambda x, w, b: facula.layer_norm(x, [4], w, b),
    "rms": lambda x, w, b: facula.rms_norm(x, [4], w) + b,
    "group": lambda x, w, b: facula.group_norm(x.transpose(0, 1), 2, w, b),
    "batch": lambda x, w, b: facula.batch_norm(x.transpose(0, 1), w, b, None, None, True, 0.1, 1e-5, False),
    "instance": lambda x, w, b: facula.instance_norm(
        x.reshape(3, 2, 4).transpose(1, 2), w, b, None, None, True, 0.1, 1e-5, False
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_derivatives(name):
    x = double(4, 6, grad=True) if name in ("group", "batch") else double(6, 4, grad=True)
    inputs = (x, double(4, grad=True), double(4, grad=True))
    assert gradcheck(NORMS[name], inputs)
    assert gradgradcheck(NORMS[name], inputs)


def test_results_do_not_depend_on_threads():
    x = facula.randn(64, 3000)
    before = facula.get_num_threads()
    results = []
    for threads in (1, 2):
        facula.set_num_threads(threads)
        leaf, w = x.clone().requires_grad_(), facula.ones(3000, requires_grad=True)
        (facula.layer_norm(leaf, [3000], w) ** 3).sum().backward()
        results.append((leaf.grad.tolist(), w.grad.tolist()))
    facula.set_num_threads(before)
    assert results[0] == results[1]


LOW, WEIGHTS = facula.ones(2, 4, 3, dtype=facula.bfloat16), {d: facula.ones(4, dtype=d) for d in (facula.bfloat16, facula.float32)}


@pytest.mark.parametrize(
    "norm",
    [
        lambda x, w, b: F.layer_norm(x.transpose(1, 2), [4], w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: F.instance_norm(x, None, None, w, b),
        lambda x, w, b: F.batch_norm(x, w, w, w, b),
    ],
    ids=["layer", "group", "instance", "batch"],
)
def test_parameters_have_the_inputs_dtype_or_float32(norm):
    low, full = WEIGHTS.values()
    assert norm(LOW, low, low).dtype is norm(LOW, full, full).dtype is facula.bfloat16
    for x, w, b in ((LOW, low, full), (LOW, full.double(), full.double()), (LOW.double(), full, full)):
        with pytest.raises(RuntimeError, match="_norm: expected weights and statistics of one dtype.*got"):
            norm(x, w, b)
