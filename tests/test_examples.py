"""The examples run, learn, and write what they say; each in a quick form."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import facula as torch

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "shared")


@pytest.fixture
def example(monkeypatch, tmp_path):
    """Loads an example by name, to run in an empty directory."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("shared", None)


def png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.slow
def test_digits(example, tmp_path, capsys):
    assert example("digits").main(["--epochs", "1", "--no-plot"]) > 0.7
    printed = capsys.readouterr().out
    assert "epoch  1" in printed and "test accuracy" in printed and "wrote digits.pt" in printed
    saved = torch.load(tmp_path / "digits.pt")
    model = example("digits").Net()
    model.load_state_dict(saved["model"])
    assert saved["optimizer"]["state"][0]["step"] == math.ceil(1437 / 32)
    assert not (tmp_path / "digits.png").exists()


def test_timeline(example, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    example("timeline").main(["--steps", "2"])
    assert "aten::convolution" in capsys.readouterr().out
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sum(e["name"] == "Optimizer.step#SGD.step" for e in events) == 2
    assert all(png_size(tmp_path / name)[0] > 800 for name in ("timeline.png", "memory.png"))


def test_digits_picture(example, tmp_path):
    pytest.importorskip("matplotlib")
    chances = torch.rand(50, 10).softmax(1)
    images, digits = torch.rand(50, 1, 8, 8), torch.randint(10, (50,))
    path = tmp_path / "picture.png"
    assert example("digits").draw(path, [2.0, 1.5, 1.2, 1.1], [0.5, 0.75], images, digits, chances)
    width, height = png_size(path)
    assert width > 1000 and height > 500


def test_an_example_without_matplotlib_says_so(example, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    module = example("digits")
    assert module.draw(Path("x.png"), [1.0], [1.0], torch.rand(1, 1, 8, 8), torch.tensor([1]), torch.rand(1, 10)) is False
    assert "pip install matplotlib" in capsys.readouterr().out


@pytest.mark.slow
def test_gan(example, tmp_path, capsys):
    assert example("gan").main(["--steps", "10", "--batch", "16", "--no-plot"]) < 1
    assert "taken for real" in capsys.readouterr().out


def test_gan_picture(example, tmp_path):
    pytest.importorskip("matplotlib")
    images = torch.rand(40, 1, 8, 8)
    assert example("gan").draw(tmp_path / "gan.png", [(0, images), (1, images)], images)
    assert png_size(tmp_path / "gan.png")[0] > 800


@pytest.mark.slow
def test_char_gpt(example, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat and the rat ate the hat. " * 40)
    small = ["--context", "16", "--width", "32", "--layers", "1", "--heads", "2", "--rate", "1e-2", "--dropout", "0"]
    bits = example("char_gpt").main([str(text), "--steps", "60", "--length", "20", "--prompt", "the", *small])
    assert bits < 1.5  # 17 different characters: a guess costs 4.1
    printed = capsys.readouterr().out
    assert "held out" in printed and "\nthe" in printed
    with pytest.raises(SystemExit):
        example("char_gpt").main([str(text), "--context", "500"])


def test_lstm_tagger(example, capsys):
    assert example("lstm_tagger").main(["--steps", "40"]) > 0.9
    assert "commonest tag of each word" in capsys.readouterr().out


def test_custom_function(example, capsys):
    module = example("custom_function")
    assert module.main(["--steps", "300"]) < 0.2
    assert "derivatives agree with finite differences: True" in capsys.readouterr().out
    x = torch.tensor([1000.0, -1000.0, 0.0], requires_grad=True)
    y = module.LogCosh.apply(x)
    y.sum().backward()
    assert y.tolist() == pytest.approx([1000 - math.log(2), 1000 - math.log(2), 0]) and x.grad.tolist() == [1, -1, 0]


def test_reinforce(example, capsys):
    before = example("reinforce").main(["--updates", "0"])
    assert example("reinforce").main(["--updates", "10"]) > 1.5 * before
    assert "poles never fell" in capsys.readouterr().out


def test_backends_in_a_few_lines(example, capsys):
    counted = example("graph_backend").main(["--calls", "2"])
    assert (
        counted == {"aten.mul.Tensor": 3, "aten.add.Tensor": 3} and "torch.ops.aten.addcmul.default(" in capsys.readouterr().out
    )


def test_another_runtime_as_a_backend(example, capsys):
    pytest.importorskip("onnx")
    assert example("onnx_backend").main(["--calls", "2"]) < 1e-5
    assert capsys.readouterr().out.count("norm between the layers") == 4


@pytest.mark.parametrize("program", [["parameter_server.py", "--steps", "60"], ["rpc_pipeline.py", "--epochs", "1"]])
@pytest.mark.parametrize("ranks", [1, 3])
def test_examples_by_remote_calls(program, ranks, tmp_path):
    launcher = ["-m", "facula.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, EXAMPLES / program[0], *program[1:]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    found = re.search(r"test accuracy ([0-9.]+)%", done.stdout)
    assert done.returncode == 0 and found and float(found[1]) > 35, done.stdout + done.stderr


def test_a_batch_that_fits_within_a_budget(example, tmp_path, capsys):
    assert example("memory_budget").main(["--batch", "8", "--size", "96", "--table"]) > 0
    printed = capsys.readouterr().out
    assert "set_memory_limit allows" in printed and "gradients the same to the last bit" in printed
    assert "the same bits" in printed and "other bits" not in printed and "does not go" in printed
    assert (tmp_path / "memory_budget.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_what_it_shows(name):
    source = (EXAMPLES / f"{name}.py").read_text()
    assert source.startswith('"""') and f"\n    python examples/{name}.py" in source and "--seed" in source


def test_an_example_runs_from_anywhere(tmp_path):
    script = EXAMPLES / "custom_function.py"
    environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent)}
    command = [sys.executable, script, "--steps", "2"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "log cosh" in done.stdout
