"""Where tests of CUDA run: in processes with a device, the emulated one unless the machine has a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import facula

HERE = Path(__file__).resolve().parent
#: not optimized: compiled in half the time, and most kernels run for less than that
FLAGS = {"FACULA_EMULATED_FLAGS": os.environ.get("FACULA_EMULATED_FLAGS", "-O0")}


def cache_folder():
    """Compiled kernels, of one run of the tests and of all its processes (conftest.py); FACULA_TEST_CACHE keeps them between runs."""
    return os.environ["FACULA_TEST_CACHE"]


def environment(**more):
    """The environment of a process that has a device."""
    device = {} if facula.cuda.is_available() else {"FACULA_CUDA": "emulated", "FACULA_CACHE_DIR": cache_folder(), **FLAGS}
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), **device, **more}


def run_emulated(program, **variables):
    """Runs a program on the emulated device; it succeeds."""
    env = environment(FACULA_CUDA="emulated", **variables)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done
