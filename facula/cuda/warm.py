"""Compile kernels ahead of their first use, into the disk cache: for images of containers, and before a job starts.

    python -m facula.cuda.warm --arch 90

No device is needed, only NVIDIA's run-time compiler (``pip install facula[cuda-compiler]``). The kernels are those
of training small networks, transformers and images (facula/cuda/common_kernels.jsonl), or with --list those that a
program of yours has used: run it once with FACULA_CUDA_LOG_KERNELS=FILE.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

TOGETHER = 24  # kernels of a program
COMMON = Path(__file__).with_name("common_kernels.jsonl")


def read_list(path: str | PathLike[str]) -> list[Any]:
    """Return the kernels of a log, each once: a list of (source, expression).

    Args:
        path: the file, a JSON list in each line.

    Errors: ValueError for a line that is none.

    >>> from facula.cuda import warm
    >>> source, expression = warm.read_list(warm.COMMON)[0]
    """
    kernels = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        try:
            source, expression = json.loads(line)[:2]
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"cuda.warm: {path}, line {number}: a kernel [source, name, sizes] is expected, got {line[:60]!r}"
            ) from error
        kernels[source, expression] = None
    return list(kernels)


def warm(kernels: Any, arch: Any, progress: Any = None, jobs: int = 1) -> int:
    """Put kernels into the disk cache, and return how many had to be compiled.

    Kernels are compiled several in one program, which takes a fraction of the time.

    Args:
        kernels: what read_list() gives.
        arch: the architecture, 90 for compute capability 9.0.
        progress: called with (done, all, compiled) after each program; None: nothing is.
        jobs: how many programs are compiled at once.

    >>> from facula.cuda import warm
    >>> warm.warm([], 90)
    0
    """
    done = compiled = 0
    pieces = [[tuple(kernel) for kernel in kernels[at : at + TOGETHER]] for at in range(0, len(kernels), TOGETHER)]
    with ThreadPoolExecutor(jobs) as pool:
        for piece, fresh in zip(pieces, pool.map(lambda piece: _C._cuda_keep_together(piece, arch, ""), pieces)):
            done += len(piece)
            compiled += fresh
            if progress:
                progress(done, len(kernels), compiled)
    return compiled


def _bar(done, total, compiled):
    width = 40
    filled = width * done // total
    bar = "#" * filled + "." * (width - filled)
    print(f"\r[{bar}] {done}/{total}, {compiled} compiled", end="\n" if done == total else "", file=sys.stderr, flush=True)


def main(arguments: Any = None) -> None:
    """Compile the common kernels, or those of a list, and print how many: what `python -m facula.cuda.warm` does.

    Args:
        arguments: --arch and others, a list; None: those of the command line.

    >>> import os, tempfile
    >>> from facula.cuda import warm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "kernels.jsonl")
    ...     open(path, "w").close()
    ...     warm.main(["--arch", "90", "--list", path])
    0 kernels for sm_90, 0 of them compiled in 0.0 s
    """
    parser = argparse.ArgumentParser(prog="python -m facula.cuda.warm", description=__doc__.splitlines()[0])
    parser.add_argument("--arch", type=int, required=True, help="compute capability without its dot: 90 for an H100")
    parser.add_argument("--list", default=COMMON, help="a log of FACULA_CUDA_LOG_KERNELS")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args(arguments)
    start = time.time()
    kernels = read_list(args.list)
    compiled = warm(kernels, args.arch, None if args.quiet else _bar, args.jobs)
    print(f"{len(kernels)} kernels for sm_{args.arch}, {compiled} of them compiled in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
