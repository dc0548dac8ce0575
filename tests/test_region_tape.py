"""What only a tape holds: values without bytes until a backward pass needs them, and bytes that go back to a recipe."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest
from test_region import compiled

import facula as torch
import facula.nn.functional as F

UNIT = 512 * 512 * 4  # bytes of the tensors here


def big(*sizes, seed=0):
    return torch.randn(sizes or (512, 512), generator=torch.Generator().manual_seed(seed))


def leaf(*sizes, seed=0):
    return big(*sizes, seed=seed).requires_grad_()


def loss(x, y):
    p = torch.sigmoid(x * y)
    q = (y - p) ** 3 / (x * x + 2) + p * x
    return (q * q.tanh()).sum()


def allocated():
    gc.collect()
    return torch.cpu.memory_allocated()


def held_by(call, *args):
    """What the call gives, and how many units of memory it left behind."""
    before = allocated()
    result = call(*args)
    return result, (allocated() - before) / UNIT


def run(call, before=None, backward=None):
    """The loss and the gradients of one training step."""
    x, y = leaf(), leaf(seed=1)
    total = call(x, y)
    if before:
        before(x, y, total)
    extra = backward(total, x, y) if backward else total.backward()
    return [t.detach() for t in (total, x.grad, y.grad, *(extra or ())) if t is not None]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(s, t) for s, t in zip(a, b))


def test_a_backward_pass_computes_saved_values_again_in_its_groups():
    def step(x, y):
        x.grad = y.grad = None
        total = loss(x, y)
        total.backward()
        return total.detach(), x.grad, y.grad

    f, x, y = compiled(step), leaf(), leaf(seed=1)
    wanted = step(leaf(), leaf(seed=1))
    for _ in range(4):
        assert same(f(x, y), wanted)
    # what is written: sigmoid's result, which is dear, the product that is summed, and the gradients
    assert f.recordings[0].groups <= 2 and f.recordings[0].never_made >= 14 and f.misses == 0


def test_only_the_tape_holds_them_and_they_stay_unmade():
    f, x, y = compiled(loss), leaf(), leaf(seed=1)
    _, eager = held_by(loss, x, y)
    for _ in range(3):
        total, mine = held_by(f, x, y)
        total.backward()
    assert eager >= 5 and mine < 1.1  # sigmoid's result, which is dear
    for _ in range(3):
        assert same(run(f), run(loss))


def test_what_the_program_holds_is_made():
    kept = {}

    def keeping(x, y):
        kept["p"] = torch.sigmoid(x * y)
        return (kept["p"] * x).sum()

    f = compiled(keeping)
    for _ in range(3):
        x, y = leaf(), leaf(seed=1)
        total, mine = held_by(f, x, y)
        assert 0.9 < mine < 1.2  # the one that is kept
        assert torch.equal(kept["p"], torch.sigmoid(x * y))
        total.backward()
        assert torch.equal(x.grad, run(keeping)[1])
        kept.clear()
        del total, x, y


def test_a_recipe_does_not_hold_more_than_it_saves():
    def sums(a, b, c, d):
        return torch.sigmoid(a + b + c + d).sum()

    def call(function):
        return function(*(leaf(seed=s) * 1.0 for s in range(4)))

    f = compiled(sums)
    for _ in range(3):
        _, eager = held_by(call, sums)
        total, mine = held_by(call, f)
        assert mine <= eager + 0.1  # the result of sigmoid, not the four operands of the call
        total.backward()
        del total, _


def twice(total, x, y):
    total.backward(retain_graph=True)
    total.backward()


def partial(total, x, y):
    (gx,) = torch.autograd.grad(total, x, retain_graph=True)
    (gy,) = torch.autograd.grad(total, y)
    return gx, gy


def second(total, x, y):
    gx, gy = torch.autograd.grad(total, (x, y), create_graph=True)
    (gx * gy).sum().backward()
    return gx, gy


def on_another_thread(total, x, y):
    other = threading.Thread(target=total.backward)
    other.start()
    other.join()


def shown(total, x, y):
    node, values = total.grad_fn, []
    while node is not None:
        values += [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        node = next((n for n, _ in node.next_functions if n is not None), None)
    total.backward()
    return [v * 1 for v in values if isinstance(v, torch.Tensor)]


@pytest.mark.parametrize("backward", [twice, partial, second, on_another_thread, shown])
def test_ways_to_go_back(backward):
    f, wanted = compiled(loss), run(loss, None, backward)
    for _ in range(4):
        assert same(run(f, None, backward), wanted)


def test_writes_between_the_two_passes():
    def scaled(x, y):  # sigmoid saves its result, so that x may change
        return (torch.sigmoid(x * 2.0 + y) * 3.0).sum()

    def write(x, y, total):
        with torch.no_grad():
            x.mul_(0.5)
            y[3:] = 1

    f, wanted = compiled(scaled), run(scaled, write)
    for _ in range(4):
        assert same(run(f, write), wanted)


def test_a_write_to_what_is_saved_is_refused_as_in_eager_execution():
    def write(x, y, total):
        with torch.no_grad():
            x.mul_(0.5)

    def message(call):
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
            run(call, write)
        return str(raised.value)

    f = compiled(loss)
    run(f)
    for _ in range(3):
        assert message(f) == message(loss)


def test_hooks_and_retained_gradients():
    seen = []

    def hooked(x, y):
        p = torch.sigmoid(x * y)
        p.retain_grad()
        p.register_hook(lambda g: g * 2)
        q = p * x
        q.register_hook(lambda g: seen.append(g.sum()))
        return (q * q.tanh()).sum()

    f, wanted = compiled(hooked), run(hooked)
    for _ in range(4):
        assert same(run(f), wanted)
    assert all(torch.equal(s, seen[0]) for s in seen)


def test_hooks_for_saved_values_and_checkpoints():
    def packed(x, y):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, t * 1), lambda pair: pair[1]):
            p = torch.sigmoid(x * y)
            q = torch.utils.checkpoint.checkpoint(lambda t: (t * 2).tanh() * t, p, use_reentrant=False)
        return (q * p).sum()

    f, wanted = compiled(packed), run(packed)
    for _ in range(4):
        assert same(run(f), wanted)


def test_functions_of_the_program_save_values_too():
    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            out = t * t
            ctx.save_for_backward(t, out)
            return out

        @staticmethod
        def backward(ctx, grad):
            t, out = ctx.saved_tensors
            return grad * t * 2 + 0 * out

    def custom(x, y):
        return (Squared.apply(x * y) * torch.sigmoid(y)).sum()

    f, wanted = compiled(custom), run(custom)
    for _ in range(4):
        assert same(run(f), wanted)


def test_a_tape_that_is_dropped_leaves_nothing():
    f, x, y = compiled(loss), leaf(), leaf(seed=1)
    f(x, y)
    before = allocated()
    for _ in range(5):
        f(x, y)
    assert allocated() == before


def test_settings_that_change_between_the_passes():
    f, wanted, threads = compiled(loss), run(loss), torch.get_num_threads()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(threads)
            assert same(run(f, lambda *_, n=n: torch.set_num_threads(n)), wanted)
    finally:
        torch.set_num_threads(threads)


def test_errors_between_the_passes():
    def raising(x, y):
        total = loss(x, y)
        if fails:
            kept.append(total)
            raise ValueError("on purpose")
        return total

    kept: list[torch.Tensor] = []
    f, wanted, fails = compiled(raising), run(loss), False
    for _ in range(2):
        assert same(run(f), wanted)
    fails = True
    x, y = leaf(), leaf(seed=1)
    with pytest.raises(ValueError, match="on purpose"):
        f(x, y)
    kept.pop().backward()
    assert torch.equal(x.grad, wanted[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_back_by_itself():
    f, wanted = compiled(loss), run(loss)
    for _ in range(3):
        run(f)
    x, y = leaf(), leaf(seed=1)
    total = f(x, y)
    child = os.fork()
    if child == 0:
        try:
            total.backward()
            os._exit(0 if torch.equal(x.grad, wanted[1]) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    total.backward()
    assert torch.equal(x.grad, wanted[1])


# ---- bytes that are let go: a product reads them, and then only the tape has them


def perceptron(x, w, v):
    h = x @ w
    return (F.gelu(h) @ v).sigmoid().mean()


def inputs():
    return leaf(), leaf(512, 2048, seed=1), leaf(2048, 512, seed=2)


def trained(call, before=None):
    x, w, v = inputs()
    total = call(x, w, v)
    if before:
        before(x, w, v)
    total.backward()
    return [t.detach() for t in (total, x.grad, w.grad, v.grad)]


def test_what_a_product_has_read_goes_back_to_its_recipe():
    f, (x, w, v) = compiled(perceptron), inputs()
    _, eager = held_by(perceptron, x, w, v)
    for _ in range(4):
        total, mine = held_by(f, x, w, v)
        total.backward()
    assert mine < eager - 3.9  # gelu's result has four units
    wanted = trained(perceptron)
    for _ in range(3):
        assert same(trained(f), wanted)


def test_twice_through_what_was_let_go():
    f, (x, w, v) = compiled(perceptron), inputs()
    for _ in range(4):
        x.grad = w.grad = v.grad = None
        total = f(x, w, v)
        total.backward(retain_graph=True)
        total.backward()
    wanted = trained(perceptron)
    assert torch.equal(v.grad, wanted[3] + wanted[3]) and torch.equal(w.grad, wanted[2] + wanted[2])


def test_a_weak_reference_keeps_the_bytes():
    kept = {}

    def weak(x, w, v):
        a = F.gelu(x @ w)
        a.note = "a tensor with a life of its own"
        kept["a"] = weakref.ref(a)
        return (a @ v).mean()

    f = compiled(weak)
    for _ in range(4):
        x, w, v = inputs()
        total = f(x, w, v)
        a = kept["a"]()
        if a is not None:
            assert torch.equal(a, F.gelu(x @ w))
        total.backward()
    assert torch.equal(v.grad, trained(weak)[3])


def test_writes_to_what_a_recipe_would_read():
    def shifted(x, w, v):
        return (F.gelu(x + shift) @ w).relu().mean() + v.mean()

    def write(*_):
        shift.mul_(3)

    shift, f = big(512, seed=5), compiled(shifted)
    wanted = trained(shifted, write)
    for _ in range(4):
        shift.copy_(big(512, seed=5))
        assert same(trained(f, write), wanted)


def test_a_write_while_bytes_that_may_go_are_there():
    def shifted(x, w, v):
        a = F.gelu(x + shift)
        b = a @ w
        shift.mul_(3)  # what would be read if `a` were made again
        return (b @ v).relu().mean()

    shift, f = big(512, seed=5), compiled(shifted)
    wanted = trained(shifted)
    for _ in range(4):
        shift.copy_(big(512, seed=5))
        assert same(trained(f), wanted)


def test_a_write_by_the_group_itself():
    def writes(x, w, v):
        a = F.gelu(x * 1.0)
        b = a @ w
        place.copy_(a.detach() * 2 + place)  # a run whose last step writes
        return (b @ v).relu().mean() + place.mean()

    place, f = big(seed=5), compiled(writes)
    wanted = trained(writes)
    for _ in range(4):
        place.copy_(big(seed=5))
        assert same(trained(f), wanted)


def test_a_written_value_is_not_let_go():
    def written(x, w, v):
        a = F.gelu(x @ w)
        b = a @ v
        with torch.no_grad():
            a.mul_(2)
        return b.mean()

    f = compiled(written)
    for _ in range(4):
        x, w, v = inputs()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            f(x, w, v).backward()


def test_threads_go_back_through_one_graph_while_calls_let_go():
    f, wanted, failed = compiled(perceptron), trained(perceptron), []

    def work():
        for _ in range(6):
            if not same(trained(f), wanted):
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
