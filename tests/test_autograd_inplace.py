"""Writes in place against the same program without them: values and gradients, through views of views."""

from __future__ import annotations

import numpy as np
import pytest

import facula
from facula.autograd import grad

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


VIEWS = [
    lambda t: t[0], lambda t: t[:, 1], lambda t: t[1:], lambda t: t.transpose(0, 1), lambda t: t.reshape(-1)[::2],
    lambda t: t.view(-1)[1:5], lambda t: t.unsqueeze(0), lambda t: t[:, ::2], lambda t: t.t()[0:2],
    lambda t: t.permute(1, 0)[1],
]  # fmt: skip
WRITES = [
    lambda v, o: v.mul_(2), lambda v, o: v.add_(o), lambda v, o: v.mul_(o), lambda v, o: v.sin_(), lambda v,
    o: v.exp_(),
    lambda v, o: v.copy_(o), lambda v, o: v.sub_(o * o), lambda v, o: v.zero_(), lambda v, o: v.div_(o + 3),
    lambda v, o: v.fill_(0.5),
    lambda v, o: v.relu_(), lambda v, o: v.pow_(2), lambda v, o: v.neg_(), lambda v, o: v.tanh_(),
]  # fmt: skip
FUNCTIONS = [
    lambda v, o: v * 2, lambda v, o: v + o, lambda v, o: v * o, lambda v, o: v.sin(), lambda v, o: v.exp(),
    lambda v, o: o + 0 * v.detach(), lambda v, o: v - o * o, lambda v, o: v.detach() * 0, lambda v, o: v / (o + 3),
    lambda v, o: v.detach() * 0 + 0.5, lambda v, o: v.relu(), lambda v, o: v * v, lambda v, o: -v, lambda v,
    o: v.tanh(),
]  # fmt: skip
SAVE_RESULT = {4, 10, 13}  # exp_, relu_, tanh_


def replaced(whole, view, value):
    """`whole` with the elements that `view` picks replaced, without a write: through masks of positions."""
    positions = view(facula.arange(whole.numel()).reshape(tuple(whole.shape))).reshape(-1).tolist()
    flat, part = list(whole.reshape(-1).unbind(0)), list(value.reshape(-1).unbind(0))
    for position, element in zip(positions, part):
        flat[position] = element
    return facula.stack(flat).reshape(tuple(whole.shape))


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    x = leaf(rng.uniform(-1, 1, (3, 4)))
    w = leaf(rng.uniform(0.5, 1.5))
    written, plain = x * 1, x * 1
    early = [VIEWS[rng.integers(len(VIEWS))] for _ in range(2)]
    early_views = [view(written) for view in early]
    steps = rng.integers(1, 5)
    for step in range(steps):
        view, op = VIEWS[rng.integers(len(VIEWS))], rng.integers(len(WRITES))
        if op in SAVE_RESULT and step + 1 < steps:
            op = 0  # a later write would overwrite what its derivative needs, which is an error
        pick = view if rng.random() < 0.8 else (lambda t: t)
        WRITES[op](pick(written), w)
        plain = replaced(plain, pick, FUNCTIONS[op](pick(plain), w))
    weights = facula.tensor(rng.uniform(-1, 1, (3, 4)))
    found = (written * weights).sum() + sum((v * v).sum() for v in early_views)
    expected = (plain * weights).sum() + sum((view(plain) * view(plain)).sum() for view in early)
    np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-12)
    if not expected.requires_grad:
        return
    for a, b in zip(grad(found, [x, w], allow_unused=True), grad(expected, [x, w], allow_unused=True)):
        left = 0 if a is None else a.numpy()
        right = 0 if b is None else b.numpy()
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


def test_views_made_before_the_base_got_a_history():
    base, w = facula.zeros(3, dtype=facula.float64), leaf(2.0)
    view = base[0]
    base.add_(w)
    assert view.requires_grad
    (view * 3).backward()
    assert w.grad.item() == 3.0


