"""Tensors that change after nodes have saved them give within a memory budget what they give without one."""

from __future__ import annotations

import pytest
from budget_uses import ROWS, WIDE, alike, every_storage, layers  # noqa: F401

import facula

CHANGES = {}


def change(f):
    CHANGES[f.__name__] = f
    return f


@change
def other_data(y, square, w):
    y.data = facula.full_like(y, 2)
    square.sum().backward()


@change
def other_data_of_another_version(y, square, w):
    y.data = facula.ones_like(y).mul_(2)
    square.sum().backward()


@change
def other_data_twice(y, square, w):
    y.data = facula.zeros_like(y)
    y.data = facula.full_like(y, 3)
    square.sum().backward()


@change
def other_data_of_a_view(y, square, w):
    view = y.t()
    product = view * view
    view.data = facula.full((WIDE, WIDE), 2.0)  # y stays as it is
    (square.sum() + product.sum()).backward()


@change
def other_data_after_a_write(y, square, w):
    y.mul_(2)
    y.data = facula.full_like(y, 2)
    square.sum().backward()


@change
def other_memory(y, square, w):
    with facula.no_grad():
        y.set_(facula.full_like(y, 2))
    square.sum().backward()


@change
def other_memory_twice(y, square, w):
    with facula.no_grad():
        y.set_(facula.full_like(y, 2).mul_(1).mul_(1).mul_(1))
        y.set_(facula.full_like(y, 2).mul_(1))
        y.set_(facula.full_like(y, 2))
    square.sum().backward()


@change
def memory_of_a_saved_value(y, square, w):
    other = facula.empty(0).set_(y.detach())
    other = facula.empty(0).set_(y.detach().untyped_storage(), 0, (WIDE, WIDE), (1, WIDE))
    square.sum().backward()
    return [other]


@change
def no_history_any_more(y, square, w):
    y.detach_()
    (first,) = facula.autograd.grad(square.sum(), w, create_graph=True)
    first.sum().backward()


@change
def memory_that_grows(y, square, w):
    leaf = facula.ones(WIDE, WIDE, requires_grad=True)
    scratch = facula.ones(WIDE, WIDE) * 2
    product = leaf * scratch
    scratch.resize_(2 * WIDE, WIDE)
    product.sum().backward()


@change
def writes_that_are_seen_late(y, square, w):
    y.mul_(2)
    array = y.detach().numpy()
    y.add_(1).sub_(1)
    square.sum().backward()
    return [facula.from_numpy(array)]


@change
def writes_after_the_value_was_gone(y, square, w):
    y.mul_(2)
    y.add_(1)
    del y
    square.sum().backward()


@pytest.mark.parametrize("name", CHANGES)
def test_a_tensor_that_changes_after_it_was_saved(name):
    def make():
        model, deep_x = layers(), facula.randn(ROWS, WIDE)
        x, w = facula.randn(WIDE, WIDE), facula.randn(WIDE, WIDE, requires_grad=True)

        def run():
            deep = model(deep_x).mean()
            y = x * w * w
            square = y * y
            seen = []
            try:
                seen += CHANGES[name](y, square, w) or []
            except RuntimeError as error:
                seen.append(str(error))
            deep.backward()
            return [*seen, w.grad, *(p.grad for p in model.parameters())]

        return run

    alike(make, 75)


def test_a_tensor_on_other_memory_lets_nothing_else_fail():
    kept = facula.ones(3)
    w = facula.ones(3, requires_grad=True)
    product = kept * w
    other = facula.zeros(3)
    versions = kept._version
    other.set_(kept)
    assert kept._version == versions and other.data_ptr() == kept.data_ptr()
    product.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    product = other * w
    for source in (facula.full((3,), 2.0), facula.full((3,), 2.0).mul_(1), facula.full((3,), 2.0)):
        other.set_(source)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward(retain_graph=True)
