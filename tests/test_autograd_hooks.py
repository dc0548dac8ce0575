"""Hooks of tensors, leaves, nodes and saved values, and calls at the end of a pass."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import facula
from facula import autograd

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values, dtype=facula.float64):
    return facula.tensor(values, dtype=dtype, requires_grad=True)


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
    with pytest.raises(RuntimeError, match="expected a leaf, got a result of MulBackward0"):
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


def test_a_leaf_hook_survives_the_graphs():
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append(g.item()))
    for factor in (2.0, 3.0):
        (x * factor).sum().backward()
    assert seen == [2.0, 3.0]


@pytest.mark.parametrize("of", [lambda x: x, lambda x: x * 1], ids=["leaf", "result"])
def test_hooks_of_a_view_that_only_its_base_makes_require_a_gradient_are_never_called(of):
    x = facula.ones(3, requires_grad=True)
    base = of(x)
    with facula.no_grad():
        view = base.view(-1)
    assert view.requires_grad and view.is_leaf
    called = []
    handles = [view.register_hook(called.append), view.register_post_accumulate_grad_hook(called.append)]
    (base.sum() + view.sum()).backward()
    assert not called and x.grad.tolist() == [1.0, 1.0, 1.0]
    for handle in handles:
        handle.remove()
    for register in (facula.zeros(1).register_hook, facula.zeros(1).register_post_accumulate_grad_hook):
        with pytest.raises(RuntimeError, match="expected a tensor that requires"):
            register(print)


def _freed(make):
    """Whether what `make` ties to the object that it is given is collected, but not without the collector."""
    tied = type("Tied", (), {})()
    reference = weakref.ref(tied)
    gc.collect()
    gc.disable()
    try:
        make(tied)
        del tied
        assert reference() is not None, "there is a cycle"
    finally:
        gc.enable()
    gc.collect()
    return reference() is None


def _node_in_its_hook(tied):
    node = (leaf([1.0]) * 2).grad_fn
    node.register_hook(lambda *gradients: (node, tied) and None)


def _node_in_its_prehook(tied):
    node = (leaf([1.0]) * 2).grad_fn
    node.register_prehook(lambda *gradients: (node, tied) and None)


def _node_in_its_metadata(tied):
    node = (leaf([1.0]) * 2).grad_fn
    node.metadata["tied"] = (node, tied)


def _tensor_in_the_hook_of_its_node(tied):
    y = leaf([1.0]) * 2
    y.grad_fn.register_hook(lambda *gradients: (y, tied) and None)


def _tensor_in_the_metadata_of_its_node(tied):
    y = leaf([1.0]) * 2
    y.grad_fn.metadata["tied"] = (y, tied)


def _tensor_in_its_context(tied):
    class Twice(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.tied = tied
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    y = Twice.apply(leaf([1.0]))
    y.grad_fn.result = y


def _leaf_in_the_hook_of_its_accumulator(tied):
    x = leaf([1.0])
    accumulator = x.view_as(x).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *gradients: (accumulator, x, tied) and None)


@pytest.mark.parametrize(
    "make",
    [
        _node_in_its_hook, _node_in_its_prehook, _node_in_its_metadata, _tensor_in_the_hook_of_its_node,
        _tensor_in_the_metadata_of_its_node, _tensor_in_its_context, _leaf_in_the_hook_of_its_accumulator,
    ],
)  # fmt: skip
def test_cycles_of_a_node_and_what_its_hooks_hold_are_collected(make):
    assert _freed(make)


@pytest.mark.parametrize("of_tensor", [False, True])
def test_hooks_of_a_node_that_a_graph_needs_outlive_the_collector(of_tensor):
    tied, calls = type("Tied", (), {})(), []
    reference = weakref.ref(tied)

    def scope(tied):
        b = leaf([1.0]).clone()
        node = b.grad_fn
        hook = lambda *gradients: calls.append((node, tied) and 1)
        b.register_hook(hook) if of_tensor else node.register_hook(hook)
        return b.clone()

    out = scope(tied)
    del tied
    out.backward(retain_graph=True)
    gc.collect()
    out.backward(retain_graph=True)
    assert len(calls) == 2 and reference() is not None
    del out
    gc.collect()
    assert reference() is None
