"""Compare the error of Facula's results with the error of PyTorch's, both against float64, forwards and backwards.

    python benchmarks/accuracy.py [--dtype float32] [--size small,middle] [--threads 1] [--level v3] [--only TEXT] [--json FILE]
    python benchmarks/accuracy.py --models [NAME ...]          fifteen models of timm in training mode

Needs PyTorch beside Facula. The cases are those of `sweep.py`. Both libraries get the same inputs, rounded to the dtype, and
PyTorch computes the same expression on these in float64, with gradients for a random cotangent. An error is the root of the
mean squared difference over the root of the mean squared value, the largest over the results of a case (or over its gradients).
A difference below a hundredth of the last place counts as that much, so that two exact results have the ratio 1. Cases are
repeated with several seeds and their errors averaged, since the error of a single number is mostly chance.

Models run in a process of their own, once for each library, from the same weights: `--side` is that process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from machine import add_level, at_level, describe

# draws, memory that nobody wrote, results that are no numbers, and writes of constants: no error is to be seen there
WITHOUT_ERROR = re.compile(
    r"m\.(rand|empty|bernoulli|multinomial|normal\(|poisson|distributions|tensor|as_tensor|from_numpy)|dropout|rrelu|gumbel|x2\.(normal|uniform|"
    r"exponential|log_normal|geometric|cauchy|random|zero|fill)_|tolist|numpy\(|pca_lowrank"
)
# factors that are unique only up to signs and phases, and the order of equal elements: a difference there says nothing
# (and which of several rows that go to one place stays)
NOT_UNIQUE = re.compile(r"flat\.sort|index_copy|put_\(|linalg\.(svd\(|eigh|eigvals|qr|lstsq\(s)")
SEEDS = {"small": 8, "middle": 4, "large": 1}
# where equal elements leave the choice open, which narrow floats have many of
TIED = re.compile(r"sort|topk|kthvalue|median|mode\(|cummax|cummin|\.max\(|\.min\(|unique")
ONE_UNIT = "rounded to within one unit in the last place, where the vector functions of MKL have half of one"
OTHER_ORDER = "products add in the order of another library, or round the states between steps to the narrow dtype"
# why an error may be more than one and a half times PyTorch's: the dtype and the case, and the reason
REASONS = [
    (r"hardsigmoid", "PyTorch multiplies by a sixth that is a float, in float64 too; Facula divides by six"),
    (r"float32 .*m\.(cos|sin|tan|asin|acos|sinh|cosh|tanh|exp|erf|erfinv|log|expm1)\(", ONE_UNIT),
    (r"float32 .*(special\.\w+\(|F\.(mish|tanhshrink|gelu))", ONE_UNIT),
    (r"conv|ilinear|LSTM|GRU|RNN|Linear|matmul|einsum|x @ y|addmm|outer|mv\(|bmm", OTHER_ORDER),
    (r"matrix_exp", "scaling, squaring and one quotient at all sizes, where PyTorch has polynomials for small ones"),
    (r"linalg\.(pinv|solve|svdvals|lu|inv|det|cholesky)|cholesky_solve|logdet|pca", "another algorithm, or another LAPACK"),
    (r"var", "means and squares are added in float runs, where PyTorch computes these in double"),
    (r"backward .*PReLU", "the products for the one weight are added in another order, and cancel"),
    (r"combinations|cartesian|index_select|embedding|table", "gradients of one place are added one by one in the dtype"),
    (r"norm|Norm", "products of a channel are added in float runs, where PyTorch adds in double"),
    (r"b?float16 .*(loss|entropy)", "the gradient of a mean is rounded to the narrow dtype before it is multiplied"),
    (r"float16 .*cdist", "distances are rounded to the narrow dtype before their derivative divides by them"),
]
CONVOLUTIONS = """convolutions: a window's products are one chain of float32 in oneDNN's channels-last kernels, and tiles of
    F(4x4, 3x3) with AVX2 and AVX-512, where PyTorch with AVX-512 adds blocks of sixteen channels"""
EPSILON = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
MODELS = """resnet18 resnet50 densenet121 mobilenetv3_small_050 efficientnet_b0 convnext_atto vit_tiny_patch16_224
    deit_tiny_patch16_224 mixer_s32_224 regnety_002 ghostnet_100 repvgg_a0 xcit_nano_12_p16_224 poolformer_s12
    nfnet_l0""".split()


def tensors(m, value) -> list:
    """Return the floating-point and complex tensors of a nested result."""
    if isinstance(value, m.Tensor):
        return [value] if value.is_floating_point() or value.is_complex() else []
    return [t for item in value for t in tensors(m, item)] if isinstance(value, (tuple, list)) else []


def array(m, t) -> numpy.ndarray:
    """Return the values in float64 or complex128."""
    return t.detach().resolve_conj().to(m.complex128 if t.is_complex() else m.float64).contiguous().numpy()


def converted(m, value, change):
    """Apply `change` to every floating-point or complex tensor of a scope's value."""
    if isinstance(value, m.Tensor):
        return change(value) if value.is_floating_point() or value.is_complex() else value
    if isinstance(value, list) and value and isinstance(value[0], m.Tensor):
        return [converted(m, t, change) for t in value]
    return value


