"""Grids of processes, and collectives with gradients."""


from distributed_ranks import needs_mpi, run_ranks

pytestmark = needs_mpi

MESH = """
from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
assert mesh.shape == (2, 2) and mesh.ndim == 2 and mesh.size() == 4 and mesh.size(0) == 2 and mesh.mesh.tolist() == [[0, 1], [2, 3]]
assert mesh.get_coordinate() == (RANK // 2, RANK % 2) and mesh.get_rank() == RANK
assert mesh.get_local_rank("dp") == RANK // 2 and mesh.get_local_rank(1) == RANK % 2
for name, expected in (("dp", RANK % 2 + RANK % 2 + 2), ("tp", RANK // 2 * 4 + 1)):
    t = facula.tensor([RANK])
    dist.all_reduce(t, group=mesh.get_group(name))
    assert t.item() == expected, (name, t)
    part = mesh[name]
    assert part.mesh.tolist() == dist.get_process_group_ranks(mesh.get_group(name)) and part.get_local_rank() == mesh.get_local_rank(name)
    assert part.get_group() is mesh.get_group(name)
assert mesh["dp", "tp"] is mesh
flat = mesh._flatten("all")
assert flat.mesh.tolist() == [0, 1, 2, 3] and mesh["all"] is flat
t = facula.ones(1)
dist.all_reduce(t, group=flat.get_group())
assert t.item() == 4
assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', mesh=[[0, 1], [2, 3]])"
assert DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"), _init_backend=False) == mesh
one = DeviceMesh("cpu", [3, 1, 0, 2])
parts = [facula.zeros(1, dtype=facula.int64) for _ in range(4)]
dist.all_gather(parts, facula.tensor([RANK]), group=one.get_group())
assert [p.item() for p in parts] == [3, 1, 0, 2]
assert DeviceMesh.from_group(mesh.get_group("tp"), "cpu").mesh.tolist() == [RANK // 2 * 2, RANK // 2 * 2 + 1]
with mesh as m:
    assert m is mesh
raised(lambda: init_device_mesh("cpu", (3, 2)), "there are 4 processes", "(3, 2)")
raised(lambda: init_device_mesh("cuda:0", (4,)), "without an index", "cuda:0")
raised(lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")), "must differ")
raised(lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a",)), "expected 2 names")
raised(lambda: DeviceMesh("cpu", [0, 0]), "each once", "[0, 0]")
raised(lambda: mesh.get_group(), "mesh_dim must be given")
raised(lambda: mesh["pp"], "KeyError", "pp")
raised(lambda: mesh["tp", "dp"], "in the order")
raised(lambda: mesh.size(2), "IndexError", "got 2")
print("ok")
"""

GRADIENTS = """
import facula.distributed.nn as dnn
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
everyone = range(SIZE)
def leaf(offset=0.0):
    return (facula.arange(4.0) + RANK + offset).requires_grad_()
# every process weighs its result by rank + 1
weight = RANK + 1.0
total = SIZE * (SIZE + 1) / 2
x = leaf()
y = dnn.all_reduce(x)
assert y.tolist() == [sum(i + r for r in everyone) for i in range(4)]
(y * weight).sum().backward()
assert x.grad.tolist() == [total] * 4
x = leaf()
parts = dnn.all_gather(x)
assert [p[0].item() for p in parts] == [float(r) for r in everyone]
sum(((i + 1) * p).sum() for i, p in enumerate(parts)).backward()
assert x.grad.tolist() == [(RANK + 1.0) * SIZE] * 4
xs = [leaf(10.0 * r) for r in everyone]
y = dnn.reduce_scatter(facula.empty(4), xs)
assert y.tolist() == [sum(i + r + 10.0 * RANK for r in everyone) for i in range(4)]
(y * weight).sum().backward()
assert [x.grad[0].item() for x in xs] == [r + 1.0 for r in everyone]
x = leaf()
y = dnn.broadcast(x, 1)
assert y.tolist() == [i + 1.0 for i in range(4)]
(y * weight).sum().backward()
assert x.grad.tolist() == [total if RANK == 1 else 0.0] * 4
x = leaf()
y = dnn.reduce(x, 0)
(y * 3).sum().backward()
assert x.grad.tolist() == [3.0] * 4 and (RANK or y[0].item() == sum(everyone))
x = leaf()
parts = dnn.gather(x, 0)
sum(((i + 1) * p).sum() for i, p in enumerate(parts)).backward()
assert x.grad.tolist() == [RANK + 1.0] * 4
xs = [leaf(10.0 * r) for r in everyone]
y = dnn.scatter(xs, 1)
assert y[0].item() == 1 + 10.0 * RANK
(y * weight).sum().backward()
assert [x.grad[0].item() for x in xs] == ([r + 1.0 for r in everyone] if RANK == 1 else [0.0] * SIZE)
xs = [leaf(10.0 * r) for r in everyone]
ys = dnn.all_to_all([facula.empty(4) for _ in everyone], xs)
assert [y[0].item() for y in ys] == [r + 10.0 * RANK for r in everyone]
sum((y * weight).sum() for y in ys).backward()
assert [x.grad[0].item() for x in xs] == [r + 1.0 for r in everyone]
x = (facula.arange(2.0 * SIZE) + 100 * RANK).requires_grad_()
y = dnn.all_to_all_single(facula.empty(2 * SIZE), x)
assert y.tolist() == [100 * r + 2 * RANK + i for r in everyone for i in range(2)]
(y * weight).sum().backward()
assert x.grad.tolist() == [r + 1.0 for r in everyone for _ in range(2)]
# twice: the gradient of a gradient
x = leaf()
g = facula.autograd.grad((dnn.all_reduce(x) ** 2).sum(), x, create_graph=True)[0]
g.sum().backward()
assert x.grad.tolist() == [2.0 * SIZE * SIZE] * 4
print("ok")
"""


