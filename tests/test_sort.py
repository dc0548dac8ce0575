"""Sorting, selection by rank and search, against NumPy."""

import numpy as np
import pytest

import facula as torch

RNG = np.random.default_rng(0)
DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def data(dtype, shape):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype.startswith("float"):
        values = RNG.standard_normal(shape).astype(dtype)
        return np.where(RNG.random(shape) < 0.05, np.array(0, dtype), values)
    info = np.iinfo(dtype)
    return RNG.integers(max(info.min, -1000), min(info.max, 1000), shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 100, 511, 512, 3000])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype, n, descending):
    x = data(dtype, (3, n))
    values, indices = torch.sort(torch.from_numpy(x), dim=1, descending=descending)
    key = -x.astype(np.float64) if descending else x.astype(np.float64)
    order = np.argsort(key, axis=1, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))


def test_extremes_of_64_bits():
    x = np.array([0, -1, 2**63 - 1, -(2**63), 5, 2**62, -(2**62)])
    np.testing.assert_array_equal(torch.from_numpy(x).sort()[0].numpy(), np.sort(x))
    big = RNG.integers(-(2**63), 2**63 - 1, 5000)
    np.testing.assert_array_equal(torch.from_numpy(big).sort()[0].numpy(), np.sort(big))
    doubles = RNG.standard_normal(5000) * 10.0 ** RNG.integers(-300, 300, 5000)
    np.testing.assert_array_equal(torch.from_numpy(doubles).sort()[0].numpy(), np.sort(doubles))


@pytest.mark.parametrize("n", [20, 2000])
def test_nan_inf_and_signed_zero(n):
    x = RNG.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5], dtype=np.float32), n)
    values, indices = torch.from_numpy(x).sort(stable=True)
    order = np.argsort(x, kind="stable")  # NumPy also puts NaN last and takes -0 as 0
    np.testing.assert_array_equal(indices.numpy(), order)
    numbers = ~np.isnan(x[order])
    np.testing.assert_array_equal(np.signbit(values.numpy()[numbers]), np.signbit(x[order][numbers]))
    values, _ = torch.from_numpy(x).sort(descending=True)
    count = np.isnan(x).sum()
    assert np.isnan(values.numpy()[:count]).all() and not np.isnan(values.numpy()[count:]).any()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_dimensions_and_strides(dim):
    x = data("float64", (5, 6, 7))
    for view in (x, x.transpose(2, 0, 1), x[::2, :, ::3]):
        t = torch.from_numpy(np.ascontiguousarray(x))
        t = t if view is x else t.permute(2, 0, 1) if view.shape == (7, 5, 6) else t[::2, :, ::3]
        np.testing.assert_array_equal(t.sort(dim)[0].numpy(), np.sort(view, dim))
        np.testing.assert_array_equal(torch.argsort(t, dim).numpy(), np.argsort(view, dim, kind="stable"))
        np.testing.assert_array_equal(t.topk(2, dim)[0].numpy(), np.flip(np.sort(view, dim), dim).take([0, 1], dim))
        np.testing.assert_array_equal(t.kthvalue(2, dim)[0].numpy(), np.sort(view, dim).take(1, dim))
    np.testing.assert_array_equal(torch.msort(torch.from_numpy(x)).numpy(), np.sort(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (10, 10), (1000, 3), (5000, 700), (20000, 20)])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype, n, k, largest):
    x = data(dtype, (2, n))
    values, indices = torch.from_numpy(x).topk(k, largest=largest)
    expected = np.sort(x, 1)
    expected = expected[:, ::-1][:, :k] if largest else expected[:, :k]
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), expected)
    assert all(len(set(row)) == k for row in indices.tolist())


def test_topk_takes_nan_as_largest():
    x = torch.tensor([1.0, float("nan"), 3.0])
    assert np.isnan(x.topk(1)[0].item()) and x.topk(2, largest=False)[0].tolist() == [1, 3]


def test_empty_and_zero_dimensions():
    assert torch.tensor(3.0).sort()[0].item() == 3 and torch.tensor(3.0).topk(1)[1].item() == 0
    assert torch.zeros(0, 3).sort(0)[0].shape == (0, 3) and torch.zeros(3, 0).topk(0)[0].shape == (3, 0)
    assert torch.tensor(3.0).kthvalue(1)[0].item() == 3


