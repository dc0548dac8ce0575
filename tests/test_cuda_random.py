"""Random numbers of CUDA devices are those that Philox 4x32-10 defines, in PyTorch's order: compared with the algorithms written in NumPy
(philox_reference.py); their distributions, by statistics; generators, their states, offsets, devices and graphs."""

import numpy as np
import philox_reference as reference
import pytest
from cuda_random_draws import FLOATS, OFFSET, SEED, SIZE, results
from philox_reference import Fill, Source, philox, rounded, single


def test_philox_gives_the_published_numbers():
    """The test vectors of Random123 for ten rounds: all bits 0, and all bits 1."""
    zero, ones = np.zeros(1, np.uint64), np.full(1, 2**64 - 1, np.uint64)
    assert philox(zero, zero, 0)[0].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(ones, ones, 2**64 - 1)[0].tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


# ---- fills

FILLS = """
for dtype in (t.float32, t.float64, t.bfloat16, t.float16):
    name = str(dtype).split(".")[1]
    new = lambda: t.empty(n, dtype=dtype, device=d)
    keep("rand " + name, lambda g: t.rand(n, dtype=dtype, device=d, generator=g))
    keep("uniform " + name, lambda g: new().uniform_(0.1, 0.7, generator=g))
    keep("randn " + name, lambda g: t.randn(n, dtype=dtype, device=d, generator=g))
    keep("normal " + name, lambda g: new().normal_(0.3, 1.7, generator=g))
    keep("log_normal " + name, lambda g: new().log_normal_(0.3, 0.5, generator=g))
    keep("exponential " + name, lambda g: new().exponential_(2.0, generator=g))
    keep("cauchy " + name, lambda g: new().cauchy_(1.5, 2.5, generator=g))
    keep("geometric " + name, lambda g: new().geometric_(0.2, generator=g))
    keep("bernoulli " + name, lambda g: new().bernoulli_(0.3, generator=g))
keep("geometric int64", lambda g: t.empty(n, dtype=t.int64, device=d).geometric_(0.2, generator=g))
keep("bernoulli bool", lambda g: t.empty(n, dtype=t.bool, device=d).bernoulli_(0.3, generator=g))
keep("randint", lambda g: t.randint(-5, 100, (n,), device=d, generator=g))
keep("randint 64", lambda g: t.randint(0, 2**40, (n,), device=d, generator=g))
keep("random from", lambda g: t.empty(n, dtype=t.int32, device=d).random_(-7, 2**28 - 7, generator=g))
keep("random float32", lambda g: t.empty(n, device=d).random_(generator=g))
keep("random int16", lambda g: t.empty(n, dtype=t.int16, device=d).random_(generator=g))
keep("random float64", lambda g: t.empty(n, dtype=t.float64, device=d).random_(generator=g))
keep("random uint32", lambda g: t.empty(n, dtype=t.uint32, device=d).random_(generator=g))
keep("randn strided", lambda g: t.empty(50, 100, device=d).t().normal_(generator=g).t().reshape(-1))
keep("randn sliced", lambda g: t.empty(n, 2, device=d)[:, 1].normal_(generator=g))
mean, std = t.arange(n, device=d) / n, t.arange(1, n + 1, device=d) / n
keep("normal tensors", lambda g: t.normal(mean, std, generator=g))
keep("normal mean", lambda g: t.normal(mean, 2.0, generator=g))
keep("normal std", lambda g: t.normal(0.5, std, generator=g))
values = t.linspace(-1, 1, n, device=d)
for dtype in (t.float32, t.float64, t.bfloat16):
    keep("rrelu " + str(dtype).split(".")[1], lambda g: t.rrelu(values.to(dtype), 0.1, 0.4, True, g))
"""


