"""The safetensors format, through its own package."""

import os
import subprocess
import sys

import pytest

import facula

safetensors = pytest.importorskip("safetensors", reason="the safetensors package is not installed")

PROGRAM = """
import sys
import torch
import safetensors.torch
from safetensors import safe_open

path = sys.argv[1]
tensors = {
    "float32": torch.randn(3, 4), "float64": torch.randn(2).double(), "int64": torch.arange(5),
    "bfloat16": torch.ones(2, dtype=torch.bfloat16), "float16": torch.ones(2).half(), "bool": torch.tensor([True, False]),
    "complex64": torch.ones(2, dtype=torch.complex64), "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5),
    "uint8": torch.tensor([1, 255], dtype=torch.uint8), "channels_last": torch.randn(1, 2, 3, 3).contiguous(),
}

def check(loaded):
    assert loaded.keys() == tensors.keys()
    for name, expected in tensors.items():
        assert loaded[name].dtype == expected.dtype and loaded[name].shape == expected.shape, name
        assert torch.equal(loaded[name], expected), name

safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
check(safetensors.torch.load_file(path))
check(safetensors.torch.load(safetensors.torch.save(tensors)))
with safe_open(path, framework="pt") as file:
    assert file.metadata() == {"format": "pt"}
    assert torch.equal(file.get_slice("float32")[1:], tensors["float32"][1:])

model, other = (torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)) for _ in range(2))
safetensors.torch.save_model(model, path)
assert safetensors.torch.load_model(other, path) == (set(), [])
assert torch.equal(other[0].weight, model[0].weight)

shared = torch.ones(4)
try:
    safetensors.torch.save_file({"a": shared, "b": shared[:2]}, path)
except RuntimeError as error:
    assert "share memory" in str(error)
else:
    raise AssertionError("shared memory was not refused")
print("done")
"""


def test_round_trip_of_a_program_written_for_pytorch(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    search = os.pathsep.join([os.path.dirname(os.path.dirname(facula.__file__)), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "facula", program, tmp_path / "x.safetensors"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search},
    )  # fmt: skip
    assert done.stdout.strip() == "done", done.stderr


def test_numpy_interface(tmp_path):
    numpy_io = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    x = facula.randn(3, 2)
    numpy_io.save_file({"x": x.numpy()}, path)
    assert facula.equal(facula.from_numpy(numpy_io.load_file(path)["x"]), x)
