"""The models of benchmarks/models: the published sizes, a step of the small ones, and how products are counted."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import facula as torch

MODELS = Path(__file__).parent.parent / "benchmarks" / "models"
TABLE1 = MODELS.parent / "table1"
PARAMETERS = {
    "alexnet": 61_100_840, "vgg19": 143_667_240, "resnet50": 25_557_032, "mobilenet_v2": 3_504_872, "gnmt": 160_671_297,
    "efficientnet_b0": 5_288_548, "convnext": 3_695_520, "unet": 1_944_066, "dcgan": 6_342_272, "ncf": 31_832_577, "gpt": 10_942_464, "lstm_cell": 37_440, "mlp": 4_610, "reinforce": 450,
}  # fmt: skip


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(MODELS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name in (*PARAMETERS, "common"):
            del sys.modules[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_model_has_its_published_size(load, name):
    module = load(name)
    with torch.device("meta"):
        model = module.network(torch)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    assert callable(module.training) and module.NAME and module.ITEMS > 0 and module.UNIT


@pytest.mark.parametrize("name", ["lstm_cell", "mlp", "reinforce"])
def test_small_models_train(load, name):
    module, common = load(name), load("common")
    model = module.network(torch)
    common.fill(torch, model)
    before = [p.detach().clone() for p in model.parameters()]
    step = module.training(torch, model)
    losses = [step().item() for _ in range(5)]
    assert all(map(torch.isfinite, torch.tensor(losses)))
    assert any(not torch.equal(b, p) for b, p in zip(before, model.parameters()))
    assert name == "reinforce" or losses[-1] < losses[0]


def test_products_are_counted(load):
    module, common = load("mlp"), load("common")
    model = module.network(torch)
    step = module.training(torch, model)
    first, others = 4 * 64, 64 * 64 + 64 * 2
    # no gradient goes to the input of the first layer
    assert common.count_products(model, step, True) == 2 * 32 * (2 * first + 3 * others)
    with torch.no_grad():
        assert common.count_products(model, lambda: model(torch.ones(1, 4)), False) == 2 * (first + others)
    assert not any(layer._forward_hooks for layer in model)
    cell, layer = torch.nn.LSTMCell(3, 5), torch.nn.LSTM(3, 5, bidirectional=True)
    assert common.count_products(cell, lambda: cell(torch.ones(2, 3)), False) == 2 * 2 * 4 * 5 * (3 + 5)
    assert common.count_products(layer, lambda: layer(torch.ones(7, 2, 3)), False) == 2 * 7 * 2 * 2 * 4 * 5 * (3 + 5)
    conv = torch.nn.Conv2d(4, 6, 3, groups=2)
    assert common.count_products(conv, lambda: conv(torch.ones(1, 4, 5, 5)), False) == 2 * 6 * 9 * 2 * 9


def test_a_worker_answers_in_lines():
    requests = [{"do": "losses", "count": 2}, {"do": "steps", "seconds": 0}, {"do": "products"}, {"do": "peak"}]
    command = [sys.executable, str(MODELS / "worker.py"), "facula", "mlp", "1"]
    text = "".join(json.dumps(request) + "\n" for request in requests)
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent)}
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    ready, losses, steps, products, peak = map(json.loads, done.stdout.splitlines())
    assert ready == {} and len(losses["losses"]) == 2 and steps["count"] == 1 and products["flops"] > 0
    assert peak["peak"] >= peak["empty"] > 0


@pytest.fixture
def table1(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(TABLE1), *sys.path])
    spec = importlib.util.spec_from_file_location("table1", TABLE1 / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "table1", module)
    before = set(sys.modules)
    spec.loader.exec_module(module)
    yield module
    for name in set(sys.modules) - before:
        if name in (*PARAMETERS, "common", "environments", "machine"):
            del sys.modules[name]


def test_table1_says_why_a_cell_is_empty(table1):
    cells = {"facula": {"per_second": 1234.5}, "torch": {"per_second": 56.78}, "jax": {"why_not": "status 1: ImportError: no"}}
    rows = [{"name": "AlexNet, batch 32", "unit": "images", "measured": cells}]
    result = {"rows": rows, "frameworks": list(cells), "missing": {"mxnet": "ERROR: no wheel"}, "versions": {"jax": "9.9"}}
    head, _, facula, torch_row, jax, mxnet = table1.markdown(result).splitlines()
    assert head == "| framework | AlexNet, batch 32 (images/s) | how |"
    assert facula.startswith("| Facula | **1,234** |") or facula.startswith("| Facula | **1,235** |")
    assert torch_row.startswith("| PyTorch | 56.8 |")
    assert jax.startswith("| JAX 9.9 | - |") and jax.endswith("; AlexNet: status 1: ImportError: no |")
    assert mxnet == "| MXNet | - | not installed: ERROR: no wheel |"


def test_table1_keeps_what_a_failing_process_said_last(table1, monkeypatch):
    with pytest.raises(table1.Missing, match="^ValueError: broken$"):
        table1.run(sys.executable, "-c", "raise ValueError('broken')")
    processes = {"jax": table1.Process("jax", Path(sys.executable), "no_such_network", 1)}
    cells = {"jax": {"turns": []}}
    table1.asked(table1.begin, "jax", processes, cells)
    assert cells["jax"]["why_not"] == "status 1: ModuleNotFoundError: No module named 'no_such_network'" and not processes


def test_table1_stops_a_process_between_steps(table1, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(torch.__file__).parent.parent))
    processes, cells = {"facula": table1.Process("facula", Path(sys.executable), "mlp", 1)}, {"facula": {"turns": []}}
    for do in (table1.begin, table1.turn):
        table1.asked(do, "facula", processes, cells)
        _, status = os.waitpid(processes["facula"].process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
    processes["facula"].end()
    assert cells["facula"]["first_loss"] > 0 and len(cells["facula"]["turns"]) == 1
