"""Random programs, run compiled and eagerly: bits, versions, strides, flags and errors must be the same.

`python -m tests.compile_programs SEED COUNT` runs many; a program is known by its seed, and prints itself when the two differ.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings

import facula
import facula.nn.functional as F

SHAPES = [(96, 128), (96, 128), (96, 128), (128,), (96, 1), (1, 128), (2, 96, 128), (64,), ()]
FLOATS = [facula.float32, facula.float32, facula.float64, facula.bfloat16, facula.float16]
UNARY = "abs neg exp tanh sigmoid relu square floor sign sin cos erf log1p sqrt isnan logical_not reciprocal round".split()
BINARY = "add sub mul div maximum minimum atan2 eq lt ge ne fmod remainder hypot logaddexp".split()
WRITES = "ahead beside same slice copy addcdiv turned moments data folds".split()
INPLACE = "add_ mul_ sub_ div_ tanh_ relu_ clamp_ copy_ fill_ neg_ sigmoid_ abs_".split()


class Program:
    """A list of instructions, each a function of the values so far; made from a seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.seed = seed
        self.lines: list[str] = []
        self.grads = self.random.random() < 0.3
        count = self.random.randint(2, 5)
        self.inputs = [(self.random.choice(SHAPES), self.random.choice(FLOATS)) for _ in range(count - 1)]
        self.inputs.insert(0, ((96, 128), facula.float32))
        self.steps = [self.step() for _ in range(self.random.randint(4, 30))]

    def make_inputs(self):
        generator = facula.Generator().manual_seed(self.seed)
        made = []
        for shape, dtype in self.inputs:
            t = facula.randn(shape, generator=generator).to(dtype)
            if self.grads and self.random.random() < 2:
                t.requires_grad_()
            made.append(t)
        return made

    def step(self):
        """One instruction as (kind, what, numbers): which values it takes is a number modulo how many there are."""
        r = self.random
        kind = r.choices(
            ["unary", "binary", "number", "ternary", "inplace", "view", "reduce", "cast", "row", "drop", "item", "draw", "setitem", "heavy", "cat", "write"],
            [20, 25, 15, 6, 8, 8, 5, 4, 3, 6, 1, 2, 3, 1, 4, 8],
        )[0]
        return kind, r.random(), [r.randrange(1 << 16) for _ in range(4)], r.choice([0.5, -2.0, 3, 1, 0.1, 7.25, -1])

    def run(self, inputs, text=None):
        """The values at the end, and the errors on the way."""
        values, errors = list(inputs), []
        for number, (kind, chance, picks, scalar) in enumerate(self.steps):
            try:
                result = self.apply(kind, chance, picks, scalar, values, text)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                errors.append((number, type(error).__name__, str(error)))
                continue
            if isinstance(result, facula.Tensor):
                values.append(result)
        return self.kept(values), errors

    def kept(self, values):
        """The values that leave the function: of programs with gradients often a few, so that only the tape holds the others."""
        drawn = random.Random(f"kept {self.seed}")
        if not self.grads or drawn.random() < 0.4:
            return values
        first = len(self.inputs)
        return values[:first] + [v for v in values[first:-1] if drawn.random() < 0.2] + values[first:][-1:]

    def apply(self, kind, chance, picks, scalar, values, text):
        def pick(i):
            return values[picks[i] % len(values)]

        def choose(names):
            name = names[int(chance * len(names))]
            if text is not None:
                text.append(f"{kind} {name} {[p % len(values) for p in picks]} {scalar}")
            return name

        x = pick(0)
        if kind == "unary":
            return getattr(facula, choose(UNARY))(x)
        if kind == "binary":
            return getattr(facula, choose(BINARY))(x, pick(1))
        if kind == "number":
            name = choose(["add", "sub", "mul", "div", "lt", "rsub", "pow"])
            return getattr(facula, name)(x, scalar) if name != "pow" else x.abs() ** scalar
        if kind == "ternary":
            name = choose(["where", "addcmul", "lerp", "clamp"])
            if name == "where":
                return facula.where(x > 0, pick(1), pick(2))
            if name == "clamp":
                return x.clamp(-abs(scalar), abs(scalar))
            return facula.addcmul(x, pick(1), pick(2), value=scalar) if name == "addcmul" else facula.lerp(x, pick(1), scalar)
        if kind == "inplace":
            name = choose(INPLACE)
            other = pick(1) if chance * 7 % 1 < 0.5 else scalar
            arguments = {"clamp_": (-1, 1), "fill_": (scalar,), "copy_": (pick(1),)}.get(
                name, (other,) if name in ("add_", "mul_", "sub_", "div_") else ()
            )
            getattr(x, name)(*arguments)
            return None
        if kind == "view":
            name = choose(["t", "rows", "columns", "flat", "expand", "detach", "step", "unsqueeze"])
            return {
                "t": lambda: x.transpose(0, -1), "rows": lambda: x[1:], "columns": lambda: x[..., : x.shape[-1] // 2],
                "flat": lambda: x.reshape(-1), "expand": lambda: x.expand(2, *x.shape), "detach": x.detach,
                "step": lambda: x[::2], "unsqueeze": lambda: x.unsqueeze(0),
            }[name]()  # fmt: skip
        if kind == "reduce":
            name = choose(["sum", "mean", "amax", "sum_last", "mean_keep", "std"])
            if name in ("sum", "mean", "amax", "std"):
                return getattr(facula, name)(x)
            return x.sum(-1) if name == "sum_last" else x.mean(-1, keepdim=True)
        if kind == "cast":
            return x.to([facula.float32, facula.float64, facula.bfloat16, facula.int32, facula.bool][int(chance * 5)])
        if kind == "row":
            name = choose(["softmax", "layer_norm", "cumsum"])
            return {
                "softmax": lambda: x.softmax(-1),
                "layer_norm": lambda: F.layer_norm(x, x.shape[-1:]),
                "cumsum": lambda: x.cumsum(-1),
            }[name]()
        if kind == "drop":
            if len(values) > 2:
                del values[1 + picks[0] % (len(values) - 1)]
            return None
        if kind == "item":
            return x + (1.0 if float(x.detach().float().nan_to_num().sum()) > 0 else 2.0)
        if kind == "draw":
            return F.dropout(x, 0.3) if chance < 0.5 else x + facula.rand_like(x)
        if kind == "setitem":
            x[1:] = pick(1) if chance < 0.5 else scalar
            return None
        if kind == "heavy":
            return x @ x.transpose(-1, -2)
        if kind == "write":
            return self.write(choose(WRITES), x, pick(1), pick(2), scalar)
        parts = [x * scalar, pick(1), -x] if chance < 0.5 else [-x[..., 1:], x[..., :1]]
        if chance * 8 % 1 < 0.3:
            return facula.stack([x, pick(1) * scalar, x + 1], picks[1] % (x.dim() + 1))
        return facula.cat(parts, picks[1] % max(x.dim(), 1))

    @staticmethod
    def write(name, x, y, z, scalar):
        """Writes of what may wait to memory that may be real, read by others, or a part of what is read."""
        if name == "ahead":
            x[1:] = x[:-1] * scalar + 1
        elif name == "beside":
            x[..., 1:].add_((y * scalar)[..., :-1], alpha=0.5)
        elif name == "same":
            x[..., 1:].mul_(x[..., 1:] * scalar - 1)
        elif name == "slice":
            x[..., 2:-1] = (y + scalar)[..., 2:-1] * z[..., 2:-1]
        elif name == "copy":
            x.copy_(y * scalar + z)
        elif name == "addcdiv":
            x.addcdiv_(y * scalar, z.abs() + 1, value=0.5)
        elif name == "turned":
            x.transpose(0, -1).copy_((y * scalar).transpose(0, -1))
        elif name == "moments":
            y.mul_(0.9).add_(x, alpha=0.1)
            x.addcdiv_(y, (z * z).sqrt() + 1, value=scalar)
        elif name == "data":
            x.data.sub_(y.detach() * scalar)
        else:
            return (x * scalar).mean() + (y * z).max() - (x - y).square().sum()
        return None


def bits(t: facula.Tensor):
    """What tells two tensors apart: the bytes of the elements, and everything else that shows."""
    flat = t.detach().contiguous().reshape(-1)
    if flat.is_floating_point():  # the sign and the payload of a NaN are nobody's business
        flat = flat.masked_fill(flat.isnan(), float("nan"))
    number = {1: facula.uint8, 2: facula.int16, 4: facula.int32, 8: facula.int64, 16: facula.int64}[t.element_size()]
    history = type(t.grad_fn).__name__ if t.grad_fn is not None else None
    # strides of one element may be anything, and with them the place of a slice that has none
    strides = [stride for size, stride in zip(t.shape, t.stride()) if size != 1] if t.numel() else None
    offset = t.storage_offset() if t.numel() else None
    return flat.view(number), (t.dtype, t.shape, strides, offset, t._version, t.requires_grad, history)


def same(a, b) -> bool:
    (x, facts), (y, others) = bits(a), bits(b)
    return facts == others and facula.equal(x, y)


def outcome(program: Program, call):
    """Values, inputs after the call, gradients and errors."""
    inputs = program.make_inputs()
    facula.manual_seed(program.seed)
    values, errors = call(program, inputs)
    gradients = backward(program, values, inputs, errors) if program.grads else []
    # whether sums of gradients are new tensors or written to is the engine's affair, and with it what their versions are
    gradients += [t.grad.detach().clone() for t in inputs if t.is_leaf and t.grad is not None]
    return values + inputs + gradients, errors


def backward(program: Program, values, inputs, errors):
    """A backward pass, or several, of one of many kinds; its results."""
    drawn = random.Random(f"backward {program.seed}")
    total = sum((v.float().sum() for v in values if v.requires_grad and v.is_floating_point()), facula.zeros(()))
    if not total.requires_grad:
        return []
    seen = []
    for t in values:
        if t.requires_grad and not t.is_leaf and drawn.random() < 0.2:
            t.register_hook(lambda g: seen.append(g.detach().clone()) or g * 2)
    if drawn.random() < 0.3:  # what was saved must not notice, or must say so
        with facula.no_grad():
            drawn.choice(inputs).mul_(drawn.choice([2, 0.5]))
    kind = drawn.choice(["plain", "plain", "twice", "partial", "create_graph", "dropped", "thread"])
    leaves = [t for t in inputs if t.is_leaf and t.requires_grad]
    try:
        if kind == "twice":
            total.backward(retain_graph=True)
            total.backward()
        elif kind == "partial":
            some = drawn.sample(leaves, drawn.randint(1, len(leaves)))
            got = facula.autograd.grad(total, some, allow_unused=True, retain_graph=True)
            seen += [g.clone() for g in got if g is not None]
            total.backward()
        elif kind == "create_graph":
            first = [g for g in facula.autograd.grad(total, leaves, allow_unused=True, create_graph=True) if g is not None]
            seen += first
            again = sum((g.float().square().sum() for g in first if g.requires_grad), facula.zeros(()))
            if again.requires_grad:
                again.backward()
        elif kind == "thread":
            run_in_thread(total.backward)
        elif kind == "plain":
            total.backward()
    except RuntimeError as error:
        errors.append(("backward", str(error)))
    return seen


def run_in_thread(call):
    """Calls on another thread, and raises here what it raises there."""
    failed = []

    def work():
        try:
            call()
        except RuntimeError as error:
            failed.append(error)

    other = threading.Thread(target=work)
    other.start()
    other.join()
    if failed:
        raise failed[0]


def differences(seed: int, calls: int = 4) -> list[str]:
    """Why the program differs when it is compiled; empty where it does not."""
    program = Program(seed)
    warnings.simplefilter("ignore")
    compiled = facula._C._CompiledFunction(lambda p, inputs: p.run(inputs), ALWAYS)
    wanted, errors = outcome(program, lambda p, inputs: p.run(inputs))
    found = []
    for call in range(calls):
        values, raised = outcome(program, compiled)
        if raised != errors:
            found.append(f"seed {seed} call {call}: errors {raised} instead of {errors}")
        if len(values) != len(wanted):
            found.append(f"seed {seed} call {call}: {len(values)} values instead of {len(wanted)}")
            continue
        for i, (a, b) in enumerate(zip(values, wanted)):
            if not same(a, b):
                found.append(
                    f"seed {seed} call {call} value {i}: {bits(a)[1]} instead of {bits(b)[1]}, equal bits: {facula.equal(bits(a)[0], bits(b)[0])}"
                )
        if found:
            break
    compiled.reset()
    return found


class ALWAYS:
    """Settings: every call after the first is followed."""

    always = True


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    bad = 0
    for seed in range(first, first + count):
        found = differences(seed)
        if found:
            bad += 1
            print("\n".join(found), flush=True)
    print(f"{count} programs from {first} on, {bad} differ")


if __name__ == "__main__":
    main()
