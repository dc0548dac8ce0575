"""The program for the first machine with a GPU (benchmarks/cuda/everything.py): its parts are there, and small ones run on the emulated device."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_environment import environment

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "cuda"


@pytest.fixture(scope="module")
def everything():
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("everything")
    sys.path.remove(str(FOLDER))


def test_parts_have_limits_that_fit_into_ten_minutes(everything):
    assert set(everything.LIMITS) == {*everything.PARTS, "tests"}
    assert sum(seconds for part, seconds in everything.LIMITS.items() if part != "tests") < everything.ALL <= 600
    assert {"models", "latency", "bandwidth", "matmul", "attention", "allocator", "timeline", "scaling"} <= set(
        everything.PARTS
    )
    assert {"alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf"} == set(everything.MODELS)  # of the paper's Table 1
    tests = Path(__file__).resolve().parent
    assert all((tests / name).exists() for name in everything.TESTS)
    assert all((FOLDER.parent / "models" / f"{name}.py").exists() for name in everything.MODELS)


def test_numbers_are_compared(everything):
    nan = float("nan")
    ours, theirs = {"a": {"values": [1.0, 2.0, nan, 4.0]}}, {"a": {"values": [1.0, 2.5, nan, 4.0]}}
    found = importlib.import_module("first_run").compared(ours, theirs)
    assert found == {"a": {"values": 4, "equal": 0.75, "largest_difference": 0.5}}
    assert importlib.import_module("first_run").compared(ours, None) == {"a": {"values": 4}}


def test_small_parts_run(tmp_path):
    result = tmp_path / "figures.json"
    parts = ("latency", "allocator", "timeline", "trace", "recurrent", "compiled")
    command = [sys.executable, str(FOLDER / "everything.py"), "--tiny", "--parts", ",".join(parts), "--json", str(result)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(result.read_text())
    assert set(figures["parts"]) == set(parts)
    ours = {name: part["facula"] for name, part in figures["parts"].items()}
    assert all(row["host_us"] > 0 and row["whole_us"] >= row["host_us"] for row in ours["latency"].values())
    iterations = ours["allocator"]["iterations"]
    assert iterations[0]["reserved"] > 0
    assert all(row["num_device_alloc"] == row["num_device_free"] == 0 for row in iterations[2:])
    assert all(row["compiled_ms"] > 0 and row["eager_ms"] > 0 for row in ours["compiled"].values())
    assert all(row["done_ms"] >= row["queued_ms"] > 0 for row in ours["timeline"]["steps"])
    assert np.all(np.asarray(ours["trace"]["allocated"]) <= ours["trace"]["reserved"])
    assert len(done.stdout.splitlines()) > len(parts)


def test_without_a_device_it_says_so(tmp_path):
    command = [sys.executable, str(FOLDER / "everything.py"), "--json", str(tmp_path / "none.json")]
    hidden = {**environment(), "CUDA_VISIBLE_DEVICES": "", "FACULA_CUDA": ""}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True)
    assert done.returncode == 1
    assert "FACULA_CUDA=emulated and --tiny run this program without one" in done.stderr
