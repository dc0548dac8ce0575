"""Every derivative of ops/*.yaml against finite differences: first and second order, forward against reverse mode."""

from __future__ import annotations

import zlib

import numpy as np
import op_samples
import pytest

import facula
from facula.autograd import gradcheck, gradgradcheck
from facula.autograd.forward_ad import pushforward

EPS, ATOL, RTOL = 1e-6, 2e-4, 2e-3
# Ops whose value is no smooth function of the sample: what the finite difference sees is not the derivative.
NOT_SMOOTH = {
    "nextafter": "the value moves by single bits",
    "_zero_like": "constant by definition",
}
# Formulas that stop at the first derivative, as PyTorch's do.
ONCE = {"polygamma", "igamma", "igammac"}


def differentiable():
    for op in op_samples.all_ops():
        takes_tensor = any(a.is_tensor for a in op.args)
        if not takes_tensor or op.name.endswith("_") or op.kind in ("factory", "random") or op.grad == {}:
            continue
        if op.id in NOT_SMOOTH:
            continue
        yield op


OPS = {op.id: op for op in differentiable()}
CASES = [
    (name, dtype, layout)
    for name, op in OPS.items()
    for dtype, kind in (("float64", "Float64"), ("complex128", "Complex128"))
    if kind in op.dtypes
    for layout in op_samples.LAYOUTS
]


def make_samples(name, dtype, layout):
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {layout}".encode()))
    return op_samples.samples(OPS[name], dtype, rng, layout)


def floating_tensors(args, kwargs):
    found = []

    def visit(value):
        if isinstance(value, facula.Tensor):
            if value.dtype in (facula.float64, facula.complex128):
                found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)

    for value in (*args, *kwargs.values()):
        visit(value)
    return found


def replaced(value, mapping):
    if isinstance(value, facula.Tensor):
        return mapping.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, mapping) for item in value)
    return value


def as_function(op, args, kwargs, chosen):
    """The op as a function of the chosen tensors alone."""

    def function(*tensors):
        mapping = {id(old): new for old, new in zip(chosen, tensors)}
        return op_samples.call(
            op, *(replaced(a, mapping) for a in args), **{k: replaced(v, mapping) for k, v in kwargs.items()}
        )

    return function


def prepared(name, dtype, layout):
    """(function, inputs) per sample whose result depends differentiably on its tensors."""
    op = OPS[name]
    for args, kwargs in make_samples(name, dtype, layout):
        chosen = floating_tensors(args, kwargs)
        wanted = set(op.grad) if op.grad else None
        if wanted is not None:
            named = dict(zip((a.name for a in op.args), args)) | {
                ("self" if k == "input" else k): v for k, v in kwargs.items()
            }
            chosen = [
                t
                for t in chosen
                if any(
                    t is v or isinstance(v, list) and any(t is x for x in v) for n, v in named.items() if n in wanted
                )
            ]
        if not chosen:
            continue
        function = as_function(op, args, kwargs, chosen)
        inputs = tuple(t.detach().requires_grad_() for t in chosen)
        outputs = function(*inputs)
        outputs = [outputs] if isinstance(outputs, facula.Tensor) else list(outputs)
        if any(isinstance(o, facula.Tensor) and o.requires_grad for o in outputs):
            yield function, inputs


@pytest.mark.parametrize("name,dtype,layout", CASES)
def test_first_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        assert gradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", [c for c in CASES if c[0] not in ONCE and c[2] != "empty"])
def test_second_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        assert gradgradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", [c for c in CASES if c[0] not in ONCE and c[2] == "contiguous"])
def test_forward_mode_agrees_with_reverse_mode(name, dtype, layout):
    """<u, J v> computed from both sides."""
    rng = np.random.default_rng(1)
    for function, inputs in prepared(name, dtype, layout):
        directions = [random_like(x, rng) for x in inputs]
        outputs = function(*inputs)
        outputs = [outputs] if isinstance(outputs, facula.Tensor) else list(outputs)
        outputs = [o for o in outputs if isinstance(o, facula.Tensor) and o.requires_grad]
        cotangents = [random_like(o, rng) for o in outputs]
        pushed = pushforward(outputs, list(inputs), directions)
        pulled = facula.autograd.grad(outputs, inputs, cotangents, allow_unused=True, retain_graph=True)
        forward = sum(inner(u, t) for u, t in zip(cotangents, pushed) if t is not None)
        reverse = sum(inner(g, v) for g, v in zip(pulled, directions) if g is not None)
        assert np.isclose(forward, reverse, rtol=1e-8, atol=1e-10)


def random_like(tensor, rng):
    values = rng.standard_normal(tuple(tensor.shape))
    if tensor.is_complex():
        values = values + 1j * rng.standard_normal(tuple(tensor.shape))
    return facula.from_numpy(np.asarray(values)).to(tensor.dtype)


def inner(a, b):
    return float(np.real(np.sum(np.conj(a.detach().resolve_conj().numpy()) * b.detach().resolve_conj().numpy())))
