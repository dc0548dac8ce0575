"""Compiled functions: what is put off, when it is made, and that nothing else changes."""

from __future__ import annotations

import threading

import compile_programs
import pytest

import facula as torch
import facula.nn.functional as F

CompiledFunction = torch._C._CompiledFunction


class ALWAYS:
    always = True


def compiled(function):
    """Every call but the first is followed."""
    made = CompiledFunction(function, ALWAYS)
    made.reset()
    return made


def big(*sizes, seed=0):
    return torch.randn(sizes or (96, 128), generator=torch.Generator().manual_seed(seed))


def last(function):
    return function.recordings[0]


@pytest.mark.parametrize("seed", range(120))
def test_random_programs_are_the_same(seed):
    assert compile_programs.differences(seed) == []


def test_a_chain_is_one_group_and_temporaries_are_never_made():
    def chain(x, y):
        return (x * y + 1.5).tanh() * 0.5 - x

    x, y, f = big(), big(seed=1), compiled(chain)
    wanted = chain(x, y)
    for _ in range(4):
        assert torch.equal(f(x, y), wanted)
    assert (last(f).put_off, last(f).groups, last(f).never_made) == (5, 1, 4)
    assert last(f).bytes_saved == 4 * x.numel() * 4
    assert [op[5] for op in last(f).ops] == [0] * 5  # all in the first group


def test_rows_are_looked_at_in_the_group():
    def softmax(x):
        e = (x * 0.125 - x.max(-1, keepdim=True).values).exp()
        return e / e.sum(-1, keepdim=True)

    x, f = big(64, 256), compiled(softmax)
    wanted = softmax(x)
    for _ in range(4):
        assert torch.equal(f(x), wanted)
    assert last(f).groups == 1 and last(f).put_off == 6


