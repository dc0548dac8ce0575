"""Make a virtual environment for each framework, where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# as pip reads them
PACKAGES = {
    "torch": ["torch==2.13.0", "numpy", "--extra-index-url", "https://download.pytorch.org/whl/cpu"],
    "jax": ["jax==0.10.2", "flax==0.12.8", "optax==0.2.8"],
    "tensorflow": ["tensorflow-cpu==2.21.0", "keras==3.15.1"],
    "paddle": ["paddlepaddle==3.3.1"],
    "mxnet": ["mxnet==1.9.1", "numpy<1.24"],  # it uses numpy.bool, which 1.24 has no more
}


class Missing(Exception):
    pass


def last_line(text: str) -> str:
    """Return, of what a program said, where pip or Python put what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "[notice]" not in line]
    return lines[-1].replace("|", "\\|") if lines else "no message"  # it stands in a table


def run(*words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Missing(last_line(done.stdout))
    return done.stdout


def python_of(framework: str, folder: Path) -> Path:
    """Return its interpreter. What is installed is written down, so that other versions asked for are installed anew."""
    home, wanted = folder / framework, "\n".join(PACKAGES[framework])
    python, installed = home / "bin" / "python", home / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        print(f"installing {framework} in {home}", flush=True)
        run(sys.executable, "-m", "venv", "--clear", home)
        run(python, "-m", "pip", "install", "--disable-pip-version-check", *PACKAGES[framework])
        installed.write_text(wanted)
    return python
