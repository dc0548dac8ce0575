"""Check what works straight after `pip install facula`, in an environment that has nothing but what Facula asks for."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cpp_extension_compiler import ENVIRONMENT, REASON

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / ".ci"))

from requirements import read  # noqa: E402

REQUIRED = [re.match(r"[\w-]+", wanted)[0] for wanted in read("dependencies")]
#: what Python runs when it starts: other packages of the environment are not to be found
HIDE = f"""
import importlib.abc, sys

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if not (top in sys.stdlib_module_names | {{"facula", "torch", *{REQUIRED}}} or top.startswith("_")):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
"""


def missing(name):
    """Return True if a package that Facula requires is not there: a checkout may be used without them, an installed package not."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return True
    return False


pytestmark = pytest.mark.skipif(any(map(missing, REQUIRED)), reason=f"{', '.join(REQUIRED)}: not all are installed beside the checkout")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Run programs where there are only Facula, what it requires, and a compiler with the commands that it calls."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(HIDE)
    (folder / "bin").mkdir()
    for command in ("c++", "g++", "as", "ld", "ldd", "uname", "sh"):
        if found := shutil.which(command):
            (folder / "bin" / command).symlink_to(found)
    kept = {k: v for k, v in os.environ.items() if k in ("HOME", "CXX", "LANG", "TMPDIR")}
    paths = os.pathsep.join([str(folder), ENVIRONMENT["PYTHONPATH"]])
    environment = {**kept, "PATH": str(folder / "bin"), "PYTHONPATH": paths, "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}

    def run(program, *options):
        """Return what the program prints."""
        path = folder / "program.py"
        path.write_text(textwrap.dedent(program))
        command = [sys.executable, *(options or ("-m", "facula")), str(path)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    return run


def test_what_facula_requires_is_all_that_is_there(bare):
    found = bare("""
        import importlib.util, shutil

        def is_there(name):
            try:
                return importlib.util.find_spec(name) is not None
            except ModuleNotFoundError:
                return False

        print(*filter(is_there, ["setuptools", "ninja", "pytest", "numpy", "pybind11"]), shutil.which("ninja"))
        """)
    assert found == "numpy pybind11 None\n"


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_a_program_compiles_its_extension(bare):
    printed = bare("""
        import torch
        from torch.utils.cpp_extension import load_inline

        source = "torch::Tensor twice(const torch::Tensor& x) { return x + x; }"
        module = load_inline("twice_of_the_box", source, functions=["twice"], extra_cflags=["-O0"])
        print(module.twice(torch.ones(2)))
        """)
    assert printed == "tensor([2., 2.])\n"


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_a_program_loads_operators_from_a_file(bare):
    printed = bare("""
        import torch
        from torch.utils.cpp_extension import load

        with open("doubled.cpp", "w") as file:
            file.write("#include <torch/library.h>\\n#include <ATen/ATen.h>\\n"
                       "at::Tensor doubled(const at::Tensor& x) { return x + x; }\\n"
                       'TORCH_LIBRARY(of_the_box, m) { m.def("doubled", &doubled); }\\n')
        load("doubled", ["doubled.cpp"], is_python_module=False, extra_cflags=["-O0"])
        print(torch.ops.of_the_box.doubled(torch.ones(2)))
        """)
    assert printed == "tensor([2., 2.])\n"


def test_setup_py_asks_for_setuptools(bare):
    printed = bare("""
        from torch.utils.cpp_extension import CppExtension
        CppExtension("example", ["example.cpp"])
        """)
    assert "ImportError: CppExtension: setuptools is needed (pip install setuptools)" in printed


def test_several_processes(bare):
    """By MPICH, which the package requires: no network interface, no setting and no command is needed."""
    program = """
        import sys, torch, torch.distributed as dist

        dist.init_process_group()
        x = torch.full((3,), float(dist.get_rank() + 1))
        dist.all_reduce(x)
        sys.stdout.write(f"{x.tolist()}\\n")
        dist.destroy_process_group()
        """
    printed = bare(program, "-m", "facula.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert printed == "[3.0, 3.0, 3.0]\n" * 2


def test_the_command_is_that_module():
    assert re.search(r'^facula-run-ranks = "facula.distributed.run:main"$', (ROOT / "pyproject.toml").read_text(), re.M)