def scopes(torch, facula, sweep, size: str, dtype: str, seed: int) -> list[tuple]:
    """Return (library, names) for PyTorch, Facula and the float64 reference, on the same rounded values."""
    n = sweep.lengths(size)
    data = sweep.arrays(n, seed)
    sides = []
    for m in (torch, facula):
        names = sweep.scope(m, data, n)
        if dtype != "float32":
            low = lambda t, m=m: t.to(getattr(m, dtype)) if t.dtype == m.float32 else t  # noqa: E731
            names = {name: converted(m, value, low) for name, value in names.items()}
        sides.append((m, names))
    wide = lambda t: t.to(torch.complex128) if t.is_complex() else t.double()  # noqa: E731
    return [*sides, (torch, {name: converted(torch, value, wide) for name, value in sides[0][1].items()})]


class Run:
    """Evaluate one expression in one library, and hold its results and gradients as arrays of float64."""

    def __init__(self, m, names: dict, text: str, dtype: str, module_state: dict | None):
        used = set(re.findall(r"[A-Za-z]\w*", text)) | {"m", "F", "nn"}
        names = {name: converted(m, value, lambda t: t.detach().clone()) for name, value in names.items() if name in used}
        self.m, self.leaves, self.state = m, [], None
        if " | " in text:
            build, given = text.split(" | ")
            m.manual_seed(0)
            module = eval(build, names)
            if module_state is not None:
                module.load_state_dict({key: m.from_numpy(value) for key, value in module_state.items()})
            self.state = {key: value.detach().numpy() for key, value in module.state_dict().items()}
            names["module"] = module.to(getattr(m, dtype))
            text = f"module({given})"
            self.leaves = list(module.parameters())
        self.names, self.text = names, text

    def forward(self) -> list[numpy.ndarray]:
        with self.m.no_grad():
            return [array(self.m, t) for t in tensors(self.m, eval(self.text, self.names))]

    def backward(self, constants) -> list[numpy.ndarray] | None:
        """Return the gradients for a fixed cotangent, None where PyTorch has none."""
        m, names, leaves = self.m, dict(self.names), list(self.leaves)
        for name in dict.fromkeys(re.findall(r"[a-z]\w*", self.text)):
            value = names.get(name)
            if isinstance(value, m.Tensor) and (value.is_floating_point() or value.is_complex()) and name not in constants:
                names[name] = value.requires_grad_()
                leaves.append(value)
        outputs = [t for t in tensors(m, eval(self.text, names)) if t.requires_grad]
        if not leaves or not outputs:
            return None
        cotangents = []
        for k, t in enumerate(outputs):
            values = numpy.random.default_rng(k).standard_normal(tuple(t.shape)).astype(numpy.float32)
            cotangents.append(m.from_numpy(values).to(t.dtype))
        grads = m.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
        return [numpy.zeros(0) if g is None else array(m, g) for g in grads]


def error(actual: list[numpy.ndarray], exact: list[numpy.ndarray]) -> float:
    """Return the largest relative error over the arrays, where the exact values are finite and within the dtype."""
    worst = 0.0
    for a, e in zip(actual, exact, strict=True):
        if a.shape != e.shape:
            return math.inf
        there = numpy.isfinite(e) & (numpy.isfinite(a) | (abs(e) < 6e4))
        size = numpy.sqrt(numpy.mean(abs(e[there]) ** 2)) if there.any() else 0.0
        if size > 0:
            off = float(numpy.sqrt(numpy.mean(abs(a[there] - e[there]) ** 2)) / size)
            worst = max(worst, off if math.isfinite(off) else math.inf)
    return worst


