"""Prints where the bundled libraries of the build environment are: OpenBLAS; oneDNN; the folder of oneDNN's headers.

oneDNN's packages put their files beside site-packages (lib/, include/), where the package's own record finds them.
"""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

import scipy_openblas32


def recorded(package: str, ending: str) -> Path:
    """The installed file of a package whose path ends so."""
    for file in files(package) or ():
        if str(file).endswith(ending):
            return Path(file.locate()).resolve()
    raise FileNotFoundError(f"{package}: no file ending in {ending}")


def main() -> None:
    blas = Path(scipy_openblas32.get_lib_dir()) / f"lib{scipy_openblas32.get_library()}.so"
    onednn = recorded("onednn-cpu-gomp", "libdnnl.so.3.2")
    headers = recorded("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.h").parents[2]
    print(blas, onednn, headers, sep=";")


if __name__ == "__main__":
    main()
