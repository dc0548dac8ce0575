"""What programs of the tests of fully_shard begin with."""


SETUP = """
import copy
from facula import nn
import facula.nn.functional as F
from facula.distributed.tensor import DTensor, Shard, init_device_mesh
from facula.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
dist.init_process_group("gloo", timeout=timedelta(seconds=60))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 13), nn.Linear(13, 6)
        self.unused = nn.Parameter(facula.ones(3))
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(6, 2)
    def forward(self, x):
        x = self.first(x)
        for b in self.blocks:
            x = b(x)
        return self.last(x)

def network():
    facula.manual_seed(0)
    return Net()

def spread(net, **options):
    for b in net.blocks:
        fully_shard(b, **options)
    return fully_shard(net, **options)

def batch(step, rank=None, n=3):
    g = facula.Generator().manual_seed(step)
    x, y = facula.randn(SIZE * n, 5, generator=g), facula.randn(SIZE * n, 2, generator=g)
    return (x, y) if rank is None else (x[rank * n : (rank + 1) * n], y[rank * n : (rank + 1) * n])

def same(one, many, what="", atol=1e-5):
    assert [n for n, _ in one.named_parameters()] == [n for n, _ in many.named_parameters()]
    for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
        assert facula.allclose(p, q.full_tensor(), atol=atol), (what, name, (p - q.full_tensor()).abs().max())
"""
