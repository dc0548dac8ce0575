"""Gradients of many views of one tensor, and when they are copied."""

from __future__ import annotations

import numpy as np
import pytest

import facula

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values, dtype=facula.float64):
    return facula.tensor(values, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64", "complex64"])
def test_views_as_another_dtype_have_no_history(dtype):
    x = leaf([1.0, 2.0, 3.0, 4.0], facula.float32)
    for base in (x, x * 2, facula.zeros(4)):
        view = base.view(getattr(facula, dtype))
        assert not view.requires_grad and view.grad_fn is None and not view._is_view()
        assert view.data_ptr() == base.data_ptr()
    with pytest.raises(RuntimeError, match="require"):
        view.abs().sum().backward()
    base.mul_(x)
    assert base.requires_grad and not view.requires_grad
    y = x * 1
    loss = y.sin().sum()
    y.view(getattr(facula, dtype)).zero_()  # the write is counted
    with pytest.raises(RuntimeError, match="modif"):
        loss.backward()


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
    assert view.requires_grad and view.is_leaf  # as its base, whose history it has not


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


def test_rows_of_a_tensor_without_history_are_written():
    for views in (facula.unbind, lambda t: t.split(1), lambda t: t.chunk(2), list):
        x = facula.zeros(2, 3)
        for i, row in enumerate(views(x)):
            row[..., 0] = i + 1
            row[..., 1].fill_(7)
            row[..., 2].uniform_(2, 3)
        assert x[:, 0].tolist() == [1, 2] and x[:, 1].tolist() == [7, 7] and (x[:, 2] >= 2).all()
        y = leaf([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]) * 1
        with pytest.raises(RuntimeError, match="multiple views"):
            views(y)[0].fill_(1)
        with pytest.raises(RuntimeError, match="multiple views"):
            views(facula.zeros(2, 3, dtype=facula.float64))[0].add_(y[0])


@pytest.mark.parametrize("change", [
    lambda z: z.mul_(2 + 1j),
    lambda z: z.reshape(4).mul_(2 + 1j),
    lambda z: z[1:].mul_(2 + 1j),
    lambda z: z.conj().mul_(2 + 1j),
    lambda z: z.transpose(0, 1)[1].conj().mul_(2 + 1j),
])  # fmt: skip
def test_numbers_made_of_a_base_of_parts_are_written_with_both_parts_of_the_gradient(change):
    """Views as complex numbers of a real base count places in parts, in the gradient of the base as in the view's history."""
    start = facula.arange(8.0, dtype=facula.float64).reshape(2, 2, 2)

    def written(x):
        parts = x.clone()
        change(facula.view_as_complex(parts))
        return parts

    x = start.clone().requires_grad_()
    facula.autograd.gradcheck(lambda x: written(x) * facula.arange(1.0, 9.0, dtype=facula.float64).reshape(2, 2, 2), (x,))

    def seen(x):
        return change(facula.view_as_complex(x.clone())).abs().sum()

    facula.autograd.gradcheck(seen, (start.add(1.0).requires_grad_(),))
