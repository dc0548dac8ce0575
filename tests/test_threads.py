"""What several threads, signals and forks share: gradients of leaves, nodes, observers, generators, variables of the process."""

from __future__ import annotations

import logging
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from many_threads import together
from test_fuzz_hostile import run_round

import facula

ROOT = Path(__file__).resolve().parent.parent
CASES = os.environ.get("FACULA_FUZZ_CASES", "150")


def test_a_round_of_threads():
    result = run_round("threads", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


# --- variables that exist once


def loaded_libraries():
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    module, library = Path(facula._C.__file__).resolve(), next(p for p in paths if re.search(r"/libfacula(-\w+)?\.so$", p))
    return module, Path(library)


def variables(path):
    """The names of what an ELF file keeps in memory that can be written to, those of anonymous namespaces left out."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\x02"
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    found = set()
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind not in (2, 11):  # the symbols, and those that others see where there are no others
            continue
        texts = sections[link][4]
        for place in range(at, at + length, entry):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, place)
            writable = 0 < section < count and sections[section][2] & 1 and sections[section][1] in (1, 8)
            if info & 15 in (1, 6) and writable:
                end = data.index(b"\0", texts + name)
                found.add(data[texts + name : end].decode())
    return {n for n in found if n.startswith("_ZN6facula") and "_GLOBAL__N_" not in n and "$" not in n}  # mold names what it makes


CONSTANT = re.compile(r"^_ZN6facula\w*?\d+(k[A-Z]\w*|flag_rows)E$")  # tables of addresses, which nobody writes to


def test_the_reader_of_symbols_sees_variables():
    module, library = loaded_libraries()
    if not (variables(library) and variables(module)):
        pytest.skip("an installed copy has no symbols; the test of the sources below stands for this one")
    assert "_ZN6facula4hostE" in variables(library)


def test_no_variable_is_in_the_module_and_in_the_library():
    """Each would write to its own copy: `inline` in a header makes one in every binary that hides its symbols."""
    module, library = loaded_libraries()
    twice = {n for n in variables(module) & variables(library) if not CONSTANT.match(n)}
    assert not twice, f"define these in the library and declare them extern: {sorted(twice)}"


def test_other_binaries_use_no_variable_of_headers():
    """The same of the sources, so that what only some builds compile is seen, too."""
    sources = ROOT / "src"
    if not sources.is_dir():
        pytest.skip("only where the sources are")
    declared = {}
    for header in sources.rglob("*.h"):
        text = header.read_text()
        for line in re.findall(r"^inline (?!constexpr|const )[^(]*?\b[a-z]\w*(?=[ {;=,\[])[^(]*?[{;=]", text, re.M):
            for name in re.findall(r"\b([a-z]\w+)(?=\{|;| =)", line):
                declared[name] = header
        declared |= dict.fromkeys(re.findall(r"\b(\w+_(?:kernel|fold))\b(?=\s*\{\s*\")", text), header)
    assert len(declared) > 100, "the pattern finds the kernels"
    rooms = {"python": "_C", "emulator": "the emulator", "run": "facula_run"}
    wrong = []
    for room, binary in rooms.items():
        text = "\n".join(p.read_text() for p in sources.joinpath(room).rglob("*") if p.suffix in (".cpp", ".h"))
        for name, header in declared.items():
            if header.parent.name != room and re.search(rf"(?<![\w.>]){name}\b(?!\()\s*[.=({{;]", text):
                wrong.append(f"{binary} uses {name} of {header.relative_to(sources)}")
    assert not wrong, wrong


def test_nothing_sets_variables_of_the_environment():
    """setenv() moves what other threads read without a lock."""
    if not (ROOT / "src").is_dir():
        pytest.skip("only where the sources are")
    found = [p for p in (ROOT / "src").rglob("*.cpp") if re.search(r"\b(setenv|putenv|unsetenv|clearenv)\(", re.sub(r"//.*", "", p.read_text()))]
    allowed = {"mpi.cpp"}  # for MPI_Init, which reads them and has no other way to be told
    assert not [p for p in found if p.name not in allowed]


# --- gradients of leaves


def test_a_gradient_stays_when_it_cannot_take_another_one_in():
    leaf = facula.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaf.grad = facula.from_numpy(np.frombuffer(np.full(3, 5.0, np.float32).tobytes(), np.float32))  # read-only
    with pytest.raises(RuntimeError):
        (leaf * 2).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [5.0] * 3
    leaf.grad = facula.ones(3)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [3.0] * 3


def test_a_gradient_is_there_while_another_one_is_added():
    leaf, seen = facula.ones(3, requires_grad=True), []
    leaf.grad = facula.ones(3)

    class Looks:
        def op_begins(self, name, arguments):
            seen.append(leaf.grad is not None)

    observer = Looks()
    facula._C._add_observer(observer, False)
    try:
        (leaf * 2).sum().backward()
    finally:
        facula._C._remove_observer(observer)
    assert seen and all(seen) and leaf.grad.tolist() == [3.0] * 3


def test_a_thread_sees_the_gradient_while_others_add_to_it():
    leaf = facula.zeros(200_000, requires_grad=True)
    leaf.grad = facula.zeros(200_000)
    done = []

    def work(number):
        if number == 0:
            while len(done) < 3:
                assert leaf.grad is not None
            return
        for _ in range(40):
            (leaf * 2.0).sum().backward()
        done.append(number)

    together(work)
    assert bool((leaf.grad == 240.0).all())


def test_ctrl_c_in_a_pass_keeps_gradients():
    leaf = facula.ones(3, requires_grad=True)
    leaf.grad = facula.ones(3)

    def interrupt(_):
        raise KeyboardInterrupt

    leaf.register_post_accumulate_grad_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [3.0] * 3


# --- nodes


INSIDE = threading.local()


class Enters(facula.autograd.Function):
    """Starts a pass of its own when all threads are in their nodes."""

    @staticmethod
    def forward(ctx, x, meeting, roots, other):
        ctx.meeting, ctx.roots, ctx.other = meeting, roots, other
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if not getattr(INSIDE, "value", False):
            INSIDE.value = True
            ctx.meeting.wait(60)
            with facula.enable_grad():
                total = ctx.roots[ctx.other].sum()
            total.backward(retain_graph=True)
        return grad, None, None, None


@pytest.mark.parametrize("threads", [2, 3])
def test_passes_that_enter_each_others_nodes_end(threads):
    meeting, roots, leaves = threading.Barrier(threads), [], [facula.ones(2, requires_grad=True) for _ in range(threads)]
    for i, leaf in enumerate(leaves):
        roots.append(Enters.apply(leaf * 1.0, meeting, roots, (i + 1) % threads))

    def work(number):
        roots[number].sum().backward(retain_graph=True)

    together(work, threads)
    assert [leaf.grad.tolist() for leaf in leaves] == [[2.0, 2.0]] * threads


class Nests(facula.autograd.Function):
    """Starts a pass through another one of itself, `left` times."""

    @staticmethod
    def forward(ctx, x, left, fails):
        ctx.left, ctx.fails = left, fails
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.left:
            with facula.enable_grad():
                inner = facula.ones(2, requires_grad=True)
                total = Nests.apply(inner, ctx.left - 1, ctx.fails).sum()
            total.backward()
            return inner.grad + grad - 1, None, None
        if ctx.fails:
            raise KeyError("deep down")
        return grad, None, None


def test_passes_two_thousand_deep():
    leaf = facula.ones(2, requires_grad=True)
    Nests.apply(leaf, 2000, False).sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]


def test_errors_of_deep_passes_arrive():
    leaf, called = facula.ones(2, requires_grad=True), []
    with pytest.raises(KeyError, match="deep down"):
        Nests.apply(leaf, 200, True).sum().backward()
    assert leaf.grad is None
    with facula.no_grad():
        leaf.register_hook(lambda grad: called.append(facula.is_grad_enabled()))
    Nests.apply(leaf, 130, False).sum().backward()
    assert called == [False] and leaf.grad.tolist() == [1.0, 1.0]


# --- observers


class Leaves:
    """An observer that goes when it is told something."""

    def __init__(self, others=()):
        self.told, self.others, self.first = 0, others, threading.Lock()

    def op_begins(self, name, arguments):
        self.told += 1
        if not self.first.acquire(blocking=False):
            return  # another thread is told something at the same time
        facula._C._remove_observer(self)
        for other in self.others:
            facula._C._remove_observer(other)


@pytest.mark.parametrize("everywhere", [False, True])
def test_observers_that_remove_themselves(everywhere):
    later = Leaves()
    stays = type("Stays", (), {"told": 0, "op_begins": lambda self, *_: setattr(self, "told", self.told + 1)})()
    first = Leaves([later])
    for observer in (first, stays, later):
        facula._C._add_observer(observer, everywhere)
    facula.ones(2) + 1
    facula.ones(2) + 1
    assert (first.told, later.told) == (1, 0) and stays.told >= 4
    facula._C._remove_observer(stays)
    facula.ones(2) + 1  # who was unwatched while the last one went looks once more
    assert not facula._C._watching()


def test_the_last_observer_of_all_goes_in_a_callback():
    for everywhere in (False, True):
        facula._C._add_observer(Leaves(), everywhere)
        for _ in range(3):
            facula.ones(2) + 1
        assert not facula._C._watching()


def test_observers_that_come_in_callbacks_are_told_from_the_next_op_on():
    for everywhere in (False, True):
        added = type("Added", (), {"told": [], "op_begins": lambda self, name, _: self.told.append(name)})()

        class Adds:
            def op_begins(self, name, arguments, added=added, everywhere=everywhere):
                facula._C._remove_observer(self)
                facula._C._add_observer(added, everywhere)

        facula._C._add_observer(Adds(), everywhere)
        facula.ones(2)
        before = len(added.told)
        facula.neg(facula.ones(2))
        facula._C._remove_observer(added)
        assert "neg" in added.told[before:]


def test_threads_whose_observers_go_while_others_are_told():
    def work(number):
        for _ in range(60):
            observer = Leaves()
            facula._C._add_observer(observer, True)
            for _ in range(5):
                facula.ones(2) + 1
        return True

    assert all(together(work))


# --- generators, forks


def forked(child):
    """The exit status of child() in a forked process, which an alarm ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(30)
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def draw_and_differentiate():
    facula.rand(100_000), facula.rand(3)
    leaf = facula.ones(3, requires_grad=True)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 3


def test_processes_forked_while_others_draw():
    own, stop = facula.Generator(), threading.Event()

    def draws(generator):
        while not stop.is_set():
            facula.randn(300_000, generator=generator)

    def passes():
        leaf = facula.ones(200, requires_grad=True)
        while not stop.is_set():
            (leaf * 2).sum().backward()

    threads = [threading.Thread(target=draws, args=(g,)) for g in (None, own)] + [threading.Thread(target=passes)]
    for thread in threads:
        thread.start()
    try:
        statuses = []
        while len(statuses) < 5 and not any(statuses):
            statuses.append(forked(lambda: (draw_and_differentiate(), facula.randn(5, generator=own), facula.randn(50_000, generator=own))))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 5


def test_a_signal_handler_may_draw_while_a_draw_runs():
    drawn = []

    def handle(number, frame):
        drawn.append(facula.rand(3))

    before, interval = signal.signal(signal.SIGUSR1, handle), facula._C._set_ask_interval(0)
    try:
        timer = threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        facula.randn(3_000_000)
        timer.join()
        facula.randn(3_000_000)
    finally:
        signal.signal(signal.SIGUSR1, before)
        facula._C._set_ask_interval(interval)
    assert len(drawn) == 1


def test_counts_of_rates_that_fit_no_integer():
    """PyTorch converts such counts to an integer, which C++ does not define: all become -9.2e18."""
    for dtype in (facula.float32, facula.float64):
        rates = facula.tensor([float("inf"), 1e25, 3.0], dtype=dtype)
        found = facula.poisson(rates)
        assert found[0] == float("inf") and abs(float(found[1]) / 1e25 - 1) < 1e-6 and 0 <= found[2] < 30


# --- futures


def test_what_callbacks_of_futures_raise_is_logged(caplog):
    future, order = facula.futures.Future(), []

    def fails(done):
        order.append("fails")
        raise ValueError("of a callback")

    future.add_done_callback(fails)
    future.add_done_callback(lambda done: order.append(done.value()))
    with caplog.at_level(logging.ERROR):
        future.set_result(3)
        future.add_done_callback(fails)
    assert order == ["fails", 3, "fails"] and future.wait() == 3
    assert [str(record.exc_info[1]) for record in caplog.records] == ["of a callback"] * 2
    with pytest.raises(RuntimeError, match="of a callback"):
        future.then(fails).wait()


# --- saved values


@pytest.mark.parametrize(
    ("name", "made"), [("_saved_result", lambda leaf, _: leaf.sqrt()), ("saved_tensors", lambda leaf, keeps: keeps.apply(leaf))]
)
def test_saved_values_are_not_read_while_a_pass_lets_go_of_them(name, made):
    class Keeps(facula.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t.clone()

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors
            return grad

    leaf = facula.ones(3, requires_grad=True)
    result = made(leaf, Keeps)
    node = result.grad_fn
    read = []

    def reads():
        try:
            read.append(getattr(node, name))
        except RuntimeError as error:
            read.append(str(error))

    thread = threading.Thread(target=reads)

    def before(grads):
        assert getattr(node, name) is not None  # the thread that runs the node may
        thread.start()
        thread.join(0.2)  # it waits for the node

    node.register_prehook(before)
    result.backward(facula.ones(3))
    thread.join()
    assert len(read) == 1 and "freed" in str(read[0])


# --- what threads import while others look


def test_dictionaries_of_modules_are_copied_before_they_are_gone_through():
    """Another thread may import a module, or use a name that is made when it is first asked for."""
    walks = re.compile(r"\bin (sys\.modules|vars\((facula|home|module|torch)\))(\.(items|values|keys)\(\))?(?= if |:|\)|\])")
    found = [f"{p}: {line.strip()}" for p in Path(facula.__file__).parent.rglob("*.py") for line in p.read_text().splitlines() if "for " in line and walks.search(line)]
    assert not found, found


def test_tensors_are_pickled_while_others_use_what_is_made_at_its_first_use():
    program = """
import sys, threading, pickle
sys.setswitchinterval(1e-6)
import facula
stop, errors = threading.Event(), []
def adds():
    for i in range(100_000):
        if stop.is_set():
            break
        setattr(facula, f"_made_later_{i}", i)
def pickles():
    from facula._serialization import allowed
    try:
        for _ in range(30):
            allowed._Tables.values = None
            pickle.dumps(facula.ones(2))
    except BaseException as error:
        errors.append(error)
    finally:
        stop.set()
threads = [threading.Thread(target=work) for work in (adds, pickles)]
[t.start() for t in threads], [t.join() for t in threads]
assert not errors, errors
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
