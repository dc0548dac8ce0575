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
