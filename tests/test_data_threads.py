"""DataLoader workers that are threads: what the processes of test_data.py promise, and what only threads can."""

import gc
import random
import subprocess
import sys
import threading
import time
import weakref

import pytest
from test_data import Counting, Failing, Squares, values

import facula
from facula.utils import data

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. .* workers on .* processors")


def threads(dataset, workers=2, **options):
    return data.DataLoader(dataset, num_workers=workers, multiprocessing_context="threads", **options)


def running():
    return [t.name for t in threading.enumerate() if t.name.startswith("facula_data")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert not running()


class Slow(data.Dataset):
    """Samples of which earlier ones take longer."""

    def __init__(self, length=12):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.002 * (self.length - index))
        return index


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_come_in_order_every_epoch(workers, persistent):
    loader = threads(Squares(), workers, batch_size=4, persistent_workers=persistent)
    for _ in range(3):
        batches = list(loader)
        assert [index.tolist() for _, index in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[1][0].tolist() == [16, 25, 36, 49]
    assert sum(values(threads(Slow(), 4, batch_size=1)), []) == list(range(12))


def test_shuffle_is_that_of_processes():
    facula.manual_seed(7)
    assert values(threads(range(10), batch_size=4, shuffle=True)) == [[3, 2, 7, 8], [6, 1, 5, 9], [0, 4]]
    assert facula.rand(1).item() == 0.23276156187057495  # the program's generator is not seeded anew


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_streams_give_every_sample_once(workers):
    assert sorted(sum(values(threads(Counting(), workers, batch_size=4)), [])) == list(range(23))
    assert sorted(int(sample) for sample in threads(Counting(), workers, batch_size=None)) == list(range(23))
    loader = threads(Counting(), workers, batch_size=4, persistent_workers=True)
    assert all(sorted(sum(values(loader), [])) == list(range(23)) for _ in range(3))
    assert len(values(threads(Counting(), 1, batch_size=4, drop_last=True))) == 5


def test_out_of_order_gives_what_is_ready():
    loader = threads(Slow(8), 4, batch_size=1, in_order=False)
    assert sorted(sum(values(loader), [])) == list(range(8))


class Info(data.Dataset):
    def __init__(self):
        self.seen = set()

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = data.get_worker_info()
        assert info.dataset is self and info.worker_method == "thread"
        self.seen.add(threading.get_ident())
        return info.id, info.num_workers, info.seed, info.rng.random_generator.random(), info.rng


def test_a_thread_knows_who_it_is_and_has_generators_of_its_own():
    def drawn():
        facula.manual_seed(7)
        random.seed(3)
        dataset = Info()
        rows = list(threads(dataset, batch_size=None))
        assert [row[:3] for row in rows[:2]] == [[0, 2, 1407639518939636932], [1, 2, 1407639518939636933]]  # processes' seeds
        assert len(dataset.seen) == 2 and threading.get_ident() not in dataset.seen
        assert random.random() == random.Random(3).random()
        rngs = [row[4] for row in rows[:2]]
        assert rows[0][4] is rows[2][4] and rows[0][4] is not rows[1][4]
        words = [facula.rand(2, generator=rng.torch_generator).tolist() for rng in rngs]
        return [row[3] for row in rows], words, [rng.numpy_generator.random() for rng in rngs]

    first = drawn()
    assert first == drawn() and first[0][0] == random.Random(1407639518939636932).random()
    assert first[1][0] != first[1][1] and first[2][0] != first[2][1]
    assert data.get_worker_info() is None


def test_batches_are_handed_over_as_they_are():
    samples = [facula.rand(3) for _ in range(4)]
    got = list(threads(samples, batch_size=None, collate_fn=lambda sample: (sample, lambda: 1)))  # no process could send these
    assert all(there is here and call() == 1 for (there, call), here in zip(got, samples))


def test_persistent_threads_end_one_epoch_early_and_begin_the_next():
    loader = threads(Squares(20), persistent_workers=True)
    iterator = iter(loader)
    workers = list(iterator._workers)
    next(iterator)
    assert [index.item() for _, index in loader] == list(range(20))
    assert list(iter(loader)._workers) == workers and len(running()) == 2


def test_an_iterator_that_is_dropped_ends_its_threads():
    iterator = iter(threads(Squares(1000)))
    next(iterator)
    assert len(running()) == 2
    known = weakref.ref(iterator)
    del iterator
    assert known() is None and not running()


@pytest.mark.parametrize("kind", [ValueError, KeyError, SystemExit])
def test_an_exception_comes_back_with_its_traceback(kind):
    with pytest.raises(kind, match=r"(?s)DataLoader worker thread 1.*__getitem__.*sample 5"):
        list(threads(Failing(kind)))


def test_the_program_goes_on_after_an_exception():
    iterator = iter(threads(Failing(ValueError), batch_size=1))
    got = []
    while True:
        try:
            got.append(next(iterator).item())
        except ValueError:
            got.append(None)
        except StopIteration:
            break
    assert got == [0, 1, 2, 3, 4, None, 6, 7]


def test_worker_init_fn_and_its_failure():
    seen = []
    list(threads(range(4), worker_init_fn=lambda number: seen.append((number, data.get_worker_info().id))))
    assert sorted(seen) == [(0, 0), (1, 1)]

    def fail(number):
        raise LookupError(f"no luck in {number}")

    with pytest.raises(LookupError, match=r"(?s)DataLoader worker thread 0.*no luck in 0"):
        list(threads(Squares(), 1, worker_init_fn=fail))


def test_timeout():
    class Waiting(data.Dataset):
        go_on = threading.Event()

        def __len__(self):
            return 1

        def __getitem__(self, index):
            self.go_on.wait(30)
            return index

    iterator = iter(threads(Waiting(), 1, timeout=0.2))
    with pytest.raises(RuntimeError, match="0.2 seconds"):
        next(iterator)
    Waiting.go_on.set()
    assert next(iterator).item() == 0


def test_prefetching_keeps_as_many_batches_ahead():
    asked = []

    class Asked(Squares):
        def __getitem__(self, index):
            asked.append(index)
            return index

    iterator = iter(threads(Asked(100), 2, batch_size=1, prefetch_factor=3))
    next(iterator)
    deadline = time.monotonic() + 10
    while len(asked) < 7 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert sorted(asked) == list(range(7))  # 2 x 3 ahead, and one for that which was taken


def test_the_context_is_a_name():
    loader = threads(range(3))
    assert loader.multiprocessing_context == "threads"
    loader.multiprocessing_context = None
    assert loader.multiprocessing_context is None
    with pytest.raises(ValueError, match="needs num_workers"):
        data.DataLoader(range(3), multiprocessing_context="threads")
    with pytest.raises(ValueError, match="'threads'.*got 'thread'"):
        data.DataLoader(range(3), num_workers=1, multiprocessing_context="thread")


PROGRAM = """
import facula, time
from facula.utils import data
class Computing(data.Dataset):
    def __len__(self): return 100000
    def __getitem__(self, i): return facula.rand(64, 64) @ facula.rand(64, 64)
loader = data.DataLoader(Computing(), num_workers=2, multiprocessing_context="threads", persistent_workers=True)
iterator = iter(loader)
next(iterator)
print("ready", flush=True)
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)"])
def test_the_end_of_the_program_waits_for_its_threads(end):
    done = subprocess.run([sys.executable, "-c", PROGRAM + end], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
