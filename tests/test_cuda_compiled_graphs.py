"""`torch.compile(backend="cudagraphs")`: stretches of ops that are launched as one CUDA graph, with the results of eager calls."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cuda_environment import environment

BEGIN = f"""
import sys, threading
sys.path.append({str(Path(__file__).resolve().parent)!r})
from cuda_groups_worker import *
from facula import cuda, nn
from facula.compiler._backends.graphs import launches
torch.manual_seed(0)
def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda()
def graphed(function):
    return torch.compile(function, backend="cudagraphs")
"""


def run(program, **more):
    """What the program prints, as lines."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program)], env=environment(**more), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["async", "eager", "lazy"])
def test_results_are_those_of_eager_calls_and_stay(mode):
    lines = run(
        """
        m, kept = network(), []
        def plain(x):
            return m(x).softmax(-1) * 2, x + 1
        f = graphed(plain)
        with torch.no_grad():
            for i in range(7):
                x = big(32, 64, seed=i)
                kept.append((f(x), plain(x)))
        assert all(same(a, b) for a, b in kept)
        print(launches["captured"], launches["launched"], launches["failed"])
        """,
        FACULA_EMULATED_MODE=mode,
    )
    assert lines == ["1 5 0"]


def test_parameters_stay_in_place_and_may_move():
    lines = run(
        """
        m = network()
        def plain(x):
            return m(x) + 1
        f, x = graphed(plain), big(32, 64)
        def check(times):
            with torch.no_grad():
                for _ in range(times):
                    x.add_(0.5)
                    m[0].weight.mul_(1.01)  # in place: the graph reads it
                    assert torch.equal(f(x), plain(x))
            print(launches["captured"])
        check(5)
        m[0].weight = nn.Parameter(big(64, 64, seed=3))  # elsewhere
        check(4)
        x = big(32, 64, seed=4)
        check(4)
        x = big(16, 64, seed=5)
        check(5)
        """
    )
    assert lines[0] == "1" and int(lines[-1]) <= 4


def test_training_steps_are_those_of_eager_calls():
    lines = run(
        """
        def train(compile):
            torch.manual_seed(1)
            m = network()
            optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
            loss = compile(lambda x, y: F.mse_loss(m(x).tanh(), y))
            losses = []
            for i in range(8):
                optimizer.zero_grad()
                value = loss(big(32, 64, seed=i), big(32, 8, seed=i + 50))
                value.backward()
                optimizer.step()
                losses.append(value.detach())
            return (*losses, *(p.detach() for p in m.parameters()))
        assert same(train(graphed), train(lambda f: f))
        print(launches["captured"] > 0, launches["launched"] > 4, launches["failed"])
        """
    )
    assert lines == ["True True 0"]


def test_values_draws_writes_and_breaks():
    run(
        """
        counter = torch.zeros(64, device="cuda")
        def impure(x):
            y = (x * 2).relu()
            if y.sum() > 0:
                y = F.dropout(y, 0.5) + 1
            counter.add_(y.mean(0))
            z = y @ y.t()
            z[3:] = 7
            return z, counter * 1, [y.std().item()]
        def calls(function):
            torch.manual_seed(3)
            counter.zero_()
            return [function(big(32, 64, seed=i)) for i in range(7)]
        for a, b in zip(calls(graphed(impure)), calls(impure)):
            assert same(a[:2], b[:2]) and a[2] == b[2]
        """
    )


def test_threads_and_streams_have_graphs_of_their_own():
    run(
        """
        m = network()
        def plain(x):
            return m(x).tanh() + 1
        f, wrong = graphed(plain), []
        data = [big(32, 64, seed=i) for i in range(3)]
        with torch.no_grad():
            wanted = [plain(x) for x in data]
        cuda.synchronize()
        def work(i):
            side = cuda.Stream()
            with torch.no_grad(), cuda.stream(side):
                for _ in range(8):
                    got = f(data[i])
                    side.synchronize()
                    if not torch.equal(got, wanted[i]):
                        wrong.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong and launches["failed"] == 0, (wrong, launches)
        """
    )


def test_inside_a_capture_of_the_program_ops_are_captured():
    run(
        """
        m = network()
        def plain(x):
            return m(x) * 3
        f, x = graphed(plain), big(32, 64)
        with torch.no_grad():
            for _ in range(4):
                f(x)
            g = cuda.CUDAGraph()
            with cuda.graph(g):
                y = f(x)
            x.mul_(-1)
            g.replay()
            assert torch.equal(y, plain(x))
        """
    )


def test_backends_are_given_stretches_on_the_device():
    lines = run(
        """
        m, seen = network(), []
        def backend(graph, examples):
            seen.append({str(t.device) for t in examples})
            return graph.forward
        f = torch.compile(lambda x: m(x).tanh() + 1, backend=backend)
        with torch.no_grad():
            for i in range(3):
                assert torch.equal(f(big(32, 64, seed=i)), m(big(32, 64, seed=i)).tanh() + 1)
            assert torch.equal(torch.compile(torch.cos, backend=backend)(torch.ones(3)), torch.ones(3).cos())
        print(seen)
        """
    )
    assert lines == ["[{'cuda:0'}, {'cpu'}]"]


@pytest.mark.slow
def test_random_programs():
    lines = run(
        """
        import compile_programs
        compile_programs.Program = OnDevice
        class Made:
            def __new__(cls, function, settings):
                return graphed(function)
        class Core:
            _CompiledFunction = Made
        class Library:
            _C = Core
            def __getattr__(self, name):
                return getattr(torch, name)
        compile_programs.facula = Library()
        for seed in range(12):
            for line in compile_programs.differences(seed, calls=5):
                print(line)
        """
    )
    assert lines == []