def errors_of(sides, text: str, dtype: str, what: str, constants) -> tuple[float, float] | None:
    """Return the errors of PyTorch and Facula, None where PyTorch has no such kernel or gradient."""
    (torch, _), (facula, _), _ = sides
    state, runs = None, []
    try:
        for (m, names), kind in zip((sides[0], sides[2]), (dtype, "float64")):
            torch.set_default_dtype(getattr(torch, kind if kind == "float64" else "float32"))
            run = Run(m, names, text, kind, state)
            state = state or run.state
            runs.append(run.forward() if what == "forward" else run.backward(constants))
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        return None
    finally:
        torch.set_default_dtype(torch.float32)
    theirs, exact = runs
    if not theirs:
        return None
    run = Run(facula, sides[1][1], text, dtype, state)
    ours = run.forward() if what == "forward" else run.backward(constants)
    return error(theirs, exact), error(ours, exact)


def measure_ops(options) -> list[dict]:
    import sweep
    import torch

    import facula

    for m in (torch, facula):
        m.set_num_threads(options.threads)
    found: dict[tuple, list] = {}
    failed: dict[tuple, str] = {}
    for size, dtype in itertools.product(options.size.split(","), options.dtype.split(",")):
        for seed in range(SEEDS[size]):
            sides = scopes(torch, facula, sweep, size, dtype, seed)
            for (group, text), what in itertools.product(sweep.cases(), ("forward", "backward")):
                if WITHOUT_ERROR.search(text) or NOT_UNIQUE.search(text) or not re.search(options.only, f"{group}: {text}"):
                    continue
                if what == "backward" and dtype != "float32" and TIED.search(text):
                    continue
                key = (size, dtype, group, text, what)
                try:
                    pair = errors_of(sides, text, dtype, what, sweep.CONSTANT)
                except Exception as problem:  # reported as a row: a case that only Facula refuses is no case less
                    failed[key] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:150]}"
                    continue
                if pair:
                    found.setdefault(key, []).append(pair)
    rows = [named(key) | {"failed": text} for key, text in failed.items()]
    for key, pairs in found.items():
        theirs, ours = (math.sqrt(statistics.fmean(e * e for e in side)) for side in zip(*pairs))
        least = EPSILON[key[1]] / 100
        ratio = 1.0 if math.isinf(theirs) else (ours + least) / (theirs + least)  # no number where PyTorch has none either
        row = {"torch": rounded(theirs), "facula": rounded(ours), "ratio": round(ratio, 3)}
        rows.append(named(key) | row | reason_for(key, row["ratio"]))
    return rows


def reason_for(key: tuple, ratio: float) -> dict:
    """Return why the error is that much larger than PyTorch's; an empty text where nobody knows."""
    if ratio <= 1.5:
        return {}
    _, dtype, _, text, what = key
    return {"reason": next((why for pattern, why in REASONS if re.search(pattern, f"{dtype} {what} {text}")), "")}


def named(key: tuple) -> dict:
    return dict(zip(("size", "dtype", "group", "case", "what"), key))


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


# ---- models


