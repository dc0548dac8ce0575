"""Groups of compiled functions on CUDA devices: bits of eager calls, streams, graphs, and when a call is followed."""

import subprocess
import sys
import textwrap
from pathlib import Path

import cuda_kernels
import pytest
from cuda_environment import environment

HERE = Path(__file__).resolve().parent
WORKER = str(HERE / "cuda_groups_worker.py")
CPU = Path("/proc/cpuinfo")
PROCESSOR = (CPU.read_text() if CPU.exists() else "").split()
MODES = [{"FACULA_EMULATED_MODE": mode} for mode in ("async", "eager", "lazy")]

#: what the programs below have
BEGIN = """
import sys, threading
sys.path.append('{here}')
from cuda_groups_worker import *
from facula import cuda
def chain(x, y):
    return (x * y + 1.5).tanh() * 0.5 - x
x, y = big(), big(seed=1)
f, wanted = compiled(chain), chain(x, y)
"""


def run(program, groups="wait", **more):
    """What the program prints, as lines; it has the names of cuda_groups_worker.py."""
    source = BEGIN.format(here=HERE) + textwrap.dedent(program)
    env = environment(FACULA_CUDA_GROUPS=groups, **more)
    done = subprocess.run([sys.executable, "-c", source], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_groups_have_the_bits_of_eager_calls():
    done = cuda_kernels.run([sys.executable, WORKER, "cases"], FACULA_CUDA_GROUPS="wait")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("groups, mode", [("wait", "async"), ("steps", "lazy"), ("background", "eager")])
def test_random_programs(groups, mode):
    done = cuda_kernels.run([sys.executable, WORKER, "random", "0", "30"], FACULA_CUDA_GROUPS=groups, FACULA_EMULATED_MODE=mode)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_no_call_waits_for_the_compiler():
    lines = run(
        """
        for _ in range(3):
            assert torch.equal(f(x, y), wanted)
        early = torch._C._cuda_groups()
        torch._C._cuda_finish_groups()
        assert torch.equal(f(x, y), wanted)
        late = torch._C._cuda_groups()
        print(early["in_steps"] > 0, late["launches"] > early["launches"], late["compiled"])
        """,
        groups="background",
    )
    assert lines == ["True True 1"]


def test_sizes_and_numbers_are_arguments():
    lines = run(
        """
        def scaled(x, by, y):
            return ((x + by) * y - by) * by
        f = compiled(scaled)
        for rows in (96, 100, 200):
            for by in (0.5, 3.0, -1.25):
                x, y = big(rows, 128), big(rows, 128, seed=1)
                assert torch.equal(f(x, by, y), scaled(x, by, y)), (rows, by)
        print(torch._C._cuda_groups()["compiled"])
        """
    )
    assert lines == ["1"]


def test_bytes_that_are_moved_are_those_of_the_plan():
    lines = run(
        """
        f(x, y)
        for _ in range(4):
            before = torch._C._cuda_groups()["bytes"]
            f(x, y)
            print((torch._C._cuda_groups()["bytes"] - before) / (3 * x.numel() * 4))
        """
    )
    assert lines == ["1.0"] * 4


def test_a_call_is_followed_where_fewer_bytes_are_moved():
    lines = run(
        """
        for function in (chain, lambda x, y: (x.sum(), y.sum() * 2)):
            f = torch.compile(function)
            states = []
            for _ in range(8):
                f(x, y)
                states.append(f.state)
            print(states[-1], "trial" in states)
        """
    )
    assert lines == ["follow False", "pass False"]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode.values())))
def test_streams_and_events_see_what_was_called_before(mode):
    run(
        """
        side, third = cuda.Stream(), cuda.Stream()
        def across(x, y):
            a = x * y + 1
            b = a * 2
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                c = a + b
                d = c * c
                e = cuda.Event()
                e.record()
            third.wait_event(e)
            with cuda.stream(third):
                h = d * 2 - c
            cuda.current_stream().wait_stream(third)
            return a, b, c, d, h
        f, wanted = compiled(across), across(x, y)
        for _ in range(4):
            for got, want in zip(f(x, y), wanted):
                assert torch.equal(got, want)
        """,
        **mode,
    )


def test_nothing_waits_for_a_stream_that_was_left():
    lines = run(
        """
        side, launched = cuda.Stream(), []
        def left(x, y):
            with cuda.stream(side):
                a = x * y + 1
                b = a * 2
            launched.append(torch._C._cuda_groups()["launches"])
            return b - a
        f = compiled(left)
        f(x, y)
        for _ in range(2):
            f(x, y)
        print(launched[0], launched[1] > 0)
        """
    )
    assert lines == ["0 True"]


def test_the_stream_of_a_group_is_that_of_its_ops():
    run(
        """
        side = cuda.Stream()
        def asked(x, y):
            a = x * y + 1
            seen = []
            thread = threading.Thread(target=lambda: seen.append(a.data_ptr()))
            thread.start()
            thread.join()
            return a * 2, a
        f, wanted = compiled(asked), asked(x, y)
        cuda.synchronize()
        with cuda.stream(side):
            for _ in range(4):
                got = f(x, y)
                side.synchronize()
                assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
        """,
        FACULA_EMULATED_MODE="lazy",
    )


def test_writes_that_nobody_counts_come_after_what_was_called():
    run(
        """
        static = big()
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            static.mul_(2)
        def replayed(x):
            a = x + static
            b = a * 2
            g.replay()
            return a, b, static + b
        def restored(function, x):
            static.copy_(big())
            return function(x)
        x = big(seed=1)
        f, wanted = compiled(replayed), restored(replayed, x)
        for _ in range(4):
            for got, want in zip(restored(f, x), wanted):
                assert torch.equal(got, want)
        def written(x, y):
            a = x * 3 + y
            x.add_(1)
            y[3:] = 7
            torch.mul(x, 2, out=y)
            return a * x, y
        inputs = lambda: (big(), big(seed=1))
        f, wanted = compiled(written), written(*inputs())
        for _ in range(4):
            for got, want in zip(f(*inputs()), wanted):
                assert torch.equal(got, want)
        """
    )


def test_calls_are_captured_in_graphs():
    run(
        """
        for _ in range(3):
            f(x, y)
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            z = f(x, y)
        x.copy_(big(seed=5))
        g.replay()
        assert torch.equal(z, chain(x, y))
        """
    )


def test_training_steps_are_those_of_eager_calls():
    run(
        """
        def loss(x, w):
            y = (x * w).tanh() * 0.5 + w
            return (y * y - x).abs()
        def step(function):
            x, w = big(), big(128, seed=1).requires_grad_()
            for _ in range(5):
                function(x, w).sum().backward()
                with torch.no_grad():
                    w -= 1e-4 * w.grad
                    w.grad = None
            return w
        wanted, f = step(loss), compiled(loss)
        for _ in range(3):
            assert torch.equal(step(f), wanted)
        assert f.recordings[0].put_off > 3
        """
    )


FMA = "-O2 -mfma -ffp-contract=fast -DFACULA_EMULATED_INLINED"


@pytest.mark.skipif("fma" not in PROCESSOR, reason="needs a processor that multiplies and adds in one instruction")
def test_parts_of_two_steps_are_not_joined_to_one_instruction():
    env = environment(FACULA_CUDA_GROUPS="wait", FACULA_EMULATED_FLAGS=FMA)
    done = subprocess.run([sys.executable, WORKER, "cases", "joined"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
