"""The generated stubs: they are Python, know what the core has, and type an ordinary program."""

import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """import facula as torch
import facula.nn.functional as F
from facula import Tensor, fft, linalg, nn, optim, special
from facula.autograd import Function, grad
from facula.autograd.function import FunctionCtx
from facula.distributions import Categorical, Normal, kl_divergence
from facula.optim.lr_scheduler import CosineAnnealingLR
from facula.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding="same")
        self.norm = nn.BatchNorm2d(width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1))
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = F.adaptive_avg_pool2d(F.avg_pool2d(F.max_pool2d(x, 2), 2, stride=None), 1).flatten(1)
        return F.log_softmax(self.layers(x) * self.scale, dim=1)


class Squares(Dataset[Tensor]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(float(index * index))


class Double(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        return gradient * 2


def train(steps: int) -> float:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net(4).to(device)
    optimizer = optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=steps)
    criterion = nn.NLLLoss()
    data = TensorDataset(torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,)))
    first, rest = random_split(data, [6, 2])
    loader = DataLoader(first, batch_size=2, shuffle=True)
    scaler = torch.amp.GradScaler("cpu")
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: Tensor = criterion(net(x.to(device)), y)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        correct: int = int((net(torch.randn(2, 3, 8, 8)).argmax(1) == 1).sum())
    return total + correct + scheduler.get_last_lr()[0]


def numbers() -> None:
    a = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    q, r = linalg.qr(a)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    inverse: Tensor = linalg.inv(a)
    norm: Tensor = linalg.norm(a, ord="fro")
    sign, logabsdet = linalg.slogdet(a)
    spectrum: Tensor = fft.rfft(a, n=4, dim=-1, norm="ortho")
    back: Tensor = torch.fft.irfft(spectrum)
    bessel: Tensor = special.bessel_j0(a) + torch.special.expit(a)
    (gradient,) = grad(norm, [a])
    values, indices = a.max(dim=1)
    shape: torch.Size = a.shape
    rows: int = a.size(0)
    b = torch.einsum("ij,jk->ik", a, a) @ a[0] + torch.cat([a[:, 0]]).clamp(min=0)
    listed: list[float] = b.tolist()
    mask: Tensor = (a > 0) & (a < 1)
    c = torch.where(mask, a, torch.zeros_like(a)).to(torch.float32).reshape(-1).view(9)
    torch.save({"a": a, "c": c}, "file.pt")
    loaded = torch.load("file.pt", weights_only=True)
    distribution = Normal(torch.zeros(2), torch.ones(2))
    likelihood: Tensor = distribution.log_prob(distribution.rsample((3,)))
    divergence: Tensor = kl_divergence(distribution, Normal(torch.ones(2), 1.0))
    chosen: Tensor = Categorical(logits=torch.randn(3)).sample()
    doubled = Double.apply(a)
    mapped = torch.func.vmap(torch.sin)(a)
    compiled = torch.compile(Net(2))
    stats: dict[str, Tensor] = {name: p.detach().mean() for name, p in Net(2).named_parameters()}
    state = Net(2).state_dict()
    Net(2).load_state_dict(state, strict=True)
    out, (h, cell) = nn.LSTM(3, 4, num_layers=2, batch_first=True)(torch.randn(1, 5, 3))
    attention = F.scaled_dot_product_attention(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
    loss = F.cross_entropy(torch.randn(3, 5), torch.tensor([1, 0, 4]), label_smoothing=0.1)
    nn.init.kaiming_uniform_(torch.empty(3, 3), nonlinearity="relu")
    torch.testing.assert_close(a, a.clone(), rtol=0.0, atol=0.0)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    hook = Net(2).register_forward_hook(lambda module, inputs, output: None)
    hook.remove()
    generator = torch.Generator().manual_seed(3)
    noise = torch.rand(2, generator=generator, device="cpu")
"""
MISTAKES = """import facula as torch
import facula.nn.functional as F
from facula import linalg, nn, optim, special
from facula.utils.data import DataLoader, TensorDataset

x = torch.ones(2, 2)
count: int = x.sum()  # type: ignore[assignment]
x.no_such_method()  # type: ignore[attr-defined]
x.shape = (4,)  # type: ignore[misc,assignment]
torch.no_such_function(x)  # type: ignore[attr-defined]
F.no_such_function(x)  # type: ignore[attr-defined]
F.relu("x")  # type: ignore[arg-type]
F.linear(x)  # type: ignore[call-arg]
F.cross_entropy(x, x, reduction=1)  # type: ignore[arg-type]
F.max_pool2d("x", 2)  # type: ignore[arg-type]
F.dropout(x, p="0.5")  # type: ignore[arg-type]
torch.stft("x", 4)  # type: ignore[arg-type]
torch.compile(3)  # type: ignore[call-overload]
torch.distributed.all_reduce("x")  # type: ignore[arg-type]
linalg.solve(x)  # type: ignore[call-arg]
linalg.inv(x, upper=True)  # type: ignore[call-arg]
torch.fft.rfft(x, n="4")  # type: ignore[arg-type]
special.bessel_j0()  # type: ignore[call-arg]
nn.Linear("two", 2)  # type: ignore[arg-type]
nn.Conv2d(3, 4)  # type: ignore[call-arg]
optim.SGD(x, lr="fast")  # type: ignore[arg-type]
optim.Adam([x], learning_rate=0.1)  # type: ignore[call-arg]
optim.lr_scheduler.StepLR([x], 3)  # type: ignore[arg-type]
DataLoader(TensorDataset(x), batch_size="4")  # type: ignore[arg-type]
torch.distributions.Normal(0.0, "1")  # type: ignore[arg-type]
torch.save(x)  # type: ignore[call-arg]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder in which the package has its stubs: those beside it, or freshly generated ones."""
    folder = tmp_path_factory.mktemp("typed")
    inside = folder / "facula"
    inside.mkdir()
    for path in Path(facula.__file__).parent.iterdir():
        (inside / path.name).symlink_to(path)
    if not ((inside / "_C").exists() and (inside / "__init__.pyi").exists()):
        pytest.importorskip("yaml")
        sys.path.insert(0, str(ROOT))
        try:
            from codegen import emit_stubs, schema
        finally:
            sys.path.remove(str(ROOT))
        emit_stubs.emit(schema.load(ROOT / "ops"), inside, _write)
    return folder


