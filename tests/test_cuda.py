"""facula.cuda: devices, streams, events, memory, errors, on the emulated device or on a GPU."""

import subprocess
import sys
import textwrap

import cuda_kernels
import pytest
from cuda_environment import environment


def run(program, ahead=False, **more):
    """Return what the program prints, as lines; it has `facula`, `cuda` and `pytest`. `ahead` compiles its kernels before, all of them together."""
    source = "import facula, pytest\nfrom facula import cuda\n" + textwrap.dedent(program)
    command = [sys.executable, "-c", source]
    done = cuda_kernels.run(command, **more) if ahead else subprocess.run(command, env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MODES = [{"FACULA_EMULATED_MODE": mode} for mode in ("async", "eager", "lazy")] + [{"FACULA_EMULATED_JITTER": "2000"}]


@pytest.mark.parametrize("mode", MODES)
def test_streams_run_side_by_side_and_wait_where_told(mode):
    assert run(
        """
        x = facula.arange(1000.0).cuda()
        total = facula.zeros(1000, device="cuda")
        s, t = cuda.Stream(), cuda.Stream()
        for i in range(20):
            s.wait_stream(cuda.current_stream())
            with cuda.stream(s):
                y = x * i
            y.record_stream(t)
            t.wait_event(s.record_event())
            with cuda.stream(t):
                z = y + 1
            cuda.current_stream().wait_stream(t)
            total += z
            z.record_stream(cuda.current_stream())
            del y, z
        print(facula.equal(total.cpu(), facula.arange(1000.0) * 190 + 20))
        print(cuda.current_stream() == cuda.default_stream(), s == t, s.query() or True)
        """,
        **mode,
    ) == ["True", "True False True"]


def test_events_measure_time():
    assert run(
        """
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        with pytest.raises(ValueError, match="^Event.elapsed_time: two events that were recorded, got a start"):
            start.elapsed_time(end)
        start.record()
        x = facula.ones(10000, device="cuda").exp()
        end.record()
        end.synchronize()
        print(start.query(), end.query(), start.elapsed_time(end) >= 0)
        """
    ) == ["True True True"]


def test_memory_is_counted_cached_and_given_back():
    assert run(
        """
        cuda.empty_cache()
        assert cuda.memory_allocated() == 0 and cuda.memory_reserved() == 0
        a = facula.empty(1000, device="cuda")       # 4000 bytes: 4096 of a segment of 2 MiB
        b = facula.empty(1 << 20, device="cuda")    # 4 MiB: of a segment of 20 MiB
        c = facula.empty(3 << 20, device="cuda")    # 12 MiB: of the rest of that segment
        print(cuda.memory_allocated(), cuda.memory_reserved() >> 20)
        stats = cuda.memory_stats()
        print(stats["requested_bytes.all.current"], stats["segment.all.current"], stats["allocation.small_pool.current"])
        address = c.data_ptr()
        del c
        print(facula.empty(3 << 20, device="cuda").data_ptr() == address, cuda.memory_stats()["num_device_alloc"])
        del a, b
        print(cuda.memory_allocated(), cuda.max_memory_allocated() == 4096 + (16 << 20))
        cuda.empty_cache()
        print(cuda.memory_reserved(), cuda.memory_snapshot())
        cuda.reset_peak_memory_stats()
        print(cuda.max_memory_allocated(), "CUDA memory of device 0" in cuda.memory_summary())
        a = facula.empty(1000, device="cuda")
        del a
        before = cuda.max_memory_allocated()
        cuda.reset_max_memory_allocated()
        print(before, cuda.max_memory_allocated())
        """
    ) == ["16781312 22", "16781216 2 1", "True 2", "0 True", "0 []", "0 True", "4096 0"]


def test_later_iterations_ask_the_driver_for_nothing():
    assert run(
        """
        w = facula.randn(64, requires_grad=True)
        w = w.detach().cuda().requires_grad_()
        x = facula.arange(64.0).cuda()
        counts = []
        for step in range(5):
            loss = ((w * x).exp() + 1).log().sum()
            loss.backward()
            w.grad = None
            stats = cuda.memory_stats()
            counts.append(stats["num_device_alloc"] + stats["num_device_free"])
        print(counts[1:] == counts[:1] * 4)
        """
    ) == ["True"]


def test_out_of_memory_says_what_there_is():
    program = """
        {history}
        cuda.set_per_process_memory_fraction(0.001)
        keep = facula.empty(1 << 20, dtype=facula.uint8, device="cuda")
        twice = [facula.zeros(3, 4, dtype=facula.float16, device="cuda") for _ in range(2)]
        with pytest.raises(cuda.OutOfMemoryError) as error:
            facula.empty(2, 1 << 29, dtype=facula.uint8, device="cuda")
        print(error.value)
        frames = cuda.memory_snapshot()[0]["blocks"][0]["frames"]
        print(len(frames), cuda.memory._snapshot()["segments"][0]["blocks"][0]["tensor"])
        """
    first, title, kept, two, hint, last, known = run(program.format(history=""))
    assert first.startswith("empty: CUDA out of memory. Device 0 has ") and last == "Tried to allocate 1024.00 MiB for uint8 [2, 536870912]"
    assert "1.00 MiB of it in use by tensors and 1.00 MiB free in 1 piece, the largest free block of it 1.00 MiB" in first, first
    assert (kept, two) == ("  1.00 MiB  uint8 [1048576]", "  0.00 MiB  2 x float16 [3, 4]")
    assert "_record_memory_history()" in hint and known == "0 uint8 [1048576]"
    lines = run(program.format(history="cuda.memory._record_memory_history()"))
    assert lines[2:4] == [
        "  1.00 MiB  uint8 [1048576]  made at <string>:6 in <module>",
        "  0.00 MiB  2 x float16 [3, 4]  made at <string>:7 in <listcomp>" if sys.version_info < (3, 12) else lines[3],
    ]
    assert lines[-1] == "1 uint8 [1048576]" and len(lines) == 6


def test_expandable_segments_and_the_other_settings():
    assert run(
        """
        pieces = [facula.full((5 << 20,), float(i), device="cuda") for i in range(8)]       # 20 MiB each
        del pieces[::2]
        big = facula.zeros(20 << 20, device="cuda")
        print([p[-1].item() for p in pieces], big.sum().item(), {s["is_expandable"] for s in cuda.memory_snapshot()})
        for text, got in (("foo:1", "got foo$"), ("max_split_size_mb:3", "max_split_size_mb: more than 20, got 3$")):
            with pytest.raises(ValueError, match=got):
                cuda.memory._set_allocator_settings(text)
        del pieces, big
        cuda.empty_cache()
        cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
        x = facula.empty(5 << 20, dtype=facula.uint8, device="cuda")
        y = facula.empty((5 << 20) + 1, dtype=facula.uint8, device="cuda")
        print(cuda.memory_stats()["segment.all.current"], cuda.memory_allocated() >> 20)
        """,
        FACULA_CUDA_ALLOC_CONF="expandable_segments:True", FACULA_EMULATED_MEMORY_MIB="180",
    ) == ["[1.0, 3.0, 5.0, 7.0] 0.0 {True}", "1 11"]  # fmt: skip


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_errors_name_the_op_and_the_line(blocking):
    (text,) = run(
        """
        x, where = facula.arange(5.0).cuda(), facula.tensor([9]).cuda()
        caught = 0
        try:
            y = x[where]
            caught = 1
            y.cpu()
        except IndexError as error:
            print(caught, error)
        """,
        CUDA_LAUNCH_BLOCKING=blocking,
    )
    assert text.startswith(f"{1 - int(blocking)} index: index 9 is out of range for a dimension of size 5"), text
    assert text.endswith("queued at <string>:7 in <module>)"), text


def test_devices():
    lines = run(
        """
        print(cuda.is_available(), cuda.device_count(), cuda.current_device(), facula.device("cuda"), facula.ones(1).cuda().device)
        properties = cuda.get_device_properties(0)
        print(properties.name == cuda.get_device_name(), (properties.major, properties.minor) == cuda.get_device_capability())
        print(facula.ones(2).to("cuda:0").get_device(), facula.zeros(1, device="cuda").is_cuda, cuda.is_initialized())
        for use in (lambda: facula.ones(1, device="cuda:9"), lambda: facula.ones(1).cuda(9)):
            with pytest.raises(RuntimeError, match=r": a CUDA device of the 1 that there are, got cuda:9$"):
                use()
        with pytest.raises(AssertionError, match="got 3$"):
            cuda.set_device(3)
        with pytest.raises(RuntimeError, match="device"):
            facula.ones(2, device="cuda") + facula.ones(2)
        """
    )
    assert lines == ["True 1 0 cuda cuda:0", "True True", "0 True True"]


def test_several_devices():
    assert run(
        """
        a = facula.arange(6.0).reshape(2, 3).to("cuda:0")
        b = a.t().to("cuda:1")
        print(b.device, b.tolist(), (b + b).device)
        with cuda.device(1):
            print(facula.ones(1, device="cuda").device, cuda.current_device())
        print(cuda.current_device(), b.to(0).cpu().equal(a.t().cpu()))
        """,
        FACULA_EMULATED_DEVICES="2",
    ) == ["cuda:1 [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] cuda:1", "cuda:1 1", "0 True"]


@pytest.mark.slow
def test_copies_in_every_direction_layout_and_dtype():
    assert run(
        """
        facula.manual_seed(3)
        wrong = 0
        dtypes = [facula.bool, facula.uint8, facula.int16, facula.int64, facula.float16, facula.bfloat16, facula.float32, facula.float64,
                  facula.complex64, facula.complex128, facula.float8_e4m3fn, facula.float8_e5m2, facula.float8_e4m3fnuz, facula.float8_e5m2fnuz]
        base = facula.randn(4, 6) * 50
        base[0, 0], base[1, 1], base[2, 2] = 0.0, 0.001, -3e-5
        for a in dtypes:
            x = base.to(a)
            for b in dtypes:
                expected = x.to(b)
                for source, target in ((x, expected), (x.t(), expected.t()), (x[:, ::2], expected[:, ::2]), (x[1:, 1], expected[1:, 1])):
                    there = source.cuda().to(b).cpu()
                    out = facula.zeros(target.shape, dtype=b, device="cuda")
                    out.copy_(source)
                    same = [facula.equal(r.double().nan_to_num(7) if not r.is_complex() else r.cdouble(),
                                         target.double().nan_to_num(7) if not target.is_complex() else target.cdouble()) for r in (there, out.cpu())]
                    if not all(same):
                        wrong += 1
                        print(a, b, source.shape, there, target)
        print(wrong)
        z = facula.tensor([1 + 2j, 3 - 1j])
        print(z.cuda().conj().cpu().tolist(), z.conj().cuda().resolve_conj().cpu().tolist())
        """,
        ahead=True,
    ) == ["0", "[(1-2j), (3+1j)]", "[(1-2j), (3+1j)]"][:1] + ["[(1-2j), (3+1j)] [(1-2j), (3+1j)]"]


def test_generators_are_those_of_the_device():
    assert run(
        """
        facula.manual_seed(5)
        states = cuda.get_rng_state_all()
        print(len(states), states[0].tolist(), cuda.initial_seed())
        cuda.manual_seed_all(2**40)
        print(cuda.initial_seed(), facula.Generator(device="cuda").device)
        cuda.set_rng_state_all(states)
        print(cuda.initial_seed())
        """
    ) == ["1 [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] 5", f"{2**40} cuda:0", "5"]


@pytest.mark.slow
@pytest.mark.parametrize("missing, why", [
    ({"CXX": "no-such-compiler"}, 'a C++ compiler, and "no-such-compiler" does not start (CXX names another)'),
    ({"TMPDIR": "/nonexistent"}, "a folder for temporary files, and cannot make one (TMPDIR names another)"),
])  # fmt: skip
def test_what_the_emulated_device_needs(missing, why):
    assert run("print(cuda.is_available())", FACULA_CUDA="emulated") == ["True"]  # a source build compiles it now
    (text,) = run(
        """
        with pytest.raises(RuntimeError) as error:
            facula.ones(3, device="cuda") * 2
        print(error.value)
        """,
        FACULA_CUDA="emulated", FACULA_CACHE_DIR="/nonexistent", **missing,
    )  # fmt: skip
    assert text.endswith("got the emulated device needs " + why)


def test_profiler_and_dispatch_see_ops_on_the_device():
    assert run(
        """
        from facula.autograd import profiler
        x = facula.ones(8, device="cuda")
        with profiler.profile() as p:
            (x * 2).sum().item()
        print(sorted({e.name for e in p.function_events} & {"aten::mul", "aten::sum"}))
        """
    ) == ["['aten::mul', 'aten::sum']"]
