"""Random programs, compiled and eager: values bit by bit, strides, versions, gradients, memory that is shared, errors and warnings.

    python -m tests.fuzz.compiled --cases 1000000 --seed 7 --jobs 2

A case is one program (the grammar of tests/compare, or a chain of light ops on tensors that fit together) and several calls of it:
as it is, with other numbers, other sizes, a statement left out or exchanged, under other modes. The calls are made eagerly,
and by one compiled function, which follows its recordings wherever it can. What can be seen after each call, and after a
backward pass through its results, has to be the same.
"""

from __future__ import annotations

import builtins
import json
import random
import re
import sys
import types
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import facula
from facula.compiler import _looks

from . import runner

sys.path.append(str(Path(__file__).parents[2]))
from tests.compare import execute, grammar  # noqa: E402

BREAK = "\n#\n"
LARGEST = 300_000  # elements
MODES = {
    "plain": nullcontext,
    "no_grad": facula.no_grad,
    "inference": facula.inference_mode,
    "autocast": lambda: facula.autocast("cpu", dtype=facula.bfloat16),
}
# Light ops on tensors of one shape or of ones that broadcast, and what keeps, writes, views and asks.
LIGHT = """
= torch.{exp|sin|tanh|sigmoid|sqrt|abs|neg|log1p|square|floor|relu|reciprocal|rsqrt|erf|sign|isnan|logical_not}({a})
= torch.{add|sub|mul|div|maximum|minimum|pow|atan2|hypot|lt|ge|eq|fmod|copysign|logaddexp}({a}, {b})
= torch.{add|sub|mul|div|maximum|pow|lt|fmod|remainder}({a}, {num})
= {a} * {num} + {b}
= ({a} - {b}) / ({b}.abs() + {num})
= torch.where({a} > {num}, {a}, {b})
= torch.{addcmul|addcdiv}({a}, {b}, {c}, value={num})
= torch.lerp({a}, {b}, {num})
= torch.clamp({a}, -1, {num})
= F.{gelu|silu|softplus|leaky_relu|elu|hardswish|mish}({a})
= {a}.to(torch.{float64|float32|bfloat16|float16|int32|bool})
= {a}.{sum|mean|amax|amin|std|logsumexp|softmax|log_softmax|cumsum|prod|argmax}({-1|0})
= {a}.{sum|mean|amax|norm|std}({-1|0}, keepdim=True)
= {a}.{sum|mean|max|var}()
= {a}.{t()|transpose(0, -1)|unsqueeze(0)|flip(-1)|reshape(-1)|expand(2, *{a}.shape)|contiguous()|clone()|detach()}
= {a}[{:1|::2|..., 1:|0|..., ::2|None}]
= torch.cat([{a}, {b}], {-1|0})
= torch.stack([{a}, {b}])
= torch.rand_like({a}) * {b}
= F.dropout({a}, 0.5, True)
= {a} @ {b}.transpose(-1, -2)
= F.layer_norm({a}, {a}.shape[-1:])
{a}.{add_|sub_|mul_|div_|copy_|maximum}({b})
{a}.{add_|mul_|div_|clamp_min_|fill_|pow_}({num})
{a}.{exp_|sin_|tanh_|neg_|abs_|relu_|sigmoid_|zero_}()
{a}.add_({b}, alpha={num})
{a}.addcmul_({b}, {c}, value={num})
{a}[{:1|::2|..., 1:|0|..., ::2}] = {b}[{:1|::2|..., 1:|0|..., ::2}]
{a}[{1:|:-1}] = {a}[{:-1|1:}] * {num} + {b}[{1:|:-1}]
{a}[..., 1:].{add_|mul_|copy_}(({b} * {num})[..., {1:|:-1}])
{a}.{add_|sub_|mul_|copy_}({b} * {num} + {c})
{a}.addcdiv_({b} * {num}, {c}.abs() + 1)
{a}.mul_({num}).add_({b}, alpha=0.5); {c}.addcdiv_({a}, {b}.abs() + 1)
{a}.transpose(0, -1).{copy_|add_}(({b} * {num}).transpose(0, -1))
{a} += {b} * {num}
= torch.cat([-{a}[..., 1:], {b} * {num}], {-1|0}) * {num}
= torch.stack([{a} * {num}, {b}], {0|-1}) + {num}
= ({a} * {num}).{view(-1)|unsqueeze(0)|reshape(1, *{a}.shape)|view({a}.shape)} * {num}
= ({a} - {b}).square().{mean|sum}() + ({a} * {num}).{max|min}()
= ({a} * {num}).to(torch.{float64|bfloat16|int32}) * {num} + {b}
{a}[{:1|..., 1:|0}] = {num}
{a}[{:1|..., 1:|0}].mul_({num})
{a}.masked_fill_({b} > 0, {num})
torch.{add|mul|maximum|div}({a}, {b}, out={c})
torch.{exp|sin|abs}({a}, out={b})
log.append({a}.{sum().item()|mean().tolist()|numel()|stride()|_version|data_ptr() == {b}.data_ptr()})
log.append(bool(({a} > {num}).any()))
if {a}.sum() > 0:\n    {a} = {b} * {num}
{a} = {b}
{a} = {a} {+|-|*|/} {b}
for _ in range(3):\n    {a} = {a} * {num} + {b}
{a}.data.mul_({num})
{a}.numpy()[...] = 1 if not {a}.requires_grad else 0
{a}.requires_grad_()
with torch.no_grad():\n    {a}.mul_({num})
{new}, = torch.autograd.grad({a}.sum(), {b}, create_graph={True|False}, allow_unused=True)
{a}.sum().backward({|retain_graph=True})
{a}.register_hook(lambda g: g * 2)
{a}.retain_grad()
{new} = torch.utils.checkpoint.checkpoint(lambda t: t.sin().exp() * {num}, {a}, use_reentrant=False)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):\n    {new} = {a}.exp() * {b}
{new} = Double.apply({a} * {num})
{new}, {new2} = both(lambda: {a}.exp() + {num}, lambda: {b}.sin() * {num})
kept.append({a} * {num})
{new} = kept.pop() + {a}
del {gone}
raise ValueError('on purpose')
""".strip().split("\n")
LIGHT = [line.replace("\\n", "\n") for line in LIGHT]
SHAPES = [((4, 6), (4, 6), (1, 6)), ((2, 3, 4), (2, 3, 4), (4,)), ((8,), (8,), ()), ((3, 3), (3, 3), (3, 1))]


