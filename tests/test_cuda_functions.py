"""Elementary functions that CUDA devices compute in their own way: every number of 16 bits against the CPU, float32 against double precision."""

import pytest
from cuda_environment import run_emulated

PROGRAM = """
import numpy as np, scipy.special, facula
F = facula.nn.functional
name = {name!r}
functions = {{
    "exp": (facula.exp, np.exp, 1), "log": (facula.log, np.log, 1), "tanh": (facula.tanh, np.tanh, 2.2),
    "erf": (facula.erf, scipy.special.erf, 2), "sin": (facula.sin, np.sin, 1.9), "cos": (facula.cos, np.cos, 1.9),
    "sigmoid": (facula.sigmoid, scipy.special.expit, 1.9),
    "silu": (F.silu, lambda x: x * scipy.special.expit(x), None),
    "gelu": (F.gelu, lambda x: x * scipy.special.ndtr(x), None),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"),
                  lambda x: x * scipy.special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x ** 3)), None),
}}
function, reference, bound = functions[name]
errors = np.seterr(all="ignore")

# every number of both dtypes of 16 bits: the CPU's result or its neighbor, and that seldom
for dtype in (facula.bfloat16, facula.float16):
    x = facula.arange(-(1 << 15), 1 << 15).to(facula.int16).view(dtype)
    made, expected = function(x.cuda()).cpu(), function(x)
    assert made.dtype == dtype
    nan = expected.isnan().numpy()
    np.testing.assert_array_equal(made.isnan().numpy(), nan)
    whole = lambda t: t.view(facula.int16).numpy().astype(int)[~nan]
    if name.startswith("gelu"):  # below -5 a result is next to nothing
        tiny = (expected.float().abs().numpy() < 1e-5 * np.abs(x.float().numpy()))[~nan]
        np.testing.assert_allclose(made.float().numpy()[~nan][tiny], expected.float().numpy()[~nan][tiny], rtol=0, atol=1e-6)
    else:
        tiny = np.zeros((~nan).sum(), bool)
    apart = np.abs(whole(made) - whole(expected))[~tiny]
    assert apart.max() <= 1, apart.max()
    assert (apart > 0).mean() <= 3e-3, (apart > 0).mean()

# float32, by vectors and one by one
rng = np.random.default_rng(0)
patterns = rng.integers(0, 2 ** 32, 100_003, dtype=np.uint64).astype(np.uint32).view(np.float32)
edges = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.2e-38, -88, -90, -100, -103.5, -104, 88.7, 89, 1, -1, 32000, 32001])
x = np.concatenate([edges, rng.uniform(-12, 12, 100_000).astype(np.float32), patterns])
made = function(facula.from_numpy(x).cuda()).cpu().numpy()
expected = reference(x.astype(np.float64))
np.testing.assert_array_equal(np.isnan(made), np.isnan(expected.astype(np.float32)))
if bound:
    fine = ~np.isnan(expected) & (np.abs(expected) < 3.4e38)
    unit = np.spacing(np.maximum(np.abs(expected[fine]), 1.2e-38).astype(np.float32)).astype(np.float64)
    error = np.abs(made[fine] - expected[fine]) / unit
    assert error.max() <= bound, (x[fine][error.argmax()], error.max())
    large = np.abs(expected) > 3.5e38
    np.testing.assert_array_equal(made[large], expected[large].astype(np.float32))
else:
    fine = np.isfinite(expected) & (np.abs(x) < 1e12)
    np.testing.assert_allclose(made[fine], expected[fine], rtol=4e-7, atol=1e-43 if name == "silu" else 1e-7)
    middle = fine & (x > -4)
    np.testing.assert_allclose(made[middle], expected[middle], rtol=4e-6, atol=1e-43)
zeros = expected == 0
np.testing.assert_array_equal(np.signbit(made[zeros & (x == 0)]), np.signbit(expected[zeros & (x == 0)]))
for n in (0, 1, 7, 33):
    few = function(facula.from_numpy(x[3:3 + n].copy()).cuda()).cpu().numpy()
    np.testing.assert_array_equal(few, made[3:3 + n])
np.testing.assert_array_equal(function(facula.from_numpy(x).cuda()[1:]).cpu().numpy(), made[1:])
np.testing.assert_array_equal(function(facula.from_numpy(x).cuda().flip(0)).cpu().numpy(), made[::-1])
"""
NAMES = ["exp", "log", "tanh", "erf", "sin", "cos", "sigmoid", "silu", "gelu", "gelu_tanh"]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_of_every_kind_of_number(name):
    run_emulated(PROGRAM.format(name=name))
