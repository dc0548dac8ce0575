"""Results of ops: tensors of their own, which the program may write to in place before a backward pass."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from op_samples import all_ops, call, samples

import facula


def make_leaf(values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


# ---- results of ops are tensors of their own


def _tensors(value):
    if isinstance(value, facula.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


@pytest.mark.parametrize("op", [op for op in all_ops() if op.kind not in ("view", "composite")], ids=lambda op: op.id)
def test_no_result_is_a_view_of_what_only_the_op_has_seen(op):
    for args, kwargs in samples(op, "float64", np.random.default_rng(0)):
        given = list(_tensors([*args, *kwargs.values()]))
        for t in given:
            if t.is_floating_point():
                t.requires_grad_()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = call(op, *args, **kwargs)
        except (RuntimeError, TypeError, ValueError):  # an op that writes into a leaf, or takes no leaf
            continue
        for t in _tensors(result):
            if t.layout == facula.strided and t._is_view():
                assert any(t._base is g or t._base is g._base for g in given if g.layout == facula.strided), op.id


def _sparse_calls(layout):
    dense = (facula.eye(4) + facula.ones(4, 4).tril()).requires_grad_()
    given = {"coo": dense.to_sparse, "hybrid": lambda: dense.to_sparse(1), "csr": dense.to_sparse_csr, "bsr": lambda: dense.to_sparse_bsr((2, 2))}[layout]()
    other = facula.ones(4, 4)
    yield given.to_dense()
    yield facula.sparse.sum(given, 0).to_dense()
    yield (-given).to_dense()
    if layout != "hybrid":
        yield other @ given
        yield facula.sparse.mm(given, other)


@pytest.mark.parametrize("layout", ["coo", "hybrid", "csr", "bsr"])
def test_dense_results_of_sparse_ops_are_written_in_place(layout):
    for result in _sparse_calls(layout):
        assert not result._is_view() and result.requires_grad
        result.add_(1)
        result[0] = 2
        result[:].mul_(3)
        assert result.reshape(-1)[0] == 6 and result.requires_grad


def test_solutions_are_written_in_place():
    a, b = facula.tensor([[3.0, 1.0], [1.0, 2.0], [0.0, 1.0]], requires_grad=True), facula.tensor([1.0, 2.0, 3.0])
    for solve in (lambda: facula.linalg.lstsq(a, b[:, None])[0], lambda: facula.linalg.solve(a[:2], b[:2]), lambda: facula.linalg.solve(a[:2], facula.eye(2), left=False)):
        expected = facula.autograd.grad((solve() * 3).sum(), a)[0]
        solution = solve()
        assert not solution._is_view()
        if "Lstsq" in solution.grad_fn.name():  # it keeps its result
            assert solution.add_(1).requires_grad
            continue
        solution = (solve() * 1 if "Ex" in solution.grad_fn.name() else solution).mul_(3).add_(1)
        assert facula.allclose(facula.autograd.grad(solution.sum(), a)[0], expected)


# ---- what is kept for a backward pass


@pytest.mark.parametrize("power", [2, 3, 0.5, -1, -0.5, 1.5])
def test_powers_may_be_written_to(power):
    x = make_leaf([0.5, 4.0])
    for of in (lambda: x**power, lambda: facula.pow(x, power), lambda: x.pow(power)):
        (grad,) = facula.autograd.grad(of().add_(1e-8).sum(), x)
        np.testing.assert_allclose(grad, power * np.array([0.5, 4.0]) ** (power - 1))


def test_roots_as_powers_are_differentiated_again_and_at_zero():
    x = make_leaf([0.25, 0.0])
    y = x**0.5
    assert y.grad_fn.name().startswith("PowBackward") and y.tolist() == [0.5, 0.0]
    (grad,) = facula.autograd.grad(y.sum(), x, create_graph=True)
    assert grad.tolist() == [1.0, np.inf]
    assert facula.autograd.grad(grad[0], x)[0][0] == -2.0
    assert facula.func.jvp(lambda t: t**0.5, (facula.tensor(4.0),), (facula.tensor(1.0),))[1] == 0.25
    assert facula.vmap(facula.func.grad(lambda t: t**0.5))(facula.tensor([4.0, 16.0])).tolist() == [0.25, 0.125]
