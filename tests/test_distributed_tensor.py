"""DTensors: in every layout the values and the gradients of one process."""

import pytest
from distributed_ranks import needs_mpi, run_ranks
from dtensor_setup import SETUP

from facula.distributed.tensor import Partial, Replicate, Shard

pytestmark = needs_mpi

LAYOUTS = SETUP + """
x = values(5, 4, 6)
every = [R, S0, S1, S2]
for a in every:
    d = distribute_tensor(x, mesh, [a])
    assert d.shape == (5, 4, 6) and d.size(1) == 4 and d.numel() == 120 and d.dim() == 3 and d.placements == (a,) and len(d) == 5
    assert facula.equal(d.full_tensor(), x)
    if a is not R:
        assert facula.equal(d.to_local(), x.chunk(SIZE, a.dim)[RANK] if RANK < len(x.chunk(SIZE, a.dim)) else x.narrow(a.dim, 0, 0))
    for b in every:
        e = d.redistribute(placements=[b])
        assert e.placements == (b,) and facula.equal(e.full_tensor(), x)
        y = distribute_tensor(x.clone().requires_grad_(), mesh, [a])
        (y.redistribute(placements=[b]) * y.redistribute(placements=[b])).sum().backward()
        close(y.grad, 2 * x)
# still to be summed
local = values(4, 4, seed=RANK)
total = sum(values(4, 4, seed=r) for r in range(SIZE))
for op, expected in (("sum", total), ("avg", total / SIZE)):
    p = DTensor.from_local(local.clone().requires_grad_(), mesh, [Partial(op)])
    for b in (R, S0, S1):
        close(p.redistribute(placements=[b]), expected, op)
part = local.clone().requires_grad_()
(DTensor.from_local(part, mesh, [Partial()]).redistribute(placements=[S0]) * 3).sum().backward()
assert part.grad.unique().tolist() == [3.0]
close(DTensor.from_local(values(4, seed=RANK), mesh, [Partial("max")]), facula.stack([values(4, seed=r) for r in range(SIZE)]).amax(0))
close(distribute_tensor(x, mesh, [R]).redistribute(placements=[Partial()]), x)
# from and to parts
part = values(2, 3, seed=RANK).requires_grad_()
d = DTensor.from_local(part, mesh, [S0])
assert d.shape == (2 * SIZE, 3)
(d * 2).to_local().sum().backward()
assert part.grad.unique().tolist() == [2.0]
w = distribute_tensor(facula.ones(3).requires_grad_(), mesh, [R])
(w.to_local(grad_placements=[Partial()]) * (RANK + 1)).sum().backward()
assert w.grad.to_local().tolist() == [SIZE * (SIZE + 1) / 2] * 3
# only one process's values count
assert distribute_tensor(facula.full((2,), float(RANK)), mesh, [R]).to_local().tolist() == [0.0, 0.0]
# two dimensions of the mesh
if SIZE == 4:
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    for layout in itertools.product(every, every):
        d = distribute_tensor(x, grid, layout)
        close(d, x, layout)
        for to in itertools.product(every, every):
            close(d.redistribute(placements=to), x, (layout, to))
            y = distribute_tensor(x.clone().requires_grad_(), grid, layout)
            y.redistribute(placements=to).sum().backward()
            close(y.grad, facula.ones(5, 4, 6), (layout, to))
for make, options in ((dt.zeros, {}), (dt.ones, {}), (dt.empty, {})):
    assert make(4, 3, device_mesh=mesh, placements=[S0]).to_local().shape[1] == 3
assert dt.full((5,), 2.5, device_mesh=mesh, placements=[S0]).full_tensor().tolist() == [2.5] * 5
facula.manual_seed(1)
d = dt.randn(6, 2, device_mesh=mesh, placements=[S0])
facula.manual_seed(1)
close(d, facula.randn(6, 2))
raised(lambda: distribute_tensor(x, mesh, [Shard(3)]), "distribute_tensor", "3 dimensions", "Shard(dim=3)")
raised(lambda: distribute_tensor(x, mesh, [S0, S1]), "expected a placement for each of 1")
raised(lambda: distribute_tensor(x, mesh, [Partial()]), "not made partial")
raised(lambda: distribute_tensor(x, None, [S0]), "device_mesh must be given")
raised(lambda: distribute_tensor(x, mesh, [S0]) + x, "add", "do not mix", "distribute_tensor()")
with mesh:
    assert distribute_tensor(x).placements == (R,)
print("ok")
"""

