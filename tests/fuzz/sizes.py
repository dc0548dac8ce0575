"""Numbers that say how large something is, far larger than the tensors: each call is refused, or costs what it reads and writes.

    python -m tests.fuzz.sizes --cases 200000 --seed 7
    python -m tests.fuzz.sizes --every                     # each number of each op once with each size

A call may take LEAST seconds of processor time and a second for every RATE bytes of its tensors and results. What takes
longer is reported as wrong, what does not end as a hang, and what Ctrl-C ends as endless: all three are findings here.
"""

from __future__ import annotations

import random
import re
import sys
import time
from pathlib import Path

import facula

from . import call_texts, calls, preamble, runner

LEAST, RATE = 3.0, 16 << 20
SIZES = (0, 2, 63, 1000, 4097, 65_536, 1_000_000, 61_000_000, 2**31, 2**40, 2**62)
ONE_BY_ONE = (1000, 100_000, 1_000_000, 30_000_000, 2**31 - 1, 2**40, 2**62)
ASKED_FOR = re.compile(r"lowrank|lobpcg|Transformer|RNN|GRU|LSTM|bytearray|b'|step\(")  # so many iterations or layers, or bytes of Python's own
KINDS = {"int", "int[]", "Scalar", "float"}


class Sizes:
    def __init__(self, seed: int, every: bool = False, only: str | None = None):
        self.seed = seed
        seeds = calls.schema_seeds() + calls.table_seeds(call_texts.FUNCTIONAL, call_texts.MODULES, call_texts.OTHERS)
        self.seeds = [(s, holes) for s in seeds if (holes := [h for h in s.holes if h.type in KINDS]) or s.keywords]
        self.seeds = [(s, holes) for s, holes in self.seeds if holes and not ASKED_FOR.search(s.text) and (only is None or only in s.text)]
        self.every = [(s, hole, size) for s, holes in self.seeds for hole in holes for size in ONE_BY_ONE] if every else None
        self.names = dict(vars(preamble))

    def begin(self, number: int):
        facula.set_num_threads(1 + number % 2)
        facula.cpu.set_memory_limit(1 << 30)

    def case(self, index: int) -> str:
        if self.every is not None:
            seed, hole, size = self.every[index % len(self.every)]
            return replaced(seed.text, [(hole, enlarged(seed.text, hole, size))])
        rng = random.Random((self.seed << 40) + index)
        seed, holes = rng.choice(self.seeds)
        chosen = rng.sample(holes, min(len(holes), rng.choice((1, 1, 2, 2, 3))))
        return replaced(seed.text, [(hole, enlarged(seed.text, hole, rng.choice(SIZES), rng)) for hole in chosen])

    def check(self, text: str) -> str | None:
        begun, result = time.process_time(), None
        try:
            result = eval(compile(text, "case", "eval"), self.names)
        except Exception:
            pass  # refused; what is raised is the hostile fuzzer's business
        used = time.process_time() - begun
        read_and_written = sum(t.nbytes for t in preamble.tensors_in(result) if t.layout is facula.strided)
        facula.set_grad_enabled(True)
        if used <= LEAST + read_and_written / RATE * facula.get_num_threads():
            return None
        return f"{used:.1f} s for {read_and_written >> 10} KiB"

    def program(self, text: str) -> str:
        return Path(preamble.__file__).read_text() + f"\n\n{text}\n"


def replaced(text, changes):
    for hole, given in sorted(changes, key=lambda c: -c[0].start):
        if hole.end <= len(text):
            text = text[: hole.start] + given + text[hole.end :]
    return text


def enlarged(text, hole, size, rng=None):
    """The argument with the size in its place, or in the place of one or all of its numbers."""
    given = text[hole.start : hole.end]
    if hole.type == "int[]" and given[:1] in "[(":
        count = given.count(",") + (0 if given.rstrip(")]").endswith(",") else 1)
        numbers = given.strip("[]() ,").split(",")
        if rng is not None and rng.random() < 0.5 and numbers[0]:
            numbers[rng.randrange(len(numbers))] = str(size)
            return f"[{', '.join(n.strip() for n in numbers)}]"
        return f"[{', '.join([str(size)] * count)}]"
    return f"{float(size)!r}" if hole.type == "float" else str(size)


if __name__ == "__main__":

    def more(parser):
        parser.add_argument("--every", action="store_true", help="each number of each call with each size in turn")
        parser.add_argument("--only", help="only the calls with this text in them")
        parser.add_argument("--list", action="store_true", help="say how many cases --every has")

    def made(options):
        found = Sizes(options.seed, options.every, options.only)
        if options.list:
            print(len(found.every or []))
        return found

    sys.exit(runner.main(made, __doc__, more))
