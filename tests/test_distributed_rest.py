"""Names of PyTorch's distributed packages that programs use beside collectives."""

import io

import pytest
from distributed_ranks import needs_mpi, run_ranks

import facula
from facula import distributed as dist
from facula.distributed import checkpoint as dcp
from facula.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from facula.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp


def test_partial_loads(tmp_path):
    dcp.save({"a": facula.ones(3)}, checkpoint_id=tmp_path, planner=DefaultSavePlanner())
    state = {"a": facula.zeros(3), "more": {"b": facula.full((2,), 7.0), "n": 3}}
    with pytest.raises(dcp.CheckpointException, match="more.b"):
        dcp.load(state, checkpoint_id=tmp_path, planner=DefaultLoadPlanner())
    dcp.load(state, checkpoint_id=tmp_path, planner=DefaultLoadPlanner(allow_partial_load=True))
    assert state["a"].tolist() == [1.0] * 3 and state["more"]["b"].tolist() == [7.0] * 2 and state["more"]["n"] == 3

    class Own(DefaultLoadPlanner):
        pass

    with pytest.raises(NotImplementedError, match="planners of your own are not supported, got Own"):
        dcp.load(state, checkpoint_id=tmp_path, planner=Own())
    with pytest.raises(NotImplementedError, match="always flattened"):
        DefaultSavePlanner(flatten_state_dict=False)


