"""Random programs within a memory budget give what they give without one, bit for bit, or the budget's error and nothing broken.

    python -m tests.fuzz.budget --cases 10000 --seed 7 --jobs 2

A case is a program (budget_texts.py) and a share: the budget is what is held at its start, and this share of what the program takes
above that at its highest without one. Every storage may go (a threshold of 0). What is compared: how each statement ended, values,
strides, versions and nodes of all variables, gradients, what hooks and nodes showed, buffers, generators. Where a request is
refused, its text has to be the budget's, everything that the statement does not write has to be as it was, and, once the budget is
off, the statement, if it can be tried again, and the rest of the program have to give what they always gave.
"""

from __future__ import annotations

import copy
import gc
import json
import random
import re
import sys
import warnings
from collections import Counter
from functools import lru_cache
from unittest import mock

import facula
from facula import _C

from . import budget_texts, runner
from .budget_texts import DRAWS
from .compiled import execute

REFUSED = re.compile(r"^\w[\w.]*: cannot get [\d.,]+ \w+ within the memory budget of [\d.,]+ \w+: ")
SIZES = (32, 64, 64, 96, 128)
# Who wrote last is known as long as the storage is a cell's.
OVERWRITTEN = re.compile(r": \w+ wrote to it in place \(version \d+ when saved, now \d+\)")
SMALLEST_KEPT = 33  # matrices with fewer rows are in small blocks (4 KiB), which go beyond a budget rather than be refused
SLACK = 1 << 20  # what threads keep for themselves, and arenas


def first(gradients, instead):
    """The first gradient that is there."""
    return next((g for g in gradients if g is not None), instead)


def saved(tensor) -> list:
    """What the node of a tensor says that it has kept."""
    node, found = tensor.grad_fn, []
    for name in sorted(dir(node)):
        if name.startswith("_saved_"):
            value = getattr(node, name)
            found.append((name, bits(value) if isinstance(value, facula.Tensor) else repr(value)))
    return found


def bits(t) -> bytes | None:
    """The bytes of a copy: nothing learns where those of the tensor are."""
    if t is None:
        return None
    with facula.no_grad(), facula.autocast("cpu", enabled=False):
        t = t.detach()
        flat = facula.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1))
    return flat.view(facula.uint8).numpy().tobytes() if flat.numel() else b""


def total(scope: dict):
    """A sum over all variables that have a history."""
    names = sorted(
        name for name, t in scope.items() if re.match(r"v\d", name) and isinstance(t, facula.Tensor) and t.requires_grad
    )
    return facula.stack([scope[name].float().sum() for name in names]).sum()


def raises(gradient):
    raise ValueError("on purpose")


class Doubles(facula.autograd.Function):
    """Keeps its input as an attribute, as many programs do."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.sin()
        return ctx.kept * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept.cos()


class Keeps(facula.autograd.Function):
    """Keeps inputs, something between and its result."""

    @staticmethod
    def forward(ctx, x, y):
        between = x.sigmoid()
        result = between * y
        ctx.save_for_backward(x, y, between, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, y, between, result = ctx.saved_tensors
        return grad * y * between * (1 - between) + result * 0, grad * between + x * 0


class Counts(facula.autograd.Function):
    """Has results that have no gradient, and one that nobody asks for."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        sign = x > 0
        ctx.mark_non_differentiable(sign)
        return x * y, sign, x.exp()

    @staticmethod
    def backward(ctx, grad, _, other):
        (y,) = ctx.saved_tensors
        return grad * y + other, None


