"""Optimizers against their update rules written in NumPy, and what all optimizers share."""

import copy
import math
import pickle

import numpy as np
import pytest

import facula
from facula import nn, optim

rng = np.random.default_rng(0)
STEPS = 6


def sgd(p, g, s, lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    g = g + weight_decay * p
    if momentum:
        s["b"] = momentum * s["b"] + (1 - dampening) * g if "b" in s else g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def averages(g, s, beta1, beta2):
    s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0) + (1 - beta2) * g * g
    return s["m"], s["v"]


def adam(p, g, s, lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, decoupled=False):
    t = s["t"] = s.get("t", 0) + 1
    p, g = (p * (1 - lr * weight_decay), g) if decoupled else (p, g + weight_decay * p)
    m, v = averages(g, s, *betas)
    if amsgrad:
        v = s["top"] = np.maximum(s.get("top", 0), v)
    return p - lr / (1 - betas[0] ** t) * m / (np.sqrt(v) / math.sqrt(1 - betas[1] ** t) + eps)


def adamax(p, g, s, lr=0.1, betas=(0.9, 0.999), eps=1e-8):
    t = s["t"] = s.get("t", 0) + 1
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["u"] = np.maximum(betas[1] * s.get("u", 0), abs(g) + eps)
    return p - lr / (1 - betas[0] ** t) * s["m"] / s["u"]


def nadam(p, g, s, lr=0.1, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3):
    t = s["t"] = s.get("t", 0) + 1
    mu, following = (betas[0] * (1 - 0.5 * 0.96 ** (k * momentum_decay)) for k in (t, t + 1))
    s["product"] = s.get("product", 1.0) * mu
    m, v = averages(g, s, *betas)
    divisor = np.sqrt(v / (1 - betas[1] ** t)) + eps
    p = p - lr * (1 - mu) / (1 - s["product"]) * g / divisor
    return p - lr * following / (1 - s["product"] * following) * m / divisor


def radam(p, g, s, lr=0.1, betas=(0.9, 0.9), eps=1e-8):
    t = s["t"] = s.get("t", 0) + 1
    m, v = averages(g, s, *betas)
    limit = 2 / (1 - betas[1]) - 1
    length = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
    step = lr * m / (1 - betas[0] ** t)
    if length > 5:
        factor = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        step = step * math.sqrt(factor) * math.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
    return p - step


def adagrad(p, g, s, lr=0.1, lr_decay=0.1, eps=1e-10):
    t = s["t"] = s.get("t", 0) + 1
    s["sum"] = s.get("sum", 0) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["sum"]) + eps)


def adadelta(p, g, s, lr=1.0, rho=0.9, eps=1e-6):
    s["sq"] = rho * s.get("sq", 0) + (1 - rho) * g * g
    delta = np.sqrt(s.get("acc", 0) + eps) / np.sqrt(s["sq"] + eps) * g
    s["acc"] = rho * s.get("acc", 0) + (1 - rho) * delta**2
    return p - lr * delta


def rmsprop(p, g, s, lr=0.1, alpha=0.99, eps=1e-8, momentum=0.0, centered=False):
    s["sq"] = alpha * s.get("sq", 0) + (1 - alpha) * g * g
    s["avg"] = alpha * s.get("avg", 0) + (1 - alpha) * g
    divisor = np.sqrt(s["sq"] - (s["avg"] ** 2 if centered else 0)) + eps
    if not momentum:
        return p - lr * g / divisor
    s["b"] = momentum * s.get("b", 0) + g / divisor
    return p - lr * s["b"]


def rprop(p, g, s, lr=0.1, etas=(0.5, 1.2), bounds=(1e-6, 50)):
    product = g * s.get("prev", 0 * g)
    factor = np.where(product > 0, etas[1], np.where(product < 0, etas[0], 1.0))
    s["size"] = np.clip(s.get("size", lr + 0 * g) * factor, *bounds)
    s["prev"] = np.where(product < 0, 0.0, g)
    return p - np.sign(s["prev"]) * s["size"]


def asgd(p, g, s, lr=0.1, lambd=1e-2, alpha=0.75, t0=2):
    t = s["t"] = s.get("t", 0) + 1
    eta = s.get("eta", lr)
    s["eta"] = lr / (1 + lambd * lr * t) ** alpha
    return p * (1 - lambd * eta) - eta * g


