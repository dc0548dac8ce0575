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
# Ops for which finite differences at the sample do not show the derivative.
COLLIDING = "the sample's indices meet, and which write counts is not defined"
NOT_SMOOTH = {
    "nextafter": "the value moves by single bits",
    "_zero_like": "constant by definition",
    "div_Mode": "rounds",
    **dict.fromkeys(("_standard_gamma_grad", "_dirichlet_grad"), "its derivative is an error, see test_distributions.py"),
    **dict.fromkeys(
        ("scatter_src", "put", "index_put", "max_unpool2d", "max_unpool3d", "index_fill_int_Tensor"), COLLIDING
    ),
    **dict.fromkeys(
        ("linalg_svd", "svd", "_linalg_svd", "linalg_eigh", "_linalg_eigh", "linalg_eig"), "vectors have a free phase"
    ),
    **dict.fromkeys(("linalg_eigvalsh", "linalg_cholesky_ex", "linalg_cholesky", "cholesky", "cholesky_inverse", "cholesky_solve"), "one triangle is read, the derivative is symmetric"),
}
# Open defects of formulas: per op the tests that fail, and why. Remove an entry with its repair.
DEFECTS = {
    "logcumsumexp": ("forward", "complex numbers: the derivative takes log(0)"),
    "digamma": ("second", "the derivative of polygamma calls add with numbers only"),
    "polygamma": ("first", "the derivative of polygamma calls add with numbers only"),
    "_polygamma": ("first second forward", "the derivative of polygamma calls add with numbers only"),
    "_frexp_mantissa": ("first", "the derivative"),
    "as_strided_scatter": ("first", "strided inputs"),
    "negative_slice": ("second forward", "the second derivative"),
    "xlogy": ("second forward", "the derivative where the sample gives a negative logarithm argument"),
    **dict.fromkeys(("_bce_each", "_bce_backward"), ("first second forward", "samples outside of (0, 1), where the log is clamped")),
    "binary_cross_entropy": ("second", "the second derivative is PyTorch's, which ignores the clamp of the log"),
    "kl_div": ("forward", "the mixed second derivative of input and target"),
    **dict.fromkeys(("_ctc", "ctc_loss_IntList"), ("first second forward", "infeasible samples; no second derivative")),
    "_cross_entropy": ("first", "the derivative through the saved statistics"),
    **dict.fromkeys(
        ("_row_norm", "_channel_norm", "native_layer_norm", "native_group_norm", "native_batch_norm"),
        ("first", "no derivative through the mean and rstd results"),
    ),
    **dict.fromkeys(("as_strided", "as_strided_copy"), ("first", "reads storage between the elements of a strided input")),
    "linalg_ldl_factor": ("first second forward", "calls an op without derivative"),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), ("second forward", "no second derivative")),
}
NO_COMPLEX_BACKWARD = {"_mse_each", "mse_loss", "scatter_planes", "gather_planes", "avg_pool_transpose", "adaptive_avg_pool_transpose"}
RANDOM = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "native_dropout", "rrelu"}
RANDOM |= {"fractional_max_pool", "fractional_max_pool2d", "fractional_max_pool3d"}
# Formulas that stop at the first derivative, as PyTorch's do.
ONCE = {"polygamma", "igamma", "igammac"}


def differentiable():
    for op in op_samples.all_ops():
        takes_tensor = any(a.is_tensor for a in op.args)
        if not takes_tensor or op.name.endswith("_") or op.kind in ("factory", "random") or op.grad == {}:
            continue
        if op.grad is None and not op.composite:
            continue  # no derivative stated: using it with gradients is an error, which test_ops checks
        if op.returns and not any(r.startswith("Tensor") for r in op.returns) or op.id.endswith("_out"):
            continue
        if op.id in NOT_SMOOTH or op.name in RANDOM or op.topic == "random":
            continue
        yield op


OPS = {op.id: op for op in differentiable()}


def cases(test, layouts, skipped=()):
    found = []
    for name, op in OPS.items():
        failing, reason = DEFECTS.get(name, ("", ""))
        for dtype, kind in (("float64", "Float64"), ("complex128", "Complex128")):
            if kind not in op.dtypes or name in skipped or (dtype == "complex128" and name in NO_COMPLEX_BACKWARD):
                continue
            marks = [pytest.mark.xfail(reason=reason, strict=False)] if test in failing.split() else []
            found += [pytest.param(name, dtype, layout, marks=marks) for layout in layouts]
    return found


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


def runs(function, chosen):
    """Whether the op takes values of this kind at all; what it must take is the matter of test_ops."""
    try:
        function(*chosen)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return False
    return True


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
        if not runs(function, chosen):
            continue
        inputs = tuple(t.detach().requires_grad_() for t in chosen)
        outputs = function(*inputs)
        outputs = [outputs] if isinstance(outputs, facula.Tensor) else list(outputs)
        if any(isinstance(o, facula.Tensor) and o.requires_grad for o in outputs):
            yield function, inputs


@pytest.mark.parametrize("name,dtype,layout", cases("first", op_samples.LAYOUTS))
def test_first_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        assert gradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", cases("second", ("contiguous", "strided", "broadcast"), ONCE))
def test_second_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        assert gradgradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", cases("forward", ("contiguous",), ONCE))
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
