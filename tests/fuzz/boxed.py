"""Every op of the boxed table with arguments that do not belong together.

    python -m tests.fuzz.boxed --cases 1000000 --seed 7 --jobs 2

It is what `torch.ops`, `fc_call` and files of programs reach: forms and parts of ops that no public function checks arguments
for. A case is a call that works (boxed_seeds.py) with one or more arguments changed: another rank, shape, dtype or device,
indices that are out of range, an argument of another call or one that is not there. One in twelve has arguments made from
types alone. Half of the calls run between guard pages (src/guard/pages.h), where a kernel that leaves its tensors dies;
some run as a program, some through the C interface, where the call may lie as well (by_c.py). What may come of it is a result or an ordinary exception.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import facula

from . import by_c, calls, hostile, preamble, runner

#: of addresses, for the arena of the guard device
ARENA = 1 << 36
#: what an argument of a valid call is made into, more often than hostile.py does: one thing is wrong, the rest belongs together
NEAR = [
    "{}[..., :-1]", "{}[:-1]", "{}[..., 1:]", "{}[None]", "{}[0]", "{}.flatten()", "{}.mT", "{}.sum()", "{}[..., :0]", "{}[:0]", "{}.unsqueeze(-1)",
    "{}.double()", "{}.float()", "{}.half()", "{}.long()", "{}.int()", "{}.bool()", "{}.to(facula.complex64)", "{}.to(facula.uint8)", "{}.to(facula.bfloat16)",
    "{}.to(facula.int8)", "{}.to(facula.float8_e4m3fn)", "{}.to('meta')", "{}.to('guard')", "({} + 1)", "({} * 0 - 1)", "({} * 0 + 2**31)", "({} * 1000)", "({} * nan)",
    "{}.requires_grad_()", "{}.repeat(2, *[1] * {}.dim())", "facula.cat([{}, {}], -1)", "{}.expand(3, *{}.shape)", "{}.transpose(0, -1).contiguous()",
    "facula.zeros(1).expand({}.shape)", "{}.to_sparse()",
]  # fmt: skip
SMALL = ["0", "1", "-1", "2", "3", "4", "5", "7", "-2", "-100", "100", "1000", "2**31", "-2**31", "2**62", "2**63 - 1", "-2**63", "True"]


def made_seeds() -> list:
    """The calls that boxed_seeds.py records, in a process of its own."""
    command = [sys.executable, "-m", f"{__package__}.boxed_seeds"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).resolve().parents[len(__package__.split("."))])
    if done.returncode:
        raise RuntimeError(f"boxed_seeds: rc {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


class Calls:
    """`boxed['mm.default'](lambda: (a, b))`: the arguments are made, and the op is called."""

    def __init__(self, key=None):
        self.key = key

    def __getitem__(self, key):
        return type(self)(key)

    def __call__(self, make):
        preamble.look(facula._C._boxed_call(self.key, make()))


class PagedCalls(Calls):
    """With the memory of tensors between inaccessible pages."""

    def __call__(self, make):
        facula._C._guard_pages(True)
        try:
            preamble.look(facula._C._boxed_call(self.key, make()))
        finally:
            facula._C._guard_pages(False)


class ProgramCalls(Calls):
    """As a program of one node, read from its text."""

    def __call__(self, make):
        values = make()
        info = facula._C._boxed_op(self.key)
        given: list = []
        texts = [self.text(value, given) for value in values]
        kinds = info["results"]
        results = ", ".join(f"[%r{i}: float32[1]]" if kind.endswith("[]") else f"%r{i}: float32[1]" for i, kind in enumerate(kinds))
        lines = [f'input user "i{i}" %i{i}: {str(t.dtype).removeprefix("torch.")}{list(t.shape)}' for i, t in enumerate(given)]
        lines.append(f"{results}{' = ' if kinds else ''}{self.key}({', '.join(texts)})")
        lines.append("return " + ", ".join(f"%r{i}" for i in range(len(kinds))))
        program = facula._C._Program.parse("\n".join(lines) + "\n")
        program.verify()
        preamble.look(program.run(given))

    def text(self, value, given):
        if isinstance(value, facula.Tensor):
            given.append(value)
            return f"%i{len(given) - 1}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.text(v, given) for v in value)}]"
        if value is None or isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, facula.dtype):
            return f"dtype:{str(value).removeprefix('torch.')}"
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})"
        return repr(value)


class Boxed(hostile.Hostile):
    def __init__(self, seed: int, avoid: str | None = None, only: str | None = None):
        self.seed, self.avoid = seed, avoid and re.compile(avoid)
        self.by_key: dict[str, list] = {}
        for key, texts, kinds in made_seeds():
            if not only or re.search(only, key):
                self.by_key.setdefault(key, []).append((texts, kinds))
        self.table = {}
        for key in sorted(facula._C._boxed_keys()):
            if (not only or re.search(only, key)) and not any(kind == "Graph" for kind in self.kinds_of(key)):
                self.table[key] = self.kinds_of(key)
        plain = {op.name for op in calls.op_samples.all_ops() if op.elementwise}  # one rule for all of them
        self.keys = [key for key in self.table for _ in range(1 if key.partition(".")[0].rstrip("_") in plain else 4)]

    @staticmethod
    def kinds_of(key):
        return [kind for _, kind, *_ in facula._C._boxed_op(key)["arguments"]]

    def begin(self, number: int):
        facula._C._enable_guard_device()
        super().begin(number)
        self.names.update(boxed=Calls(), paged=PagedCalls(), program=ProgramCalls(), by_c=by_c.CCalls(by_c.Library()))

    def case(self, index: int) -> str:
        rng = random.Random((self.seed << 40) + index)
        values = hostile.Values(rng)
        key = rng.choice(self.keys)
        kinds = self.table[key]
        if key in self.by_key and rng.random() < 0.92:
            arguments = self.changed(rng, values, list(rng.choice(self.by_key[key])[0]), kinds)
        else:
            arguments = [self.value(rng, values, kind) for kind in kinds]
        how = rng.choice(("boxed", "boxed", "boxed", "paged", "paged", "paged", "paged", "program", "by_c", "by_c"))
        called = f"{key!r}, {rng.choice(by_c.LIES)!r}, {rng.random() < 0.5}" if how == "by_c" else repr(key)
        return f"{how}[{called}](lambda: ({', '.join(arguments)}{',' if len(arguments) == 1 else ''}))"

    def changed(self, rng, values, arguments, kinds):
        if not arguments:
            return arguments
        if rng.random() < 0.15:  # all tensors in one way: what then is wrong is further down
            change = rng.choice(NEAR)
            arguments = [self.near(change, text, kind, 0) if kind.startswith(("Tensor", "Operand")) and text != "None" else text for text, kind in zip(arguments, kinds)]
        for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3))):
            i = rng.randrange(len(arguments))
            tensors = [n for n, kind in enumerate(kinds[: len(arguments)]) if kind.startswith(("Tensor", "Operand")) and n != i]
            roll = rng.random()
            if kinds[i].startswith(("Tensor", "Operand")) and arguments[i] != "None":
                if roll < 0.12 and tensors:  # what another argument is, or both changed over
                    j = rng.choice(tensors)
                    arguments[i], arguments[j] = arguments[j], arguments[i] if rng.random() < 0.5 else arguments[j]
                elif roll < 0.55:
                    arguments[i] = self.near(rng.choice(NEAR), arguments[i], kinds[i], rng.choice((0, 0, ":0", ":1", ":-1")))
                elif roll < 0.7 and not kinds[i].startswith("Tensor["):
                    arguments[i] = values.wrapped(f"({arguments[i]})")
                else:
                    arguments[i] = self.value(rng, values, kinds[i])
            else:
                arguments[i] = self.value(rng, values, kinds[i])
        return arguments

    def near(self, change, text, kind, part):
        if kind.startswith("Tensor["):
            return f"{text}[{part}]" if part else f"[*map(lambda t: {change.replace('{}', 't')}, {text})]"
        first, *rest = change.split("{}")
        return f"{first}(w := {text})" + "w".join(rest)

    def value(self, rng, values, kind):
        plain = kind.rstrip("?")
        if kind.endswith("?") and rng.random() < 0.3:
            return "None"
        if plain == "int":
            return rng.choice(SMALL)
        if re.fullmatch(r"int\[\d*\]", plain):
            return f"[{', '.join(rng.choice(SMALL[:9] if rng.random() < 0.8 else SMALL) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))))}]"
        if plain == "bool[]":
            return f"[{', '.join(rng.choice(('True', 'False')) for _ in range(rng.choice((0, 1, 2, 3, 3, 4))))}]"
        if plain == "bool":
            return rng.choice(("True", "False"))
        if plain == "Tensor[]" or plain.startswith("Tensor["):
            return values.of("Tensor[]")
        if plain in ("device", "layout") and rng.random() < 0.5:
            return {"device": "'guard'", "layout": "facula.strided"}[plain]
        return values.of(plain)

    def program(self, text: str) -> str:
        begin = "from tests.fuzz import boxed as b\nfacula._C._enable_guard_device()\nboxed, paged, program, by_c = b.Calls(), b.PagedCalls(), b.ProgramCalls(), b.by_c.CCalls()\n"
        return f"{Path(preamble.__file__).read_text()}\n\n{begin}\n{text}\n"


if __name__ == "__main__":

    def more(parser):
        parser.add_argument("--avoid", help="leave out the calls that this regular expression finds")
        parser.add_argument("--only", help="only ops whose key this regular expression finds")

    runner.ADDRESS_SPACE += ARENA
    sys.exit(runner.main(lambda options: Boxed(options.seed, options.avoid, options.only), __doc__, more))
