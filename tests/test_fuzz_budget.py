"""Random programs within a memory budget: a round of tests/fuzz/budget.py, which is a command for long ones."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
from fuzz import budget
from test_fuzz_hostile import run_round

import facula

CASES = os.environ.get("FACULA_FUZZ_CASES", "1000")


@pytest.fixture(scope="module")
def names():
    return budget.library()


@pytest.mark.slow
def test_a_round_of_programs_within_budgets():
    result = run_round("budget", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


def test_budgets_are_kept_and_refused_and_bytes_are_made_again(names):
    told = Counter()
    for number in range(40):
        text = budget.case("few", number)
        assert budget.check(text, names, told=told) is None, text
    assert told["let go"] > 20 and told["again"] > 20 and told["refused"] and told["done"] > 10, told


def test_a_case_says_what_it_runs():
    text = budget.case("3", 5)
    case = json.loads(text)
    assert text == budget.case("3", 5) != budget.case("3", 6)
    assert case["lines"][0] == ["pure", "v0 = l0 * 1"] and ["pure", "squeeze(None)"] in case["lines"]


class Planted:
    """Stands in for a budget: `op` of a program does something else as long as it is set."""

    def __init__(self, fault):
        self.fault, self.limit, self.calls = fault, None, 0

    def set(self, limit):
        self.limit = limit

    def op(self, scope):
        self.calls += 1
        if self.limit:
            self.fault(scope)
        return scope["v0"].tanh()


def rounds_a_value(scope):
    scope["v0"].data.view(-1)[7] *= 1 + 2**-22


def counts_a_write(scope):
    scope["v0"].detach().add_(0)


def moves_the_generator(scope):
    facula.rand(1)


def forgets_a_gradient(scope):
    scope["v0"] = scope["v0"].detach()


def notes_something(scope):
    scope["log"].append("something")


def holds_too_much(scope):
    facula.empty(1 << 20)


def fails(scope):
    raise ValueError("late")


def refuses(text):
    def refuses(scope):
        raise facula.OutOfMemoryError(text)

    return refuses


GOOD = "tanh: cannot get 98.0 MiB within the memory budget of 400 MiB: 371 MiB are held that cannot go"


def refuses_and_writes(scope):
    rounds_a_value(scope)
    raise facula.OutOfMemoryError(GOOD)


@pytest.mark.parametrize(
    "fault, found",
    [
        (rounds_a_value, "l0 gradient: 1 of 4096 bytes"), (counts_a_write, "v0 form: "), (moves_the_generator, "generator state: "),
        (forgets_a_gradient, "total("), (notes_something, "the log has "), (holds_too_much, "KiB were held"), (fails, "ended with ok"),
        (refuses("tanh: cannot get 1 MiB"), "the error's text is "), (refuses_and_writes, "refused, and left v0 values: "),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)  # fmt: skip
def test_planted_faults_are_found(names, fault, found):
    assert found in str(planted(names, fault)[0])


def test_a_refused_statement_is_tried_again(names):
    problem, stand_in = planted(names, refuses(GOOD))
    assert problem is None and stand_in.calls == 3  # once without a budget, once refused, once more


def planted(names, fault):
    stand_in = Planted(fault)
    lines = ["v0 = l0 * 1", "v1 = op(globals())", "total(globals()).backward()"]
    text = json.dumps({"n": 32, "dtype": "float32", "share": 1, "threads": 1, "lines": [["pure", line] for line in lines]})
    return budget.check(text, {**names, "op": stand_in.op}, stand_in.set), stand_in
