"""Gradients through remote calls, and optimizers of parameters that other workers have."""

import pytest
from rpc_ranks import run

import facula
from facula import _C


def test_passes_whose_roots_get_their_gradients_one_by_one():
    x, w = facula.tensor([1.0, 2.0], requires_grad=True), facula.tensor([3.0, 4.0], requires_grad=True)
    shared = x * w
    first, second, third = shared * 2, shared.sum(), w * 5
    stepped = _C._stepped_pass((first, second, third), False)
    assert _C._stepped_pass_step(stepped, 2, (facula.ones(2),)) == []  # w waits for what the other roots bring
    assert _C._stepped_pass_step(stepped, 0, (facula.ones(2),)) == []
    found = dict(_C._stepped_pass_step(stepped, 1, (facula.tensor(1.0),)))
    assert found[x].tolist() == [9, 12] and found[w].tolist() == [5 + 3, 5 + 6] and x.grad is None
    assert _C._stepped_pass_step(stepped, 0, (facula.ones(2),)) == []  # each root once
    nothing = _C._stepped_pass((x * 1, x * w), True)
    assert _C._stepped_pass_step(nothing, 0, (None,)) == []
    assert [g.tolist() for _, g in _C._stepped_pass_step(nothing, 1, (facula.ones(2),))] in ([[3, 4], [1, 2]], [[1, 2], [3, 4]])
    leaf_itself = _C._stepped_pass((x,), False)
    assert _C._stepped_pass_step(leaf_itself, 0, (facula.ones(2),))[0][0] is x
    wrong = _C._stepped_pass((x * 1,), False)
    for arguments, kind in (
        ((wrong, -1, ()), ValueError),
        ((wrong, 0, (facula.ones(2),) * 2), ValueError),
        ((wrong, 2, ()), ValueError),
        ((wrong, 0, (3,)), TypeError),
        ((wrong, 0, (facula.ones(5),)), RuntimeError),
        ((wrong, 0, [facula.ones(2)]), TypeError),
        ((3, 0, ()), ValueError),
    ):
        with pytest.raises(kind):
            _C._stepped_pass_step(*arguments)
    with pytest.raises(RuntimeError, match="root 1"):
        _C._stepped_pass((x, facula.ones(1)), False)


def test_gradients_through_other_workers():
    run(
        """
weight = facula.tensor([2.0, 3.0], requires_grad=True)
def scale(x): return x * weight
def there(context): return dist_autograd.get_gradients(context)[weight], weight.grad
---
if RANK == 0:
    x = facula.tensor([1.0, 4.0], requires_grad=True)
    with dist_autograd.context() as context:
        y = rpc.rpc_sync("worker1", scale, (x,))
        assert y.requires_grad and y.grad_fn.name() == "RecvRpcBackward"
        z = rpc.rpc_sync("worker1", scale, (y * x,))  # back and forth: x^2 w^2
        dist_autograd.backward(context, [z.sum()], retain_graph=True)
        gradients = dist_autograd.get_gradients(context)
        assert list(gradients) == [x] and gradients[x].tolist() == [2 * 1 * 4, 2 * 4 * 9] and x.grad is None
        gradient, grad = rpc.rpc_sync("worker1", there, (context,))
        assert gradient.tolist() == [2 * 2 * 1, 2 * 3 * 16] and grad is None
        dist_autograd.backward(context, [z.sum()])  # once more, added up
        assert dist_autograd.get_gradients(context)[x].tolist() == [16, 144]
        raised(lambda: dist_autograd.backward(context, [z.sum()]), "RuntimeError", "an earlier pass")
        raised(lambda: dist_autograd.backward(context, []), "RuntimeError", "got none")
        raised(lambda: dist_autograd.backward(context, [z]), "RuntimeError", "one element", "(2,)")
        raised(lambda: dist_autograd.backward(context, [facula.ones(())]), "RuntimeError", "requires grad")
        raised(lambda: dist_autograd.backward(99, [z.sum()]), "RuntimeError", "99")
        raised(dist_autograd.context().__enter__, "RuntimeError", "already")
        w = rpc.rpc_sync("worker1", scale, (x,))
        raised(lambda: w.sum().backward(), "RuntimeError", "distributed.autograd.backward")
    raised(lambda: dist_autograd.get_gradients(context), "RuntimeError", "get_gradients")
    until(lambda: rpc.rpc_sync("worker1", dist_autograd._get_debug_info)["num_autograd_contexts"] == 0)
    y = rpc.rpc_sync("worker1", scale, (x,))
    assert y.is_leaf  # outside of contexts nothing is recorded
"""
    )


def test_gradients_over_three_workers_equal_those_of_one_process():
    run(
        """
facula.manual_seed(1)
layers = [facula.nn.Linear(4, 4).double() for _ in range(3)]
def layer(i, x, hops):
    y = facula.tanh(layers[i](x))
    return y if not hops else y + rpc.rpc_sync(f"worker{(RANK + 1) % 3}", layer, ((i + 1) % 3, y, hops - 1))
def gradients(context):
    found = dist_autograd.get_gradients(context)
    return [found.get(p) for l in layers for p in l.parameters()]
def alone(i, x, hops):
    y = facula.tanh(layers[i](x))
    return y if not hops else y + alone((i + 1) % 3, y, hops - 1)
---
if RANK == 0:
    x = facula.linspace(-1, 1, 8, dtype=facula.float64).reshape(2, 4)
    expected = facula.autograd.grad(alone(0, x, 5).sum() + alone(1, x, 2).pow(2).sum(), [p for l in layers for p in l.parameters()])
    with dist_autograd.context() as context:
        first = rpc.rpc_async("worker1", layer, (1, x, 2))
        loss = layer(0, x, 5).sum() + first.wait().pow(2).sum()
        dist_autograd.backward(context, [loss])
        parts = [rpc.rpc_sync(f"worker{r}", gradients, (context,)) for r in range(3)]
        for i, e in enumerate(expected):
            total = sum(part[i] for part in parts if part[i] is not None)
            assert facula.allclose(total, e), (i, total, e)
""",
        size=3,
    )