OPS = SETUP + """
x, y, row, square, w, b = values(6, 4), values(6, 4, seed=1), values(4, seed=2), values(4, 4, seed=3), values(8, 4, seed=4), values(8, seed=5)
two = [R, S0, S1]
for a, c in itertools.product(two, two):
    check(lambda p, q: p * q + p, [x, y], [[a], [c]], "mul")
    check(lambda p, q: facula.where(p > 0, p, q), [x, y], [[a], [c]], "where")
    check(lambda p, q: p @ q, [x, square], [[a], [c]], "matmul")
    check(lambda p, q: F.linear(p, q), [x, w], [[a], [c]], "linear")
    for e in (R, S0):
        check(lambda p, q, r: F.linear(p, q, r), [x, w, b], [[a], [c], [e]], "linear with bias")
    check(lambda p, q: facula.bmm(p.unsqueeze(0), q.unsqueeze(0)), [x, square], [[a], [c]], "bmm")
    check(lambda p, q: p.t() @ q, [x, y], [[a], [c]], "t")
for a in two:
    for c in (R, S0):
        check(lambda p, q: p + q, [x, row], [[a], [c]], "add a row")
        check(lambda p, q: F.layer_norm(p, (4,), q, q, 1e-3), [x, row], [[a], [c]], "layer_norm")
    for fn in (
        lambda p: p.exp(), lambda p: 2 - p, lambda p: F.gelu(p), lambda p: p.sum(), lambda p: p.sum(0), lambda p: p.sum(1, keepdim=True),
        lambda p: p.mean(), lambda p: p.mean(0), lambda p: p.softmax(1), lambda p: F.log_softmax(p, 0), lambda p: p.view(3, 8), lambda p: p.view(-1),
        lambda p: p.view(6, 2, 2), lambda p: p.reshape(2, 3, 4), lambda p: p.T, lambda p: p.transpose(0, 1).permute(1, 0), lambda p: p[1:3],
        lambda p: p.cumsum(0), lambda p: facula.cat([p, p]), lambda p: p.std(), lambda p: p.norm(), lambda p: p.amax(1), lambda p: p.amin(),
        lambda p: p.float().clone().contiguous(), lambda p: p.sort(dim=0).values, lambda p: -p / 3 + 1, lambda p: p ** 2,
    ):
        check(fn, [x], [[a]], "one")
table, ids = values(7, 4, seed=6), facula.tensor([[0, 6, 3], [2, 2, 5]])
for a, c in itertools.product((R, S0, S1), (R, S0, S1)):
    check(lambda i, t: F.embedding(i, t), [ids, table], [[a], [c]], "embedding")
if SIZE == 4:
    grid = init_device_mesh("cpu", (2, 2))
    for a in itertools.product(two, two):
        for c in itertools.product((R, S0, S1), (R, S0)):
            check(lambda p, q: F.linear(p, q).relu(), [x, w], [a, c], "linear on a grid", grid)
        check(lambda p: p.sum(1), [x], [a], "sum on a grid", grid)
# the gradient of a gradient, in place, comparison, random numbers
d = distribute_tensor(x.clone().requires_grad_(), mesh, [S0])
loss = F.cross_entropy(d, facula.arange(6) % 4) if False else (d * d * d).sum()
g = facula.autograd.grad(loss, d, create_graph=True)[0]
g = DTensor.from_local(g, mesh, [S0]) if not isinstance(g, DTensor) else g
g.sum().backward()
close(d.grad, 6 * x)
d = distribute_tensor(x, mesh, [S0])
d.add_(1).mul_(distribute_tensor(y, mesh, [S1]))
close(d, (x + 1) * y)
d[0] = 0
expected = (x + 1) * y
expected[0] = 0
close(d, expected)
d.copy_(x)
close(d, x)
facula.manual_seed(3)
d.normal_()
facula.manual_seed(3)
close(d, x.clone().normal_())
facula.manual_seed(3)
kept = F.dropout(distribute_tensor(x, mesh, [S0]), 0.5)
facula.manual_seed(3)
close(kept, F.dropout(x, 0.5))
assert (distribute_tensor(x, mesh, [S1]).sum() > -1e9).item() is True
assert "DTensor(local_tensor=" in repr(d) and d.dtype == facula.float32 and d.device.type == "cpu"
raised(lambda: d.sum(0).redistribute(placements=[S0]).backward(), "backward", "whole or still to be summed") if SIZE == 2 else None
print("ok")
"""

