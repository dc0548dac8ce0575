"""Read what a kernel's machine code says of its speed, as nvdisasm prints it with the bits of each instruction (`-hex -c`).

A flow graph gives the loops; of the chosen one the cheapest way round counts among those that move an element's bytes. Each
instruction names the scoreboard that it sets and those that it waits for (bits 105 to 121 of its 128), so that the bytes
which a thread has asked for before it first waits are known and not guessed; those of asynchronous copies are known by their
groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?);?\s*/\*\s*0x[0-9a-f]{16}\s*\*/")
SECOND = re.compile(r"^\s+/\*\s*0x([0-9a-f]{16})\s*\*/")
WIDTHS = ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1))
UNITS = ("HMMA", "HGMMA", "LDGSTS", "LDSM", "F2FP", "MUFU", "BAR")  # instructions that a table counts
ONE_LOAD = 10000  # in the keys of ways: loads are counted beside their bytes
MOST_WAYS = 800


@dataclass
class Instruction:
    at: int
    predicate: str
    op: str
    operands: str
    write_barrier: int = 7
    wait: int = 0
    targets: list[str] = field(default_factory=list)

    @property
    def head(self) -> str:
        return self.op.split(".")[0]

    @property
    def bytes(self) -> int:
        """Bytes of a thread, of an instruction that moves some."""
        return next((n for text, n in WIDTHS if text in self.op), 4)

    @property
    def loads(self) -> bool:
        return self.op.startswith(("LDG.", "LD.", "LDGSTS"))

    @property
    def stores(self) -> bool:
        return self.op.startswith(("STG.", "ST.", "RED", "ATOMG"))


def parse(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Read the instructions of a section, and the labels by the number of the instruction that they stand before."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    table: list[str] = []  # targets of the next indirect branch
    for line in text.splitlines():
        if label := re.match(r"^([.$_\w]+):", line):
            labels[label[1]] = len(code)
        if "BRANCH_TARGETS" in line or "INDIRECT_BRANCH" in line:
            table = re.findall(r"\.L_x_\d+", line)
        if m := FIRST.match(line):
            found = Instruction(int(m[1], 16), m[2] or "", m[3], m[4])
            indirect = found.head in ("BRX", "JMX")
            found.targets = (table or re.findall(r"\.L_x_\d+", line)) if indirect else re.findall(r"`\(([^)]+)\)", m[4])
            code.append(found)
        elif code and (m := SECOND.match(line)):
            high = int(m[1], 16)
            code[-1].write_barrier, code[-1].wait = high >> 46 & 7, high >> 52 & 63
    return code, labels


# a way from one place to another: (number of the instruction, the way before it, the way through what it calls), or None
Way = tuple
Ways = dict  # {(bytes loaded and loads, bytes stored, divisions): (instructions, way)}


def numbers(way: Way | None) -> list[int]:
    """Return the instructions of a way in the order in which they run."""
    found: list[int] = []
    while way:
        n, way, called = way
        found.append(n)
        found += reversed(numbers(called))
    return found[::-1]


class Flow:
    """Hold the flow graph of a kernel."""

    def __init__(self, code: list[Instruction], labels: dict[str, int]) -> None:
        self.code, self.labels = code, labels
        self.next = [[f for f in self._follow(n) if f < len(code)] for n in range(len(code))]
        self.before: list[list[int]] = [[] for _ in code]
        for n, those in enumerate(self.next):
            for f in those:
                self.before[f].append(n)

    def _follow(self, n: int) -> list[int]:
        i = self.code[n]
        there = [self.labels[t] for t in i.targets if t in self.labels]
        if i.head == "BRA":
            asks = i.predicate or re.match(r"!?U?P\d|.*P\d,", i.operands) or ".DIV" in i.op or ".CONV" in i.op
            return [n + 1, *there] if asks else there
        if i.head in ("BRX", "JMX", "JMP"):
            return there
        if i.head == "CALL" and i.predicate:  # a jump: sm_80 leaves loops so
            return [n + 1, *there]
        return [] if i.head in ("EXIT", "RET") and not i.predicate else [n + 1]

    def loops(self) -> list[tuple[int, set[int]]]:
        """Return the first instruction and members of the natural loops; those that begin at one instruction are one."""
        found: dict[int, set[int]] = {}
        for n, those in enumerate(self.next):
            for first in those:
                if first > n or (n == first and self.code[n].op == "BRA"):  # forwards; the trap at the end
                    continue
                members, rest = {first, n}, [n]
                while rest:
                    for b in self.before[rest.pop()]:
                        if b not in members and b >= first:
                            members.add(b)
                            rest.append(b)
                found.setdefault(first, set()).update(members)
        return sorted(found.items())

    def _called(self, i: Instruction, dearest: bool, divisions: int, depth: int) -> Ways:
        nothing: Ways = {(0, 0, 0): (0, None)}
        if not i.op.startswith("CALL") or i.predicate or not i.targets or i.targets[0] not in self.labels or depth == 2:
            return nothing
        ends = lambda n: self.code[n].op.startswith("RET")
        return self.ways(self.labels[i.targets[0]], None, ends, dearest, divisions, depth + 1) or nothing

    def ways(self, start: int, inside: set[int] | None, ends: Callable[[int], bool], dearest: bool, divisions: int = 0,
             depth: int = 0) -> Ways:  # fmt: skip
        """Find the cheapest, or the dearest, ways of each key from `start` to where `ends` holds, without going backwards;
        divisions (MUFU.RCP) are counted up to so many. What reports an error or traps is no way."""
        better = (lambda a, b: a > b) if dearest else (lambda a, b: a < b)

        def keep(slot: Ways, those: Ways) -> None:
            for key, value in those.items():
                if key not in slot or better(value[0], slot[key][0]):
                    slot[key] = value

        reached: dict[int, Ways] = {start: {(0, 0, 0): (0, None)}}
        done: Ways = {}
        for n in sorted(inside) if inside else range(start, len(self.code)):
            i = self.code[n]
            if n not in reached or i.op.startswith(("MEMBAR", "ERRBAR", "BPT")):
                continue
            called, out = self._called(i, dearest, divisions, depth), {}
            loads, stores = ONE_LOAD + i.bytes if i.loads else 0, i.bytes if i.stores else 0
            for (l, s, d), (count, way) in reached.pop(n).items():
                for (more_l, more_s, more_d), (more, through) in called.items():
                    key = (l + more_l + loads, s + more_s + stores,
                           min(divisions, d + more_d + i.op.startswith("MUFU.RCP")))  # fmt: skip
                    keep(out, {key: (count + more + 1, (n, way, through))})
            if len(out) > MOST_WAYS:
                out = dict(sorted(out.items(), key=lambda item: -sum(item[0]))[:MOST_WAYS])
            if ends(n):
                keep(done, out)
                if i.head == "RET":
                    continue
            for f in self.next[n]:
                if f > n and (inside is None or f in inside):
                    keep(reached.setdefault(f, {}), out)
        return done


def in_flight(way: list[Instruction], turns: int = 2) -> int:
    """Return the most bytes that a thread has asked memory for and not yet waited for, in so many turns of a loop."""
    waiting: list[tuple[int, int]] = []  # scoreboard and bytes
    group, groups, most = 0, [], 0
    for i in way * turns:
        if i.wait:
            waiting = [(b, n) for b, n in waiting if not i.wait >> b & 1]
        if i.op.startswith("LDGSTS"):
            group += i.bytes
        elif i.loads:
            waiting.append((i.write_barrier, i.bytes))
        elif i.op.startswith("LDGDEPBAR"):
            groups, group = [*groups, group], 0
        elif i.op.startswith("DEPBAR") and (m := re.search(r"SB0, (0x[0-9a-f]+)", i.operands)):
            left = int(m[1], 16)
            groups = groups[len(groups) - left :] if left else []
        most = max(most, sum(n for _, n in waiting) + group + sum(groups))
    return most


@dataclass
class Hints:
    """Name where a kernel's work is done, which machine code alone does not show."""

    loop: str = "auto"  # the innermost of tensor cores, or that moves most; "each" innermost; the largest, "outer"; "none"
    want: tuple[list[int], int] | None = None  # the way with these loads and so many bytes stored
    trips: tuple[float, ...] = ()  # how often the loops inside the chosen one run, in the order of their places
    divisions: int = 0  # that the way has to have
    dearest: bool = False  # the dearest way is the usual one: what is cheap are zeros, infinities, NaN


