"""The CPU backend's list of register functions, read off the files in src/cpu: nobody keeps it by hand."""

from __future__ import annotations

import re
from pathlib import Path

from .emit_ops import HEADER


def emit(source: Path, out: Path, write) -> None:
    cpu = source / "cpu"
    per_isa = [p.stem for p in sorted((cpu / "isa").glob("*.cpp")) if f"void register_{p.stem}()" in p.read_text()]
    per_isa.insert(0, "loops")  # files may put better loops in place of the generated ones
    once = [p.stem for p in sorted(cpu.glob("*.cpp")) if re.search(rf"^void register_{p.stem}\(\)", p.read_text(), re.M)]
    write(out / "isa" / "register.cpp", _level(per_isa))
    write(out / "cpu_backend.cpp", _backend(once))


def _level(stems: list[str]) -> str:
    lines = [HEADER, '#include "cpu/isa.h"\n', "namespace facula::cpu::FACULA_ISA {\n"]
    lines += [f"void register_{stem}();" for stem in stems]
    lines.append("\nvoid register_level() {")
    lines += [f"  register_{stem}();" for stem in stems]
    lines.append("}\n\n}  // namespace facula::cpu::FACULA_ISA\n")
    return "\n".join(lines)


def _backend(stems: list[str]) -> str:
    lines = [HEADER, '#include "cpu/backend.h"\n#include "cpu/levels.h"\n', "namespace facula::cpu {\n"]
    lines += [f"void register_{stem}();" for stem in stems]
    lines.append("\nvoid register_backend() {\n  register_best_level();")
    lines += [f"  register_{stem}();" for stem in stems]
    lines.append("}\n\n}  // namespace facula::cpu\n")
    return "\n".join(lines)
