"""Rules of autograd that programs meet at its edges: modes around generators, nodes as functions, several views, attributes."""

from __future__ import annotations

import numpy as np
import pytest

import facula
from facula.autograd import Function
from facula.nn import functional as F


def leaf(*values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


# modes


def generator_of(mode, seen):
    @mode
    def generator():
        for i in range(3):
            try:
                seen.append(facula.is_grad_enabled())
                yield i
            except KeyError:
                seen.append(("caught", facula.is_grad_enabled()))
            except GeneratorExit:
                seen.append(("closed", facula.is_grad_enabled()))
                raise

    return generator()


@pytest.mark.parametrize("on", [False, True])
def test_a_generator_runs_in_its_mode_however_it_is_resumed(on):
    seen = []
    with facula.set_grad_enabled(not on):
        generator = generator_of(facula.set_grad_enabled(on), seen)
        next(generator)
        assert generator.throw(KeyError()) == 1
        generator.close()
        assert facula.is_grad_enabled() is not on
    assert seen == [on, ("caught", on), on, ("closed", on)]


def test_a_class_is_decorated_with_a_warning():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @facula.no_grad()
        class Made:
            def __init__(self):
                self.enabled = facula.is_grad_enabled()

    assert Made().enabled is False


def test_switches_that_are_only_kept():
    assert facula.autograd.is_multithreading_enabled()
    with facula.autograd.set_multithreading_enabled(False):
        assert not facula.autograd.is_multithreading_enabled()
    facula.autograd.set_multithreading_enabled(False)
    assert not facula.autograd.is_multithreading_enabled()
    facula.autograd.set_multithreading_enabled(True)


# nodes


def test_a_node_is_a_function_of_gradients():
    x = leaf(1, 2)
    y = x**2
    assert y.grad_fn(facula.ones(2, dtype=facula.float64)).tolist() == [2, 4]
    assert (x * 1).sum().grad_fn(facula.tensor(1.0, dtype=facula.float64)).tolist() == [1, 1]
    for given, error in [((), TypeError), ((1,), TypeError), ((facula.ones(3),), RuntimeError), ((y, y), TypeError)]:
        with pytest.raises(error, match="got"):
            y.grad_fn(*given)


def test_saved_variables_is_an_old_name():
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with pytest.warns(DeprecationWarning, match="saved_tensors"):
                (x,) = ctx.saved_variables
            return g * x

    x = leaf(3)
    Keeps.apply(x).sum().backward()
    assert x.grad.tolist() == [3]


# several views

SEVERAL = [
    lambda x: x.unbind(), lambda x: x.split(2), lambda x: x.split([1, 3]), lambda x: x.chunk(2), lambda x: x.chunk(1),
    list, lambda x: [x.unbind()[0][:1]],
]  # fmt: skip


@pytest.mark.parametrize("views", SEVERAL)
def test_one_of_several_views_is_not_written_where_gradients_are_recorded(views):
    x = facula.ones(4, 2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="returns multiple views"):
        views(x)[0].mul_(2)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        views(facula.ones(4, 2))[0].mul_(facula.ones(1, requires_grad=True))
    with facula.no_grad():
        views(x)[0].mul_(2)
    views(x)[0].detach().mul_(2)
    views(facula.ones(4, 2))[0].mul_(2)
    assert views(x)[0].flatten()[0].item() == 4


def test_other_parts_are_written():
    for views in (lambda x: x.tensor_split(2), lambda x: x.unsafe_chunk(2), lambda x: x.unsafe_split(2), lambda x: x.hsplit(2)):
        x = leaf(*range(4)).reshape(4, 1).expand(4, 2) * 1
        views(x)[0].mul_(2)
        assert x.grad_fn is not None


# attributes


def test_attributes_that_are_not_deleted():
    x = leaf(1, 2)
    for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks", "real", "imag"):
        with pytest.raises(RuntimeError):
            delattr(x, name)
    with pytest.raises(RuntimeError, match="floating-point or complex"):
        x.data = facula.ones(2, dtype=facula.int64)
    with pytest.raises(TypeError):
        x.data = None


def test_numpy_within_no_grad():
    x = facula.nn.Parameter(facula.ones(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with facula.no_grad():
        array = x.numpy()
        array[0] = 5
    assert x.tolist() == [5, 1] and np.asarray(x.detach()).tolist() == [5, 1]


def test_a_place_by_device_takes_no_flag_alone():
    with pytest.raises(TypeError, match="at position 1"):
        facula.ones(2).to("cpu", True)
    layer = facula.nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="copy"):
        layer.to("cpu", copy=True)
    assert layer.to("cpu", facula.float64, True).weight.dtype == facula.float64


# gradients


def test_backward_with_a_graph_warns_of_the_cycle():
    before = facula.is_warn_always_enabled()
    facula.set_warn_always(True)
    try:
        x = leaf(1)
        with pytest.warns(UserWarning, match="create_graph=True"):
            (x * x).sum().backward(create_graph=True)
    finally:
        facula.set_warn_always(before)
        x.grad = None


def test_zeros_for_what_was_not_used_can_be_derived_again():
    x, a = leaf(0.5), leaf(1.0)
    (first,) = facula.autograd.grad((x * a).sum(), x, create_graph=True)
    (zeros,) = facula.autograd.grad(first.sum(), x, create_graph=True, materialize_grads=True)
    assert zeros.requires_grad and zeros.tolist() == [0]
    (plain,) = facula.autograd.grad(first.sum(), x, materialize_grads=True)
    assert not plain.requires_grad
    with pytest.raises(RuntimeError, match="GradientEdge"):
        edge = facula.autograd.graph.get_gradient_edge(leaf(1.0))
        facula.autograd.grad((x * a).sum(), (x, edge), materialize_grads=True)


def test_strict_products_that_do_not_depend_on_the_inputs():
    from facula.autograd import functional as F

    x = leaf(1, 2)
    for function in (F.vjp, F.jvp):
        with pytest.raises(RuntimeError, match="strict"):
            function(lambda a: a.clone(), x, facula.ones(2, dtype=facula.float64), create_graph=True, strict=True)
    with pytest.raises(RuntimeError, match="strict"):
        F.jacobian(lambda a: a.clone(), x, create_graph=True, strict=True)
    with pytest.raises(TypeError, match="a tuple of tensors"):
        F.hessian(lambda a: (a.sum(), "no tensor"), x)
    with pytest.raises(RuntimeError, match="single Tensor"):
        F.hessian(lambda a: (a.sum(), a.sum()), x)


def test_an_affine_grid_is_walked_twice():
    theta = facula.rand(2, 2, 3, dtype=facula.float64, requires_grad=True)
    grid = facula.nn.functional.affine_grid(theta, (2, 1, 3, 4), align_corners=False)
    grid.sum().backward()
    once = theta.grad.clone()
    grid.sum().backward()
    assert facula.equal(theta.grad, 2 * once)
    make = lambda t: facula.nn.functional.affine_grid(t, (2, 1, 3, 4), align_corners=False)  # noqa: E731
    assert facula.autograd.gradcheck(make, theta, check_forward_ad=True, check_batched_grad=True)


# transforms


def test_transforms_give_what_the_mode_around_them_records():
    def outer(x):
        with facula.no_grad():
            _, value = facula.func.grad_and_value(lambda x: x**3)(x)
        return x**3 - value

    x = facula.tensor(1.6, dtype=facula.float64)
    assert facula.func.grad(outer)(x).item() == pytest.approx(3 * 1.6**2)
    y = facula.tensor(2.0, requires_grad=True)
    with facula.no_grad():
        out, pull = facula.func.vjp(facula.sin, y)
    assert not out.requires_grad and pull(facula.tensor(1.0))[0].requires_grad


def test_arguments_of_transforms():
    func = facula.func
    x = facula.ones(2)
    for argnums, text in [([0], "int or a tuple"), (("0",), "int or a tuple"), ((), "non-empty"), ((0, 0), "unique"), ((0, -2), "unique")]:
        for transform in (func.grad, func.jacrev, func.jacfwd):
            with pytest.raises(RuntimeError, match=text):
                transform(facula.mul, argnums=argnums)(x, x)
    with pytest.raises(RuntimeError, match="aux must hold tensors, got str"):
        func.grad(lambda x: (x.sum(), "aux"), has_aux=True)(x)
    for transform in (func.jacrev, func.jacfwd):
        with pytest.raises(RuntimeError, match="at least one"):
            transform(lambda x: ())(x)
    with pytest.raises(ValueError, match="chunk_size"):
        func.jacrev(facula.sin, chunk_size=0)


class Rule(Function):
    returned = None

    @staticmethod
    def forward(x):
        return x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return Rule.returned(x, in_dims)


@pytest.mark.parametrize("returned, text", [
    (lambda x, d: x, "two returns"), (lambda x, d: (x, d, 0), "two returns"), (lambda x, d: (x, (None,)), "incompatible"),
    (lambda x, d: ((x, x), (0, 0, 0)), "incompatible"),
])  # fmt: skip
def test_what_a_rule_for_vmap_returns(returned, text):
    Rule.returned = staticmethod(returned)
    with pytest.raises(RuntimeError, match=text):
        facula.vmap(Rule.apply)(facula.ones(2, 3))
    Rule.returned = staticmethod(lambda x, in_dims: (x, in_dims[0]))
    assert facula.vmap(Rule.apply)(facula.ones(2, 3)).shape == (2, 3)


def test_batch_dimensions_are_numbers_and_tuples():
    x = facula.ones(2, 3)
    for in_dims in ([0, 0], {0}, "0", 0.5, (0, "0"), (0, [0])):
        with pytest.raises(ValueError, match="in_dim"):
            facula.vmap(facula.mul, in_dims)(x, x)
    assert facula.vmap(facula.mul, (0, None))(x, x[0]).shape == (2, 3)


# ---- gradients that are added where they lie


def shared_weight(x, weight, bias, steps):
    """One layer, several times in a row: its weight gets a part of its gradient from each."""
    for _ in range(steps):
        x = F.linear(x, weight, bias).tanh()
    return x.square().sum()


@pytest.mark.parametrize("dtype", (facula.float32, facula.float64, facula.bfloat16))
@pytest.mark.parametrize("shape", ((1, 6), (5, 6), (2, 3, 6), (6, 6), (0, 6)))
def test_a_weight_used_again_gets_the_sum_of_its_parts(dtype, shape):
    """As with create_graph, where each part is a tensor of its own."""
    facula.manual_seed(0)
    x, weight, bias = (facula.randn(*s, dtype=dtype, requires_grad=True) for s in (shape, (6, 6), (6,)))
    inputs = (x, weight, bias)
    got = facula.autograd.grad(shared_weight(*inputs, 4), inputs)
    expected = facula.autograd.grad(shared_weight(*inputs, 4), inputs, create_graph=True)
    for a, b in zip(got, expected):
        facula.testing.assert_close(a, b.detach(), **({"rtol": 0.05, "atol": 0.05} if dtype is facula.bfloat16 else {}))


def test_parts_are_added_to_the_right_input():
    """A matrix that is input and weight at once, and inputs as large as the weight."""
    a, b = (facula.randn(4, 4, dtype=facula.float64, requires_grad=True) for _ in range(2))

    def value(a, b):
        return (F.linear(a, b) + F.linear(b, a) + F.linear(a, a) + F.linear(b, b, a[0]) + F.linear(F.linear(a, b), a)).sum()

    assert facula.autograd.gradcheck(value, (a, b))


def test_what_hooks_have_seen_is_not_written_to():
    weight, seen = facula.randn(3, 3, requires_grad=True), []
    x = facula.randn(2, 3)
    parts = [F.linear(x, weight) for _ in range(3)]
    for part in parts:
        part.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[2], inputs[2].clone())))
    sum(part.square().sum() for part in parts).backward()
    assert len(seen) == 3 and all(facula.equal(kept, copy) for kept, copy in seen)


def test_a_pass_again_gives_the_same_sum():
    weight = facula.randn(5, 5, requires_grad=True)
    loss = shared_weight(facula.randn(3, 5), weight, None, 3)
    once = facula.autograd.grad(loss, weight, retain_graph=True)[0]
    loss.backward(retain_graph=True)
    loss.backward()
    facula.testing.assert_close(weight.grad, 2 * once)


def test_the_name_of_a_power_depends_on_the_power_only():
    """A node with one edge lies where others, which had two, lay before: nothing may be read from there."""
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for _ in range(20):
        held = [op() for op in (lambda: x * y, lambda: x / y, lambda: facula.lerp(x, y, x), lambda: facula.where(x > 0, x, y)) for _ in range(4)]
        held.clear()
        powers = [(x * 1) ** 0.5 for _ in range(20)]
        assert {type(power.grad_fn).__name__ for power in powers} == {"PowBackward0"}
    assert type((x**y).grad_fn).__name__ == "PowBackward1"