@dataclass
class Part:
    """Describe the path through a loop, and how often each of its instructions runs in a turn."""

    way: list[Instruction]
    often: list[float]

    def total(self, of: Callable[[Instruction], float]) -> float:
        return sum(of(i) * n for i, n in zip(self.way, self.often))


@dataclass
class Code:
    """Hold a kernel as it was compiled."""

    registers: int
    spilled: int
    shared: int
    parts: list[Part]
    flight: int = 0
    loads: dict[int, float] = field(default_factory=dict)  # by bits of an access
    stores: dict[int, float] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.parts:
            self.flight = max(self.flight, in_flight(part.way))
            for i, n in zip(part.way, part.often):
                for does, found in ((i.loads, self.loads), (i.stores, self.stores)):
                    if does:
                        found[8 * i.bytes] = found.get(8 * i.bytes, 0) + n
                for unit in UNITS:
                    if i.op.startswith(unit):
                        self.units[unit] = self.units.get(unit, 0) + n


def chosen(flow: Flow, loops: list[tuple[int, set[int]]], which: str) -> list[tuple[int, set[int] | None]]:
    """Return the loops that count, or the whole kernel."""
    code = flow.code
    moving = [l for l in loops if any(code[n].loads or code[n].stores or "MMA." in code[n].op for n in l[1])]
    inner = [l for l in moving if not any(o is not l and o[1] < l[1] for o in moving)]

    def weight(loop: tuple[int, set[int]]) -> tuple:
        moved = sum(code[n].bytes for n in loop[1] if code[n].loads or code[n].stores)
        return any("MMA." in code[n].op for n in loop[1]), any(code[n].loads for n in loop[1]), moved, len(loop[1])

    if which == "none" or not moving:
        return [(0, None)]
    if which == "outer":
        return [max(moving, key=lambda l: len(l[1]))]
    return inner if which == "each" else [max(inner, key=weight)]


