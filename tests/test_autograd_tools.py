"""Around autograd: nodes as Python sees them, garbage collection, selective checkpointing, mutation."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import facula
from facula import autograd
from facula.autograd.graph import allow_mutation_on_saved_tensors
from facula.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


# Nodes


def test_saved_values_are_attributes():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    product = (x * y).grad_fn
    assert product.name() == "MulBackward0" and type(product).__name__ == "MulBackward0"
    assert product._saved_self is x and product._saved_other is y
    assert "_saved_self" in dir(product)
    result = x.exp()
    assert result.grad_fn._saved_result.tolist() == result.tolist()
    total = x.reshape(1, 2).sum(1, keepdim=True)
    assert total.grad_fn._saved_dim == (1,) and total.grad_fn._saved_keepdim is True
    assert total.grad_fn._saved_self_sym_sizes == (1, 2)
    assert (x**0.5).grad_fn._saved_exponent == 0.5 and (x**2.5).grad_fn._saved_exponent == 2.5
    assert facula.cat([x, y]).grad_fn._saved_dim == 0
    assert [fn.name() for fn, slot in product.next_functions] == ["AccumulateGrad", "AccumulateGrad"]
    assert product.next_functions[0][0].variable is x
    product.metadata["note"] = 1
    assert product.metadata == {"note": 1}
    loss = (x * y).sum()
    node = loss.grad_fn.next_functions[0][0]
    loss.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        getattr(node, "_saved_self")  # noqa: B009
    assert not hasattr(node, "_saved_nothing")


# Garbage collection


def collected(make):
    reference = make()
    gc.collect()
    return reference() is None


def test_cycles_through_hooks_are_collected():
    class Marker:
        pass

    def of_a_leaf():
        x, marker = leaf([1.0]), Marker()
        x.register_hook(lambda g: (x, marker) and None)
        return weakref.ref(marker)

    def of_a_result():
        x, marker = leaf([1.0]), Marker()
        y = x * 2
        y.register_hook(lambda g: (y, marker) and None)
        return weakref.ref(marker)

    def after_accumulation():
        x, marker = leaf([1.0]), Marker()
        x.register_post_accumulate_grad_hook(lambda t: (x, marker) and None)
        (x * 2).sum().backward()
        return weakref.ref(marker)

    def of_an_attribute():
        x, marker = leaf([1.0]), Marker()
        x.partner = (x, marker)
        return weakref.ref(marker)

    for make in (of_a_leaf, of_a_result, after_accumulation, of_an_attribute):
        assert collected(make), make.__name__


def test_cycles_through_a_context_are_collected():
    class Marker:
        pass

    class Keeps(autograd.Function):
        @staticmethod
        def forward(ctx, x, marker):
            ctx.marker = marker
            ctx.result = x * 2
            return ctx.result

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    def make():
        marker = Marker()
        y = Keeps.apply(leaf([1.0]), marker)
        assert y.grad_fn.marker is marker
        return weakref.ref(marker)

    assert collected(make)


def test_hooks_of_live_tensors_stay():
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: seen.append(g.item()) and x)
    y = x * 3
    y.register_hook(lambda g: seen.append(g.item()) and y)
    gc.collect()
    y.sum().backward()
    assert seen == [1.0, 3.0]


# Checkpointing


def steps_of(run):
    """What a checkpointed function reached: in forward, and in the computation that backward starts."""
    reached = []

    def block(x):
        for step, op in (("exp", facula.exp), ("sin", facula.sin), ("add", lambda t: t + 1)):
            x = op(x)
            reached.append(step)
        return x

    x = leaf([1.0])
    run(block, x).sum().backward()
    assert x.grad.item() == pytest.approx(np.exp(1.0) * np.cos(np.exp(1.0)))
    return reached[3:]


def test_checkpoint_stops_early():
    from facula.utils.checkpoint import set_checkpoint_early_stop

    def with_option(early_stop):
        return lambda f, x: checkpoint(f, x, use_reentrant=False, early_stop=early_stop)

    assert steps_of(with_option(True)) == ["exp"]  # the sine saves its input first, then nothing more is missing
    assert steps_of(with_option(False)) == ["exp", "sin", "add"]
    for forced, argument, expected in ((False, True, 3), (True, False, 1)):
        with set_checkpoint_early_stop(forced):
            assert len(steps_of(with_option(argument))) == expected

    def forced_in_backward_only(f, x):
        made = checkpoint(f, x, use_reentrant=False)
        made.register_hook(lambda g: set_checkpoint_early_stop(False).__enter__() and None)
        return made

    from facula.utils import checkpoint as module

    module_state = module._early_stop
    try:
        assert steps_of(forced_in_backward_only) == ["exp"]
    finally:
        module._early_stop = module_state


def test_checkpoint_tells_what_differed():
    from facula.utils.checkpoint import CheckpointError, set_checkpoint_debug_enabled

    calls = []

    def changing(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.exp()

    def error_of(**options):
        calls.clear()
        made = checkpoint(changing, leaf([1.0]), use_reentrant=False, **options)
        with pytest.raises(CheckpointError) as caught:
            made.sum().backward()
        return str(caught.value)

    assert "debug=True" not in error_of()
    text = error_of(debug=True)
    assert text.startswith("checkpoint: The second computation differs from the first.")
    first, second = text.split("Functions that ran in the recomputation:")
    assert "(2 of 2 in original forward)" in first and "sin(float64[1]) -> float64[1]" in first
    assert "(1 of 1 in recomputation)" in second and "exp(float64[1])" in second and "sin(" not in second.split("File")[0]
    assert "in changing" in first and "in changing" in second
    with set_checkpoint_debug_enabled(True):
        assert error_of().startswith("checkpoint: The second computation differs")
    with set_checkpoint_debug_enabled(False):
        assert "ran in the recomputation" not in error_of(debug=True)
    with pytest.raises(ValueError, match="debug=True allows no context_fn"):
        checkpoint(changing, leaf([1.0]), use_reentrant=False, debug=True, context_fn=lambda: (None, None))


def test_reentrant_checkpoint_wants_a_pass_for_all_leaves():
    x = leaf([1.0])
    made = checkpoint(facula.exp, x, use_reentrant=True)
    for run in (lambda: autograd.grad(made, x, retain_graph=True), lambda: made.backward(inputs=[x], retain_graph=True)):
        with pytest.raises(RuntimeError, match="got a pass for some inputs"):
            run()
    made.backward()
    assert x.grad.item() == pytest.approx(np.e)


# Selective checkpointing


@pytest.mark.parametrize("how", ["list", "policy"])
def test_selective_checkpointing(how):
    runs = []
    matmul = facula.matmul

    class Counted(facula.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            runs.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    def block(x, w):
        return (matmul(x, w).sin() * 2).exp()

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is matmul else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts():
        return create_selective_checkpoint_contexts([matmul] if how == "list" else policy)

    def gradients(run):
        x = facula.linspace(0.1, 0.9, 6, dtype=facula.float64).reshape(2, 3).requires_grad_()
        w = facula.linspace(-0.5, 0.5, 9, dtype=facula.float64).reshape(3, 3).requires_grad_()
        with Counted():
            out = run(x, w)
            count = len(runs)
            found = autograd.grad(out.sum(), [x, w])
        return out, *found, runs[count:]

    *plain, _ = gradients(block)
    *kept, again = gradients(lambda x, w: checkpoint(block, x, w, use_reentrant=False, context_fn=contexts))
    for a, b in zip(plain, kept):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert again.count("matmul") == 0 and again.count("sin") == 1
    *_, again = gradients(lambda x, w: checkpoint(block, x, w, use_reentrant=False))
    assert again.count("matmul") == 1


def test_selective_checkpointing_errors():
    with pytest.raises(TypeError, match="^create_selective_checkpoint_contexts: .*got int"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="^create_selective_checkpoint_contexts: .*type str"):
        create_selective_checkpoint_contexts(["mm"])

    def block(x):
        y = facula.exp(x)
        y.detach().mul_(2)
        return y.sin()

    x = leaf([0.5])
    with pytest.raises(RuntimeError, match="changed in place"):
        checkpoint(
            block, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts([facula.exp])
        ).sum().backward()


# Mutation of saved values


def test_saved_values_may_be_mutated():
    x = leaf([1.0, 2.0])
    with allow_mutation_on_saved_tensors():
        y = x.clone()
        z = y.exp()
        w = y * z
        z.mul_(5)
        y[0] = 7.0
        w.sum().backward()
    expected = np.exp([1.0, 2.0]) * (1 + np.array([1.0, 2.0]))
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_mutation_context_errors():
    x = leaf([1.0])
    with allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="cannot be nested"):
            with allow_mutation_on_saved_tensors():
                pass
        y = x.exp()
    with pytest.raises(AssertionError, match="within the region that recorded the graph"):
        y.sum().backward()


def test_second_derivatives_through_packed_values():
    x = leaf([0.5, 1.5])
    exact = facula.autograd.grad((x.exp() * x).sin().sum(), x, create_graph=True)[0]
    (second,) = facula.autograd.grad(exact.sum(), x)

    def check(function):
        (g,) = facula.autograd.grad(function(x).sum(), x, create_graph=True)
        np.testing.assert_allclose(facula.autograd.grad(g.sum(), x)[0].numpy(), second.numpy())

    for pack in (lambda t: t.detach().clone(), lambda t: t):
        with facula.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            check(lambda x: (x.exp() * x).sin())
    with facula.autograd.graph.save_on_cpu():
        check(lambda x: (x.exp() * x).sin())
    check(lambda x: facula.utils.checkpoint.checkpoint(lambda y: (y.exp() * y).sin(), x, use_reentrant=False))


def test_the_gradient_of_a_result_is_not_there():
    y = leaf([1.0]) * 2
    with pytest.warns(UserWarning, match="^grad: The .grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    with facula.inference_mode():
        inference = facula.ones(2)
    with pytest.raises(RuntimeError, match="^_version: Inference tensors do not track version counter"):
        _ = inference._version


def test_names_of_nodes_are_those_of_pytorch():
    F = facula.nn.functional
    x = lambda *shape: facula.ones(*shape, requires_grad=True)  # noqa: E731
    images = x(1, 2, 4, 4)
    for result, name in (
        (F.linear(x(2, 3), x(4, 3), x(4)), "AddmmBackward0"), (F.linear(x(2, 3), x(4, 3)), "MmBackward0"),
        (F.linear(x(5, 2, 3), x(4, 3), x(4)), "ViewBackward0"), (F.linear(x(5, 2, 3), x(4, 3)), "UnsafeViewBackward0"),
        (F.layer_norm(x(2, 3, 4), (4,)), "NativeLayerNormBackward0"), (F.group_norm(x(2, 4, 3), 1), "NativeGroupNormBackward0"),
        (F.batch_norm(x(4, 3), None, None, training=True), "NativeBatchNormBackward0"),
        (F.max_pool2d(images, 2), "MaxPool2DWithIndicesBackward0"), (F.avg_pool2d(images, 2), "AvgPool2DBackward0"),
        (F.avg_pool1d(x(1, 2, 4), 2), "SqueezeBackward1"), (F.adaptive_avg_pool2d(images, 2), "AdaptiveAvgPool2DBackward0"),
        (F.grid_sample(images, x(1, 2, 2, 2), align_corners=False), "GridSampler2DBackward0"),
        (x(2) ** 2, "PowBackward0"), (x(2) ** x(2), "PowBackward1"), (2 ** x(2), "PowBackward2"),
        (x(3).median(0).values, "MedianBackward1"), (facula.special.i0e(x(2)), "SpecialI0EBackward0"),
        (F.logsigmoid(x(2)), "LogSigmoidBackward0"),
    ):  # fmt: skip
        assert type(result.grad_fn).__name__ == name == result.grad_fn.name()


def test_values_saved_often_are_copied_once():
    with allow_mutation_on_saved_tensors() as context:
        x = facula.ones(3, requires_grad=True)
        y = x.clone()
        out = (y**2 + y**3).sum()
        assert not context.cloned and len(context.tid_to_weakhandle) == 1
        y.mul_(2)
        assert len(context.cloned) == 1
        out.backward()
        assert x.grad.tolist() == [5, 5, 5]
        del out
        assert not context.cloned


def test_views_of_inference_tensors_require_no_gradient():
    with facula.inference_mode():
        leaf = facula.ones(2, 3, requires_grad=True)
        assert leaf.requires_grad and not any(t.requires_grad for t in (leaf.view(6), leaf[0], leaf.t(), leaf.T, leaf.split(1)[0]))


STRICT = {
    "vjp": lambda f, x, v, **k: autograd.functional.vjp(f, x, v, **k),
    "jvp": lambda f, x, v, **k: autograd.functional.jvp(f, x, v, **k),
    "hvp": lambda f, x, v, **k: autograd.functional.hvp(f, x, v, **k),
    "vhp": lambda f, x, v, **k: autograd.functional.vhp(f, x, v, **k),
    "jacobian": lambda f, x, v, **k: autograd.functional.jacobian(f, x, **k),
    "hessian": lambda f, x, v, **k: autograd.functional.hessian(f, x, **k),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_derivatives_need_outputs_that_depend_on_the_inputs(name):
    call, x, v = STRICT[name], facula.ones(1), facula.ones(() if name == "vjp" else 1)
    with pytest.raises(RuntimeError, match=f"^{name}: strict=True, and result 0 of func does not require gradients"):
        call(lambda x: x.detach().sum(), x, v, strict=True)
    assert call(lambda x: x.detach().sum(), x, v) is not None
    with pytest.raises(RuntimeError, match=f"^{name}: strict=True, and (The output|Output 0|the jacobian) of func"):
        call(lambda x: facula.ones((), requires_grad=True) * 2, x, v, strict=True)
    linear = "by input 0" if name in ("hvp", "vhp", "hessian") else "is independent of input 0"
    with pytest.raises(RuntimeError, match=f"^{name}: strict=True, and the jacobian of func {linear}"):
        call(lambda x: (2 * x).sum(), x, v, strict=True, create_graph=True)
    with pytest.raises(TypeError, match=f"^{name}: expected inputs as .* a tuple of tensors, got int at index 1"):
        call(lambda x, y: x, (x, 2), v)
    with pytest.raises(TypeError, match=f"^{name}: expected results of func as"):
        call(lambda x: (x.sum(), "2"), x, v)
    if name not in ("jacobian", "hessian"):
        with pytest.raises(RuntimeError, match=rf"^{name}: v must have shape \("):
            call(lambda x: (2 * x).sum() if name != "jvp" else x, x, facula.ones(3), create_graph=False)


def test_results_are_not_written_into_given_tensors_in_forward_mode():
    with autograd.forward_ad.dual_level():
        dual, plain = autograd.forward_ad.make_dual(facula.ones(2), facula.ones(2)), facula.ones(2)
        for arguments, out in [((plain, plain), dual), ((dual, plain), plain)]:
            with pytest.raises(NotImplementedError, match="^add: an out= function does not support forward mode"):
                facula.add(*arguments, out=out)
        assert facula.eq(dual, plain, out=facula.empty(2, dtype=facula.bool)).all()
