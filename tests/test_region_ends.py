"""Compiled functions: what groups begin and end with - joined tensors, casts, folds of all elements, writes to real memory."""

from __future__ import annotations

import pytest
from test_region import big, compiled, last

import facula as torch


def check(function, *inputs, calls=4):
    """Values, inputs and versions after every call are those of eager execution; gives the compiled function."""
    made = compiled(function)
    for _ in range(calls):
        eager, other = [t.clone() for t in inputs], [t.clone() for t in inputs]
        wanted, got = function(*eager), made(*other)
        wanted, got = [list(r) if isinstance(r, (tuple, list)) else [r] for r in (wanted, got)]
        for a, b in zip(wanted + eager, got + other, strict=True):
            assert torch.equal(a, b) and a._version == b._version and a.stride() == b.stride() and a.dtype == b.dtype
    return made


# ---- writes to memory that exists


def test_an_in_place_op_on_real_memory_ends_its_group():
    def f(p, g):
        step = (g * 0.5).tanh() + g
        p.add_(step, alpha=-0.1)
        p.mul_(g * 2).sub_(1.5 - g)
        return p

    g = check(f, big(), big(seed=1))
    assert last(g).put_off == 8 and last(g).never_made == 5 and last(g).groups == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32], ids=str)
def test_results_are_converted_to_what_is_written(dtype):
    def f(p, x):
        p.copy_(x * 3 + 1)
        p[1:, 5:] = (x * 5 - 2)[1:, 5:]
        p[:48] = x[:48] * 2
        p[::2, ::3].copy_(x[::2, ::3].exp() - 1)
        return p

    check(f, (big() * 3).to(dtype), big(seed=1))


def test_a_stencil_writes_into_its_slice():
    def f(u, before):
        middle = u[1:-1, 1:-1]
        laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * middle
        after = u.clone()
        after[1:-1, 1:-1] = 2 * middle - before[1:-1, 1:-1] + 0.1 * laplacian
        return after

    g = check(f, big(128, 130), big(128, 130, seed=1))
    assert last(g).groups == 1 and last(g).never_made == last(g).put_off - 1 == 9


def test_memory_that_the_group_reads_in_another_place_is_written_afterwards():
    def f(u):
        u[1:] = u[:-1] * 2 + 1
        u[:, 1:].add_(u[:, :-1] * 3)
        u[::2].copy_(u[1::2] - u[::2])
        u.add_(u.t().contiguous() * 2 if u.shape[0] == u.shape[1] else u * 2)
        u.t().mul_(u.t() * 0.5)
        return u

    check(f, big(128, 128))
    check(f, big(130, 96))


def test_results_that_read_what_is_written_are_made_before():
    def f(x):
        y = x * 2 + 1
        z = y.exp()
        x.add_(y)
        return z, x, z - x, y

    check(f, big())


def test_groups_that_look_at_rows_write_to_memory():
    def f(x, out):
        e = (x - x.max(-1, keepdim=True).values).exp()
        s = e.sum(-1, keepdim=True)
        out[:, 1:-1] = e / s
        x.mul_(e).add_(s + 1)
        out[:, 3:5] = x[:, :2] * 2
        y = x * 2
        t = y.mean(-1, keepdim=True)
        x.copy_(t.expand(96, 128))
        return out, x, t, y

    check(f, big(), big(96, 130, seed=1))


def test_other_groups_that_read_the_memory_run_first():
    def f(x, y):
        a = x[:, :64] * 2
        b = x + y
        x.mul_(b + 1)
        return a, b, x

    check(f, big(96, 128), big(96, 128, seed=1))
    check(f, big(256, 128), big(256, 128, seed=1))


def test_writes_are_recorded_for_gradients():
    def f(p, x):
        w = p * 2
        buffer = w.clone()
        buffer[10:, 3:] = (x * w).sin()[10:, 3:]
        buffer.add_(x * 2 + w)
        buffer.mul_(x.cos() * w)
        return buffer.sum(), buffer

    g = compiled(f)
    for call in (f, g, g, g):
        p, x = big().requires_grad_(), big(seed=1).requires_grad_()
        loss, buffer = call(p, x)
        loss.backward()
        seen = loss.detach(), buffer.detach(), p.grad, x.grad
        if call is f:
            wanted = seen
        assert all(torch.equal(a, b) for a, b in zip(seen, wanted, strict=True)) and buffer._version == 3


@pytest.mark.filterwarnings("ignore:frombuffer")
def test_what_must_not_be_written_is_refused_as_ever():
    def f(x, way):
        y = x * 2 + 1
        if way == "leaf":
            x.requires_grad_().add_(y)
        elif way == "shape":
            x[:1].add_(y)
        elif way == "dtype":
            x.to(torch.int32).add_(y)
        elif way == "overlap":
            x[:1].expand(96, 128).add_(y)
        else:
            torch.frombuffer(bytes(96 * 128 * 4), dtype=torch.float32).view(96, 128).add_(y)

    for way in ("leaf", "shape", "dtype", "overlap", "read only"):
        messages = []
        g = compiled(f)
        for call in (f, g, g, g):
            with pytest.raises((RuntimeError, TypeError)) as caught:
                call(big(), way)
            messages.append(str(caught.value))
        assert len(set(messages)) == 1