CASES = [
    (optim.SGD, sgd, {}),
    (optim.SGD, sgd, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    (optim.SGD, sgd, {"momentum": 0.9, "nesterov": True}),
    (optim.Adam, adam, {}),
    (optim.Adam, adam, {"weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.9)}),
    (optim.AdamW, lambda *a, **k: adam(*a, decoupled=True, **k), {"weight_decay": 0.1}),
    (optim.Adamax, adamax, {}),
    (optim.NAdam, nadam, {}),
    (optim.RAdam, radam, {"betas": (0.9, 0.9)}),
    (optim.Adagrad, adagrad, {"lr_decay": 0.1}),
    (optim.Adadelta, adadelta, {"lr": 1.0}),
    (optim.RMSprop, rmsprop, {}),
    (optim.RMSprop, rmsprop, {"momentum": 0.9, "centered": True}),
    (optim.Rprop, rprop, {}),
    (optim.ASGD, asgd, {"lambd": 1e-2, "t0": 2}),
]


def parameter(array, dtype=facula.float64):
    return nn.Parameter(facula.tensor(array.tolist(), dtype=dtype))


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_rules(case, maximize):
    cls, rule, options = CASES[case]
    want = [rng.standard_normal((3, 5)), rng.standard_normal(7)]
    params = [parameter(w) for w in want]
    optimizer = cls(params, maximize=maximize, **{"lr": 0.1, **options})
    states = [{}, {}]
    for _ in range(STEPS):
        for k, p in enumerate(params):
            gradient = rng.standard_normal(want[k].shape)
            p.grad = facula.tensor(gradient.tolist(), dtype=facula.float64)
            want[k] = rule(want[k], -gradient if maximize else gradient, states[k], **options)
        optimizer.step()
    for p, w in zip(params, want, strict=True):
        # the numbers that NAdam and ASGD keep between steps are float32
        rtol = 1e-5 if cls in (optim.NAdam, optim.ASGD) else 1e-10
        np.testing.assert_allclose(np.array(p.tolist()), w, rtol=rtol, atol=1e-12)


ALL = [optim.SGD, optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.Adagrad, optim.Adadelta]
ALL += [optim.RMSprop, optim.Rprop, optim.ASGD, optim.Adafactor]


@pytest.mark.parametrize("cls", ALL)
def test_state_dict_continues(cls):
    def run(steps, params, optimizer):
        for k in steps:
            for p in params:
                p.grad = facula.full_like(p, 0.1 * (k + 1)).detach()
            optimizer.step()

    first = [parameter(np.ones((2, 3))), parameter(np.ones(3))]
    options = {"momentum": 0.9} if cls is optim.SGD else {}
    optimizer = cls(first, lr=0.01, **options)
    run(range(3), first, optimizer)
    second = [nn.Parameter(p.detach().clone()) for p in first]
    loaded = cls(second, lr=0.5, **options)
    loaded.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    run(range(3, 5), first, optimizer)
    run(range(3, 5), second, loaded)
    assert loaded.param_groups[0]["lr"] == 0.01
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-6 if cls in (optim.NAdam, optim.ASGD) else 0)
    state = optimizer.state_dict()["state"][0]
    if cls is not optim.SGD:
        assert state["step"].item() == 5.0 and state["step"].shape == () and state["step"].dtype == facula.float32


@pytest.mark.parametrize("dtype", [facula.float32, facula.float16, facula.bfloat16])
def test_dtypes(dtype):
    p = parameter(np.array([1.0, 2.0]), dtype)
    p.grad = facula.ones_like(p).detach()
    optim.SGD([p], lr=0.5).step()
    assert p.dtype == dtype and p.tolist() == [0.5, 1.5]


def test_layouts():
    for data in (facula.zeros(4, 6).transpose(0, 1), facula.zeros(4, 6)[::2], facula.zeros(4, 6)[:, 1:3]):
        p = nn.Parameter(data)
        p.grad = facula.arange(p.numel(), dtype=facula.float32).reshape(p.shape)
        optim.SGD([p], lr=1.0, momentum=0.5).step()
        assert (p + p.grad).abs().max().item() == 0.0


def test_complex_parameters():
    p = nn.Parameter(facula.tensor([1 + 2j]))
    p.grad = facula.tensor([1 - 1j])
    optim.SGD([p], lr=0.5).step()
    assert p.tolist() == [0.5 + 2.5j]


def test_steps_count_as_writes():
    p = parameter(np.ones(2))
    loss = (p * p).sum()
    version = p._version
    loss.backward(retain_graph=True)
    optim.SGD([p], lr=0.1).step()
    assert p._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_groups():
    a, b = parameter(np.ones(1)), parameter(np.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.5)
    a.grad, b.grad = facula.ones_like(a).detach(), facula.ones_like(b).detach()
    optimizer.step()
    assert a.item() == 0.5 and b.item() == 0.0
    optimizer.add_param_group({"params": parameter(np.ones(1)), "momentum": 0.9})
    assert [g["momentum"] for g in optimizer.param_groups] == [0, 0, 0.9]
    with pytest.raises(ValueError, match="in one group only"):
        optimizer.add_param_group({"params": [a]})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([b, b], lr=0.5)
    with pytest.raises(TypeError, match="dict"):
        optimizer.add_param_group([a])


def test_named_parameters():
    model = nn.Linear(2, 2)
    optimizer = optim.Adam(model.named_parameters())
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_bad_arguments():
    p = parameter(np.ones(2))
    for make in (
        lambda: optim.SGD([], lr=0.1),
        lambda: optim.SGD([p], lr=-1.0),
        lambda: optim.SGD([p], nesterov=True),
        lambda: optim.Adam([p], betas=(1.0, 0.9)),
        lambda: optim.Rprop([p], etas=(1.5, 0.5)),
        lambda: optim.SGD([p * 2]),
        lambda: optim.Muon([p]),
    ):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(TypeError, match="SGD: params"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="SGD: parameters must be tensors"):
        optim.SGD([1.0])
    with pytest.raises(RuntimeError, match="^Adam: fused and differentiable"):
        optim.Adam([p], differentiable=True, fused=True)
    with pytest.raises(RuntimeError, match="^SGD: fused and foreach"):
        optim.SGD([p], foreach=True, fused=True)
    with pytest.raises(ValueError, match="^AdamW: betas"):
        optim.AdamW([p], betas=(facula.tensor(0.9), 0.9))
    with pytest.raises(ValueError, match="groups"):
        optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []})


