"""Emit the CPU backend's list of register functions, from the files in src/cpu, so that nobody maintains it by hand."""

from __future__ import annotations

import re
from pathlib import Path

from .emit_ops import HEADER


def emit(source: Path, out: Path, write) -> None:
    cpu = source / "cpu"
    per_isa = ["loops", *registering(cpu / "isa")]  # files may put better loops in place of the generated ones
    write(out / "isa" / "register.cpp", register_calls("cpu::FACULA_ISA", "register_level", per_isa, '#include "cpu/isa.h"\n'))
    write(out / "cpu_backend.cpp", register_calls("cpu", "register_backend", ["best_level", *registering(cpu)]))


def registering(folder: Path) -> list[str]:
    """Return the stems of the files that have a register function, `void register_<stem>()`."""
    return [p.stem for p in sorted(folder.glob("*.cpp")) if re.search(rf"^void register_{p.stem}\(\)", p.read_text(), re.M)]


def register_calls(namespace: str, function: str, stems: list[str], *includes: str) -> str:
    """Return a file with one function that calls the register functions of the stems."""
    declared = [f"void register_{stem}();" for stem in stems]
    calls = [f"  register_{stem}();" for stem in stems]
    return "\n".join([HEADER, *includes, f"namespace facula::{namespace} {{\n", *declared, f"\nvoid {function}() {{", *calls,
                      f"}}\n\n}}  // namespace facula::{namespace}\n"])
