"""Reverse mode: accumulation, hooks, the graph as Python sees it, errors, memory."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import facula
from facula import autograd

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values, dtype=facula.float64):
    return facula.tensor(values, dtype=dtype, requires_grad=True)


def test_gradients_accumulate():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first and x.grad.tolist() == [4.0, 8.0]


def test_gradients_accumulate_after_one_with_a_graph():
    x = leaf([1.0, 2.0, 3.0])
    x.sum().backward(create_graph=True)
    assert x.grad.stride() == (1,)  # not the expanded one that sum() hands on
    x.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    image = facula.ones(2, 3, 4, 5).to(memory_format=facula.channels_last).requires_grad_()
    (image * image).sum().backward(create_graph=True)
    assert image.grad.stride() == image.stride()
    (again,) = autograd.grad(image.grad.sum(), image)
    assert again.eq(2).all()
    image.grad = None  # its history leads to the leaf: a cycle, as in PyTorch


class Watched(autograd.Function):
    """x * w, which notes what a pass asks of it and makes no more than that."""

    seen = []

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        assert ctx.needs_input_grad == (x.requires_grad, w.requires_grad)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        needs = ctx.needs_input_grad
        Watched.seen.append(needs)
        return grad * w if needs[0] else None, grad * x if needs[1] else None


def test_a_pass_makes_what_is_asked():
    x, w, v = leaf([2.0]), leaf([3.0]), leaf([5.0])

    def seen(run):
        Watched.seen.clear()
        run(Watched.apply(Watched.apply(x, w), v))
        return Watched.seen

    assert seen(lambda y: y.backward()) == [(True, True), (True, True)]
    assert seen(lambda y: autograd.grad(y, x)) == [(True, False), (True, False)]
    assert seen(lambda y: autograd.grad(y, w)) == [(True, False), (False, True)]
    assert seen(lambda y: autograd.grad(y, v)) == [(False, True)]
    assert seen(lambda y: y.backward(inputs=[x, v])) == [(True, True), (True, False)]
    assert seen(lambda y: autograd.grad(autograd.grad(y, x, create_graph=True)[0], w)) == [(True, False)] * 2


def test_a_pass_inside_a_node_asks_for_itself():
    x, w = leaf([2.0]), leaf([3.0])
    y = Watched.apply(x, w)
    Watched.seen.clear()
    handle = (z := y * 1.0).grad_fn.register_prehook(lambda grads: autograd.grad(y, w, retain_graph=True) and None)
    assert autograd.grad(z, x)[0].tolist() == [3.0]
    assert Watched.seen == [(False, True), (True, False)]
    handle.remove()

    class Again(autograd.Function):  # a node that runs itself for another input
        depth = 0

        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            before = ctx.needs_input_grad
            if Again.depth == 0:
                Again.depth = 1
                assert autograd.grad(Again.made, w, retain_graph=True)[0].tolist() == [2.0]
            assert ctx.needs_input_grad == before == ((True, False) if before[0] else (False, True))
            return grad * w, grad * x

    Again.made = Again.apply(x, w)
    assert autograd.grad(Again.made, x)[0].tolist() == [3.0]
    del Again.made


def test_outputs_beyond_sixteen_bits():
    class Many(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            outputs = tuple(x * i for i in range(70_000))
            ctx.save_for_backward(outputs[66_000])
            return outputs

        @staticmethod
        def backward(ctx, *grads):
            (saved,) = ctx.saved_tensors
            Many.place = saved.output_nr
            return saved

    x = facula.tensor(2.0, requires_grad=True)
    outputs = Many.apply(x)
    assert outputs[66_000].output_nr == 66_000
    autograd.grad(outputs[3], x, create_graph=True)
    assert Many.place == 66_000


def test_higher_derivatives():
    x = leaf([1.0, 2.0])
    (g,) = autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 12.0]
    (g2,) = autograd.grad(g.sum(), x, create_graph=True)
    assert g2.tolist() == [6.0, 12.0]
    (g3,) = autograd.grad(g2.sum(), x)
    assert g3.tolist() == [6.0, 6.0]


def test_broadcasting_is_undone():
    x, y = leaf([[1.0], [2.0]]), leaf([3.0, 4.0, 5.0])
    (x * y).sum().backward()
    assert x.grad.tolist() == [[12.0], [12.0]] and y.grad.tolist() == [3.0, 3.0, 3.0]


def test_gradients_have_the_dtype_of_the_input():
    x, y = leaf([1.0], facula.float32), leaf([2.0])
    (x * y).sum().backward()
    assert x.grad.dtype == facula.float32 and y.grad.dtype == facula.float64


def test_real_inputs_of_complex_ops_get_real_gradients():
    x = leaf([1.0, 2.0])
    z = facula.tensor([1 + 2j, 3 - 1j], dtype=facula.complex128)
    (x * z).abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.abs([1 + 2j, 3 - 1j]))


def test_grad_selects_inputs():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    assert autograd.grad(z, [x, y], retain_graph=True) == (
        facula.tensor(3.0, dtype=facula.float64),
        facula.tensor(2.0, dtype=facula.float64),
    )
    assert x.grad is None
    assert autograd.grad(x * 2, [x, y], allow_unused=True)[1] is None
    assert autograd.grad(x * 2, [x, y], materialize_grads=True)[1].item() == 0
    with pytest.raises(RuntimeError, match="^grad: every input must take part .* unused input 1"):
        autograd.grad(x * 2, [x, y])


def test_gradient_of_an_intermediate_value():
    x = leaf([1.0, 2.0])
    y = x * 3
    (g,) = autograd.grad((y * y).sum(), y)
    assert g.tolist() == [6.0, 12.0]


def test_batched_gradients():
    x = leaf([1.0, 2.0])
    (rows,) = autograd.grad(
        x * x, x, facula.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=facula.float64), is_grads_batched=True
    )
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_backward_into_chosen_inputs():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    (z * z).backward(inputs=[x, z])
    assert x.grad.item() == 36.0 and z.grad.item() == 12.0 and y.grad is None


def test_gradient_edges_stand_for_tensors():
    x = leaf([1.0, 2.0])
    y = x * 2
    edge = autograd.graph.get_gradient_edge(y)
    (g,) = autograd.grad((y * y).sum(), edge)
    assert g.tolist() == [4.0, 8.0]
    autograd.backward(autograd.graph.get_gradient_edge(x * 3), facula.ones(2, dtype=facula.float64))
    assert x.grad.tolist() == [3.0, 3.0]


# The graph


def test_nodes():
    x = leaf([1.0])
    y = x * 2
    node = y.grad_fn
    assert node.name() == "MulBackward0" and type(node).__name__ == "MulBackward0" and node is y.grad_fn
    assert isinstance(node, autograd.graph.Node) and weakref.ref(node)() is node and hash(node)
    (accumulate, slot), (none, _) = node.next_functions
    assert accumulate.name() == "AccumulateGrad" and accumulate.variable is x and slot == 0 and none is None
    node.metadata["k"] = 1
    del node
    assert y.grad_fn.metadata["k"] == 1


def test_detach_shares_memory_and_version():
    x = leaf([1.0, 2.0])
    y = (x * 1).detach()
    assert not y.requires_grad and y.is_leaf
    base = x * 1
    shown = base.detach()
    shown.add_(1)
    assert base._version == shown._version == 1


def test_data_counts_its_writes_apart():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.data.mul_(3)
    data = y.data
    data[0] = 5.0
    assert y._version == 0 and data._version == 1 and y[0].item() == 5.0
    assert data.untyped_storage() == y.untyped_storage() and data.data_ptr() == y.data_ptr()
    y.sum().backward()  # unnoticed, as in PyTorch
    np.testing.assert_allclose(x.grad.numpy(), [5.0, 3 * np.exp(2.0)])
    w, d = leaf([1.0, 2.0]), facula.ones(2, dtype=facula.float64).data
    z = w * d
    d.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    w.data = w.data + 1
    w.data = w.data
    assert w.tolist() == [2.0, 3.0] and w.is_leaf


def test_long_chains():
    x = leaf([1.0])
    y = x * 1
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    (g,) = autograd.grad((x * 1).sum(), x)
    assert x.grad.item() == g.item() == 1.0
    del y


def test_a_wide_fan_counts_every_edge():
    x = leaf([1.0])
    total = sum(x * float(i) for i in range(500))
    total.sum().backward()
    assert x.grad.item() == sum(range(500))


def test_graphs_are_released():
    x = leaf([1.0])
    y = x * 2
    z = y * 3
    reference = weakref.ref(y)
    del y
    z.sum().backward()
    del z
    gc.collect()
    assert reference() is None


def test_saved_values_go_as_soon_as_a_node_ran():
    class Probe(autograd.Function):
        alive = None

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            Probe.alive = Probe.reference() is not None
            return g

    x = leaf([1.0, 2.0])
    y = Probe.apply(x)
    z = y.exp()
    Probe.reference = weakref.ref(z)
    out = z.sin().sum()
    del z
    out.backward()
    assert Probe.alive is False


# Modes


def test_modes():
    x = leaf([1.0])
    with facula.no_grad():
        assert not (x * 2).requires_grad
        with facula.enable_grad():
            assert (x * 2).requires_grad
    with facula.set_grad_enabled(False):
        assert not facula.is_grad_enabled()

    @facula.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad


def test_inference_mode():
    x = leaf([1.0])
    with facula.inference_mode():
        y = x * 2
        y.add_(1)
    assert y.is_inference() and not y.requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        x * y
    with pytest.raises(RuntimeError, match="outside of inference mode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="inference mode"):
        y.requires_grad_()
    assert (x + y.clone()).requires_grad


def test_checkpoint():
    from facula.utils.checkpoint import checkpoint, checkpoint_sequential

    def f(x):
        return (x.exp() * x).sin()

    x = leaf([0.1, 0.2])
    (expected,) = autograd.grad(f(x).sum(), x)
    for reentrant in (True, False):
        (y,) = autograd.grad(f(x).sum(), x)
        x.grad = None
        checkpoint(f, x, use_reentrant=reentrant).sum().backward()
        assert x.grad.tolist() == expected.tolist()
    x.grad = None
    checkpoint_sequential([f, f, f], 2, x, use_reentrant=False).sum().backward()
    (expected,) = autograd.grad(f(f(f(x))).sum(), x)
    assert x.grad.tolist() == expected.tolist()


# Errors


def test_errors_of_backward():
    x = leaf([1.0, 2.0])
    with pytest.raises(
        RuntimeError, match=r"^backward: only a scalar output.*got shape \(2,\)"
    ):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="^backward: .*does not require grad"):
        x.detach().sum().backward()
    with pytest.raises(RuntimeError, match="^backward: Mismatch in shape"):
        (x * 2).backward(facula.ones(3, dtype=facula.float64))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="^backward: an earlier pass freed"):
        y.backward()
    with pytest.raises(RuntimeError, match="^requires_grad_: .*floating"):
        facula.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^add_: a leaf that requires grad"):
        x.add_(1)


def test_a_modified_value_is_reported_with_both_ops():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert (
        text.startswith("backward of exp")
        and "add_ wrote" in text
        and "(2,)" in text
        and "version 0 when saved, now 1" in text
        and "dtype float64" in text
        and "ExpBackward0" in text
        and "Remedy: write y = op(y)" in text
    )


def test_anomaly_mode_shows_lines():
    x = leaf([0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autograd.detect_anomaly():
            y = x.exp()
            y.add_(1)
            with pytest.raises(RuntimeError) as caught:
                y.sum().backward()
            assert "y = x.exp()" in str(caught.value) and "y.add_(1)" in str(caught.value)
            with pytest.raises(RuntimeError, match="nan"):
                (x.sqrt() * 0).sum().backward()
    assert not facula.is_anomaly_enabled()


def test_forward_mode():
    from facula.autograd import forward_ad as fw

    with fw.dual_level():
        x = fw.make_dual(facula.tensor([1.0, 2.0]), facula.tensor([1.0, 0.5]))
        y = x * x
        assert not y.requires_grad
        value, tangent = fw.unpack_dual(y)
        assert value.tolist() == [1.0, 4.0] and tangent.tolist() == [2.0, 2.0]
        with facula.no_grad():
            assert fw.unpack_dual(x * 3).tangent.tolist() == [3.0, 1.5]
        assert fw.unpack_dual(facula.ones(2)).tangent is None
    with pytest.raises(RuntimeError, match="level"):
        fw.make_dual(facula.ones(2), facula.ones(2))


def test_functional():
    from facula.autograd import functional as F

    x = facula.tensor([1.0, 2.0], dtype=facula.float64)
    v = facula.tensor([1.0, -1.0], dtype=facula.float64)
    assert F.jacobian(lambda a: a * a, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert F.jacobian(lambda a: a * a, x, strategy="forward-mode").tolist() == [[2.0, 0.0], [0.0, 4.0]]
    for strategy in ("reverse-mode", "forward-mode"):
        assert F.jacobian(lambda a: a * a, x, vectorize=True, strategy=strategy).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        options = {"vectorize": True, "outer_jacobian_strategy": strategy}
        assert F.hessian(lambda a: (a * a * a).sum(), x, **options).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert F.hessian(lambda a: (a * a * a).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert F.vjp(lambda a: a * a, x, v)[1].tolist() == F.jvp(lambda a: a * a, x, v)[1].tolist() == [2.0, -4.0]
    assert (
        F.vhp(lambda a: (a * a * a).sum(), x, v)[1].tolist()
        == F.hvp(lambda a: (a * a * a).sum(), x, v)[1].tolist()
        == [6.0, -12.0]
    )


def test_gradients_of_a_linear_layer_come_as_its_addmm_gives_them():
    """The bias is the first operand of addmm, and the weight lies behind a transpose: hooks are called in that order."""
    layers = facula.nn.Sequential(facula.nn.Linear(3, 4), facula.nn.ReLU(), facula.nn.Linear(4, 2))
    seen = []
    for name, parameter in layers.named_parameters():
        parameter.register_hook(lambda grad, name=name: seen.append(name))
    for shape in ((5, 3), (2, 5, 3), (3,)):
        seen.clear()
        layers(facula.ones(shape)).sum().backward()
        assert seen == ["2.bias", "2.weight", "0.bias", "0.weight"]
    x = facula.ones(2, 3, requires_grad=True)
    node = layers[0](x).grad_fn
    assert [getattr(edge, "variable", None) is layers[0].bias for edge, _ in node.next_functions] == [True, False, False]
