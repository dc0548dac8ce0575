"""Compiles kernels by the real run-time compiler, for GPUs that need not be there, and checks what comes out.

    python .ci/compile_kernels.py                        # what the samples of all ops launch, in a few dtypes
    python .ci/compile_kernels.py --list kernels.jsonl   # the log (FACULA_CUDA_LOG_KERNELS) of any programs

What does not compile is an error, and so is a kernel whose parameters are not as many bytes as the host gives it, or that is
made for fewer threads than the host launches. --heaviest N prints the N kernels with the most registers and all that spill.
Needs nvidia-cuda-nvrtc (extra `cuda-compiler`), which FACULA_CUDA_LIBRARIES may name the folder of.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # a checkout that is built in place

#: how the first architecture is compiled, with what is printed of registers, and how the others are, in half the time
FULL, QUICK = "-Xptxas=-v", "-Ofc=mid"
TOGETHER = 24  # kernels of one program: what is common to all is read once
#: for the first architecture element-wise kernels are compiled for these types of elements, others for all; for the other
#: architectures less. Every loop and every kernel is there in one type at least.
ELEMENTS = {"Float32", "BFloat16", "Int64", "Bool", "Complex64", "UInt32"}
FEW_ELEMENTS = {"Float32", "Bool", "UInt32"}
FEW = ELEMENTS | {"UInt8", "UInt64"}
OWN_KERNELS_ONLY = {"FACULA_CUDA_DISABLE": "cublas,cudnn,cufft,cusolver"}
# what is launched around calls of these
WITH_LIBRARIES = {"FACULA_CUDA_DISABLE": "cublas,cudnn", "TORCH_LINALG_PREFER_CUSOLVER": "1"}


@dataclass
class Kernel:
    source: str
    expression: str
    sizes: list[int]
    threads: int


@dataclass
class Result:
    kernel: Kernel
    arch: int
    error: str = ""
    registers: int = 0
    stack: int = 0
    spilled: int = 0
    shared: int = 0
    bytes: int = 0


def sections(cubin: bytes) -> dict[str, bytes]:
    """Return the sections of a 64-bit ELF file, by name."""
    start, entry, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + i * entry) for i in range(count)]
    text = cubin[headers[names][4] :]
    return {text[h[0] : text.index(b"\0", h[0])].decode(): cubin[h[4] : h[4] + h[5]] for h in headers}


@dataclass
class Facts:
    """What a kernel's .nv.info says: the bytes of each parameter (records 0x17), the most threads of a block (0x05)."""

    sizes: list[int] = field(default_factory=list)
    threads: int = 0


def facts(info: bytes) -> Facts:
    at, sizes, threads = 0, {}, 0
    while at < len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # the value was the length
            continue
        if attribute == 0x17:  # index, ordinal, offset, flags and size
            _, ordinal, _, packed = struct.unpack_from("<IHHI", info, at)
            sizes[ordinal] = packed >> 18
        if attribute == 0x05:
            x, y, z = struct.unpack_from("<III", info, at)
            threads = x * y * z
        at += length
    return Facts([sizes[i] for i in sorted(sizes)], threads)


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def complaint(kernel: Kernel, found: Facts) -> str:
    if found.sizes != kernel.sizes:
        return f"the kernel takes parameters of {found.sizes} bytes, the host gives {kernel.sizes}"
    if kernel.threads > found.threads:
        return f"the kernel is made for {found.threads} threads (no __launch_bounds__: 0), the host launches {kernel.threads}"
    return ""


def compile_piece(job: tuple[list[Kernel], int, str]) -> list[Result]:
    from facula import _C

    kernels, arch, how = job
    try:
        names, cubin, log = _C._cuda_compile_together([(k.source, k.expression) for k in kernels], arch, how)
    except RuntimeError as error:
        if len(kernels) == 1:
            return [Result(kernels[0], arch, str(error))]
        return [result for kernel in kernels for result in compile_piece(([kernel], arch, how))]
    parts, logs = sections(cubin), {}
    for text in log.split("Compiling entry function '")[1:]:
        logs[text[: text.index("'")]] = text
    results = []
    for kernel, name in zip(kernels, names):
        said, code = logs.get(name, ""), len(parts.get(f".text.{name}", b""))
        result = Result(kernel, arch, complaint(kernel, facts(parts[f".nv.info.{name}"])), bytes=code)
        result.registers, result.shared = number(r"Used (\d+) registers", said), number(r"(\d+) bytes smem", said)
        result.stack, result.spilled = number(r"(\d+) bytes stack", said), number(r"(\d+) bytes spill stores", said)
        results.append(result)
    return results


def first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line and "does not compile" not in line]
    return (lines or text.splitlines()[:1] or ["no text"])[0].strip()


def read_list(path: str) -> list[Kernel]:
    lines = sorted(set(Path(path).read_text().splitlines()))
    kernels = {}
    for source, expression, sizes, threads in map(json.loads, lines):
        before = kernels.get((source, expression))
        if before and before.sizes != sizes:  # two places of the host give it other arguments
            kernels[source, expression, str(sizes)] = Kernel(source, expression, sizes, threads)
        else:
            kernels[source, expression] = Kernel(source, expression, sizes, max(threads, before.threads if before else 0))
    return list(kernels.values())