def test_meshes():
    assert run_ranks(MESH, 4) == ["ok\n"] * 4


def test_collectives_with_gradients():
    assert run_ranks(GRADIENTS, 3) == ["ok\n"] * 3


FUNCTIONAL = """
import facula.distributed._functional_collectives as fc
from facula.distributed.device_mesh import init_device_mesh
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
everyone, world = range(SIZE), dist.group.WORLD
x = facula.arange(8.0).view(4, 2) + 10 * RANK
before = x.clone()
assert facula.equal(fc.all_reduce(x, "sum", world), 4 * facula.arange(8.0).view(4, 2) + 60)
assert facula.equal(fc.all_reduce(x, "max", (mesh, "b")), facula.arange(8.0).view(4, 2) + 10 * (RANK | 1))
assert facula.equal(fc.all_reduce(x, "avg", list(everyone)), facula.arange(8.0).view(4, 2) + 15)
assert fc.all_reduce(x, "sum", [[0, 3], [1, 2]])[0, 0].item() == 30
assert fc.broadcast(x, 2, world)[0, 0].item() == 20
full = facula.cat([facula.arange(8.0).view(4, 2) + 10 * r for r in everyone])
assert facula.equal(fc.all_gather_tensor(x, 0, world), full)
assert facula.equal(fc.all_gather_tensor(x, 1, world), facula.cat([facula.arange(8.0).view(4, 2) + 10 * r for r in everyone], 1))
total = fc.all_reduce(x, "sum", world)
assert facula.equal(fc.reduce_scatter_tensor(x, "sum", 0, world), total[RANK : RANK + 1])
assert facula.equal(fc.reduce_scatter_tensor(x, "sum", 1, (mesh, 1)), fc.all_reduce(x, "sum", (mesh, 1))[:, RANK % 2 : RANK % 2 + 1])
assert fc.all_to_all_single(x, None, None, world)[:, 0].tolist() == [10.0 * r + 2 * RANK for r in everyone]
assert fc.permute_tensor(x, [1, 2, 3, 0], world)[0, 0].item() == 10 * ((RANK - 1) % 4)
assert facula.equal(fc.wait_tensor(x), before)
y = x.clone().requires_grad_()
(fc.all_gather_tensor_autograd(y, 0, world) * (RANK + 1)).sum().backward()
assert y.grad.unique().tolist() == [10.0]
y = x.clone().requires_grad_()
(fc.reduce_scatter_tensor_autograd(y, "sum", 0, world) * (RANK + 1)).sum().backward()
assert y.grad[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
y = x.clone().requires_grad_()
(fc.all_to_all_single_autograd(y, None, None, world) * (RANK + 1)).sum().backward()
assert y.grad[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
raised(lambda: fc.all_reduce(x, "mean", world), "reduceOp must be 'sum', 'avg'", "got 'mean'")
raised(lambda: fc.reduce_scatter_tensor(x[:3], "sum", 0, world), "must be divided by 4", "(3, 2)")
raised(lambda: fc.permute_tensor(x, [0, 0, 1, 2], world), "every rank below 4 once")
print("ok")
"""


def test_functional_collectives():
    assert run_ranks(FUNCTIONAL, 4) == ["ok\n"] * 4
