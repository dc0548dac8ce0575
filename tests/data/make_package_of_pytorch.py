"""Writes package_of_pytorch.pt: modules, tensors and an object of a class of one of the modules, packed by `torch.package`.

Needs PyTorch 2.13, and is run by hand: `python tests/data/make_package_of_pytorch.py`. One file in it is a number at random.
"""

import importlib
import sys
import tempfile
from pathlib import Path

MODULES = {
    "points": """\
from scaling import times


class Point:
    def __init__(self, x):
        self.x = x

    def scale(self, by):
        return times(self.x, by)
""",
    "scaling": """\
def times(a, b):
    return a * b
""",
    "net": """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.layer(x))
""",
}


def main():
    import torch
    from torch.package import PackageExporter

    with tempfile.TemporaryDirectory() as folder:
        for name, text in MODULES.items():
            (Path(folder) / f"{name}.py").write_text(text)
        sys.path.insert(0, folder)
        net, points = importlib.import_module("net"), importlib.import_module("points")
        model, whole = net.Net(), torch.arange(6.0).reshape(2, 3)
        with torch.no_grad():
            model.layer.weight.copy_(torch.tensor([[1.0, -2.0, 0.5], [2.0, 0.0, 1.0]]))
            model.layer.bias.copy_(torch.tensor([0.5, -1.0]))
            value = {"whole": whole, "row": whole[1], "state": model.state_dict(), "result": model(whole), "point": points.Point(2)}
        with PackageExporter(Path(__file__).with_name("package_of_pytorch.pt")) as exporter:
            exporter.intern(list(MODULES))
            exporter.save_module("net")
            exporter.save_pickle("made", "value.pkl", value)


if __name__ == "__main__":
    main()
