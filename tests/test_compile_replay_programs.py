"""Random functions, as source: what the reader of sources makes of them is what Python makes of them."""

import builtins
import contextlib
import linecache
from random import Random

import pytest
from test_compile_impure import frozen

import facula
from facula.compiler import _looks

UNARY = ("relu", "tanh", "sigmoid", "exp", "neg", "abs", "square", "sin")
HEADER = """
def helper(a, by=1.5, *, shift=0.25):
    if by > 1:
        return a * by + shift
    return a - by


def other(*parts, **named):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total * named["factor"] if len(named) == 1 else total
"""


class Writer:
    """Write a function of two (N, 4) tensors and two numbers, statement by statement."""

    def __init__(self, seed):
        self.random, self.lines, self.depth, self.made = Random(seed), [], 1, 0
        self.tensors, self.numbers = ["x", "y"], ["n", "f", "rate"]

    def pick(self, *choices):
        return self.random.choice(choices)

    def tensor(self):
        return self.random.choice(self.tensors[-4:])

    def number(self):
        return self.pick(*self.numbers, "2", "0.5", "-1", "3.0", "config.gain", "len(sizes)", "sizes[0]", "f + n", "n // 2 + 1")

    def condition(self):
        return self.pick(
            "n > 2", "f <= 1.0", "flag", "not flag", "config.deep", "config.name == 'a'", "missing is None", "missing is not None",
            "flag and n != 3", "x.dim() == 2", "x.shape[0] > 3", "y.size(1) == 4 and flag", "n in (1, 3)", "isinstance(x, torch.Tensor)",
            "x.shape == y.shape", "-1 < f", "x.shape[-1] - 4 == 0 or flag",
        )  # fmt: skip

    def expression(self):
        t, u, n = self.tensor(), self.tensor(), self.number()
        return self.pick(
            f"{t} + {u}", f"{t} * {n}", f"{t} - {u} * {n}", f"{n} - {t}", f"{t} / ({u}.square() + 1)", f"-{t}", f"{t}.{self.pick(*UNARY)}()",
            f"torch.{self.pick(*UNARY)}({t})", f"F.gelu({t})", f"F.softmax({t}, dim=-1)", f"F.layer_norm({t}, (4,))", f"layer({t})",
            f"helper({t})", f"helper({t}, {n})", f"helper({t}, by={n}, shift=rate)", f"other({t}, {u})", f"other(*[{t}, {u}], factor={n})",
            f"torch.where({t} > {n}, {t}, {u})", f"torch.cat([{t}, {u}], dim=1)[:, 2:6]", f"{t}[:, [3, 2, 1, 0]]", f"{t}.chunk(2, 1)[0].repeat(1, 2)",
            f"torch.stack([{t}, {u}]).mean(0)", f"{t} @ {u}.T @ {u}" if self.random.random() < 0.3 else f"{t}.clone()", f"{t}.flip(1)",
            f"{t} if {self.condition()} else {u}", f"{t}.sum(1, keepdim=True) + {u}", f"torch.maximum({t}, {u})", f"{t}.max(dim=0).values + {u}",
            f"net[{self.pick('0', '1', '-1')}]({t})", f"heads['{self.pick('a', 'b')}']({t})", f"{t}.view(-1, 4)", f"{t}.reshape({u}.shape)",
            f"F.dropout({t}, 0.3, training=flag)", f"{t} + torch.rand_like({u})", f"{t}.to({u}.dtype)", f"{t}.masked_fill({u} < 0, {n})",
        )  # fmt: skip

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def new(self, value):
        self.made += 1
        self.line(f"v{self.made} = {value}")
        self.tensors.append(f"v{self.made}")

    def block(self, head, count):
        self.line(head)
        self.depth += 1
        before, numbers = list(self.tensors), list(self.numbers)
        for _ in range(count):
            self.statement()
        target = self.random.choice(before)
        self.line(f"{target} = {self.expression()}")
        self.depth -= 1
        self.tensors, self.numbers = before, numbers

    def statement(self):
        kind = self.random.randrange(16)
        if kind < 8 or self.depth > 3:
            self.new(self.expression())
        elif kind == 8:
            self.block(f"if {self.condition()}:", self.pick(0, 1, 2))
            if self.random.random() < 0.5:
                self.block("else:", 1)
        elif kind == 9:
            self.block(self.pick("for i in range(n):", "for i in sizes:", "for i, j in enumerate((1, 2)):"), 1)
        elif kind == 10:
            self.block(f"with torch.{self.pick('no_grad', 'enable_grad')}():", 1)
        elif kind == 11:
            self.line(f"{self.tensor()}, w = {self.tensor()}.tanh(), {self.number()}")
        elif kind == 12:
            self.line(f"n += {self.pick('1', 'len(sizes)')}")
        elif kind == 13:
            self.line(f"{self.tensor()} {self.pick('+', '*', '-')}= {self.pick(self.tensor(), self.number())}")
        elif kind == 14:
            self.line(f"if {self.tensor()}.dim() != 2:")
            self.line("    raise ValueError('two dimensions')")
        else:
            self.block("for part in net:", 1)

    def text(self):
        for _ in range(self.random.randint(2, 9)):
            self.statement()
        given = ", ".join(self.tensors[-3:])
        result = self.pick(
            self.tensors[-1], f"({given})", f"[{given}]", f"{{'a': {self.tensors[-1]}, 'n': n}}", f"({self.tensors[-1]}, x)"
        )
        self.line(f"return {result}")
        return HEADER + "\n\ndef run(x, y, n=2, f=1.5, flag=True, missing=None, *, rate=0.1):\n" + "\n".join(self.lines) + "\n"


