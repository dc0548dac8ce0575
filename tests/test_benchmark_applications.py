"""benchmarks/applications: the table is what the files define, and a worker answers; those of `tables` need no other package."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "applications"


@pytest.fixture
def listed(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("benchmark_applications", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.programs()


def test_programs_are_listed_without_their_packages(listed):
    assert len(listed) >= 20
    assert {kind for kind, *_ in listed} == {path.stem for path in FOLDER.glob("*.py")} - {"__main__", "kinds", "worker"}
    assert len({name for _, name, *_ in listed}) == len(listed)


@pytest.mark.parametrize("name", ["lstm_forecasts", "dlrm", "tabular"])
def test_a_worker_answers(name):
    command = [sys.executable, "-m", "facula", str(FOLDER / "worker.py"), "tables", name, "1"]
    asked = '{"seconds": 0}\n{"seconds": 0}\n'
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    first, *turns = [json.loads(line) for line in done.stdout.splitlines()]
    assert 0 < first["result"] < 20
    assert len(turns) == 2 and all(turn["count"] == 1 and turn["seconds"] > 0 for turn in turns)
