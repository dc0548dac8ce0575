"""Which C++ compiler there is, and whether it can compile extensions."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any


def get_cxx_compiler() -> str:
    """The command of the C++ compiler: the environment's CXX, else c++.

    >>> import os
    >>> torch.utils.cpp_extension.get_cxx_compiler() == (os.environ.get("CXX") or "c++")
    True
    """
    return os.environ.get("CXX") or "c++"


def _version_text(compiler):
    """What the compiler says of itself, or None where it cannot be run."""
    try:
        command = [*shlex.split(compiler), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def check_compiler_ok_for_platform(compiler: Any) -> bool:
    """Whether the command `compiler` can be run and is GCC or Clang.

    >>> torch.utils.cpp_extension.check_compiler_ok_for_platform("there-is-none")
    False
    """
    text = _version_text(compiler)
    return text is not None and re.search(r"clang|gcc|g\+\+|Free Software Foundation", text) is not None


def check_compiler_is_gcc(compiler: Any) -> bool:
    """Whether the command `compiler` can be run and is GCC.

    >>> torch.utils.cpp_extension.check_compiler_is_gcc("there-is-none")
    False
    """
    text = _version_text(compiler)
    return text is not None and "Free Software Foundation" in text and "clang" not in text


def get_compiler_abi_compatibility_and_version(compiler: Any) -> Any:
    """Whether the compiler can compile extensions (GCC 11 or Clang 14 on; C++20 is needed), and its version.

    >>> torch.utils.cpp_extension.get_compiler_abi_compatibility_and_version("there-is-none")
    (False, '0.0.0')
    """
    text = _version_text(compiler)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text or "")
    version = facula.torch_version.TorchVersion(found[0] if found else "0.0.0")
    least = 11 if check_compiler_is_gcc(compiler) else 14
    return bool(found) and check_compiler_ok_for_platform(compiler) and int(found[1]) >= least, version


def is_ninja_available() -> bool:
    """Whether the command ninja can be run. It is not needed here.

    >>> import shutil
    >>> torch.utils.cpp_extension.is_ninja_available() == (shutil.which("ninja") is not None)
    True
    """
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError unless the command ninja can be run.

    >>> if torch.utils.cpp_extension.is_ninja_available():
    ...     torch.utils.cpp_extension.verify_ninja_availability()
    """
    if not is_ninja_available():
        raise RuntimeError("verify_ninja_availability: ninja is needed (pip install ninja), got none on the PATH")
