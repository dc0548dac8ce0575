"""Random numbers of CUDA devices are those that Philox 4x32-10 defines, in PyTorch's order: compared with the algorithm written in NumPy.

A thread makes 4 numbers (2 of 64 bits) from one call, as many elements apart as there are threads; the threads are as many as the device
holds at once. The seed is the key, the thread's number the upper half of the counter, the generator's offset in fours the lower half.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from cuda_environment import environment

SEED, OFFSET, SIZE = 1234567890123, 20, 5000  # more than one round of the emulated device's 4096 threads

PROGRAM = """
import json
import facula as t
import facula.nn.functional as F
seed, offset, n = {seed}, {offset}, {size}
out = {{}}
def seeded():
    g = t.Generator("cuda")
    state = t.tensor(list(seed.to_bytes(8, "little") + offset.to_bytes(8, "little")), dtype=t.uint8)
    g.set_state(state)
    return g
def keep(name, f):
    g = seeded()
    out[name] = f(g).cpu().double().tolist()
    out[name + " offset"] = int.from_bytes(bytes(g.get_state().tolist())[8:], "little")
for dtype in (t.float32, t.float64, t.bfloat16):
    name = str(dtype).split(".")[1]
    keep("rand " + name, lambda g: t.rand(n, dtype=dtype, device="cuda", generator=g))
    keep("randn " + name, lambda g: t.randn(n, dtype=dtype, device="cuda", generator=g))
    keep("exponential " + name, lambda g: t.empty(n, dtype=dtype, device="cuda").exponential_(2.0, generator=g))
    keep("bernoulli " + name, lambda g: t.empty(n, dtype=dtype, device="cuda").bernoulli_(0.3, generator=g))