def test_zero_grad():
    p = parameter(np.ones(2))
    optimizer = optim.SGD([p])
    p.grad = facula.ones_like(p).detach()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert p.tolist() == [1.0, 1.0]


def test_hooks():
    p = parameter(np.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    calls = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre")),
        optimizer.register_step_post_hook(lambda o, a, k: calls.append("post")),
        optim.optimizer.register_optimizer_step_pre_hook(lambda o, a, k: calls.append("global pre")),
        optim.optimizer.register_optimizer_step_post_hook(lambda o, a, k: calls.append("global post")),
        optimizer.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, d: calls.append("load")),
    ]
    optimizer.step()
    assert calls == ["global pre", "pre", "post", "global post"]
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert calls[-1] == "load"
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 5


def test_copies():
    p = parameter(np.ones(1))
    optimizer = optim.Adam([p])
    p.grad = facula.ones_like(p).detach()
    optimizer.step()
    copied = copy.deepcopy(optimizer)
    q = copied.param_groups[0]["params"][0]
    assert q is not p and copied.state[q]["step"].item() == 1.0
    assert "Parameter Group 0" in repr(optimizer)


# the same steps on lists


# steps that are recorded


def test_options_that_a_step_on_the_cpu_cannot_have():
    p = parameter(np.ones(1))
    p.grad = facula.ones_like(p).detach()
    with pytest.raises(AssertionError, match="^Adam: capturable"):
        optim.Adam([p], capturable=True).step()
    with pytest.raises(AssertionError, match="^RMSprop: a foreach step"):
        optim.RMSprop([p], foreach=True, differentiable=True).step()
    with pytest.raises(RuntimeError, match="leaf"):
        optim.SGD([p], differentiable=True).step()


def test_swapping_parameters_in():
    p, other = parameter(np.ones(2)), parameter(np.zeros(2))
    optimizer = optim.Adam([p])
    with pytest.raises(RuntimeError, match="^swap_in_optimizer_params_and_state: "):
        with optim.swap_in_optimizer_params_and_state(optimizer, {"a": other}, optimizer.state_dict()):
            pass
    p.grad = facula.ones_like(p).detach()
    optimizer.step()
    before = p.detach().clone()
    saved = copy.deepcopy(optimizer.state_dict())
    with optim.swap_in_optimizer_params_and_state(optimizer, {"a": other}, saved):
        other.grad = facula.ones_like(other).detach()
        optimizer.step()
    assert facula.equal(p.detach(), before) and optimizer.state[p]["step"].item() == 1
    assert (other < 0).all() and saved["state"][0]["step"].item() == 2


def test_lr_as_a_tensor():
    p = parameter(np.ones(1))
    p.grad = facula.ones_like(p).detach()
    optim.SGD([p], lr=facula.tensor(0.5)).step()
    assert p.item() == 0.5


# -- states of other programs ---------------------------------------------------------------------------

COUNTING = {
    "Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adamax": {}, "ASGD": {}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"centered": True, "momentum": 0.9}, "Rprop": {}, "Adafactor": {},
}  # fmt: skip


def stepped(name, steps, options):
    p = parameter(np.linspace(-1, 1, 6).reshape(2, 3))
    optimizer = getattr(optim, name)([p], **options)
    for _ in range(steps):
        p.grad = p.detach() * 0.5 + 0.1
        optimizer.step()
    return p, optimizer