def test_gradients():
    x = torch.from_numpy(data("float64", (4, 5))).requires_grad_()
    weight = torch.from_numpy(RNG.standard_normal((4, 5)))
    values, indices = x.sort(1, descending=True)
    (grad,) = torch.autograd.grad((values * weight).sum(), x)
    expected = np.zeros((4, 5))
    np.put_along_axis(expected, indices.numpy(), weight.numpy(), 1)
    np.testing.assert_allclose(grad.numpy(), expected)
    for pick in (lambda t: t.topk(1, 0)[0], lambda t: t.kthvalue(4, 0)[0], lambda t: t.kthvalue(4, 0, keepdim=True)[0]):
        (grad,) = torch.autograd.grad(pick(x).sum(), x)
        assert grad.sum().item() == 5 and (grad.numpy().max(0) == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    side = "right" if right else "left"
    sequence, values = np.sort(data(dtype, 50)), data(dtype, (4, 9))
    expected = np.searchsorted(sequence, values, side)
    s, v = torch.from_numpy(sequence), torch.from_numpy(values)
    np.testing.assert_array_equal(torch.searchsorted(s, v, right=right).numpy(), expected)
    np.testing.assert_array_equal(torch.searchsorted(s, v, side=side).numpy(), expected)
    np.testing.assert_array_equal(torch.bucketize(v, s, right=right).numpy(), expected)
    assert torch.searchsorted(s, v, out_int32=True).dtype == torch.int32
    shuffle = RNG.permutation(50)
    sorter = torch.from_numpy(np.argsort(sequence[shuffle], kind="stable"))
    found = torch.searchsorted(torch.from_numpy(sequence[shuffle]), v, sorter=sorter, right=right)
    np.testing.assert_array_equal(found.numpy(), expected)
    rows = np.sort(data(dtype, (4, 30)), 1)
    expected = [np.searchsorted(r, w, side) for r, w in zip(rows, values, strict=True)]
    np.testing.assert_array_equal(torch.searchsorted(torch.from_numpy(rows), v, right=right).numpy(), expected)


def test_search_of_a_number():
    s = torch.tensor([1, 3, 5])
    assert torch.searchsorted(s, 3).item() == 1 and torch.searchsorted(s, 3.5).item() == 2
    assert torch.bucketize(3, s, right=True).item() == 2 and torch.bucketize(3, s, right=True).shape == ()
    assert torch.searchsorted(torch.zeros(0), torch.zeros(2)).tolist() == [0, 0]
    assert torch.searchsorted(torch.tensor([1, 2, 3]), torch.tensor([2.5])).item() == 2  # compared in the common dtype


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.zeros(3).sort(1), IndexError),
        (lambda: torch.zeros(3).topk(4), RuntimeError),
        (lambda: torch.zeros(3).topk(-1), RuntimeError),
        (lambda: torch.zeros(3).kthvalue(0), RuntimeError),
        (lambda: torch.zeros(0).kthvalue(1), IndexError),
        (lambda: torch.zeros(3, dtype=torch.complex64).sort(), RuntimeError),
        (lambda: torch.searchsorted(torch.zeros(3), torch.zeros(2, dtype=torch.complex64)), RuntimeError),
        (lambda: torch.tensor([True]).topk(1), RuntimeError),
        (lambda: torch.searchsorted(torch.zeros(3), torch.zeros(2), right=True, side="left"), RuntimeError),
        (lambda: torch.searchsorted(torch.zeros(3), torch.zeros(2), side="middle"), RuntimeError),
        (lambda: torch.searchsorted(torch.zeros(2, 3), torch.zeros(2)), RuntimeError),
        (lambda: torch.searchsorted(torch.zeros(3), torch.zeros(2), sorter=torch.tensor([0, 1, 3])), RuntimeError),
        (lambda: torch.bucketize(torch.zeros(2), torch.zeros(2, 3)), RuntimeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_out():
    x = torch.from_numpy(data("float32", (3, 8)))
    values, indices = torch.zeros(3, 8), torch.zeros(3, 8, dtype=torch.int64)
    result = torch.sort(x, out=(values, indices))
    assert result.values is values and torch.equal(values, x.sort()[0]) and torch.equal(indices, x.sort()[1])
    turned = torch.zeros(8, 3).t()
    torch.sort(x, out=(turned, indices))
    assert torch.equal(turned, values)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "int8", "float64"])
@pytest.mark.parametrize("rows", [2, 7, 8, 9, 20])
@pytest.mark.parametrize("n", [2, 5, 8, 11, 16, 27, 32, 33])
def test_short_rows(dtype, rows, n):
    x = torch.randint(0, 6, (rows, n)).to(getattr(torch, dtype))
    if x.is_floating_point():
        x[1, n // 2] = float("nan")
    for descending in (False, True):
        wanted = x.double().nan_to_num(99)  # NaN is the largest, and equal ones keep their order
        keys = [sorted(range(n), key=lambda i, r=r: -r[i] if descending else r[i]) for r in wanted.tolist()]
        values, places = torch.sort(x, dim=1, descending=descending, stable=True)
        assert places.tolist() == keys
        assert torch.equal(values.nan_to_num(99), x.gather(1, places).nan_to_num(99))
        for k in {1, 3, n}:
            if k > n:
                continue
            best, found = x.topk(k, largest=descending)
            assert torch.equal(best.nan_to_num(99), values[:, :k].nan_to_num(99))
            assert torch.equal(x.gather(1, found).nan_to_num(99), best.nan_to_num(99))
    assert torch.equal(torch.msort(x).nan_to_num(99), x.sort(0)[0].nan_to_num(99))