class Writes(facula.autograd.Function):
    """Writes its input."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(0.5)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


def library() -> dict:
    """The names that every program starts with, but for those of `world`."""
    with mock.patch.dict(sys.modules, torch=facula):  # it says torch
        names = {key: value for key, value in execute.library().items() if key in ("torch", "nn", "F", "both")}
    functions = {f.__name__: f for f in (first, saved, bits, raises, total, Doubles, Keeps, Counts, Writes)}
    tools = {"checkpoint": facula.utils.checkpoint.checkpoint, "saved_tensors_hooks": facula.autograd.graph.saved_tensors_hooks}
    return {**names, **functions, **tools, "copy": copy}


MODULES = {
    "lstm": lambda n: facula.nn.LSTM(n, n),
    "cell": lambda n: facula.nn.GRUCell(n, n),
    "attention": lambda n: facula.nn.MultiheadAttention(n, 4, 0.1, batch_first=True),
    "encoder": lambda n: facula.nn.TransformerEncoderLayer(n, 4, 2 * n, 0.1, batch_first=True),
    "convolutions": lambda n: facula.nn.Sequential(
        facula.nn.Conv2d(4, 8, 3, padding=1, bias=False),
        facula.nn.BatchNorm2d(8),
        facula.nn.ReLU(True),
        facula.nn.Conv2d(8, 4, 1),
    ),
}
OWN = re.compile(r"(v\d+|[lbx]\d|i0|mean|var)$")


def world(case: dict, names: dict, squeeze) -> dict:
    """What a program works on."""
    import numpy as np

    n, dtype, drawn = case["n"], case["dtype"], np.random.default_rng(case["n"])
    kind = getattr(facula, dtype)

    def matrix(*shape):
        return facula.tensor(drawn.standard_normal(shape).astype(dtype))

    facula.manual_seed(1)
    scope = dict(names, n=n, squeeze=squeeze, log=[], kept=[])
    if any("register" in line or "retain_grad" in line for _, line in case["lines"]):
        scope["both"] = lambda f, g: (f(), g())  # hooks and gradients that are kept show which thread was first
    scope |= {name: matrix(n, n).requires_grad_() for name in ("l0", "l1", "l2")}
    scope |= {name: matrix(n).requires_grad_() for name in ("b0", "b1")}
    scope["leaves"] = [scope[name] for name in ("l0", "l1", "l2", "b0", "b1")]
    scope["arrays"] = [drawn.standard_normal((n, n)).astype(dtype)]
    scope |= {
        "x0": facula.from_numpy(scope["arrays"][0]),
        "x1": matrix(n, n),
        "i0": facula.tensor(drawn.integers(0, n, (n, n))),
    }
    scope |= {"mean": facula.zeros(n, dtype=kind), "var": facula.ones(n, dtype=kind), "own": facula.Generator().manual_seed(5)}
    asked = " ".join(line for _, line in case["lines"])
    scope |= {name: make(n).to(kind) for name, make in MODULES.items() if name + "(" in asked}
    scope["gradients"] = lambda t: facula.autograd.grad(t.sum(), scope["leaves"], retain_graph=True, allow_unused=True)
    return scope


def tensors(scope: dict) -> dict:
    found = {name: value for name, value in scope.items() if OWN.match(name) and isinstance(value, facula.Tensor)}
    found |= {f"kept[{place}]": t for place, t in enumerate(scope["kept"])}
    for module in MODULES.keys() & scope.keys():
        found |= {f"{module}.{name}": t for name, t in scope[module].state_dict(keep_vars=True).items()}
    return found


def look(scope: dict) -> dict:
    """What can be seen of a program's tensors and generators: (name, what) and the value."""
    seen = {}
    for name, t in tensors(scope).items():
        version = -1 if t.is_inference() else t._version
        strides = [stride for stride, size in zip(t.stride(), t.shape) if size > 1]
        node = type(t.grad_fn).__name__
        seen[name, "form"] = (
            str(t.dtype),
            tuple(t.shape),
            strides,
            t.storage_offset(),
            version,
            t.requires_grad,
            t.is_leaf,
            node,
        )
        seen[name, "values"] = bits(t)
        seen[name, "gradient"] = bits(t.grad) if t.is_leaf or t.retains_grad else None
    seen["generator", "state"], seen["own", "state"] = bits(facula.get_rng_state()), bits(scope["own"].get_state())
    return seen


def differing(one: dict, other: dict) -> str | None:
    """Where two looks differ, in words."""
    for key in [*one, *(key for key in other if key not in one)]:
        a, b = one.get(key, "nothing"), other.get(key, "nothing")
        if a != b:
            return f"{' '.join(map(str, key))}: {apart(a, b)}"
    return None


def apart(a, b) -> str:
    if isinstance(a, bytes) and isinstance(b, bytes) and len(a) == len(b):
        places = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
        return (
            f"{len(places)} of {len(a)} bytes, from {places[0]} on: {a[places[0] :][:8].hex()} and {b[places[0] :][:8].hex()}"
        )
    return f"{str(a)[:200]} and {str(b)[:200]}"


