"""Execute random programs and write down everything that can be seen after every statement.

    python tests/compare/execute.py PROGRAMS.json RESULTS.jsonl                  # PyTorch
    python -m facula tests/compare/execute.py PROGRAMS.json RESULTS.jsonl        # Facula

A line of the results is one program: for every statement how it ended (`ok` or the class of the exception), the classes of its
warnings, what has changed since the statement before (of every tensor the dtype, shape, strides, flags, values and gradient), and the
text of the exception or the warnings, which is not compared.
The last entry is a backward pass through the sum of all variables. The file imports nothing of Facula's, since PyTorch's interpreter runs it.
A program may also be one text: then every name that it makes is a variable.
A program that ends the process costs that program alone: a child does the work, and a new one goes on behind it.
"""

import contextlib
import json
import os
import re
import signal
import sys
import threading
import warnings

SHOWN = 48  # elements of a tensor that are written down
LARGEST = 20_000  # elements; a program that makes a larger tensor ends there
SECONDS = 20  # a program
VARIABLE = re.compile(r"\bv\d+\b")


class TooLong(BaseException):
    pass


def library():
    """The namespace that every program starts with."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.set_warn_always(True)
    nn = torch.nn

    def fit(tensor, *sizes):
        """Bring a tensor into a shape: its elements, repeated as often as needed."""
        count = 1
        for size in sizes:
            count *= size
        flat = tensor.reshape(-1)
        if not (flat.is_floating_point() or flat.is_complex()):
            flat = flat.float()
        if flat.dtype in (torch.float16, torch.bfloat16):
            flat = flat.float()
        return flat[torch.arange(count) % max(1, flat.numel())].reshape(sizes)

    def both(one, other):
        """Run two functions in two threads at once; the first exception comes out."""
        results = [None, None]

        def run(place, function):
            try:
                results[place] = function()
            except Exception as error:
                results[place] = error

        threads = [threading.Thread(target=run, args=item) for item in enumerate((one, other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def hooked(module, kind):
        def hook(module, given, *rest):
            if kind == "forward":
                return rest[-1] * 2
            if kind == "forward_pre":
                return tuple(t * 2 for t in given)
            return tuple(None if g is None else g * 2 for g in given)

        getattr(module, f"register_{kind}_hook")(hook)
        return module

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 + 0 * x

    class ClampGrad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_non_differentiable(y)
            return x.view_as(x), y

        @staticmethod
        def backward(ctx, grad, _):
            return grad.clamp(-1, 1), None

    def mk(shape, dtype, seed, grad):
        drawn = np.random.default_rng(seed)
        values = drawn.standard_normal(shape) * 2
        if dtype.startswith("complex"):
            values = values + 1j * drawn.standard_normal(shape)
        if "int" in dtype:
            values = np.round(values * 3)
            values = np.abs(values) if dtype == "uint8" else values
        if dtype == "bool":
            values = values > 0
        tensor = torch.tensor(np.asarray(values)).to(getattr(torch, dtype))
        if grad and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_()
            names["leaves"].append(tensor)
            return tensor * 1
        return tensor

    names = {"torch": torch, "nn": nn, "F": nn.functional, "fw": torch.autograd.forward_ad, "inf": float("inf")}
    names |= {"fit": fit, "both": both, "hooked": hooked, "Double": Double, "ClampGrad": ClampGrad, "mk": mk}
    return names


class Notes:
    """What can be seen of the variables of a program, and what of it has changed."""

    def __init__(self, torch):
        self.torch = torch
        self.before: dict = {}

    def changes(self, variables: dict) -> dict:
        now = {name: self.show(value) for name, value in variables.items()}
        changed = {name: shown for name, shown in now.items() if self.before.get(name, 0) != shown}
        changed |= {name: None for name in self.before if name not in now}
        self.before = now
        return changed

    def show(self, value):
        try:
            if isinstance(value, self.torch.Tensor):
                return self.tensor(value)
            if isinstance(value, (tuple, list)):
                return [type(value).__name__ if type(value) in (tuple, list) else "named", *(self.show(v) for v in value[:8])]
            if isinstance(value, (bool, int, float, complex, str, type(None), self.torch.dtype)):
                return repr(value)[:60].replace("facula.", "torch.")
            return type(value).__name__
        except Exception as error:
            return "shown: " + type(error).__name__

    def tensor(self, t):
        torch = self.torch
        row = {"dtype": str(t.dtype).split(".")[-1], "shape": list(t.shape), "layout": str(t.layout).split(".")[-1]}
        plain = row["layout"] == "strided"
        row["requires_grad"], row["is_leaf"] = bool(t.requires_grad), bool(t.is_leaf)
        row["lazy"] = [bool(t.is_conj()), bool(t.is_neg()), bool(t.is_inference())]
        if plain and t.numel() > 1:
            row["stride"] = [stride for stride, size in zip(t.stride(), t.shape) if size != 1]
        with torch.no_grad():
            d = t.detach() if plain else t.detach().to_dense()
            row["values"] = self.values(d.reshape(-1)[:SHOWN])
        if (t.is_leaf or t.retains_grad) and t.grad is not None:
            row["grad"] = self.tensor(t.grad)
        return row

    def values(self, flat):
        torch = self.torch
        if flat.is_complex():
            return [v for z in flat.resolve_conj().resolve_neg().to(torch.complex128).tolist() for v in (number(z.real), number(z.imag))]
        return [number(v) for v in flat.resolve_neg().to(torch.float64).tolist()]


def number(value: float):
    return "nan" if value != value else float(f"{value:.6g}")


def run(program: list[str] | str, names: dict) -> list:
    torch = names["torch"]
    own = VARIABLE.fullmatch
    if isinstance(program, str):
        own, program = (lambda name: name not in names and name[0] != "_" and name != "leaves"), [program]
    torch.manual_seed(0)
    scope = dict(names, leaves=[])
    names["leaves"] = scope["leaves"]
    notes, rows = Notes(torch), []

    def seen():
        variables = {k: v for k, v in scope.items() if own(k) and not isinstance(v, (type, type(torch), type(run)))}
        return notes.changes(variables | {f"leaf{i}": leaf for i, leaf in enumerate(scope["leaves"])})

    for line in program:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            end, message = attempt(lambda line=line: exec(line, scope))
        for name in set(VARIABLE.findall(line)) - set(scope):  # of a statement that failed: what follows should have something to work on
            scope[name] = torch.tensor([[1.5, -0.5, 2.0], [0.0, 0.25, -3.0]])
        message = message or "; ".join(str(w.message)[:160] for w in caught)
        rows.append([end, sorted({w.category.__name__ for w in caught}), seen(), message])
        if any(isinstance(v, torch.Tensor) and v.numel() > LARGEST for v in scope.values()):
            return rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        end, message = attempt(lambda: backward(torch, scope))
        rows.append([end, [], seen(), message])
    return rows


def backward(torch, scope):
    variables = [v for k, v in sorted(scope.items()) if VARIABLE.fullmatch(k) and isinstance(v, torch.Tensor) and v.requires_grad]
    variables = [v for v in variables if v.layout == torch.strided and not v.is_inference()]
    if variables:
        sum((v.abs() if v.is_complex() else v).to(torch.float64).sum() for v in variables).backward()


def attempt(action) -> tuple[str, str]:
    try:
        action()
        return "ok", ""
    except Exception as error:
        return type(error).__name__, str(error)[:160]


def restore(torch):
    """Put back what a statement that failed halfway may have left."""
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(1)


def work(programs: list, start: int, stop: int, file) -> None:
    names = library()

    def too_long(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, too_long)
    for index in range(start, stop):
        signal.alarm(SECONDS)
        try:
            row = run(programs[index], names)
        except TooLong:
            row = "too long"
        signal.alarm(0)
        restore(names["torch"])
        file.write(json.dumps([index, row]) + "\n")
        file.flush()


def main(source: str, target: str) -> None:
    with open(source) as file:
        programs = json.load(file)
    done = 0
    with open(target, "w"):
        pass
    while done < len(programs):
        child = os.fork()
        if not child:
            with open(target, "a") as file, contextlib.suppress(KeyboardInterrupt):
                # nothing that a program prints, or a library says as it ends, belongs to the results
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                work(programs, done, len(programs), file)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        with open(target) as file:
            done = sum(1 for _ in file)
        if done < len(programs):
            if not os.WIFSIGNALED(status):
                sys.exit(f"execute: the process ended with {os.waitstatus_to_exitcode(status)} at program {done}")
            with open(target, "a") as file:
                file.write(json.dumps([done, f"died of signal {os.WTERMSIG(status)}"]) + "\n")
            done += 1


if __name__ == "__main__":
    main(*sys.argv[1:3])
