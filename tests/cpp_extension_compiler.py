"""Whether extensions can be compiled here, and the environment of programs that use them."""

import os
from pathlib import Path

import facula
from facula.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(facula.__file__).resolve().parents[1])}


def unavailable():
    """Why nothing can be compiled here, or None."""
    if not cpp_extension.get_compiler_abi_compatibility_and_version(cpp_extension.get_cxx_compiler())[0]:
        return "a C++ compiler is needed"
    try:
        cpp_extension.include_paths()
    except RuntimeError as error:
        return str(error)
    return None


REASON = unavailable()