class Bound:
    """What a program may take: what is held at its start, and a share of `room`, which it takes above that without a bound.
    `small` bytes more may be in blocks that are never refused."""

    def __init__(self, set_budget, room: int, share: float, small: int):
        self.set_budget, self.room, self.share, self.small = set_budget, room, share, small
        self.refused = self.over = ""
        self.start = self.most = 0

    def begin(self) -> None:
        facula.cpu.empty_cache()
        self.start = facula.cpu.memory_allocated()
        self.squeeze(self.share)

    def squeeze(self, share: float | None) -> None:
        """Change the share, as programs do; None: no bound."""
        self.look()
        facula.cpu.reset_peak_memory_stats()
        if share is None or self.refused:
            self.most = 0
            self.set_budget(None)
        else:
            limit = self.start + int(self.room * share)
            self.set_budget(limit)
            self.most = max(limit, facula.cpu.memory_allocated())

    def look(self) -> None:
        """Note where more was held than allowed."""
        highest = facula.cpu.max_memory_allocated()
        if self.most and highest > self.most + self.small + SLACK:
            self.over = (
                f"{highest >> 10} KiB were held, {self.most >> 10} are allowed, {self.start >> 10} were held at the start"
            )


BEGIN = (1, False, facula.float32, "highest", True)


def settings() -> tuple:
    """What a program may have set."""
    modes = facula.are_deterministic_algorithms_enabled(), facula.get_default_dtype(), facula.get_float32_matmul_precision()
    return (facula.get_num_threads(), *modes, facula.is_grad_enabled())


def change(threads: int, deterministic: bool, dtype, precision: str, gradients: bool) -> None:
    facula.set_num_threads(threads)
    facula.use_deterministic_algorithms(deterministic)
    facula.set_default_dtype(dtype)
    facula.set_float32_matmul_precision(precision)
    facula.set_grad_enabled(gradients)


compiled = lru_cache(4096)(lambda line: compile(line, "program", "exec"))


def attempt(line: str, scope: dict) -> str:
    try:
        exec(compiled(line), scope)
        return "ok"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def counts() -> dict:
    """How often bytes went and came back, in this process."""
    rows = _C._budget_report(facula.device("cpu"))["rows"]
    return {"let go": sum(row[2] for row in rows), "again": sum(row[4] for row in rows)}


class Run:
    """One run of a program, within `bound` if there is one: how its statements ended, and what there is to see."""

    def __init__(self, case: dict, names: dict, bound: Bound | None = None, until: int | None = None):
        self.case, self.names, self.bound, self.ends = case, names, bound, []
        self.problem = self.seen = None
        self.room, counted = 0, Counter(counts())
        change(case["threads"], *BEGIN[1:])
        self.scope = world(case, names, bound.squeeze if bound else lambda share: None)
        try:
            gc.collect()  # graphs that hold themselves, of the run before
            facula.cpu.empty_cache()
            facula.cpu.reset_peak_memory_stats()
            before = facula.cpu.memory_allocated()
            if bound:
                bound.begin()
            for place, (kind, line) in enumerate(case["lines"][:until]):
                if not self.step(place, kind, line):
                    return
            self.room = facula.cpu.max_memory_allocated() - before
            if bound:
                bound.squeeze(None)
            self.seen = look(self.scope)
        finally:
            if bound:
                bound.squeeze(None)
                self.problem = self.problem or bound.over
                self.counts = Counter(counts()) - counted
            self.log = self.scope["log"]
            self.scope.clear()  # functions in it hold it
            change(*BEGIN)

    def step(self, place: int, kind: str, line: str) -> bool:
        """Run one statement, and return whether the program goes on."""
        own, noted = self.scope["own"], len(self.scope["log"])
        states = facula.default_generator.clone_state(), own.clone_state()  # without an allocation, which may be refused
        end = attempt(line, self.scope)
        if self.bound and end.startswith("OutOfMemoryError: ") and not self.bound.refused:
            self.bound.refused = end.removeprefix("OutOfMemoryError: ")
            self.bound.squeeze(None)
            self.problem = self.after_refusal(place, kind, line)
            if self.problem or kind == "else":
                return False
            facula.set_rng_state(states[0].get_state())
            own.set_state(states[1].get_state())
            del self.scope["log"][noted:]
            end = attempt(line, self.scope)
        self.ends.append(end)
        return True

    def after_refusal(self, place: int, kind: str, line: str) -> str | None:
        """What the refused request has broken. Gradients that a pass has changed are put back."""
        if not REFUSED.match(self.bound.refused):
            return f"statement {place}, {line}: the error's text is {self.bound.refused}"
        after, present = look(self.scope), settings()
        before = Run(self.case, self.names, until=place).seen
        change(*present)
        new = set(re.findall(r"\bv\d+\b", line)) - {name for name, _ in before}  # a block may have made them, and gone on
        found = differing(self.comparable(before, kind, line, new), self.comparable(after, kind, line, new))
        if found:
            return f"statement {place}, {line}: refused, and left {found}"
        for name, t in tensors(self.scope).items() if kind == "pass" else ():
            if t.is_leaf or t.retains_grad:
                raw = before.get((name, "gradient"))
                t.grad = None if raw is None else facula.frombuffer(bytearray(raw), dtype=t.dtype).clone().view(t.shape)
        return None

    def comparable(self, seen: dict, kind: str, line: str, new: set) -> dict:
        """What a refused statement must not have changed."""
        mentioned = {name for name in re.findall(r"\w+", line) if name in self.scope}
        if "step()" in line or "for leaf" in line:
            mentioned |= {"l0", "l1", "l2", "b0", "b1"}
        found = {name: t for name, t in tensors(self.scope).items() if kind == "else" and name.split(".")[0] in mentioned}
        memory = {t.untyped_storage().data_ptr() for t in found.values()}
        written = {name for name, t in tensors(self.scope).items() if t.untyped_storage().data_ptr() in memory}
        written |= {"generator", "own"} if DRAWS.search(line) else set()
        skipped = {"gradient"} if kind != "pure" else set()
        return {key: value for key, value in seen.items() if key[0] not in written | new and key[1] not in skipped}


