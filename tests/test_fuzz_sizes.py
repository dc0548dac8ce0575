"""Numbers far larger than the tensors are refused or cost what is read and written: a round of tests/fuzz/sizes.py, and what it found.

The long round is a command, see there.
"""

from __future__ import annotations

import os

import pytest
from test_fuzz_hostile import run_round

import facula
from facula.nn import functional as F

CASES = os.environ.get("FACULA_FUZZ_CASES", "400")


@pytest.mark.slow
def test_a_round_of_sizes():
    result = run_round("sizes", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_transposed_convolutions_whose_windows_lie_far_apart(dtype, last):
    """Most results belong to no window: oneDNN spent 120 ns on each."""
    x, w, bias = (facula.arange(1.0, 13.0).reshape(1, 2, 6, 1) / 8).to(dtype), (facula.arange(1.0, 13.0).reshape(2, 3, 2, 1) / 4).to(dtype), facula.ones(3).to(dtype)
    if last:
        x = x.to(memory_format=facula.channels_last)
    found = F.conv_transpose2d(x, w, bias, stride=(20_000, 1))
    assert found.shape == (1, 3, 100_002, 1)
    windows = facula.einsum("bihw,iokl->bohk", x.double(), w.double())
    expected = facula.ones(1, 3, 100_002, 1, dtype=facula.float64)
    for row in range(6):
        expected[:, :, 20_000 * row : 20_000 * row + 2, 0] += windows[:, :, row]
    assert facula.allclose(found.double(), expected, rtol=1e-2 if dtype is facula.bfloat16 else 1e-6)


def test_gradients_of_convolutions_whose_windows_lie_far_apart():
    image, kernel = facula.randn(1, 2, 100_003, dtype=facula.float64), facula.randn(3, 2, 3, dtype=facula.float64)
    image.requires_grad_(), kernel.requires_grad_()
    result = F.conv1d(image, kernel, stride=50_000)
    (result * facula.arange(1.0, 10.0).reshape(1, 3, 3)).sum().backward()
    windows = image.detach().unfold(2, 3, 50_000)  # 1, 2, 3, 3
    assert facula.allclose(result.detach(), facula.einsum("bipk,oik->bop", windows, kernel.detach()))
    grad = facula.arange(1.0, 10.0, dtype=facula.float64).reshape(1, 3, 3)
    assert facula.allclose(kernel.grad, facula.einsum("bipk,bop->oik", windows, grad))
    assert facula.allclose(image.grad[:, :, 50_000:50_003], facula.einsum("oik,bo->bik", kernel.detach(), grad[:, :, 1]))


@pytest.mark.parametrize("size", [1, 2, 5, 6, 12, 13, 14, 1000, 2**40])
def test_windows_of_channels_beyond_all_of_them(size):
    x = facula.randn(2, 6, 4)
    squares = (x.double() ** 2).tolist()
    expected = facula.empty(2, 6, 4, dtype=facula.float64)
    for n in range(2):
        for c in range(6):
            for i in range(4):
                total = sum(squares[n][j][i] for j in range(max(0, c - size // 2), min(6, c + (size - 1) // 2 + 1)))
                expected[n, c, i] = x[n, c, i].double() / (2.0 + 0.5 * total / size) ** 0.75
    assert facula.allclose(F.local_response_norm(x, size, 0.5, 0.75, 2.0).double(), expected, rtol=1e-5)
