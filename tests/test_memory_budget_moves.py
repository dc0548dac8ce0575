"""Values that a memory budget moves to a file, in the place of computing them again: the same bits, and what cannot be written stays."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter

import pytest
from fuzz import budget as programs

import facula
from facula import _C, nn

CPU = facula.device("cpu")
MUCH = 1 << 40
BYTES = 512 * 1024 * 4  # of a large value


@pytest.fixture(autouse=True)
def small_values():
    """Every storage may go; two threads, as at the start of each test."""
    smallest, threads = _C._budget_threshold(0), facula.get_num_threads()
    facula.set_num_threads(2)
    yield
    _C._budget_threshold(smallest)
    facula.set_num_threads(threads)
    assert _C._budget_folder(b"") == ""


@pytest.fixture
def moves_are_free():
    """Whatever can be moved is."""
    before = _C._budget_move_price(0.0)
    yield
    _C._budget_move_price(before)


def counts():
    """How often values went, were made again, and were moved (there and back are two)."""
    rows = _C._budget_report(CPU)["rows"]
    return Counter(
        {"let go": sum(row[2] for row in rows), "again": sum(row[4] for row in rows), "moved": sum(row[7] for row in rows)}
    )


def let_go():
    return _C._budget_let_go(CPU, MUCH)


def bits(t):
    """A short text for the elements, so that a failure does not show them all."""
    return hashlib.blake2b(t.detach().clone().numpy().tobytes(), digest_size=16).hexdigest()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(width, width), nn.BatchNorm1d(width), nn.Dropout(0.2)

    def forward(self, x):
        y = self.drop(nn.functional.gelu(self.norm(self.linear(x))))
        y += x
        return y.relu_()


def train(limit=None, folder=None, seed=0):
    """What there is to see after three steps, and the most that was held."""
    generator = facula.Generator().manual_seed(seed)
    facula.manual_seed(seed)
    model = nn.Sequential(*(Block(64) for _ in range(6)))
    optimizer = facula.optim.SGD(model.parameters(), lr=0.05)
    x = facula.randn(256, 64, generator=generator)
    gc.collect()
    facula.cpu.empty_cache()
    facula.cpu.reset_peak_memory_stats()
    before = facula.cpu.memory_allocated()
    losses = []
    with facula.cpu.memory_budget(before + limit, folder=folder) if limit else contextlib.nullcontext():
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        highest = facula.cpu.max_memory_allocated() - before
    seen = [*losses, *model.state_dict().values(), *(p.grad for p in model.parameters())]
    return [bits(t) for t in seen], highest


# -- the same bits


@pytest.mark.parametrize("price", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("share", [80, 60])
def test_training_gives_the_same_bits(tmp_path, share, price):
    train()
    plain, highest = train()
    price_before, before = _C._budget_move_price(price), counts()
    try:
        within, most = train(highest * share // 100, tmp_path)
    finally:
        _C._budget_move_price(price_before)
    told = counts() - before
    assert within == plain and most <= highest * share // 100 + (1 << 19)
    assert told["let go"] > 10
    if price == 0.0:
        assert told["moved"] > 20 and told["again"] == 0
    assert not list(tmp_path.iterdir())


def test_programs_give_the_same_results(tmp_path):
    """Random programs of the fuzz test, whose values are moved or made again."""
    names, told = programs.library(), Counter()
    before, moved = _C._budget_move_price(0.0), counts()["moved"]

    def set_budget(limit):
        facula.cpu.memory_budget(limit, folder=tmp_path if limit else None)

    try:
        for number in range(30):
            _C._budget_move_price((0.0, 0.03)[number % 2])
            text = programs.case("moves", number)
            assert programs.check(text, names, set_budget=set_budget, told=told) is None, text
    finally:
        _C._budget_move_price(before)
    assert told["let go"] > 0 and counts()["moved"] > moved


def test_graphs_that_are_kept_read_again(tmp_path, moves_are_free):
    facula.manual_seed(0)
    w = facula.randn(64, 64, requires_grad=True)

    def gradients():
        (first,) = facula.autograd.grad((w @ w).tanh().exp().sum(), w, create_graph=True)
        let_go()
        second = facula.autograd.grad(first.square().sum(), w, retain_graph=True)[0]
        let_go()
        third = facula.autograd.grad(first.square().sum(), w)[0]
        return bits(second), bits(third)

    plain = gradients()
    assert plain[0] == plain[1]
    before = counts()
    with facula.cpu.memory_budget("1GB", folder=tmp_path):
        assert gradients() == plain
    assert (counts() - before)["moved"] > 4


# -- single values


class Saved:
    """exp() of a sum, which saves its result; nothing else has it. The sum reads a leaf."""

    def __init__(self):
        facula.manual_seed(3)
        with facula.no_grad():  # not recorded: nothing can make it again
            self.leaf = facula.randn(512, 1024).requires_grad_()
        self.expected = bits((self.leaf + 1).exp())
        self.loss = (self.leaf + 1).exp().sum()

    def forbid(self):
        """After this the sum cannot be made again: the leaf has other elements."""
        with facula.no_grad():
            self.leaf.add_(1)

    def gradient(self):
        return bits(facula.autograd.grad(self.loss, self.leaf, retain_graph=True)[0])


def test_what_cannot_be_made_again_is_moved(tmp_path):
    with facula.cpu.memory_budget("4GB"):
        value = Saved()
        value.forbid()
        assert let_go() == 0
    with facula.cpu.memory_budget("4GB", folder=tmp_path) as budget:
        before = counts()
        assert let_go() == BYTES
        assert value.gradient() == value.expected
    assert counts() - before == Counter({"let go": 1, "moved": 2})
    causes = [event.cause for event in budget.events()]
    assert causes == ["moved away", "moved back"]
    assert "4.00 MiB" in budget.summary()


def test_the_second_time_nothing_is_written(tmp_path, moves_are_free):
    with facula.cpu.memory_budget("4GB", folder=tmp_path):
        value = Saved()
        for moved in (2, 1, 1):
            before = counts()
            assert let_go() > 0
            assert value.gradient() == value.expected
            assert (counts() - before)["moved"] == moved


def test_what_lies_in_the_file_is_a_source_of_steps(tmp_path):
    with facula.cpu.memory_budget("4GB", folder=tmp_path):
        facula.manual_seed(0)
        leaf = facula.randn(512, 1024, requires_grad=True)
        first = leaf.exp()
        loss = (first + 2).sin().sum()  # sin() saves the sum, which reads the first
        expected = bits(facula.autograd.grad(loss, leaf, retain_graph=True)[0])
        del first
        price = _C._budget_move_price(0.0)
        assert _C._budget_let_go(CPU, 1) > 0  # one of both
        _C._budget_move_price(price)
        let_go()
        before = counts()
        assert bits(facula.autograd.grad(loss, leaf, retain_graph=True)[0]) == expected
        assert (counts() - before)["moved"] >= 1


def test_a_value_that_is_overwritten_is_not_read(tmp_path, moves_are_free):
    """Its saved bytes are refused as without a budget; what reads it before is made from the file."""
    with facula.cpu.memory_budget("4GB", folder=tmp_path):
        leaf = facula.ones(256, 1024, requires_grad=True)
        value = leaf.exp()
        loss = value.sum()
        kept = value.detach()
        del value
        assert let_go() == 0  # the program has it
        kept.add_(1)
        del kept
        let_go()
        with pytest.raises(RuntimeError, match="modified"):
            loss.backward()


def test_gradients_in_three_threads(tmp_path, moves_are_free):
    train()
    plain = {}

    def work(seed, found):
        facula.set_num_threads(1)
        generator = facula.Generator().manual_seed(seed)
        w = [facula.randn(128, 128, generator=generator).mul_(0.1).requires_grad_() for _ in range(6)]
        for _ in range(5):
            x = facula.ones(512, 128)
            for one in w:
                x = (x @ one).tanh().exp()
            grads = facula.autograd.grad(x.sum(), w)
        found[seed] = [bits(g) for g in grads]

    for seed in (1, 2, 3):
        work(seed, plain)
    found = {}
    gc.collect()
    before = counts()
    with facula.cpu.memory_budget(facula.cpu.memory_allocated() + (7 << 20), folder=tmp_path):
        threads = [threading.Thread(target=work, args=(seed, found)) for seed in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == plain
    assert (counts() - before)["moved"] > 0


# -- folders


def test_folders_that_cannot_be_used(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for folder in (tmp_path / "missing", str(file)):
        with pytest.raises(RuntimeError, match="^memory_budget: a folder in which a file can be made and written, got '.*': "):
            facula.cpu.memory_budget("1GB", folder=folder)
    assert _C._budget_get(CPU) == 0
    with pytest.raises(TypeError):
        facula.cpu.memory_budget("1GB", folder=3)
    with pytest.raises(ValueError, match="^memory_budget: a folder is for a budget, got '/tmp' and no limit$"):
        facula.cpu.memory_budget(None, folder="/tmp")


def test_the_folder_before_is_put_back(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()

    def now():
        folder = _C._budget_folder(b"")
        _C._budget_folder(os.fsencode(folder))
        return folder

    with facula.cpu.memory_budget("1GB", folder=one):
        assert now() == str(one)
        with facula.cpu.memory_budget("2GB", folder=str(two)):
            assert now() == str(two)
        assert now() == str(one)
        with facula.cpu.memory_budget("2GB"):
            assert now() == ""
        monkeypatch.setenv("FACULA_BUDGET_DIR", str(two))
        with facula.cpu.memory_budget("2GB"):
            assert now() == str(two)
        assert now() == str(one)
    assert now() == ""
    monkeypatch.setenv("FACULA_BUDGET_DIR", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="missing"):
        facula.cpu.memory_budget("1GB")
    assert _C._budget_get(CPU) == 0


# -- processes of their own


def run(program, *arguments):
    source = "import os, resource, sys, facula\nfrom facula import _C\nsys.path.append(sys.argv[1])\n"
    source += "from test_memory_budget_moves import *\n_C._budget_threshold(0)\n" + textwrap.dedent(program)
    command = [sys.executable, "-c", source, os.path.dirname(__file__), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk(tmp_path):
    """A bound on the sizes of files stands for it: what could not be written stays, or is made again."""
    program = """
        train()
        plain, highest = train()
        _C._budget_move_price(0.0)
        with facula.cpu.memory_budget("4GB", folder=sys.argv[2]):
            value = Saved()
            value.forbid()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
            assert let_go() == 0 and let_go() == 0
            assert value.gradient() == value.expected
        del value
        before = counts()
        assert train(highest * 6 // 10, sys.argv[2])[0] == plain
        told = counts() - before
        assert told["moved"] > 0 and told["again"] > 0, told
    """
    run(program, tmp_path)


def test_a_forked_child(tmp_path):
    """A child makes again what its parent has moved, or says that it is not there; what it moves itself is its own."""
    program = """
        _C._budget_move_price(0.0)
        facula.set_num_threads(1)
        with facula.cpu.memory_budget("4GB", folder=sys.argv[2]):
            value, forbidden = Saved(), Saved()
            forbidden.forbid()
            assert let_go() == 2 * BYTES
            child = os.fork()
            if child == 0:
                try:
                    before = counts()
                    assert value.gradient() == value.expected
                    assert counts() - before == Counter({"again": 2})
                    assert let_go() == BYTES and value.gradient() == value.expected
                    assert (counts() - before)["moved"] == 2
                    with pytest.raises(RuntimeError, match="were moved by the process that this one was forked from"):
                        forbidden.gradient()
                except BaseException as error:
                    print(repr(error), flush=True)
                    os._exit(1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert value.gradient() == value.expected and forbidden.gradient() == forbidden.expected
    """
    run(program, tmp_path)
