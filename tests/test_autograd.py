"""Reverse mode: accumulation, hooks, the graph as Python sees it, errors, memory."""

from __future__ import annotations

import gc
import os
import signal
import threading
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


def test_views_get_their_history_when_asked():
    w = leaf([2.0, 3.0])
    base = facula.zeros(2, dtype=facula.float64)
    whole, part, number = base.view(2), base[1:], base.view(facula.int64)
    base.add_(w)
    assert whole.requires_grad and part.requires_grad and not number.requires_grad
    assert not whole.is_leaf and type(part.grad_fn).__name__ == "AsStridedBackward0"
    with pytest.raises(RuntimeError):
        part.numpy()
    (part * part).sum().backward()
    assert w.grad.tolist() == [0.0, 6.0]
    part.mul_(5.0)
    whole.sum().backward()
    assert w.grad.tolist() == [1.0, 11.0]
    plain = facula.zeros(2)
    view = plain[0]
    plain.requires_grad_()
    assert not view.requires_grad  # made before, of a tensor that has no history


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
    with pytest.raises(RuntimeError, match="^grad: .*not have been used"):
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


# Hooks


def test_tensor_hooks_run_in_order_and_may_replace():
    x = leaf([1.0])
    y = x * 1
    y.register_hook(lambda g: g * 2)
    handle = y.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert x.grad.item() == 3.0
    handle.remove()
    y.sum().backward()
    assert x.grad.item() == 5.0


def test_calls_at_the_end_of_a_pass():
    queue, seen = facula.autograd.Variable._execution_engine.queue_callback, []
    w, unused = facula.ones(2, requires_grad=True), facula.ones(2, requires_grad=True)

    def hook(p):
        seen.append(facula._C._pass_reaches_leaves([w, unused]))
        queue(lambda: (seen.append("end"), queue(lambda: seen.append("after"))))

    handle = w.register_post_accumulate_grad_hook(hook)
    (w * 2).sum().backward()
    assert seen == [[True, False], "end", "after"]
    seen.clear()
    inner = facula.utils.checkpoint.checkpoint(lambda x: (x * w).sum(), facula.ones(2, requires_grad=True), use_reentrant=True)
    (inner * 1).backward()
    assert seen == [None, "end", "after"]  # the call waits for the outer pass
    with pytest.raises(RuntimeError, match="^queue_callback: only a hook"):
        queue(print)
    with pytest.raises(TypeError, match="^queue_callback: expected a function, got int"):
        queue(1)
    handle.remove()

    def bad(p):
        queue(lambda: seen.append("never"))
        raise ValueError("no")

    handle = w.register_post_accumulate_grad_hook(bad)
    with pytest.raises(ValueError, match="no"):
        (w * 2).sum().backward()
    handle.remove()
    seen.clear()
    (w * 2).sum().backward()
    assert seen == []  # what a failed pass asked for is dropped

    def asks_for_a_failure(p):
        queue(lambda: 1 / 0)

    w.register_post_accumulate_grad_hook(asks_for_a_failure)
    with pytest.raises(ZeroDivisionError):
        (w * 2).sum().backward()


def test_leaf_hooks_and_post_accumulate_hooks():
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: g * 3)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 2).sum().backward()
    assert seen == [6.0]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_retain_grad_sees_what_hooks_made():
    x = leaf([1.0])
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    assert y.retains_grad
    y.sum().backward()
    assert y.grad.item() == 2.0


def test_node_hooks():
    x = leaf([1.0])
    y = x * 2
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g if g is None else g + outputs[0] for g in inputs))
    y.sum().backward()
    assert x.grad.item() == 30.0


def test_multi_grad_hooks():
    x, y, seen = leaf([1.0]), leaf([2.0]), []
    handle = autograd.graph.register_multi_grad_hook((x, y), seen.append)
    (x * y).sum().backward()
    assert [g.item() for g in seen[0]] == [2.0, 1.0]
    (x * 3).sum().backward()
    assert seen[1][0].item() == 3.0 and seen[1][1] is None
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 2


