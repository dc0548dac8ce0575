"""Compare the figures of kernels with those in the gate's file (table.json), and list what has become worse."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .compiler import Launched, compiled, compiler_version, pieces
from .instances import INSTANCES, Instance
from .predict import GPUS, Bound, bound, instructions, resident_warps
from .sass import Code

TABLE = Path(__file__).resolve().parent / "table.json"
CAPABILITIES = (80, 90, 100)
TOLERANCE = 0.1  # of instructions, registers' warps and bytes in flight
TENSOR = ("HMMA", "HGMMA", "LDGSTS", "LDSM")


@dataclass
class Figure:
    """Describe an instance, compiled for one kind of device."""

    instance: Instance
    kernel: Launched
    code: Code
    capability: int

    @property
    def row(self) -> dict:
        """Return what the table keeps."""
        return {
            "instructions": round(instructions(self.code, self.instance), 1),
            "flight": self.code.flight,
            "widest_load": max(self.code.loads, default=0),
            "registers": self.code.registers,
            "spilled": self.code.spilled,
            "warps": resident_warps(self.code, self.instance, self.kernel.threads, self.capability),
            "tensor": {unit: n for unit, n in self.code.units.items() if unit in TENSOR},
            "kernels": self.kernel.kernels,
            "bounds": {b.gpu.name: {"share": round(b.share, 3), "limit": b.limit, "teraflops": round(b.teraflops, 1)}
                       for b in self.bounds},
        }  # fmt: skip

    @property
    def bounds(self) -> list[Bound]:
        return [bound(self.code, self.instance, self.kernel.threads, g) for g in GPUS if g.capability == self.capability]


def figures(only: str = "", capabilities: tuple[int, ...] = CAPABILITIES, jobs: int = 2) -> list[Figure]:
    """Compile the instances, and read them."""
    instances = [i for i in INSTANCES if only in i.name]
    work = [(piece, capability) for capability in capabilities for piece in pieces(instances, capability)]
    with ThreadPoolExecutor(jobs) as pool:  # of processes that compile
        codes = list(pool.map(lambda job: compiled(*job), work))
    return [Figure(i, kernel, code[i.name], capability)
            for (piece, capability), code in zip(work, codes) for i, kernel in piece]  # fmt: skip


def read_table() -> dict:
    return json.loads(TABLE.read_text())


def write_table(found: list[Figure]) -> None:
    """Keep the rows of what was compiled, and those of other instances as they are."""
    kept = read_table()["kernels"] if TABLE.exists() else {}
    rows: dict[str, dict] = {i.name: kept.get(i.name, {}) for i in INSTANCES}
    for figure in found:
        rows[figure.instance.name][f"sm_{figure.capability}"] = figure.row
    lines = []
    for name, by_capability in rows.items():
        inside = ",\n".join(f"      {json.dumps(c)}: {json.dumps(row)}" for c, row in by_capability.items())
        lines.append(f"    {json.dumps(name)}: {{\n{inside}\n    }}")
    head = f'{{\n  "compiler": {json.dumps(compiler_version())},\n  "kernels": {{\n'
    TABLE.write_text(head + ",\n".join(lines) + "\n  }\n}\n")


def worse(found: dict, kept: dict) -> list[str]:
    """Return what of a kernel fell behind its row: more instructions, fewer bytes in flight or warps by a tenth, narrower
    loads, more spilled registers, fewer instructions for tensor cores, more launches."""
    more = [k for k in ("instructions",) if found[k] > kept[k] * (1 + TOLERANCE)]
    more += [k for k in ("spilled", "kernels") if found[k] > kept[k]]
    less = [k for k in ("flight", "warps") if found[k] < kept[k] * (1 - TOLERANCE)]
    less += [k for k in ("widest_load",) if found[k] < kept[k]]
    changes = [f"{key} {kept[key]:g} -> {found[key]:g}" for key in (*more, *less)]
    for unit, n in kept["tensor"].items():
        if found["tensor"].get(unit, 0) < n * (1 - TOLERANCE):
            changes.append(f"{unit} {n:g} -> {found['tensor'].get(unit, 0):g}")
    return changes


def complaints(found: list[Figure], kept: dict) -> list[str]:
    """Compare with the table: kernels that are worse, and those of which it has no row."""
    said = []
    for figure in found:
        name, kind = figure.instance.name, f"sm_{figure.capability}"
        row = kept["kernels"].get(name, {}).get(kind)
        changes = ["not in the table"] if row is None else worse(figure.row, row)
        said += [f"{name}, {kind}: {', '.join(changes)}"] if changes else []
    return said