class Chain(grammar.Writer):
    """Writes programs of light ops; `gone` is a variable that no later statement uses."""

    def program(self):
        choice, lines = self.random.choice, []
        for shape in choice(SHAPES):
            dtype = choice(["float32"] * 6 + ["float64", "float64", "bfloat16", "float16", "int64", "complex64"])
            lines.append(f"{self.new()} = mk({list(shape)}, '{dtype}', {self.random.randint(0, 999)}, {self.random.random() < 0.4})")
        for _ in range(self.random.randint(4, 24)):
            lines.append(self.statement())
        return lines

    def statement(self):
        weights = [4 if line.startswith("= ") else 0.2 if line.startswith("raise") else 1 for line in LIGHT]
        return self.fill(self.random.choices(LIGHT, weights)[0])

    def slot(self, name, given):
        if name == "gone":
            if len(self.names) < 4:
                return "()"
            return self.names.pop(self.random.randrange(3, len(self.names)))
        return super().slot(name, given)


def case(seed: str, number: int) -> str:
    """The text of a case: its calls, and the statements."""
    drawn = random.Random(f"calls-{seed}-{number}")
    writer = Chain(seed, number) if drawn.random() < 0.7 else grammar.Writer(seed, number)
    lines = writer.program()
    spare = Chain(f"{seed}-spare", number)
    spare.names = list(writer.names)
    calls = [{}, {}]
    for _ in range(drawn.randint(2, 6)):
        call = {}
        if drawn.random() < 0.3:
            call["numbers"] = drawn.choice(["0.5", "3", "-2", "1.25"])
        if drawn.random() < 0.2:
            call["size"] = drawn.choice([2, 3, 1000, 2048])
        if drawn.random() < 0.2:
            call["without"] = drawn.randrange(len(lines))
        if drawn.random() < 0.2:
            call["other"] = [drawn.randrange(3, max(4, len(lines))), spare.statement()]
        if drawn.random() < 0.15:
            call["mode"] = drawn.choice(list(MODES))
        if drawn.random() < 0.2:
            call["kept"] = True
        calls.append(call)
    if drawn.random() < 0.25:
        for call in calls:
            call.setdefault("size", 2048)
    return BREAK.join([json.dumps(calls), *lines])


