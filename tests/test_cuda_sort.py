"""Sorting on the emulated CUDA device, beyond what the samples of ops cover: rows that do not fit into a block."""

import subprocess
import sys

import pytest
from cuda_environment import environment

START = "import numpy as np, facula\nd = 'cuda'\nrng = np.random.default_rng(0)\n"


def child(program, **extra):
    run = subprocess.run([sys.executable, "-c", START + program], env=environment(**extra), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


ROWS = """
def check(values, descending):
    made, order = facula.sort(facula.tensor(values).to(d), dim=1, descending=descending, stable=True)
    expected = facula.sort(facula.tensor(values), dim=1, descending=descending, stable=True)
    assert np.array_equal(order.cpu().numpy(), expected[1].numpy()), (values.dtype, values.shape, descending)
    assert np.array_equal(made.cpu().numpy(), expected[0].numpy(), equal_nan=values.dtype.kind == 'f')
for shape in ((1, 2049), (3, 4096), (2, 9001)):
    for dtype in ('float32', 'float64', 'int8', 'int16', 'int64', 'uint8', 'bool'):
        values = rng.integers(-90, 90, shape).astype(dtype)
        if dtype[:5] == 'float':
            values[:, ::7] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], values[:, ::7].shape)
        for descending in (False, True):
            check(values, descending)
"""


@pytest.mark.parametrize("extra", [{}, {"FACULA_EMULATED_MODE": "lazy", "FACULA_EMULATED_ORDER": "random"}], ids=str)
def test_long_rows(extra):
    child(ROWS, **extra)


def test_categories_of_long_rows():
    child("""
weights = facula.tensor(rng.random((3, 5000)).astype('float32')).to(d)
weights[:, ::3] = 0
drawn = facula.multinomial(weights, 3333).cpu().numpy()
for row in drawn:
    assert np.array_equal(np.sort(row), np.nonzero(np.arange(5000) % 3)[0])
""")


FIRST = """
for shape in ((3, 2100), (2, 4000)):
    for dtype in ('float32', 'float64', 'int16', 'int64', 'uint8', 'float16'):
        values = rng.integers(0, 90, shape).astype(dtype)
        if dtype[:5] == 'float':
            values[:, ::7] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], values[:, ::7].shape)
        host = facula.tensor(values)
        for largest in (False, True):
            expected, order = facula.sort(host, dim=1, descending=largest, stable=True)
            for k in (1, 200, shape[1] // 8, shape[1] // 8 + 1):
                made, where = facula.topk(host.to(d), k, dim=1, largest=largest)
                assert np.array_equal(where.cpu().numpy(), order[:, :k].numpy()), (dtype, shape, largest, k)
                assert np.array_equal(made.cpu().double().numpy(), expected[:, :k].double().numpy(), equal_nan=True)
                if not largest:
                    made, where = facula.kthvalue(host.to(d), k, dim=1)
                    assert np.array_equal(where.cpu().numpy(), order[:, k - 1].numpy()), (dtype, shape, k)
                    assert np.array_equal(made.cpu().double().numpy(), expected[:, k - 1].double().numpy(), equal_nan=True)
"""


@pytest.mark.parametrize("extra", [{}, {"FACULA_EMULATED_MODE": "lazy", "FACULA_EMULATED_ORDER": "random"}], ids=str)
def test_first_elements_of_long_rows(extra):
    child(FIRST, **extra)