PARTS = SETUP + """
from facula.distributed.tensor import _redistribute, _rules
x, y = values(4, 6, 8), values(4, 6, 8, seed=1)
def without_whole(fn, tensors, layouts, what, on=None):
    _rules.fallbacks.clear()
    check(fn, tensors, layouts, what, on)
    assert not _rules.fallbacks, (what, layouts, _rules.fallbacks)
def each(tensors_of):
    return lambda p: facula.cat([t.reshape(-1) * (i + 1) for i, t in enumerate(tensors_of(p))])
ones = {
    "split": each(lambda p: p.split(3, 1)), "sizes": each(lambda p: p.split([1, 5, 2], dim=2)), "chunk": each(lambda p: p.chunk(2, -1)),
    "unbind": each(lambda p: p.unbind(1)), "stack": lambda p: facula.stack([p, p * 2], 1), "cat": lambda p: facula.cat([p, p[:, :2]], 1),
    "squeeze": lambda p: p.unsqueeze(1).squeeze(1), "squeeze all": lambda p: p[:, :1].squeeze(), "flatten": lambda p: p.flatten(0, 1), "flatten all": lambda p: p.flatten(),
    "unflatten": lambda p: p.unflatten(2, (4, 2)), "expand": lambda p: p.unsqueeze(0).expand(3, -1, -1, -1), "stretch": lambda p: p[:, :1].expand(4, 5, 8), "slice": lambda p: p[1:3],
    "one": lambda p: p[2], "last": lambda p: p[..., -1], "steps": lambda p: p[:, ::2, None], "empty": lambda p: p[:, 3:3], "ints": lambda p: p[1, 2], "tril": lambda p: p.tril(1), "select": lambda p: p.select(1, 3),
    "narrow": lambda p: p.narrow(2, 1, 4), "repeat": lambda p: p.repeat_interleave(2, dim=1), "cumsum": lambda p: p.cumsum(1),
}
for name, fn in ones.items():
    for a in (R, S0, S1, S2):
        without_whole(fn, [x], [[a]], name)
for a in (R, S0, S1, S2):
    p = distribute_tensor(x, mesh, [a])
    assert facula.equal(p.argmax(1).full_tensor(), x.argmax(1)) and facula.equal(p.argmin(2, True).full_tensor(), x.argmin(2, True))
    for c in (R, S0, S2):
        for reduction in ("mean", "sum", "none"):
            without_whole(lambda p, q: F.mse_loss(p, q, reduction=reduction), [x, y], [[a], [c]], "mse")
# attention: heads and batches are cut, also where keys have fewer heads
q, k, v = values(4, 8, 5, 6), values(4, 4, 7, 6, seed=1), values(4, 4, 7, 3, seed=2)
wide = lambda t: t.repeat_interleave(2, dim=1)
mask = values(4, 1, 5, 7, seed=3)
for a in (R, S0, S1):
    for c in (R, S0, S1):
        without_whole(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), [q, k, v], [[a], [c], [c]], "gqa")
        without_whole(lambda q, k, v, m: F.scaled_dot_product_attention(q, wide(k), wide(v), m, scale=0.3), [q, k, v, mask], [[a], [c], [c], [R]], "mask")
        without_whole(lambda q, k: F.scaled_dot_product_attention(q, k[:, :, :5], k[:, :, :5], is_causal=True, enable_gqa=True), [q, k], [[a], [c]], "causal")
without_whole(lambda q, m: F.scaled_dot_product_attention(q, q, q, m), [q, values(5, 5)], [[S1], [R]], "mask of two dimensions")
# cross entropy: outputs cut along rows and classes, whose numbers do not divide; classes are never gathered
x, target = values(6, 7) * 3, facula.tensor([0, 6, 3, -100, 6, 2])
gathered = []
real = _redistribute._gather
_redistribute._gather = lambda local, dim, whole, group: gathered.append(tuple(local.shape)) or real(local, dim, whole, group)
grids = [(mesh, [[R], [S0], [S1]])]
if SIZE == 4:
    grid = init_device_mesh("cpu", (2, 2))
    grids.append((grid, list(itertools.product([R, S0, S1], repeat=2))))
for on, layouts in grids:
    for layout in layouts:
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 6}, {"label_smoothing": 0.2}):
            whole_x = x.clone().requires_grad_()
            part = distribute_tensor(x.clone().requires_grad_(), on, layout)
            expected = F.cross_entropy(whole_x, target.clamp(min=0) if "ignore_index" in options else target, **options)
            gathered.clear()
            _rules.fallbacks.clear()
            told = distribute_tensor(target.clamp(min=0) if "ignore_index" in options else target, on, [R] * on.ndim)
            loss = F.cross_entropy(part, told if options else told.to_local(), **options)
            assert not gathered and not _rules.fallbacks
            close(loss, expected, (layout, options))
            if expected.dim():
                weight = values(6, seed=8)
                (expected * weight).sum().backward()
                (loss * distribute_tensor(weight, on, [R] * on.ndim)).sum().backward()
            else:
                expected.backward()
                loss.backward()
            close(part.grad, whole_x.grad, (layout, options))
raised(lambda: F.cross_entropy(distribute_tensor(x, mesh, [S1]), facula.tensor([0, 1, 2, 3, 4, 7])), "IndexError", "below 7, got 7")
half = distribute_tensor(x.bfloat16().requires_grad_(), mesh, [S1])
loss = F.cross_entropy(half, target)
assert loss.dtype == facula.bfloat16 and abs(loss.item() - F.cross_entropy(x, target).item()) < 0.05
loss.backward()
assert half.grad.dtype == facula.bfloat16
_redistribute._gather = real
# embeddings with a row for nothing; indices that are not there
table, ids = values(7, 4, seed=6), facula.tensor([[0, 6, 3], [2, 2, 5]])
for a, c in itertools.product((R, S0, S1), (R, S0, S1)):
    for padding in (None, 2, 6):
        without_whole(lambda i, t: F.embedding(i, t, padding_idx=padding), [ids, table], [[a], [c]], "embedding")
raised(lambda: F.embedding(facula.tensor([7]), distribute_tensor(table, mesh, [S0])), "IndexError", "got 7")
raised(lambda: F.embedding(facula.tensor([-1]), distribute_tensor(table, mesh, [S0])), "IndexError", "got -1")
# numbers that are drawn in place, and norms, without messages or with one number only
gathered.clear()
_redistribute._gather = lambda local, dim, whole, group: gathered.append(tuple(local.shape)) or real(local, dim, whole, group)
_rules.fallbacks.clear()
for a in (R, S0, S1):
    for draw in (lambda t: t.uniform_(-1, 2), lambda t: t.normal_(std=0.5), lambda t: t.bernoulli_(0.3), lambda t: nn.init.kaiming_uniform_(t)):
        plain, part = facula.zeros(5, 6), distribute_tensor(facula.zeros(5, 6), mesh, [a])
        facula.manual_seed(4)
        draw(plain)
        facula.manual_seed(4)
        assert draw(part) is part and not gathered
        close(part, plain)
        gathered.clear()
    for p in (1, 2, 3.0, float("inf")):
        close(facula.linalg.vector_norm(part, p), facula.linalg.vector_norm(plain, p))
        close(part.norm(p), plain.norm(p))
    assert not gathered and not _rules.fallbacks, (gathered, _rules.fallbacks)
_redistribute._gather = real
from facula.distributed.tensor._utils import compute_local_shape_and_global_offset
part = distribute_tensor(facula.arange(7.0), mesh, [S0])
shape, offset = compute_local_shape_and_global_offset((7,), mesh, [S0])
assert tuple(shape) == tuple(part.to_local().shape) and offset[0] == min(7, -(-7 // SIZE) * RANK)
# functions of parts
from facula.distributed.tensor.experimental import implicit_replication, local_map
a, b = values(2 * SIZE, 4), values(4, 3, seed=1)
def product(p, q):
    assert type(p) is facula.Tensor and p.shape == (2, 4)
    return p @ q, p.shape[0]
mapped = local_map(product, out_placements=([S0], None), in_placements=([S0], [R]), in_grad_placements=([S0], [Partial()]), device_mesh=mesh)
p, q = distribute_tensor(a.clone().requires_grad_(), mesh, [S0]), distribute_tensor(b.clone().requires_grad_(), mesh, [R])
result, rows = mapped(p, q)
assert rows == 2 and result.placements == (S0,)
close(result, a @ b)
result.sum().backward()
close(q.grad, (a.t() @ facula.ones(2 * SIZE, 3)))
moved = local_map(lambda p: p * 2, out_placements=[S0], in_placements=([S0],), redistribute_inputs=True)
close(moved(distribute_tensor(a, mesh, [S1])), 2 * a)
assert local_map(out_placements=[R])(lambda p: p + 1)(facula.ones(2)).tolist() == [2.0, 2.0]
raised(lambda: mapped(distribute_tensor(a, mesh, [S1]), q), "argument 0 must lie as", "Shard(dim=1)")
raised(lambda: mapped(p), "in_placements for 1 arguments, got 2")
with implicit_replication():
    close(p + a, 2 * a)
    close(a * p, a * a)
    close(p @ b, a @ b)
raised(lambda: p + a, "do not mix")
# rules of a program's own
from facula import library
from facula.distributed.tensor import _registered
from facula.distributed.tensor.experimental import register_sharding
@library.custom_op("mine::scaled", mutates_args=())
def scaled(x: facula.Tensor, w: facula.Tensor, k: int) -> facula.Tensor:
    assert type(x) is facula.Tensor and type(w) is facula.Tensor
    return (x * w).sum(1) * k
library.register_autograd("mine::scaled", lambda ctx, g: (g[:, None] * ctx.w * ctx.k, (g[:, None] * ctx.x * ctx.k).sum(0), None),
                          setup_context=lambda ctx, inputs, output: vars(ctx).update(x=inputs[0], w=inputs[1], k=inputs[2]))
@register_sharding(facula.ops.mine.scaled.default)
def scaled_over_processes(x, w, k):
    assert x.ndim == 2 and k == 3
    return [([R], [R, R, None]), ([S0], [S0, R, None]), ([Partial()], [S1, S0, None])]
x, w = values(5, 4), values(4, seed=1)
for layouts, out in (([R, R], R), ([S0, R], S0), ([S1, S0], Partial()), ([S0, S0], S0), ([Partial(), R], R)):
    if layouts[0] != Partial():
        assert scaled(*(distribute_tensor(t, mesh, [l]) for t, l in zip((x, w), layouts)), 3).placements == (out,)
        check(lambda p, q: scaled(p, q, 3), [x, w], [[l] for l in layouts], "own rule")
assert scaled(x, w, 3).shape == (5,)
asked = []
@register_sharding([facula.ops.aten._softmax.default])
def soft(x, dim, half_to_float):
    asked.append((dim, half_to_float))
    return [([R], [R, None, None]), ([Shard(1 - dim)], [Shard(1 - dim), None, None])]
for layout in (R, S0, S1):
    close(facula.softmax(distribute_tensor(x, mesh, [layout]), 1), facula.softmax(x, 1))
assert asked == [(1, False)] * 3
register_sharding(scaled)(lambda x, w, k: [([R], [R, None])])
raised(lambda: scaled(distribute_tensor(x, mesh, [R]), distribute_tensor(w, mesh, [R]), 3), "ValueError", "each of 2 DTensors")
_registered.rules.clear()
# gradients through parts
part = values(2, 3, seed=RANK).requires_grad_()
d = DTensor.from_local(part, mesh, [S0], grad_placements=[S0])
(d * 2).sum().backward()
assert part.grad.unique().tolist() == [2.0]
part = values(2, 3, seed=RANK).requires_grad_()
DTensor.from_local(part, mesh, [Partial()]).to_local().sum().backward()
assert part.grad.unique().tolist() == [1.0]
print("ok")
"""

