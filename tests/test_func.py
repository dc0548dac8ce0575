"""facula.func: transforms against closed forms, loops and each other."""

from __future__ import annotations

import gc
from math import inf

import numpy as np
import pytest

import facula
from facula.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def tensor(values):
    return facula.tensor(values, dtype=facula.float64)


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


X = [[1.0, 2.0, 0.5], [3.0, -4.0, 1.0]]


def test_grad_nests():
    x = tensor(0.7)
    same(grad(facula.sin)(x), x.cos())
    same(grad(grad(facula.sin))(x), -x.sin())
    same(grad(grad(grad(facula.sin)))(x), -x.cos())


def test_results_without_tracked_inputs_carry_no_history():
    assert not grad(lambda x: (x * x).sum())(tensor([1.0, 2.0])).requires_grad


def test_captured_tensors_keep_their_history():
    w = tensor([2.0, 3.0]).requires_grad_()
    gradient = grad(lambda x: (w * x * x).sum())(tensor([1.0, 2.0]))
    gradient.sum().backward()
    same(w.grad, tensor([2.0, 4.0]))


def test_no_perturbation_confusion():
    x = tensor(3.0)
    same(grad(lambda a: a * grad(lambda b: a + b)(tensor(1.0)))(x), tensor(1.0))


def test_argnums_and_aux():
    x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    dx, dy = grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y)
    same(dx, y)
    same(dy, x)
    gradient, (value, aux) = grad_and_value(lambda a: ((a * a).sum(), a + 1), has_aux=True)(x)
    same(gradient, 2 * x)
    same(value, tensor(5.0))
    same(aux, x + 1)


def test_grad_of_a_pytree():
    gradient = grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": tensor([1.0, 2.0]), "b": [tensor(3.0)]})
    same(gradient["w"], tensor([3.0, 3.0]))
    same(gradient["b"][0], tensor(3.0))


def test_grad_wants_a_scalar():
    with pytest.raises(RuntimeError, match="^grad: .*scalar"):
        grad(lambda x: x * 2)(tensor([1.0, 2.0]))


def test_jacobians_agree():
    def f(x):
        return x.sin() * x[0]

    x = tensor([1.0, 2.0, 3.0])
    jacobian = jacrev(f)(x)
    same(jacobian, jacfwd(f)(x))
    same(jacobian, facula.autograd.functional.jacobian(f, x))
    v = tensor([1.0, 0.5, -1.0])
    same(jvp(f, (x,), (v,))[1], jacobian @ v)
    same(vjp(f, x)[1](v)[0], jacobian.T @ v)
    same(linearize(f, x)[1](v), jacobian @ v)


def test_hessian_of_a_cubic():
    x = tensor([1.0, -2.0, 3.0])
    same(hessian(lambda a: (a * a * a).sum())(x), 6 * x * tensor(np.eye(3)))


def test_vmap_of_elementwise_broadcasts_examples():
    x, w = tensor(X), tensor([1.0, 2.0, 3.0])
    same(vmap(lambda r: r * w + 1)(x), x * w + 1)
    same(vmap(lambda s, r: s * r)(tensor([2.0, 3.0]), x), tensor([[2.0], [3.0]]) * x)
    same(vmap(lambda c: c * 2, in_dims=1, out_dims=1)(x), x * 2)


def test_vmap_nests():
    x = tensor(X)
    same(vmap(lambda a: vmap(lambda b: (a * b).sum())(x))(x), x @ x.T)


PER_EXAMPLE = {
    "sum": lambda r: r.sum(),
    "sum dim": lambda r: r.reshape(3, 1).sum(0),
    "matvec": lambda r: tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) @ r,
    "vecmat": lambda r: r @ tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "dot": lambda r: r @ r,
    "outer": lambda r: r.unsqueeze(1) * r,
    "index": lambda r: r[1:],
    "transpose": lambda r: r.reshape(3, 1).transpose(0, 1),
    "unsqueeze": lambda r: r.unsqueeze(-1),
    "expand": lambda r: r.unsqueeze(0).expand(2, 3),
    "stack": lambda r: facula.stack([r, r * 2]),
    "write": lambda r: (r * 1).mul_(2),
    "where": lambda r: facula.where(r > 0, r, r * 2),
    "T": lambda r: r.reshape(3, 1).T,
    "fallback": lambda r: facula.flip(r, (0,)) if hasattr(facula, "flip") else r[facula.tensor([2, 1, 0])],
    "fancy index": lambda r: r[facula.tensor([0, 2])],
}


@pytest.mark.parametrize("name", PER_EXAMPLE)
def test_vmap_is_a_loop(name):
    f, x = PER_EXAMPLE[name], tensor(X)
    same(vmap(f)(x), facula.stack([f(row) for row in x]))