def test_an_optimizer_by_hand():
    def step(p, m, v, g):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)
        return p

    check(step, big(300, 100), big(300, 100, seed=1), big(300, 100, seed=2).abs(), big(300, 100, seed=3))


# ---- folds of all elements


@pytest.mark.parametrize("count", [8192, 8193, 12288, 20000, 32768, 32769, 65536 + 5, 300001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_folds_of_all_elements_have_eager_bits(count, dtype):
    def f(x, y):
        d = (x - y) * 1.5
        return (d * d).mean(), d.abs().sum(), d.max(), (d + 1).min(), d.mean(dtype=torch.float64)

    g = check(f, big(count).to(dtype), big(count, seed=1).to(dtype))
    assert last(g).put_off >= 8


def test_a_loss_never_writes_its_elements():
    def f(x, y):
        d = (x - y).abs()
        return torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()

    g = check(f, big(), big(seed=1))
    assert last(g).groups == 1 and last(g).never_made == last(g).put_off - 1


def test_folds_of_dense_elements_in_another_order_and_with_nan():
    def f(x):
        y = x.transpose(0, 1) * 2
        return y.sum(), y.mean(), y.max(), (y / 0).sum().isnan(), (x[:, ::2] * 2).sum(), y

    check(f, big(96, 130))


def test_values_stand_beside_their_fold():
    def f(x):
        y = x.exp()
        return y / y.sum(), y.max() - y, y.mean() + 1

    check(f, big())


# ---- joined tensors


def test_rotary_embedding_is_one_group():
    def f(q, cos, sin):
        a, b = q[..., :32], q[..., 32:]
        return q * cos + torch.cat([-b, a], -1) * sin

    g = check(f, big(2, 3, 64, 64), big(64, 64, seed=1), big(64, 64, seed=2))
    assert last(g).groups == 1 and last(g).put_off == 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32], ids=str)
def test_joined_values_are_converted(dtype):
    def f(x, y):
        joined = torch.cat([-x, y * 3], 1)
        return joined.to(dtype) / 3, joined.to(dtype).to(torch.float32) + joined

    check(f, big(), big(seed=1))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("sizes", [(20, 30, 40), (3, 5, 1100), (1, 1, 9000), (300, 7, 5), (2, 6000, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.bool], ids=str)
def test_joined_parts_of_all_sizes(dim, sizes, dtype):
    def f(x, y):
        a, b = (x > 0.5, y > 0) if dtype == torch.bool else (x * 2, y.transpose(0, 2).contiguous().transpose(0, 2) + 1)
        joined = torch.cat([a, y if dtype != torch.bool else y > 1, b, a[:, :1], a][: 3 if dim != 1 else 5], dim)
        stacked = torch.stack([a, b, y] if dtype != torch.bool else [a, b], dim)
        return joined == stacked.sum(), joined.to(torch.float32) * 0.5 + 1, stacked, stacked.to(torch.float32).exp()

    x, y = big(*sizes), big(*sizes, seed=1)
    check(f, *((x, y) if dtype == torch.bool else (x.to(dtype), y.to(dtype))), calls=3)


def test_a_part_is_also_a_result_of_its_own():
    def f(x, y):
        a = x * 2 + 1
        joined = torch.cat([a, y, a.tanh().exp().sin()], 0)
        x.add_(1)
        y.mul_(2)
        return joined * 2, a, joined

    check(f, big(), big(seed=1))


# ---- casts and views of what waits


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool], ids=str)
def test_casts_are_steps(dtype):
    def f(x):
        y = (x * 30).to(dtype)
        return (y.float() + 1) * x, y, x.to(dtype) == y

    g = check(f, big())
    assert last(g).groups == 1


def test_views_that_read_the_same_elements_stay_in_the_group():
    def f(x, w):
        y = x * 2
        s = y.sum(-1)
        return (
            y.reshape(96, 128) + 1,
            (y - s.unsqueeze(-1)) * w,
            (s + 1)[:, None] * y,
            y.view(96, 128, 1).squeeze(-1) - s.view(96, 1),
        )

    g = check(f, big(), big(128, seed=1))
    assert last(g).groups == 1 and last(g).put_off == 8


def test_other_views_are_made_first():
    def f(x):
        y = x * 2
        return y.t() + y, y[:, :1] * y, y.expand(2, 128, 128) - 1, y[0] + y, y.flip(0) * y

    check(f, big(128, 128))
