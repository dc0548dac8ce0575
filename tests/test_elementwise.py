"""Element-wise ops in the ways that they are run: rows, numbers beside elements, halves, conversions, and what fills memory."""

import itertools
import warnings

import numpy as np
import op_samples
import pytest
import scipy.special
from test_elementary import every_kind_of_float32, ulps

import facula

INF, NAN = float("inf"), float("nan")
SIZES = (1, 2, 7, 31, 32, 33, 47, 48, 63, 64, 65, 130, 513)
HALVES = ("float16", "bfloat16")


def numbers(shape, dtype="float32", seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    drawn = rng.standard_normal(shape) * 10
    if np.dtype(dtype).kind == "u":
        drawn = drawn.astype(np.int64)  # what becomes of negative floats differs between processors
    return drawn.astype(dtype)


def check(result: facula.Tensor, expected: np.ndarray):
    assert result.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "int16", "complex64", "complex128"])
@pytest.mark.parametrize("columns", SIZES)
def test_rows_columns_and_numbers(columns, dtype):
    x = np.abs(numbers((5, columns), dtype)).astype(dtype)
    row, column = x[0].copy(), x[:, :1].copy()
    t, r, c = facula.from_numpy(x), facula.from_numpy(row), facula.from_numpy(column)
    check(t + c, x + column)
    check(c - t, column - x)
    check(t * r, x * row)
    check(c * r, column * row)
    check(t * 3, x * np.dtype(dtype).type(3))
    check(t == c, x == column)
    check(t + t[2, 0], x + x[2, 0])
    if np.dtype(dtype).kind != "c":
        check(c < r, column < row)
        check(facula.maximum(t, c), np.maximum(x, column))
        check(facula.where(t > c, r, c), np.where(x > column, row, column).astype(dtype))


@pytest.mark.parametrize("columns", SIZES)
def test_middle_dimensions_and_strides(columns):
    x, w = numbers((3, 4, columns)), numbers((4, 1), seed=1)
    t, u = facula.from_numpy(x), facula.from_numpy(w)
    check(t * u, x * w)
    check(t.transpose(0, 1) + u[:, None], x.transpose(1, 0, 2) + w[:, None])
    wide = np.zeros((3, 4, 2 * columns), np.float32)
    into = facula.from_numpy(wide)
    into[:, :, ::2] += u  # an output that is not dense along its rows
    wide[:, :, ::2] += w
    check(into, wide)
    check(facula.from_numpy(x.astype(np.float64)) + u, x.astype(np.float64) + w)


