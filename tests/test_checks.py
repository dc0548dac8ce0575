"""Check what the tests themselves are run with: `make check`'s choice, names of cases, and processes that share the tests."""

import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from case_names import counted, words
from changed import choose, importers

import facula

HERE = Path(__file__).resolve().parent
TESTS = [path.relative_to(HERE.parent).as_posix() for path in HERE.glob("test_*.py")]
OF_OPS = [path.stem for path in (HERE.parent / "ops").glob("*.yaml")]


def chosen(*changed):
    choice = choose(changed, TESTS, OF_OPS, importers)
    assert {"tests/test_tiny.py", "tests/test_repo.py"} <= set(choice.tests)
    return {Path(test).stem.removeprefix("test_") for test in choice.tests} - {"tiny", "repo"}, choice


@pytest.mark.parametrize(
    ("changed", "tests", "topics"),
    [
        ("ops/conv.yaml", {"conv", "ops"}, {"conv"}),
        ("src/kernels/special.h", {"ops"}, {"special"}),
        ("src/cpu/isa/conv.cpp", {"conv", "ops"}, {"conv"}),
        ("src/cpu/isa/gemm.cpp", {"matmul", "ops"}, {"matmul"}),
        ("src/autograd/formulas_rnn_network.cpp", {"rnn", "ops"}, {"rnn"}),
        ("src/cuda/fft_library.cpp", {"cuda_fft", "ops", "cuda_ops"}, {"fft"}),
        ("src/sparse/csr.cpp", {"sparse", "sparse_golden"}, set()),
        ("facula/nn/modules/conv.py", {"conv", "docstrings", "arguments"}, set()),
        ("facula/optim/adafactor.py", {"optim", "optim_kinds", "optim_lists"}, set()),
        ("tests/test_conv.py", {"conv"}, set()),
        ("docs/cxx.md", {"cxx", "docs", "site"}, set()),
        ("pyproject.toml", {"packaging"}, set()),
    ],
)
def test_a_changed_file_has_tests(changed, tests, topics):
    found, choice = chosen(changed)
    assert tests <= found and choice.topics == topics and not choice.untested, (found, choice.topics)
    assert len(found) < len(tests) + 12, found  # not everything


def test_what_concerns_every_op():
    for changed in ("codegen/emit_ops.py", "src/core/tensor.cpp"):
        found, choice = chosen(changed)
        assert {"ops", "tensor", "autograd"} <= found and choice.topics == set(OF_OPS)


def test_a_helper_stands_for_the_tests_that_import_it():
    found, _ = chosen("tests/distributed_ranks.py")
    assert {"distributed_faults", "distributed_store"} <= found and "conv" not in found


def test_a_file_without_a_test_is_said():
    assert chosen("src/nowhere/unheard.cpp")[1].untested == ["src/nowhere/unheard.cpp"]
    assert chosen("tests/data/unheard.json")[1].untested == []


def test_every_topic_of_ops_has_tests():
    for topic in OF_OPS:
        found, choice = chosen(f"ops/{topic}.yaml")
        assert "ops" in found and choice.topics == {topic}


def test_the_topics_choose_cases_of_every_op(tmp_path):
    (tmp_path / "test_every.py").write_text(
        "import types, pytest\n"
        "OPS = [types.SimpleNamespace(topic=topic) for topic in ('fft', 'conv', 'fft')]\n"
        "@pytest.mark.parametrize('op', OPS, ids=lambda op: op.topic)\n"
        "def test_op(op):\n    assert op.topic == 'fft'\n"
        "def test_other():\n    pass\n"
    )
    assert "3 passed, 1 deselected" in inner(tmp_path, "--topics=fft")