def test_folders_and_files(tmp_path):
    model = facula.nn.Linear(3, 2)
    optimizer = facula.optim.Adam(model.parameters())
    model(facula.ones(3)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "list": [facula.ones(2), {"x": facula.zeros(1)}], "n": 5}
    dcp.save(state, checkpoint_id=tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "file.pt")
    found = facula.load(tmp_path / "file.pt")
    assert found.keys() == state.keys() and found["n"] == 5 and facula.equal(found["list"][1]["x"], facula.zeros(1))
    assert facula.equal(found["model"]["weight"], model.weight)
    assert facula.equal(found["optimizer"]["state"]["0"]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
    torch_save_to_dcp(tmp_path / "file.pt", tmp_path / "again")
    again = {"model": {k: facula.zeros_like(v) for k, v in model.state_dict().items()}, "n": 0}
    dcp.load(again, checkpoint_id=tmp_path / "again")
    assert again["n"] == 5 and facula.equal(again["model"]["weight"], model.weight)
    buffer = io.BytesIO()
    facula.save([1], buffer)
    (tmp_path / "list.pt").write_bytes(buffer.getvalue())
    with pytest.raises(dcp.CheckpointException, match="expected a dict, got list"):
        torch_save_to_dcp(tmp_path / "list.pt", tmp_path / "no")


def test_what_has_a_state():
    from facula.distributed.checkpoint.stateful import Stateful

    assert isinstance(facula.nn.Linear(1, 1), Stateful) and not isinstance({}, Stateful)
    made = dcp.metadata.TensorProperties.create_from_tensor(facula.ones(2, dtype=facula.int16))
    assert made.dtype == facula.int16 and not made.requires_grad


def test_which_backend():
    assert str(dist.BackendConfig("gloo")) == "cpu:gloo,cuda:gloo" and str(dist.BackendConfig("nccl")) == "cuda:nccl"
    config = dist.BackendConfig("cpu:gloo,cuda:nccl")
    assert config.get_device_backend_map() == {"cpu": "gloo", "cuda": "nccl"} and repr(config) == "cpu:gloo,cuda:nccl"
    with pytest.raises(ValueError, match="a backend for each kind"):
        dist.BackendConfig("cpu:gloo,cpu:mpi")


def test_helpers_of_launchers(monkeypatch):
    from facula.distributed.elastic.utils import api, data, distributed, logging, store

    monkeypatch.setenv("LOGLEVEL", "INFO")
    assert logging.get_logger().name == __name__ and logging.get_logger("x").level == 20
    monkeypatch.setenv("SOME", "7")
    assert api.get_env_variable_or_raise("SOME") == "7" and 0 < distributed.get_free_port() < 65536
    with pytest.raises(ValueError, match="NOT_SET"):
        api.get_env_variable_or_raise("NOT_SET")
    held = distributed.create_c10d_store(True, "localhost")
    assert store.synchronize(held, b"x", 0, 1, "place") == [b"x"] and held.timeout.total_seconds() == 600
    assert list(data.CyclingIterator(3, lambda epoch: iter([epoch, 10 * epoch]), start_epoch=1)) == [1, 10, 2, 20]
    parts = [data.ElasticDistributedSampler(range(11), num_replicas=3, rank=r, start_index=4) for r in range(3)]
    assert [len(p) for p in parts] == [3, 3, 3]
    seen = [i for p in parts for i in p]
    assert set(seen) == set(range(4, 11)) and len(seen) == 9
    first = list(parts[0])
    parts[0].set_epoch(1)
    assert list(parts[0]) != first
    with pytest.raises(ValueError, match="below 11, got 11"):
        data.ElasticDistributedSampler(range(11), num_replicas=3, rank=0, start_index=11)


MEETING = """
import pytest
from facula.distributed import collective_utils
from facula.distributed.rendezvous import register_rendezvous_handler, rendezvous
from facula import nn
from facula.nn.parallel import DistributedDataParallel as DDP
def by_port(url, timeout=None, **options):
    yield dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), SIZE, RANK == 0), RANK, SIZE
register_rendezvous_handler("mine", by_port)
raised(lambda: register_rendezvous_handler("mine", by_port), "there is a handler for mine://")
raised(lambda: register_rendezvous_handler("tcp", by_port), "there is a handler for tcp://")
raised(lambda: next(rendezvous(3)), "must be a text")
dist.init_process_group("gloo", init_method="mine://anything", timeout=timedelta(seconds=60))
assert dist.get_rank() == RANK and dist.get_world_size() == SIZE and dist.get_backend_config() == "cpu:gloo,cuda:gloo"
group = dist.group.WORLD
# objects, and errors of those that make them
assert collective_utils.broadcast(lambda: ["made", RANK], rank=1, pg=group) == ["made", 1]
assert collective_utils.all_gather(lambda: RANK * 10, "here", group) == [10 * r for r in range(SIZE)]
def fails(): raise KeyError("no") if RANK == 1 else None
raised(lambda: collective_utils.broadcast(fails, rank=1, stage_name="load", pg=group), "RuntimeError", "rank 1 failed in load", "KeyError")
raised(lambda: collective_utils.all_gather(fails, pg=group), "RuntimeError", "1: KeyError('no')")
raised(lambda: collective_utils.all_gather(3, f"stage {RANK}", group), "not at one stage", "stage 0")
raised(lambda: collective_utils.all_gather_object_enforce_type(group, [None] * SIZE, 1 if RANK else "x"), "TypeError", "['str', 'int'")
raised(lambda: collective_utils.broadcast(None, success=False), "RuntimeError", "rank 0 failed")
assert collective_utils.broadcast(5) == 5 and collective_utils.all_gather(6) == [6]
# parts of a group
part = dist.split_group(split_ranks=[[0, 1], [2]])
t = facula.tensor([float(RANK)])
dist.all_reduce(t, group=part)
assert t.item() == (1.0 if RANK < 2 else 2.0)
assert (dist.split_group(split_ranks=[[0, 2]]) is None) == (RANK == 1)
raised(lambda: dist.split_group(split_ranks=[[0, 1], [1]]), "ValueError", "each rank once")
raised(lambda: dist.split_group(split_ranks=None), "ValueError")
# gradients in 8 bits
from facula.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from facula.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
for kind in (DDPCommHookType.QUANTIZE_PER_TENSOR, DDPCommHookType.QUANTIZE_PER_CHANNEL):
    facula.manual_seed(0)
    exact, rough = DDP(nn.Linear(40, 30)), DDP(nn.Linear(40, 30))
    rough.load_state_dict(exact.state_dict())
    register_ddp_comm_hook(kind, rough)
    x = facula.randn(8, 40, generator=facula.Generator().manual_seed(RANK))
    for m in (exact, rough):
        m(x).square().mean().backward()
    everybody = [None] * SIZE
    for p, q in zip(exact.parameters(), rough.parameters()):
        bound = p.grad.abs().max() * 0.02
        assert 0 < (p.grad - q.grad).abs().max() < bound, (kind, (p.grad - q.grad).abs().max(), bound)
    dist.all_gather_object(everybody, float(rough.module.weight.grad.sum()))
    assert len(set(everybody)) == 1
zero = DDP(nn.Linear(3, 1))
register_ddp_comm_hook(DDPCommHookType.QUANTIZE_PER_TENSOR, zero)
(zero(facula.zeros(2, 3)) * 0).sum().backward()
assert zero.module.weight.grad.abs().sum() == 0
low = DDP(nn.Linear(6, 5))
register_ddp_comm_hook(DDPCommHookType.POWER_SGD_RANK2, low)
low(facula.ones(2, 6)).sum().backward()
# the debugger, which is skipped here and there
dist.breakpoint(skip=1)
print("ok")
"""


@needs_mpi
def test_three_processes():
    assert run_ranks(MEETING, 3) == ["ok\n"] * 3


@needs_mpi
def test_the_debugger_of_one_process():
    code = """
import io
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
here = 41
read, write = os.pipe()
os.write(write, b"p here + 1\\nc\\n")
os.close(write)
os.dup2(read, 0)
dist.breakpoint(rank=1)
print("on")
"""
    first, second = run_ranks(code, 2)
    assert first == "on\n" and "42" in second and second.endswith("on\n")
