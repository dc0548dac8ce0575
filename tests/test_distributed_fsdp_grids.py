"""fully_shard on grids of processes: tensor parallel inside, and dimensions of data."""

import pytest
from distributed_ranks import needs_mpi, run_ranks
from fsdp_setup import SETUP

pytestmark = needs_mpi


GRID = SETUP + """
# tensor parallel inside fully_shard, on a grid of two dimensions (three with replicas): losses of one process
import sys
import facula.distributed.checkpoint as dcp
from facula.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from facula.distributed.tensor import Replicate
from facula.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, PrepareModuleInput, parallelize_module
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.layers, self.out = nn.Embedding(11, 8), nn.ModuleList(Layer() for _ in range(2)), nn.Linear(8, 11)
    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
def make():
    facula.manual_seed(0)
    return Model()
def tokens(step, rank, ways):
    ids = facula.randint(11, (4 * ways, 5), generator=facula.Generator().manual_seed(step))
    return ids if rank is None else ids[4 * rank : 4 * rank + 4]
def loss_of(m, ids):
    return F.cross_entropy(m(ids).flatten(0, 1), ids.roll(1, 1).flatten())
def cut(model, tp, data):
    plan = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
    if WHAT == "all":
        plan |= {"tokens": RowwiseParallel(input_layouts=Replicate()), "out": ColwiseParallel(output_layouts=Replicate()), "layers.*.norm": SequenceParallel(sequence_dim=1),
                 "layers.*.up": ColwiseParallel(input_layouts=Shard(1)), "layers.*.down": RowwiseParallel()}
        plan["layers.*.norm"] = SequenceParallel(sequence_dim=1, use_local_output=True)
    if tp is not None:
        if WHAT == "all":
            del plan["layers.*.norm"]
            plan["layers.*.up"] = ColwiseParallel()
        parallelize_module(model, tp, plan)
    for layer in model.layers:
        fully_shard(layer, mesh=data)
    return fully_shard(model, mesh=data)
for shape, names in (((2, 2), ("data", "tp")), ((2, 1, 2), ("replicas", "data", "tp"))):
    grid = init_device_mesh("cpu", shape, mesh_dim_names=names)
    tp, data = grid["tp"], grid[names[:-1] if len(names) > 2 else "data"]
    mine, ways = RANK // 2, 2
    for WHAT in ("layers", "all"):
        one, many = make(), cut(make(), tp, data)
        weight = many.layers[0].up.weight
        assert weight.device_mesh.mesh_dim_names == names and weight.shape == (12, 8) and weight.to_local().shape == (12 // 2 // shape[-2], 8)
        close = lambda a, b, what: facula.allclose(a, b, atol=2e-5) or exec("raise AssertionError((what, (a - b).abs().max()))")
        for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
            assert facula.equal(p, q.full_tensor()), name
        a, b = (facula.optim.AdamW(m.parameters(), lr=0.01) for m in (one, many))
        for step in range(3):
            for o in (a, b):
                o.zero_grad()
            expected = loss_of(one, tokens(step, None, ways))
            got = loss_of(many, tokens(step, mine, ways))
            expected.backward()
            got.backward()
            total = got.detach().clone()
            dist.all_reduce(total)
            assert abs(total.item() / SIZE - expected.item()) < 1e-5
            for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
                assert q.grad.placements == q.placements
                close(p.grad, q.grad.full_tensor(), (WHAT, step, name))
            norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5) for m in (one, many)]
            assert isinstance(norms[1], DTensor) and facula.allclose(norms[0], norms[1].full_tensor(), rtol=1e-5), norms
            for p in (1.0, float("inf"), 3.0):
                assert facula.allclose(nn.utils.get_total_norm([p.grad for p in one.parameters()], p), nn.utils.get_total_norm([p.grad for p in many.parameters()], p).full_tensor(), rtol=1e-4)
            for o in (a, b):
                o.step()
        for (name, p), (_, q) in zip(one.named_parameters(), many.named_parameters()):
            close(p, q.full_tensor(), (WHAT, name))
        # a checkpoint of the grid, loaded by other grids and by plain modules
        folder = f"{sys.argv[1]}/{WHAT}{len(shape)}"
        state, optim_state = get_state_dict(many, b)
        dcp.save({"model": state, "optim": optim_state}, checkpoint_id=folder)
        line = init_device_mesh("cpu", (4,), mesh_dim_names=("data",))
        turned = init_device_mesh("cpu", (1, 4), mesh_dim_names=("data", "tp"))
        for other in (lambda: fully_shard(make()), lambda: cut(make(), None, line), lambda: cut(make(), turned["tp"], turned["data"]), make):
            fresh = other()
            c = facula.optim.AdamW(fresh.parameters(), lr=0.01)
            state, optim_state = get_state_dict(fresh, c)
            told = {"model": state, "optim": optim_state}
            dcp.load(told, checkpoint_id=folder)
            set_state_dict(fresh, c, model_state_dict=told["model"], optim_state_dict=told["optim"])
            whole = lambda t: t.full_tensor() if isinstance(t, DTensor) else t
            for (name, p), (_, q) in zip(one.named_parameters(), fresh.named_parameters()):
                close(p, whole(q), ("loaded", WHAT, name))
            for p, q in zip(one.parameters(), fresh.parameters()):
                value = c.state[q]["exp_avg"]
                value = value if isinstance(value, DTensor) or not isinstance(q, DTensor) else DTensor.from_local(value, q.device_mesh, q.placements, shape=q.shape)
                close(a.state[p]["exp_avg"], whole(value), ("state", WHAT))
# parts of parts that do not divide, in every dimension
for shape, place in (((7, 5), 0), ((7, 5), 1), ((3, 2), 0), ((1, 6), 0)):
    for cut_dim in (0, 1):
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tp"))
        from facula.distributed.tensor import distribute_tensor
        linear = nn.Linear(shape[1], shape[0], bias=False)
        whole = facula.arange(float(shape[0] * shape[1])).view(shape)
        linear.weight = nn.Parameter(distribute_tensor(whole, grid["tp"], [Shard(place)]))
        fully_shard(linear, mesh=grid["data"], shard_placement_fn=lambda p: Shard(cut_dim))
        assert facula.equal(linear.weight.full_tensor(), whole), (shape, place, cut_dim, linear.weight)
        for layout in ([Shard(0), Shard(0)], [Replicate(), Shard(1)], [Shard(1), Replicate()]):
            moved = linear.weight.redistribute(placements=layout)
            assert facula.equal(moved.full_tensor(), whole)
            assert facula.equal(moved.redistribute(placements=linear.weight.placements).to_local(), linear.weight.to_local())
        out = linear(distribute_tensor(facula.ones(2, shape[1]), grid["tp"], [Replicate()]))
        assert facula.equal(out.full_tensor(), whole.sum(1).expand(2, -1))
        out.sum().full_tensor().backward()
        assert facula.equal(linear.weight.grad.full_tensor(), facula.full(shape, 2.0)), (shape, place, cut_dim)
line = init_device_mesh("cpu", (4,))
linear.weight = nn.Parameter(distribute_tensor(facula.ones(4, 4), line, [Shard(0)]))
plain = nn.Linear(4, 4)
plain.weight = linear.weight
raised(lambda: fully_shard(plain, mesh=grid["data"]), "ValueError", "other dimensions", "weight")
print("ok")
"""