def way_through(flow: Flow, loop: tuple[int, set[int] | None], loops: list[tuple[int, set[int]]], hints: Hints) -> Part:
    """Return the way that counts through one loop."""
    first, members = loop
    if members is None:
        ends = lambda n: flow.code[n].op.startswith("EXIT") and not flow.code[n].predicate
    else:
        ends = lambda n: first in flow.next[n]
    found = flow.ways(first, members, ends, hints.dearest, hints.divisions)
    want = hints.want and (sum(hints.want[0]) + ONE_LOAD * len(hints.want[0]), hints.want[1], hints.divisions)
    key = want if want in found else max(found, key=lambda k: (k[2], k[0] % ONE_LOAD + k[1], k))
    nested = [(len(o), k) for k, (_, o) in enumerate(l for l in loops if members is None or l[1] < members)]
    inside = [o for _, o in loops if members is None or o < members]

    def often(n: int) -> float:
        own = [place for place, o in zip(nested, inside) if n in o]
        at = min(own)[1] if own else len(hints.trips)
        return hints.trips[at] if at < len(hints.trips) else 1

    order = numbers(found[key][1])
    return Part([flow.code[n] for n in order], [often(n) for n in order])


def analyze(section: str, log: str, hints: Hints) -> Code:
    """Read a kernel's section of nvdisasm and what ptxas said of it (`-v`)."""
    flow = Flow(*parse(section))
    loops = flow.loops()
    said = [re.search(p, log) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem")]
    facts = [int(m[1]) if m else 0 for m in said]
    return Code(*facts, [way_through(flow, loop, loops, hints) for loop in chosen(flow, loops, hints.loop)])
