"""Many threads at once: recorded tensors, graphs, nodes in Python, hooks, modules that train."""

import copy

import numpy as np
import pytest
from many_threads import THREADS, together

import facula as torch
from facula import nn


@pytest.fixture(autouse=True)
def one_thread_for_each_op():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_writing_a_recorded_tensor():
    """Who writes to one tensor with a history at the same time gets some history, and an error at worst."""
    for _ in range(30):
        leaf = torch.ones(4, requires_grad=True)
        shared = leaf * 1

        def work(number, shared=shared):
            for _ in range(5):
                shared.mul_(1.0)
                shared.grad_fn.name()
            return True

        together(work)
        shared.sum().backward()
        assert leaf.grad is not None


def test_backward_through_shared_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    inputs = [torch.randn(5, 6, dtype=torch.float64) for _ in range(THREADS)]
    for x in inputs:
        model(x).square().sum().backward()
    expected = [20 * p.grad.clone() for p in model.parameters()]
    model.zero_grad()

    def work(number):
        for _ in range(20):
            model(inputs[number]).square().sum().backward()

    together(work)
    for p, wanted in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), wanted.numpy(), rtol=1e-9)


def test_one_graph_and_several_passes():
    leaf = torch.ones(8, requires_grad=True)
    loss = (leaf * leaf).exp().sum()

    def work(number):
        for _ in range(30):
            torch.autograd.grad(loss, leaf, retain_graph=True)
            loss.backward(retain_graph=True)

    together(work)
    np.testing.assert_allclose(leaf.grad.numpy(), np.full(8, 30 * THREADS * 2 * np.e), rtol=1e-5)


def test_functions_in_python():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.twice = 2
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.twice * x

    leaf = torch.full((3,), 2.0, requires_grad=True)

    def work(number):
        for _ in range(60):
            y = Square.apply(leaf)
            assert y.grad_fn.name() == "SquareBackward"
            y.sum().backward()

    together(work)
    assert leaf.grad.tolist() == [60.0 * THREADS * 4] * 3


def test_contexts_while_their_nodes_die():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    leaf = torch.ones(2, requires_grad=True)
    for _ in range(40):
        held = [Same.apply(leaf)]
        context = held[0].grad_fn

        def work(number, held=held, context=context):
            if number == 0:
                held.clear()
                return True
            for _ in range(10):
                saved = context.saved_tensors
                assert saved == () or saved[0] is leaf
            return True

        assert all(together(work))


def test_hooks_come_and_go():
    leaf = torch.ones(4, requires_grad=True)
    called = []

    def work(number):
        for _ in range(40):
            handle = leaf.register_hook(lambda grad: called.append(1))
            y = (leaf * 2).sum()
            y.register_hook(lambda grad: grad)
            y.backward()
            handle.remove()
        return True

    together(work)
    assert leaf.grad.tolist() == [2.0 * 40 * THREADS] * 4
    assert len(called) >= 40 * THREADS
    leaf.grad = None
    (leaf * 2).sum().backward()
    assert not leaf._backward_hooks


def test_hooks_of_modules_and_attributes():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.ones(2, 4)
    with torch.no_grad():
        expected = model(x).tolist()
    marked = torch.ones(2)

    def work(number):
        calls = []
        for i in range(60):
            handle = model.register_forward_hook(lambda *_: calls.append(1))
            with torch.no_grad():
                assert model(x).tolist() == expected
            handle.remove()
            setattr(marked, f"a{number}", i)
            assert getattr(marked, f"a{number}") == i
            marked.__dict__[f"b{number}"] = i
        return len(calls)

    assert all(n >= 60 for n in together(work))
    assert len(marked.__dict__) == 2 * THREADS


def test_state_dicts_while_others_train():
    models = [nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)) for _ in range(THREADS)]
    shared = nn.Linear(4, 4)

    def work(number):
        model, losses = models[number], []
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01) if number % 2 else torch.optim.SGD(
            model.parameters(), lr=0.01, momentum=0.9)
        generator = torch.Generator().manual_seed(number)
        for _ in range(15):
            x = torch.randn(16, 4, generator=generator)
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            state = shared.state_dict()
            assert list(state) == ["weight", "bias"]
            copy.deepcopy(model).load_state_dict(model.state_dict())
        return losses

    for losses in together(work):
        assert losses[-1] < losses[0]
