"""What runs files of ONNX: the package onnxruntime is asked, for which tests/onnx_reader.py stands here."""

import sys
import types

import onnx_reader
import pytest

import facula
from facula import nn, onnx
from facula.onnx.testing import assert_onnx_program
from facula.onnx.verification import VerificationInfo, verify_onnx_program


class Session:
    """As onnxruntime.InferenceSession."""

    def __init__(self, data, providers=()):
        self.model, self.providers = onnx_reader.Model(data), providers

    def get_inputs(self):
        return [types.SimpleNamespace(name=name) for name in self.model.inputs]

    def run(self, names, feed):
        return self.model.run(**feed)


@pytest.fixture(autouse=True)
def onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", types.SimpleNamespace(InferenceSession=Session))


def exported(**options):
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    return net, facula.rand(2, 4), onnx.export(net, (facula.rand(2, 4),), **options)


def test_a_program_is_called():
    net, x, program = exported(verify=True)
    (found,) = program(x)
    assert isinstance(program(x), tuple)
    facula.testing.assert_close(found, net(x).detach())
    with pytest.raises(onnx.OnnxExporterError, match=r"^ONNXProgram: the model takes 1 tensors \(input\), got 2"):
        program(x, x)


def test_sessions_are_made_once_and_released():
    net, x, program = exported()
    made = []
    program.initialize_inference_session(lambda data: made.append(Session(data)) or made[-1])
    program(x), program(x)
    assert len(made) == 1
    program.release()
    program(x)
    assert len(made) == 1


def test_weights_of_another_state():
    net, x, program = exported()
    other = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    program(x)
    program.apply_weights(other.state_dict())
    facula.testing.assert_close(program(x)[0], other(x).detach())
    with pytest.raises(onnx.OnnxExporterError, match=r"^ONNXProgram.apply_weights: the model has no 7.weight"):
        program.apply_weights({"7.weight": x})
    with pytest.raises(onnx.OnnxExporterError, match=r"0.bias has the shape \(3,\), got \(2,\)"):
        program.apply_weights({"0.bias": facula.ones(2)})


def test_complex_arguments_are_given_as_their_parts():
    class Turn(nn.Module):
        def forward(self, z):
            return z * 1j

    z = facula.rand(3, dtype=facula.complex64)
    program = onnx.export(Turn(), (z,), verify=True)
    facula.testing.assert_close(program(z.conj())[0], facula.view_as_real(z.conj() * 1j))


def test_a_file_that_computes_something_else():
    net, x, program = exported()
    (info,) = verify_onnx_program(program)
    assert info.name == program.output_names[0] and info.max_abs_diff < 1e-6 and info.asdict()["abs_diff_hist"][0][0] == 6
    assert_onnx_program(program)
    program.apply_weights({"0.bias": facula.full((3,), 9.0)})
    assert verify_onnx_program(program, (x,))[0].max_abs_diff > 0.1
    with pytest.raises(AssertionError):
        assert_onnx_program(program)
    with pytest.raises(NotImplementedError, match="got compare_intermediates"):
        verify_onnx_program(program, compare_intermediates=True)
    with pytest.raises(ValueError, match=r"^assert_onnx_program: backend must be .*, got 'none'"):
        assert_onnx_program(program, backend="none")
    with pytest.raises(ValueError, match=r"^assert_onnx_program: .*, got strategy='Other'"):
        assert_onnx_program(program, strategy="Other")


def test_how_far_results_are_away():
    info = VerificationInfo.from_tensors("a", facula.tensor([1.0, 2, 0]), facula.tensor([1.1, 2, 3]))
    assert info.max_abs_diff == 3 and info.max_rel_diff == pytest.approx(3e7)
    assert info.abs_diff_hist[0].tolist() == [1, 0, 0, 0, 0, 0, 1, 1, 0]
    with pytest.raises(ValueError, match=r"got \(2,\) and \(3,\)"):
        VerificationInfo.from_tensors("a", facula.ones(2), facula.ones(3))


def test_without_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    _, x, program = exported()
    with pytest.raises(onnx.OnnxExporterError, match="^ONNXProgram: running a model needs the package onnxruntime"):
        program(x)


class Scale(onnx.ExportableModule):
    def forward(self, x, by):
        return x * by

    def example_arguments(self):
        return (facula.ones(2, 3),), {"by": facula.ones(3)}

    def input_names(self):
        return ["values"]

    def output_names(self):
        return ["scaled"]

    def dynamic_shapes(self):
        return {"x": {0: "batch"}, "by": None}


@pytest.mark.parametrize("make", [lambda m, **o: m.to_onnx(**o), onnx.export])
def test_modules_that_know_how_they_are_exported(make):
    model = onnx_reader.Model(make(Scale(), opset_version=19).serialize())
    assert model.opset == 19 and list(model.outputs) == ["scaled"]
    assert model.inputs == {"values": ("f4", ["batch", 3]), "by": ("f4", [3])}
    assert list(onnx_reader.Model(make(Scale(), input_names=["a", "b"]).serialize()).inputs) == ["a", "b"]


def test_exportable_modules_need_arguments():
    class Nothing(onnx.ExportableModule):
        pass

    with pytest.raises(TypeError, match="example_arguments"):
        Nothing()