@pytest.mark.slow
def test_tensor_parallel_inside(tmp_path):
    assert run_ranks(GRID, 4, arguments=[str(tmp_path)]) == ["ok\n"] * 4


GRIDS = """
# parameters and inputs on one grid, of which some dimensions are those of data
from facula import nn
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.fsdp import DataParallelMeshDims, fully_shard
from facula.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
R, S0, S1 = Replicate(), Shard(0), Shard(1)
def network():
    facula.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
def on_grid(module, mesh, cuts):
    def spread(name, part, mesh):
        for key, p in list(part.named_parameters(recurse=False)):
            cut = cuts.get(f"{name}.{key}")
            layout = [cut if n == "tp" and cut else R for n in mesh.mesh_dim_names]
            part.register_parameter(key, nn.Parameter(distribute_tensor(p.detach(), mesh, layout)))
    return distribute_module(module, mesh, spread)
columns_and_rows = {"0.weight": S0, "0.bias": S0, "2.weight": S1}
for names, dims, layout, cuts in (
    (("dp", "tp"), {"shard": "dp"}, [S0, R], columns_and_rows),
    (("tp", "dp"), {"shard": "dp"}, [R, S0], columns_and_rows),
    (("copies", "dp"), {"shard": "dp", "replicate": "copies"}, [S0, S0], {}),
    (("dp", "copies"), {"shard": "dp", "replicate": "copies"}, [S0, S0], {}),
    (("a", "b"), {"shard": ("a", "b")}, [S0, S0], {}),
    (("copies", "tp"), {"replicate": "copies"}, [S0, R], columns_and_rows),
):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
    one, many = network(), on_grid(network(), mesh, cuts)
    whole = [p.shape for p in one.parameters()]
    uneven = isinstance(dims.get("shard"), tuple)  # 5 rows do not go into 4 parts
    if uneven:
        raised(lambda: fully_shard(many, mesh=mesh, dp_mesh_dims=DataParallelMeshDims(**dims)), "ValueError", "cut evenly", "got 5 rows")
        many[2].requires_grad_(False)
        one[2].requires_grad_(False)
    wanted = DataParallelMeshDims(**dims)
    for part in (many[0],) if uneven else (many[0], many):
        fully_shard(part, mesh=mesh, dp_mesh_dims=wanted)
    for m in [many[0]] + ([] if uneven else [many]):
        m.set_gradient_divide_factor(1.0)  # sums are those of the loss; without it they are divided, as elsewhere
    for p, shape in zip(many.parameters(), whole):
        assert p.device_mesh == mesh and p.shape == shape
    a, b = (facula.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=0.01) for m in (one, many))
    for step in range(3):
        g = facula.Generator().manual_seed(step)
        x, y = facula.randn(8, 6, generator=g), facula.randn(8, 5, generator=g)
        losses = []
        for m, o, place in ((one, a, lambda t: t), (many, b, lambda t: distribute_tensor(t, mesh, layout))):
            o.zero_grad()
            loss = (m(place(x)) - place(y)).square().mean()
            loss.backward()
            losses.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
            if m is many:
                for p, q in zip(one.parameters(), many.parameters()):
                    assert (q.grad is None) == (p.grad is None)
                    if q.grad is not None:
                        assert q.grad.placements == q.placements
                        assert facula.allclose(q.grad.full_tensor(), p.grad, atol=1e-5), (names, dims, step)
            o.step()
        assert abs(losses[0] - losses[1]) < 1e-5, (names, losses)
    for p, q in zip(one.parameters(), many.parameters()):
        assert facula.allclose(q.full_tensor() if isinstance(q, DTensor) else q, p, atol=1e-4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
only = DataParallelMeshDims(shard="dp")
raised(lambda: fully_shard(network(), mesh=mesh, dp_mesh_dims=only), "ValueError", "parameters must be DTensors", "a Tensor")
cut = distribute_module(nn.Linear(4, 4), mesh, lambda n, m, g: m.register_parameter("weight", nn.Parameter(distribute_tensor(m.weight.detach(), g, [S0, R]))))
raised(lambda: fully_shard(cut, mesh=mesh, dp_mesh_dims=only), "ValueError", "weight must be Replicate() over dp_mesh_dims")
raised(lambda: fully_shard(cut, mesh=mesh, dp_mesh_dims=DataParallelMeshDims(shard="no")), "ValueError", "dimensions of ('dp', 'tp')")
raised(lambda: DataParallelMeshDims(), "ValueError", "got neither")
plain = on_grid(network(), mesh, {})
fully_shard(plain, mesh=mesh, dp_mesh_dims=only)
plain(distribute_tensor(facula.ones(4, 6), mesh, [S0, R])).sum().backward()
one = network()
one(facula.ones(4, 6)).sum().backward()
assert facula.allclose(plain[2].bias.grad.full_tensor(), one[2].bias.grad / 2)
print("ok")
"""


def test_grids_of_which_some_dimensions_are_data():
    assert run_ranks(GRIDS, 4) == ["ok\n"] * 4