@pytest.mark.parametrize("columns", [2, 8, 63, 64, 100, 1024, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("keepdim", [True, False], ids=["kept", "dropped"])
def test_reductions_of_rows_have_eager_bits(columns, dtype, keepdim):
    def statistics(x, w):
        y = x * w
        mean = y.mean(-1, keepdim=True)
        var = (y - mean).pow(2).sum(-1, keepdim=True)
        low, at = y.min(-1, keepdim=keepdim)
        return (y - mean) * torch.rsqrt(var + 1e-5), y.amax(-1, keepdim=keepdim), low, at, y.sum(-1, keepdim=keepdim)

    x, w, f = big(20000 // columns + 3, columns).to(dtype), big(columns, seed=1).to(dtype), compiled(statistics)
    wanted = statistics(x, w)
    for _ in range(4):
        assert all(torch.equal(a, b) for a, b in zip(f(x, w), wanted))
    assert last(f).put_off >= 8


def test_sums_without_their_dimension_are_broadcast_as_rows():
    def f(x):
        y = x * 2
        s = y.sum(-1)
        return y - s, y - s.unsqueeze(-1), s + 1

    x, g = big(96, 96), compiled(f)
    wanted = f(x)
    for _ in range(4):
        assert all(torch.equal(a, b) for a, b in zip(g(x), wanted))


def test_values_that_are_asked_for_are_there():
    seen = []

    def f(x):
        y = x * 2 + 1
        seen.append(y.sum().item())
        z = y * y
        seen.append(z[0, 0].item())
        return z - y

    x, g = big(), compiled(f)
    wanted = f(x)
    for _ in range(4):
        assert torch.equal(g(x), wanted)
    assert len(set(seen[0::2])) == len(set(seen[1::2])) == 1


def test_writes_between_a_read_and_its_use():
    def f(x, y):
        z = x * 2 + y
        x.add_(1)
        y[3:] = 7
        return z * x

    wanted_inputs = big(), big(seed=1)
    wanted = f(*wanted_inputs)
    for _ in range(4):
        inputs, g = (big(), big(seed=1)), compiled(f)
        for _ in range(2):
            inputs = big(), big(seed=1)
            assert torch.equal(g(*inputs), wanted)
        assert all(torch.equal(a, b) for a, b in zip(inputs, wanted_inputs))


def test_in_place_ops_on_waiting_results_are_steps():
    def f(x):
        y = x * 3
        before = y + 0.5
        y.mul_(2).add_(x)
        view = y[1]
        return before, y, view, y._version

    x, g = big(), compiled(f)
    wanted = f(x)
    for _ in range(4):
        got = g(x)
        assert all(torch.equal(a, b) for a, b in zip(got[:3], wanted[:3])) and got[3] == wanted[3]
        assert got[2].data_ptr() == got[1][1].data_ptr()
    assert last(g).put_off == 4


def test_numbers_are_those_of_the_call():
    f = compiled(lambda x, rate: (x * rate + 1) * rate)
    x = big()
    for rate in (1, 2, 0.5, 3, -1.0):
        assert torch.equal(f(x, rate), (x * rate + 1) * rate)
    assert len(f.recordings) == 1


def test_sizes_and_dtypes_may_change():
    f = compiled(lambda x, b: (x * b + 1).exp() - x)
    for sizes in ((96, 128), (128, 128), (20, 30, 40), (4, 4), (100000,), (0, 5)):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
            x = (big(*sizes) * 3).to(dtype)
            b = (big(sizes[-1], seed=2) * 3).to(dtype)
            assert torch.equal(f(x, b), (x * b + 1).exp() - x)
    assert len(f.recordings) == 1


def test_another_way_is_a_recording_of_its_own():
    def f(x, way):
        y = x * 2 + 1
        return (y.exp() + x * x).sqrt() if way else y.sin() + y.cos()

    x, g = big(), compiled(f)
    for way in (True, False, False, True, False, True):
        assert torch.equal(g(x, way), f(x, way))
    assert len(g.recordings) == 2 and g.misses == 1
    g(x, False)
    assert last(g).put_off == 5


def test_errors_come_at_their_line_and_nothing_is_lost():
    kept = []

    def f(x, y):
        z = x * 2 + 1
        kept.append(z)
        return z * y  # the shapes do not fit

    g, x = compiled(f), big()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="mul") as raised:
            g(x, big(7, 3))
        assert raised.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 3
        assert torch.equal(kept.pop(), x * 2 + 1)


def test_gradients_hooks_and_second_derivatives():
    def f(x, w):
        y = torch.tanh(x * w) * 2
        y.register_hook(lambda g: g * 3)
        (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        return (g * y).sum() + y.mean()

    def run(call):
        x, w = big().requires_grad_(), big(seed=1).requires_grad_()
        loss = call(x, w)
        loss.backward()
        return loss.detach(), x.grad, w.grad

    g = compiled(f)
    wanted = run(f)
    for _ in range(4):
        assert all(torch.equal(a, b) for a, b in zip(run(g), wanted))


def test_what_leaves_the_function_has_bytes():
    place = {}

    def f(x):
        place["y"] = x * 2 + 1
        place["z"] = place["y"][2:]
        return None

    g, x = compiled(f), big()
    for _ in range(3):
        g(x)
        assert torch.equal(place["y"], x * 2 + 1)
        assert place["z"].data_ptr() == place["y"].data_ptr() + 2 * 128 * 4


def test_numpy_shares_memory_in_the_middle():
    def f(x):
        y = x * 2 + 1
        array = y.numpy()
        array[0, 0] = 42
        return y + 0

    g, x = compiled(f), big()
    for _ in range(3):
        assert g(x)[0, 0] == 42


def test_two_threads_run_one_function():
    def f(x):
        return ((x * 2 + 1).exp() - x).tanh() * 0.5

    g, inputs, failed = compiled(f), [big(seed=s) for s in range(4)], []

    def work(x):
        wanted = f(x)
        for _ in range(50):
            if not torch.equal(g(x), wanted):
                failed.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_another_thread_needs_a_waiting_value():
    got = []

    def f(x):
        y = x * 2 + 1
        thread = threading.Thread(target=lambda: got.append(y.sum().item()))
        thread.start()
        thread.join()
        return y - x

    g, x = compiled(f), big()
    wanted = f(x)
    for _ in range(3):
        assert torch.equal(g(x), wanted)
    assert len(set(got)) == 1


def test_functions_with_equal_code_share_recordings():
    def make(scale):
        return lambda x: (x * scale + 1).exp()

    a, b, x = compiled(make(2)), CompiledFunction(make(3), ALWAYS), big()
    a(x)
    assert torch.equal(b(x), (x * 3 + 1).exp()) and last(b).put_off == 3
    assert len(a.recordings) == 1


def test_states():
    f = CompiledFunction(lambda x: ((x * 2 + 1).exp() - x).tanh() * 0.5)
    f.reset()
    x = big(512, 1024)
    states = []
    for _ in range(45):
        states.append(f.state)
        f(x)
    assert states[:4] == ["look", "learn", "learn", "trial"] and set(states[4:19]) == {"trial"}  # small gains are tried twice
    assert f.state in ("follow", "pass")
    small = CompiledFunction(lambda x: x * 2 + 1)
    small.reset()
    small(torch.ones(3))
    assert small.state == "pass"
    small(big())
    assert small.state == "learn"  # other sizes are looked at again


def test_an_inner_compiled_function_is_part_of_the_outer_one():
    inner = compiled(lambda x: x * 2 + 1)
    outer = compiled(lambda x: inner(x).exp() - x)
    x = big()
    for _ in range(3):
        assert torch.equal(outer(x), (x * 2 + 1).exp() - x)
    assert last(outer).put_off == 4 and inner.recordings == []


def test_a_function_that_is_left_by_an_exception_can_be_called_again():
    def f(x, fail):
        y = x * 2 + 1
        if fail:
            raise KeyError("stop")
        return y * y

    g, x = compiled(f), big()
    for fail in (False, True, False, True, False):
        if fail:
            with pytest.raises(KeyError, match="stop"):
                g(x, fail)
        else:
            assert torch.equal(g(x, fail), (x * 2 + 1) ** 2)


def test_dropout_draws_what_eager_draws():
    def f(x):
        return F.dropout(x * 2 + 1, 0.5) * 3 + torch.rand_like(x)

    g, x = compiled(f), big()
    torch.manual_seed(3)
    wanted = [f(x) for _ in range(4)]
    torch.manual_seed(3)
    assert all(torch.equal(g(x), w) for w in wanted)


def test_a_pass_outside_of_the_function_is_followed():
    def f(x, w):
        return (torch.tanh(x * w + 0.5) * torch.sigmoid(x - w)).sum()

    def run(call):
        x, w = big().requires_grad_(), big(seed=1).requires_grad_()
        (call(x, w) * 2).backward()
        return x.grad, w.grad

    g = compiled(f)
    wanted = run(f)
    for _ in range(6):
        assert all(torch.equal(a, b) and a._version == b._version for a, b in zip(run(g), wanted))


def test_passes_in_a_pass_and_hooks_of_a_followed_pass():
    seen = []

    def f(x):
        y = torch.tanh(x) * 2 + x
        y.register_hook(lambda g: seen.append(float(g.sum())) or g * 2)
        return torch.utils.checkpoint.checkpoint(lambda t: (t.sin() * t).exp(), y, use_reentrant=True).sum()

    def run(call):
        x = (big() * 0.1).requires_grad_()
        call(x).backward()
        return x.grad, seen.pop()

    g = compiled(f)
    wanted = run(f)
    for _ in range(6):
        got = run(g)
        assert torch.equal(got[0], wanted[0]) and got[1] == wanted[1]


def test_what_waits_holds_little_that_the_program_has_let_go():
    def f(n):
        total = torch.zeros(n)
        for i in range(64):
            total = total + torch.full((n,), float(i)) * 2  # 64 constants of 8 MB
        return total

    def peak(call):
        torch.cpu.reset_peak_memory_stats()
        before = torch.cpu.memory_allocated()
        result = call(n)
        return torch.cpu.max_memory_allocated() - before, result

    g, n = compiled(f), 1 << 21
    _, wanted = peak(f)
    for _ in range(3):
        bytes, result = peak(g)
        assert torch.equal(result, wanted) and bytes < 30 * 4 * n


def test_whoever_sees_ops_sees_those_of_eager_execution():
    from facula.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def f(x):
        return (x * 2 + 1).exp().sum(-1, keepdim=True) * x

    def under(call, x):
        with Names() as names:
            return call(x), names.seen

    g, x = compiled(f), big()
    wanted, seen = under(f, x)
    for i in range(5):
        got, also = under(g, x) if i % 2 else (g(x), seen)
        assert torch.equal(got, wanted) and also == seen
    with torch.profiler.profile() as profile:
        assert torch.equal(g(x), wanted)
    assert {"aten::mul", "aten::add", "aten::exp"} <= {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("mode", ["autocast", "vmap", "inference", "forward"])
def test_modes_in_and_around_a_function(mode):
    def f(x):
        if mode == "autocast":
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return (x * 2 + 1) @ x.T + x.sum()
        if mode == "vmap":
            return torch.vmap(lambda row: (row * 2 + 1).tanh() - row.mean())(x)
        if mode == "inference":
            with torch.inference_mode():
                return (x * 2 + 1).tanh() - x
        return torch.func.jvp(lambda t: (t * 2 + 1).tanh() - t, (x,), (x * 0.5,))[1]

    g, x = compiled(f), big()
    wanted = f(x)
    for _ in range(4):
        got = g(x)
        assert torch.equal(got, wanted) and got.dtype == wanted.dtype and got.is_inference() == wanted.is_inference()
