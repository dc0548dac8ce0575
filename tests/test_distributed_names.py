"""What programs and libraries reach by other ways: methods of groups, debug levels, paths of modules, parts of DDP."""

import pytest
from distributed_ranks import needs_mpi, run_ranks

import facula.distributed as dist

METHODS = """
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
from facula.distributed import distributed_c10d as c10d
world = c10d._get_default_group()
assert world is dist.group.WORLD and c10d.get_world_size() == SIZE
assert c10d._resolve_process_group(c10d._get_process_group_name(world)) is world
raised(lambda: c10d._resolve_process_group("none"), "ValueError", "none")

x = facula.full((3,), float(RANK + 1))
work = world.allreduce([x])
assert work.get_future().then(lambda f: [t * 3 for t in f.wait()]).wait()[0].tolist() == [9.0] * 3
options = dist.AllreduceOptions()
options.reduceOp = dist.ReduceOp.MAX
x, y = facula.tensor([RANK]), facula.tensor([5 - RANK])
world.allreduce([x, y], options).wait()
assert (x.item(), y.item()) == (1, 5)

options = dist.BroadcastOptions()
options.rootRank = 1
x = facula.tensor([RANK])
world.broadcast([x], options).wait()
assert x.item() == 1
x = facula.tensor([RANK])
world.broadcast(x, 0).wait()
assert x.item() == 0
parts = [facula.zeros(1) for _ in range(SIZE)]
world.allgather([parts], [facula.ones(1) * RANK]).wait()
assert [p.item() for p in parts] == [0.0, 1.0]
x = facula.tensor([RANK + 1.0])
options = dist.ReduceOptions()
options.rootRank = 1
world.reduce([x], options).wait()
assert RANK == 0 or x.item() == 3
out = facula.zeros(1)
world.reduce_scatter([out], [[facula.ones(1), facula.ones(1) * 2]]).wait()
assert out.item() == 2 * (RANK + 1)
options = dist.GatherOptions()
options.rootRank = 1
world.gather([parts] if RANK == 1 else [], [facula.ones(1) * (RANK + 4)], options).wait()
assert RANK == 0 or [p.item() for p in parts] == [4.0, 5.0]
world.scatter([out], [[facula.ones(1) * 7, facula.ones(1) * 8]] if RANK == 0 else []).wait()
assert out.item() == 7 + RANK
world.alltoall(parts, [facula.ones(1) * (10 * RANK), facula.ones(1) * (10 * RANK + 1)]).wait()
assert [p.item() for p in parts] == [RANK, 10.0 + RANK]
out = facula.zeros(SIZE)
world.alltoall_base(out, facula.arange(2.0) + 10 * RANK, [], []).wait()
assert out.tolist() == [RANK, 10.0 + RANK]
world._allgather_base(out, facula.ones(1) * RANK).wait()
assert out.tolist() == [0.0, 1.0]
out = facula.zeros(1)
world._reduce_scatter_base(out, facula.tensor([1.0, 2.0])).wait()
assert out.item() == 2 * (RANK + 1)
if RANK == 0:
    world.send([facula.ones(2)], 1, 3).wait()
    world.send([facula.ones(2) * 2], 1).wait()
else:
    x = facula.zeros(2)
    world.recv([x], 0, 3).wait()
    assert x.tolist() == [1.0, 1.0]
    work = world.recv_anysource([x])
    work.wait()
    assert x.tolist() == [2.0, 2.0] and work._source_rank() == 0
impatient = dist.new_group([0, 1])
if RANK == 0:
    raised(lambda: impatient.allreduce([x], timeout=timedelta(seconds=0.3)).wait(), "DistBackendError", "all_reduce", "0.3")
world.barrier().wait()
raised(lambda: world.broadcast([x, x]), "ValueError", "broadcast", "got 2")

# float32 and complex64 travel together
a, b = facula.ones(2) * RANK, facula.full((2,), complex(1, RANK))
dist.all_reduce_coalesced([a, b])
assert a.tolist() == [1.0, 1.0] and b.tolist() == [2 + 1j] * 2
raised(lambda: dist.all_reduce_coalesced([a, b.to(facula.complex128)]), "ValueError", "one dtype")

# a timeout in seconds
start = time.time()
if RANK == 0:
    raised(lambda: dist.monitored_barrier(timeout=0.2), "missing  rank 1")
    assert time.time() - start < 20
    sign("told")
else:
    await_signs("told", 0)
print("done")
"""

