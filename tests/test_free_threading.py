"""Many threads at once: on a free-threaded Python they really run so, on any other they take turns.

Every test lets the threads begin together and ends with what they computed, which is the same on both."""

import copy
import gc
import io
import pickle
import subprocess
import sys
import sysconfig
import threading
import weakref

import numpy as np
import pytest
from many_threads import THREADS, together

import facula as torch
from facula import nn
from facula.nn import functional as F
from facula.utils import data


@pytest.fixture(autouse=True)
def one_thread_for_each_op():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_module_says_that_it_needs_no_lock():
    """A Python that can do without the lock would switch it on, with a warning, for a module that does not say so."""
    child = "import sys, facula; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", child], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str(not sysconfig.get_config_var("Py_GIL_DISABLED")), done.stderr


def test_tensors_of_their_own():
    def work(number):
        total = 0.0
        for i in range(400):
            a = torch.full((8, 8), float(number + 1))
            b = (a @ a).relu() + i
            total += float(b[0, 0] - i)
        return total

    assert together(work) == [400 * 8 * (n + 1) ** 2 for n in range(THREADS)]


def test_objects_made_here_and_let_go_there():
    """Free objects go to the thread that lets go of a tensor, and outlive threads."""
    for _ in range(5):
        boxes = [[torch.full((3,), float(i)) for i in range(300)] for _ in range(THREADS)]

        def work(number, boxes=boxes):
            theirs = boxes[number]
            while theirs:
                assert theirs.pop()[0] == len(theirs)
            return [torch.full((3,), float(i)) for i in range(300)]

        boxes = together(work)
        assert all(float(t[2]) == i for box in boxes for i, t in enumerate(box))


def test_one_tensor_keeps_one_object():
    base = torch.arange(6.0, requires_grad=True)
    shared = base * 2
    views = [shared[i:] for i in range(4)]

    def work(number):
        for _ in range(600):
            for view in views:
                assert view._base is shared
            node = shared.grad_fn
            assert node is shared.grad_fn
            assert shared.requires_grad
        return True

    assert all(together(work))


def test_objects_that_tensors_own():
    """The object of a base is let go and asked for again by all threads at once; what it holds stays."""

    class Marked(torch.Tensor):
        pass

    for round_ in range(60):
        base = torch.arange(4.0).as_subclass(Marked)
        base.note = [round_]
        view = base.detach()[1:] if round_ % 2 else base[1:]
        del base

        def work(number, view=view):
            seen = []
            for _ in range(20):
                found = view._base
                seen.append(found.note[0] if isinstance(found, Marked) and hasattr(found, "note") else None)
                del found
            return seen

        seen = set(sum(together(work), []))
        assert len(seen) == 1, seen


def test_weak_references_while_objects_die():
    for _ in range(40):
        kept = [torch.ones(2) for _ in range(20)]
        weak = [weakref.ref(t) for t in kept]

        def work(number, kept=kept, weak=weak):
            if number == 0:
                kept.clear()
                return 0
            return sum(t is not None and float(t.sum()) == 2.0 for t in [w() for w in weak])

        assert all(0 <= n <= 20 for n in together(work))


def test_a_weak_reference_to_a_tensor_that_only_a_graph_holds():
    leaf = torch.ones(3, requires_grad=True)
    u = leaf * 2
    weak = weakref.ref(u)
    v = u * u
    del u
    assert weak() is None or weak().shape == (3,)
    again = v.grad_fn._saved_self
    assert weak() is again and again.tolist() == [2.0, 2.0, 2.0]
    del again, v
    assert weak() is None


def test_reading_one_tensor():
    shared = torch.arange(2048.0).reshape(32, 64)
    expected = (shared @ shared.T).sum().item()

    def work(number):
        for _ in range(100):
            assert (shared @ shared.T).sum().item() == expected
            assert shared[number].tolist()[5] == number * 64 + 5
            assert shared.T.contiguous()[3, 2] == 131
            assert list(shared.shape) == [32, 64] and shared.dtype is torch.float32
        return True

    assert all(together(work))


def test_conv_results_that_several_threads_read():
    torch.manual_seed(0)
    image, weight = torch.randn(2, 8, 12, 12), torch.randn(8, 8, 3, 3)
    expected = F.conv2d(image, weight, padding=1).contiguous().tolist()
    for _ in range(20):
        result = F.conv2d(image, weight, padding=1)

        def work(number, result=result):
            if number % 2:
                return float(result.relu().sum())
            return result.tolist() == expected

        found = together(work)
        assert found[0] and found[2] and found[1] == found[3]


def test_writing_one_tensor():
    """Elements of threads of their own: nothing is lost. The same elements: one of the writers wins."""
    counts, same = torch.zeros(THREADS, 16), torch.zeros(16)

    def work(number):
        for _ in range(500):
            counts[number].add_(1)
            same.fill_(number)
            same.mul_(1)
        return True

    before = counts._version
    together(work)
    assert (counts == 500).all() and counts._version - before == 500 * THREADS
    assert all(0 <= v < THREADS for v in same.tolist())


def test_loader_with_threads():
    dataset = data.TensorDataset(torch.arange(256.0).reshape(128, 2))

    def work(number):
        loader = data.DataLoader(dataset, batch_size=8, num_workers=2, multiprocessing_context="threads")
        return sum(float(batch.sum()) for (batch,) in loader)

    assert together(work) == [256 * 255 / 2] * THREADS


