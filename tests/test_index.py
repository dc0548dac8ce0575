"""Indexing with tensors, against NumPy and closed forms."""

import numpy as np
import pytest

import facula as torch

RNG = np.random.default_rng(0)


def tensor(*shape, dtype=np.float64):
    return torch.from_numpy(RNG.standard_normal(shape).astype(dtype))


def ints(high, *shape):
    return torch.from_numpy(RNG.integers(0, high, shape))


BASE = np.arange(120, dtype=np.float64).reshape(4, 5, 6)
MASK = RNG.random((4, 5)) < 0.5
KEYS = {
    "int": 2,
    "negative": -1,
    "slice": slice(1, 3),
    "step": (slice(None), slice(None, None, 2)),
    "ellipsis": (..., 1),
    "none": (None, slice(None), None, 2),
    "list": [2, 0, 2],
    "negative list": [-1, -4],
    "array": np.array([[0, 1], [3, 2]]),
    "array and slice": (np.array([1, 2]), slice(None), np.array([3, 0])),
    "neighbors": (slice(None), np.array([1, 2]), np.array([[3], [0]])),
    "separated by none": (np.array([1, 2]), None, np.array([3, 0])),
    "array after ellipsis": (..., np.array([5, 0])),
    "last": (slice(None), slice(None), np.array([5, 0, 0])),
    "mask of two": MASK,
    "mask of one": (slice(None), MASK[0]),
    "mask and array": (MASK[:, 0], np.arange(MASK[:, 0].sum())),
    "full mask": BASE % 7 == 0,
    "empty": np.zeros((0,), np.int64),
    "int32": np.array([1, 3], np.int32),
    "true": True,
    "false": False,
    "true with slice": (slice(0, 2), True),
    "everything": (),
}


def as_key(key):
    """The same key with tensors for arrays."""
    if isinstance(key, tuple):
        return tuple(as_key(k) for k in key)
    return torch.from_numpy(np.ascontiguousarray(key)) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("turned", [False, True])
def test_get_and_set(name, turned):
    key = KEYS[name]
    base = BASE.copy()
    t = torch.from_numpy(base.copy())
    if turned:
        t = t.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    expected = base[key]
    got = t[as_key(key)]
    assert tuple(got.shape) == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)
    base[key] = -1.5
    t[as_key(key)] = -1.5
    np.testing.assert_array_equal(t.numpy(), base)
    values = RNG.standard_normal(expected.shape)
    base[key] = values
    t[as_key(key)] = torch.from_numpy(values)
    if name not in ("list", "last"):  # where a place comes twice, either value may win
        np.testing.assert_array_equal(t.numpy(), base)


@pytest.mark.parametrize("name", KEYS)
def test_gradient_of_get(name):
    key = as_key(KEYS[name])
    x = torch.from_numpy(BASE.copy()).requires_grad_()
    y = x[key]
    weight = RNG.standard_normal(tuple(y.shape))
    (grad,) = torch.autograd.grad((y * torch.from_numpy(weight)).sum(), x)
    expected = np.zeros_like(BASE)
    np.add.at(expected, KEYS[name], weight)
    np.testing.assert_allclose(grad.numpy(), expected)


def test_set_is_differentiable():
    x = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)
    v = torch.full((2, 3), 5.0, dtype=torch.float64, requires_grad=True)
    y = x * 2
    y[torch.tensor([0, 2])] = v
    gx, gv = torch.autograd.grad((y * y).sum(), (x, v))
    assert gx.tolist() == [[0] * 3, [8] * 3, [0] * 3, [8] * 3] and gv.tolist() == [[10] * 3] * 2


def test_index_put():
    x = torch.zeros(3)
    assert x.index_put_((torch.tensor([0, 0, 2]),), torch.tensor([1.0, 2.0, 3.0]), accumulate=True) is x
    assert x.tolist() == [3, 0, 3]
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    with pytest.warns(UserWarning, match="uint8"):
        assert x.index_put((mask,), torch.tensor(7.0)).tolist() == [7, 0, 7]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[mask].tolist() == [3, 3]
    x[1:][torch.tensor([True, False])] = 9
    assert x.tolist() == [3, 9, 3]


