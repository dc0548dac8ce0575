"""Compile kernels of ops with NVIDIA's compiler and disassembler, both from PyPI: no GPU, no driver and no toolkit.

Which kernel an op launches is asked of the library itself, on a driver that does nothing (`FACULA_CUDA=null`).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .instances import PROLOGUE, Instance
from .sass import Code, analyze

ROOT = Path(__file__).resolve().parents[3]
OWN_KERNELS = "cublas,cudnn,cufft,cusolver"  # what is disabled, so that these are launched
TOGETHER = 8  # kernels of a program: what is common to all is read once


class Missing(Exception):
    """Report that a tool of NVIDIA's is not installed."""


def packages(pattern: str) -> Path:
    """Find a file of NVIDIA's packages beside this Python's."""
    for folder in sys.path:
        for path in sorted(Path(folder or ".").glob(f"nvidia/{pattern}")):
            return path
    raise Missing(f"no nvidia/{pattern} beside this Python's packages")


@cache
def disassembler() -> str:
    return str(packages("cu*/bin/nvdisasm"))


def compiler_folder() -> str:
    return str(packages("cu*/lib/libnvrtc.so.1[0-9]").parent)


@dataclass
class Launched:
    """Describe a kernel that an instance launches."""

    source: str
    expression: str
    threads: int
    kernels: int  # that the call launches altogether


def run(text: str, **variables: str) -> str:
    """Run a program of Python, with the package as it is installed or else of a checkout, in a process of other libraries."""
    others = [folder for folder in sys.path if folder not in ("", str(ROOT))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*others, str(ROOT)]), **variables}
    elsewhere = tempfile.gettempdir()
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, cwd=elsewhere)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


# each call in a process of its own: a kernel is logged when a process first launches it
LIST = """
import json, os, sys
{prologue}
for name, call in {calls!r}:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.environ["FACULA_CUDA_LOG_KERNELS"] = log = os.path.join({folder!r}, str(os.getpid()))
        exec(call)
        lines = open(log).read().splitlines() if os.path.exists(log) else []
        print(json.dumps([name, [json.loads(line) for line in lines]]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{{name}}: {{call}} fails")
"""


def launched(instances: list[Instance], capability: int) -> dict[str, Launched]:
    """Find the kernel of each instance that a device of the capability gets."""
    with tempfile.TemporaryDirectory() as folder:
        text = LIST.format(prologue=PROLOGUE, calls=[(i.name, i.call) for i in instances], folder=folder)
        out = run(text, FACULA_CUDA="null", FACULA_CUDA_DISABLE=OWN_KERNELS, FACULA_CACHE_DIR=folder,
                  FACULA_EMULATED_CAPABILITY=f"{capability // 10}.{capability % 10}")  # fmt: skip
    found: dict[str, Launched] = {}
    by_name = {i.name: i for i in instances}
    for name, kernels in map(json.loads, out.splitlines()):
        of_instance = next((k for k in kernels if by_name[name].kernel in k[1]), None)
        if of_instance is None:
            names = [expression for _, expression, *_ in kernels]
            raise RuntimeError(f"{name}: a kernel with '{by_name[name].kernel}' in its name, got {names}")
        source, expression, _, threads = of_instance
        found[name] = Launched(source, expression, threads, len(kernels))
    return found


COMPILE = """
import json
from facula import _C
kernels, capability, image = json.loads({given!r})
names, cubin, log = _C._cuda_compile_together([tuple(k) for k in kernels], capability, "-Xptxas=-v")
open(image, "wb").write(cubin)
print(json.dumps([names, log]))
"""


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^//-+ \.text\.(\S+) -+$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def compiled(kernels: list[tuple[Instance, Launched]], capability: int) -> dict[str, Code]:
    """Compile kernels as one program, and read their machine code."""
    with tempfile.TemporaryDirectory() as folder:
        image = str(Path(folder) / "kernels.cubin")
        given = json.dumps([[[k.source, k.expression] for _, k in kernels], capability, image])
        text = COMPILE.format(given=given)
        names, log = json.loads(run(text, FACULA_CUDA="", FACULA_CUDA_LIBRARIES=compiler_folder()))
        command = [disassembler(), "-hex", "-c", image]
        code = sections(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    logs = {said[: said.index("'")]: said for said in log.split("Compiling entry function '")[1:]}
    return {i.name: analyze(code[name], logs[name], i.hints) for (i, _), name in zip(kernels, names)}


def pieces(instances: list[Instance], capability: int) -> list[list[tuple[Instance, Launched]]]:
    """Divide instances into programs."""
    kernels = launched(instances, capability)
    pairs = [(i, kernels[i.name]) for i in instances]
    return [pairs[at : at + TOGETHER] for at in range(0, len(pairs), TOGETHER)]


def compiler_version() -> str:
    library = ctypes.CDLL(str(packages("cu*/lib/libnvrtc.so.1[0-9]")))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"
