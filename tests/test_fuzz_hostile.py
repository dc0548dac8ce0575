"""Calls with arguments that nobody would give raise ordinary exceptions: a round of tests/fuzz/hostile.py, and what it found.

The long round is a command, see there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import facula
from facula import nn

TESTS = Path(__file__).resolve().parent
CASES = os.environ.get("FACULA_FUZZ_CASES", "4000")


def run_round(name, cases, seed, *more):
    """The fuzzer in a process of its own, whose workers may die."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", f"fuzz.{name}", "--cases", cases, "--seed", str(seed), "--jobs", "2", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment, cwd=TESTS)


@pytest.mark.slow
def test_a_round_of_hostile_calls():
    result = run_round("hostile", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


@pytest.mark.slow
def test_the_runner_sees_crashes_hangs_and_wrong_results():
    """A fuzzer with known defects: all of them are found, and the round goes on after each."""
    result = run_round("defects", "80", 0)
    assert result.returncode == 1, result.stderr[-3000:]
    counts = "80 cases in"
    assert counts in result.stdout and result.stdout.endswith("2 x crash SIGSEGV, 1 x endless, 1 x hang, 1 x memory, 1 x wrong\n"), result.stdout[-3000:]


class Clearing:
    """A number that empties a list when it is asked for its value."""

    def __init__(self, emptied):
        self.emptied = emptied

    def __index__(self):
        self.emptied.clear()
        return 1

    __float__ = __index__


def test_lists_that_change_while_they_are_read():
    sizes = [1, 1, 1]
    sizes.insert(0, Clearing(sizes))
    assert facula.ones(sizes).shape == (1,)
    tensors = [facula.ones(2), facula.ones(2)]
    with pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
        facula.stack(tensors, Clearing(tensors)), facula.cat(tensors, Clearing(tensors))
    data = [2.0, 3.0, 4.0]
    data.insert(0, Clearing(data))
    with pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
        facula.tensor(data)


class Subclass(facula.Tensor):
    pass


def test_an_override_that_is_switched_off_does_not_stand_for_a_list():
    with pytest.raises(TypeError, match="fit no signature"):  # the default override calls the op with overrides off
        facula._C.nn_functional._upsample_bicubic2d_aa(facula.ones(1, 1, 3, 3), [7, 6], False, Subclass())


def test_strings_that_utf8_has_no_form_for():
    for call in (lambda: facula.empty(2, device="\ud800"), lambda: facula.device("\ud800"), lambda: facula.ones(2).to("\ud800")):
        with pytest.raises(UnicodeEncodeError):
            call()
    with pytest.raises(TypeError, match=r"got \(int, \\ud800=int\)"):
        facula.ones(2, **{"\ud800": 1})


@pytest.mark.parametrize("index", [-1, 128, 300, 2**32, 2**62])
def test_device_indices_are_not_cut(index):
    for call in (lambda: facula.device("cuda", index), lambda: facula.ones(2).to(device=index)):
        with pytest.raises(RuntimeError, match=f"at most 127.*got {index}"):
            call()


def test_counts_of_layers_are_bounded():
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    for call in (lambda: nn.GRU(3, 4, 2**62), lambda: nn.TransformerEncoder(layer, 2**62), lambda: nn.Transformer(4, 2, 1, 2**31)):
        with pytest.raises(ValueError, match="num_layers must be at most 65536, got"):
            call()


ENDLESS = """
facula.empty_strided((3,), (2**62,))
facula.zeros(1, dtype=facula.float64).expand(2**61).exp()
facula.zeros(1, dtype=facula.complex128).expand(2**60).exp()
facula.zeros(2, 1).expand(2, 2**62)
facula.zeros(1, dtype=facula.float64).expand(2**61).mode()
facula.pixel_shuffle(facula.ones(1, 4, 2, 2), 2**40)
facula.ones(2, 3).tensor_split(2**63 - 1)
facula.ones(0, 3).chunk(2**40)
facula.ones(1).expand(2**40).split(1)
facula.ones(1).expand(2**40).unbind()
facula.vander(facula.ones(3), 2**40)
facula.combinations(facula.ones(2**20), 2)
facula.combinations(facula.ones(3), 2**62, with_replacement=True)
facula.mvlgamma(facula.full((3,), 1e12), 2**40)
facula.tril_indices(2**40, 2**20)
facula.tril_indices(2**62, 2**62, 5)
facula.fft.fftfreq(2**40)
facula.nn.functional.adaptive_avg_pool2d(facula.ones(1, 2, 3, 3), 2**40)
facula.nn.functional.max_pool1d(facula.ones(1, 2, 3), 2**62, dilation=2**62)
facula.nn.functional.fractional_max_pool2d(facula.ones(2, 3, 7, 6), 2**63 - 1, 3)
facula.nn.functional.embedding_bag(facula.ones(4, device="meta").long(), facula.ones(5, 7), facula.tensor([0]))
facula.ones(2).new_empty_strided((2, 2), (1,))
facula.cosine_similarity(facula.ones(3, 1), facula.ones(2**40, device="meta"))
facula.ones(3).copy_(facula.ones(3, device="meta").requires_grad_())
facula.ones(1).expand(2**40, 1).expand(2**40, 2**40)
""".strip().splitlines()


@pytest.mark.parametrize("call", ENDLESS)
def test_counts_that_fit_no_memory_are_errors_at_once(call):
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        eval(call)


def test_counts_of_few_elements_are_not_walked_through():
    assert facula.triu_indices(2**40, 4, 1).shape == (2, 6) and facula.tril_indices(4, 4, -(2**63)).shape == (2, 0)
    assert facula.combinations(facula.ones(3), 2**62).shape[0] == 0
    assert facula.binomial(facula.tensor([float("nan"), float("inf")]), facula.full((2,), 0.5))[0].isnan()
    assert facula.nn.functional.adaptive_avg_pool2d(facula.ones(1, 2, 3, 3, device="meta"), 2**20).shape[-1] == 2**20


LISTS = """
facula.zeros(1, 1, 1, 1).expand(2**20, 3, 2**20, 2**20).tolist()
facula.zeros(1, 0).expand(2**62, 0).tolist()
facula.zeros(1, dtype=facula.bool).expand(2**62).tolist()
facula.zeros(1).expand(2**40)[::2].tolist()
facula.UntypedStorage(2**40, device="meta").tolist()
""".strip().splitlines()


@pytest.mark.parametrize("call", LISTS)
def test_lists_that_fit_no_memory_are_errors_at_once(call):
    with pytest.raises((RuntimeError, NotImplementedError), match="^tolist: "):
        eval(call)


def test_lists_are_held_against_the_memory_limit():
    bytes_of_numbers = facula.zeros(1).expand(2**23)
    facula.cpu.set_memory_limit(2**27)
    try:
        with pytest.raises(facula.OutOfMemoryError, match=r"^tolist: cannot get 256.*set_memory_limit allows 128.0 MiB"):
            bytes_of_numbers.tolist()
    finally:
        facula.cpu.set_memory_limit(0)
    assert facula.zeros(1, 1).expand(2, 3).tolist() == [[0.0] * 3] * 2


def test_dimensions_of_tensors_without_any():
    for call in (lambda t: facula.linalg.tensorsolve(t, facula.ones(3, 4), (-1, -1)), lambda t: facula.linalg.tensorsolve(t, t, (0,))):
        with pytest.raises((RuntimeError, IndexError)):
            call(facula.tensor(2.0))
