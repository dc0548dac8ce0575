"""Process groups of one process, which need no MPI."""

import pytest

import facula
import facula.distributed as dist
from facula import nn
from facula.utils.data import DistributedSampler


@pytest.fixture
def world():
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1?rank=0&world_size=1")
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_before_a_group_is_made():
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(facula.ones(1))):
        with pytest.raises(ValueError, match="has not been initialized"):
            call()


def test_ways_to_make_one(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="RANK"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    for options in ({}, {"init_method": "file:///none", "rank": 0, "world_size": 1}, {"store": dist.HashStore(), "rank": 0, "world_size": 1}):
        dist.init_process_group("gloo", **options)
        with pytest.raises(ValueError, match="^init_process_group: .*second"):
            dist.init_process_group("gloo")
        dist.destroy_process_group()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ValueError, match="^init_process_group: .*MASTER_ADDR"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(ValueError, match="^init_process_group: rank must be below world_size 2, got 2"):
        dist.init_process_group("gloo")
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(ValueError, match="^init_process_group: RANK must be a number, got 'two'"):
        dist.init_process_group("gloo")
    with pytest.raises(RuntimeError, match="^init_process_group: .*udp"):
        dist.init_process_group("gloo", "udp://a")
    with pytest.raises(ValueError, match="^Backend: .*'abc'"):
        dist.init_process_group("abc")
    with pytest.raises(RuntimeError, match="^init_process_group: .*'nccl'"):
        dist.init_process_group("nccl", rank=0, world_size=1)


def test_facts(world):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert dist.get_process_group_ranks(world) == [0] and dist.get_global_rank(world, 0) == 0
    other = dist.new_group([0])
    assert dist.get_rank(other) == 0 and dist.get_pg_count() == 2
    nobody = dist.new_group([])
    assert dist.get_rank(nobody) == -1 and dist.all_reduce(facula.ones(1), group=nobody) is None
    with pytest.raises(ValueError, match=r"^new_group: .*\[0, 1\]"):
        dist.new_group([0, 1])


def test_collectives_give_each_process_its_own(world):
    x = facula.arange(3.0)
    for call in (
        lambda o: dist.all_gather([o], x),
        lambda o: dist.all_gather_into_tensor(o, x),
        lambda o: dist.gather(x, [o]),
        lambda o: dist.scatter(o, [x], 0),
        lambda o: dist.reduce_scatter(o, [x]),
        lambda o: dist.reduce_scatter_tensor(o, x),
        lambda o: dist.all_to_all([o], [x]),
        lambda o: dist.all_to_all_single(o, x),
    ):
        out = facula.zeros(3)
        assert call(out) is None and facula.equal(out, x)
    for op in dist.ReduceOp:
        y = x.int() if op.name in ("BAND", "BOR", "BXOR") else x
        work = dist.all_reduce(y, op, async_op=True)
        assert work.wait() and work.is_completed() and work.get_future().wait()[0] is y
    with pytest.raises(TypeError, match="^all_reduce: BAND .*float32"):
        dist.all_reduce(x, dist.ReduceOp.BAND)
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    dist.barrier()
    assert x.tolist() == [0, 1, 2]


def test_objects(world):
    value = {"a": [1]}
    found = [None]
    dist.all_gather_object(found, value)
    assert found == [value] and found[0] is not value
    dist.scatter_object_list(found, [7], 0)
    assert found == [7]
    dist.gather_object(5, found)
    dist.broadcast_object_list(found, 0)
    assert found == [5]


def test_wrong_arguments(world):
    x = facula.ones(3)
    with pytest.raises(TypeError, match="^all_reduce: .*int"):
        dist.all_reduce(3)
    with pytest.raises(TypeError, match="^all_reduce: op .*int"):
        dist.all_reduce(x, 3)
    with pytest.raises(ValueError, match="^all_reduce: MAX .*complex64"):
        dist.all_reduce(x.to(facula.complex64), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="^broadcast: .*got 1"):
        dist.broadcast(x, 1)
    with pytest.raises(ValueError, match="^broadcast: .*neither"):
        dist.broadcast(x)
    with pytest.raises(ValueError, match="^all_gather: tensor_list .*got 2"):
        dist.all_gather([x, x], x)
    with pytest.raises(ValueError, match="^all_gather: .*dtype"):
        dist.all_gather([x.double()], x)
    with pytest.raises(ValueError, match="^all_gather_into_tensor: .*size"):
        dist.all_gather_into_tensor(facula.zeros(4), x)
    with pytest.raises(ValueError, match="^send: "):
        dist.send(x, 0)
    assert dist.init_device_mesh("cpu", (1,)).size() == 1


def test_stores():
    store = dist.HashStore()
    store.set("a", "1")
    assert store.get("a") == b"1" and store.add("n", 2) == 2 and store.add("n", 3) == 5
    part = dist.PrefixStore("p", store)
    part.set("a", "x")
    assert part.get("a") == b"x" and store.get("p/a") == b"x" and store.num_keys() == 3
    import datetime

    with pytest.raises(dist.DistStoreError, match="^wait timeout"):
        store.wait(["none"], datetime.timedelta(milliseconds=1))


def test_training_as_in_several_processes(world):
    facula.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4))))
    sampler = DistributedSampler(range(8), shuffle=True)
    assert sorted(sampler) == list(range(8))
    with model.no_sync():
        model(facula.randn(4, 2)).sum().backward()
    total = model.module[0].weight.grad.sum()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    assert list(model.state_dict())[0] == "module.0.weight"


