"""Tensors without bytes (core/recipe.h): with FACULA_DEFER every op waits that can, and programs do not see it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import facula

CASES = Path(__file__).resolve().parent / "deferred_cases.py"


def run(what, policy=None):
    environment = {k: v for k, v in os.environ.items() if k != "FACULA_DEFER"}
    if policy:
        environment["FACULA_DEFER"] = policy
    done = subprocess.run([sys.executable, str(CASES), what], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def eager_values():
    return run("values")


@pytest.mark.parametrize("policy", ["all", "1", "2"])
def test_values_are_those_of_eager_execution(policy):
    expected, found = dict(eager_values()), run("values", policy)
    deferred, made, _ = found.pop("deferrals")
    assert expected.pop("deferrals") == [0, 0, 0]
    assert deferred > 1000 and made > 500
    different = {name: (expected[name], found.get(name)) for name in expected if expected[name] != found.get(name)}
    assert not different and found.keys() == expected.keys()


def test_every_door_makes_bytes():
    found = run("doors", "all")
    assert found["failures"] == [] and found["met"] > 1500


def test_reads_that_wait_do_not_see_writes():
    found = run("writes", "all")
    assert found["failures"] == [] and found["waited"] > 0.9 * found["cases"] > 300


def test_threads_share_what_waits():
    for policy in ("all", "3"):
        assert run("threads", policy)["failures"] == []


def test_nothing_waits_by_default():
    x = facula.ones(3) * 2
    assert not facula._C._is_deferred(x) or os.environ.get("FACULA_DEFER")
    with pytest.raises(TypeError, match="expected a Tensor"):
        facula._C._is_deferred(3)


def test_policy_must_be_known():
    environment = {**os.environ, "FACULA_DEFER": "most"}
    done = subprocess.run([sys.executable, "-c", "import facula"], env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and "FACULA_DEFER: 'all' or a number is expected, got 'most'" in done.stderr