def inner(folder, *arguments):
    """A run of pytest with the settings of these tests, in a folder."""
    tests = folder / "tests"
    tests.mkdir(exist_ok=True)
    for path in folder.glob("test_*.py"):
        path.rename(tests / path.name)
    for name in ("conftest.py", "case_names.py", "parallel_order.py"):
        shutil.copy(HERE / name, tests)
    shutil.copy(HERE.parent / "pyproject.toml", folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


UNBUILT = "raise ImportError('the checkout was imported')"


@pytest.mark.parametrize("arguments", [(), ("-n2",), ("-n2", "tests/test_a.py", "tests/test_c.py", "tests/test_b.py")], ids=["one process", "two", "files"])
def test_an_unbuilt_checkout_does_not_hide_the_installed_package(tmp_path, monkeypatch, arguments):
    """In the processes that run tests, and in those that these start."""
    pytest.importorskip("xdist")
    for place, text in (("checkout", UNBUILT), ("installed", "PLACE = 'installed'")):
        (tmp_path / place / "facula").mkdir(parents=True)
        (tmp_path / place / "facula" / "__init__.py").write_text(text)
    for name in "abc":
        (tmp_path / "checkout" / f"test_{name}.py").write_text(
            "import subprocess, sys, facula\n"
            "def test_here():\n    assert facula.PLACE == 'installed'\n"
            "def test_in_a_child():\n    subprocess.run([sys.executable, '-c', 'import facula; facula.PLACE'], check=True)\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    assert "6 passed" in inner(tmp_path / "checkout", *arguments)


def test_processes_share_files_from_both_ends(tmp_path):
    """One begins with the file of most slow tests, the other with that of most tests; none is run twice, none torn apart."""
    pytest.importorskip("xdist")
    slow, fast = "import pytest\n@pytest.mark.slow\n", "import pytest\n"
    for name, head, count in (("a", fast, 1), ("b", slow, 1), ("c", slow, 3), ("d", fast, 9), ("e", fast, 2)):
        test = "@pytest.mark.parametrize('n', range({}))\ndef test_it(n, worker_id):\n    with open(f'{}/{{worker_id}}', 'a') as f:\n        f.write('{}')\n"
        (tmp_path / f"test_{name}.py").write_text(head + test.format(count, tmp_path, name))
    assert "16 passed" in inner(tmp_path, "-n2")
    first, last = ((tmp_path / worker).read_text() for worker in ("gw0", "gw1"))
    assert first.startswith("ccc") and last.startswith("d" * 9)
    assert sorted(re.findall(r"(\w)\1*", first + " " + last)) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (lambda: facula.renorm(facula.ones(2, 3), 2, 0, 1), "renorm"),
        (lambda x: facula.nn.functional.pad(x, (0,)).sum(), "pad.sum"),
        (lambda x: x[1], "x[1]"),
        ((2, -1, 0), "(2,-1,0)"),
        ({"dtype": facula.int8, "out": None}, "dtype=int8 out=None"),
        ([slice(None, 2), Ellipsis], "[:2:,Ellipsis]"),
        ({"b", "a", "c"}, "[a,b,c]"),
        (facula.ones(2, 0), "float32[2,0]"),
        (facula.nn.Linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)"),
        (object(), "object"),
        (types.SimpleNamespace(), "namespace()"),
        ("x" * 200, "x" * 60),
        (b"x" * 200, "200 bytes"),
        (1 << 200, "about 2 to the 201"),
    ],
)
def test_cases_get_words(value, told):
    assert words(value) == told


def test_what_pytest_names_well_is_left_to_it():
    for value in (None, True, 3, 2.5, "text", int, len, re.compile("x")):
        assert words(value) is None


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("shape3-float32", {"shape": (2,), "dtype": "float32"}, True),
        ("<lambda>0", {"call": len}, True),
        ("17", {"case": ("add", 2)}, True),
        ("17", {"case": 17}, False),
        ("2-3", {"n": 2, "k": "3"}, False),
        ("matmul", {"case": len}, False),
    ],
)
def test_cases_that_are_only_counted_are_found(text, values, expected):
    assert counted(types.SimpleNamespace(callspec=types.SimpleNamespace(id=text, params=values))) is expected
    assert not counted(types.SimpleNamespace())