def test_results_that_the_loss_does_not_use():
    """What waits for their gradients runs all the same: in PyTorch's FAST mode it would not."""
    run(
        """
weight = facula.tensor([2.0], requires_grad=True)
def scale(x): return x * weight
def twice(x): return rpc.rpc_sync("worker0", scale, (x * weight,))
def there(context): return dist_autograd.get_gradients(context).get(weight)
---
if RANK == 0:
    x = facula.tensor([5.0], requires_grad=True)
    with dist_autograd.context() as context:
        y, unused = rpc.rpc_sync("worker1", scale, (x,)), rpc.rpc_sync("worker1", scale, (x * 2,))
        far_unused = rpc.rpc_sync("worker1", twice, (y,))
        z = rpc.rpc_sync("worker1", twice, (x,))  # x w1 w0
        dist_autograd.backward(context, [y.sum() + z.sum()])
        assert dist_autograd.get_gradients(context)[x].tolist() == [2 + 4]
        assert dist_autograd.get_gradients(context)[weight].tolist() == [10]
        assert rpc.rpc_sync("worker1", there, (context,)).tolist() == [5 + 10]
"""
    )


def test_backward_from_a_reference_and_failing_backward():
    run(
        """
class Fails(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): raise ArithmeticError("in the formula")
def square(x): return (x * x).sum()
def fails(x): return Fails.apply(x)
def leaf(): return facula.ones(3, requires_grad=True)
---
if RANK == 0:
    x = facula.tensor([3.0], requires_grad=True)
    with dist_autograd.context() as context:
        rref = rpc.remote("worker1", square, (x,))
        rref.backward(context)
        assert dist_autograd.get_gradients(context)[x].tolist() == [6]
        bad = rpc.rpc_sync("worker1", fails, (x,)).sum()
        raised(lambda: dist_autograd.backward(context, [bad]), "ArithmeticError", "in the formula", "WorkerInfo(id=1")
    rref = rpc.remote("worker1", facula.ones, (), {"size": (), "requires_grad": True})
    rref.backward()
    assert rref.to_here().requires_grad
    raised(rpc.remote("worker1", same, (3,)).backward, "RuntimeError", "Tensor", "int")
    local = RRef(square(x))
    local.backward()
    assert x.grad.tolist() == [6]
"""
    )


def test_optimizers_of_other_workers_parameters():
    run(
        """
from facula.distributed.optim import DistributedOptimizer
from facula.distributed.nn import RemoteModule
class Net(facula.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = facula.nn.Linear(3, width)
        with facula.no_grad():
            for p in self.parameters(): p.fill_(0.5)
    def forward(self, x): return self.layer(x)
def forward_of(remote, x): return remote(x)
---
if RANK == 0:
    remote = RemoteModule("worker1/cpu", Net, (2,))
    here = Net(2)
    expected = Net(2)
    second = Net(2)
    parameters = remote.remote_parameters() + [RRef(p) for p in here.parameters()]
    assert [p.owner_name() for p in parameters] == ["worker1"] * 2 + ["worker0"] * 2
    optimizer = DistributedOptimizer(facula.optim.Adam, parameters, lr=0.1)
    reference = facula.optim.Adam([*expected.parameters(), *second.parameters()], lr=0.1)
    for step in range(3):
        x = facula.full((4, 3), step + 1.0)
        with dist_autograd.context() as context:
            loss = (remote(x) * here(x)).sum() + remote.forward_async(x).wait().sum()
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
        reference.zero_grad()
        (expected(x) * second(x) + expected(x)).sum().backward()
        reference.step()
    for p, e in zip(parameters, [*expected.parameters(), *second.parameters()]):
        assert facula.allclose(p.to_here(), e), (p.to_here(), e)
    assert all(p.grad is None for p in here.parameters())
    assert remote.training and not remote.eval().training and not remote.module_rref.to_here().training
    assert facula.equal(rpc.rpc_sync("worker1", forward_of, (remote, x)), remote(x))
    again = RemoteModule.init_from_module_rref("worker1/cpu", remote.get_module_rref())
    assert facula.equal(again(x), remote(x))
    raised(remote.parameters, "ValueError", "remote_parameters")
    raised(lambda: remote.to("cpu"), "ValueError", "another worker")
    raised(lambda: RemoteModule("worker1/cpu", Net, ("x",)), "TypeError")
    raised(lambda: RemoteModule("worker1/cpu", Counter), "ValueError", "nn.Module")
    raised(lambda: RemoteModule("/cpu", Net), "ValueError", "'/cpu'")
    raised(lambda: RemoteModule("nobody/cpu", Net, (2,)), "RuntimeError", "'nobody'")
    raised(lambda: DistributedOptimizer(facula.optim.SGD, []), "ValueError", "got none")
    raised(lambda: DistributedOptimizer(facula.optim.SGD, parameters, lr=-1), "ValueError", "-1")
    raised(lambda: optimizer.step(77), "RuntimeError", "77")
"""
    )
