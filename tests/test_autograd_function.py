"""autograd.Function."""

from __future__ import annotations

import numpy as np
import pytest

import facula
from facula.autograd import Function, grad, gradcheck, gradgradcheck
from facula.autograd.function import once_differentiable

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result


class Scaled(Function):
    """Two outputs, one argument that is no tensor, setup_context."""

    @staticmethod
    def forward(x, y, k):
        return x * y * k, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.k = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return a * y * ctx.k + b, a * x * ctx.k + b, None


def test_every_order_of_derivative():
    x = leaf([0.0, 1.0])
    assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)


def test_node_is_the_context():
    y = Exp.apply(leaf([1.0]))
    assert type(y.grad_fn).__name__ == "ExpBackward" and y.grad_fn.saved_tensors[0].item() == y.item()
    assert y.grad_fn.next_functions[0][0].name() == "AccumulateGrad"


def test_missing_gradients_are_zeros():
    x, y = leaf(2.0), leaf(3.0)
    p, q = Scaled.apply(x, y, 2.0)
    assert grad(p + q, [x, y], retain_graph=True)[0].item() == 7.0
    assert grad(q, [x, y])[0].item() == 1.0


def test_unmaterialized_gradients_are_none():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            assert b is None
            return a

    x = leaf([1.0])
    Pair.apply(x)[0].sum().backward()
    assert x.grad.item() == 1.0


def test_needs_input_grad():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True, False)
            x, y = ctx.saved_tensors
            return g * y, None

    x = leaf([2.0])
    Product.apply(x, x.detach()).sum().backward()
    assert x.grad.item() == 2.0


def test_dirty_inputs():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf([1.0, 2.0])
    y = x * 1
    assert Double.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    y = x * 1
    Double.apply(y[:1])
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(x)


def test_non_differentiable_outputs():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            plain = x > 0
            shifted = x + 1
            ctx.mark_non_differentiable(plain, shifted)
            return x * 2, plain, shifted

        @staticmethod
        def backward(ctx, g, *rest):
            return g * 2

    a, b, c = Split.apply(leaf([1.0]))
    assert a.requires_grad and not b.requires_grad and not c.requires_grad


def test_an_input_returned_is_a_new_tensor():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf([1.0])
    y = Identity.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.item() == 5.0


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x, seed = leaf([3.0]), leaf([1.0])
    (g,) = grad(Square.apply(x), x, seed, create_graph=True)
    assert g.item() == 6.0
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_errors():
    class Wrong(Function):
        returned = None

        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return Wrong.returned(g)

    x = leaf([1.0, 2.0])
    for returned, text in [
        (lambda g: g, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, g), "got a gradient at position 2"),
        (lambda g: (g.sum().expand(3), None), "must return gradients of the shapes of the arguments, .* at index 0"),
        (lambda g: ("no", None), "expected a Tensor or None"),
    ]:
        Wrong.returned = staticmethod(returned)
        with pytest.raises((RuntimeError, TypeError), match=text):
            Wrong.apply(x, 2.0).sum().backward()
    with pytest.warns(DeprecationWarning, match="not be instantiated"):
        made = Exp()
    with pytest.raises(RuntimeError, match="not static"):
        made(x)


def test_an_exception_in_backward_comes_back():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        Fails.apply(leaf([1.0])).sum().backward()
    assert caught.traceback[-1].name == "backward"


def test_jvp_of_the_user():
    from facula.autograd import forward_ad as fw

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x * x

        @staticmethod
        def jvp(ctx, t):
            return t * 3 * ctx.x * ctx.x

    with fw.dual_level():
        y = Cube.apply(fw.make_dual(facula.tensor([2.0]), facula.tensor([1.0])))
        assert fw.unpack_dual(y).tangent.tolist() == [12.0]


def test_vmap_rules():
    class Own(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 3
            return Own.apply(x), in_dims[0]

    class Generated(Own):
        generate_vmap_rule = True
        vmap = Function.vmap

    x = facula.tensor([1.0, 2.0, 3.0])
    assert facula.func.vmap(Own.apply)(x).tolist() == [2.0, 4.0, 6.0]
    assert facula.func.vmap(Generated.apply)(x).tolist() == [2.0, 4.0, 6.0]
    np.testing.assert_allclose(
        facula.func.vmap(facula.func.grad(lambda a: Own.apply(a) * a))(x).numpy(), [4.0, 8.0, 12.0]
    )


class ByName(Function):
    @staticmethod
    def forward(ctx, x, y, scale=2.0):
        ctx.scale, ctx.count = scale, len(ctx.needs_input_grad)
        return x * y * scale

    @staticmethod
    def backward(ctx, g):
        return (g, g * ctx.scale, None)[: ctx.count]


class Gap(Function):
    @staticmethod
    def forward(ctx, a, b=1.0, c=2.0):
        return a * b * c


class WithDefaults(Function):
    @staticmethod
    def forward(x, y, scale=2.0):
        return x * y * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.scale = inputs

    @staticmethod
    def backward(ctx, g):
        return g, g * ctx.scale, None


def test_arguments_by_name():
    x, y = leaf([1.0]), leaf([3.0])
    for result, scale in (
        (ByName.apply(x, y=y), 2), (ByName.apply(y=y, x=x), 2), (ByName.apply(x, scale=5.0, y=y), 5),
        (WithDefaults.apply(x, y), 2), (WithDefaults.apply(x, y=y), 2), (WithDefaults.apply(x, scale=5.0, y=y), 5),
    ):  # fmt: skip
        assert result.item() == 3 * scale
        assert [g.item() for g in grad(result, (x, y))] == [1, scale]
    with pytest.raises(TypeError, match="^Gap.apply: .*leave no gap, missing b, got c"):
        Gap.apply(x, c=3.0)
    with pytest.raises(TypeError, match="^ByName.apply: missing a required argument: 'y'"):
        ByName.apply(x, scale=3.0)
    for wrong in ({"z": 1}, {"x": x}):
        with pytest.raises(TypeError, match="^ByName.apply"):
            ByName.apply(x, y, **wrong)


def test_a_context_shows_what_it_keeps():
    node = ByName.apply(leaf([1.0]), leaf([2.0])).grad_fn
    assert vars(node)["scale"] == 2.0 and "scale" in dir(node)


def test_jvp_runs_forward_once():
    from facula.autograd import forward_ad as fw

    class Dropped(Function):
        runs = 0

        @staticmethod
        def forward(ctx, x):
            Dropped.runs += 1
            ctx.mask = facula.rand_like(x) < 0.5
            return x * ctx.mask

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.mask

    class AddsInto(Function):
        @staticmethod
        def forward(ctx, x, y):
            x.add_(y)
            ctx.mark_dirty(x)
            ctx.save_for_forward(y)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def jvp(ctx, tx, ty):
            assert [t.tolist() for t in ctx.saved_tensors] == [[2.0, 2.0]] and ctx.needs_input_grad == (False, False)
            return tx.add_(ty)

    ones = facula.ones(64)
    with fw.dual_level():
        value, tangent = fw.unpack_dual(Dropped.apply(fw.make_dual(ones, ones)))
        assert Dropped.runs == 1 and 0 < value.sum() < 64 and value.equal(tangent)
        x = fw.make_dual(facula.ones(2), facula.ones(2))
        y = fw.make_dual(facula.full((2,), 2.0), facula.full((2,), 3.0))
        result = AddsInto.apply(x, y)
        assert result is x
        value, tangent = fw.unpack_dual(x * 1.0)
        assert value.tolist() == [3.0, 3.0] and tangent.tolist() == [4.0, 4.0]