def test_an_exception_in_a_hook_comes_back():
    x = leaf([1.0])
    y = x * 2

    def fails(g):
        raise KeyError("mine")

    y.register_hook(fails)
    with pytest.raises(KeyError, match="mine") as caught:
        y.sum().backward()
    assert caught.traceback[-1].name == "fails"


def test_backward_inside_backward():
    x = leaf([2.0])
    seen = []

    def inner(g):
        with facula.enable_grad():
            z = leaf([3.0])
            (z * z).sum().backward()
            seen.append(z.grad.item())

    y = x * 2
    y.register_hook(inner)
    y.sum().backward()
    assert seen == [6.0] and x.grad.item() == 2.0


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


def test_several_threads_share_a_graph():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    errors = []

    def run():
        try:
            for _ in range(50):
                y.backward(retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and x.grad.tolist() == [400.0, 800.0]


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
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="inference mode"):
        y.requires_grad_()
    assert (x + y.clone()).requires_grad


def test_saved_tensors_hooks():
    x = leaf([1.0, 2.0])
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t.detach().numpy().copy()

    with autograd.graph.saved_tensors_hooks(pack, facula.from_numpy):
        y = (x * x).exp().sum()
    y.backward()
    values = np.array([1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * values * np.exp(values * values))
    assert packed
    with autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with autograd.graph.save_on_cpu():
            pass


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
        RuntimeError, match=r"^backward: grad can be implicitly created only for scalar outputs.*got shape \[2\]"
    ):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="^backward: .*does not require grad"):
        x.detach().sum().backward()
    with pytest.raises(RuntimeError, match="^backward: Mismatch in shape"):
        (x * 2).backward(facula.ones(3, dtype=facula.float64))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="^backward: Trying to backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="floating point"):
        facula.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^add_: a leaf Variable that requires grad"):
        x.add_(1)


def test_threads_that_free_one_graph_get_a_result_or_an_error():
    def run(y, start, failures):
        start.wait()
        try:
            y.backward()
        except RuntimeError as error:
            failures.append(str(error))

    for _ in range(20):
        y = leaf([1.0, 2.0])
        for _ in range(50):
            y = (y * y).sqrt()
        failures, arguments = [], (y.sum(), threading.Barrier(4))
        threads = [threading.Thread(target=run, args=(*arguments, failures)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all("backward through the graph a second time" in text for text in failures)


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
        and "[2]" in text
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


def test_ctrl_c_stops_a_long_backward():
    x = leaf([1.0])
    y = x * 1
    for _ in range(300_000):
        y = y + 1
    y = y.sum()
    timer = threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(100):
            y.backward(retain_graph=True)
    timer.join()
    # the pass that was stopped delivered nothing, those before it were complete
    assert x.grad is None or x.grad.item() < 100


def test_a_leaf_hook_survives_the_graphs():
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append(g.item()))
    for factor in (2.0, 3.0):
        (x * factor).sum().backward()
    assert seen == [2.0, 3.0]


def test_hooks_and_threads_do_not_deadlock():
    x = leaf([1.0])
    y = (x * 2).exp()
    x.register_hook(lambda g: g * 1)

    def run():
        for _ in range(30):
            y.sum().backward(retain_graph=True)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    np.testing.assert_allclose(x.grad.numpy(), 90 * 2 * np.exp([2.0]))


def parts_of(x, kind):
    """Views that together are, or overlap in, a matrix."""
    if kind == "split":
        return x.split(2, dim=1)
    if kind == "unbind":
        return x.unbind(0)
    if kind == "steps":
        return x[::2], x[1::2], x[:, ::-1], x[1]
    return x[:3], x[2:], x.diagonal(), x.diagonal(1), x


@pytest.mark.parametrize("kind", ["split", "unbind", "steps", "overlapping"])
@pytest.mark.parametrize("kept", [False, True])
def test_gradients_of_many_views_of_one_tensor(kind, kept):
    """Views add their parts to one gradient, in place where nobody else sees it."""
    values = np.arange(24.0).reshape(4, 6)
    x = facula.tensor(values, requires_grad=True)
    y = x * 2
    if kept:
        y.retain_grad()
    seen = []
    y.register_hook(lambda grad: seen.append(grad.clone()))
    parts = parts_of(y, kind)
    weights = [facula.full(part.shape, float(i + 1) * 10, dtype=facula.float64) for i, part in enumerate(parts)]
    expected = np.zeros_like(values)
    target = facula.from_numpy(expected)
    for part, weight in zip(parts_of(target, kind), weights):
        part += weight
    loss = sum((part * weight).sum() for part, weight in zip(parts, weights))
    for _ in range(2):
        (grad,) = facula.autograd.grad(loss, x, retain_graph=True)
        np.testing.assert_array_equal(grad.numpy(), 2 * expected)
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * expected)
    assert all((grad.numpy() == expected).all() for grad in seen)
    if kept:
        np.testing.assert_array_equal(y.grad.numpy(), 3 * expected)


