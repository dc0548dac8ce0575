"""The same values in other layouts of memory give the same results: a round of tests/fuzz/layouts.py, and what it found.

The long round is a command, see there.
"""

from __future__ import annotations

import os

import pytest
from test_fuzz_hostile import run_round

import facula
from facula.nn import functional as F

CASES = os.environ.get("FACULA_FUZZ_CASES", "5000")


@pytest.mark.slow
def test_a_round_of_layouts():
    result = run_round("layouts", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


def test_gradients_of_leaves_whose_strides_mean_nothing():
    for shape in [(0, 3), (3, 0), (1,), (1, 1)]:
        leaf = facula.ones(shape)[::-1].detach().requires_grad_()
        (leaf * 2).sum().backward()
        assert leaf.grad.shape == shape and bool((leaf.grad == 2).all())


def test_writes_to_views_without_elements_are_differentiated():
    base = facula.ones(2, 8)[:0, 1::3].detach().requires_grad_()
    whole = base * 1
    whole[:, 1] = facula.ones(0)
    whole.sum().backward()
    assert base.grad.shape == base.shape
    part = facula.ones(0, requires_grad=True)
    facula.select_scatter(facula.ones(2, 8)[:0, 1::3], part, 1, 1).sum().backward()
    assert part.grad.shape == (0,)


def test_optimizers_read_parameters_that_are_conjugated_lazily():
    values, gradient = facula.tensor([1 + 2j, -3j]), facula.tensor([0.5 - 1j, 2j])
    results = []
    for parameter in (values.clone(), values.conj().resolve_conj().conj()):
        parameter = parameter.detach().requires_grad_()
        parameter.grad = gradient
        facula.optim.RMSprop([parameter], lr=0.1, momentum=0.9, centered=True).step()
        results.append(parameter.detach().resolve_conj())
    assert facula.allclose(*results)


def test_attention_without_heads():
    with pytest.raises(RuntimeError, match="multiple of the key and value heads"):
        F.scaled_dot_product_attention(facula.ones(0, 4, 3, 4), facula.ones(0, 0, 3, 4), facula.ones(0, 0, 3, 4), enable_gqa=True)


@pytest.mark.parametrize("mode", ["max", "sum", "mean"])
def test_indices_without_a_bag(mode):
    with pytest.raises(RuntimeError, match="without a bag to belong to, got 7 indices and no offsets"):
        F.embedding_bag(facula.arange(7) % 3, facula.ones(5, 3), facula.empty(0, dtype=facula.int64), mode=mode)


def test_trace_of_a_view_of_negative_strides():
    values = facula.arange(9.0).reshape(3, 3)
    leaf = values.flip((0, 1))[::-1, ::-1].detach().requires_grad_()
    leaf.trace().backward()
    assert leaf.trace() == 12 and facula.equal(leaf.grad, facula.eye(3))
