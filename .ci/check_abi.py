#!/usr/bin/env python3
"""Compares the declarations of src/cuda/abi*.h with NVIDIA's headers.

Arguments: the include folders of pip's nvidia-cuda-runtime, nvidia-cuda-crt, nvidia-cublas, nvidia-cudnn, nvidia-cuda-cupti...
Values of enumerators, sizes of structs, places of fields in CUPTI's records, and the number, size and kind of every function's
parameters must agree. Headers that are in none of the folders are left out, and named. Nothing of NVIDIA's is needed to build
Facula: this is run by hand.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
# ours: theirs, the lists of functions, what else they need
HEADERS = {
    "abi.h": (["cuda.h", "nvrtc.h"], ["FACULA_DRIVER_FUNCTIONS", "FACULA_COMPILER_FUNCTIONS"]),
    "abi_types.h": (["library_types.h"], []),
    "abi_cublas.h": (["cublasLt.h"], ["FACULA_BLAS_FUNCTIONS"]),
    "abi_cudnn.h": (["cudnn.h"], ["FACULA_DNN_FUNCTIONS", "FACULA_DNN_RNN_FUNCTIONS"]),
    "abi_cufft.h": (["cufftXt.h"], ["FACULA_FFT_FUNCTIONS"]),
    "abi_cusolver.h": (["cusolverDn.h"], ["FACULA_SOLVER_FUNCTIONS", "FACULA_SOLVER_LATE_FUNCTIONS"]),
    "abi_cupti.h": (["cupti_activity.h", "cupti_driver_cbid.h", "cupti_version.h"], ["FACULA_PROFILER_FUNCTIONS"]),
    "abi_nccl.h": (["nccl.h"], ["FACULA_NCCL_FUNCTIONS", "FACULA_NCCL_TEXTS"]),
}
# Records that grow: ours is what all versions of theirs from this one on begin with.
RECORDS = {"KernelRecord": 6, "MemcpyRecord": 3, "MemcpyPtoPRecord": 2, "MemsetRecord": 2, "APIRecord": 1,
    "ExternalCorrelationRecord": 1}  # fmt: skip
# Ours is what theirs begins with.
BEGINNINGS = {"ncclConfigBegin": "ncclConfig_t"}
BEGIN = """
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <class T>
constexpr int kind = std::is_pointer_v<T> ? 1 : std::is_floating_point_v<T> ? 2 : 3;
template <class A, class B>
constexpr bool alike_value = sizeof(A) == sizeof(B) && kind<A> == kind<B>;
template <class A, class B>
struct alike : std::false_type {};
template <class R, class... A, class Q, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct alike<R(A...), Q(B...)> : std::bool_constant<(alike_value<A, B> && ...)> {};
"""


# functions that drivers still have but the headers of CUDA 13 hide
KEPT = """
#if CUDA_VERSION >= 13000
extern "C" CUresult cuStreamGetCaptureInfo_v2(
    CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*);
#endif
"""


def enumerators(text):
    text = re.sub(r"//.*", "", text)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        yield from re.findall(r"(\w+)\s*=", body)


def structs(text):
    found = [name for name in re.findall(r"^struct (\w+) \{", text, re.M) if not name.startswith("_")]
    return [name for name in found if name not in RECORDS and name not in BEGINNINGS]


def versions(record, oldest, folders):
    """Return the names of NVIDIA's structs: CUpti_ActivityKernel6, CUpti_ActivityKernel7, ..."""
    stem = "CUpti_Activity" + record.removesuffix("Record")
    folder = next(f for f in folders if (f / "cupti_activity.h").exists())
    text = "".join(path.read_text() for path in folder.glob("cupti_activity*.h"))
    numbers = {int(number or 1) for number in re.findall(rf"\}} {stem}(\d*);", text)}
    return [stem + str(n if n > 1 else "") for n in sorted(numbers) if n >= oldest]


def offsets(text, folders):
    for record, oldest in RECORDS.items():
        body = re.search(rf"^struct {record} \{{(.*?)^\}};", text, re.M | re.S)
        for theirs in versions(record, oldest, folders) if body else ():
            for field in re.findall(r"(\w+)[,;]", re.sub(r"//.*", "", body[1])):
                if not re.match(r"pad|reserved|cacheConfig", field):  # named otherwise, or in a union
                    yield f"static_assert(offsetof(ours::{record}, {field}) == offsetof(::{theirs}, {field}));"
                    yield f"static_assert(sizeof(ours::{record}::{field}) == sizeof(::{theirs}::{field}));"
    for record, theirs in BEGINNINGS.items():
        body = re.search(rf"^struct {record} \{{(.*?)^\}};", text, re.M | re.S)
        for field in re.findall(r"(\w+)[,;]", body[1]) if body else ():
            yield f"static_assert(offsetof(ours::{record}, {field}) == offsetof(::{theirs}, {field}));"


def plain(name):
    return re.sub(r"#pragma once|#include .*", "", (SOURCE / "cuda" / name).read_text())


def included(name):
    """Return our headers that one includes, in their order."""
    return re.findall(r'#include "cuda/(.*)"', (SOURCE / "cuda" / name).read_text())


def program(ours, theirs, lists, folders):
    """Return a program where ours come first and under other names: NVIDIA's headers define some as macros."""
    text = plain(ours)
    values = sorted(set(enumerators(text)))
    before = "".join(plain(name) for name in included(ours))
    lines = [BEGIN, "namespace ours {", before, text]
    for functions in lists:
        lines += ["#define X(name, ...) using fn_##name = int(__VA_ARGS__);", f"{functions}(X)", "#undef X"]
    lines += ["}", *(f"constexpr long long our_{name} = static_cast<long long>(ours::{name});" for name in values)]
    lines += [f"#include <{name}>" for name in theirs]
    if "cuda.h" in theirs:
        lines.append(KEPT)
    for functions in lists:
        check = "static_assert(alike<ours::fn_##name, decltype(::name)>::value, #name);"
        lines += [f"#define X(name, ...) {check}", f"{functions}(X)", "#undef X"]
    lines += [f"static_assert(our_{name} == static_cast<long long>({name}));" for name in values]
    lines += [f"static_assert(sizeof(ours::{name}) == sizeof(::{name}));" for name in structs(text)]
    lines += offsets(text, folders)
    return "\n".join(lines), len(values)


def main():
    folders = [Path(f) for f in sys.argv[1:]]
    failed = False
    for ours, (theirs, lists) in HEADERS.items():
        if not (SOURCE / "cuda" / ours).exists():
            continue
        if not all(any((f / name).exists() for f in folders) for name in theirs):
            print(f"{ours}: not compared, {' '.join(theirs)} is in none of the folders")
            continue
        text, count = program(ours, theirs, lists, folders)
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
            file.write(text)
            file.flush()
            command = ["g++", "-std=c++20", "-fsyntax-only", "-w", *(f"-I{f}" for f in folders), file.name]
            done = subprocess.run(command, capture_output=True, text=True)
        print(f"{ours}: {count} values and the functions agree" if done.returncode == 0 else done.stderr)
        failed |= done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
