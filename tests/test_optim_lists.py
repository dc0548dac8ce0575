"""Steps of optimizers on lists of parameters, gradients and states, and steps that are recorded."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import facula
from facula import nn, optim

rng = np.random.default_rng(0)


def parameter(array, dtype=facula.float64):
    return nn.Parameter(facula.tensor(array.tolist(), dtype=dtype))


LISTS = {
    "adam": ("exp_avg exp_avg_sq max_exp_avg_sq", {"betas": (0.9, 0.99), "amsgrad": True, "weight_decay": 0.1}),
    "adamw": ("exp_avg exp_avg_sq max_exp_avg_sq", {"betas": (0.9, 0.99), "amsgrad": True, "weight_decay": 0.1}),
    "adagrad": ("sum", {"lr_decay": 0.1}),
    "adadelta": ("square_avg acc_delta", {"rho": 0.8}),
    "adamax": ("exp_avg exp_inf", {"betas": (0.9, 0.99)}),
    "asgd": ("ax mu eta", {"t0": 1.0, "lambd": 0.1}),
    "nadam": ("exp_avg exp_avg_sq mu_product", {"betas": (0.9, 0.99)}),
    "radam": ("exp_avg exp_avg_sq", {"betas": (0.9, 0.9)}),
    "rmsprop": ("square_avg grad_avg momentum_buffer", {"momentum": 0.5, "centered": True}),
    "rprop": ("prev step_size", {}),
}

CLASSES = {
    "adam": "Adam", "adamw": "AdamW", "adagrad": "Adagrad", "adadelta": "Adadelta", "adamax": "Adamax", "asgd": "ASGD",
    "nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop", "sgd": "SGD",
}  # fmt: skip


def functional(name):
    return getattr(importlib.import_module(f"facula.optim.{name}"), name)


def keywords_of(function, group):
    """The options of a group under the names of the function."""
    options = dict(group)
    options["beta1"], options["beta2"] = options.get("betas", (None, None))
    options["etaminus"], options["etaplus"] = options.get("etas", (None, None))
    options["step_size_min"], options["step_size_max"] = options.get("step_sizes", (None, None))
    taken = {"params", "step_sizes"}  # a list of tensors in the function, two numbers in the group
    return {k: v for k, v in options.items() if k in inspect.signature(function).parameters and k not in taken}


@pytest.mark.parametrize("name", LISTS)
def test_function_on_lists_is_the_step_of_the_class(name):
    states, options = LISTS[name]
    params = [parameter(rng.normal(size=(3, 2))) for _ in range(2)]
    optimizer = getattr(optim, CLASSES[name])(params, **options)
    function = functional(name)
    copies, lists, steps = [p.detach().clone() for p in params], None, None
    for _ in range(3):
        for p in params:
            p.grad = facula.tensor(rng.normal(size=(3, 2)))
        if lists is None:  # the state before the first step
            for p in params:
                if not optimizer.state[p]:
                    optimizer._start(optimizer.param_groups[0], p)
            lists = [[optimizer.state[p][s].clone() for p in params] for s in states.split()]
            steps = [optimizer.state[p]["step"].clone() for p in params]
        optimizer.step()
        function(copies, [p.grad for p in params], *lists, steps, **keywords_of(function, optimizer.param_groups[0]))
    for p, copy_ in zip(params, copies):
        np.testing.assert_allclose(copy_.numpy(), p.detach().numpy(), rtol=1e-12)
    for s, values in zip(states.split(), lists):
        for p, value in zip(params, values):
            np.testing.assert_allclose(value.numpy(), optimizer.state[p][s].numpy(), rtol=1e-12)
    assert steps[0].item() == 3


def test_sgd_on_lists():
    p = parameter(np.ones(2))
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5)
    copies, buffers = [p.detach().clone()], [None]
    for _ in range(3):
        p.grad = facula.tensor(rng.normal(size=2))
        optimizer.step()
        options = keywords_of(functional("sgd"), optimizer.param_groups[0])
        functional("sgd")(copies, [p.grad], buffers, **options)
    np.testing.assert_allclose(copies[0].numpy(), p.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(buffers[0].numpy(), optimizer.state[p]["momentum_buffer"].numpy(), rtol=1e-12)


def test_functions_on_lists_take_sparse_gradients():
    grad = facula.sparse_coo_tensor([[1]], facula.ones(1, 1), (3, 1))
    p, buffers, total = facula.ones(3, 1), [None], facula.zeros(3, 1)
    options = {"weight_decay": 0.0, "lr": 0.5, "maximize": False}
    functional("sgd")([p], [grad], buffers, momentum=0.9, dampening=0.0, nesterov=False, has_sparse_grad=True, **options)
    assert p.flatten().tolist() == [1.0, 0.5, 1.0] and buffers[0].is_sparse
    functional("adagrad")([p], [grad], [total], [facula.tensor(0.0)], lr_decay=0.0, eps=0.0, has_sparse_grad=True, **options)
    assert p.flatten().tolist() == [1.0, 0.0, 1.0] and total.flatten().tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(RuntimeError, match="Adadelta does not support sparse gradients, got layout torch.sparse_coo"):
        functional("adadelta")([p], [grad], [p], [p], [facula.tensor(0.0)], rho=0.9, eps=0.1, **options)


def test_functions_on_lists_refuse_numbers_as_steps():
    p = facula.ones(1)
    with pytest.raises(RuntimeError, match="^Adadelta: state_steps .*int"):
        functional("adadelta")([p], [p], [p], [p], [1], lr=0.1, rho=0.9, eps=0.1, weight_decay=0, maximize=False)


def test_found_inf_and_grad_scale():
    options = {"weight_decay": 0, "momentum": 0, "lr": 1.0, "dampening": 0, "nesterov": False, "maximize": False}
    p = [facula.zeros(1)]
    functional("sgd")(p, [facula.ones(1)], [None], found_inf=facula.ones(1), **options)
    assert p[0].item() == 0
    functional("sgd")(p, [facula.ones(1)], [None], grad_scale=facula.tensor(2.0), **options)
    assert p[0].item() == -0.5


@pytest.mark.parametrize("name", CLASSES)
def test_differentiable_step(name):
    options = LISTS[name][1] if name in LISTS else {"momentum": 0.9}
    start, grads = rng.normal(size=(3, 2)), rng.normal(size=(3, 3, 2))

    def train(weight, factor, differentiable):
        p = weight * 1.0 if differentiable else weight
        optimizer = getattr(optim, CLASSES[name])([p], differentiable=differentiable, **options)
        for g in grads:
            p.grad = facula.tensor(g) * factor
            optimizer.step()
        return p

    plain = train(parameter(start), 1.0, False).detach().numpy()
    factor = facula.ones(1, dtype=facula.float64, requires_grad=True)
    recorded = train(parameter(start), factor, True)
    np.testing.assert_allclose(recorded.detach().numpy(), plain, rtol=1e-9)
    (slope,) = facula.autograd.grad(recorded.sum(), factor)

    def total(value):
        return train(parameter(start), facula.tensor([value], dtype=facula.float64), True).sum().item()

    assert slope.item() == pytest.approx((total(1 + 1e-6) - total(1 - 1e-6)) / 2e-6, rel=1e-4, abs=1e-7)