@pytest.mark.parametrize("n", [1, 33, 63, 64, 65, 200, 20_000])
def test_integer_division_by_a_number(n):
    x = np.arange(n, dtype=np.int64) - n // 2
    x[-1] = np.iinfo(np.int64).min + 1  # beyond what doubles hold
    t = facula.from_numpy(x)
    for by in (3, -7, 1 << 60):
        check(t // by, x // by)
        check(t % by, x % by)
    check(facula.tensor(1000) // (t.abs() + 1), 1000 // (np.abs(x) + 1))


@pytest.mark.parametrize("shape", [(3,), (33,), (64, 65), (70, 512)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_clamp_between_numbers_and_tensors(dtype, shape):
    x = numbers(shape, dtype)
    t = facula.from_numpy(x)
    check(t.clamp(-3, 4), np.clip(x, -3, 4))
    check(t.clamp(min=2), np.maximum(x, 2).astype(dtype))
    check(t.clamp(max=2), np.minimum(x, 2).astype(dtype))
    check(t.clamp(5, -5), np.full_like(x, -5))  # crossed: the upper one
    check(t.clone().clamp_(-3, 4), np.clip(x, -3, 4))
    low, high = numbers(shape, dtype, 1), numbers(shape, dtype, 2)
    check(t.clamp(facula.from_numpy(low), facula.from_numpy(high)), np.minimum(np.maximum(x, low), high))


def test_clamp_of_nan_and_between_nan():
    t = facula.tensor([NAN, 1.0, -INF, INF] * 20)
    assert t.clamp(-1, 1).tolist()[1:4] == [1, -1, 1] and t.clamp(-1, 1).isnan().sum() == 20
    assert t.clamp(-INF, INF).isnan().sum() == 20
    assert t.clamp(NAN, 1.0).isnan().all() and t.clamp(0.0, NAN).isnan().all()
    for limited in (facula.nn.functional.hardtanh(t), facula.nn.functional.relu6(t)):
        assert limited.isnan().sum() == 20 and limited.nan_to_num(0.0).abs().max() <= 6


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("n", [1, 7, 15, 16, 17, 31, 32, 33, 100, 40_001])
def test_halves_are_computed_in_float32_and_rounded_once(n, name):
    dtype = getattr(facula, name)
    a = facula.from_numpy(numbers(n)).to(dtype)
    b = facula.from_numpy(numbers(n, seed=1)).to(dtype)
    a[0], b[n // 2] = INF, NAN
    a[n - 1] = -6e-8  # subnormal in float16
    wide_a, wide_b = a.float(), b.float()
    cases = [
        (a + b, wide_a + wide_b), (a - b, wide_a - wide_b), (a * b, wide_a * wide_b), (a / b, wide_a / wide_b),
        (facula.add(a, b, alpha=0.3), facula.add(wide_a, wide_b, alpha=0.3)), (a * 0.1, wide_a * 0.1), (1.3 / b, 1.3 / wide_b),
        (facula.sub(a, b, alpha=2), facula.sub(wide_a, wide_b, alpha=2)), (facula.relu(a), facula.relu(wide_a)),
        (facula.relu(b), facula.relu(wide_b)), (a.clone().mul_(b), wide_a * wide_b), (a + b[:1], wide_a + wide_b[:1]),
    ]  # fmt: skip
    for result, expected in cases:
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.float().numpy(), expected.to(dtype).float().numpy())


@pytest.mark.parametrize("name", HALVES)
def test_halves_in_rows_and_strides(name):
    dtype = getattr(facula, name)
    x = facula.from_numpy(numbers((40, 65))).to(dtype)
    wide = x.float()
    for result, expected in [
        (x + x[:, :1], wide + wide[:, :1]), (x * x[3], wide * wide[3]), (x.t() + x.t()[:1], wide.t() + wide.t()[:1]),
        (x[:, ::2] - x[:, 1:2], wide[:, ::2] - wide[:, 1:2]), (x + wide, wide + wide),
    ]:  # fmt: skip
        np.testing.assert_array_equal(result.float().numpy(), expected.to(result.dtype).float().numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_int64_to_floating_is_rounded_once(dtype):
    edges = [2**k + d for k, d in itertools.product((24, 50, 51, 52, 53, 54, 62), (-1, 0, 1))] + [2**63 - 1, 2**24 + 2**30 + 1]
    x = np.array(edges + [-e for e in edges] + [-(2**63)], dtype=np.int64)
    check(facula.from_numpy(x).to(getattr(facula, dtype)), x.astype(dtype))
    spread = np.random.default_rng(0).integers(-(2**50), 2**50, 5001)
    check(facula.from_numpy(spread).to(getattr(facula, dtype)), spread.astype(dtype))
    spread[777] = 2**62 + 12345
    check(facula.from_numpy(spread).to(getattr(facula, dtype)), spread.astype(dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "int64", "float64", "complex64", "complex128"])
def test_fill_stays_inside(dtype):
    for n in (0, 1, 3, 15, 16, 17, 31, 64, 127, 128, 129, 1000, 70_000):
        x = np.zeros(n + 3, dtype)
        facula.from_numpy(x)[1 : n + 1].fill_(7)
        assert (x[1 : n + 1] == 7).all() and x[0] == 0 and (x[n + 1 :] == 0).all()


@pytest.mark.parametrize("n", [1, 2, 255, 1023, 1024, 1025, 40_000])
def test_sequences_of_any_length(n):
    for dtype in ("int64", "int32", "float32", "float64"):
        check(facula.arange(n, dtype=getattr(facula, dtype)), np.arange(n).astype(dtype))
    check(facula.arange(5, 5 + 3 * n, 3), np.arange(5, 5 + 3 * n, 3))
    check(facula.arange(0, -n, -1), np.arange(0, -n, -1))
    check(facula.linspace(-2, 5, n, dtype=facula.float64)[[0, -1]] if n > 1 else facula.tensor([-2.0, 5.0]).double(), np.array([-2.0, 5.0]))
    np.testing.assert_allclose(facula.linspace(-2, 5, n).numpy(), np.linspace(-2, 5, n), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(facula.linspace(1 + 1j, 2, n, dtype=facula.complex64).numpy(), np.linspace(1 + 1j, 2, n), rtol=1e-6)
    np.testing.assert_allclose(facula.hann_window(n, periodic=False).numpy(), np.hanning(n), atol=1e-7)
    np.testing.assert_allclose(facula.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5), rtol=1e-6)
    out = facula.zeros(2 * n, dtype=facula.float64)[::2]
    facula.arange(n, out=out)
    check(out, np.arange(n).astype(np.float64))
    half = facula.arange(min(n, 2048), dtype=facula.float16)
    check(half, np.arange(min(n, 2048)).astype(np.float16))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nextafter_of_every_kind(dtype):
    info = np.finfo(dtype)
    kinds = [0.0, info.smallest_subnormal, info.tiny, info.tiny * 1.5, 1.0, 1.5, 2.0, info.max, np.inf]
    kinds = np.array(kinds + [-k for k in kinds] + [np.nan], dtype)
    a, b = (side.copy() for side in np.broadcast_arrays(kinds[:, None], kinds))
    with np.errstate(all="ignore"):
        expected = np.nextafter(a, b)
    result = facula.nextafter(facula.from_numpy(a), facula.from_numpy(b)).numpy()
    np.testing.assert_array_equal(result, expected)
    to_zero = (expected == 0) & (a != b)
    np.testing.assert_array_equal(np.signbit(result[to_zero]), np.signbit(a[to_zero]))


def test_gelu_is_exact_to_three_units():
    x = np.concatenate([every_kind_of_float32(), np.linspace(-14.6, 14.6, 300_001)]).astype(np.float32)
    wide = x.astype(np.longdouble)
    exact = np.where(x < -14.6, 0, wide * scipy.special.ndtr(np.maximum(wide, -15).astype(np.float64)))
    error = ulps(facula.nn.functional.gelu(facula.from_numpy(x)).numpy(), exact, np.float32)
    assert error.max() <= 3.2, f"{x[error.argmax()]!r} is {error.max()} ULP off"
    edges = facula.nn.functional.gelu(facula.tensor([0.0, -0.0, INF, -INF, NAN, -1e30])).numpy()
    np.testing.assert_array_equal(edges, np.array([0, 0, INF, NAN, NAN, 0], np.float32))
    np.testing.assert_array_equal(np.signbit(edges[[0, 1, 5]]), [False, True, True])
    for n in (1, 3, 7, 8, 9, 17):
        few = facula.nn.functional.gelu(facula.from_numpy(x[:n].copy())).numpy()
        np.testing.assert_array_equal(few, facula.nn.functional.gelu(facula.from_numpy(x)).numpy()[:n])


SPECIAL = {  # function, reference, interval, bound in ULP
    "ndtr": (facula.special.ndtr, scipy.special.ndtr, (-13, 9), 5),
    "i0": (facula.special.i0, scipy.special.i0, (-85, 85), 1),
    "i1": (facula.special.i1, scipy.special.i1, (-85, 85), 1),
    "trigamma": (lambda x: facula.polygamma(1, x), lambda x: scipy.special.polygamma(1, x), (0.01, 300), 1),
    "igamma": (lambda x: facula.igamma(x, x * 0.9), lambda x: scipy.special.gammainc(x, np.float32(0.9) * x.astype(np.float32)), (0.1, 40), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_of_float32(name):
    function, reference, (low, high), bound = SPECIAL[name]
    x = np.linspace(low, high, 20_011).astype(np.float32)
    error = ulps(function(facula.from_numpy(x)).numpy(), reference(x.astype(np.float64)), np.float32)
    assert error.max() <= bound, f"{x[error.argmax()]!r} is {error.max()} ULP off"


def test_special_functions_at_their_edges():
    x = facula.tensor([0.0, INF, -INF, NAN])
    assert facula.special.ndtr(x).tolist()[:3] == [0.5, 1.0, 0.0] and facula.special.ndtr(x)[3].isnan()
    assert facula.special.i0(x)[0] == 1 and facula.special.i0(x)[1:].isnan().all()  # at infinity as in PyTorch
    assert facula.special.i1(x)[0] == 0 and facula.special.i1(x)[1:].isnan().all()
    far = facula.tensor([95.0, -95.0, 1e30, -1e30])
    assert facula.special.i0(far).tolist() == [INF] * 4 and facula.special.i1(far).tolist() == [INF, -INF, INF, -INF]
    assert facula.polygamma(1, x).tolist()[:2] == [INF, 0.0] and facula.polygamma(1, x)[3].isnan()
    below = np.array([-0.3, -1.5, -2.7, 0.2], np.float32)
    np.testing.assert_allclose(facula.lgamma(facula.from_numpy(below)).numpy(), scipy.special.gammaln(below.astype(np.float64)), rtol=1e-6)
    recurrence = scipy.special.polygamma(1, below + 4.0) + sum(1 / (below.astype(np.float64) + k) ** 2 for k in range(4))
    np.testing.assert_allclose(facula.polygamma(1, facula.from_numpy(below)).numpy(), recurrence, rtol=1e-6)
    assert facula.lgamma(facula.tensor([-2.0, 0.0, INF, -INF])).tolist() == [INF] * 4


def test_addr_in_one_pass_is_the_same():
    x, v, w = numbers((33, 70)), numbers(33, seed=1), numbers(70, seed=2)
    t, a, b = (facula.from_numpy(e) for e in (x, v, w))
    np.testing.assert_allclose(facula.addr(t, a, b, beta=0.5, alpha=2).numpy(), 0.5 * x + 2 * np.outer(v, w), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(facula.addr(t * NAN, a, b, beta=0).numpy(), np.outer(v, w), rtol=1e-6)
    whole = facula.addr(facula.from_numpy(x.astype(np.int64)), facula.arange(33), facula.arange(70), alpha=3)
    check(whole, x.astype(np.int64) + 3 * np.outer(np.arange(33), np.arange(70)))
    assert facula.addr(facula.zeros(3, 2, dtype=facula.bool), facula.ones(3, dtype=facula.bool), facula.ones(2, dtype=facula.bool)).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9])
def test_operands_of_many_short_rows(dtype, length):
    """Rows that are repeated, of one element each, reversed or with gaps, packed side by side."""
    r = np.random.default_rng(length)
    a = r.integers(0, 5, (37, 19, 2 * length)).astype(dtype)
    x = facula.from_numpy(a)
    row, column, gaps, turned = a[0, 0, :length], a[:, :, :1], a[:, :, ::2], a[::-1, ::-1, :length][:, :, ::-1].copy()
    pairs = [
        (column, x[:, :, :1], row, x[0, 0, :length]),
        (gaps, x[:, :, ::2], row, x[0, 0, :length]),
        (gaps, x[:, :, ::2], column, x[:, :, :1]),
        (turned, x[:, :, :length].flip(0, 1, 2), a[:1, :, :length], x[:1, :, :length]),
        (a[:, :1, :length], x[:, :1, :length], gaps, x[:, :, ::2]),
    ]
    for p, s, q, t in pairs:
        if dtype != "complex128":
            check(facula.maximum(s, t), np.maximum(p, q))
        check(s.to(facula.complex128) * t, p.astype("complex128") * q)


@pytest.mark.parametrize("n", SIZES)
def test_clamp_between_numbers(n):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    x[n // 2] = NAN
    for low, high in ((-0.5, 0.5), (1.0, -1.0), (-INF, INF), (NAN, 1.0), (0.0, NAN)):
        expected = np.minimum(np.maximum(x, np.float32(low)), np.float32(high))
        np.testing.assert_array_equal(facula.from_numpy(x).clamp(low, high).numpy(), expected)
        np.testing.assert_array_equal(facula.from_numpy(x.copy()).clamp_(low, high).numpy(), expected)
        np.testing.assert_array_equal(facula.from_numpy(np.repeat(x, 2))[::2].clamp(low, high).numpy(), expected)


LARGE = (16 << 20) // 4 + 5003  # results from 16 MiB on are written around the caches


@pytest.mark.parametrize("offset", [0, 1, 13])
def test_large_results_at_any_place_in_memory(offset):
    x = np.random.default_rng(0).standard_normal(LARGE).astype(np.float32)
    t = facula.from_numpy(x)
    room = facula.full((LARGE + 32,), 7.0)
    out = room[offset : offset + LARGE]
    facula.mul(t, 2.0, out=out)
    assert np.array_equal(out.numpy(), x * 2)
    facula.add(t, t, alpha=-1, out=out)
    assert not out.any()
    assert room[:offset].eq(7).all() and room[offset + LARGE :].eq(7).all()
    assert np.array_equal(facula.where(t > 0, t, 0.5).numpy(), np.where(x > 0, x, np.float32(0.5)))


def test_large_results_in_rows_of_larger_memory_and_in_other_dtypes():
    wide = facula.zeros(1500, 4001)
    x = facula.randn(1500, 3001)
    facula.sub(x, 1.0, out=wide[:, 500:3501])
    assert np.array_equal(wide[:, 500:3501].numpy(), x.numpy() - np.float32(1))
    assert not wide[:, :500].any() and not wide[:, 3501:].any()
    for dtype in (facula.float64, facula.int16, facula.bfloat16):
        y = facula.arange(1 << 24).remainder(250).to(dtype)
        assert facula.equal((y + y).to(facula.int32), facula.arange(1 << 24, dtype=facula.int32).remainder(250) * 2), dtype
    z = facula.randn(LARGE)
    kept = z.clone()
    z.mul_(3.0)  # in place: the memory is read as well
    assert facula.equal(z, kept * 3.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "complex128", "bool"])
@pytest.mark.parametrize("shape", [(64, 64), (37, 515), (515, 37), (9, 1030), (3, 33, 70), (8, 8, 40), (7, 300)])
def test_operands_that_lie_across_the_result(shape, dtype):
    """Matrices in one order of dimensions with others in another one: computed by tiles."""
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype) for _ in range(3)]
    for order in itertools.permutations(range(len(shape))):
        inverse = np.argsort(order)
        a, b, c = given[0], *(np.ascontiguousarray(x.transpose(order)).transpose(inverse) for x in given[1:])
        x, y, z = (facula.from_numpy(n.transpose(order).copy() if n is not a else n) for n in (a, b, c))
        y, z = y.permute(*inverse.tolist()), z.permute(*inverse.tolist())
        np.testing.assert_array_equal((x + y).numpy(), a + b)
        np.testing.assert_array_equal((y + x).numpy(), a + b)
        np.testing.assert_array_equal((y * 2).numpy(), b * np.array(2, dtype) if dtype != "bool" else b * 2)
        np.testing.assert_array_equal((x == y).numpy(), a == b)
        np.testing.assert_array_equal(facula.where(y > 1 if dtype == "int8" else y.bool(), x, z).numpy(),
                                      np.where(b > 1 if dtype == "int8" else b.astype(bool), a, c))
        np.testing.assert_array_equal((x + y[..., :1]).numpy(), a + b[..., :1])
        out = facula.zeros_like(y)
        np.testing.assert_array_equal(facula.add(x, z, out=out).numpy(), a + c)
        if dtype == "float32":
            np.testing.assert_array_equal((x + y.half().double()).numpy(), a + b.astype(np.float64))
            np.testing.assert_array_equal((x.half() + y.half()).numpy(), a.astype(np.float16) + b.astype(np.float16))
        x.copy_(z)[..., 1:].add_(y[..., 1:])
        np.testing.assert_array_equal(x[..., 1:].numpy(), (c + b)[..., 1:])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 1000])
def test_whole_parts_as_int64(dtype, n):
    r = np.random.default_rng(n)
    scales = 2.0 ** r.integers(-3, 15 if dtype == "float16" else 48, n)
    x = facula.from_numpy(r.standard_normal(n) * scales).to(getattr(facula, dtype))
    expected = np.trunc(x.double().numpy())
    np.testing.assert_array_equal(x.long().numpy(), expected.astype(np.int64))
    if dtype in ("float32", "float64"):
        x[n // 2] = 2.0**60  # beyond what is converted by vectors
        expected[n // 2] = 2.0**60
        np.testing.assert_array_equal(x.long().numpy(), expected.astype(np.int64))


def test_loops_of_any_length_leave_nothing_out():
    """Short loops begin on one thread, and may go on with more."""
    before = facula.get_num_threads()
    generator = np.random.default_rng(0)
    sizes = [32768, 32769, 32784, 36865, 65536, 65551, 200_003, 524_288, 524_300, 1_000_003]
    try:
        for size in sizes:
            bytes_ = generator.integers(0, 256, size, dtype=np.uint8)
            numbers = generator.standard_normal(size)
            for threads in (1, 2, 7):
                facula.set_num_threads(threads)
                assert np.array_equal((~facula.from_numpy(bytes_)).numpy(), ~bytes_), (size, threads)
                assert np.array_equal(facula.from_numpy(bytes_).bool().long().numpy(), bytes_ != 0), (size, threads)
                assert np.array_equal((facula.from_numpy(numbers) * 3).numpy(), numbers * 3), (size, threads)
                found = facula.sin(facula.from_numpy(numbers)).numpy()  # takes long: more threads are worth it
                assert np.allclose(found, np.sin(numbers), rtol=1e-12, atol=1e-15), (size, threads)
    finally:
        facula.set_num_threads(before)


#: more elements than there are copies of a number, in any of the ways in which loops take them
MANY = 1000


@pytest.mark.parametrize("dtype", ["Float32", "Float64", "Float16", "Int64"])
def test_a_tensor_of_one_number_is_read_as_one(dtype):
    """Elements that are all the same place in memory give what as many copies of them give, in every op."""
    rng = np.random.default_rng(0)
    wrong = []
    for op in op_samples.all_ops():
        if not op.elementwise or op.draws or dtype not in op.dtypes:
            continue
        for args, kwargs in op_samples.samples(op, dtype.lower(), rng, shapes=((1,),)):
            spread = [a.detach().reshape(-1)[:1].expand(MANY) if isinstance(a, facula.Tensor) else a for a in args]
            copied = [a.contiguous() if isinstance(a, facula.Tensor) else a for a in spread]
            one, other = op_samples.call(op, *spread, **kwargs), op_samples.call(op, *copied, **kwargs)
            if not facula.equal(one.nan_to_num(), other.nan_to_num()):
                wrong.append(op.name)
    assert not wrong
    assert facula.equal(facula.ones(1).expand(MANY).clamp(0.1, 0.9), facula.full((MANY,), 0.9))


def laid_out(name, dtype):
    """A (4, 6, 5) operand, or one that broadcasts to that, in a way of lying in memory; and its elements."""
    ways = {
        "dense": lambda: numbers((4, 6, 5), dtype),
        "row": lambda: numbers(5, dtype, 1),
        "column": lambda: numbers((6, 1), dtype, 2),
        "middle": lambda: numbers((4, 1, 5), dtype, 3),
        "number": lambda: numbers((), dtype, 4),
        "one": lambda: numbers((1, 1), dtype, 5),
        "expanded": lambda: np.broadcast_to(numbers((6, 5), dtype, 6), (4, 6, 5)),
        "cut": lambda: numbers((4, 6, 9), dtype, 7)[:, :, 2:7],
        "stepping": lambda: numbers((8, 6, 10), dtype, 8)[::2, :, ::2],
        "turned": lambda: numbers((5, 6, 4), dtype, 9).transpose(2, 1, 0),
        "leading": lambda: numbers((1, 4, 6, 5), dtype, 10),
    }  # fmt: skip
    array = np.asarray(ways[name]())
    if name == "expanded":
        return facula.from_numpy(array[0].copy()).expand(4, 6, 5), array
    return facula.from_numpy(array), array


WAYS = ["dense", "row", "column", "middle", "number", "one", "expanded", "cut", "stepping", "turned", "leading"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "uint8"])
@pytest.mark.parametrize("way", WAYS)
def test_little_memory_is_read_as_it_lies(way, dtype):
    """Operands of every layout beside every other: values, the order of the result, in place, `out=`, and conditions."""
    for other in WAYS:
        (a, x), (b, y) = laid_out(way, dtype), laid_out(other, dtype)
        sum_, more = a + b, x + y
        check(sum_, more)
        if "turned" not in (way, other):
            assert sum_.is_contiguous(), (way, other)
        check(a.expand(sum_.shape).clone().add_(b) if x.shape != more.shape else a.clone().add_(b), more)
        out = facula.empty(sum_.shape, dtype=a.dtype)
        version = out._version
        assert facula.add(a, b, out=out) is out and out._version == version + 1
        check(out, more)
        condition = facula.from_numpy(np.asarray(y > 1))
        check(facula.where(condition, a, b), np.where(y > 1, x, y))
        check(facula.where(condition, a, 3).to(a.dtype), np.where(y > 1, x, 3).astype(dtype))


@pytest.mark.parametrize("size", [16, 1024, 1025, 4096])
def test_what_is_written_in_place_is_read_before(size):
    """An operand on the memory that is written is refused where it overlaps, and the written tensor itself is not."""
    x = facula.arange(float(size))
    x.add_(x)
    assert facula.equal(x, 2 * facula.arange(float(size)))
    with pytest.raises(RuntimeError, match="memory"):
        x[1:].add_(x[:-1])
    facula.mul(x, 2, out=x)
    assert facula.equal(x, 4 * facula.arange(float(size)))
    with facula.inference_mode():
        y = facula.ones(size)
    with pytest.raises(RuntimeError, match="inference"):
        facula.add(x, x, out=y)
    frozen = np.ones(size, dtype=np.float32)
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an array that is not writable, said once
        target = facula.from_numpy(frozen)
    with pytest.raises(RuntimeError, match="read-only"):
        facula.add(x, x, out=target)


@pytest.mark.parametrize("dtype", ["Float32", "Float64", "Int64", "Int32", "Int8", "UInt8", "Bool"])
def test_little_memory_gives_what_much_does(dtype):
    """The ways of little memory (and of numbers beside it) agree with the plan, which is made for much of it."""
    rng = np.random.default_rng(0)
    wrong = []
    for op in op_samples.all_ops():
        if not op.elementwise or op.draws or dtype not in op.dtypes:
            continue
        for args, kwargs in op_samples.samples(op, dtype.lower(), rng, shapes=((6,),)):
            if any(isinstance(a, facula.Tensor) and a.shape not in ((), (6,)) for a in args):
                continue
            much = [a.detach().repeat(3000) if isinstance(a, facula.Tensor) and a.dim() else a for a in args]
            few, many = op_samples.call(op, *args, **kwargs), op_samples.call(op, *much, **kwargs)
            close = facula.allclose if few.is_floating_point() else facula.equal  # what remains of vectors rounds its own way
            if few.dtype != many.dtype or not close(few.nan_to_num(), many[:6].nan_to_num()):
                wrong.append((op.name, [a if not isinstance(a, facula.Tensor) else tuple(a.shape) for a in args]))
    assert not wrong


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (16, 16), (40, 50)], ids=str)
def test_beside_a_transposed_matrix(shape):
    rows, columns = shape
    t, m = facula.randn(columns, rows).t(), facula.randn(rows, columns)
    row, column, number = facula.randn(columns), facula.randn(rows, 1), facula.randn(())
    for a, b in ((t, m), (t, t), (t, row), (t, column), (t, number), (t, 2.0), (t, facula.randn(columns, rows).t())):
        plain = b.contiguous() if isinstance(b, facula.Tensor) else b
        for op in (facula.add, facula.sub, facula.atan2, facula.lt):
            if op is facula.atan2 and isinstance(b, float):
                continue
            result = op(a, b)
            assert result.stride() == (1, rows) and facula.equal(result, op(a.contiguous(), plain))
    assert (m + t).stride() == (columns, 1) and facula.equal(m + t, m + t.contiguous())
    condition = (facula.randn(columns, rows) > 0).t()
    assert facula.equal(facula.where(condition, m, t), facula.where(condition.contiguous(), m, t.contiguous()))
    assert facula.addcmul(t, m, row).stride() == (1, rows)
    kept = t.clone()
    t += m
    assert facula.equal(t, kept + m) and t.stride() == (1, rows)