def test_gradients_that_somebody_keeps_are_not_written_to_by_views():
    x = facula.ones(4, 3, requires_grad=True)
    y = x * 1
    a, b = y[:2], y[2:]
    shared = facula.full((4, 3), 5.0)
    kept = []
    a.register_hook(kept.append)
    facula.autograd.backward([y, (a * 2).sum(), (b * 3).sum()], [shared, None, None])
    np.testing.assert_array_equal(x.grad.numpy(), [[7.0] * 3] * 2 + [[8.0] * 3] * 2)
    assert (shared == 5).all() and (kept[0] == 2).all()


def test_hooks_of_views_see_their_own_part():
    x = facula.ones(4, requires_grad=True)
    y = x * 1
    a, b = y[:2], y[2:]
    seen = []
    for part in (a, b):
        part.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0].tolist()))
    ((a * 2).sum() + (b * 3).sum()).backward()
    assert sorted(seen) == [[0.0, 0.0, 3.0, 3.0], [2.0, 2.0, 0.0, 0.0]]
    assert x.grad.tolist() == [2, 2, 3, 3]


def test_second_derivatives_through_many_views():
    x = facula.arange(6.0, dtype=facula.float64).requires_grad_()
    parts = (x * x).split(2)
    (grad,) = facula.autograd.grad(sum((i + 1) * (p * p).sum() for i, p in enumerate(parts)), x, create_graph=True)
    (second,) = facula.autograd.grad(grad.sum(), x)
    weights = np.repeat([1.0, 2.0, 3.0], 2)
    np.testing.assert_allclose(grad.detach().numpy(), weights * 4 * np.arange(6.0) ** 3)
    np.testing.assert_allclose(second.numpy(), weights * 12 * np.arange(6.0) ** 2)


@pytest.mark.parametrize("shape", [(4, 96), (2, 3, 96)])
def test_a_gradient_that_is_the_last_view_of_its_memory_becomes_grad_uncopied(shape):
    """The weight's gradient of linear is a product in another shape: its memory must not be copied once more."""
    layer = facula.nn.Linear(96, 64)
    places = []
    layer.weight.register_hook(lambda grad: places.append(grad.data_ptr()))
    layer(facula.randn(shape)).square().sum().backward()
    assert places == [layer.weight.grad.data_ptr()]
    assert not layer.weight.grad._is_view() and layer.weight.grad.is_leaf


def test_a_gradient_that_others_see_is_copied():
    seen = []
    x = facula.ones(6, requires_grad=True)
    y = x.view(2, 3)
    y.register_hook(lambda grad: seen.append(grad))
    (y * 2).sum().backward()
    seen[0].zero_()
    assert x.grad.tolist() == [2.0] * 6
    w = facula.ones(3, requires_grad=True)  # a part of larger memory would keep all of it
    facula.cat((w, facula.ones(1000))).mul(3.0).sum().backward()
    assert w.grad.untyped_storage().nbytes() == 12
