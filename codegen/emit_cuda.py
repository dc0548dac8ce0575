"""Emit what the CUDA backend embeds: the sources of its kernels, how element-wise loops are written, and its register
functions.
"""

from __future__ import annotations

import re
from pathlib import Path

from .emit_backend import register_calls, registering
from .emit_ops import HEADER, loop_room, loops, topics
from .op import Op


def emit(ops: list[Op], source: Path, out: Path, write) -> None:
    cuda = source / "cuda"
    write(out / "cuda" / "sources.cpp", _sources(source))
    write(out / "cuda" / "loops.cpp", _loops(ops))
    stems = [stem for stem in registering(cuda) if stem != "backend"]  # which calls this list
    write(out / "cuda" / "kernels.cpp", register_calls("cuda", "register_all_kernels", stems))
    device = (source / "emulator" / "device.h").read_text()
    write(out / "emulator" / "device_header.cpp",
          f'{HEADER}extern "C" {{\nextern const char facula_emulated_device_header[];\n'
          f"const char facula_emulated_device_header[] = {_raw(device)};\n}}\n")


def _raw(text: str) -> str:
    """Return a C++ literal: pieces, since compilers limit the length of one."""
    pieces = [text[i:i + 12000] for i in range(0, len(text), 12000)]
    return "\n".join(f'R"facula({piece})facula"' for piece in pieces)


def _sources(source: Path) -> str:
    folders = (source / "cuda" / "kernels", source / "kernels")
    files = sorted(p for folder in folders for p in folder.iterdir() if p.suffix in (".h", ".cuh"))
    lines = [HEADER, '#include "cuda/kernel.h"\n', "namespace facula::cuda {\n", "const DeviceSource device_sources[] = {"]
    lines += [f'    {{"{p.name}", {_raw(_for_device(p))}}},' for p in files]
    lines += ["};", f"const int device_source_count = {len(files)};\n", "}  // namespace facula::cuda\n"]
    return "\n".join(lines)


def _for_device(path: Path) -> str:
    """Turn elementary functions into templates: the compiler reads the bodies of those that a kernel calls, and most call
    none."""
    text = path.read_text()
    if not path.name.startswith("elementary_"):
        return text
    if re.search(r"^template", text, re.MULTILINE):
        raise ValueError(f"{path}: functions that are templates already, which would become templates of templates")
    return re.sub(r"^FACULA_FN ", "template <int = 0> FACULA_FN ", text, flags=re.MULTILINE)


def _loops(ops: list[Op]) -> str:
    """Return the loops by loop id: ids of a topic follow each other, as in op_ids_<topic>.h."""
    rows: list[str] = []
    for topic, members in topics(ops).items():
        found = loops(members)
        rows += [f'    {{"{topic}.h", "{_body(users[0])}"}},' for users in found.values()]
        rows += ["    {},"] * (loop_room(members) - len(found))
    lines = [HEADER, '#include "cuda/kernel.h"\n', "namespace facula::cuda {\n", "const DeviceLoop device_loops[] = {"]
    return "\n".join([*lines, *rows, "};\n", "}  // namespace facula::cuda\n"])


def _body(op: Op) -> str:
    names = ["a", "b", "c"][: len(op.inputs)] + [f"p[{i}]" for i in range(len(op.params))]
    call = f"kernels::{op.scalar}({', '.join(names)})"
    return (f"struct Loop {{ static constexpr int inputs = {len(op.inputs)}; template <class C, class R> "
            f"static FACULA_FN R run(C a, C b, C c, const C* p) {{ return {call}; }} }};")
