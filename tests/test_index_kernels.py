"""Kernels of indexing: every dtype, widths of rows and columns, wrong indices anywhere, bags."""

import numpy as np
import pytest

import facula as torch

EVERY_DTYPE = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_nonzero_of_every_dtype(dtype):
    """Elements are told from zero by their bits: -0 is zero, NaN is not."""
    values = [0.0, 1.0, -0.0, 0.0, 2.0]
    expected = [1, 4]
    if not dtype.startswith(("bool", "int", "uint")):
        values += [float("nan"), 0.0]
        expected += [5]
    x = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
    assert torch.nonzero(x).flatten().tolist() == expected
    assert torch.count_nonzero(x.float() if dtype.startswith("float8") else x).item() == len(expected)
    if dtype.startswith("complex"):
        assert torch.nonzero(torch.tensor([0j, -0.0 - 0.0j, 1j, 1 + 0j]).to(getattr(torch, dtype))).flatten().tolist() == [2, 3]


@pytest.mark.parametrize("dtype", [d for d in EVERY_DTYPE if not d.startswith(("bool", "float8", "complex"))])
@pytest.mark.parametrize("how", ["sum", "prod", "amax", "amin"])
def test_every_dtype_is_combined(dtype, how):
    """Dtypes of all loops, those that share one included: rows with one index each, and one index per element."""
    kind = getattr(torch, dtype)
    start = torch.tensor([[1, 0, 2], [1, 1, 0]]).to(kind)
    source = torch.tensor([[2, 1, 1], [0, 2, 3]]).to(kind)
    for index in ([[0, 1, 0], [0, 0, 1]], [[1, 1, 1], [0, 0, 0]]):
        wide = start.double().scatter_reduce(0, torch.tensor(index), source.double(), how)
        assert start.scatter_reduce(0, torch.tensor(index), source, how).double().tolist() == wide.tolist()


WIDTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 257, 511, 513, 1025, 5000)  # around vectors and pieces


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "complex128"])
def test_rows_and_columns_of_every_width(dtype):
    """Whole rows, and lists of indices that all rows share."""
    rng = np.random.default_rng(5)
    for width in WIDTHS:
        a = (rng.standard_normal((6, width)) * 9).astype(dtype)
        rows, columns = rng.integers(0, 6, 11), rng.integers(0, width, width + 3)
        t = torch.from_numpy(a)
        for layout in (t, t.t().contiguous().t(), torch.cat([t, t], 1)[:, :width]):
            np.testing.assert_array_equal(layout.index_select(0, torch.from_numpy(rows)).numpy(), a[rows])
            np.testing.assert_array_equal(layout.index_select(1, torch.from_numpy(columns)).numpy(), a[:, columns])
            np.testing.assert_array_equal(layout[:, torch.from_numpy(columns - width)].numpy(), a[:, columns])
        made, permuted = t.clone(), rng.permutation(width)
        made.index_copy_(1, torch.from_numpy(permuted), t)
        assert np.array_equal(made.numpy()[:, permuted], a)
        assert np.array_equal(t.index_fill(0, torch.tensor([1, 4]), 1).numpy()[[1, 4]], np.ones((2, width), dtype))
        assert np.array_equal(t.index_fill(1, torch.tensor([0]), 1).numpy()[:, 1:], a[:, 1:])


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_into_shared_columns(width):
    rng = np.random.default_rng(width)
    a, source = rng.standard_normal((5, width)), rng.standard_normal((5, width + 600))
    columns = rng.integers(0, width, width + 600)
    wanted = a.copy()
    np.add.at(wanted, (slice(None), columns), source)
    t, index = torch.from_numpy(a), torch.from_numpy(columns)
    np.testing.assert_allclose(t.index_add(1, index, torch.from_numpy(source)).numpy(), wanted, rtol=1e-12, atol=1e-12)
    each = index.expand(5, -1)
    for layout in (each, each.contiguous(), each.t().contiguous().t()):
        found = t.scatter_add(1, layout, torch.from_numpy(source)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(t.gather(1, layout).numpy(), a[:, columns])


def calls_with_indices(t, index):
    each = index.expand(4, -1)
    return (
        lambda: t.index_select(1, index), lambda: t.t().index_select(0, index), lambda: t.index_add(1, index, t),
        lambda: t.gather(1, each), lambda: t.gather(1, each.contiguous()), lambda: t.scatter(1, each, t),
        lambda: t.scatter_add(1, each.contiguous(), t), lambda: t.index_fill(1, index, 3.0),
    )  # fmt: skip


@pytest.mark.parametrize("at", [0, 1, 511, 512, 700])
def test_a_wrong_index_anywhere_is_found(at):
    index = torch.arange(701)
    for wrong in (701, -702, 2**40, -(2**62)):
        index[at] = wrong
        for call in calls_with_indices(torch.zeros(4, 701), index):
            with pytest.raises((IndexError, RuntimeError), match="out of range"):
                call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("how", "best"), [("amax", max), ("amin", min)])
