"""The program for the first machine with a GPU (benchmarks/cuda/everything.py): its parts are there, and small ones run on the emulated device."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_environment import environment

import facula

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "cuda"


@pytest.fixture(scope="module")
def everything():
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("everything")
    sys.path.remove(str(FOLDER))


def run(*arguments, **variables):
    command = [sys.executable, str(FOLDER / "everything.py"), *map(str, arguments)]
    return subprocess.run(command, env={**environment(), **variables}, capture_output=True, text=True, timeout=540)


def test_steps_fit_into_ten_minutes(everything):
    names = [step.name for step in everything.STEPS]
    assert len(set(names)) == len(names)
    assert everything.ALL <= 560
    own = [step for step in everything.STEPS if step.name != "tests" and step.library == "facula"]
    assert sum(step.limit for step in own) < everything.ALL - 60  # some is left for tests
    assert {step.part for step in everything.STEPS if step.part} == set(everything.PARTS)
    # what can fail first is seen first, and what takes longest comes last
    assert names[:3] == ["machine", "libraries", "numerics"] and names[-1] == "tests"
    assert names.index("own_matmul") < names.index("matmul") < names.index("models")
    models = importlib.import_module("parts").MODELS
    assert {"alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf"} == set(models)  # of the paper's Table 1
    tests = Path(__file__).resolve().parent
    assert all((tests / name).exists() for name in everything.TESTS)
    assert all((FOLDER.parent / "models" / f"{name}.py").exists() for name in models)


def test_numbers_are_compared(everything):
    nan = float("nan")
    ours, theirs = {"a": {"values": [1.0, 2.0, nan, 4.0]}}, {"a": {"values": [1.0, 2.5, nan, 4.0]}}
    found = importlib.import_module("first_run").compared(ours, theirs)
    assert found == {"a": {"values": 4, "equal": 0.75, "largest_difference": 0.5}}
    assert importlib.import_module("first_run").compared(ours, None) == {"a": {"values": 4}}


def test_predictions_stand_beside_what_is_measured(everything):
    predictions = importlib.import_module("predictions")
    assert predictions.gpu_of("NVIDIA H200", [9, 0]) == "H200" and predictions.gpu_of("NVIDIA A100-SXM4-80GB", [8, 0]) == "A100"
    assert predictions.gpu_of("NVIDIA H800", [9, 0]) == "H100" and predictions.gpu_of("Some other", [7, 5]) is None
    known = {(p.part, p.row): p for p in predictions.predictions("H100")}
    copy = known["bandwidth", "copy float32"]
    assert copy.value == pytest.approx(0.9 * 3352)
    rows = {"copy float32": {"GB_per_s": copy.value * 0.97}, "add float32": {"of_copy": 0.3}}
    lines = predictions.table("H100", {"bandwidth": {"facula": rows, "torch": None}})
    row = next(line for line in lines if line.startswith("| bandwidth | copy float32"))
    assert row.endswith("| 0.97 | yes |")
    assert any(line.startswith("| latency | add | host_us") and "not measured" in line for line in lines)
    slow = predictions.Prediction("a", "b", "c", 10.0, "why", less=True)
    assert [predictions.judged(slow, value) for value in (5.0, 10.0, 20.0)] == ["better", "yes", "why"]
    # every row that is predicted is one that is measured
    ones = facula.ones(2, 1024)
    measured = importlib.import_module("parts").moving_ops(facula, ones, ones, ones[0])
    assert {p.row.rsplit(" ", 1)[0] for p in known.values() if p.part == "bandwidth"} <= set(measured)


def test_small_steps_run(everything, tmp_path):
    steps = ("latency", "allocator", "timeline", "trace", "recurrent", "compiled", "libraries", "machine")
    done = run("--tiny", "--steps", ",".join(steps), "--out", tmp_path, "--like", "H200")
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "all.json").read_text())
    assert set(kept["parts"]) == set(steps) and kept["gpu"] == "H200"
    order = [step.name for step in everything.STEPS if step.name in steps]
    files = sorted(path.name for path in tmp_path.glob("??_*.json"))
    assert files == [f"{i:02}_{name}.json" for i, name in enumerate(order, 1)]  # one as soon as a step is done
    ours = {name: part["facula"] for name, part in kept["parts"].items()}
    assert all(row["difference"] < 0.02 for name, row in ours["libraries"].items() if name != "which")
    assert {"cuBLAS", "cuDNN convolution", "cuDNN LSTM", "cuFFT", "cuSOLVER", "graph"} <= set(ours["libraries"])
    assert all(row["host_us"] > 0 and row["whole_us"] >= row["host_us"] for row in ours["latency"].values())
    iterations = ours["allocator"]["iterations"]
    assert iterations[0]["reserved"] > 0
    assert all(row["num_device_alloc"] == row["num_device_free"] == 0 for row in iterations[2:])
    assert all(row["compiled_ms"] > 0 and row["eager_ms"] > 0 for row in ours["compiled"].values())
    assert all(row["done_ms"] >= row["queued_ms"] > 0 for row in ours["timeline"]["steps"])
    assert np.all(np.asarray(ours["trace"]["allocated"]) <= ours["trace"]["reserved"])
    table = (tmp_path / "table.md").read_text()
    assert table.startswith("predictions for H200") and "| latency | add | host_us | 0.6 |" in table
    assert table.strip() in done.stdout


def test_a_step_whose_time_is_up_leaves_its_rows(everything):
    lines = ['{"row": "a", "figures": {"ms": 1}}\n', "a warning\n", '{"row": "b", "figures": {"ms": 2}}\n']
    assert everything.figures_of(lines) == {"a": {"ms": 1}, "b": {"ms": 2}}
    assert everything.figures_of([*lines, '{"all": {"c": 3}}\n']) == {"c": 3}
    program = "import time; print('x', flush=True); time.sleep(60)"
    found, _, status = everything.output_of([sys.executable, "-c", program], 2, {})
    assert found == ["x\n"] and status is None
    missing = everything.Step("none", 5, command=("there_is_no_such_program",))
    assert "refused" in everything.run_step(missing, True, 5)


def test_without_a_device_it_says_so(tmp_path):
    done = run("--out", tmp_path, CUDA_VISIBLE_DEVICES="", FACULA_CUDA="")
    assert done.returncode == 1
    assert "FACULA_CUDA=emulated and --tiny run this program without one" in done.stderr


def test_a_step_that_is_none_is_refused(tmp_path):
    done = run("--tiny", "--steps", "bandwith", "--out", tmp_path)  # codespell:ignore
    assert done.returncode == 1 and "got bandwith" in done.stderr  # codespell:ignore