def check(text: str, names: dict | None = None, set_budget=None, told: dict | None = None) -> str | None:
    """How a program within its budget differs from one without; None where it does not. `told` gets what happened."""
    case, names = json.loads(text), names or library()
    threads, warned = facula.get_num_threads(), warnings.catch_warnings()
    with warned:
        warnings.simplefilter("ignore")
        smallest = _C._budget_threshold(0)
        try:
            plain = Run(case, names)
            small = plain.room if case["n"] < SMALLEST_KEPT else 0
            bound = Bound(set_budget or facula.cpu.memory_budget, plain.room, case["share"], small)
            within = Run(case, names, bound)
        finally:
            _C._budget_threshold(smallest)
            facula.set_num_threads(threads)
    if told is not None:
        told.update(within.counts)
        told["refused" if bound.refused else "done"] += 1
        told["cut"] += within.seen is None
    if within.problem:
        return within.problem
    for (_, line), *ends in zip(case["lines"], plain.ends, within.ends):
        a, b = (OVERWRITTEN.sub("", end) for end in ends)
        if a != b:
            return f"{line}: ended with {a}, and within the budget with {b}"
    if within.seen is None:
        return None
    for place, (a, b) in enumerate(zip(plain.log, within.log)):
        if a != b:
            return f"entry {place} of the log: {apart(a, b)}"
    if len(plain.log) != len(within.log):
        return f"the log has {len(plain.log)} entries, and within the budget {len(within.log)}"
    return differing(plain.seen, within.seen)


def case(seed: str, number: int) -> str:
    """The text of a case."""
    writer = budget_texts.Program(seed, number)
    lines, drawn = writer.program(), random.Random(f"room-{seed}-{number}")
    share = round(drawn.choice((0.3, 0.5, 0.7, 0.9, 1.2)) * drawn.uniform(0.8, 1.2), 3)
    dtype = drawn.choice(("float32",) * 6 + ("float64",))
    return json.dumps(
        {"n": drawn.choice(SIZES), "dtype": dtype, "share": share, "threads": drawn.choice((1, 1, 1, 2)), "lines": lines}
    )


class Budget:
    """The fuzzer that `runner` runs."""

    def __init__(self, seed):
        self.seed = str(seed)

    def begin(self, worker):
        self.names = library()
        gc.collect()
        gc.freeze()

    def case(self, index):
        return case(self.seed, index)

    def check(self, text):
        return check(text, self.names)

    def program(self, text):
        return f"from tests.fuzz import budget\n\nprint(budget.check({text!r}))\n"


if __name__ == "__main__":
    sys.exit(runner.main(lambda options: Budget(options.seed), __doc__))