class Config:
    def __init__(self):
        self.gain, self.deep, self.name = 0.7, True, "a"


def made(seed, text):
    """The function, and what it reads."""
    file = f"<program {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    nn = facula.nn
    facula.manual_seed(seed)
    space = {
        "torch": facula, "F": nn.functional, "sizes": (1, 2), "config": Config(), "names": ("factor",), "layer": nn.Linear(4, 4),
        "net": nn.ModuleList([nn.Linear(4, 4), nn.Tanh()]), "heads": nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(4, 4)}),
    }  # fmt: skip
    exec(builtins.compile(text, file, "exec"), space)
    return space["run"], space


def change(random, space):
    kind = random.randrange(6)
    if kind == 0:
        space["config"].gain = random.random()
    elif kind == 1:
        space["config"].deep = not space["config"].deep
    elif kind == 2:
        space["layer"].weight = facula.nn.Parameter(facula.randn(4, 4))
    elif kind == 3:
        space["sizes"] = random.choice([(1, 2), (2,), (3, 1, 2)])
    elif kind == 4:
        space["net"][0] = random.choice([facula.nn.Linear(4, 4), facula.nn.GELU()])


def outcomes(seed, text, compile):
    function, space = made(seed, text)
    run, random, found = compile(function), Random(seed), []
    for i in range(12):
        x, y = facula.randn(random.choice([3, 3, 3, 4]), 4), facula.randn(3, 4, requires_grad=i % 3 == 0)
        named = random.choice(
            [{}] * (9 if i > 1 else 99) + [{"n": 3}, {"flag": False}, {"rate": 0.3}, {"missing": y}, {"f": 0.5}]
        )
        try:
            result = run(x, y, **named)
            found.append(frozen(result))
            tensors = (
                result if isinstance(result, (tuple, list)) else list(result.values()) if isinstance(result, dict) else [result]
            )
            sums = [t.sum() for t in tensors if isinstance(t, facula.Tensor) and t.requires_grad]
            with contextlib.suppress(RuntimeError):
                found.append([frozen(g) for g in facula.autograd.grad(sum(sums), y)] if sums and y.requires_grad else None)
        except Exception as error:
            found.append((type(error).__name__, str(error)))
        found.append((frozen(x), frozen(y), facula.get_rng_state().sum().item()))
        if i % 4 == 3:
            change(random, space)
    return found, run


replayed = []


@pytest.mark.parametrize("begin", range(0, 300, 50))
def test_random_functions_give_what_python_gives(begin, monkeypatch):
    monkeypatch.setattr(_looks, "always_replays", True)
    for seed in range(begin, begin + 50):
        text = Writer(seed).text()
        eager, _ = outcomes(seed, text, lambda f: f)
        compiled, run = outcomes(seed, text, facula.compile)
        wrong = [i for i, (a, b) in enumerate(zip(eager, compiled, strict=True)) if a != b]
        assert not wrong, f"seed {seed}\n{text}\n{eager[wrong[0]]}\n{compiled[wrong[0]]}"
        replayed.append(run.replays)
    assert sum(count > 0 for count in replayed[-50:]) > 25