def _write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_stubs_are_python_and_complete(package):
    tree = ast.parse((package / "facula" / "_C" / "__init__.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (tensor,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor"]
    methods = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    assert {"add", "matmul", "zeros", "cat", "where"} <= functions
    assert {"add_", "sum", "view", "backward", "__add__", "__getitem__"} <= methods
    unknown = {name for name in functions if not hasattr(facula._C, name)}
    assert not unknown, unknown
    unknown = {name for name in methods - {"__buffer__"} if not hasattr(facula.Tensor, name)}  # a name since Python 3.12
    assert not unknown, unknown


@pytest.mark.parametrize("module", ["fft", "linalg", "nn_functional", "sparse", "special"])
def test_stubs_of_the_core_modules_are_complete(package, module):
    tree = ast.parse((package / "facula" / "_C" / f"{module}.pyi").read_text())
    stated = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert stated == {name for name in vars(getattr(facula._C, module)) if not name.startswith("__")}


def test_every_method_of_tensor_has_a_type(package):
    """But those that PyTorch removed, or that are missing: they only say so."""
    tree = ast.parse((package / "facula" / "_C" / "__init__.pyi").read_text())
    (tensor,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor"]
    stated = {getattr(node, "name", "") or node.target.id for node in tensor.body if isinstance(node, (ast.FunctionDef, ast.AnnAssign))}
    public = {name for name in dir(facula.Tensor) if not name.startswith("_")}
    assert not {name for name in public - stated if "NotImplementedError" not in (getattr(facula.Tensor, name).__doc__ or "")}


def _parameters(nodes):
    """{function: the parameters of all its overloads}; special methods and properties have none to call by name."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            if "property" not in map(ast.unparse, node.decorator_list):
                found.setdefault(node.name, set()).update(x.arg for x in ast.walk(node.args) if isinstance(x, ast.arg))
    return found


@pytest.mark.parametrize("module", ["__init__", "fft", "linalg", "nn_functional", "sparse", "special"])
def test_parameters_are_those_that_the_core_tells(package, module):
    tree = ast.parse((package / "facula" / "_C" / f"{module}.pyi").read_text())
    owner = facula._C if module == "__init__" else getattr(facula._C, module)
    places = [(owner, tree.body), *((facula.Tensor, c.body) for c in tree.body if getattr(c, "name", "") == "Tensor")]
    compared = {
        (name, frozenset(set(inspect.signature(getattr(owner, name)).parameters) - {"self"}), frozenset(stated - {"self"}))
        for owner, body in places
        for name, stated in _parameters(body).items()
        if (owner, name) not in ((facula.Tensor, "to"), (facula.Tensor, "nonzero"))  # *args, and a function that is a method too
        and getattr(getattr(owner, name), "__text_signature__", "") is not None
    }
    different = {name: (sorted(there), sorted(stated)) for name, there, stated in compared if there != stated}
    assert compared and not different, different


def _public_names():
    """A program that asks for every public name of PyTorch that is here."""
    sys.path.insert(0, str(ROOT))
    try:
        from codegen import supported
    finally:
        sys.path.remove(str(ROOT))
    missing, (_, public) = supported.table()["MODULES"], supported.names()
    del public["torch.Tensor"]
    here = [
        (module.replace("torch", "facula", 1), name)
        for module, listed in public.items()
        for name in listed
        if name not in missing.get(module, ()) and not supported._is_whole(f"{module}.{name}", public, missing)
    ]
    return "".join(f"from {module} import {name} as name{i}\n" for i, (module, name) in enumerate(here))


@pytest.mark.slow
@pytest.mark.parametrize("name, text", [("program", PROGRAM), ("mistakes", MISTAKES), ("names", None)])
def test_programs_under_strict_mypy(package, name, text):
    """All pass: the first as it is, the second because each of its mistakes is one, in the line that says so, and the third
    because every public name is where it is looked for."""
    pytest.importorskip("mypy")
    (package / f"{name}.py").write_text(_public_names() if text is None else text)
    told, whole = _mypy(package, f"{name}.py")
    told = [line for line in told if line.startswith(f"{name}.py:")]  # what its author sees
    assert not told and re.search(r"Success|checked 1 source file", whole), "\n".join(told) or whole


@pytest.mark.slow
def test_the_stubs_under_strict_mypy(package):
    pytest.importorskip("mypy")
    files = ["facula/__init__.pyi", *(f"facula/_C/{path.name}" for path in (package / "facula" / "_C").glob("*.pyi"))]
    told, whole = _mypy(package, *files)
    assert not told and "no issues found in 7 source files" in whole, whole


# Examples that a type checker refuses although they run: results of subclasses that are Tensor to it, names that the example
# before it imports, classes that are put together, and unions of which the example knows the member.
NOT_TYPED = set(
    """
    dtype ao.quantization.ObserverBase quantization.ObserverBase autograd.profiler.profile
    distributed.tensor.DTensor distributed.tensor.experimental.implicit_replication distributed.tensor.parallel.loss_parallel
    distributed.checkpoint.FileSystemWriter distributed.checkpoint.TensorStorageMetadata distributed.rpc.new_method
    distributed.checkpoint.format_utils.torch_save_to_dcp distributed.elastic.agent.server.WorkerGroup
    distributed.elastic.multiprocessing.Std fx.Proxy fx.proxy.TracerBase fx.proxy.GraphAppendingTracer fx.proxy.MetaProxy
    fx.tensor_type.TensorType fx.passes.infra.pass_base.PassBase.call fx.passes.infra.pass_base.PassBase.ensures
    fx.passes.infra.pass_base.PassBase.requires nn.attention.flex_attention.FlexKernelOptions
    nn.utils.spectral_norm.SpectralNormStateDictHook
    """.split()
)
# what examples do for brevity: values of calls that have none, empty lists, what is None only elsewhere, arguments as a dict
BRIEF = re.compile(
    r"\[(func-returns-value|var-annotated|import-untyped|untyped-decorator|no-untyped-def)\]|Item \"None\" of"
    r"|\"\*\*dict\[str, float\]"
)


@pytest.mark.slow
def test_examples_of_docstrings_have_the_types_of_what_they_call(package):
    pytest.importorskip("mypy")
    pytest.importorskip("yaml")
    sys.path.insert(0, str(ROOT))
    try:
        from codegen import docstrings
    finally:
        sys.path.remove(str(ROOT))
    names, lines = [], []
    for place, name in enumerate(docstrings.names()):
        examples = [e for e in doctest.DocTestParser().get_examples(name.text) if not e.exc_msg and "Traceback" not in e.want]
        source = re.sub(r"\b(import|from) torch\b", r"\1 facula", "".join(e.source for e in examples))
        body = re.sub(r"^import facula$", "import facula as torch", source, flags=re.M).splitlines()
        lines += [f"def f{place}() -> None:", *(f"    {line}" for line in body), "    pass"]
        names += [name.path] * (len(body) + 2)
    head = "import facula as torch, facula; from facula import nn; import facula.nn.functional as F"
    (package / "examples.py").write_text("\n".join([head, *lines, ""]))
    told, whole = _mypy(package, "--allow-any-generics", "--allow-untyped-defs", "--allow-untyped-calls", "examples.py")
    assert "checked 1 source file" in whole and len(lines) > 15_000, whole
    wrong = [(int(line.split(":")[1]), line) for line in told if line.startswith("examples.py:") and not BRIEF.search(line)]
    wrong = [f"{names[n - 2]}: {line}" for n, line in wrong if names[n - 2] not in NOT_TYPED]
    assert not wrong, "\n".join(wrong)


def _mypy(package, *what):
    """The lines in which `mypy --strict` finds something, and all that it says."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(package / "cache"), "--follow-imports=silent", *what]
    result = subprocess.run(command, cwd=package, capture_output=True, text=True)
    assert result.returncode in (0, 1) and not result.stderr, result.stderr
    return [line for line in result.stdout.splitlines() if ": error: " in line], result.stdout


def test_the_typed_program_runs(tmp_path):
    program = PROGRAM + "\n\ntrain(3)\nnumbers()\n"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