PLACES = """
fills = [(dtype, fill) for dtype in (t.float32, t.float64, t.bfloat16, t.float16)
         for fill in (lambda x, g: x.uniform_(0.1, 0.7, generator=g), lambda x, g: x.normal_(generator=g),
                      lambda x, g: x.bernoulli_(0.3, generator=g), lambda x, g: x.random_(generator=g))]
fills += [(dtype, fill) for dtype in (t.int64, t.int32, t.int16, t.int8, t.bool)
          for fill in (lambda x, g: x.random_(generator=g), lambda x, g: x.bernoulli_(0.3, generator=g))]
wrong = out["wrong"] = []
for size in (1, 7, 33, 1023, 1024, 1025, 16_387, 40_001):
    for number, (dtype, fill) in enumerate(fills):
        room = t.zeros(size + 7, dtype=dtype, device=d)
        x = fill(room[:size], seeded()).clone()
        beside = room[size:].any()
        room.zero_()
        same = t.equal(fill(room[3:size + 3], seeded()), x)
        wrong += [(size, number)] * (not same or bool(beside | room[:3].any() | room[size + 3:].any()))
"""


def test_numbers_are_the_same_wherever_they_are_written():
    """By vectors where the tensor begins at a multiple of them, else one by one; nothing is written beside it."""
    assert results(PLACES)["wrong"] == []


@pytest.fixture(scope="module")
def drawn():
    return results(FILLS)


def fill(drawn, wide=4, size=SIZE):
    return Fill(size, SEED, OFFSET, drawn["threads"], wide)


def wide_of(dtype):
    return 2 if dtype == "float64" else 4


def close(dtype):
    """Tolerances; single precision is what quick approximations of a GPU leave."""
    return {
        "float64": {"rtol": 1e-12, "atol": 1e-13}, "float32": {"rtol": 1e-5, "atol": 1e-6},
        "bfloat16": {"rtol": 1e-2, "atol": 1e-3}, "float16": {"rtol": 2e-3, "atol": 1e-4},
    }[dtype]  # fmt: skip


DTYPES = pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16", "float16"))


@DTYPES
def test_uniform(drawn, dtype):
    f = fill(drawn, wide_of(dtype))
    expected = rounded(f.units(), dtype)
    np.testing.assert_array_equal(drawn[f"rand {dtype}"], np.where(expected == 1, 0, expected))  # the end is excluded, the begin is not
    assert drawn[f"rand {dtype} offset"] == f.end()
    a, b = rounded(np.array([0.1, 0.7]), dtype)
    width = rounded(b - a, dtype)
    exact = (f.units().astype(np.longdouble) * width + a).astype("float64" if dtype == "float64" else "float32")
    expected = rounded(exact, dtype)
    np.testing.assert_allclose(drawn[f"uniform {dtype}"], np.where(expected == b, a, expected), rtol=1e-15)


@DTYPES
def test_normal_transforms_pairs(drawn, dtype):
    f = fill(drawn, wide_of(dtype))
    np.testing.assert_allclose(drawn[f"randn {dtype}"], f.normals(), **close(dtype))
    np.testing.assert_allclose(drawn[f"normal {dtype}"], f.normals() * 1.7 + 0.3, **close(dtype))
    np.testing.assert_allclose(drawn[f"log_normal {dtype}"], np.exp(f.normals() * 0.5 + 0.3), **close(dtype))
    for name in ("randn", "normal", "log_normal"):
        assert drawn[f"{name} {dtype} offset"] == f.end()


