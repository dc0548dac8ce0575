"""What programs of the tests of DTensors begin with."""


SETUP = """
import itertools
from facula import nn
import facula.nn.functional as F
from facula.distributed.tensor import DTensor, DeviceMesh, Partial, Replicate, Shard, distribute_module, distribute_tensor, init_device_mesh
import facula.distributed.tensor as dt
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
mesh = init_device_mesh("cpu", (SIZE,))
R, S0, S1, S2 = Replicate(), Shard(0), Shard(1), Shard(2)

def values(*shape, seed=0):
    return facula.randn(shape, generator=facula.Generator().manual_seed(seed))

def whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x

def close(a, b, what=""):
    a, b = whole(a), whole(b)
    assert a.shape == b.shape and facula.allclose(a, b, atol=1e-5, rtol=1e-4), (what, (a - b).abs().max())

def check(fn, tensors, layouts, what="", on=None):
    # fn of DTensors in the given layouts against fn of plain tensors, and all gradients
    plain = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    parts = [distribute_tensor(t.clone().requires_grad_(t.is_floating_point()), on or mesh, l) for t, l in zip(tensors, layouts)]
    expected, result = fn(*plain), fn(*parts)
    assert isinstance(result, DTensor), what
    assert result.shape == expected.shape, (what, result.shape, expected.shape)
    close(result, expected, (what, layouts))
    weight = values(*expected.shape, seed=9)
    (expected * weight).sum().backward()
    (result * distribute_tensor(weight, on or mesh, [R] * (on or mesh).ndim)).sum().backward()
    for number, (p, q) in enumerate(zip(parts, plain)):
        if q.requires_grad:
            assert p.grad.placements == p.placements
            close(p.grad, q.grad, (what, layouts, number))
"""
