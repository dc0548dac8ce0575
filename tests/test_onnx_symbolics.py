"""Translations of programs' own for ONNX: what they are written with, and what they make."""

import numpy as np
import onnx_reader
import pytest

import facula
from facula import nn, onnx
from facula.onnx import symbolic_helper as helper
from facula.onnx import symbolic_opset9 as opset9
from facula.onnx import symbolic_opset11 as opset11
from facula.onnx import symbolic_opset12 as opset12
from facula.onnx._graph import Graph, Value
from facula.onnx.errors import SymbolicValueError, UnsupportedOperatorError

X = facula.arange(12.0).reshape(3, 4) / 5 - 1


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def computed(function, name, symbolic, x=X):
    """The result of a program whose op `name` is translated by `symbolic`, and the names of its nodes."""
    onnx.register_custom_op_symbolic(name, symbolic, 9)
    try:
        program = onnx.export(Calls(function), (x,))
    finally:
        onnx.unregister_custom_op_symbolic(name, 9)
    model = onnx_reader.Model(program.serialize())
    (result,) = model.run(**{model_input: x.numpy() for model_input in model.inputs})
    return result, [node[0] for node in model.nodes]


def close(actual, expected):
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-6)


# a function that stands for bessel_j0 -> the same of tensors
MADE = {
    "softmax": (lambda g, x: opset9.softmax(g, x, 1, None), lambda x: x.softmax(1)),
    "softmax of doubles": (lambda g, x: opset9.sub(g, opset9.softmax(g, x, 0, 7), 1.0), lambda x: x.softmax(0) - 1),
    "sub": (lambda g, x: opset9.sub(g, x, opset9.sub(g, x, 2.0, None), 3), lambda x: x - 3 * (x - 2)),
    "masked_fill": (lambda g, x: opset9.masked_fill(g, x, g.op("Less", x, 0.5), -7), lambda x: x.masked_fill(x < 0.5, -7)),
    "expand": (
        lambda g, x: opset9.expand(g, opset9.unsqueeze(g, opset11.select(g, x, 0, 1), 0), [3, -1], False),
        lambda x: x.select(0, 1).unsqueeze(0).expand(3, -1),
    ),
    "squeeze": (lambda g, x: opset11.squeeze(g, opset11.unsqueeze(g, x, 1), 1), lambda x: x),
    "dropout": (lambda g, x: opset12.dropout(g, x, 0.5, False) * 2, lambda x: 2 * x),
    "a constant": (lambda g, x: x * g.op("Constant", value_t=facula.arange(4.0)), lambda x: x * facula.arange(4.0)),
    "reshape": (
        lambda g, x: helper._reshape_helper(g, helper._reshape_helper(g, x, [2, -1]), g.op("Shape", x)), lambda x: x,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_translations_are_built_of_the_exporters(name):
    symbolic, function = MADE[name]
    result, _ = computed(facula.special.bessel_j0, "aten::special_bessel_j0", symbolic)
    close(result, function(X))


def test_arguments_come_as_python_has_them():
    seen = []

    @helper.parse_args("v", "i", "i", "none")
    def repeated(g, x, repeats, dim, output_size=None):
        seen.append((helper._is_value(x), helper._is_tensor(x), repeats, dim, helper._is_none(output_size)))
        seen.append((helper._get_tensor_rank(x), helper._get_tensor_sizes(x), helper._get_tensor_dim_size(x, -1)))
        parts = helper._repeat_interleave_split_helper(g, x, helper._get_tensor_sizes(x)[dim], dim)
        return g.op("Concat", *[part for part in parts for _ in range(repeats)], axis_i=dim)

    result, nodes = computed(lambda x: x.repeat_interleave(2, 1), "aten::repeat_interleave", repeated)
    close(result, X.repeat_interleave(2, 1))
    assert "Split" in nodes and seen == [(True, True, 2, 1, True), (2, [3, 4], 4)]
    assert repeated.__name__ == "repeated"


def test_constants_of_the_graph():
    g = Graph(20)
    three, row, unknown = g.constant(3), g.constant([1.5, 2.0]), Value(g, "x", "float32", ("n", 2))
    assert helper._get_const(three, "i", "k") == 3 and helper._get_const(three, "f", "k") == 3.0
    assert helper._get_const(row, "fs", "k") == [1.5, 2.0] and helper._get_const([4, 5], "is", "k") == [4, 5]
    assert helper._get_const(True, "b", "k") is True and helper._get_const("sum", "s", "k") == "sum"
    assert helper._get_const(row, "t", "k").tolist() == [1.5, 2.0] and helper._get_const(unknown, "v", "k") is unknown
    assert helper._maybe_get_scalar(three) == 3 and helper._maybe_get_scalar(row) is row and helper._maybe_get_scalar(2) == 2
    assert helper._maybe_get_scalar(g.constant([[4]])) == 4 and helper._maybe_get_scalar(unknown) is unknown
    assert helper._maybe_get_const(unknown, "i") is unknown and helper._maybe_get_const(three, "i") == 3
    assert not helper._is_value(3) and not helper._is_tensor([3]) and not helper._is_none(three)
    assert helper._get_tensor_sizes(unknown) == [None, 2] and helper._get_tensor_sizes(unknown, False) is None
    assert helper._get_tensor_rank(Value(g, "y", "float32", None)) is None and helper._get_tensor_rank(3) is None


def test_numbers_of_dtypes():
    number = onnx.TensorProtoDataType
    assert helper.cast_pytorch_to_onnx["Long"] is number.INT64 and helper.cast_pytorch_to_onnx["BFloat16"] is number.BFLOAT16
    assert "QInt8" not in helper.cast_pytorch_to_onnx and helper.cast_pytorch_to_onnx["Undefined"] is number.UNDEFINED
    assert helper.scalar_type_to_onnx[:8] == [
        number.UINT8, number.INT8, number.INT16, number.INT32, number.INT64, number.FLOAT16, number.FLOAT, number.DOUBLE,
    ]  # fmt: skip
    assert helper.scalar_type_to_onnx[8] is number.UNDEFINED and helper.scalar_type_to_onnx[11] is number.BOOL
    assert len(helper.scalar_type_to_onnx) == 16


G = Graph(13)
UNKNOWN = Value(G, "x", "float32", (2,))


@helper.parse_args("v", "is")
def two(g, x, sizes):
    return sizes


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: two(G, UNKNOWN, UNKNOWN), SymbolicValueError, "^sizes: a constant of kind 'is' .* computes$"),
        (lambda: two(G, UNKNOWN, "no"), SymbolicValueError, "^sizes: .* got 'no'$"),
        (lambda: two(G, UNKNOWN, sizes="no"), SymbolicValueError, "^sizes: .* got 'no'$"),
        (lambda: two(G, UNKNOWN, [1], 2), TypeError, "^two: parse_args describes 2 arguments, got 3$"),
        (lambda: helper._get_const([1, 2], "i", "k"), SymbolicValueError, r"^k: .* got \[1, 2\]$"),
        (lambda: helper._get_const(None, "i", "k"), SymbolicValueError, "got None$"),
        (lambda: helper._get_const(1, "x", "k"), ValueError, "got 'x'$"),
        (lambda: helper._onnx_unsupported("op", UNKNOWN), UnsupportedOperatorError, "^Unsupported: ONNX export of operator op, got Val"),
        (lambda: helper._onnx_opset_unsupported_detailed("op", 9, 11, "Why"), UnsupportedOperatorError,
         r"^Unsupported: ONNX export of op in opset 9. Why. Please try opset version 11.$"),
        (lambda: helper._reshape_helper(G, UNKNOWN, [0], 1), UnsupportedOperatorError, "Reshape in opset 13"),
        (lambda: opset9.no_such, AttributeError, "got 'no_such'$"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


def test_a_completed_module_refuses_in_its_own_words():
    """Modules that programs reached as `torch` answer for more names, and their errors stay."""
    from facula.compat import placeholders

    placeholders.complete_module(opset9, "torch.onnx.symbolic_opset9")
    with pytest.raises(AttributeError, match="^onnx.export: there is no translation .* got 'no_such'$"):
        opset9.no_such  # noqa: B018
