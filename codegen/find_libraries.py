"""Print where the bundled libraries are: OpenBLAS and, where requested, oneDNN and the folder of oneDNN's headers.

oneDNN's packages put their files beside site-packages (lib/, include/), where the package's own record finds them.
"""

from __future__ import annotations

import argparse
from importlib.metadata import distributions
from pathlib import Path


def recorded(package: str, ending: str, where: dict) -> Path:
    """Return the installed file of a package whose path ends so."""
    for distribution in distributions(name=package, **where):
        for file in distribution.files or ():
            if str(file).endswith(ending):
                return Path(distribution.locate_file(file)).resolve()
    raise SystemExit(f"{package}: no file ending in {ending}; what the build needs is listed in pyproject.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", help="folder of packages for another processor; else those of this interpreter")
    parser.add_argument("--onednn", action="store_true")
    options = parser.parse_args()
    where = {"path": [options.site]} if options.site else {}
    found = [recorded("scipy-openblas32", "lib/libscipy_openblas.so", where)]
    if options.onednn:
        found.append(recorded("onednn-cpu-gomp", "libdnnl.so.3.2", where))
        found.append(recorded("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.h", where).parents[2])
    print(*found, sep=";")


if __name__ == "__main__":
    main()
