"""DTensors that are still to be summed: how they go through ops."""

import pytest
from distributed_ranks import needs_mpi, run_ranks
from dtensor_setup import SETUP

pytestmark = needs_mpi

SUMS = SETUP + """
# what is still to be summed goes through ops, with gradients
from facula.distributed.tensor import _rules
from facula.distributed.tensor.placement_types import _NormPartial
P, AVG, MAX, MIN = Partial(), Partial("avg"), Partial("max"), Partial("min")
join = {"sum": lambda t: t.sum(0), "avg": lambda t: t.mean(0), "max": lambda t: t.amax(0), "min": lambda t: t.amin(0)}
def given(shape, layout, seed):
    # (a leaf of this process, the DTensor of it, what it stands for)
    if not isinstance(layout, Partial):
        t = values(*shape, seed=seed) + 3
        leaf = distribute_tensor(t.clone().requires_grad_(), mesh, [layout])
        return leaf, leaf, t
    parts = facula.stack([values(*shape, seed=seed + 10 * r) + 3 for r in range(SIZE)])
    leaf = parts[RANK].clone().requires_grad_()
    return leaf, DTensor.from_local(leaf, mesh, [layout]), join[layout.reduce_op](parts)
def through(fn, shapes, layouts, out, what):
    leaves, parts, wholes = zip(*(given(s, l, i) for i, (s, l) in enumerate(zip(shapes, layouts))))
    plain = [t.clone().requires_grad_() for t in wholes]
    _rules.fallbacks.clear()
    result, expected = fn(*parts), fn(*plain)
    assert result.placements == (out,), (what, layouts, result.placements)
    assert not _rules.fallbacks, (what, _rules.fallbacks)
    close(result, expected, (what, layouts))
    weight = values(*expected.shape, seed=9)
    (expected * weight).sum().backward()
    (result * distribute_tensor(weight, mesh, [R])).sum().backward()
    for leaf, layout, q in zip(leaves, layouts, plain):
        if layout in (MAX, MIN):
            continue
        share = SIZE if layout == AVG else 1
        close(leaf.grad * share, q.grad, (what, layouts))
    return result
square = (6, 6)
for p in (P, AVG):
    for name, fn in {
        "scale": lambda x: -x * 2 / 4, "view": lambda x: x.view(3, 12), "transpose": lambda x: x.t().unsqueeze(1), "slices": lambda x: x[1:, ::2], "split": lambda x: x.split(2)[1],
        "cat": lambda x: facula.cat([x, x], 1), "stack": lambda x: facula.stack([x, x]), "flip": lambda x: x.flip(0), "roll": lambda x: x.roll(1, 1), "pad": lambda x: F.pad(x, (1, 2)),
        "repeat": lambda x: x.repeat(2, 1), "expand": lambda x: x.unsqueeze(0).expand(3, 6, 6), "select": lambda x: x.index_select(0, distribute_tensor(facula.tensor([0, 4]), mesh, [R]) if isinstance(x, DTensor) else facula.tensor([0, 4])),
    }.items():
        through(fn, [square], [p], p, name)
    for layouts in ((p, p), (p, R), (R, p)):
        through(lambda x, y: x + y, [square] * 2, layouts, p, "add")
        through(lambda x, y: x - y, [square, (6,)], layouts, p, "sub")
        if layouts != (p, p):
            through(lambda x, y: x * y, [square] * 2, layouts, p, "mul")
            through(lambda x, y: x @ y, [square] * 2, layouts, p, "matmul")
            through(lambda x, y: facula.addmm(y, x, y, alpha=2.0, beta=0.5), [square] * 2, layouts, p, "addmm")
    through(lambda x, y: x / y, [square] * 2, (p, R), p, "div")
    through(lambda x, y: x / y, [square] * 2, (R, p), R, "div below")
    through(lambda x: 2 / x + 1, [square], (p,), R, "rdiv")
through(lambda x: x.sum(1), [square], [P], P, "sum")
through(lambda x: x.sum(1), [square], [AVG], R, "sum of averages")
through(lambda x: x.mean((0, 1)), [square], [AVG], AVG, "mean")
through(lambda x: x.mean(0, keepdim=True), [(2 * SIZE, 3)], [S0], AVG, "mean")
through(lambda x: x.mean(0), [(2 * SIZE + 1, 3)], [S0], P, "mean of unlike parts")
for name, fn in (("exp", lambda x: x.exp()), ("relu", lambda x: x.relu()), ("amax", lambda x: x.view(6, 6))):
    through(fn, [square], [MAX], MAX, name)
through(lambda x: -x, [square], [MAX], MIN, "neg")
through(lambda x: facula.erfc(x), [square], [MIN], MAX, "erfc")
# rows of a bias come once, whatever is summed
through(lambda x, w, b: F.linear(x, w, b), [(5, 8), (6, 8), (6,)], [S1, S1, R], P, "linear")
through(lambda a, b: a @ b, [square, (6,)], [S0, R], S0, "mv")
through(lambda a, b: a @ b, [(6,), (6,)], [S0, S0], P, "dot")
through(lambda a, b: facula.outer(a, b), [(6,), (4,)], [S0, R], S0, "outer")
through(lambda a, b: facula.mv(a, b), [square, (6,)], [S1, R], P, "mv")
# norms, whose powers are summed
for order in (1, 2, 3.0):
    for layout, dim, out in ((S0, None, "norm"), (S1, 1, "norm"), (S0, 0, "norm"), (S0, 1, S0), (R, 0, R), (P, None, R), (S1, (0, 1), "norm")):
        for keepdim in (False, True):
            out = _NormPartial("sum", float(order)) if out == "norm" else out
            through(lambda x: facula.linalg.vector_norm(x, order, dim, keepdim), [square], [layout], out, ("norm", order, dim))
d = distribute_tensor(values(6, 6), mesh, [S1])
norm = facula.linalg.vector_norm(d, float("inf"), 1)
assert norm.placements == (MAX,)
close(norm, values(6, 6).abs().amax(1))
zero = distribute_tensor(facula.zeros(4).requires_grad_(), mesh, [S0])
facula.linalg.vector_norm(zero).full_tensor().backward()
assert zero.grad.full_tensor().tolist() == [0.0] * 4
# losses that are no sums
x = distribute_tensor(values(2 * SIZE, 3).requires_grad_(), mesh, [S0])
loss = (x * x).mean()
assert loss.placements == (AVG,)
loss.backward()
expected = values(2 * SIZE, 3) / (3 * SIZE)
close(x.grad, expected)
(g,) = facula.autograd.grad((x * x).mean(), x)
assert g.placements == (S0,)
close(g, expected)
facula.autograd.backward([(x * x).mean()])
close(x.grad, 2 * expected)
facula.linalg.vector_norm(x).backward()
close(x.grad, 2 * expected + values(2 * SIZE, 3) / values(2 * SIZE, 3).norm())
# without gradients: whole or along dimensions
x = values(5, 4)
for layout in (R, S0, S1):
    d = distribute_tensor(x, mesh, [layout])
    for name in ("max", "min", "prod"):
        close(getattr(d, name)(), getattr(x, name)())
    close(d.prod(0), x.prod(0))
    for dim in (0, 1):
        for found, expected in ((d.max(dim), x.max(dim)), (d.min(dim, keepdim=True), x.min(dim, keepdim=True)), (d.sort(dim), x.sort(dim)), (d.topk(2, dim), x.topk(2, dim))):
            assert type(found) is type(expected)
            close(found.values, expected.values)
            close(found.indices, expected.indices)
        for name in ("var", "std", "logsumexp"):
            close(getattr(d, name)(dim), getattr(x, name)(dim), name)
            close(getattr(d, name)(dim, keepdim=True), getattr(x, name)(dim, keepdim=True), name)
        close(F.glu(d, 1), F.glu(x, 1))
        close((d > 0).any(dim), (x > 0).any(dim))
        close((d > -9).all(dim), (x > -9).all(dim))
        i = facula.arange(12).view(3, 4) % 3
        close(d.gather(0, distribute_tensor(i, mesh, [R])), x.gather(0, i))
    close((d > 0).any(), (x > 0).any())
    close((d > 0).all(), (x > 0).all())
    c = facula.view_as_complex(d.view(5, 2, 2))
    assert c.shape == (5, 2) and facula.view_as_real(c).shape == (5, 2, 2)
    close(facula.view_as_real(c), x.view(5, 2, 2))
# in place
a, b = facula.full((3,), float(RANK)), distribute_tensor(facula.ones(3), mesh, [R])
d = DTensor.from_local(a, mesh, [P])
d.mul_(2).add_(d).sub_(b).copy_(d)
close(d, facula.full((3,), 4.0 * sum(range(SIZE)) - 1))
assert d.placements == (P,)
close(d.zero_(), facula.zeros(3))
raised(lambda: d.add_(1), "add_", "still to be summed")
raised(lambda: d.fill_(1), "fill_", "still to be summed")
raised(lambda: d.mul_(d), "mul_", "still to be summed")
print("ok")
"""


@pytest.mark.parametrize("size", [2, 3])
def test_sums(size):
    assert run_ranks(SUMS, size) == ["ok\n"] * size
