"""Export to ONNX: the files hold what the model computes, under the names that were asked for; what cannot be written says so.

The files are read and computed by tests/onnx_reader.py; `benchmarks/onnx_models.py` compares models of other packages by onnxruntime.
"""

import io
import re
from pathlib import Path

import numpy as np
import onnx_reader
import pytest

import facula
from facula import nn, onnx


class Net(nn.Module):
    """Writes into views, branches on nothing, has buffers."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.register_buffer("shift", facula.arange(5.0))

    def forward(self, x, scale):
        y = facula.relu_(self.bn(self.conv(x)))
        y[:, 1] = 0.5
        y.select(2, 0).add_(1)
        return self.fc(y.mean((2, 3))).softmax(-1) * scale + self.shift, y.sum(dim=1)


def inputs(batch=2):
    return facula.randn(batch, 3, 6, 6), facula.rand(batch, 1)


def computed(program, *args):
    model = onnx_reader.Model(program.serialize())
    return model, model.run(**{name: a.numpy() for name, a in zip(model.inputs, args)})


def close(got, wanted):
    assert got.shape == tuple(wanted.shape)
    np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [17, 18, 19, 20, 21])
def test_a_network(opset):
    net, args = Net().eval(), inputs()
    program = onnx.export(net, args, input_names=["image", "scale"], output_names=["p", "sums"], opset_version=opset)
    model, results = computed(program, *args)
    assert model.opset == opset and model.ir_version == {17: 8, 18: 8, 19: 9, 20: 9, 21: 10}[opset]
    assert list(model.inputs) == ["image", "scale"] and list(model.outputs) == ["p", "sums"]
    assert model.inputs["image"] == ("f4", [2, 3, 6, 6])
    assert {"conv.weight", "bn.running_var", "fc.bias", "shift"} <= set(model.initializers)
    for got, wanted in zip(results, net(*args)):
        close(got, wanted)


def test_sizes_that_vary():
    net, args = Net().eval(), inputs()
    axes = {"image": {0: "batch"}, "scale": {0: "batch"}, "p": {0: "batch"}}
    old = onnx.export(net, args, input_names=["image", "scale"], output_names=["p", "sums"], dynamic_axes=axes)
    batch = facula.export.Dim("batch")
    new = onnx.export(net, args, dynamic_shapes={"x": {0: batch}, "scale": {0: batch}})
    for program in (old, new):
        for size in (1, 2, 5):
            others = inputs(size)
            model, results = computed(program, *others)
            assert next(iter(model.inputs.values())) == ("f4", ["batch", 3, 6, 6])
            for got, wanted in zip(results, net(*others)):
                close(got, wanted)


def test_files(tmp_path):
    net, args = Net().eval(), inputs()
    program = onnx.export(net, args, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").read_bytes() == program.serialize()
    memory = io.BytesIO()
    assert onnx.export(net, args, memory, dynamo=False) is None
    assert onnx_reader.Model(memory.getvalue()).ops() == onnx_reader.Model(program.serialize()).ops()
    program.save(tmp_path / "outside.onnx", external_data=True)
    outside = tmp_path / "outside.onnx.data"
    program.save(tmp_path / "bare.onnx", include_initializers=False)
    bare = onnx_reader.Model((tmp_path / "bare.onnx").read_bytes())
    assert not bare.initializers and "conv.weight" in bare.inputs
    big = onnx.export(nn.Linear(64, 64), (facula.ones(1, 64),))
    big.save(tmp_path / "outside.onnx", external_data=True)
    assert outside.read_bytes()[: 64 * 64 * 4] == big.graph.initializers["weight"].exact.detach().numpy().tobytes()


def test_modes_and_weights():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    x = facula.ones(2, 4)
    memory = io.BytesIO()
    onnx.export(net, (x,), memory, dynamo=False)
    assert "Dropout" not in onnx_reader.Model(memory.getvalue()).ops() and net.training
    assert "Dropout" in onnx_reader.Model(onnx.export(net, (x,)).serialize()).ops()
    program = onnx.export(net.eval(), (x,))
    other = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()
    program.apply_weights(other.state_dict())
    close(computed(program, x)[1][0], other(x))
    with pytest.raises(onnx.OnnxExporterError, match=r"^ONNXProgram\.apply_weights: the model has no nothing"):
        program.apply_weights({"nothing": x})


def test_what_a_file_does_not_do_is_said():
    with pytest.warns(onnx.errors.OnnxExporterWarning, match="does not update the running statistics of batch_norm"):
        onnx.export(nn.BatchNorm2d(3).train(), (facula.randn(2, 3, 4, 4),))


def test_searchsorted():
    class Net(nn.Module):
        def forward(self, line, lines, x):
            return facula.searchsorted(line, x), facula.searchsorted(lines, x, right=True)

    line, x = facula.tensor([0.0, 1.0, 2.0, 2.0, 5.0]), facula.tensor([[2.0, -1.0], [9.0, 0.0]])
    args = line, facula.stack([line, line * 2]), x
    for got, wanted in zip(computed(onnx.export(Net(), args), *args)[1], Net()(*args)):
        close(got, wanted)


def test_constants_are_computed_here():
    class Grid(nn.Module):
        def forward(self, x):
            return x + facula.arange(12.0).reshape(3, 4).triu()

    model, results = computed(onnx.export(Grid(), (facula.ones(3, 4),)), facula.ones(3, 4))
    assert model.ops() == ["Add"]
    close(results[0], facula.ones(3, 4) + facula.arange(12.0).reshape(3, 4).triu())


def test_own_translations():
    class Net(nn.Module):
        def forward(self, x):
            return facula.special.bessel_j0(x)

    with pytest.raises(NotImplementedError, match=r"^onnx\.export: no translation to ONNX of aten::special_bessel_j0\n.*test_onnx\.py"):
        onnx.export(Net(), (facula.ones(2),))
    onnx.register_custom_op_symbolic("aten::special_bessel_j0", lambda g, x: g.op("my.domain::Bessel", x, order_i=0), 17)
    try:
        program = onnx.export(Net(), (facula.ones(2),), custom_opsets={"my.domain": 3})
    finally:
        onnx.unregister_custom_op_symbolic("aten::special_bessel_j0", 17)
    model = onnx_reader.Model(program.serialize())
    assert model.nodes[0][0] == "Bessel" and model.nodes[0][3] == {"order": 0}
    with pytest.raises(RuntimeError, match='"domain::name", got \'plain\''):
        onnx.register_custom_op_symbolic("plain", None, 17)


def test_the_program_of_the_docs(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs/onnx.md").read_text(), re.S)
    exec(program, {})
    assert f"# {capsys.readouterr().out}" in program


def test_names_of_sizes():
    net, x = nn.Linear(4, 2), facula.rand(3, 4)
    for shapes in ({"input": {0: "batch"}}, ({0: "batch"},)):
        program = onnx.export(net, (x,), dynamic_shapes=shapes)
        assert onnx_reader.Model(program.serialize()).inputs == {"input": ("f4", ["batch", 4])}


def test_arguments_of_both_exporters(tmp_path):
    net, x, path = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), facula.rand(2, 4), tmp_path / "net.onnx"
    read = lambda: onnx_reader.Model(path.read_bytes())
    for dynamo in (True, False):
        onnx.export(net, (x,), path, dynamo=dynamo, keep_initializers_as_inputs=True)
        assert set(read().inputs) == {"input", "0.weight", "0.bias"} and set(read().initializers) == {"0.weight", "0.bias"}
        onnx.export(net, (x,), path, dynamo=dynamo, export_params=False)
        assert set(read().inputs) == {"input", "0.weight", "0.bias"} and not read().initializers
        for words in ({"do_constant_folding": False}, {"optimize": False}, {"autograd_inlining": False}, {"external_data": False}):
            onnx.export(net, (x,), path, dynamo=dynamo, **words)
            assert read().ops() == ["Gemm", "Relu"]
        onnx.export(net, (), path, kwargs={"input": x}, dynamo=dynamo)
        assert set(read().inputs) == {"input"}
    onnx.export(net, (x,), report=True, profile=True, dump_exported_program=True, artifacts_dir=tmp_path)
    assert "Ops: Gemm, Relu" in (tmp_path / "onnx_export_report.md").read_text()
    close([facula.export.load(tmp_path / "onnx_export_program.pt2").module()(x).detach().numpy()][0], net(x))
    for traced in (facula.jit.trace(net, x), facula.jit.script(net), facula.export.export(net, (x,))):
        assert onnx_reader.Model(onnx.export(traced, (x,)).serialize()).ops() == ["Gemm", "Relu"]


def test_translations_given_with_the_call():
    net, x = nn.ReLU(), facula.ones(2)
    relu = facula.ops.aten.relu.default
    for own in (lambda g, x: g.LeakyRelu(x, alpha=0.0), [lambda g, x: g.LeakyRelu(x, alpha=0.0)]):
        assert [n[0] for n in onnx.export(net, (x,), custom_translation_table={relu: own}).graph.nodes] == ["LeakyRelu"]
    with pytest.raises(TypeError, match=r"^onnx\.export: custom_translation_table has one function for an op, got \[\]"):
        onnx.export(net, (x,), custom_translation_table={relu: []})
    with pytest.warns(onnx.errors.OnnxExporterWarning, match="the program has no aten.gelu.default, of which"):
        onnx.export(net, (x,), custom_translation_table={facula.ops.aten.gelu.default: lambda g, x: x})


def test_bad_arguments():
    net, x = nn.Linear(2, 2), facula.ones(1, 2)
    with pytest.warns(onnx.errors.OnnxExporterWarning, match="got opset_version=11; the model has opset 17"):
        assert onnx_reader.Model(onnx.export(net, (x,), opset_version=11).serialize()).opset == 17
    with pytest.raises(ValueError, match=r"^onnx\.export: opset_version is a number of an opset, got '18'"):
        onnx.export(net, (x,), opset_version="18")
    with pytest.raises(TypeError, match=r"^onnx\.export: model must be a Module or an ExportedProgram, got int"):
        onnx.export(3, (x,))
    with pytest.warns(onnx.errors.OnnxExporterWarning, match="dynamic_axes names nobody, which is no input or output"):
        onnx.export(net, (x,), dynamic_axes={"nobody": [0]})
    with pytest.raises(NotImplementedError, match="only ONNX's own ops are written"):
        onnx.export(net, (x,), operator_export_type=onnx.OperatorExportTypes.ONNX_ATEN)
    with pytest.raises(NotImplementedError, match="modules are not written as functions"):
        onnx.export(net, (x,), export_modules_as_functions={nn.Linear})
    with pytest.warns(onnx.errors.OnnxExporterWarning, match="input_names has 2 names, the model has 1 inputs"):
        onnx.export(net, (x,), input_names=["a", "b"])
    with pytest.raises(onnx.OnnxExporterError, match=r"^ONNXProgram\.compute_values: the graph has no value 'z'"):
        onnx.export(net, (x,)).compute_values(["z"], (x,))
    assert not onnx.is_in_onnx_export()


def test_parts_of_which_some_are_used():
    class Net(nn.Module):
        def forward(self, x):
            _, b, c = x.split(2, dim=1)
            b.mul_(2)  # is seen in x
            values, _ = x.sort(dim=1)
            return values[:, -1] + x.unbind(1)[3], c.chunk(2, -1)[1]

    x = facula.randn(3, 5, 4)
    program = onnx.export(Net(), (x.clone(),))
    model = onnx_reader.Model(program.serialize())
    assert "TopK" in model.ops()
    got = model.run(**{next(iter(model.inputs)): x.clone().numpy()})
    for a, b in zip(got, Net()(x.clone())):
        close(a, b)
