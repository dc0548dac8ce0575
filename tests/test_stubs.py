"""The generated stubs: they are Python, know what the core has, and type an ordinary program."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import facula

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import facula as torch
from facula import nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def train(steps: int) -> float:
    net = Net(8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    values, indices = torch.max(x, 1)
    shape: torch.Size = x.shape
    picked: torch.Tensor = x[indices > 1, 0]
    total: torch.Tensor = (picked + 1.0).sum() * 2 - values.mean()
    return float(total.item()) + shape[0] + float(loss)


train(3)
"""
MISTAKES = """
import facula as torch

count: int = torch.ones(2).sum()
torch.ones(2).no_such_method()
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder in which the package has its stubs: those beside it, or freshly generated ones."""
    folder = tmp_path_factory.mktemp("typed")
    inside = folder / "facula"
    inside.mkdir()
    for path in Path(facula.__file__).parent.iterdir():
        (inside / path.name).symlink_to(path)
    if not (inside / "_C").exists():
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
    unknown = {name for name in methods if not hasattr(facula.Tensor, name)}
    assert not unknown, unknown


@pytest.mark.parametrize("module", ["fft", "linalg", "nn_functional", "sparse", "special"])
def test_stubs_of_the_core_modules_are_complete(package, module):
    tree = ast.parse((package / "facula" / "_C" / f"{module}.pyi").read_text())
    stated = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert stated == {name for name in vars(getattr(facula._C, module)) if not name.startswith("__")}


def test_a_typed_program(package):
    pytest.importorskip("mypy")
    (package / "program.py").write_text(PROGRAM)
    (package / "mistakes.py").write_text(MISTAKES)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(package / "cache"), "--follow-imports=silent", "program.py", "mistakes.py"],
        cwd=package, capture_output=True, text=True,
    )  # fmt: skip
    lines = result.stdout.splitlines()
    assert not [line for line in lines if line.startswith("program.py") and "error" in line], result.stdout + result.stderr
    assert any(line.startswith("mistakes.py:4: error: Incompatible types in assignment") for line in lines), result.stdout
    assert any(line.startswith("mistakes.py:5: error") and "no_such_method" in line for line in lines), result.stdout
