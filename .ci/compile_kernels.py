"""Compiles kernels by the real run-time compiler, for GPUs that need not be there, and checks what comes out.

    FACULA_CUDA=emulated FACULA_CUDA_LOG_KERNELS=kernels.jsonl python -m pytest tests/test_cuda_ops.py
    python .ci/compile_kernels.py --list kernels.jsonl --arch 75,80,90,100 --jobs 2

The list is the log of any programs. What does not compile is an error, and so is a kernel whose parameters are not as many
bytes as the host gives it. --heaviest N prints the N kernels with the most registers and all that spill.
Needs nvidia-cuda-nvrtc (extra `cuda`), which FACULA_CUDA_LIBRARIES may name the folder of.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a checkout that is built in place


@dataclass
class Result:
    source: str
    expression: str
    arch: int
    error: str = ""
    registers: int = 0
    stack: int = 0
    spilled: int = 0
    shared: int = 0
    bytes: int = 0
    parameters: list[int] = field(default_factory=list)


def sections(cubin: bytes) -> dict[str, bytes]:
    """The sections of a 64-bit ELF file, by name."""
    start, entry, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + i * entry) for i in range(count)]
    text = cubin[headers[names][4] :]
    return {text[h[0] : text.index(b"\0", h[0])].decode(): cubin[h[4] : h[4] + h[5]] for h in headers}


def parameter_bytes(cubin: bytes, kernel: str) -> list[int]:
    """Sizes of a kernel's parameters: the records 0x17 of its .nv.info, (index, ordinal, offset, flags and size)."""
    info, at, sizes = sections(cubin)[f".nv.info.{kernel}"], 0, {}
    while at < len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # the value was the length
            continue
        if attribute == 0x17:
            _, ordinal, _, packed = struct.unpack_from("<IHHI", info, at)
            sizes[ordinal] = packed >> 18
        at += length
    return [sizes[i] for i in sorted(sizes)]


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def compile_one(job) -> Result:
    from facula import _C

    (source, expression, given), arch = job
    result = Result(source, expression, arch)
    try:
        name, cubin, log = _C._cuda_compile(source, expression, arch, "-Xptxas=-v")
    except RuntimeError as error:
        result.error = str(error)
        return result
    result.registers, result.shared = number(r"Used (\d+) registers", log), number(r"(\d+) bytes smem", log)
    result.stack, result.spilled = number(r"(\d+) bytes stack", log), number(r"(\d+) bytes spill stores", log)
    result.bytes = len(cubin)
    result.parameters = parameter_bytes(cubin, name)
    if result.parameters != given:
        result.error = f"the kernel takes parameters of {result.parameters} bytes, the host gives {given}"
    return result


def first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line and "does not compile" not in line]
    return (lines or text.splitlines()[:1] or ["no text"])[0].strip()


def read_list(path: str) -> list[tuple[str, str, list[int]]]:
    kernels = {tuple(json.dumps(part) for part in json.loads(line)) for line in Path(path).read_text().splitlines()}
    return sorted(tuple(json.loads(part) for part in kernel) for kernel in kernels)


def what(r: Result) -> str:
    body = re.search(r"return (.*?); \}", r.source)
    return r.expression.replace("facula::cuda::", "") + (f" of {body.group(1)}" if body else "")


def show_heaviest(results: list[Result], count: int) -> None:
    heavy = sorted(results, key=lambda r: (-r.spilled, -r.registers))
    print(f"{'arch':>4} {'registers':>9} {'stack':>6} {'spilled':>7} {'shared':>6} {'KB':>5}  kernel")
    for r in [r for r in heavy if r.spilled] + [r for r in heavy if not r.spilled][:count]:
        print(f"{r.arch:4} {r.registers:9} {r.stack:6} {r.spilled:7} {r.shared:6} {r.bytes >> 10:5}  {what(r)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", required=True)
    parser.add_argument("--arch", default="75,80,90,100")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only one kernel of so many")
    parser.add_argument("--only", default="", help="only kernels whose source or name has this text")
    parser.add_argument("--heaviest", type=int, default=0)
    args = parser.parse_args()
    kernels = [k for k in read_list(args.list) if args.only in k[0] + k[1]][:: args.every]
    jobs = [(kernel, int(arch)) for arch in args.arch.split(",") for kernel in kernels]
    failed: dict[str, list[Result]] = {}
    results = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for done, r in enumerate(pool.map(compile_one, jobs, chunksize=8), 1):
            results.append(r)
            if r.error:
                failed.setdefault(first_error(r.error), []).append(r)
            print(f"\r{done} of {len(jobs)}, {sum(map(len, failed.values()))} failed", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for error, those in sorted(failed.items(), key=lambda item: -len(item[1])):
        print(f"{len(those)} x {error}")
        for r in those[:5]:
            print(f"    sm_{r.arch} {what(r)}")
    if args.heaviest:
        show_heaviest([r for r in results if not r.error], args.heaviest)
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