def test_negative_strides_and_offsets():
    x = torch.from_numpy(np.arange(24.0).reshape(4, 6)[::-1, ::-1])
    key = (torch.tensor([0, -1, 2]), torch.tensor([5, 1, -6]))
    reference = np.arange(24.0).reshape(4, 6)[::-1, ::-1]
    np.testing.assert_array_equal(x[key].numpy(), reference[(np.array([0, -1, 2]), np.array([5, 1, -6]))])


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather_and_scatter(dim):
    x, index = tensor(4, 5, 6), ints(4, 3, 4, 4)
    cut = tuple(slice(None) if d == dim % 3 else slice(s) for d, s in enumerate(index.shape))
    picked = np.take_along_axis(x.numpy()[cut], index.numpy(), dim % 3)
    np.testing.assert_array_equal(x.gather(dim, index).numpy(), picked)
    src = tensor(4, 5, 6)
    expected = x.numpy().copy()
    at = list(np.indices(tuple(index.shape)))
    at[dim % 3] = index.numpy()
    np.add.at(expected, tuple(at), src.numpy()[:3, :4, :4])
    np.testing.assert_allclose(x.scatter_add(dim, index, src).numpy(), expected)
    np.testing.assert_allclose(x.clone().scatter_add_(dim, index, src).numpy(), expected)
    np.testing.assert_allclose(x.scatter_reduce(dim, index, src, "sum").numpy(), expected)
    np.testing.assert_allclose(x.scatter(dim, index, src, reduce="add").numpy(), expected)
    expected = x.numpy().copy()
    expected[tuple(at)] = 3.0
    np.testing.assert_array_equal(x.scatter(dim, index, 3.0).numpy(), expected)
    np.maximum.at(expected := x.numpy().copy(), tuple(at), src.numpy()[:3, :4, :4])
    np.testing.assert_array_equal(x.scatter_reduce(dim, index, src, "amax").numpy(), expected)
    np.multiply.at(expected := x.numpy().copy(), tuple(at), src.numpy()[:3, :4, :4])
    np.testing.assert_allclose(x.scatter_reduce(dim, index, src, "prod").numpy(), expected)


def test_scatter_reduce_without_self():
    x, index = torch.full((5,), 100.0), torch.tensor([0, 0, 2, 2])
    src = torch.tensor([1.0, 3.0, -2.0, 5.0])
    cases = {"sum": [4, 3], "mean": [2, 1.5], "prod": [3, -10], "amax": [3, 5], "amin": [1, -2]}
    for reduce, (first, third) in cases.items():
        assert x.scatter_reduce(0, index, src, reduce, include_self=False).tolist() == [first, 100, third, 100, 100]
    assert x.scatter_reduce(0, index, src, "mean").tolist()[0] == pytest.approx(104 / 3)
    whole = torch.tensor([10, 20]).scatter_reduce(0, torch.tensor([0, 0]), torch.tensor([1, -30]), "mean")
    assert whole.tolist() == [-7, 20]


@pytest.mark.parametrize("dim", [0, 1])
def test_index_ops(dim):
    x, index = tensor(4, 5), torch.tensor([3, 0, 3])
    np.testing.assert_array_equal(x.index_select(dim, index).numpy(), np.take(x.numpy(), index.numpy(), dim))
    source = tensor(*((3, 5) if dim == 0 else (4, 3)))
    key = (index.numpy(),) if dim == 0 else (slice(None), index.numpy())
    np.add.at(expected := x.numpy().copy(), key, 2 * source.numpy())
    np.testing.assert_allclose(x.index_add(dim, index, source, alpha=2).numpy(), expected)
    expected = x.numpy().copy()
    expected[key] = 7
    np.testing.assert_array_equal(x.index_fill(dim, index, 7).numpy(), expected)
    from_end = index - x.shape[dim]
    np.testing.assert_array_equal(x.index_fill(dim, from_end, torch.tensor(7.0)).numpy(), expected)
    once = torch.tensor([3, 0, 1])
    expected[(slice(None),) * dim + (once.numpy(),)] = source.numpy()
    np.testing.assert_array_equal(x.index_fill(dim, index, 7).index_copy(dim, once, source).numpy(), expected)
    np.minimum.at(expected := x.numpy().copy(), key, source.numpy())
    np.testing.assert_array_equal(x.index_reduce(dim, index, source, "amin").numpy(), expected)


