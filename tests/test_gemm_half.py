"""Products of bfloat16 against float64: every kernel, layout, height of a tile and length of a chain of sums."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import facula

ROWS = [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 23, 24, 31, 50]
COLUMNS = [1, 3, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 1030]
INNER = [1, 2, 3, 8, 31, 32, 33, 100, 127]


def matrix(rows, columns, layout, seed=0):
    """The matrix, and its elements in float64."""
    values = np.random.default_rng(seed + rows * 1000 + columns).standard_normal((rows, columns)).astype(np.float32)
    made = facula.from_numpy(values).bfloat16()
    if layout == "columns":
        made = made.t().contiguous().t()
    elif layout == "part":
        whole = facula.full((rows, columns + 7), float("nan"), dtype=facula.bfloat16)
        whole[:, 3 : 3 + columns] = made
        made = whole[:, 3 : 3 + columns]
    return made, made.double().numpy()


def check(result, exact, size, factor=1.01):
    """Half a unit in the last place of bfloat16, and what float32 sums lose."""
    assert result.dtype == facula.bfloat16
    allowed = factor * np.abs(exact) * 2.0**-8 + size * 1e-6 + 1e-30
    assert (np.abs(result.double().numpy() - exact) <= allowed).all()


@pytest.mark.parametrize("left", ["rows", "columns", "part"])
@pytest.mark.parametrize("right", ["rows", "columns", "part"])
def test_sizes(left, right):
    for rows in ROWS:
        for at, inner in enumerate(INNER):
            for columns in COLUMNS[(rows + at) % 5 :: 5]:
                a, x = matrix(rows, inner, left)
                b, y = matrix(inner, columns, right)
                check(facula.mm(a, b), x @ y, np.abs(x) @ np.abs(y))


@pytest.mark.parametrize("inner", [2047, 2048, 2049, 4097, 6200])
@pytest.mark.parametrize("left", ["rows", "columns"])
@pytest.mark.parametrize("right", ["rows", "columns"])
def test_long_sums(inner, left, right):
    for rows, columns in ((3, 40), (40, 70), (50, 70), (200, 33)):
        a, x = matrix(rows, inner, left)
        b, y = matrix(inner, columns, right)
        check(facula.mm(a, b), x @ y, np.abs(x) @ np.abs(y))


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 4, 16, 17, 300])
@pytest.mark.parametrize("inner", [0, 5, 64, 1024])
def test_bias_is_added_before_rounding(rows, inner, dtype):
    """In steps of 2, as bfloat16 has them there, 257 + 0.75 is 258; 257 rounded first is 256, and stays 256."""
    a = facula.zeros(rows, inner, dtype=dtype)
    weight = facula.zeros(40, inner, dtype=dtype)
    if inner:
        a[:, 0], weight[:, 0] = 1, 256
        a[:, 1], weight[:, 1] = 1, 1
    bias = facula.full((40,), 0.75, dtype=dtype)
    exact = np.full((rows, 40), 257.75 if inner else 0.75)
    result = facula.nn.functional.linear(a, weight, bias)
    assert (result.float().numpy() == facula.tensor(exact).to(dtype).float().numpy()).all()


def test_factors():
    a, x = matrix(50, 70, "rows")
    b, y = matrix(70, 90, "columns")
    c, z = matrix(50, 90, "rows", 5)
    for alpha, beta in ((1, 1), (2, 0), (-0.5, 0.25), (1, 0)):
        result = facula.addmm(c, a, b, alpha=alpha, beta=beta)
        size = abs(alpha) * np.abs(x) @ np.abs(y) + abs(beta) * np.abs(z)
        check(result, alpha * (x @ y) + beta * z, size)
    poisoned = facula.full((50, 90), float("nan"), dtype=facula.bfloat16)
    check(facula.addmm(poisoned, a, b, beta=0), x @ y, np.abs(x) @ np.abs(y))


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batches(batch):
    for rows, inner, columns in ((3, 40, 50), (20, 33, 65), (130, 64, 128)):
        a = facula.randn(batch, rows, inner).bfloat16()
        b = facula.randn(batch, columns, inner).bfloat16().transpose(1, 2)
        x, y = a.double().numpy(), b.double().numpy()
        check(facula.bmm(a, b), x @ y, np.abs(x) @ np.abs(y))


def test_vectors():
    a, x = matrix(300, 200, "rows")
    v, w = matrix(200, 1, "rows")
    check(facula.mv(a, v[:, 0]), (x @ w)[:, 0], (np.abs(x) @ np.abs(w))[:, 0])
    check(facula.mv(a.t(), facula.ones(300).bfloat16()), x.sum(0), np.abs(x).sum(0))
    check(facula.dot(v[:, 0], v[:, 0]), (w * w).sum(), (w * w).sum())


def test_infinities_and_nan_stay_where_they_are():
    """What fills the last vectors and tiles is never multiplied with elements beside it."""
    for rows, inner, columns in ((1, 33, 40), (3, 7, 33), (30, 35, 50)):
        for right in ("rows", "columns"):
            a, x = matrix(rows, inner, "part")
            b, y = matrix(inner, columns, right)
            a[0, inner - 1] = float("inf")
            result = facula.mm(a, b)
            assert facula.isinf(result[0]).all()
            assert facula.isfinite(result[1:]).all()
            b[inner - 1, columns - 1] = float("nan")
            result = facula.mm(a, b)
            assert facula.isnan(result[:, columns - 1]).all()
            assert not facula.isnan(result[:, : columns - 1]).any()


def test_threads_agree():
    """Every element is one chain of sums, whichever thread makes it."""
    before = facula.get_num_threads()
    try:
        for rows, inner, columns in ((500, 300, 200), (40, 3000, 700), (16, 900, 900)):
            a, b = facula.randn(rows, inner).bfloat16(), facula.randn(columns, inner).bfloat16().t()
            results = []
            for threads in (1, 2, 3):
                facula.set_num_threads(threads)
                results.append(facula.mm(a, b))
            assert facula.equal(results[0], results[1])
            assert facula.equal(results[0], results[2])
    finally:
        facula.set_num_threads(before)


@pytest.mark.parametrize("rows", [20, 64])
def test_kept_weights_follow_writes(rows):
    weight = facula.randn(256, 1024).bfloat16().requires_grad_()
    x = facula.randn(rows, 1024).bfloat16()
    with facula.no_grad():
        for step in range(6):
            exact = x.double().numpy() @ weight.double().numpy().T
            check(facula.nn.functional.linear(x, weight), exact, np.abs(exact) + 30)
            if step % 3 == 2:
                weight.mul_(-2)


def test_gradients():
    x = facula.randn(70, 48).bfloat16().requires_grad_()
    layer = facula.nn.Linear(48, 40).bfloat16()
    layer(x).backward(facula.ones(70, 40).bfloat16())
    y, w = x.detach().double().numpy(), layer.weight.detach().double().numpy()
    ones = np.ones((70, 40))
    check(x.grad, ones @ w, ones @ np.abs(w))
    check(layer.weight.grad, ones.T @ y, ones.T @ np.abs(y))
    check(layer.bias.grad, ones.sum(0), ones.sum(0))


IN_TILES = """
import itertools
import numpy as np, torch
torch.manual_seed(0)
sizes = itertools.product((17, 32, 33, 70), (1, 2, 31, 33, 64, 97), (32, 33, 70), "rt", "rt")
for rows, inner, columns, left, right in [*sizes, (40, 2049, 33, "r", "r"), (40, 2049, 33, "t", "t"), (300, 40, 33, "t", "r")]:
    a = torch.randn(rows, inner).bfloat16() if left == "r" else torch.randn(inner, rows).bfloat16().t()
    b = torch.randn(inner, columns).bfloat16() if right == "r" else torch.randn(columns, inner).bfloat16().t()
    bias, old = torch.randn(columns).bfloat16(), torch.randn(rows, columns).bfloat16()
    x, y = a.double().numpy(), b.double().numpy()
    for result, exact in (
        (torch.mm(a, b), x @ y),
        (torch.nn.functional.linear(a, b.t(), bias), x @ y + bias.double().numpy()),
        (torch.addmm(old, a, b, alpha=2, beta=-1), 2 * x @ y - old.double().numpy()),
    ):
        allowed = 1.01 * np.abs(exact) * 2.0**-8 + (np.abs(x) @ np.abs(y) + 4) * 1e-6
        assert (np.abs(result.double().numpy() - exact) <= allowed).all(), (rows, inner, columns, left, right)
    around = torch.full((rows, inner + 9), float("nan")).bfloat16()  # what lies beside a is never multiplied
    around[:, 4 : 4 + inner] = a
    whole = torch.mm(a.contiguous(), b)
    assert torch.equal(torch.mm(around[:, 4 : 4 + inner], b), whole)
a, b = torch.randn(500, 300).bfloat16(), torch.randn(300, 200).bfloat16()
results = []
for threads in (1, 2, 3):
    torch.set_num_threads(threads)
    results.append(torch.mm(a, b))
assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
print("right")
"""


def test_products_in_emulated_tiles():
    """Registers of tiles, which few processors have, are numbers here: what is put into them and how is the same."""
    env = {**os.environ, "FACULA_TILES": "emulated", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = IN_TILES.replace("numpy as np, torch", "numpy as np, facula as torch")
    done = subprocess.run([sys.executable, "-c", program], env=env, cwd=tempfile.gettempdir(), capture_output=True, text=True)
    assert done.stdout == "right\n", done.stderr