@DTYPES
def test_exponential_cauchy_and_geometric(drawn, dtype):
    u = fill(drawn, wide_of(dtype)).units()
    epsilon, u = np.finfo(u.dtype).eps, u.astype("float64")
    logarithm = np.where(u >= 1 - epsilon / 2, -epsilon / 2, np.log(u))
    np.testing.assert_allclose(drawn[f"exponential {dtype}"], -0.5 * logarithm, **close(dtype))
    inside = u if dtype == "float64" else np.clip(u, epsilon, 1 - epsilon)
    cauchy = 1.5 + 2.5 * np.tan(np.pi * (inside - 0.5))
    near = np.abs(cauchy) < 20
    assert near.sum() > 0.8 * SIZE
    np.testing.assert_allclose(np.asarray(drawn[f"cauchy {dtype}"])[near], cauchy[near], **{**close(dtype), "atol": 20 * close(dtype)["rtol"]})
    exact = np.log(u) / np.log1p(-0.2)
    sure = np.abs(exact - np.round(exact)) > 1e-5
    assert sure.sum() > 0.99 * SIZE
    np.testing.assert_array_equal(np.asarray(drawn[f"geometric {dtype}"])[sure], rounded(np.ceil(exact), dtype)[sure])


def test_whole_numbers_from_the_same_words(drawn):
    f = fill(drawn)
    exact = np.log(f.units().astype("float64")) / np.log1p(-0.2)
    sure = np.abs(exact - np.round(exact)) > 1e-5
    np.testing.assert_array_equal(np.asarray(drawn["geometric int64"])[sure], np.ceil(exact)[sure])
    np.testing.assert_array_equal(drawn["bernoulli bool"], f.units() < np.float32(0.3))


@DTYPES
def test_bernoulli_compares(drawn, dtype):
    u = fill(drawn, wide_of(dtype)).units()
    np.testing.assert_array_equal(drawn[f"bernoulli {dtype}"], u < u.dtype.type(0.3))


def test_whole_numbers_are_remainders(drawn):
    f = fill(drawn)
    word = f.word()
    np.testing.assert_array_equal(drawn["randint"], (word % np.uint64(105)).astype("int64") - 5)
    np.testing.assert_array_equal(drawn["random uint32"], word.astype("float64"))
    np.testing.assert_array_equal(drawn["random int16"], (word % np.uint64(2**15)).astype("float64"))
    np.testing.assert_array_equal(drawn["random float32"], (word % np.uint64(2**24 + 1)).astype("float32"))
    assert drawn["randint offset"] == f.end()
    f = fill(drawn, 2)
    np.testing.assert_array_equal(drawn["randint 64"], (f.whole() % np.uint64(2**40)).astype("float64"))
    np.testing.assert_array_equal(drawn["random from"], (f.whole() % np.uint64(2**28)).astype("float64") - 7)  # from 2**28 on, 64 bits
    np.testing.assert_array_equal(drawn["random float64"], (f.whole() % np.uint64(2**53 + 1)).astype("float64"))
    assert drawn["randint 64 offset"] == drawn["random float64 offset"] == f.end()


def test_other_layouts_are_filled_in_the_order_of_memory(drawn):
    assert drawn["randn strided"] == drawn["randn sliced"] == drawn["randn float32"]