def test_masked_ops():
    x, mask = tensor(4, 5), torch.from_numpy(RNG.random((4, 5)) < 0.4)
    m = mask.numpy()
    np.testing.assert_array_equal(x.masked_fill(mask, 9.0).numpy(), np.where(m, 9, x.numpy()))
    np.testing.assert_array_equal(x.masked_fill(mask[:, :1], torch.tensor(9)).numpy(), np.where(m[:, :1], 9, x.numpy()))
    np.testing.assert_array_equal(x.masked_select(mask).numpy(), x.numpy()[m])
    np.testing.assert_array_equal(torch.masked_select(x, mask[0]).numpy(), x.numpy()[:, m[0]].ravel())
    np.place(expected := x.numpy().copy(), m, np.arange(20.0))
    np.testing.assert_array_equal(x.masked_scatter(mask, torch.arange(20, dtype=torch.float64)).numpy(), expected)
    y = x.clone()
    assert y.masked_fill_(mask, 1) is y and (y.numpy()[m] == 1).all()
    assert torch.zeros(3, dtype=torch.int64).masked_fill(torch.tensor([True, False, True]), 2.5).tolist() == [2, 0, 2]


@pytest.mark.parametrize("n", [10, 40_000, 200_001])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, np.complex64])
def test_selection_in_blocks(n, dtype):
    x = (RNG.random(n) < 0.3).astype(dtype)
    t = torch.from_numpy(x)
    np.testing.assert_array_equal(t.nonzero().numpy()[:, 0], np.nonzero(x)[0])
    values = torch.arange(n)
    np.testing.assert_array_equal(values[t != 0].numpy(), np.nonzero(x)[0])
    np.testing.assert_array_equal(torch.masked_select(values, t != 0).numpy(), np.nonzero(x)[0])
    grid = x[: n // 10 * 10].reshape(-1, 10)
    np.testing.assert_array_equal(torch.from_numpy(grid).nonzero().numpy(), np.argwhere(grid))


def test_nonzero_forms():
    x = torch.tensor([[0, 3], [4, 0]])
    assert [p.tolist() for p in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert [p.tolist() for p in torch.nonzero(torch.tensor(3), as_tuple=True)] == [[0]]
    assert torch.nonzero(torch.tensor(3)).shape == (1, 0) and torch.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert torch.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert torch.nonzero_static(x, size=1, fill_value=5).tolist() == [[0, 1]]


def test_take_and_put():
    x = tensor(3, 4)
    index = torch.tensor([[0, -1], [5, 5]])
    np.testing.assert_array_equal(x.t().take(index).numpy(), np.take(x.numpy().T, index.numpy()))
    assert torch.zeros(2, 3).put(torch.tensor([1, -1]), torch.tensor([5.0, 6.0])).tolist() == [[0, 5, 0], [0, 0, 6]]
    turned = torch.zeros(3, 2).t()
    turned.put_(torch.tensor([1, 1]), torch.tensor([5.0, 6.0]), accumulate=True)
    assert turned.tolist() == [[0, 11, 0], [0, 0, 0]]
    order = torch.argsort(x, 1)
    np.testing.assert_array_equal(torch.take_along_dim(x, order, 1).numpy(), np.sort(x.numpy(), 1))
    np.testing.assert_array_equal(torch.take_along_dim(x, torch.tensor([3, -1])).numpy(), x.numpy().ravel()[[3, -1]])


def test_embedding():
    weight = tensor(6, 3).requires_grad_()
    index = torch.tensor([[1, 1, 4], [2, 0, 1]])
    out = torch.embedding(weight, index, 2)
    np.testing.assert_array_equal(out.detach().numpy(), weight.detach().numpy()[index.numpy()])
    (grad,) = torch.autograd.grad(out.sum(), weight)
    assert grad[:, 0].tolist() == [1, 3, 0, 0, 1, 0]
    (grad,) = torch.autograd.grad(torch.embedding(weight, index, -1, True).sum(), weight)
    assert grad[:, 0].tolist() == [1, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(mode):
    weight = tensor(6, 3).requires_grad_()
    index, offsets = torch.tensor([0, 2, 1, 3, 3]), torch.tensor([0, 2, 2])
    reduce = [np.sum, np.mean, np.max][mode]
    out, bag_of, sizes, _ = torch.embedding_bag(weight, index, offsets, mode=mode, padding_idx=1)
    w = weight.detach().numpy()
    expected = np.stack([reduce(w[[0, 2]], axis=0), np.zeros(3), reduce(w[[3, 3]], axis=0)])
    np.testing.assert_allclose(out.detach().numpy(), expected)
    assert bag_of.tolist() == [0, 0, 2, 2, 2] and sizes.tolist() == [2, 0, 2]
    (grad,) = torch.autograd.grad(out.sum(), weight)
    assert grad.sum().item() == pytest.approx([12, 6, 6][mode]) and grad[1].tolist() == [0, 0, 0]


def test_one_hot_and_unravel():
    hot = torch.nn.functional.one_hot(torch.tensor([0, 2]))
    assert hot.tolist() == [[1, 0, 0], [0, 0, 1]]
    rows, columns = torch.unravel_index(torch.tensor([0, 5, 7]), (3, 4))
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [0, 1, 3]


def numeric(f, x, eps=1e-6):
    grad = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        grad[i] = (f(torch.from_numpy(up)).sum().item() - f(torch.from_numpy(down)).sum().item()) / (2 * eps)
    return grad


INDEX = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 1]])
VECTOR, TWICE = torch.tensor([2, 0]), torch.tensor([2, 0, 2])
SELF, SOURCE = tensor(3, 4), tensor(3, 4)
WITH_ZEROS = torch.tensor([[0.0, 2, 0, 3], [1, 0, 0, 0], [1, 2, 3, 4]], dtype=torch.float64)
DIFFERENTIABLE = {
    "gather": (lambda x, s: x.gather(0, INDEX), 1),
    "scatter": (lambda x, s: x.scatter(1, torch.tensor([[0, 1], [3, 2]]), s), 2),
    "scatter_add": (lambda x, s: x.scatter_add(0, INDEX, s), 2),
    **{f"scatter_{r}{own}": (lambda x, s, r=r, own=own: x.scatter_reduce(0, INDEX, s, r, include_self=own), 2)
       for r in ("sum", "mean", "prod", "amax", "amin") for own in (True, False)},
    **{f"index_{r}{own}": (lambda x, s, r=r, own=own: x.index_reduce(0, TWICE, s, r, include_self=own), 2)
       for r in ("mean", "prod", "amax", "amin") for own in (True, False)},
    "index_select": (lambda x, s: x.index_select(0, VECTOR), 1),
    "index_add": (lambda x, s: x.index_add(0, VECTOR, s[:2], alpha=3), 2),
    "index_copy": (lambda x, s: x.index_copy(0, VECTOR, s[:2]), 2),
    "index_fill": (lambda x, s: x.index_fill(0, VECTOR, s[0, 0]), 2),
    "masked_fill": (lambda x, s: x.masked_fill(SELF > 0, s[0, 0]), 2),
    "masked_select": (lambda x, s: x.masked_select(SELF > 0), 1),
    "masked_scatter": (lambda x, s: x.masked_scatter(SELF > 0, s), 2),
    "take": (lambda x, s: x.take(torch.tensor([0, -1, 3, 3])), 1),
    "put": (lambda x, s: x.put(torch.tensor([0, -1]), s[0, :2]), 2),
    "index_put": (lambda x, s: x.index_put((VECTOR,), s[:2]), 2),
    "take_along_dim": (lambda x, s: x.take_along_dim(INDEX[:, :1], 0), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("zeros", [False, True])
def test_gradients(name, zeros):
    """First and second derivatives of the squared result against differences."""
    f, count = DIFFERENTIABLE[name]
    if zeros and "prod" not in name:
        pytest.skip("zeros matter to products only")
    inputs = [SELF, WITH_ZEROS if zeros else SOURCE]
    for k in range(count):
        def value(t, k=k):
            args = list(inputs)
            args[k] = t
            y = f(*args)
            return y * y

        def slope(t, value=value):
            t = t.detach().requires_grad_()
            (g,) = torch.autograd.grad(value(t).sum(), t)
            return (g * g).detach()

        x = inputs[k].clone().requires_grad_()
        (grad,) = torch.autograd.grad(value(x).sum(), x, create_graph=True)
        np.testing.assert_allclose(grad.detach().numpy(), numeric(value, x.detach().numpy()), atol=1e-5)
        if not zeros:
            (second,) = torch.autograd.grad((grad * grad).sum(), x)
            np.testing.assert_allclose(second.numpy(), numeric(slope, x.detach().numpy()), atol=1e-4)


X = torch.zeros(3, 4)
LONG = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: X[3], IndexError),
        (lambda: X[torch.tensor([3])], IndexError),
        (lambda: X[torch.tensor([-4])], IndexError),
        (lambda: X[0, 0, 0], IndexError),
        (lambda: X[torch.tensor([1.0])], IndexError),
        (lambda: X[torch.tensor([True, False])], IndexError),
        (lambda: X[torch.tensor([0, 1]), torch.tensor([0, 1, 2])], IndexError),
        (lambda: X.index_put((LONG,), torch.zeros(3, 3)), RuntimeError),
        (lambda: X.gather(0, torch.tensor([[3]])), RuntimeError),
        (lambda: X.gather(0, torch.tensor([[-1]])), RuntimeError),
        (lambda: X.gather(0, LONG), RuntimeError),
        (lambda: X.gather(2, torch.tensor([[0]])), IndexError),
        (lambda: X.gather(0, torch.zeros(1, 1)), RuntimeError),
        (lambda: X.scatter(0, torch.tensor([[9]]), 1.0), RuntimeError),
        (lambda: X.scatter(0, torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.float64)), RuntimeError),
        (lambda: X.scatter(0, torch.tensor([[0]]), 1.0, reduce="mean"), RuntimeError),
        (lambda: X.scatter_reduce(0, torch.tensor([[0]]), X, "median"), RuntimeError),
        (lambda: X.index_select(0, torch.tensor([3])), IndexError),
        (lambda: X.index_select(0, torch.tensor([[1]])), IndexError),
        (lambda: X.index_add(0, LONG, torch.zeros(3, 4)), RuntimeError),
        (lambda: X.index_fill(0, LONG, torch.zeros(2)), RuntimeError),
        (lambda: X.masked_fill(torch.ones(3, 4, dtype=torch.uint8), 1), RuntimeError),
        (lambda: X.masked_fill(torch.ones(3, 4, dtype=torch.bool), torch.zeros(2)), RuntimeError),
        (lambda: X.masked_select(torch.ones(3, 4)), RuntimeError),
        (lambda: X.masked_scatter(torch.ones(3, 4, dtype=torch.bool), torch.zeros(3)), RuntimeError),
        (lambda: X.take(torch.tensor([12])), IndexError),
        (lambda: X.put(LONG, torch.zeros(3)), IndexError),
        (lambda: X.nonzero(as_tuple=True, out=LONG), RuntimeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_any_sequence_is_an_index():
    import array
    from collections import deque

    x = torch.arange(12).reshape(3, 4)
    assert x[range(3), [0, 1, 2]].tolist() == [0, 5, 10] and x[:, range(1, 3)].tolist() == [[1, 2], [5, 6], [9, 10]]
    for index in (range(2), deque([0, 1]), array.array("l", [0, 1])):
        assert x[index].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert x[range(0)].shape == (0, 4)
    x[range(2), 1] = 7
    assert x[:, 1].tolist() == [7, 7, 9]
    for index, error in (("ab", TypeError), (b"ab", TypeError), ({1}, IndexError)):
        with pytest.raises(error, match="got (str|bytes|set)"):
            x[index]


@pytest.mark.parametrize(("shape", "dim", "places"), [((0, 3), 1, [0, 5]), ((2, 0), 0, [2]), ((0, 3), 0, [0])])
def test_positions_are_checked_where_nothing_is_selected(shape, dim, places):
    with pytest.raises((IndexError, RuntimeError), match="^index_select"):
        torch.index_select(torch.ones(shape), dim, torch.tensor(places))
    assert torch.index_select(torch.ones(0, 3), 1, torch.tensor([2, 0])).shape == (0, 2)


def test_errors_of_positions_name_the_dimension_of_the_tensor():
    x = torch.zeros(2, 3, 4, 5)
    for index, dim, size in [((0, 5), 1, 3), ((0, 1, 7), 2, 4), ((None, 0, 5), 1, 3), ((..., 5), 3, 5), ((0, ..., 5), 3, 5), ((0, 1, ..., -9), 3, 5)]:
        with pytest.raises(IndexError, match=f"is out of bounds for dimension {dim} with size {size}$"):
            x[index]


def test_truth_values_alone_choose_nothing_or_all():
    x = torch.arange(3.0)
    x[False] = torch.ones(7)
    x[False] = 5
    assert x.tolist() == [0.0, 1.0, 2.0] and x._version == 0
    x[True] = x
    x[None] = x
    assert x.tolist() == [0.0, 1.0, 2.0] and x._version == 2
    x[:1][x[:1] > -1] = x[:1]
    x[True] = torch.tensor([[4.0, 5.0, 6.0]])
    assert x.tolist() == [4.0, 5.0, 6.0]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_index_fill_takes_no_complex_number_for_a_real_tensor(dtype):
    with pytest.raises(RuntimeError, match="^index_fill: expected a real number"):
        torch.zeros(2, dtype=dtype).index_fill_(0, torch.tensor([0]), 1j)