keep("randint", lambda g: t.randint(-5, 100, (n,), device="cuda", generator=g))
keep("randint 64", lambda g: t.randint(0, 2**40, (n,), device="cuda", generator=g))
keep("random uint32", lambda g: t.empty(n, dtype=t.uint32, device="cuda").random_(generator=g))
keep("bernoulli of", lambda g: t.bernoulli(t.full((n,), 0.25, device="cuda"), generator=g))
p = t.cuda.get_device_properties(0)
out["threads"] = p.multi_processor_count * (p.max_threads_per_multi_processor // 256) * 256
default = t.cuda.default_generators[0]
default.set_state(seeded().get_state())
out["dropout"] = F.dropout(t.ones(n, device="cuda"), 0.25).cpu().tolist()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def drawn():
    program = PROGRAM.format(seed=SEED, offset=OFFSET, size=SIZE)
    run = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def philox(place, subsequence, seed):
    """Words of 32 bits, of shape [*place.shape, 4]."""
    low = np.uint64(0xFFFFFFFF)
    x, y = place & low, place >> np.uint64(32)
    z, w = subsequence & low, subsequence >> np.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        x, y, z, w = (b >> np.uint64(32)) ^ y ^ np.uint64(key[0]), b & low, (a >> np.uint64(32)) ^ w ^ np.uint64(key[1]), a & low
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack([x, y, z, w], -1)


def test_philox_gives_the_published_numbers():
    """The test vectors of Random123 for ten rounds: all bits 0, and all bits 1."""
    zero, ones = np.zeros(1, np.uint64), np.full(1, 2**64 - 1, np.uint64)
    assert philox(zero, zero, 0)[0].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(ones, ones, 2**64 - 1)[0].tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def words(threads, wide):
    """For every element the words that it is made of: all four, and which of the call's numbers it is."""
    threads = min(threads, -(-SIZE // 256) * 256)
    i = np.arange(SIZE, dtype=np.uint64)
    number = i // np.uint64(threads)
    of_call = philox(number // np.uint64(wide) + np.uint64(OFFSET // 4), i % np.uint64(threads), SEED)
    return of_call, (number % np.uint64(wide)).astype(int)


def end_offset(threads, wide):
    threads = min(threads, -(-SIZE // 256) * 256)
    return OFFSET + ((SIZE - 1) // (threads * wide) + 1) * 4


def units(threads, dtype):
    """Numbers in (0, 1]: of 32 bits, or of 53."""
    if dtype == "float64":
        call, k = words(threads, 2)
        low, high = (np.take_along_axis(call, (2 * k + j)[:, None], 1)[:, 0] for j in (0, 1))
        return ((low ^ (high << np.uint64(21))).astype(np.longdouble) * 2.0**-53 + 2.0**-54).astype("float64")
    call, k = words(threads, 4)
    word = np.take_along_axis(call, k[:, None], 1)[:, 0].astype("float32").astype("float64")
    return (word * 2.0**-32 + 2.0**-33).astype("float32")


def rounded(values, dtype):
    """To bfloat16, as the device rounds."""
    if dtype != "bfloat16":
        return values
    bits = np.ascontiguousarray(values, "float32").view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16) << np.uint64(16)).astype(np.uint32).view("float32")


DTYPES = ("float32", "float64", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rand_is_philox(drawn, dtype):
    expected = rounded(units(drawn["threads"], dtype), dtype)
    expected = np.where(expected == 1, 0, expected)  # the end is excluded, the begin is not
    np.testing.assert_array_equal(drawn[f"rand {dtype}"], expected)
    assert drawn[f"rand {dtype} offset"] == end_offset(drawn["threads"], 2 if dtype == "float64" else 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_randn_transforms_pairs(drawn, dtype):
    wide = 2 if dtype == "float64" else 4
    call, k = words(drawn["threads"], wide)
    if dtype == "float64":
        whole = [call[:, j] ^ (call[:, j + 1] << np.uint64(21)) for j in (0, 2)]
        radius = np.sqrt(-2 * np.log(whole[0] * 2.0**-53 + 2.0**-54))
        angle = np.pi * (whole[1] * 2.0**-52 + 2.0**-53)
    else:
        first = np.take_along_axis(call, (k // 2 * 2)[:, None], 1)[:, 0]
        second = np.take_along_axis(call, (k // 2 * 2 + 1)[:, None], 1)[:, 0]
        radius = np.sqrt(-2 * np.log(first * 2.0**-32 + 2.0**-33))
        angle = 2 * np.pi * (second * 2.0**-32 + 2.0**-33)
    expected = radius * np.where(k % 2 == 0, np.sin(angle), np.cos(angle))
    close = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(drawn[f"randn {dtype}"], expected, rtol=close, atol=close / 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponential_is_the_logarithm(drawn, dtype):
    u = units(drawn["threads"], dtype).astype("float64")
    epsilon = np.finfo("float64" if dtype == "float64" else "float32").eps
    expected = -0.5 * np.where(u >= 1 - epsilon / 2, -epsilon / 2, np.log(u))
    np.testing.assert_allclose(drawn[f"exponential {dtype}"], expected, rtol={"float64": 1e-13, "float32": 1e-5}.get(dtype, 1e-2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bernoulli_compares(drawn, dtype):
    np.testing.assert_array_equal(drawn[f"bernoulli {dtype}"], units(drawn["threads"], dtype) < 0.3)


def test_bernoulli_of_probabilities_and_dropout(drawn):
    u = units(drawn["threads"], "float32")
    np.testing.assert_array_equal(drawn["bernoulli of"], u <= 0.25)
    kept = np.asarray(drawn["dropout"])
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75).item()}
    np.testing.assert_array_equal(kept > 0, u < 0.75)


def test_whole_numbers_are_remainders(drawn):
    call, k = words(drawn["threads"], 4)
    word = np.take_along_axis(call, k[:, None], 1)[:, 0]
    np.testing.assert_array_equal(drawn["randint"], (word % np.uint64(105)).astype("int64") - 5)
    np.testing.assert_array_equal(drawn["random uint32"], word.astype("float64"))
    call, k = words(drawn["threads"], 2)
    high, low = (np.take_along_axis(call, (2 * k + j)[:, None], 1)[:, 0] for j in (0, 1))
    np.testing.assert_array_equal(drawn["randint 64"], ((high << np.uint64(32) | low) % np.uint64(2**40)).astype("float64"))
    assert drawn["randint offset"] == end_offset(drawn["threads"], 4)
