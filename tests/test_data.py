"""Datasets, samplers and DataLoader. Expected orders and seeds are what PyTorch 2.13 gave for equal seeds."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import facula
from facula.utils import data
from facula.utils.data import _utils
from facula.utils.data._utils.channel import Channel

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. .* workers on .* processors")


class Squares(data.Dataset):
    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return facula.tensor(float(index * index)), index


class Counting(data.IterableDataset):
    """0..22, divided among the workers."""

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(23)) if info is None else iter(range(info.id, 23, info.num_workers))


class Info(data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        info = data.get_worker_info()
        return info.id, info.num_workers, info.seed, random.getrandbits(30)


class Failing(data.Dataset):
    def __init__(self, what):
        self.what = what

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "sleep":
                time.sleep(60)
            raise self.what(f"sample {index}")
        return index


def values(loader):
    return [batch.tolist() for batch in loader]


# -- orders and seeds, as PyTorch's ---------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffle_follows_the_global_seed(workers):
    facula.manual_seed(7)
    loader = data.DataLoader(range(10), batch_size=4, shuffle=True, num_workers=workers)
    assert values(loader) == [[3, 2, 7, 8], [6, 1, 5, 9], [0, 4]]
    assert facula.rand(1).item() == 0.23276156187057495


def test_shuffle_follows_a_generator():
    generator = facula.Generator().manual_seed(3)
    loader = data.DataLoader(range(6), shuffle=True, generator=generator)
    assert [b.item() for b in loader] == [1, 3, 2, 0, 4, 5]
    assert [b.item() for b in loader] == [0, 5, 1, 3, 4, 2]


def test_samplers_draw_as_pytorch_does():
    facula.manual_seed(1)
    assert list(data.RandomSampler(range(5), replacement=True, num_samples=40)) == [
        1,
        2,
        0,
        4,
        1,
        4,
        0,
        0,
        4,
        1,
        2,
        1,
        4,
        3,
        0,
        2,
        4,
        2,
        1,
        4,
        2,
        3,
        3,
        0,
        3,
        1,
        1,
        3,
        2,
        1,
        1,
        4,
        0,
        3,
        1,
        3,
        2,
        4,
        3,
        0,
    ]
    facula.manual_seed(1)
    assert list(data.RandomSampler(range(4), num_samples=10)) == [2, 1, 0, 3, 0, 1, 2, 3, 0, 1]
    facula.manual_seed(2)
    assert list(data.SubsetRandomSampler([9, 8, 7, 6])) == [9, 8, 6, 7]
    facula.manual_seed(2)
    assert list(data.WeightedRandomSampler([0.1, 0.9, 0.3], 8)) == [2, 1, 1, 1, 2, 1, 1, 1]
    assert list(data.WeightedRandomSampler([0.1, 0.9, 0.3, 0.2], 3, replacement=False)) == [2, 1, 3]
    facula.manual_seed(2)
    assert [part.indices for part in data.random_split(range(8), [0.3, 0.3, 0.4])] == [
        [0, 4, 7],
        [2, 6],
        [5, 1, 3],
    ]
    assert list(data.DistributedSampler(range(7), 2, 1, seed=4)) == [1, 4, 5, 3]


def test_worker_seeds():
    facula.manual_seed(7)
    first, second = data.DataLoader(Info(), num_workers=2)
    assert [part.item() for part in first[:3]] == [0, 2, 1407639518939636932]
    assert [part.item() for part in second[:3]] == [1, 2, 1407639518939636933]
    assert first[3].item() == random.Random(1407639518939636932).getrandbits(30)
    assert data.get_worker_info() is None


def test_numpy_seed_of_a_worker():
    pytest.importorskip("numpy")
    words = [3999280408, 2418223825, 1775828080, 3641838301]
    assert _utils.worker._generate_state(123456789012345, 3) == words


# -- loading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_come_in_order_every_epoch(workers, persistent):
    if persistent and not workers:
        pytest.skip("persistent workers are workers")
    loader = data.DataLoader(Squares(), batch_size=4, num_workers=workers, persistent_workers=persistent)
    for _ in range(3):
        batches = list(loader)
        assert [index.tolist() for _, index in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[1][0].tolist() == [16, 25, 36, 49]


@pytest.mark.parametrize("workers", [0, 2, 4])
def test_streams_give_every_sample_once(workers):
    loader = data.DataLoader(Counting(), batch_size=4, num_workers=workers)
    assert sorted(sum(values(loader), [])) == list(range(23))
    assert len(values(data.DataLoader(Counting(), batch_size=4, drop_last=True))) == 5
    assert [int(sample) for sample in data.DataLoader(Counting(), batch_size=None)] == list(range(23))


def test_persistent_workers_end_one_epoch_early_and_begin_the_next():
    loader = data.DataLoader(Squares(20), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    processes = iterator._workers
    next(iterator)
    assert [index.item() for _, index in loader] == list(range(20))
    assert iter(loader)._workers == processes


def test_out_of_order_gives_the_same_samples():
    loader = data.DataLoader(Squares(20), num_workers=3, in_order=False)
    assert sorted(index.item() for _, index in loader) == list(range(20))


class Large(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        base = facula.full((2, 300, 300), float(index))
        return base, base[1], facula.empty(0, 3), f"text {index}"


def test_large_batches_travel_whole_and_keep_sharing():
    for index, (base, row, empty, text) in enumerate(
        data.DataLoader(Large(), batch_size=None, num_workers=2)
    ):
        assert base.sum().item() == index * 180000 and empty.shape == (0, 3) and text == f"text {index}"
        base[1, 0, 0] = -5
        assert row[0, 0].item() == -5


def test_requests_larger_than_a_socket_holds_do_not_block():
    assert (
        list(data.DataLoader(range(200_000), num_workers=1, batch_size=100_000, collate_fn=list))[1][-1]
        == 199_999
    )


def fail(worker_id):
    raise LookupError(f"no luck in {worker_id}")


def test_worker_init_fn_and_its_failure():
    with pytest.raises(LookupError, match=r"(?s)DataLoader worker process 0.*no luck in 0"):
        list(data.DataLoader(Squares(), num_workers=1, worker_init_fn=fail))


# -- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_an_exception_comes_back_with_its_traceback(kind):
    with pytest.raises(kind, match=r"(?s)DataLoader worker process 1.*__getitem__.*sample 5"):
        list(data.DataLoader(Failing(kind), num_workers=2))


def test_a_killed_worker_is_reported_at_once():
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="exited unexpectedly.*SIGKILL"):
        list(data.DataLoader(Failing("kill"), num_workers=2))
    assert time.monotonic() - started < 5


def test_timeout():
    loader = data.DataLoader(Failing("sleep"), num_workers=1, timeout=1)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match="1 seconds"):
        list(iterator)
    for process in iterator._workers:
        process.terminate()


def test_unpicklable_batches_are_an_error():
    with pytest.raises(Exception, match="(?i)pickle"):
        list(data.DataLoader(range(3), num_workers=1, collate_fn=lambda batch: lambda: 0))


def test_a_worker_that_cannot_start_leaves_no_descriptor():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(Exception, match="(?i)pickle|local object"):
            list(data.DataLoader(range(3), num_workers=2, collate_fn=lambda batch: 0, multiprocessing_context="spawn"))
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the resource tracker's, which stays


@pytest.mark.parametrize(
    "wrong, kind",
    [
        ({"num_workers": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"prefetch_factor": 2}, ValueError),
        ({"persistent_workers": True}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"drop_last": 3}, ValueError),
        ({"shuffle": True, "sampler": range(3)}, ValueError),
        ({"batch_sampler": [[1]], "shuffle": True}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"multiprocessing_context": "fork"}, ValueError),
        ({"multiprocessing_context": "spoon", "num_workers": 1}, ValueError),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError),
    ],
)
def test_wrong_arguments(wrong, kind):
    with pytest.raises(kind):
        data.DataLoader(range(3), **wrong)


def test_attributes_are_fixed_after_construction():
    with pytest.raises(ValueError, match="batch_size"):
        data.DataLoader(range(3)).batch_size = 4


PROGRAM = """
import facula, sys, time
from facula.utils import data
class Slow(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i): time.sleep(0.01); return i
if __name__ == "__main__":
    loader = data.DataLoader(Slow(), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    print("ready", *[p.pid for p in iterator._workers], flush=True)
    """


@pytest.mark.parametrize(
    "end",
    [
        "",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_neither_the_end_of_the_program_nor_an_interrupt_leaves_workers(tmp_path, end):
    (tmp_path / "program.py").write_text(PROGRAM + end)
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, tmp_path / "program.py"], env=found, capture_output=True, text=True, timeout=60)
    workers = [int(word) for word in done.stdout.split()[1:]]
    assert len(workers) == 2, done.stderr
    deadline = time.monotonic() + 15
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]


def test_no_descriptor_is_left_open():
    def count():
        return len(os.listdir("/proc/self/fd"))

    list(data.DataLoader(Squares(), num_workers=2))
    before = count()
    for _ in range(3):
        list(data.DataLoader(Squares(), num_workers=2))
    assert count() <= before


# -- datasets, collating ----------------------------------------------------------------------------------


def test_datasets_combine():
    pairs = data.TensorDataset(facula.arange(3), facula.arange(3) * 2)
    assert [part.item() for part in pairs[2]] == [2, 4]
    both = data.ConcatDataset([range(3), range(10, 12)])
    assert [both[i] for i in range(5)] == [0, 1, 2, 10, 11] and both[-1] == 11
    assert data.StackDataset(a=range(3), b="xyz")[1] == {"a": 1, "b": "y"}
    assert data.StackDataset(range(3), "xyz").__getitems__([0, 2]) == [(0, "x"), (2, "z")]
    assert data.Subset(range(10, 20), [3, 4]).__getitems__([1]) == [14]
    assert list(data.ChainDataset([Counting(), Counting()])) == [*range(23), *range(23)]
    assert len(Squares(3) + Squares(4)) == 7
    with pytest.raises(ValueError, match="sum"):
        data.random_split(range(5), [1, 2])


def test_collating():
    batch = data.default_collate([{"a": 1, "b": [1.5, "x"], "c": (True, facula.ones(2))}] * 3)
    assert batch["a"].tolist() == [1, 1, 1] and batch["a"].dtype == facula.int64
    assert batch["b"][0].dtype == facula.float64 and batch["b"][1] == ("x", "x", "x")
    assert batch["c"][0].dtype == facula.bool and batch["c"][1].shape == (3, 2)
    with pytest.raises(TypeError, match="collate_fn"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError, match="length"):
        data.default_collate([[1], [1, 2]])


def test_collating_numpy():
    numpy = pytest.importorskip("numpy")
    assert data.default_collate([numpy.float32(2), numpy.float32(3)]).dtype == facula.float32
    assert data.default_collate([numpy.arange(2)] * 2).tolist() == [[0, 1], [0, 1]]
    assert data.default_convert({"a": numpy.arange(2), "b": "t"})["a"].tolist() == [0, 1]


def test_channel_sends_numpy_memory_and_tensors():
    numpy = pytest.importorskip("numpy")
    here, there = Channel.pair()
    here.send({"a": numpy.arange(5), "t": facula.ones(3), "n": None})
    received = there.receive()
    assert (
        received["a"].tolist() == [0, 1, 2, 3, 4]
        and received["t"].tolist() == [1, 1, 1]
        and received["n"] is None
    )
    here.close()
    with pytest.raises(EOFError):
        there.receive()
    there.close()


def test_workers_need_a_batch_to_fetch():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0 with workers, got 0"):
        list(data.DataLoader(Squares(), num_workers=2, prefetch_factor=0))
    with pytest.raises(ValueError, match="prefetch_factor"):
        data.DataLoader(Squares(), num_workers=2, prefetch_factor=-1)
    assert len(list(data.DataLoader(Squares(8), batch_size=4, num_workers=1, prefetch_factor=1))) == 2


class DiesOnce(data.Dataset):
    """Ends its worker at index 5 while `flag` exists."""

    def __init__(self, flag):
        self.flag = flag

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5 and self.flag.exists():
            self.flag.unlink()
            os._exit(3)
        return index


def test_after_the_death_of_a_worker_the_next_epoch_begins_anew(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = data.DataLoader(DiesOnce(flag), batch_size=2, num_workers=2, persistent_workers=True)
    with pytest.raises(RuntimeError, match="exited unexpectedly.*exit code 3"):
        list(loader)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


# -- between epochs, and without descriptors ----------------------------------------------------------------


def test_the_death_of_a_persistent_worker_between_epochs_is_reported_once():
    loader = data.DataLoader(Squares(8), num_workers=2, persistent_workers=True)
    expected = list(loader)
    victim = loader._iterator._workers[0]
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with pytest.raises(RuntimeError, match="exited unexpectedly.*SIGKILL"):
        list(loader)
    assert list(loader) == expected


FEW_DESCRIPTORS = """
import resource, sys
import facula
from facula.utils import data
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

class Large(data.Dataset):
    def __len__(self):
        return 200
    def __getitem__(self, index):
        while sys.argv[1] == "worker" and len(held) < 48:
            try:
                held.append(open(sys.argv[2]))
            except OSError:
                break
        return facula.ones(100000)

held = []
try:
    kept = list(data.DataLoader(Large(), num_workers=60 if sys.argv[1] == "start" else 1))
    if sys.argv[1] == "parent" and sys.version_info >= (3, 13):  # batches hold none there
        raise RuntimeError("DataLoader: too many open files: not here. ulimit -n 48")
except RuntimeError as error:
    assert "DataLoader: too many open files" in str(error) and "ulimit -n 48" in str(error), error
    assert "exited unexpectedly" not in str(error), error
    print("named")
"""


@pytest.mark.parametrize("where", ["parent", "worker", "start"])
def test_descriptors_that_run_out_are_named_with_the_remedy(where):
    done = subprocess.run([sys.executable, "-c", FEW_DESCRIPTORS, where, __file__], capture_output=True, text=True, timeout=120)
    assert done.stdout == "named\n", done.stderr


def test_an_iterator_that_is_left_at_the_end_of_the_program_is_silent():
    program = """
import sys
from facula.utils import data

class Tied:
    def __init__(self, iterator):
        self.iterator = iterator
    def __del__(self):  # runs while modules are taken apart
        self.iterator.__del__()

tied = Tied(iter(data.DataLoader(list(range(100)), num_workers=2)))
next(tied.iterator)
sys.modules["facula.kept"] = tied
for name in ("time", "contextlib"):
    sys.modules["facula.utils.data._multiprocess"].__dict__.pop(name, None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
