"""The examples of several processes: they run alone and by the launcher, learn, and agree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from distributed_ranks import needs_mpi

import facula as torch

EXAMPLES = Path(__file__).parent.parent / "examples"
LAUNCHED = ["-m", "facula.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(folder, name, *arguments, launcher=()):
    """What an example prints."""
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent)}
    command = [sys.executable, *launcher, EXAMPLES / f"{name}.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def percents(printed):
    return [float(number) for number in re.findall(r"test accuracy ([0-9.]+)", printed)]


def test_hogwild(tmp_path):
    printed = run(tmp_path, "hogwild", "--epochs", "8")
    assert "720 + 720 steps" in printed and percents(printed)[-1] > 80


@pytest.mark.slow
@needs_mpi
def test_averaging(tmp_path):
    printed = run(tmp_path, "averaging", "--processes", "2", "--every", "1,20", "--epochs", "15")
    rows = re.findall(r"every +(\d+) steps: +(\d+) averages, ([0-9.]+) apart", printed)
    assert [row[:2] for row in rows] == [("1", "675"), ("20", "33")]
    assert 0 < float(rows[0][2]) < float(rows[1][2])  # more steps alone lead further apart
    assert min(percents(printed)) > 80


@pytest.mark.slow
@needs_mpi
def test_ddp_digits_alone_and_launched(tmp_path):
    printed = run(tmp_path, "ddp_digits", "--epochs", "2", launcher=LAUNCHED)
    assert "of 360 images in 2 processes" in printed and percents(printed)[-1] > 70
    state = torch.load(tmp_path / "ddp_digits.pt")
    assert state["conv1.weight"].shape == (32, 1, 3, 3)  # names of the model, not of the wrapper
    assert "in 1 processes" in run(tmp_path, "ddp_digits", "--epochs", "1")


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("launcher", [(), LAUNCHED], ids=["alone", "launched"])
def test_fsdp_text(tmp_path, launcher):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat and the rat ate the hat. " * 60)
    printed = run(tmp_path, "fsdp_text", text, "--steps", "25", "--width", "32", launcher=launcher)
    bits, again = (float(number) for number in re.findall(r"([0-9.]+) bits per character", printed))
    assert bits < 3.5 and again == pytest.approx(bits, abs=0.011)
    size, held, whole = (int(n.replace(",", "")) for n in re.search(r"process of (\d) holds ([\d,]+) .* would ([\d,]+)", printed).groups())
    assert size == (2 if launcher else 1) and whole / size <= held < 1.02 * whole / size + 100
    assert (tmp_path / "fsdp_text" / ".metadata").exists()
