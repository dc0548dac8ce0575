"""What `python -m facula.export` prints and draws."""

import xml.etree.ElementTree as ET

import pytest

import facula
from facula import export, nn
from facula.export.__main__ import main, summary
from facula.export._costs import Costs
from facula.export._draw import Drawing


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 5)
        self.register_buffer("scale", facula.ones(5))

    def forward(self, x, factor):
        y = self.conv(x).relu().mean((2, 3))
        return self.lin(y) * self.scale * factor, y


@pytest.fixture
def program(tmp_path):
    made = export.export(Small(), (facula.rand(2, 3, 8, 8), 2), dynamic_shapes={"x": {0: export.Dim("batch", max=64)}, "factor": None})
    export.save(made, tmp_path / "small.pt2")
    return tmp_path / "small.pt2"


def test_costs_are_those_of_the_formulas(program):
    costs = Costs(export.load(program).program).by_op()
    assert costs["conv2d.default"].operations == 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    assert costs["linear.default"].operations == 2 * (2 * 5) * 4
    relu = costs["relu.default"]
    assert (relu.count, relu.operations, relu.read, relu.written) == (1, 512, 2048, 2048)
    total = Costs(export.load(program).program).total()
    assert total.operations == sum(c.operations for c in costs.values())


def test_the_peak_is_what_lives_at_once():
    class Chain(nn.Module):
        def forward(self, x):
            a = x.exp()  # 400 bytes, to its last use
            b = a.sin()
            c = b.cos()
            return c + a

    assert Costs(export.export(Chain(), (facula.rand(100),)).program).peak() == 1200


def test_the_command_prints_all_of_a_program(program, capsys):
    assert main([str(program)]) == 0
    text = capsys.readouterr().out
    for part in ("x: float32[batch, 3, 8, 8]", "factor: int = 2", "batch from 0 to 64", "4 parameters: 137 elements", "1 buffers: 5"):
        assert part in text, text
    assert "conv2d" in text and "linear" in text
    assert main([str(program), "--text"]) == 0
    assert capsys.readouterr().out.strip() == export.load(program).program.text().strip()
    assert main([str(program.parent / "none.pt2")]) == 1 and "none.pt2" in capsys.readouterr().err
    (program.parent / "bad.pt2").write_bytes(b"nothing")
    assert main([str(program.parent / "bad.pt2")]) == 1


def test_drawings_have_a_box_for_every_node(program, tmp_path):
    assert main([str(program), "--svg", str(tmp_path / "a.svg"), "--dot", str(tmp_path / "a.dot")]) == 0
    loaded = export.load(program).program
    boxes = len(loaded.nodes) + 2 + len(loaded.outputs)
    root = ET.parse(tmp_path / "a.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}rect")) == boxes
    places = {(r.get("x"), r.get("y")) for r in root.findall(f"{space}rect")}
    assert len(places) == boxes  # none lies on another
    lines = (tmp_path / "a.dot").read_text().splitlines()
    assert sum("[label=" in line for line in lines) == boxes
    assert sum(" -> " in line for line in lines) == len(root.findall(f"{space}path")) == len(Drawing(loaded).lines)


def test_branches_cost_what_the_dearer_costs():
    class Choice(nn.Module):
        def forward(self, x):
            return facula.cond(x.sum() > 0, lambda x: x.exp().sin(), lambda x: x + 1, (x,))

    made = export.export(Choice(), (facula.rand(10),))
    assert Costs(made.program).by_op()["cond.default"].operations == 20
    assert "cond" in summary(made) and "cond" in Drawing(made.program).dot()