def test_rows_written_into_a_buffer():
    x = leaf([1.0, 2.0, 3.0])
    buffer = facula.zeros(3, 3, dtype=facula.float64)
    for i in range(3):
        buffer[i] = x * float(i)
    buffer.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_real_part_of_a_complex_tensor():
    x = leaf([1.0, 2.0])
    z = facula.zeros(2, dtype=facula.complex128)
    z.real.copy_(x)
    z.imag.copy_(x * 2)
    (z.real * 3 + z.imag).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_in_place_nodes_keep_no_copy():
    x = leaf([1.0, -1.0])
    y = x * 1
    y.relu_()
    assert y.grad_fn.name() == "ReluBackward0"
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"


def test_second_derivative_through_a_write():
    x = leaf([1.0, 2.0])
    y = x * x
    y[0].mul_(x[1])
    (g,) = grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), [4.0, 5.0])
    (h,) = grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), [2 * 2.0 + 2.0, 2.0 + 2.0])


def test_detach_in_place():
    x = leaf([1.0])
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="^detach_: .*views"):
        (x * 2)[0].detach_()


def test_retain_grad_follows_the_value():
    x = leaf([1.0])
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.item() == 1.0 and x.grad.item() == 6.0


def test_a_view_made_without_grad_is_not_written_with_it():
    x = facula.ones(3, requires_grad=True)
    y = x * 1
    with facula.no_grad():
        view = y[:2]
        view.mul_(2)
    with pytest.raises(RuntimeError, match="^mul_: a view made under no_grad"):
        view.mul_(5)
    with pytest.raises(RuntimeError, match="^fill_: a view made under no_grad"):
        view.fill_(5)
    with facula.no_grad():
        free = facula.zeros(3)[:2]
    free.mul_(x[:2])
    assert free.requires_grad


def test_writes_reach_tangents():
    from facula.autograd import forward_ad as fw

    x, t = facula.tensor([1.0, 2.0]), facula.tensor([1.0, 1.0])
    for write, expected in (
        (lambda y: y.fill_(5.0), [0, 0]),
        (lambda y: y[:1].fill_(5.0), [0, 1]),
        (lambda y: y.__setitem__(0, 5.0), [0, 1]),
        (lambda y: y.__setitem__(0, facula.tensor(5.0)), [0, 1]),
        (lambda y: y.zero_().add_(1), [0, 0]),
        (lambda y: y.mul_(3), [3, 3]),
    ):
        for switch in (facula.enable_grad, facula.no_grad):
            with fw.dual_level(), switch():
                y = fw.make_dual(x, t) * 1
                write(y)
                assert fw.unpack_dual(y).tangent.tolist() == expected
    with fw.dual_level():
        y = fw.make_dual(x, t)
        y.unsqueeze_(0).t_()
        assert fw.unpack_dual(y * y).tangent.tolist() == [[2.0], [4.0]]
        y.mul_(3)
        assert fw.unpack_dual(y).tangent.tolist() == [[3.0], [3.0]]


def test_limits_written_in_place_keep_no_copy_of_their_input():
    x = facula.randn(64, 1024, requires_grad=True)
    y = x * 8
    before = facula.cpu.memory_stats()["allocated_bytes.current"]
    z = facula.nn.functional.relu6(y, inplace=True)
    assert z is y or z.data_ptr() == y.data_ptr()
    assert facula.cpu.memory_stats()["allocated_bytes.current"] - before < y.numel() * y.element_size()
    z.sum().backward()
    inside = (x > 0) & (x * 8 < 6)
    assert facula.equal(x.grad, inside * 8.0)


def test_a_view_of_a_leaf_that_shows_another_tensor_is_not_written():
    """The history of a view follows from its base, which knows nothing of a leaf that was made of a view."""
    with facula.no_grad():
        leaf = facula.zeros(2).view(2)
    leaf.requires_grad_()
    shown = leaf.view(2)
    with pytest.raises(RuntimeError, match="div_: a view of a view made under no_grad"):
        shown /= 2
    with facula.no_grad():
        shown /= 2
