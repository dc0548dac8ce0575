"""The files of tests/data: each has the program that made it, and holds what that program writes.

The programs need PyTorch and are run by hand; the tests only read them.
"""

import ast
import json
import runpy
from pathlib import Path

import pytest

import facula.compat

TESTS = Path(__file__).parent
DATA = TESTS / "data"
MAKERS = sorted(DATA.glob("make_*.py"))
FILES = sorted(path for path in DATA.iterdir() if path.is_file() and path not in MAKERS)


def maker_of(path):
    return [maker for maker in MAKERS if path.stem.startswith(maker.stem.removeprefix("make_"))]


def test_every_file_has_its_maker():
    assert {path.name: len(maker_of(path)) for path in FILES} == {path.name: 1 for path in FILES}
    assert {maker.name for path in FILES for maker in maker_of(path)} == {maker.name for maker in MAKERS}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda path: path.name)
def test_a_maker_loads_without_pytorch(maker):
    facula.compat.install()  # some define models, for which `torch` is Facula
    found = runpy.run_path(str(maker))
    assert callable(found["main"]) and found["__doc__"].startswith("Writes ") and "Needs PyTorch" in found["__doc__"]


def test_the_random_numbers_are_those_of_the_maker():
    found = runpy.run_path(str(DATA / "make_rng_golden.py"))
    golden = json.loads((DATA / "rng_golden.json").read_text())
    expected = [(seed, call, "torch") for seed, calls in found["CALLS"] for call in calls]
    expected += [(found["FORMULA_SEED"], call, "formula") for call in found["FORMULAS"]]
    assert [(row["seed"], row["call"], row["source"]) for row in golden["values"]] == expected
    assert [(row["seed"], row["call"]) for row in golden["states"]] == found["STATES"]
    assert golden["about"] == found["ABOUT"]


def test_the_samples_are_those_of_the_maker():
    found = runpy.run_path(str(DATA / "make_distributions_golden.py"))
    golden = json.loads((DATA / "distributions_golden.json").read_text())
    assert [row["call"] for row in golden] == found["CALLS"].strip().splitlines()
    assert all(len(row["values"]) <= found["ELEMENTS"] and row["shape"][0] == found["SHAPE"][0] for row in golden)


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", sorted(TESTS.glob("**/*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_needs_pytorch(path):
    """Under the name torch a test means Facula: `import facula as torch`, or after compat.install(), or run by `-m facula`."""
    text = path.read_text()
    if path not in MAKERS and "torch" in imported(ast.parse(text)):
        program = f"python -m facula tests/{path.relative_to(TESTS)}" in text and not path.name.startswith("test_")
        assert program or "compat.install()" in text, "the suite runs where PyTorch is not"