def statements(lines: list[str], call: dict) -> list[str]:
    """What a call runs."""
    lines = list(lines)
    if "other" in call and call["other"][0] < len(lines):
        lines[call["other"][0]] = call["other"][1]
    if call.get("without", len(lines)) < len(lines):
        del lines[call["without"]]
    if "numbers" in call:
        number = re.compile(r"(?<=[ (])(?:2|0\.5|-1|3\.|-2\.5)(?=[),]|$)")
        lines = [line if "mk(" in line or "fit(" in line else number.sub(call["numbers"], line) for line in lines]
    return lines


def steps(codes, scope, ends):
    """The function that is compiled."""
    for code in codes:
        try:
            exec(code, scope)
            ends.append("ok")
        except Exception as error:
            ends.append(f"{type(error).__name__}: {error}")


class Seen:
    """What can be seen of the variables of a call."""

    def __init__(self):
        self.places: dict = {}

    def show(self, value, deep=0):
        if isinstance(value, facula.Tensor):
            return self.tensor(value, deep)
        if isinstance(value, (tuple, list)) and deep < 4:
            return [type(value).__name__, *(self.show(v, deep + 1) for v in value[:9])]
        if isinstance(value, (bool, int, float, complex, str, type(None), facula.dtype, facula.Size)):
            return repr(value)
        return type(value).__name__

    def tensor(self, t, deep):
        kind = (type(t).__name__, str(t.dtype), tuple(t.shape), str(t.layout), t.requires_grad, t.is_leaf, t.is_conj(), t.is_neg())
        with facula.no_grad(), facula.autocast("cpu", enabled=False):
            if t.layout != facula.strided:
                return [*kind, self.bits(t.detach().to_dense())]
            grad = self.show(t.grad, deep + 1) if (t.is_leaf or t.retains_grad) and deep < 3 else None
            version = -1 if t.is_inference() else t._version
            backward = type(t.grad_fn).__name__
            values = self.bits(t.detach())
        place = self.places.setdefault(t.untyped_storage().data_ptr(), len(self.places)) if t.numel() else -1
        strides = [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1]  # others mean nothing
        return [*kind, strides if t.numel() > 1 else [], t.storage_offset(), version, backward, place, values, grad]

    @staticmethod
    def bits(t):
        t = facula.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1))
        if t.is_complex():
            t = facula.view_as_real(t).reshape(-1)
        if t.is_floating_point():
            t = facula.where(t.isnan(), facula.full_like(t, float("nan")), t)  # any NaN is as good as another
        return t.view(facula.uint8).numpy().tobytes() if t.numel() else b""


def library():
    """The names that every program starts with; `mk` makes the last dimension of what it makes longer, where the call says so."""
    with mock.patch.dict(sys.modules, torch=facula):  # it says torch
        names = execute.library()
    make = names["mk"]
    names["size"] = 1

    def mk(shape, dtype, seed, grad):
        factor = names["size"]
        if shape and factor > 1:
            shape = [*shape[:-1], shape[-1] * factor]
        return make(shape, dtype, seed, grad)

    names["mk"] = mk
    return names