KEPT = """
from facula import nn
from facula.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", timeout=timedelta(seconds=60))

class Turns(nn.Module):
    '''First its own layer of each process, then another one.'''
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(5))
        self.turn = 0
    def forward(self, x):
        self.turn += 1
        return self.layers[2 * RANK + (self.turn - 1) % 2](x)

ddp = DDP(Turns(), find_unused_parameters=True)
for _ in range(2):  # what a pass under no_sync left is averaged with the next, and once only
    ddp.zero_grad()
    with ddp.no_sync():
        ddp(facula.full((1, 1), 2.0 + RANK)).sum().backward()
    assert [p.grad is None for p in ddp.parameters()] == [i != 2 * RANK for i in range(5)]
    ddp(facula.full((1, 1), 4.0 + RANK)).sum().backward()
    assert [None if p.grad is None else p.grad.item() for p in ddp.parameters()] == [1.0, 2.0, 1.5, 2.5, None]
# gradients of averaged passes stay what they are where nobody uses the parameter
ddp.module.turn = 1
for _ in range(2):
    ddp.module.turn = 1
    ddp(facula.ones(1, 1)).sum().backward()
assert [p.grad.item() for p in list(ddp.parameters())[:4:2]] == [1.0, 1.5]

# a forward under no_sync, whose backward is averaged after all (accelerate's trigger_sync_in_backward)
ddp = DDP(nn.Linear(1, 1, bias=False))
with ddp.no_sync():
    loss = ddp(facula.full((1, 1), 1.0 + RANK)).sum()
ddp.reducer.prepare_for_backward([])
loss.backward()
assert ddp.module.weight.grad.item() == 1.5
raised(ddp._set_static_graph, "RuntimeError", "before training loop starts", "1 backward")
print("done")
"""


PROFILED = """
import json, tempfile
from facula.profiler import ProfilerActivity, profile, record_function
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
x, z, rows = facula.ones(3, 2), facula.ones(2, dtype=facula.complex64), [facula.zeros(4) for _ in range(SIZE)]
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
    dist.all_reduce(x)
    work = dist.all_reduce(z, async_op=True)
    work.wait()
    dist.all_gather(rows, facula.ones(4))
    dist.all_gather_coalesced([[r] for r in rows], [facula.ones(4)])
    dist.barrier()
    if RANK == 0:
        dist.send(x, 1)
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
        dist.recv(x)
seen = [e for e in p.events() if e.is_async]
names = [e.name for e in seen]
expected = ["all_reduce", "all_reduce", "all_gather", "all_gather", "barrier"]
expected += ["send", "send"] if RANK == 0 else ["recv", "recvAnySource"]
assert sorted(names) == sorted("gloo:" + name for name in expected), names
by_shape = [e.input_shapes for e in seen if e.name == "gloo:all_reduce"]
assert sorted(by_shape) == [[[2, 2]], [[3, 2]]], by_shape
assert [e.input_shapes for e in seen if "recv" in e.name or "send" in e.name] == [[[3, 2]]] * 2
assert all(e.cpu_time_total >= 0 and e.self_cpu_time_total == 0 and e.count == 1 for e in seen)
assert "gloo:all_reduce" in p.key_averages().table()
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    p.export_chrome_trace(file.name)
    events = json.load(open(file.name))["traceEvents"]
threads = {e["tid"] for e in events if e["name"].startswith("gloo:")}
assert len(threads) == 1 and any("collectives" in e["args"]["name"] for e in events if e["name"] == "thread_name")
assert not threads & {e["tid"] for e in events if e["name"].startswith("aten::")}
with profile(activities=[ProfilerActivity.CPU]) as p:
    dist.all_reduce(x)
assert [(e.name, e.input_shapes) for e in p.events() if e.is_async] == [("gloo:all_reduce", None)]
dist.all_reduce(x)  # after a profile nothing is noted
assert sum(e.is_async for e in p.events()) == 1
print("done")
"""


@needs_mpi
def test_profiles_show_collectives():
    for out in run_ranks(PROFILED, 2):
        assert "done" in out


@needs_mpi
def test_methods_of_groups():
    for out in run_ranks(METHODS, 2):
        assert "done" in out


@needs_mpi
def test_gradients_kept_under_no_sync():
    for out in run_ranks(KEPT, 2):
        assert "done" in out


def test_debug_level(monkeypatch):
    before = dist.get_debug_level()
    try:
        for text, level in (("INFO", dist.DebugLevel.INFO), ("detail", dist.DebugLevel.DETAIL), ("OFF", dist.DebugLevel.OFF)):
            monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", text)
            dist.set_debug_level_from_env()
            assert dist.get_debug_level() is level
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
        with pytest.raises(RuntimeError, match="got 'loud'"):
            dist.set_debug_level_from_env()
        with pytest.raises(TypeError, match="got int"):
            dist.set_debug_level(1)
        assert dist.get_debug_level() is dist.DebugLevel.OFF
    finally:
        dist.set_debug_level(before)


def test_names_at_their_paths():
    from facula.distributed import constants, device_mesh, distributed_c10d

    assert distributed_c10d.all_reduce is dist.all_reduce and distributed_c10d.ReduceOp is dist.ReduceOp
    assert constants.default_pg_timeout.total_seconds() == 1800
    assert dist.init_device_mesh is device_mesh.init_device_mesh and dist.DeviceMesh is device_mesh.DeviceMesh
    with pytest.raises(ValueError, match="not been initialized"):
        distributed_c10d._get_default_group()


AGAIN = """
for i in range(24):  # whoever leaves first, the others are no worse off, and all meet again
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}{i}", rank=RANK, world_size=SIZE, timeout=timedelta(seconds=60))
    x = facula.ones(5)
    dist.all_reduce(x)
    assert x[0] == SIZE
    if RANK == i % SIZE:
        time.sleep((0, 0.001, 0.01, 0.1)[i % 4])
    dist.destroy_process_group()
print("done")
"""


@needs_mpi
def test_groups_made_again_after_leaving_at_different_times(tmp_path):
    for out in run_ranks(AGAIN, 2, arguments=[str(tmp_path / "store")]):
        assert "done" in out
