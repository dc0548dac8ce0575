"""CUDA tensors and events between processes: Queue, Pipe and arguments of torch.multiprocessing."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

MODES = [{"FACULA_EMULATED_MODE": mode} for mode in ("async", "eager", "lazy")] + [{"FACULA_EMULATED_JITTER": "2000"}]
MODES += [{"FACULA_CUDA_ALLOC_CONF": "expandable_segments:True", **MODES[i]} for i in (0, 2)]


def run(folder, program, **more):
    """What the program's main() prints, as lines: a file, since children that are spawned import it."""
    path = folder / "program.py"
    head = "import facula, gc\nfrom facula import cuda\nimport facula.multiprocessing as mp\n"
    tail = '\nif __name__ == "__main__":\n    mp.set_start_method("spawn")\n    main()\n'
    path.write_text(head + textwrap.dedent(program) + tail)
    done = subprocess.run([sys.executable, str(path)], env=environment(PYTHONUNBUFFERED="1", **more), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_is_the_same_memory_in_both_processes(tmp_path, mode):
    assert run(
        tmp_path,
        """
        def work(first, queue, answers):
            a, b = queue.get()                       # two views of one storage, which keep being that
            print(first.tolist(), a.device, a.shape, b.tolist(), a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
            a.add_(100)
            first.mul_(2)
            cuda.synchronize()
            answers.put("written")
            answers.put(b * 1)
            queue.get()                              # until the answer was read

        def main():
            x = facula.arange(6.0, device="cuda").reshape(2, 3)
            first = facula.nn.Parameter(facula.ones(2, device="cuda"))
            queue, answers = mp.Queue(), mp.Queue()
            child = mp.Process(target=work, args=(first.data, queue, answers))
            child.start()
            x += 1                                   # queued, and waited for by whoever receives it
            queue.put((x, x[1]))
            print(answers.get(), x.tolist(), first.tolist())
            y = answers.get()
            print(y.tolist())
            del y
            queue.put(None)
            child.join()
            print(child.exitcode)
        """,
        **mode,
    ) == [
        "[1.0, 1.0] cuda:0 torch.Size([2, 3]) [4.0, 5.0, 6.0] True",
        "written [[101.0, 102.0, 103.0], [104.0, 105.0, 106.0]] [2.0, 2.0]",
        "[104.0, 105.0, 106.0]",
        "0",
    ]


def test_memory_waits_for_its_receivers(tmp_path):
    assert run(
        tmp_path,
        """
        def work(queue, go, done):
            x = queue.get()
            done.set()
            go.wait()
            print(x.tolist())
            del x
            gc.collect()

        def main():
            queue, go, done = mp.Queue(), mp.Event(), mp.Event()
            child = mp.Process(target=work, args=(queue, go, done))
            child.start()
            x = facula.full((1000,), 5.0, device="cuda")[:2]
            address = x.data_ptr()
            queue.put(x)
            done.wait()
            del x
            cuda.ipc_collect()
            others = [facula.zeros(1000, device="cuda") for _ in range(20)]
            print(address in [o.data_ptr() for o in others], cuda.memory_allocated() == 21 * 4096)
            go.set()
            child.join()
            cuda.ipc_collect()
            print(cuda.memory_allocated() == 20 * 4096, facula.zeros(1000, device="cuda").data_ptr() == address)
        """,
    ) == ["False True", "[5.0, 5.0]", "True True"]


@pytest.mark.parametrize("mode", MODES)
def test_events_between_processes(tmp_path, mode):
    assert run(
        tmp_path,
        """
        def work(pipe):
            x, event = pipe.recv()
            event.wait()
            print(x.tolist(), event.device)
            handle = pipe.recv()
            again = cuda.Event.from_ipc_handle("cuda:0", handle)
            again.synchronize()
            print(again.query())
            pipe.send("done")

        def main():
            here, there = mp.Pipe()
            child = mp.Process(target=work, args=(there,))
            child.start()
            x = facula.zeros(3, device="cuda")
            event = cuda.Event(interprocess=True)
            x.add_(4)
            event.record()
            here.send((x, event))
            other = cuda.Event(interprocess=True)
            here.send(other.ipc_handle())
            print(here.recv())
            child.join()
            for bad in (lambda: cuda.Event().ipc_handle(), lambda: cuda.Event(interprocess=True, enable_timing=True)):
                try:
                    bad()
                except (RuntimeError, ValueError) as error:
                    print(error)
        """,
        **mode,
    ) == [
        "[4.0, 4.0, 4.0] cuda:0",
        "True",
        "done",
        "cuda.Event.ipc_handle: an event made with interprocess=True, got another",
        "cuda.Event: an event between processes measures no time, got enable_timing=True",
    ]


def test_what_cannot_be_shared_says_so(tmp_path):
    assert run(
        tmp_path,
        """
        from multiprocessing.reduction import ForkingPickler

        def work(queue, answers):
            x = queue.get()
            try:
                ForkingPickler.dumps(x)
            except RuntimeError as error:
                answers.put(str(error))
            del x

        def main():
            queue, answers = mp.Queue(), mp.Queue()
            child = mp.Process(target=work, args=(queue, answers))
            child.start()
            x = facula.ones(3, device="cuda")
            queue.put(x)
            print(answers.get())
            child.join()
            y = facula.ones(3, device="cuda", requires_grad=True) * 2
            for bad in (lambda: ForkingPickler.dumps(y),):
                try:
                    bad()
                except RuntimeError as error:
                    print(str(error)[:60])
            empty = facula.empty(0, device="cuda")
            print(ForkingPickler.loads(ForkingPickler.dumps(empty)).device)
        """,
    ) == [
        "multiprocessing: a tensor of this process, or a clone(), since another process holds its memory, got one of another process, of 12 bytes",
        "multiprocessing: a tensor computed by an operation cannot ke",
        "cuda:0",
    ]


def test_a_tensor_comes_back(tmp_path):
    assert run(
        tmp_path,
        """
        def work(queue):
            pass

        def main():
            from multiprocessing.reduction import ForkingPickler
            queue = mp.SimpleQueue()
            x = facula.arange(4.0, device="cuda")
            queue.put(x)
            y = queue.get()
            y += 1
            print(x.tolist(), y.data_ptr() == x.data_ptr())
            del x, y
            print(cuda.memory_allocated())
        """,
    ) == ["[1.0, 2.0, 3.0, 4.0] True", "0"]


def test_tensors_in_expandable_segments_go_over_several_granules(tmp_path):
    """A small one in the middle of a granule, and a large one that begins within one; both more than once."""
    assert run(
        tmp_path,
        """
        import os

        def work(queue, answers):
            files = len(os.listdir("/proc/self/fd"))
            small, large, again = queue.get(), queue.get(), queue.get()
            answers.put((small.tolist(), large[0].item(), large[-1].item(), again.untyped_storage().nbytes()))
            large.mul_(2)
            small.add_(1)
            cuda.synchronize()
            del small, large, again
            gc.collect()
            answers.put(len(os.listdir("/proc/self/fd")) - files)
            queue.get()

        def main():
            pad = [facula.zeros(1000, device="cuda") for _ in range(3)]
            small = facula.arange(3.0, device="cuda")
            most = facula.zeros(3 << 20, device="cuda")
            large = facula.arange(12 << 20, dtype=facula.float32, device="cuda")  # 48 MiB behind 12 others
            assert all(s["is_expandable"] for s in cuda.memory_snapshot())
            queue, answers = mp.Queue(), mp.Queue()
            child = mp.Process(target=work, args=(queue, answers))
            child.start()
            for x in (small, large, large):
                queue.put(x)
            print(answers.get())
            print(answers.get() < 8)
            print(small.tolist(), large[-1].item(), most.sum().item(), pad[0].sum().item())
            before = cuda.memory_allocated()
            del large, x
            cuda.ipc_collect()
            print(before - cuda.memory_allocated() >= 48 << 20)
            queue.put(None)
            child.join()
            print(child.exitcode)
        """,
        FACULA_CUDA_ALLOC_CONF="expandable_segments:True",
    ) == [
        "([0.0, 1.0, 2.0], 0.0, 12582911.0, 50331648)",
        "True",
        "[1.0, 2.0, 3.0] 25165822.0 0.0 0.0",
        "True",
        "0",
    ]
