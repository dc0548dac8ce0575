"""Check what `make demo` shows while it builds (.ci/progress.py)."""

import importlib.util
import io
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "progress.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the sources of CI are not in an sdist")


@pytest.fixture
def progress():
    spec = importlib.util.spec_from_file_location("progress", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(progress, program, terminal=False):
    out = io.StringIO()
    out.isatty = lambda: terminal
    return progress.run([sys.executable, "-c", program], out), out.getvalue()


def test_steps_are_counted(progress):
    status, text = shown(progress, "for i in range(1, 101): print(f'  [{i}/100] Building CXX object')\nprint('Successfully installed facula-0.1.0')")
    assert status == 0
    assert text.splitlines()[0].startswith("building 1 of 100, 0:0")
    assert len(text.splitlines()) == 12 and text.endswith("installed facula-0.1.0\n")
    assert "Building CXX" not in text


def test_a_terminal_has_one_line(progress):
    _, text = shown(progress, "print('-- Kernels for: v4 (FACULA_LEVELS=native)')\nfor i in (1, 2, 3): print(f'[{i}/3] x')", terminal=True)
    assert text.count("\n") == 1 and "kernels for v4" in text and text.endswith("\rbuilding 3 of 3, 0:00")


def test_a_failure_shows_what_was_said_last(progress):
    status, text = shown(progress, "print('[1/2] x'); print('error: no such header'); raise SystemExit(3)")
    assert status == 3 and "error: no such header" in text