TRAINING = SETUP + """
# a network whose layers are cut by columns and by rows gives the losses of one process
import copy
def network():
    facula.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
def cut(name, module, mesh):
    if name == "0":
        module.register_parameter("weight", nn.Parameter(distribute_tensor(module.weight.detach(), mesh, [S0])))
        module.register_parameter("bias", nn.Parameter(distribute_tensor(module.bias.detach(), mesh, [S0])))
    if name == "2":
        module.register_parameter("weight", nn.Parameter(distribute_tensor(module.weight.detach(), mesh, [S1])))
for kind, options in ((facula.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (facula.optim.AdamW, {"lr": 0.01}), (facula.optim.Adam, {"lr": 0.01, "foreach": False})):
    one, many = network(), distribute_module(network(), mesh, cut)
    assert all(isinstance(p, DTensor) and isinstance(p, nn.Parameter) for p in many.parameters())
    a, b = kind(one.parameters(), **options), kind(many.parameters(), **options)
    for step in range(4):
        x, t = values(5, 6, seed=step), values(5, 3, seed=step + 50)
        losses = []
        for m, o, wrap in ((one, a, lambda v: v), (many, b, lambda v: distribute_tensor(v, mesh, [R]))):
            o.zero_grad()
            loss = (m(wrap(x)) - wrap(t)).square().mean()
            loss.backward()
            o.step()
            losses.append(whole(loss).item())
        assert abs(losses[0] - losses[1]) < 1e-5, losses
    for p, q in zip(one.parameters(), many.parameters()):
        close(q.detach(), p.detach(), kind)
twin = copy.deepcopy(many)
assert all(isinstance(p, nn.Parameter) and isinstance(p, DTensor) and p.placements == q.placements for p, q in zip(twin.parameters(), many.parameters()))
state = many.state_dict()
fresh = distribute_module(network(), mesh, cut)
fresh.load_state_dict(state)
for p, q in zip(fresh.parameters(), many.parameters()):
    close(p.detach(), q.detach())
norm = nn.utils.clip_grad_norm_(many.parameters(), 1e-3)
expected = nn.utils.clip_grad_norm_(one.parameters(), 1e-3)
close(whole(norm), expected)
for p, q in zip(one.parameters(), many.parameters()):
    close(q.grad, p.grad)
print("ok")
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_layouts(size):
    assert run_ranks(LAYOUTS, size) == ["ok\n"] * size


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_ops(size):
    assert run_ranks(OPS, size) == ["ok\n"] * size


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_parts(size):
    assert run_ranks(PARTS, size) == ["ok\n"] * size


def test_training():
    assert run_ranks(TRAINING, 2) == ["ok\n"] * 2


# (the op, layouts of its inputs, how its result lies), as PyTorch 2.13 has them, on 4 processes; of 8 x 8 tensors
PLACEMENTS = {
    "x + 1": "S0:S0 S1:S1 P:R avg:R max:R",
    "x * 2": "S0:S0 P:P avg:avg max:R",
    "2 / x": "S1:S1 P:R",
    "-x": "P:P avg:avg max:min min:max",
    "x.exp()": "S0:S0 P:R max:max min:min",
    "x.sqrt()": "max:R",
    "x.clone()": "S0:S0 P:R",
    "x.detach()": "P:P max:max",
    "x.to(facula.float64)": "P:P",
    "x.sum()": "S0:P S1:P R:R P:P avg:R",
    "x.sum(0)": "S0:P S1:S0 P:P",
    "x.sum(0, keepdim=True)": "S0:P S1:S1",
    "x.mean()": "S0:avg P:R avg:avg",
    "x.mean(1)": "S0:S0 S1:avg",
    "x.amax(0)": "S0:max S1:S0 P:R max:max",
    "x.amin()": "S1:min",
    "x.max()": "S0:max",
    "x.max(1).indices": "S0:S0 S1:R",
    "x.prod()": "S0:product P:R",
    "(x > 0).all()": "S1:product P:R",
    "(x > 0).any(0)": "S0:P S1:S0",
    "x.var(0)": "S0:R S1:S0",
    "facula.linalg.vector_norm(x)": "S0:norm S1:norm P:R R:R",
    "facula.linalg.vector_norm(x, 1, 0)": "S0:norm S1:S0",
    "facula.linalg.vector_norm(x, float('inf'))": "S0:max",
    "x.norm()": "S0:norm",
    "x.softmax(1)": "S0:S0 S1:R P:R",
    "x.cumsum(0)": "S0:R S1:S1",
    "x.logsumexp(1)": "S0:S0 S1:R",
    "x.sort(1).values": "S0:S0 S1:R",
    "x.flip(0)": "S0:R S1:S1 P:P",
    "x.t()": "S0:S1 P:P",
    "x.view(8, 4, 2)": "S0:S0 S1:S1 P:P",
    "x.flatten()": "S0:S0 P:P",
    "x[:, 2:4]": "S0:S0 S1:R P:P",
    "x[0]": "S0:R S1:S0 P:P",
    "x.chunk(2, 1)[0]": "S0:S0 P:P",
    "facula.cat([x, x])": "S0:R S1:S1 P:P",
    "facula.stack([x, x])": "S0:S1 P:P",
    "x.repeat(2, 1)": "S1:S1 P:P",
    "x.tril()": "P:R",
    "facula.rand_like(x)": "P:R S0:S0",
    "x + y": "S0,S1:S0 S1,S0:S0 S0,R:S0 R,S1:S1 P,P:P P,R:P R,P:P P,S0:S0 P,S1:S1 S1,P:S1",
    "x - y": "P,R:P",
    "x * y": "P,R:P R,P:P P,S0:S0 S1,P:S1 S1,R:S1",
    "x / y": "P,R:P R,P:R P,S1:S1",
    "facula.maximum(x, y)": "P,R:R S1,S0:S0",
    "x > y": "S1,S0:S0",
    "facula.where(x > 0, x, y)": "P,P:R S0,R:S0",
    "x @ y": "S0,R:S0 R,S1:S1 S1,S0:P P,R:P R,P:P S0,S0:S0 S1,S1:S1 R,S0:P S1,R:P",
    "F.linear(x, y)": "S0,R:S0 R,S0:S1 S1,S1:P S1,R:P P,R:P S1,S0:S1",
    "facula.addmm(x, x, y)": "P,R:P R,S1:S1 S0,S1:S0 R,S0:P",
    "F.mse_loss(x, y)": "S0,R:avg S1,S1:avg R,R:R",
    "facula.cat([x, y])": "P,R:P S1,S1:S1 S0,S1:S1",
    "x.add_(y)": "P,P:P P,R:P S0,R:S0",
}


def test_texts_of_placements():
    assert [str(p) for p in (Shard(1), Replicate(), Partial("avg"))] == ["S(1)", "R", "P(avg)"]
    assert [repr(p) for p in (Shard(1), Replicate(), Partial())] == ["Shard(dim=1)", "Replicate()", "Partial(sum)"]


def test_placements():
    code = """
import facula.nn.functional as F
from facula.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
dist.init_process_group("fake", rank=0, world_size=4)
mesh = init_device_mesh("cpu", (4,))
known = {"R": Replicate(), "S0": Shard(0), "S1": Shard(1), "P": Partial(), **{n: Partial(n) for n in ("avg", "max", "min")}}
def made(layout):
    p = known[layout]
    return DTensor.from_local(facula.ones(8, 8), mesh, [p]) if isinstance(p, Partial) else distribute_tensor(facula.ones(8, 8), mesh, [p])
def short(p):
    kind = type(p).__name__
    return {"Replicate": "R", "_NormPartial": "norm"}.get(kind) or (f"S{p.dim}" if kind == "Shard" else "P" if p == Partial() else p.reduce_op)
for op, cases in PLACEMENTS.items():
    for case in cases.split():
        layouts, _, out = case.partition(":")
        x, y = [made(l) for l in (layouts.split(",") * 2)[:2]]
        found = eval(op)
        assert [short(p) for p in found.placements] == [out], (op, case, found.placements)
print("ok")
"""
    assert run_ranks(f"PLACEMENTS = {PLACEMENTS!r}\n" + code, 1) == ["ok\n"]
