"""What tests of programs in C++ share: the package as installing it gives, and a project that finds it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import facula

MODULE = Path(facula._C.__file__).resolve()
needs_tools = pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("c++")), reason="cmake and a C++ compiler are needed")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(tmp_path_factory):
    """The installed package; of a build in a checkout, what installing it gives."""
    if not (MODULE.parent / "cmake_install.cmake").exists():
        return MODULE.parent
    place = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", MODULE.parent, "--prefix", place)
    return place / "facula"


def project(folder, package, text, sources, prefix):
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.18)\n" + text)
    for name, source in sources.items():
        (folder / name).write_text(source)
    environment = {k: v for k, v in os.environ.items() if k not in ("CXXFLAGS", "LDFLAGS", "CPATH")}
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={package / prefix}", env=environment)
    run("cmake", "--build", folder / "build", env=environment)
    return folder / "build"