@pytest.mark.parametrize("dtype", [facula.float64, facula.float32, facula.bfloat16, facula.int8])
@pytest.mark.parametrize("n", [1, 5, 300])
def test_collectives_write_their_output_and_nothing_behind_it(world, dtype, n):
    values = facula.arange(n).remainder(50).to(dtype)
    calls = {
        "all_reduce": lambda out: (out.copy_(values), dist.all_reduce(out)),
        "broadcast": lambda out: (out.copy_(values), dist.broadcast(out, 0)),
        "all_gather": lambda out: dist.all_gather([out], values),
        "all_gather_into_tensor": lambda out: dist.all_gather_into_tensor(out, values),
        "gather": lambda out: dist.gather(values, [out], dst=0),
        "scatter": lambda out: dist.scatter(out, [values], src=0),
        "reduce_scatter_tensor": lambda out: dist.reduce_scatter_tensor(out, values),
        "all_to_all_single": lambda out: dist.all_to_all_single(out, values),
    }
    for name, call in calls.items():
        around = facula.full((10 * n + 200,), 7, dtype=dtype)
        call(around[100 : 100 + n])
        assert facula.equal(around[100 : 100 + n], values), name
        assert (around[:100] == 7).all() and (around[100 + n :] == 7).all(), name


def test_uneven_inputs_of_one_process(world):
    from facula.distributed.algorithms import Join

    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    with Join([model]):
        for _ in range(3):
            model(facula.ones(1, 2)).sum().backward()
    assert facula.equal(model.module.weight.grad, facula.full((1, 2), 3.0))


def test_steps_in_a_hook_of_one_process(world):
    from facula.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
    from facula.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    before = model.module.weight.detach().clone()
    zero = ZeroRedundancyOptimizer(model.parameters(), facula.optim.SGD, overlap_with_ddp=True, lr=0.5)
    model.register_comm_hook(None, ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, model, zero))
    model(facula.ones(1, 2)).sum().backward()
    zero.step()
    assert facula.equal(model.module.weight.detach(), before - 0.5)


def test_errors_name_what_was_called():
    from facula.distributed import rpc

    with pytest.raises(ValueError, match="^init_rpc: rank must be given"):
        rpc.init_rpc("alone", world_size=1)
    with pytest.raises(RuntimeError, match="^rendezvous: expected env://"):
        next(dist.rendezvous("udp://host:1"))
