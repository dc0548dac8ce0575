"""What goes wrong around CUDA and must not do harm: handles that are none, events recorded anew, forked processes."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment


def run(program, **more):
    """What the program prints, as lines; it has `facula`, `cuda` and `pytest`."""
    source = "import facula, pytest\nfrom facula import cuda\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_a_wait_is_for_the_record_that_was_the_last_when_it_was_made(mode):
    assert run(
        """
        a, b, c = (cuda.Stream() for _ in range(3))
        event = cuda.Event()
        x = facula.zeros(1000, device="cuda")
        cuda.synchronize()
        with cuda.stream(a):
            x.fill_(7)
        event.record(a)
        c.wait_event(event)
        event.record(b)  # b has nothing to do: this record is reached at once
        b.synchronize()
        with cuda.stream(c):
            print(x.clone().cpu().unique().tolist())
        """,
        FACULA_EMULATED_MODE=mode,
        FACULA_EMULATED_JITTER="20000" if mode == "async" else "0",
    ) == ["[7.0]"]


def test_a_stream_that_is_none_is_an_error_with_the_name_of_the_op():
    assert (
        run(
            """
        stream, good = cuda.ExternalStream(12345), cuda.Stream()
        x = facula.ones(3, device="cuda")

        def inside(f):
            with cuda.stream(stream):
                f()

        for op, call in {
            "fill_": lambda: inside(lambda: x.fill_(2)),
            "copy_": lambda: inside(lambda: x.cpu()),
            "Stream.query": stream.query,
            "Stream.synchronize": stream.synchronize,
            "Event.record": stream.record_event,
            "Event.wait": lambda: stream.wait_event(good.record_event()),
            "CUDAGraph.capture_begin": lambda: inside(cuda.CUDAGraph().capture_begin),
        }.items():
            with pytest.raises(facula.AcceleratorError, match=f"^{op}: CUDA error: .*CUDA_ERROR_INVALID_HANDLE"):
                call()
        print(x.add(1).tolist())
        x.record_stream(stream)
        del x
        print(cuda.memory_allocated(), cuda.memory_stats()["active_bytes.all.current"])
        """
        )
        == ["[2.0, 2.0, 2.0]", "0 0"]
    )


# ---- forked processes

CHILD = """
import os

def in_child(f):
    '''What f returns there, as text; its exception as text.'''
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(f())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.fdopen(read).read()
    return text, os.waitpid(pid, 0)[1]

"""


@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_a_forked_child_of_a_process_that_uses_cuda_cannot_use_it(mode):
    lines = run(
        CHILD
        + """
x = facula.ones(3, device="cuda")
pinned = facula.ones(3).pin_memory()
stream, event, graph = cuda.Stream(), cuda.Event(), cuda.CUDAGraph()
event.record()
def use_in_graph():
    with cuda.stream(stream):
        graph.capture_begin()
    graph.capture_end()
for f in [
    lambda: x + 1, lambda: x.tolist(), lambda: print(x), lambda: x.fill_(2), lambda: x[0].item(), lambda: x.cpu(),
    lambda: facula.ones(2, device="cuda"), lambda: facula.ones(2).cuda(), lambda: facula.ones(2).pin_memory(),
    lambda: cuda.synchronize(), lambda: cuda.current_device(), lambda: cuda.set_device(0), lambda: cuda.Stream(),
    lambda: stream.synchronize(), lambda: event.query(), lambda: event.record(), lambda: cuda.init(),
    lambda: facula.randn(2, device="cuda"), lambda: cuda.get_rng_state(), use_in_graph, lambda: cuda.mem_get_info(),
]:
    text, status = in_child(f)
    assert status == 0 and text.startswith("RuntimeError: ") and "forked" in text and "'spawn'" in text, text
print(in_child(lambda: (cuda._is_in_bad_fork(), cuda.is_initialized(), cuda.is_available(), cuda.memory_allocated())))
print(cuda._is_in_bad_fork(), cuda.is_initialized(), x.tolist(), x.exp().shape)
""",
        FACULA_EMULATED_MODE=mode,
    )
    assert lines == ["('(True, False, True, 0)', 0)", "False True [1.0, 1.0, 1.0] torch.Size([3])"]


def test_what_dies_in_a_forked_child_is_left_to_the_parent():
    """Nothing there calls the driver, waits for a lock that another thread held, or counts for other processes."""
    lines = run(
        CHILD
        + """
