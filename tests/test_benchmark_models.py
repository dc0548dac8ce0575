"""The models of benchmarks/models: the published sizes, a step of the small ones, and how products are counted."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import facula as torch

MODELS = Path(__file__).parent.parent / "benchmarks" / "models"
PARAMETERS = {
    "alexnet": 61_100_840, "vgg19": 143_667_240, "resnet50": 25_557_032, "mobilenet_v2": 3_504_872, "gnmt": 160_671_297,
    "ncf": 31_832_577, "gpt": 10_942_464, "lstm_cell": 37_440, "mlp": 4_610, "reinforce": 450,
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