def test_normal_with_tensors(drawn):
    z = fill(drawn).normals()
    i = np.arange(SIZE)
    np.testing.assert_allclose(drawn["normal tensors"], z * ((i + 1) / SIZE) + i / SIZE, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(drawn["normal mean"], z * 2 + i / SIZE, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(drawn["normal std"], z * ((i + 1) / SIZE) + 0.5, rtol=1e-5, atol=2e-6)
    assert drawn["normal tensors offset"] == drawn["normal mean offset"] == fill(drawn).end()


@pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16"))
def test_rrelu_draws_a_slope_for_every_element(drawn, dtype):
    f = fill(drawn, wide_of(dtype))
    slopes = rounded(rounded(f.units(), dtype).astype("float64") * (0.4 - 0.1) + 0.1, dtype)
    values = rounded(np.linspace(-1, 1, SIZE, dtype="float32"), dtype)
    np.testing.assert_allclose(drawn[f"rrelu {dtype}"], np.where(values <= 0, values * slopes, values), **close(dtype))
    assert drawn[f"rrelu {dtype} offset"] == f.end()


# ---- bernoulli of tensors, and dropout

NEIGHBORS = """
keep("bernoulli of", lambda g: t.bernoulli(t.full((n,), 0.25, device=d), generator=g))
keep("bernoulli of float64", lambda g: t.bernoulli(t.full((n,), 0.25, dtype=t.float64, device=d), generator=g))
keep("bernoulli_ with", lambda g: t.empty(n, dtype=t.int32, device=d).bernoulli_(t.linspace(0, 1, n, dtype=t.float64, device=d), generator=g))
for dtype in (t.float32, t.float64, t.bfloat16):
    for size in (n, n + 1, n + 2, n + 4):
        keep_default(f"dropout {size} " + str(dtype).split(".")[1], lambda: F.dropout(t.ones(size, dtype=dtype, device=d), 0.25))
keep_default("dropout shifted", lambda: F.dropout(t.ones(n + 1, device=d)[1:], 0.25))
keep_default("dropout odd", lambda: F.dropout(t.ones(99, 51, device=d).t(), 0.25))
keep_default("dropout even", lambda: F.dropout(t.ones(100, 50, device=d).t(), 0.25).t())
keep_default("dropout_", lambda: F.dropout(t.ones(n, device=d), 0.25, inplace=True))
keep_default("alpha", lambda: F.alpha_dropout(t.zeros(n, device=d), 0.25, True))
x = t.linspace(-2, 2, n, device=d, requires_grad=True)
default.set_state(seeded().get_state())
result, mask = t.native_dropout(x, 0.25, True)
result.backward(t.full_like(x, 3.0))
out["native"], out["mask"], out["grad"] = result.tolist(), mask.tolist(), x.grad.tolist()
"""


@pytest.fixture(scope="module")
def neighbors():
    return results(NEIGHBORS)


def units_of_neighbors(drawn, size, vector):
    """`vector` neighbors are one thread's; each four of them, or less, take a call of Philox."""
    if vector == 1:
        return fill(drawn, size=size).units()
    threads = min(drawn["threads"], -(-size // 256) * 256)
    i = np.arange(size, dtype=np.uint64)
    of_call = np.uint64(min(vector, 4))
    taken, calls = i // np.uint64(vector), np.uint64(max(vector // 4, 1))
    call = taken // np.uint64(threads) * calls + i % np.uint64(vector) // of_call
    return single(reference.pick(philox(call + np.uint64(OFFSET // 4), taken % np.uint64(threads), SEED), i % of_call))


def test_bernoulli_of_probabilities_draws_for_four_neighbors(neighbors):
    i = np.arange(SIZE, dtype=np.uint64)
    u = single(reference.pick(philox(np.full(SIZE, OFFSET // 4), i // np.uint64(4), SEED), i % np.uint64(4)))
    np.testing.assert_array_equal(neighbors["bernoulli of"], u <= 0.25)
    np.testing.assert_array_equal(neighbors["bernoulli of float64"], u <= 0.25)
    np.testing.assert_array_equal(neighbors["bernoulli_ with"], u <= np.linspace(0, 1, SIZE).astype("float32"))
    assert neighbors["bernoulli of offset"] == OFFSET + 12


@pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16"))
@pytest.mark.parametrize("size", (SIZE, SIZE + 1, SIZE + 2, SIZE + 4))
def test_dropout_draws_for_as_many_neighbors_as_16_bytes_hold(neighbors, dtype, size):
    vector = {"float32": 4, "float64": 2, "bfloat16": 8}[dtype]
    while size % vector:
        vector //= 2
    kept = np.asarray(neighbors[f"dropout {size} {dtype}"])
    assert set(np.unique(kept)) == {0.0, float(rounded(np.array([1 / 0.75]), dtype)[0])}
    np.testing.assert_array_equal(kept > 0, units_of_neighbors(neighbors, size, vector) < 0.75)
    assert neighbors[f"dropout {size} {dtype} offset"] == fill(neighbors, size=size).end()


def test_dropout_of_other_layouts(neighbors):
    flat = units_of_neighbors(neighbors, SIZE, 4) < 0.75
    np.testing.assert_array_equal(np.ravel(neighbors["dropout even"]) > 0, flat)  # in the order of memory
    one_by_one = fill(neighbors).units() < 0.75
    np.testing.assert_array_equal(np.asarray(neighbors["dropout shifted"]) > 0, one_by_one)  # vectors of it cannot be read
    np.testing.assert_array_equal(np.ravel(neighbors["dropout odd"]) > 0, fill(neighbors, size=99 * 51).units() < 0.75)
    np.testing.assert_array_equal(np.asarray(neighbors["dropout_"]) > 0, one_by_one)
    limit = 1.7580993408473766
    a = 1 / np.sqrt((limit**2 * 0.25 + 1) * 0.75)
    np.testing.assert_allclose(neighbors["alpha"], np.where(one_by_one, 0, -limit * a) + limit * a * 0.25, rtol=1e-5)


def test_native_dropout_and_its_derivative(neighbors):
    kept = units_of_neighbors(neighbors, SIZE, 4) < 0.75
    x = np.linspace(-2, 2, SIZE, dtype="float32")
    np.testing.assert_array_equal(neighbors["mask"], kept)
    np.testing.assert_allclose(neighbors["native"], x * kept / 0.75, rtol=1e-6)
    np.testing.assert_allclose(neighbors["grad"], 3 * kept / 0.75, rtol=1e-6)


# ---- as many numbers as an element needs

EACH = """
m = 400
rates = t.tensor([0.0, 0.3, 2.0, 11.0, 40.0, 63.5, 5000.0, 1e6], device=d).repeat(m // 8)
shapes = t.tensor([0.05, 0.4, 1.0, 1.5, 3.0, 20.0, 500.0, 0.9], device=d).repeat(m // 8)
counts = t.tensor([5.0, 12.0, 40.0, 40.0, 100.0, 1000.0, 300.0, 3.0], device=d).repeat(2500 // 8)
chances = t.tensor([0.3, 0.9, 0.25, 0.6, 0.5, 0.02, 0.97, 0.5], device=d).repeat(2500 // 8)
for dtype in (t.float32, t.float64):
    name = str(dtype).split(".")[1]
    keep("poisson " + name, lambda g: t.poisson(rates.to(dtype), generator=g))
    keep("gamma " + name, lambda g: t._standard_gamma(shapes.to(dtype), generator=g))
    keep("dirichlet " + name, lambda g: t._sample_dirichlet(shapes.to(dtype).reshape(-1, 8)[:, 1:7], generator=g))
    keep("binomial " + name, lambda g: t.binomial(counts.to(dtype), chances.to(dtype), generator=g))
out["rates"], out["shapes"], out["counts"], out["chances"] = (x.tolist() for x in (rates, shapes, counts, chances))
weights = t.tensor([[1.0, 2, 0, 3, 4, 0], [5.0, 1, 1, 1, 1, 1], [0.0, 0, 1, 0, 0, 0]], device=d)
keep("multinomial", lambda g: t.multinomial(weights, 300, True, generator=g))
keep("without", lambda g: t.multinomial(weights[1].expand(500, 6), 4, generator=g))
keep("one", lambda g: t.multinomial(weights[0].expand(500, 6), 1, True, generator=g))
for size in (1, 2, 7, 4500, 30000, 60000):
    keep(f"randperm {size}", lambda g: t.randperm(size, device=d, generator=g))
for start in range(40):
    keep(f"tied {start}", lambda g: t.randperm(6, device=d, generator=g), start)
keep("randperm int16", lambda g: t.randperm(7, dtype=t.int16, device=d, generator=g))
"""


@pytest.fixture(scope="module")
def each():
    return results(EACH)


@FLOATS
def test_poisson_multiplies_below_64_and_is_normal_above_4000(each, dtype):
    expected = [reference.poisson(rate, Source(SEED, OFFSET, i)) for i, rate in enumerate(each["rates"])]
    np.testing.assert_array_equal(each[f"poisson {dtype}"], expected)
    assert each[f"poisson {dtype} offset"] == OFFSET + 20


@FLOATS
def test_gamma_cubes_normal_values(each, dtype):
    kind = np.dtype(dtype).type
    expected = [reference.gamma(shape, Source(SEED, OFFSET, i), kind) for i, shape in enumerate(each["shapes"])]
    np.testing.assert_allclose(each[f"gamma {dtype}"], np.maximum(expected, np.finfo(dtype).tiny), rtol=2e-4 if dtype == "float32" else 1e-5)
    assert each[f"gamma {dtype} offset"] == OFFSET + 12


@FLOATS
def test_dirichlet_divides_gamma_values(each, dtype):
    kind = np.dtype(dtype).type
    shapes = np.reshape(each["shapes"], (-1, 8))[:, 1:7]
    values = [reference.gamma(shape, Source(SEED, OFFSET, i), kind) for i, shape in enumerate(shapes.ravel())]
    values = np.reshape(values, shapes.shape)
    np.testing.assert_allclose(each[f"dirichlet {dtype}"], values / values.sum(1, keepdims=True), rtol=2e-4)
    assert each[f"dirichlet {dtype} offset"] == OFFSET + 12


@FLOATS
def test_binomial_goes_on_for_eight_elements(each, dtype):
    kind = np.dtype(dtype).type
    sources, expected = {}, []
    with np.errstate(divide="ignore"):
        for i, (count, p) in enumerate(zip(each["counts"], each["chances"])):
            thread = i // 1024 * 128 + i % 128
            source = sources.setdefault(thread, Source(SEED, OFFSET, thread))
            expected.append(reference.binomial(count, np.float32(p), source, kind))
    wrong = np.flatnonzero(np.asarray(each[f"binomial {dtype}"]) != expected)
    assert len(wrong) <= 8, wrong  # a number at the edge of being kept may be, or not, by a rounding; it shifts those after it
    assert each[f"binomial {dtype} offset"] == OFFSET + 44


def test_multinomial_searches_or_races(each):
    weights = np.array([[1.0, 2, 0, 3, 4, 0], [5.0, 1, 1, 1, 1, 1], [0.0, 0, 1, 0, 0, 0]])
    sums = np.cumsum(weights, 1) / weights.sum(1, keepdims=True)
    for row in range(3):
        u = single(philox(np.full(300, OFFSET // 4), row * 384 + np.arange(300), SEED)[:, 0])
        sure = np.abs(u[:, None] - sums[row]).min(1) > 1e-6
        np.testing.assert_array_equal(np.asarray(each["multinomial"][row])[sure], np.searchsorted(sums[row], u)[sure])
    assert each["multinomial offset"] == OFFSET + 4
    times = -np.log(fill(each, size=3000).units().astype("float64")).reshape(500, 6)
    np.testing.assert_array_equal(each["without"], np.argsort(times / weights[1], 1)[:, :4])
    assert each["without offset"] == fill(each, size=3000).end()
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(np.ravel(each["one"]), np.argmin(times / weights[0], 1))


@pytest.mark.parametrize("size", (1, 2, 7, 4500, 30000, 60000))
def test_permutations_are_sorted_by_keys(each, size):
    order, end, _ = reference.permutation(size, SEED, OFFSET, each["threads"])
    assert each[f"randperm {size}"] == order
    assert each[f"randperm {size} offset"] == end


def test_permutations_with_equal_keys_are_permuted_again(each):
    ties = 0
    for start in range(40):
        order, _, found = reference.permutation(6, start, OFFSET, each["threads"])
        assert each[f"tied {start}"] == order
        ties += found
    assert ties > 1
    assert each["randperm int16"] == each["randperm 7"]