import gc, sys, threading
x = [facula.full((100,), 3.0, device="cuda") for _ in range(5)]
pinned = facula.ones(300).pin_memory()
x[1].record_stream(cuda.Stream())
graph, event = cuda.CUDAGraph(), cuda.Event()
event.record()
side = cuda.Stream()
with cuda.graph(graph, stream=side):
    y = x[0] + 1
leaf = facula.ones(3, device="cuda", requires_grad=True)
loss = (leaf * 2).sum()
stop = False
def busy():
    while not stop:
        facula.ones(1000, device="cuda")
threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads: t.start()
def forget():
    global pinned, graph, event, y, loss, leaf
    x.clear()
    del pinned, graph, event, y, loss, leaf
    gc.collect()
    facula.manual_seed(3)
    cuda.manual_seed_all(4)
    cuda.empty_cache()
    return facula.ones(3).add(1).tolist()
for _ in range(20):
    assert in_child(forget) == ("[2.0, 2.0, 2.0]", 0)
stop = True
for t in threads: t.join()
pid = os.fork()  # leaves as a program does, with all destructors
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
graph.replay()
print(y.sum().item(), pinned.sum().item(), x[4].mul(1.5).sum().item(), loss.item(), facula.full((2,), 7.0, device="cuda").erfinv().shape)
"""
    )
    assert lines == ["400.0 300.0 450.0 6.0 torch.Size([2])"]


def test_forked_workers_of_a_data_loader_make_tensors_of_the_cpu():
    assert run(
        """
        from facula.utils.data import DataLoader, Dataset
        x = facula.ones(4, device="cuda")

        class Numbers(Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, i):
                facula.manual_seed(i)
                return facula.full((3,), float(i)) + facula.rand(3) * 0, cuda._is_in_bad_fork()

        class OnDevice(Numbers):
            def __getitem__(self, i):
                return x + i

        for pin in (False, True):
            total = facula.zeros(3, device="cuda")
            loader = DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork", pin_memory=pin)
            for batch, bad in loader:
                total += batch.cuda(non_blocking=True).sum(0)
                assert bad.all()
            print(total.tolist())
        with pytest.raises(RuntimeError, match="forked process .* 'spawn'"):
            next(iter(DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork")))
        print(x.tolist())
        """
    ) == ["[66.0, 66.0, 66.0]", "[66.0, 66.0, 66.0]", "[1.0, 1.0, 1.0, 1.0]"]


def test_a_child_whose_parent_did_not_use_cuda_can():
    lines = run(
        CHILD
        + """
facula.ones(3)
print(in_child(lambda: (cuda._is_in_bad_fork(), facula.ones(3, device="cuda").sum().item())))
"""
    )
    assert lines == ["('(False, 3.0)', 0)"]


# ---- errors in destructors


def test_an_error_where_a_device_is_left_comes_with_the_next_use():
    assert (
        run(
            """
        import ctypes
        driver = ctypes.CDLL(cuda.libraries()["driver"])
        x, y = (facula.ones(3, device=f"cuda:{i}") for i in range(2))
        cuda.set_device(0)
        driver.facula_emulated_fail_switch(2)  # to the other device, and back: in a destructor
        cuda.synchronize(1)
        print((x + 1).tolist(), (y + 1).tolist())
        cuda.set_device(0)
        driver.facula_emulated_fail_switch(1)
        with pytest.raises(facula.AcceleratorError, match="^synchronize: .* cuCtxSetCurrent"):
            cuda.synchronize(1)
        print((x + 1).tolist())
        """,
            FACULA_EMULATED_DEVICES="2",
        )
        == ["[2.0, 2.0, 2.0] [2.0, 2.0, 2.0]", "[2.0, 2.0, 2.0]"]
    )


# ---- compilers that are older than the device


@pytest.mark.parametrize(
    "capability, target, warned, more",
    [
        ("8.9", "sm_89", 0, {}),
        ("12.1", "sm_120", 0, {}),  # runs the code of devices of its major version
        ("12.1", "compute_120", 1, {"FACULA_EMULATED_RELATIVES": "strange"}),  # unless it is one of Tegra
        ("13.0", "compute_120", 1, {}),
        ("13.0", "compute_120", 1, {"FACULA_EMULATED_DRIVER": "12.4"}),  # which reads PTX of an older version only
    ],
)
def test_a_device_that_the_compiler_does_not_know(capability, target, warned, more, tmp_path):
    lines = run(
        """
        import warnings, pathlib, os
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            x = facula.arange(5.0, device="cuda")
            print((x * 2).tolist(), x.sum().item(), cuda.get_device_capability())
        texts = [str(w.message) for w in found]
        print(len(texts), all("older than the device" in t and "nvidia-cuda-nvrtc" in t for t in texts))
        cached = [p.read_bytes() for p in pathlib.Path(os.environ["FACULA_CACHE_DIR"]).rglob("*") if p.is_file()]
        ours = [c for c in cached if os.environ["TARGET"].encode() in c]
        print(len(ours) > 1, len(cached) - len(ours) <= 1)  # one was tried where the device is a stranger
        """,
        FACULA_EMULATED_CAPABILITY=capability,
        FACULA_CACHE_DIR=str(tmp_path),
        TARGET=f"-arch={target}",
        **more,
    )
    numbers = tuple(int(n) for n in capability.split("."))
    assert lines == [f"[0.0, 2.0, 4.0, 6.0, 8.0] 10.0 {numbers}", f"{warned} True", "True True"]


def test_a_device_that_is_older_than_all_that_the_compiler_knows():
    assert run(
        """
        with pytest.raises(RuntimeError, match="^fill_: CUDA's compiler, .* compute capability 7.5 and newer, got one of 6.1"):
            facula.ones(3, device="cuda")
        print("ok")
        """,
        FACULA_EMULATED_CAPABILITY="6.1",
    ) == ["ok"]


# ---- devices that read the host's pages by themselves


@pytest.mark.parametrize("mode", ["async", "lazy"])
@pytest.mark.parametrize("pageable", ["copied", "read"])
def test_memory_of_the_host_may_change_once_it_is_copied_from(mode, pageable):
    assert run(
        """
        import numpy
        for size in (1, 1000, 1 << 19):  # few bytes, and more than are staged
            given = numpy.full(size, 3.0, dtype="float32")
            x = facula.from_numpy(given)
            y = facula.empty(size, device="cuda")
            y.fill_(1.0)
            y.copy_(x)
            given[:] = 5.0
            z = facula.tensor([2.0] * 3, device="cuda")
            assert y.cpu().tolist() == [3.0] * size and z.tolist() == [2.0] * 3
        # a graph that draws is given its seed and offset before each replay
        x = facula.ones(64, device="cuda")
        facula.nn.functional.dropout(x)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            y = facula.nn.functional.dropout(x)
        cuda.manual_seed(3)
        wanted = [facula.nn.functional.dropout(x).tolist() for _ in range(3)]
        cuda.manual_seed(3)
        found = []
        for _ in range(3):
            graph.replay()
            found.append(y.clone())
        print([f.tolist() for f in found] == wanted)
        """,
        FACULA_EMULATED_MODE=mode,
        FACULA_EMULATED_PAGEABLE=pageable,
    ) == ["True"]


# ---- several captures at once


def test_captures_at_once_have_pools_and_numbers_of_their_own():
    assert run(
        """
        import threading
        def pool_of(t):
            return next(s["segment_pool_id"][1] for s in cuda.memory_snapshot()
                        if s["address"] <= t.data_ptr() < s["address"] + s["total_size"])
        x = facula.ones(300, device="cuda")
        streams, graphs = [cuda.Stream() for _ in range(2)], [cuda.CUDAGraph() for _ in range(2)]
        cuda.manual_seed(3)
        expected = [facula.rand(300, device="cuda").tolist() for _ in range(2)]
        x.add(1), x.mul(2)  # compiled
        cuda.synchronize()
        for s, g in zip(streams, graphs):
            with cuda.stream(s):
                g.capture_begin(capture_error_mode="relaxed")
        made = [[], []]
        def fill(i):  # whichever thread does it
            with cuda.stream(streams[i]):
                made[i] += [x.add(1), x.mul(2), facula.rand(300, device="cuda")]
        fill(0)
        other = threading.Thread(target=fill, args=(1,)); other.start(); other.join()
        fill(1)
        other = threading.Thread(target=fill, args=(0,)); other.start(); other.join()
        for s, g in zip(streams, graphs):
            with cuda.stream(s):
                g.capture_end()
        print([{pool_of(t) for t in list} == {g.pool()[1]} for g, list in zip(graphs, made)], graphs[0].pool() != graphs[1].pool())
        cuda.manual_seed(3)
        for i in (1, 0):
            graphs[i].replay()
        cuda.synchronize()
        print(made[1][2].tolist() == expected[0], made[1][5].tolist() == expected[1])
        print([t.tolist()[0] for t in made[0][:2] + made[1][3:5]])
        print(pool_of(facula.ones(300, device="cuda")))
        """
    ) == ["[True, True] True", "True True", "[2.0, 2.0, 2.0, 2.0]", "0"]
