"""Count floating-point operations of an event from the shapes of its arguments and results."""

from __future__ import annotations

from math import prod


def _product(inputs, outputs):
    """Return the operations of (..., k) times (k, n)."""
    return 2 * prod(outputs[0]) * inputs[0][-1]


def _added_product(inputs, outputs):
    return 2 * prod(outputs[0]) * inputs[1][-1]


def _convolution(inputs, outputs):
    """Return the operations of a convolution: every output is a sum over the channels of its group and the kernel."""
    return 2 * prod(outputs[0]) * prod(inputs[1][1:])


def _convolution_weight(inputs, outputs):
    """Return the operations of (gradient, input) -> gradient of the weight: as many products as in forward."""
    return 2 * prod(inputs[0]) * prod(outputs[0][1:])


def _attention(inputs, outputs):
    query, key, value = inputs[:3]
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _elementwise(inputs, outputs):
    return prod(outputs[0])


_FORMULAS = {
    **dict.fromkeys(("mm", "bmm", "linear", "mv", "dot"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added_product),
    "convolution": _convolution,
    "convolution_weight": _convolution_weight,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"), _elementwise),
}


def flops_of(event):
    """Return the operations of an op; 0 where no formula is known, and for what contains other ops that are counted."""
    formula = _FORMULAS.get(event.name.removeprefix("aten::")) if event.kind == "op" else None
    if formula is None or not event.input_shapes or any(child.kind == "op" for child in event.cpu_children):
        return 0
    outputs = event.output_shapes or event.input_shapes[:1]  # an in-place form writes its first argument
    return formula(event.input_shapes, outputs) if outputs and event.input_shapes[0] != [] else 0
