"""What the CUDA backend takes along: the sources of its kernels, how element-wise loops are written, and its register functions."""

from __future__ import annotations

import re
from pathlib import Path

from .emit_ops import HEADER, loops, topics
from .schema import Op


def emit(ops: list[Op], source: Path, out: Path, write) -> None:
    cuda = source / "cuda"
    write(out / "cuda" / "sources.cpp", _sources(source))
    write(out / "cuda" / "loops.cpp", _loops(ops))
    stems = [p.stem for p in sorted(cuda.glob("*.cpp"))
             if p.stem != "backend" and re.search(rf"^void register_{p.stem}\(\)", p.read_text(), re.M)]
    write(out / "cuda" / "kernels.cpp", _register(stems))
    device = (source / "emulator" / "device.h").read_text()
    write(out / "emulator" / "device_header.cpp",
          f'{HEADER}extern "C" {{\nextern const char facula_emulated_device_header[];\n'
          f"const char facula_emulated_device_header[] = {_raw(device)};\n}}\n")


def _raw(text: str) -> str:
    """A C++ literal: pieces, since compilers limit the length of one."""
    pieces = [text[i:i + 12000] for i in range(0, len(text), 12000)]
    return "\n".join(f'R"facula({piece})facula"' for piece in pieces)


def _sources(source: Path) -> str:
    folders = (source / "cuda" / "kernels", source / "kernels")
    files = sorted(p for folder in folders for p in folder.iterdir() if p.suffix in (".h", ".cuh"))
    lines = [HEADER, '#include "cuda/kernel.h"\n', "namespace facula::cuda {\n", "const DeviceSource device_sources[] = {"]
    lines += [f'    {{"{p.name}", {_raw(p.read_text())}}},' for p in files]
    lines += ["};", f"const int device_source_count = {len(files)};\n", "}  // namespace facula::cuda\n"]
    return "\n".join(lines)


def _loops(ops: list[Op]) -> str:
    """By loop id: ids of a topic follow each other, as in op_ids_<topic>.h."""
    rows: list[str] = []
    for topic, members in topics(ops).items():
        if not any(op.elementwise for op in members):
            continue
        found = loops(members)
        rows += [f'    {{"{topic}.h", "{_body(users[0])}"}},' for users in found.values()]
        room = -(-len(found) // 64) * 64 + 64
        rows += ["    {},"] * (room - len(found))
    lines = [HEADER, '#include "cuda/kernel.h"\n', "namespace facula::cuda {\n", "const DeviceLoop device_loops[] = {"]
    return "\n".join([*lines, *rows, "};\n", "}  // namespace facula::cuda\n"])


def _body(op: Op) -> str:
    names = ["a", "b", "c"][: len(op.inputs)] + [f"p[{i}]" for i in range(len(op.params))]
    call = f"kernels::{op.scalar}({', '.join(names)})"
    return (f"struct Loop {{ static constexpr int inputs = {len(op.inputs)}; template <class C, class R> "
            f"static FACULA_FN R run(C a, C b, C c, const C* p) {{ return {call}; }} }};")


def _register(stems: list[str]) -> str:
    lines = [HEADER, "namespace facula::cuda {\n"]
    lines += [f"void register_{stem}();" for stem in stems]
    lines.append("\nvoid register_all_kernels() {")
    lines += [f"  register_{stem}();" for stem in stems]
    lines.append("}\n\n}  // namespace facula::cuda\n")
    return "\n".join(lines)