def test_generators():
    shared = torch.Generator().manual_seed(3)
    state = shared.get_state()

    def own(number):
        generator = torch.Generator().manual_seed(number % 2)
        return [torch.rand(7, generator=generator).tolist() for _ in range(50)]

    results = together(own)
    assert results[0] == results[2] and results[1] == results[3] and results[0] != results[1]

    def both(number):
        parts = []
        for _ in range(50):
            parts.append(torch.rand(4, generator=shared, dtype=torch.float64))
            torch.rand(3)
            shared.get_state()
        return torch.cat(parts)

    numbers = sorted(torch.cat(together(both)).tolist())
    shared.set_state(state)
    assert numbers == sorted(torch.rand(4 * 50 * THREADS, generator=shared, dtype=torch.float64).tolist())


def test_profiler_on_and_off():
    done = threading.Event()

    def work(number):
        if number:
            while not done.is_set():
                (torch.ones(4) + 1).sum()
            return True
        try:
            for _ in range(6):
                with torch.profiler.profile(with_stack=True, record_shapes=True) as profile:
                    for _ in range(5):
                        torch.ones(3) * 2
                assert any(event.key == "aten::mul" for event in profile.key_averages())
        finally:
            done.set()
        return True

    assert all(together(work))


def test_pickling_and_copies():
    shared = nn.Linear(3, 3)
    tensors = {"a": torch.arange(5), "b": torch.ones(2, 2, dtype=torch.bfloat16)}

    def work(number):
        for _ in range(25):
            again = pickle.loads(pickle.dumps(tensors))
            assert torch.equal(again["a"], tensors["a"]) and again["b"].dtype is torch.bfloat16
            file = io.BytesIO()
            torch.save(shared.state_dict(), file)
            file.seek(0)
            assert torch.equal(torch.load(file)["weight"], shared.weight)
            assert torch.equal(copy.deepcopy(shared).bias, shared.bias)
        return True

    assert all(together(work))


def test_storages_have_one_object():
    shared = torch.arange(8)

    def work(number):
        for _ in range(200):
            first, second = shared.untyped_storage(), shared[2:].untyped_storage()
            assert first == second and first.nbytes() == 64
        return True

    assert all(together(work))


def test_numpy_and_dlpack():
    shared = torch.arange(12.0)

    def work(number):
        for _ in range(100):
            assert shared.numpy()[number] == number
            assert torch.from_numpy(np.arange(4))[3] == 3
            assert torch.equal(torch.from_dlpack(shared), shared)
        return True

    assert all(together(work))

    for _ in range(30):
        capsule = torch.to_dlpack(torch.ones(3))

        def take(number, capsule=capsule):
            try:
                return torch.utils.dlpack.from_dlpack(capsule).tolist()
            except RuntimeError:
                return None

        assert [r for r in together(take) if r] == [[1.0, 1.0, 1.0]]


def test_lists_that_change_during_the_call():
    sizes, tensors, index = [2, 2], [torch.ones(2), torch.ones(2)], [slice(None), 0]
    done = threading.Event()

    def work(number):
        if number == 0:
            for _ in range(2000):
                sizes.append(2)
                sizes.pop()
                tensors.append(torch.ones(2))
                tensors.pop()
                index.append(slice(0, 1))
                index.pop()
            done.set()
            return True
        while not done.is_set():
            assert torch.zeros(sizes).dim() in (1, 2, 3)
            assert len(torch.cat(tensors)) in (2, 4, 6)
            try:
                torch.tensor(sizes)
                torch.zeros(2, 2, 2)[index]
            except (IndexError, ValueError):
                pass  # it was longer a moment ago
        return True

    assert all(together(work))


def test_collections_while_threads_compute():
    done = threading.Event()

    def work(number):
        if number == 0:
            for _ in range(20):
                gc.collect()
            done.set()
            return True
        while not done.is_set():
            t = torch.ones(3, requires_grad=True)
            t.self = t
            t.register_hook(lambda grad, t=t: grad)
            (t * 2).sum().backward()
        return True

    assert all(together(work))


def test_modes_belong_to_threads():
    def work(number):
        for _ in range(200):
            with torch.no_grad() if number % 2 else torch.enable_grad():
                assert (torch.ones(2, requires_grad=True) * 2).requires_grad == (number % 2 == 0)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=number % 2 == 0):
                wanted = torch.bfloat16 if number % 2 == 0 else torch.float32
                assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is wanted
        return True

    assert all(together(work))


def test_settings_change_meanwhile():
    def work(number):
        for i in range(300):
            if number == 0:
                torch.set_num_threads(1 + i % 2)
            elif number == 1:
                torch.use_deterministic_algorithms(False)
                torch.is_grad_enabled()
            else:
                assert torch.ones(70000).sum() == 70000
        return True

    assert all(together(work))


def test_named_results_and_classes_of_nodes():
    def work(number):
        for _ in range(30):
            values, places = torch.ones(3, 4).max(1)
            result = torch.linalg.slogdet(torch.eye(3))
            assert result.sign == 1 and type(result).__name__ == "linalg_slogdet"
            x = torch.ones(3, requires_grad=True)
            names = [type(f(x).grad_fn).__name__ for f in (torch.exp, torch.sin, torch.tanh, torch.sigmoid)]
            assert names == ["ExpBackward0", "SinBackward0", "TanhBackward0", "SigmoidBackward0"]
        return True

    assert all(together(work))


def test_threads_that_end_leave_nothing_behind():
    def work():
        kept = [torch.ones(2) + i for i in range(50)]
        return len(kept)

    for _ in range(40):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert torch.ones(2).sum() == 2
