"""Random programs, compiled and eager, give the same: a round of tests/fuzz/compiled.py, which is a command for long ones."""

from __future__ import annotations

import json
import os

import pytest
from fuzz import compiled
from test_fuzz_hostile import run_round

import facula

CASES = os.environ.get("FACULA_FUZZ_CASES", "1000")
ONE = compiled.BREAK.join(
    [json.dumps([{}, {"numbers": "3"}, {"size": 2}, {}]), "v0 = mk([3, 4], 'float32', 7, True)", "v1 = v0 * 2 + 1", "v1.add_(v0)", "v2 = v1.exp()"]
)


@pytest.fixture(scope="module")
def names():
    threads = facula.get_num_threads()
    yield compiled.library()
    facula.set_num_threads(threads)
    facula.set_warn_always(False)


@pytest.mark.slow
def test_a_round_of_compiled_programs():
    result = run_round("compiled", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


def test_a_case_says_what_it_runs():
    text = compiled.case("3", 5)
    calls, *lines = text.split(compiled.BREAK)
    assert json.loads(calls)[:1] and lines[0].startswith("v0 = mk(") and text == compiled.case("3", 5)
    lines = ["v0 = mk([2], 'float32', 2, True)", "v1 = v0 * 2", "v2 = torch.add(v1, 0.5)"]
    assert compiled.statements(lines, {"numbers": "7"}) == [lines[0], "v1 = v0 * 7", "v2 = torch.add(v1, 7)"]
    assert compiled.statements(lines, {"without": 1, "other": [2, "v3 = v0"]}) == [lines[0], "v3 = v0"]


def test_two_eager_runs_are_the_same(names):
    for number in range(40):
        text = compiled.case("same", number)
        assert compiled.check(text, names, lambda function: function) is None, text


def rounds_a_value(scope, ends, first):
    if not first:
        with facula.no_grad():
            scope["v2"].data.view(-1)[-1] *= 1 + 2**-22


def counts_a_write(scope, ends, first):
    if not first:
        scope["v1"].detach().add_(0)


def keeps_a_number(scope, ends, first):
    if not first:
        scope["v2"] = scope["v0"].exp()


def forgets_a_gradient(scope, ends, first):
    if not first:
        scope["v2"] = scope["v2"].detach()


def joins_memory(scope, ends, first):
    if not first:
        scope["v2"] = scope["v1"].detach()[...].exp_().requires_grad_()


def raises_late(scope, ends, first):
    if not first:
        ends[-1] = "ValueError: late"


def draws(scope, ends, first):
    if not first:
        facula.rand(1)


@pytest.mark.parametrize(
    "fault", [rounds_a_value, counts_a_write, keeps_a_number, forgets_a_gradient, joins_memory, raises_late, draws],
    ids=lambda fault: fault.__name__,
)  # fmt: skip
def test_planted_faults_are_found(names, fault):
    def compile(function):
        calls = []

        def call(codes, scope, ends):
            function(codes, scope, ends)
            fault(scope, ends, not calls)
            calls.append(1)

        return call

    assert compiled.check(ONE, names, lambda function: function) is None
    assert str(compiled.check(ONE, names, compile)).startswith("call 1, ")
