"""Fails when a kernel of CUDA falls behind its row of benchmarks/cuda/static/table.json: machine code is read, no GPU is
needed.

    python .ci/static_kernels.py            # a minute on two cores
    python .ci/static_kernels.py --write    # after a change that is meant: the table becomes what is found

Instances are calls of ops (benchmarks/cuda/static/instances.py); the kernel that each launches is compiled for sm_80, sm_90
and sm_100. Worse is more than a tenth more instructions for an element, a tenth fewer bytes in flight or resident warps,
narrower loads, a spilled register, fewer instructions of tensor cores, one more launch. `python -m benchmarks.cuda.static`
prints what that means for a device. Needs the packages `static-kernels` of pyproject.toml; without them it says so and checks
nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from benchmarks.cuda.static.compiler import Missing, compiler_version, disassembler  # noqa: E402
from benchmarks.cuda.static.instances import INSTANCES  # noqa: E402
from benchmarks.cuda.static.table import CAPABILITIES, complaints, figures, read_table, write_table  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep what is found")
    parser.add_argument("--only", default="", help="only instances with this text in their names")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    try:
        version = compiler_version()
        disassembler()
    except Missing as missing:
        print(f"static kernels: not checked, {missing}")
        return 0
    start = time.time()
    found = figures(args.only, CAPABILITIES, args.jobs)
    if args.write:
        write_table(found)
    kept = read_table()
    said = complaints(found, kept)
    left = sorted(set(kept["kernels"]) - {i.name for i in INSTANCES})
    said += [f"{name}: in the table, and no instance" for name in left]
    for text in said:
        print(text)
    if kept["compiler"] != version:
        print(f"the table is of NVRTC {kept['compiler']}, this is {version}")
    print(f"{len(found)} kernels for sm_{', sm_'.join(map(str, CAPABILITIES))}: {len(said)} fell behind, "
          f"in {time.time() - start:.0f} s")  # fmt: skip
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