@pytest.mark.parametrize("name", COUNTING)
def test_states_with_numbers_for_counters_are_continued(name):
    """Checkpoints of PyTorch before 1.12 hold `step`, and what else is a 0-d tensor now, as numbers."""
    _, first = stepped(name, 3, COUNTING[name])
    saved = first.state_dict()
    old = {k: v.item() if facula.is_tensor(v) and v.dim() == 0 else v.clone() for k, v in saved["state"][0].items()}
    old["step"] = int(old["step"])
    p, resumed = stepped(name, 0, COUNTING[name])
    with facula.no_grad():
        p.copy_(first.param_groups[0]["params"][0])
    resumed.load_state_dict({"state": {0: old}, "param_groups": saved["param_groups"]})
    assert isinstance(resumed.state[p]["step"], facula.Tensor) and resumed.state[p]["step"].item() == 3
    p.grad = p.detach() * 0.5 + 0.1
    resumed.step()
    expected, _ = stepped(name, 4, COUNTING[name])
    assert facula.equal(p, expected) and resumed.state[p]["step"].item() == 4


def test_every_optimizer_with_a_counter_is_tried_above():
    counting = {
        name
        for name, cls in vars(optim).items()
        if isinstance(cls, type) and issubclass(cls, optim.Optimizer) and cls._counters and name != "SGD"
    }
    assert counting == set(COUNTING)


@pytest.mark.parametrize("dtype", [facula.int64, facula.int32, facula.float64, facula.float16])
def test_adam_counts_in_whatever_tensor_it_finds(dtype):
    p, optimizer = stepped("Adam", 1, {})
    optimizer.state[p]["step"] = optimizer.state[p]["step"].to(dtype)
    p.grad = p.detach() * 0.5 + 0.1
    optimizer.step()
    assert optimizer.state[p]["step"].dtype == dtype and optimizer.state[p]["step"].item() == 2
    assert facula.equal(p, stepped("Adam", 2, {})[0])


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"])
def test_steps_of_plain_tensors_are_one_kernel(name):
    """Ops of their own are for classes that stand in for kernels, `capturable` and `differentiable`."""
    parameters = [facula.ones(3, requires_grad=True), nn.Parameter(facula.ones(2, 2))]
    optimizer = getattr(optim, name)(parameters, lr=0.01)
    for p in parameters:
        p.grad = facula.ones_like(p)
    optimizer.step()
    with facula.profiler.profile() as profile:
        optimizer.step()
    ops = {row.key for row in profile.key_averages() if not row.key.startswith("Optimizer.step")}
    assert ops <= {"aten::add_", "aten::mul_", "aten::fill_"}, "more than counters and rates, which have one element"


def test_hooks_run_once_around_a_step_that_calls_its_base_class():
    calls = []

    class Twice(optim.SGD):
        def step(self, closure=None):
            calls.append("inner")
            return super().step(closure)

    p = parameter(np.ones(1))
    p.grad = facula.ones(1, dtype=p.dtype)
    optimizer = Twice([p], lr=0.5)
    optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre"))
    optimizer.register_step_post_hook(lambda o, a, k: calls.append("post"))
    optimizer.step()
    assert calls == ["pre", "inner", "post"] and p.item() == 0.5
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    optimizer.step()
    assert calls == ["pre", "inner", "post", "pre", "inner", "pre", "inner", "post"]


LATER_OPTIONS = {
    "SGD": {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False},
    "Adam": {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
             "decoupled_weight_decay": False, "fused": None},
    "AdamW": {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
              "decoupled_weight_decay": True, "fused": None},
    "Adagrad": {"foreach": None, "maximize": False, "differentiable": False, "fused": None},
    "Adadelta": {"foreach": None, "maximize": False, "differentiable": False, "capturable": False},
    "NAdam": {"maximize": False, "foreach": None, "capturable": False, "differentiable": False, "decoupled_weight_decay": False},
    "RMSprop": {"momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False, "capturable": False},
    "Adafactor": {"foreach": None},
    "LBFGS": {},
    "Muon": {},
}  # fmt: skip


@pytest.mark.parametrize("name", LATER_OPTIONS)
def test_groups_of_old_checkpoints_get_the_options_that_came_later_and_no_others(name):
    """Values are those that steps had before the option was there, whatever this optimizer was made with."""
    p = facula.nn.Parameter(facula.ones(2, 2))
    optimizer = getattr(optim, name)([p], lr=0.5)
    optimizer.defaults["own"] = 1
    optimizer.__setstate__({"state": {}, "param_groups": [{"params": [p]}]})
    assert optimizer.param_groups == [{"params": [p], **LATER_OPTIONS[name]}]


def test_groups_of_a_class_that_others_wrote_are_loaded_as_they_were_saved():
    class Descent(optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

    first, second = (Descent([facula.ones(2, requires_grad=True)]) for _ in range(2))
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert second.defaults == {"lr": 0.1, "differentiable": False}