def test_per_example_gradients():
    w, x = tensor([1.0, 2.0, 3.0]), tensor(X)

    def loss(w, r):
        return (w * r).sin().sum()

    same(vmap(grad(loss), in_dims=(None, 0))(w, x), facula.stack([grad(loss)(w, row) for row in x]))
    same(vmap(jacrev(lambda r: r.sin() * r[0]))(x), facula.stack([jacrev(lambda r: r.sin() * r[0])(row) for row in x]))
    same(vmap(jacfwd(lambda r: r.sin() * r[0]))(x), facula.stack([jacrev(lambda r: r.sin() * r[0])(row) for row in x]))
    same(
        vmap(hessian(lambda r: (r.sin() * r[1]).sum()))(x),
        facula.stack([hessian(lambda r: (r.sin() * r[1]).sum())(row) for row in x]),
    )


def test_gradient_through_vmap():
    x = tensor(X)
    same(grad(lambda a: vmap(lambda r: (r * r).sum())(a).sum())(x), 2 * x)


def test_chunks_give_the_same():
    x = tensor(np.arange(10.0).reshape(5, 2))
    same(vmap(lambda r: r * 2, chunk_size=2)(x), x * 2)


def test_vmap_errors():
    with pytest.raises(ValueError, match="^vmap: .*same size"):
        vmap(lambda a, b: a + b)(tensor([1.0]), tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="^vmap: .*item"):
        vmap(lambda a: a.item())(tensor([1.0]))
    with pytest.raises(ValueError, match="^vmap: .*return Tensors"):
        vmap(lambda a: 1.0)(tensor([1.0]))


def test_ensemble_of_modules():
    models = [facula.nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    x = facula.ones(5, 3)

    def call(p, b, x):
        return functional_call(models[0], (p, b), (x,))

    found = vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    expected = facula.stack([m(x) for m in models])
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def rotated(a):
    return a.sin() * a.sum()


def test_products_with_jacobians_of_a_batch_of_directions():
    x, rows = tensor([1.0, 2.0]), tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    eye = facula.eye(2, dtype=facula.float64)
    expected = jacrev(rotated)(x)
    same(vmap(vjp(rotated, x)[1])(eye)[0], expected)
    same(vmap(linearize(rotated, x)[1])(eye).T, expected)
    each = facula.stack([jacrev(rotated)(row) for row in rows])
    same(vmap(lambda a: vmap(vjp(rotated, a)[1])(eye)[0])(rows), each)
    same(vmap(lambda a: vmap(linearize(rotated, a)[1], out_dims=1)(eye))(rows), each)
    same(vmap(lambda a: vmap(lambda t: jvp(rotated, (a,), (t,))[1], out_dims=1)(eye))(rows), each)
    twice = vmap(vmap(vjp(rotated, x)[1]))(facula.stack([eye, 2 * eye]))[0]
    same(twice, facula.stack([expected, 2 * expected]))
    along = vmap(vjp(vmap(rotated), rows)[1])(facula.ones(2, 3, 2, dtype=facula.float64))[0]
    same(along, facula.stack([each.sum(1)] * 2))


def test_strict_jvp_wants_outputs_that_depend():
    x = tensor([1.0, 2.0])
    same(jvp(lambda a: 3 * a, (x,), (x,), strict=True)[1], 3 * x)
    with pytest.raises(RuntimeError, match="^jvp: with strict=True, every output must depend"):
        jvp(lambda a: (a, facula.ones(2)), (x,), (x,), strict=True)


def test_batch_norm_without_running_statistics_runs_inside_vmap():
    from facula import nn
    from facula.func import replace_all_batch_norm_modules_

    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).double()
    x = facula.ones(2, 5, 3, dtype=facula.float64).cumsum(1).sin()
    with pytest.raises(RuntimeError, match="running statistics"):
        vmap(net)(x)
    assert replace_all_batch_norm_modules_(net) is net and net[1].running_mean is None
    same(vmap(net)(x), facula.stack([net(row) for row in x]))
    same(net.eval()(x[0]), net.train()(x[0]))


def test_jacobians_are_of_real_functions():
    z, x = facula.tensor([1 + 1j]), facula.tensor([1.0])
    for name, transform in (("jacrev", jacrev), ("jacfwd", jacfwd), ("jac", hessian)):
        with pytest.raises(RuntimeError, match=f"^{name}.*: all inputs must be real, got .*complex64"):
            transform(lambda a: (a * a.conj()).real.sum())(z)
        with pytest.raises(RuntimeError, match=f"^{name}.*: all outputs must be real, got .*complex64"):
            transform(lambda a: a * 1j)(x)


def test_chunks_draw_the_same_numbers():
    x = facula.arange(10.0).reshape(5, 2)

    def noisy(row):
        return row + facula.randn(2)

    found = []
    for chunk_size in (None, 2, 3):
        facula.manual_seed(0)
        found.append((vmap(noisy, randomness="same", chunk_size=chunk_size)(x), facula.rand(1)))
    for values, following in found[1:]:
        same(values, found[0][0])
        same(following, found[0][1])
    values = vmap(noisy, randomness="different", chunk_size=2)(x) - x
    assert len({tuple(row) for row in values.tolist()}) == 5


