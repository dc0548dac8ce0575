"""Several threads use the same tensors, modules and graphs at once, as programs do.

    python -m tests.fuzz.threads --cases 1000000 --seed 7 --jobs 2
    python -m tests.fuzz.threads --cases 500 --seconds 3600 --seed 7

A case is a world (thread_worlds.py) and, for each thread, what it does there over and over. What nobody writes must keep
its values; sums that are exact must come out whatever the schedule was; only those errors may be raised that a world
announces. Threads that do not end in time are shown with their stacks, and count as a crash.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import facula

from . import calls, layouts, preamble, runner, thread_worlds

HERE = Path(preamble.__file__).parent
SOURCES = (HERE / "preamble.py").read_text() + "".join((HERE / "thread_worlds.py").read_text().partition("from .preamble import *  # noqa: F403\n")[1:][1:])
MOST_THREADS = 4
UNSHARED = layouts.re.compile(r"fork|lobpcg|_unsafe|empty|_rng|set_|Generator|_ops\._(sgd|adam)|requires_grad|share_memory|retain_grad|backward\(|\.numpy\(|dlpack|gradcheck")


class Threads:
    def __init__(self, seed: int, only: str | None = None, avoid: str | None = None):
        self.seed, self.only, self.avoid = seed, only, avoid and layouts.re.compile(avoid)
        kept = [
            s
            for s in calls.schema_seeds()
            if not (UNSHARED.search(s.text) or layouts.RANDOM.search(s.text) or layouts.WRITES.search(s.text) or layouts.ABOUT_MEMORY.search(s.text))
        ]
        self.ops = [t for t in map(layouts.Template, kept) if t.makers]
        self.worlds = [w for w in thread_worlds.WORLDS if only is None or only in w]

    def begin(self, number: int):
        facula.set_num_threads(1 + number % 2)
        facula.cpu.set_memory_limit(1 << 30)
        sys.setswitchinterval(1e-5)

    def case(self, index: int) -> str:
        rng = random.Random((self.seed << 40) + index)
        threads = rng.randint(2, MOST_THREADS)
        if self.only is None and rng.random() < 0.25 or not self.worlds:
            return self.ops_case(rng, threads)
        name = rng.choice(self.worlds)
        actions = thread_worlds.WORLDS[name].actions()
        chosen = [[rng.choice(actions) for _ in range(rng.randint(1, 4))] for _ in range(threads)]
        return f"race({name!r}, {chosen!r}, times={rng.choice((1, 5, 20))}, seed={rng.randrange(1000)})"

    def ops_case(self, rng, threads):
        """Ops of the schema on tensors that all threads share: each gives what it gives alone."""
        template = rng.choice(self.ops)
        dtype = rng.choice((None, None, "float64", "float32"))
        made = [f"{kind}({', '.join([*map(str, shape), *([options] if options else []), *(_dtype(kind, own, dtype))])})" for kind, shape, options, own in template.makers]
        wide = rng.random() < 0.3 and template.elementwise
        return f"same_in_all({template.text!r}, [{', '.join(made)}], threads={threads}, wide={wide}, graded={rng.random() < 0.5})"

    def check(self, text: str) -> str | None:
        if self.avoid and self.avoid.search(text):
            return None
        try:
            eval(compile(text, "case", "eval"), vars(thread_worlds))
        except AssertionError as error:
            return f"AssertionError: {error}"
        finally:
            facula.set_grad_enabled(True)
        return None

    def program(self, text: str) -> str:
        return f"{SOURCES}\n\n{text}\n"


def _dtype(kind, own, dtype):
    chosen = own or (f"facula.{dtype}" if dtype and kind == "x" else None)
    return [f"dtype={chosen}"] if chosen else []


if __name__ == "__main__":

    def more(parser):
        parser.add_argument("--only", help="only the worlds whose name has this in it")
        parser.add_argument("--avoid", help="leave out the cases that this regular expression finds: `forked` under AddressSanitizer, whose locks a child inherits")

    sys.exit(runner.main(lambda options: Threads(options.seed, options.only, options.avoid), __doc__, more))