def trace(calls: list, lines: list[str], names: dict, compile) -> list:
    """What is seen after every call, and after a backward pass through what it leaves."""
    function = compile(types.FunctionType(steps.__code__.replace(), globals(), "steps"))
    found, kept = [], []
    for call in calls:
        codes, outs = [], []
        for line in statements(lines, call):
            try:
                codes.append(builtins.compile(line, "program", "exec"))
                outs.append("out=" in line)
            except SyntaxError:
                continue
        names["size"] = call.get("size", 1)
        names["leaves"] = leaves = []
        scope = {**names, "leaves": leaves, "log": [], "kept": kept}
        ends: list = []
        facula.manual_seed(1)
        with warnings.catch_warnings(record=True) as caught, MODES[call.get("mode", "plain")]():
            warnings.simplefilter("always")
            try:
                function(codes, scope, ends)
            except facula.OutOfMemoryError as error:  # of what is made at the end of the call
                ends += [f"OutOfMemoryError: {error}"] * (len(codes) - len(ends) + 1)
        try:
            execute.restore(facula)
        except facula.OutOfMemoryError:  # for what still waits, as settings that ops look at are changed
            scope.clear()
            kept.clear()
            leaves.clear()
            execute.restore(facula)
            found.append([])
            continue
        # warnings are caught by thread, and that of graphs of graphs is given once
        said = [] if any("both(" in s or "create_graph" in s for s in lines) else sorted({w.category.__name__ for w in caught})
        variables = {k: v for k, v in scope.items() if execute.VARIABLE.fullmatch(k)}
        seen = Seen()
        large = any(isinstance(v, facula.Tensor) and v.numel() > LARGEST for v in variables.values())
        grown = any(out and end != "ok" for out, end in zip(outs, ends, strict=False))  # by a refused op: holds what memory held
        if large or grown or any("OutOfMemoryError" in end for end in ends):
            found.append([])
            kept.clear()
            continue
        row = [ends, said, {k: seen.show(v) for k, v in variables.items()}, seen.show(scope["log"]), seen.show(leaves)]
        row.append(facula.get_rng_state().sum().item())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row.append(execute.attempt(lambda scope=scope: execute.backward(facula, scope)))
            row.append([seen.show(leaf.grad) for leaf in leaves])
        found.append(row)
        if not call.get("kept"):
            kept.clear()
    return found


def difference(eager: list, compiled: list) -> str | None:
    """Where two traces differ, in words."""
    for number, (one, other) in enumerate(zip(eager, compiled, strict=True)):
        if not one or not other:  # not to be compared
            return None
        for part, (a, b) in enumerate(zip(one, other, strict=True)):
            if a == b:
                continue
            if isinstance(a, dict):
                names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
                a, b, part = a.get(names[0]), b.get(names[0]), f"variables {', '.join(names)}"
            elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
                at = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
                a, b, part = a[at], b[at], f"{part}[{at}]"
            return f"call {number}, {part}: eager {str(a)[:300]} compiled {str(b)[:300]}"
    return None


def check(text: str, names: dict | None = None, compile=None) -> str | None:
    """How the compiled calls of a case differ from the eager ones; None where they do not."""
    calls, *lines = text.split(BREAK)
    names = names or library()
    _looks.always = True
    try:
        eager = trace(json.loads(calls), lines, names, lambda function: function)
        return difference(eager, trace(json.loads(calls), lines, names, compile or facula.compile))
    except facula.OutOfMemoryError:  # for what shows results
        return None
    finally:
        _looks.always = False
        execute.restore(facula)


class Compiled:
    """The fuzzer that `runner` runs."""

    def __init__(self, seed):
        self.seed = str(seed)

    def begin(self, worker):
        facula.set_num_threads(1)
        self.names = library()

    def case(self, index):
        return case(self.seed, index)

    def check(self, text):
        return check(text, self.names)

    def program(self, text):
        return f"from tests.fuzz import compiled\n\nprint(compiled.check({text!r}))\n"


def main():
    return runner.main(lambda options: Compiled(options.seed), __doc__)


if __name__ == "__main__":
    sys.exit(main())