def let_torchvision_load(torch) -> None:
    """Define the ops that PyPI's torchvision looks for at its import: it has none beside another build of PyTorch."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for op in ("nms", "qnms"):
            torch.library.define(f"torchvision::{op}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def run_model(name: str, library: str, weights: str, dtype: str, threads: int) -> None:
    """Train one step of a model, and write loss, outputs and gradients; make the weights where the file is not there yet."""
    if library == "facula":
        import facula.compat

        facula.compat.install()
    import torch

    let_torchvision_load(torch)
    import timm

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False).train()
    file = Path(weights)
    if not file.exists():
        generator = numpy.random.default_rng(0)
        state = {key: value.numpy() for key, value in model.state_dict().items()}
        for key, value in state.items():  # weights that begin as zeros would hide what is before them
            if key.endswith("weight") and not value.any():
                state[key] = generator.normal(0, 0.05, value.shape).astype(value.dtype)
        numpy.savez(file, **state)
    with numpy.load(file) as state:
        model.load_state_dict({key: torch.from_numpy(state[key]) for key in state.files})
    for module in model.modules():  # what draws would differ between dtypes
        if type(module).__name__ in ("Dropout", "DropPath"):
            module.eval()
    model.to(getattr(torch, dtype))
    size = model.default_cfg["input_size"]
    images = numpy.random.default_rng(1).standard_normal((4, *size)).astype(numpy.float32)
    output = model(torch.from_numpy(images).to(getattr(torch, dtype)))
    cotangent = numpy.random.default_rng(2).standard_normal(tuple(output.shape)).astype(numpy.float32)
    output.backward(torch.from_numpy(cotangent).to(output.dtype))
    grads = {f"grad {key}": p.grad.double().numpy() for key, p in model.named_parameters() if p.grad is not None}
    numpy.savez(f"{weights}.{library}.{dtype}.npz", output=output.detach().double().numpy(), **grads)


def measure_models(options) -> list[dict]:
    rows = []
    for name in options.models or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            weights = f"{folder}/weights.npz"
            found = {}
            for library, dtype in (("torch", "float64"), ("torch", "float32"), ("facula", "float32")):
                command = [sys.executable, __file__, "--side", library, name, weights, dtype, "--threads", str(options.threads)]
                subprocess.run(command, check=True)
                with numpy.load(f"{weights}.{library}.{dtype}.npz") as arrays:
                    found[library, dtype] = {key: arrays[key] for key in arrays.files}
        exact = found["torch", "float64"]
        row = {"model": name}
        for what, keys in (("output", ["output"]), ("gradients", [key for key in exact if key.startswith("grad ")])):
            errors = [total_error(found[library, "float32"], exact, keys) for library in ("torch", "facula")]
            row[what] = {"torch": rounded(errors[0]), "facula": rounded(errors[1]), "ratio": round(errors[1] / errors[0], 3)}
            if row[what]["ratio"] > 1.5:  # the layers of the models, one by one: all others are as exact as PyTorch's
                row[what]["reason"] = " ".join(CONVOLUTIONS.split())
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def total_error(actual: dict, exact: dict, keys: list[str]) -> float:
    """Return the relative error over all elements of the named arrays together."""
    off = sum(float(((actual[key] - exact[key]) ** 2).sum()) for key in keys)
    return math.sqrt(off / sum(float((exact[key] ** 2).sum()) for key in keys))


def show(rows: list[dict]) -> None:
    for row in sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"]):
        if row["ratio"] > 1.2:
            name = f"{row['size']:6} {row['dtype']:8} {row['what']:8} {row['case']}"
            print(f"{row['ratio']:8.2f}  {row['facula']:.2e} {row['torch']:.2e}  {name}  {row.get('reason', '')}")
    for row in rows:
        if "failed" in row:
            print("  FAILED", row["dtype"], row["what"], row["case"], row["failed"])
    for dtype in EPSILON:
        ratios = [row["ratio"] for row in rows if row.get("dtype") == dtype and "ratio" in row]
        if ratios:
            above = sum(ratio > 1.5 for ratio in ratios)
            median = statistics.median(ratios)
            unexplained = sum(row.get("reason") == "" for row in rows if row.get("dtype") == dtype)
            print(f"{dtype}: {len(ratios)} cases, median {median:.3f}, highest {max(ratios):.2f}", end=", ")
            print(f"above 1.5: {above}, of these without a reason: {unexplained}")
    for what in ("output", "gradients"):
        ratios = [row[what]["ratio"] for row in rows if what in row]
        if ratios:
            print(f"models, {what}: median {statistics.median(ratios):.3f}, highest {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default=",".join(EPSILON))
    parser.add_argument("--size", default="small,middle", help="of small, middle and large, with commas between")
    parser.add_argument("--only", default="", help="regular expression that `group: case` must match")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="*", help="models of timm in place of the ops")
    parser.add_argument("--side", nargs=4, metavar=("LIBRARY", "MODEL", "WEIGHTS", "DTYPE"), help=argparse.SUPPRESS)
    parser.add_argument("--json", help="write the figures here")
    add_level(parser)
    options = parser.parse_args()
    at_level(options.level)
    if options.side:
        library, name, weights, dtype = options.side
        return run_model(name, library, weights, dtype, options.threads)
    numpy.seterr(all="ignore")
    rows = measure_ops(options) if options.models is None else measure_models(options)
    show(rows)
    if options.json:
        facts = json.dumps({"machine": describe(), "threads": options.threads})
        lines = ",\n".join(json.dumps(row) for row in rows)
        Path(options.json).write_text(f'{facts[:-1]}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