def test_extrema_into_places(dtype, how, best):
    """NaN wins, wherever it comes; -0 and 0 are equal."""
    nan, inf = float("nan"), float("inf")
    values = [0.0, 1.5, -2.0, inf, -inf, nan, 3.0]
    pairs = [(a, b) for a in values for b in values]
    self = torch.tensor([a for a, _ in pairs], dtype=getattr(torch, dtype))
    other = torch.tensor([b for _, b in pairs], dtype=getattr(torch, dtype))
    found = self.scatter_reduce(0, torch.arange(len(pairs)), other, how).tolist()
    for (a, b), got in zip(pairs, found):
        wanted = nan if a != a or b != b else best(a, b)
        assert got == wanted or (got != got and wanted != wanted), (a, b, got)


BAGS = {  # include_last_offset, padding_idx, with weights, mode
    "sums": (False, None, False, 0),
    "means": (True, 2, False, 1),
    "weighted": (False, 2, True, 0),
    "weighted, last offset": (True, None, True, 0),
}


@pytest.mark.parametrize("kind", BAGS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 8, 31, 64, 67, 200])
def test_sums_of_bags(kind, dtype, width):
    """Bags of every length, weighted or not, with padding and with indices that belong to no bag."""
    rng = np.random.default_rng(width)
    last, padding, weighted, mode = BAGS[kind]
    table = torch.from_numpy(rng.standard_normal((9, width))).to(getattr(torch, dtype))
    factors = torch.from_numpy(rng.standard_normal(40)).to(table.dtype)
    index, offsets = torch.from_numpy(rng.integers(0, 9, 40)), [0, 3, 3, 4, 20, 33]
    w, f = table.double().numpy(), factors.double().numpy()
    wanted = []
    for begin, end in zip(offsets, offsets[1:] + ([] if last else [40])):
        k = index.numpy()[begin:end]
        counts = k != padding if padding is not None else np.ones(end - begin, bool)
        row = (w[k] * (f[begin:end, None] if weighted else 1))[counts].sum(0)
        wanted.append(row / max(counts.sum(), 1) if mode else row)

    def bags(t, own):
        given = own if weighted else None
        return torch.embedding_bag(t, index, torch.tensor(offsets), False, mode, False, given, last, padding)[0]

    atol = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-5}.get(dtype, 1e-12)
    for t in (table, table.t().contiguous().t()):
        out = bags(t, factors)
        assert out.dtype is table.dtype
        np.testing.assert_allclose(out.double().numpy(), wanted, rtol=atol, atol=atol)
    if dtype == "float64" and width < 10:
        inputs = [table.requires_grad_(), factors.requires_grad_(weighted)]
        assert torch.autograd.gradcheck(bags, inputs)
        assert torch.autograd.gradgradcheck(bags, inputs)


def test_bags_refuse_what_lies_outside():
    table, offsets = torch.zeros(4, 3), torch.tensor([0, 2])
    for wrong in (4, -1, 2**40):
        with pytest.raises((IndexError, RuntimeError), match="embedding_bag"):
            torch.embedding_bag(table, torch.tensor([0, 1, wrong]), offsets)
    many = torch.zeros(100_000, dtype=torch.int64)
    many[70_001:70_003] = 4
    with pytest.raises(RuntimeError, match="got 4 at position 70001"):
        torch.embedding_bag(table, many, torch.tensor([0, 40_000, 40_000]))
    many[70_001:] = 3
    out, bag_of, sizes, _ = torch.embedding_bag(table + 1, many, torch.tensor([0, 40_000, 40_000]), padding_idx=3)
    assert sizes.tolist() == [40_000, 0, 30_001] and bag_of.bincount().tolist() == [40_000, 0, 60_000]
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        torch.embedding_bag(table, many, torch.tensor([0, 50_000, 40_000]))
