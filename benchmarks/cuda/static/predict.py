"""Bound how fast a GPU can run a kernel, from its machine code: issue and pipes, and bytes in flight.

Issue takes 4 instructions of warps a cycle and SM, and each pipe has its rate (CUDA C++ Programming Guide, arithmetic
throughput). Little's law requires bandwidth times latency of bytes in flight, with twice the latency of an idle memory,
because queues fill. 100 % means that neither is a limit; DRAM itself then reaches about nine tenths of the data sheet.
The model does not contain conflicts of banks and sectors (an instance states them), latency of arithmetic where few
warps are resident, barriers and tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .instances import Instance
    from .sass import Code, Instruction, Part

COPY = 0.9  # of the data sheet's bandwidth, which a copy reaches
PRODUCT = 0.8  # of the bound, which products and attention reach


@dataclass(frozen=True)
class Gpu:
    name: str
    capability: int
    sms: int
    clock: float  # GHz
    bandwidth: float  # GB/s
    latency: float  # cycles of a load from idle DRAM
    fma: int  # float32 FMA a cycle and SM
    fp64: int
    mma: float  # 16-bit FMA a cycle and SM that mma.sync reaches
    peak: float  # the same of the data sheet
    shared: int  # bytes of an SM
    registers: int = 65536
    warps: int = 64

    @property
    def needed(self) -> float:
        """Bytes in flight of an SM that keep its memory busy."""
        return self.bandwidth / self.sms / self.clock * self.latency * 2


# A100: data sheet and whitepaper; H100, H200: data sheets (SXM). Latencies, and the 63 % of H100's tensor cores that mma.sync
# reaches, are measured by Luo et al., arXiv 2402.13499.
GPUS = (
    Gpu("A100", 80, 108, 1.41, 2039, 466, 64, 32, 1024, 1024, 164 << 10),
    Gpu("H100", 90, 132, 1.755, 3352, 479, 128, 64, 1290, 2048, 227 << 10),
    Gpu("H200", 90, 132, 1.755, 4800, 479, 128, 64, 1290, 2048, 227 << 10),
)

PIPES = {
    "xu": ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV"),
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "mma": ("HMMA", "IMMA", "DMMA", "HGMMA", "BMMA"),
    "fma": ("FADD", "FMUL", "FFMA", "FSWZADD", "HADD2", "HMUL2", "HFMA2"),
    "imad": ("IMAD", "IDP"),
}
PIPE_OF = {head: pipe for pipe, heads in PIPES.items() for head in heads}
MEMORY = ("LD", "ST", "ATOM", "RED", "SHFL", "UTMA", "SYNCS")
CONTROL = ("U", "BRA", "BSSY", "BSYNC", "CALL", "RET", "EXIT", "NOP", "BAR", "WARPSYNC", "BRX", "DEPBAR", "S2", "LDC", "CS2R")
MMA_FMA = {"16816": 2048, "1688": 1024, "1684": 512}  # by the shape in an instruction's name


def pipe_of(i: Instruction) -> str:
    if i.head in PIPE_OF:
        return PIPE_OF[i.head]
    return "memory" if i.head.startswith(MEMORY) else "control" if i.head.startswith(CONTROL) else "alu"


def mma_fma(i: Instruction) -> float:
    return next((n for shape, n in MMA_FMA.items() if shape in i.op), 0) if pipe_of(i) == "mma" else 0


def lines(i: Instruction) -> float:
    """Return the cycles of a path of 128 bytes that a warp's access takes."""
    return max(1, i.bytes * 32 / 128)


def cycles(part: Part, gpu: Gpu, conflicts: float) -> dict[str, float]:
    """Return the cycles of an SM that one warp's way takes, by what it keeps busy."""
    rate = {"xu": 2, "alu": 1 / 2, "imad": 1 / 2, "fma": 32 / gpu.fma, "fp64": 32 / gpu.fp64}

    def shared(i: Instruction) -> float:
        if i.head in ("LDS", "STS", "ATOMS"):
            return lines(i) * conflicts
        if i.head == "LDSM":
            return {"4": 4, "2": 2}.get(i.op[-1], 1) * conflicts
        return 1 if i.head == "SHFL" else 0

    found = {"issue": sum(part.often) / 4}
    for pipe, value in rate.items():
        found[pipe] = part.total(lambda i, p=pipe, v=value: v if pipe_of(i) == p else 0)
    found["fma"] += found.pop("imad")
    found["mma"] = part.total(lambda i: mma_fma(i) / gpu.mma * (2 if "TF32" in i.op else 1))  # at half the rate
    found["shared"] = part.total(shared)
    found["l1"] = part.total(lambda i: lines(i) if i.loads or i.stores else 0)
    return found


def resident_warps(code: Code, instance: Instance, threads: int, capability: int) -> int:
    """Return the warps of an SM at once."""
    gpu = next((g for g in GPUS if g.capability == capability), GPUS[-1])
    warps = (threads + 31) // 32
    of_warp = (max(code.registers, 16) + 7) // 8 * 8 * 32
    blocks = min(gpu.registers // of_warp // warps, gpu.warps // warps, 32)
    if code.shared + instance.shared:
        blocks = min(blocks, gpu.shared // (code.shared + instance.shared + 1024))
    return blocks * warps


def elements_of(part: Part, instance: Instance, is_only: bool) -> float:
    """Return the elements of one turn of a thread."""
    loaded = part.total(lambda i: i.bytes if i.loads else 0)
    stored = part.total(lambda i: i.bytes if i.stores else 0)
    if not is_only:
        return loaded / instance.read or 1
    if instance.per_turn:
        return instance.per_turn
    if instance.write and stored:
        return stored / instance.write
    return loaded / (instance.asked or instance.read) or 1


def instructions(code: Code, instance: Instance) -> float:
    """Return the instructions of a thread for an element."""
    is_only = len(code.parts) == 1
    return sum(sum(part.often) / elements_of(part, instance, is_only) for part in code.parts)


@dataclass
class Bound:
    """Hold the greatest possible speed."""

    gpu: Gpu
    share: float  # of the bandwidth, or of the FMA that there are of the kind that the kernel is about
    limit: str
    teraflops: float = 0  # of products


def bound(code: Code, instance: Instance, threads: int, gpu: Gpu) -> Bound:
    of_element: dict[str, float] = {}
    fma = tensor = 0.0
    is_only = len(code.parts) == 1
    for part in code.parts:
        elements = elements_of(part, instance, is_only)
        for name, value in cycles(part, gpu, instance.conflicts).items():
            of_element[name] = of_element.get(name, 0) + value / elements / 32
        tensor += part.total(mma_fma) / elements / 32
        fma += part.total(lambda i: i.head == "FFMA") / elements
    slowest = max(of_element, key=lambda name: of_element[name])
    if instance.product:
        rate = (tensor or fma) * instance.product / of_element[slowest]
        peak = gpu.peak / (2 if instance.tf32 else 1) if instance.tensor else gpu.fma
        return Bound(gpu, rate / peak, slowest, 2 * rate * gpu.sms * gpu.clock / 1e3)
    moved = (instance.read + instance.write) / of_element[slowest] * gpu.sms * gpu.clock / gpu.bandwidth
    flying = math.inf  # where nothing is read
    if instance.read:
        flying = resident_warps(code, instance, threads, gpu.capability) * 32 * code.flight / gpu.needed
    share, limit = min((1.0, "memory"), (moved, slowest), (flying, "in flight"))
    return Bound(gpu, share * instance.sectors, limit + (", sectors" if instance.sectors < 1 else ""))