def test_out_dims_of_chunks():
    x = facula.arange(6.0).reshape(3, 2)

    def f(row):
        return {"a": row, "b": (row * 2, facula.ones(4))}

    for chunk_size in (None, 2):
        made = vmap(f, out_dims={"a": 0, "b": (1, None)}, chunk_size=chunk_size)(x)
        same(made["a"], x)
        same(made["b"][0], (x * 2).T)
        same(made["b"][1], facula.ones(4))
        made = vmap(f, out_dims=-1, chunk_size=chunk_size)(x)
        assert made["b"][1].shape == (4, 3)
        with pytest.raises(ValueError, match=r"^vmap: with out_dim None `f` must return"):
            vmap(f, out_dims=None, chunk_size=chunk_size)(x)
        with pytest.raises(ValueError, match="^vmap: out_dims must be nested"):
            vmap(f, out_dims={"a": 0}, chunk_size=chunk_size)(x)


def test_pullbacks_take_what_gradients_take():
    x = facula.ones(2)
    y, pull = facula.func.vjp(lambda x: (x**2).sum(), x)
    assert pull(facula.ones(()), True, False)[0].tolist() == pull(facula.ones(()), create_graph=True)[0].tolist() == [2, 2]
    with pytest.raises(TypeError):
        pull(facula.ones(()), unknown=True)


@pytest.mark.parametrize("transform", [grad, jacrev, lambda f: lambda x: vjp(f, x)[1](facula.ones(()))[0]], ids=["grad", "jacrev", "vjp"])
@pytest.mark.parametrize("product", [lambda t: t.prod(), lambda t: t.prod(0, keepdim=True).prod()], ids=["whole", "dim"])
class TestProducts:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]), ([2.0, 0.0, 4.0], [0.0, 8.0, 0.0]), ([2.0, inf, 4.0], [inf, 8.0, inf]), ([1e30, 1e30, 1e-30], [1.0, 1.0, inf]), ([5.0], [1.0])],
        ids=str,
    )  # fmt: skip
    def test_gradients_of_products_do_not_divide(self, transform, product, values, expected):
        facula.testing.assert_close(transform(product)(facula.tensor(values)).flatten(), facula.tensor(expected))

    @pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0]], ids=str)
    def test_gradients_of_products_keep_nothing_of_their_argument(self, transform, product, values):
        leaf = facula.tensor(values, requires_grad=True)
        x = leaf * 1
        gradient = transform(product)(x).flatten()
        with facula.no_grad():
            x.mul_(7)
        gradient.backward(facula.tensor([1.0, 10.0, 100.0]))
        a, b, c = values
        assert leaf.grad.tolist() == [10 * c + 100 * b, c + 100 * a, b + 10 * a]

    def test_derivatives_of_gradients_of_products(self, transform, product):
        second = grad(lambda x: transform(product)(x).flatten()[0])
        assert second(facula.tensor([2.0, 3.0, 5.0])).tolist() == [0, 5, 3]
        rows = facula.tensor([[2.0, 3.0, 5.0], [0.0, 1.0, 4.0]])
        assert vmap(lambda x: transform(product)(x).flatten())(rows).tolist() == [[15, 10, 6], [4, 0, 0]]


@pytest.mark.parametrize("level", ["jvp", "linearize", "dual_level"])
def test_gradients_of_tangents_add_up_without_the_graphs_of_steps_before(level):
    ad = facula.autograd.forward_ad
    w, total = facula.randn(64, 64, requires_grad=True), facula.zeros(64, 64)

    def tangent(x, v):
        def f(t):
            return facula.tanh(t @ w)

        if level == "jvp":
            return facula.func.jvp(f, (x,), (v,))[1]
        if level == "linearize":
            return facula.func.linearize(f, x)[1](v)
        with ad.dual_level():
            return ad.unpack_dual(f(ad.make_dual(x, v))).tangent

    def step():
        loss = tangent(facula.randn(64, 64), facula.randn(64, 64)).square().sum()
        total.add_(facula.autograd.grad(loss, w, retain_graph=True)[0])  # what a program adds up itself
        loss.backward()

    held = []
    for _ in range(6):
        step()
        gc.collect()
        held.append(facula.cpu.memory_allocated())
    assert held[-1] == held[2] and not total.requires_grad


def test_duals_are_recorded_within_levels_and_switches():
    ad = facula.autograd.forward_ad
    enabled = facula._C._is_fwd_grad_enabled
    with ad._set_fwd_grad_enabled(False):
        assert not ad._is_fwd_grad_enabled()
        with ad.dual_level():
            assert not enabled()
    assert ad._is_fwd_grad_enabled()
    with ad.dual_level():
        assert enabled()
        facula.func.jvp(facula.sin, (facula.ones(2),), (facula.ones(2),))
        assert enabled()
    assert ad._is_fwd_grad_enabled()