def of_samples() -> list[Kernel]:
    """Return what the samples of all ops launch in all dtypes, listed by a driver that does nothing."""
    sys.path.append(str(ROOT / "tests"))
    from cuda_kernels import listed
    from op_samples import all_ops

    ops = [op for op in all_ops() if op.samples is not None or op.elementwise]
    ids, of_libraries = [op.id for op in ops], [op.id for op in ops if op.topic in ("fft", "linalg")]
    workers = [ROOT / "tests" / "device_worker.py", ROOT / "tests" / "cuda_dtypes_worker.py"]
    runs = [(worker, ids, OWN_KERNELS_ONLY) for worker in workers]
    runs += [(worker, of_libraries, WITH_LIBRARIES) for worker in workers]
    runs += [(ROOT / "tests" / "cuda_pointwise_worker.py", ("vectors", "dtypes", "strides", "places", "transposes"), {})]

    def launched(run):
        worker, names, environment = run
        return listed([sys.executable, str(worker), *names], FACULA_TEST_DEVICE="cuda", **environment)

    with ThreadPoolExecutor(2) as pool:
        lists = list(pool.map(launched, runs))
    return [Kernel(source, name, list(sizes), threads) for source, name, sizes, threads in sorted(set().union(*lists))]


def types_of(kernel: Kernel) -> set[str]:
    return set(re.findall(r"facula::cuda::((?:U?Int|B?Float|Complex)\d\w*|Bool)\b", kernel.expression))


def selected(kernels: list[Kernel], is_first: bool) -> list[Kernel]:
    """Return a selection by types of elements, with one kernel of every loop and template of which no type is selected."""
    chosen, left = {}, {}
    for kernel in kernels:
        is_loop = "pointwise_" in kernel.expression
        types = (ELEMENTS if is_first else FEW_ELEMENTS) if is_loop else FEW
        template = (kernel.source, kernel.expression.split("<")[0])
        if (is_first and not is_loop) or types_of(kernel) <= types:
            chosen.setdefault(template, []).append(kernel)
        else:
            left[template] = [kernel]
    return [kernel for those in {**left, **chosen}.values() for kernel in those]


def what(kernel: Kernel) -> str:
    body = re.search(r"return (.*?); \}", kernel.source)
    return kernel.expression.replace("facula::cuda::", "") + (f" of {body.group(1)}" if body else "")


def show_heaviest(results: list[Result], count: int) -> None:
    heavy = sorted(results, key=lambda r: (-r.spilled, -r.registers))
    print(f"{'arch':>4} {'registers':>9} {'stack':>6} {'spilled':>7} {'shared':>6} {'bytes':>6}  kernel")
    for r in [r for r in heavy if r.spilled] + [r for r in heavy if not r.spilled][:count]:
        print(f"{r.arch:4} {r.registers:9} {r.stack:6} {r.spilled:7} {r.shared:6} {r.bytes:6}  {what(r.kernel)}")


def accepts(option: str) -> bool:
    """Return whether the compiler knows it (CUDA 12.8 and later)."""
    from facula import _C

    try:
        _C._cuda_compile_together([("#include \"types.cuh\"\n__global__ void nothing() {}\n", "nothing")], 90, option)
    except RuntimeError:
        return False
    return True


def compile_all(kernels: dict[int, list[Kernel]], quickly: set[int], jobs: int) -> list[Result]:
    quick = QUICK if accepts(QUICK) else FULL
    pieces = [(those[at : at + TOGETHER], arch, quick if arch in quickly else FULL)
              for arch, those in kernels.items() for at in range(0, len(those), TOGETHER)]  # fmt: skip
    results: list[Result] = []
    with ProcessPoolExecutor(jobs) as pool:
        for done, more in enumerate(pool.map(compile_piece, pieces), 1):
            results += more
            failed = sum(bool(r.error) for r in results)
            print(f"\r{done} of {len(pieces)} programs, {failed} kernels failed", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", help="a log of FACULA_CUDA_LOG_KERNELS; without it, what the samples of all ops launch")
    parser.add_argument("--arch", default="90,75,80,100")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--all", action="store_true", help="kernels for all types of elements, for all architectures")
    parser.add_argument("--optimize", action="store_true", help="fully, for all architectures: else only for the first")
    parser.add_argument("--every", type=int, default=1, help="only one kernel of so many")
    parser.add_argument("--only", default="", help="only kernels whose source or name has this text")
    parser.add_argument("--heaviest", type=int, default=0)
    args = parser.parse_args()
    start = time.time()
    kernels = read_list(args.list) if args.list else of_samples()
    kernels = [k for k in kernels if args.only in k.source + k.expression][:: args.every]
    archs = [int(arch) for arch in args.arch.split(",")]
    by_arch = {arch: kernels if args.all else selected(kernels, arch == archs[0]) for arch in archs}
    print(f"{len(kernels)} kernels, listed in {time.time() - start:.0f} s", file=sys.stderr)
    results = compile_all(by_arch, set() if args.optimize else set(archs[1:]), args.jobs)
    failed: dict[str, list[Result]] = {}
    for r in results:
        if r.error:
            failed.setdefault(first_error(r.error), []).append(r)
    for error, those in sorted(failed.items(), key=lambda item: -len(item[1])):
        print(f"{len(those)} x {error}")
        for r in those[:5]:
            print(f"    sm_{r.arch} {what(r.kernel)}")
    if args.heaviest:
        show_heaviest([r for r in results if not r.error], args.heaviest)
    good = sum(not r.error for r in results)
    print(f"{len(kernels)} kernels for sm_{args.arch}: {good} of {len(results)} compile and fit what the host launches, "
          f"in {time.time() - start:.0f} s")  # fmt: skip
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
