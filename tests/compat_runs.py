"""Runs PyTorch programs as `python -m facula` does, for tests."""

import os
import subprocess
import sys
import textwrap

import facula


def run(program, *arguments, folder=None, option="file"):
    """Standard output of a program run under `python -m facula`."""
    program = textwrap.dedent(program)
    if option == "-c":
        command = ["-c", program]
    else:
        path = os.path.join(folder, "program.py")
        with open(path, "w") as file:
            file.write(program)
        command = [path]
    done = subprocess.run(
        [sys.executable, "-m", "facula", *command, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def environment():
    """The environment with Facula importable wherever the child's current directory is."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(facula.__file__)))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])}
