"""Optimizers whose steps are not a rule of the core, and averages of models."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap

import numpy as np
import pytest

import facula
from facula import nn, optim
from facula.optim import _update_rules

rng = np.random.default_rng(0)


def parameter(array, dtype=facula.float64):
    return nn.Parameter(facula.tensor(array.tolist(), dtype=dtype))


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    p = parameter(np.array([-0.5, 0.5]))
    optimizer = optim.LBFGS([p], lr=1.0 if search else 0.2, max_iter=50, line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    first = closure().item()
    for _ in range(8):
        optimizer.step(closure)
    assert closure().item() < (1e-10 if search else 0.5 * first)


def test_muon_steps_are_nearly_orthogonal():
    p = parameter(np.zeros((4, 6)), facula.float32)
    p.grad = facula.tensor(rng.standard_normal((4, 6)).tolist())
    optim.Muon([p], lr=1.0, weight_decay=0.0).step()
    singular = np.linalg.svd(np.array(p.tolist()), compute_uv=False)
    assert 0.5 < singular.min() and singular.max() < 1.5


def test_adafactor_lowers_the_loss():
    p = parameter(np.ones((3, 4)))
    optimizer = optim.Adafactor([p], lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1.0
    assert optimizer.state[p]["row_var"].shape == (3, 1) and optimizer.state[p]["col_var"].shape == (1, 4)


def test_sparse_adam_touches_rows_with_a_gradient():
    embedding = nn.Embedding(4, 3, sparse=True)
    nn.init.ones_(embedding.weight)
    optimizer = optim.SparseAdam(embedding.parameters(), lr=0.1)
    for rows in ([0, 1], [1], [0]):
        optimizer.zero_grad()
        embedding(facula.tensor(rows)).sum().backward()
        optimizer.step()
    weight = embedding.weight.detach().numpy()
    # Adam on a row by itself, but with the number of steps of the whole: row 0 in steps 1 and 3
    m = v = 0.0
    value = 1.0
    for step in (1, 3):
        m, v = 0.9 * m + 0.1, 0.999 * v + 0.001
        value -= 0.1 * math.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m / (math.sqrt(v) + 1e-8)
    np.testing.assert_allclose(weight[0], value, rtol=1e-5)
    np.testing.assert_array_equal(weight[2:], 1.0)


def test_averaged_models():
    model = nn.Linear(2, 1)
    swa, ema = (
        optim.swa_utils.AveragedModel(model),
        optim.swa_utils.AveragedModel(model, avg_fn=optim.swa_utils.get_ema_avg_fn(0.5)),
    )
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        swa.update_parameters(model)
        ema.update_parameters(model)
    assert swa.module.weight.tolist() == [[3.0, 3.0]] and swa.n_averaged.item() == 3
    assert ema.module.weight.tolist() == [[3.75, 3.75]]


def test_update_bn():
    model = nn.Sequential(nn.BatchNorm1d(2))
    data = [facula.tensor([[0.0, 2.0], [2.0, 6.0]]), facula.tensor([[4.0, 0.0], [6.0, 0.0]])]
    optim.swa_utils.update_bn(data, model)
    np.testing.assert_allclose(model[0].running_mean.tolist(), [3.0, 2.0], rtol=1e-6)
    assert model[0].momentum == 0.1


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
@pytest.mark.parametrize("shape", [(1024, 1024), (1 << 20,)])
def test_adafactor_of_large_low_precision_parameters(dtype, shape):
    p = facula.nn.Parameter(facula.ones(shape, dtype=dtype))
    p.grad = facula.full(shape, 0.5, dtype=dtype)
    optimizer = optim.Adafactor([p], lr=0.1)
    for _ in range(3):
        optimizer.step()
    wide = facula.nn.Parameter(facula.ones(shape))
    wide.grad = facula.full(shape, 0.5)
    reference = optim.Adafactor([wide], lr=0.1, eps=(facula.finfo(dtype).eps, 1e-3))
    for _ in range(3):
        reference.step()
    assert p.isfinite().all() and (p.float() - wide).abs().max().item() < 2e-2


def test_lbfgs_takes_gradients_that_are_conjugated_lazily():
    steps = []
    for lazy in (False, True):
        p = facula.tensor([1 + 2j, -1j]).requires_grad_()
        p.grad = facula.tensor([1j, 2 - 1j]).conj() if lazy else facula.tensor([1j, 2 - 1j]).conj().resolve_conj()
        optim.LBFGS([p], lr=0.5, max_iter=2).step(lambda p=p: p.abs().sum())
        steps.append(p.detach())
    assert facula.equal(*steps)


def test_lbfgs_moves_parameters_that_are_conjugated_lazily():
    target = facula.tensor([1 + 2j, -3 + 0.5j])
    p = facula.zeros(2, dtype=facula.complex64).conj().requires_grad_()
    optimizer = facula.optim.LBFGS([p], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (p - target).abs().square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert facula.allclose(p.resolve_conj(), target, atol=1e-4)


def test_update_bn_that_fails_changes_no_momentum():
    model = nn.Sequential(nn.BatchNorm1d(1, momentum=0.25), nn.Linear(1, 1)).eval()
    with pytest.raises(RuntimeError):
        optim.swa_utils.update_bn([facula.ones(2, 1), facula.ones(2, 3)], model)
    assert model[0].momentum == 0.25 and not model.training


@pytest.mark.parametrize("name", "SGD Adam Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop ASGD".split())
def test_numbers_of_rules_are_named_in_the_order_of_the_core(name):
    """The core reads them by position: the variables in the tuple have the names of the rule's parameters."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(optim, name)._update)))
    tuples = {n.targets[0].id: n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
    (call,) = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "self._run"]
    numbers = call.args[5]
    numbers = tuples[numbers.id] if isinstance(numbers, ast.Name) else numbers
    code = _update_rules.RULES[call.args[0].value].__code__
    assert [n.id for n in numbers.elts] == list(code.co_varnames[3 : code.co_argcount])
