#!/usr/bin/env python3
"""Compares the declarations of src/cuda/abi*.h with NVIDIA's headers.

Arguments: the include folders of pip's nvidia-cuda-runtime, nvidia-cuda-crt, nvidia-cublas, nvidia-cudnn... Values of
enumerators, sizes of structs, and the number, size and kind of every function's parameters must agree. Headers that are in
none of the folders are left out, and named. Nothing of NVIDIA's is needed to build Facula: this is run by hand.
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
    "abi_cudnn.h": (["cudnn_graph.h"], ["FACULA_DNN_FUNCTIONS"]),
    "abi_cufft.h": (["cufftXt.h"], ["FACULA_FFT_FUNCTIONS"]),
}
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


def enumerators(text):
    text = re.sub(r"//.*", "", text)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        yield from re.findall(r"(\w+)\s*=", body)


def structs(text):
    return [name for name in re.findall(r"^struct (\w+) \{", text, re.M) if not name.startswith("_")]


def plain(name):
    return re.sub(r"#pragma once|#include .*", "", (SOURCE / "cuda" / name).read_text())


def included(name):
    """Our headers that one includes, in their order."""
    return re.findall(r'#include "cuda/(.*)"', (SOURCE / "cuda" / name).read_text())


def program(ours, theirs, lists):
    """Ours come first and under other names: NVIDIA's headers define some as macros."""
    text = plain(ours)
    values = sorted(set(enumerators(text)))
    before = "".join(plain(name) for name in included(ours))
    lines = [BEGIN, "namespace ours {", before, text]
    for functions in lists:
        lines += ["#define X(name, ...) using fn_##name = int(__VA_ARGS__);", f"{functions}(X)", "#undef X"]
    lines += ["}", *(f"constexpr long long our_{name} = static_cast<long long>(ours::{name});" for name in values)]
    lines += [f"#include <{name}>" for name in theirs]
    for functions in lists:
        check = "static_assert(alike<ours::fn_##name, decltype(::name)>::value, #name);"
        lines += [f"#define X(name, ...) {check}", f"{functions}(X)", "#undef X"]
    lines += [f"static_assert(our_{name} == static_cast<long long>({name}));" for name in values]
    lines += [f"static_assert(sizeof(ours::{name}) == sizeof(::{name}));" for name in structs(text)]
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
        text, count = program(ours, theirs, lists)
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
