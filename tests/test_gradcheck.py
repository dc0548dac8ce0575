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


def hermitian(a):
    return a + a.mH


def definite(a):
    return a @ a.mH + a.shape[-1] * facula.eye(a.shape[-1], dtype=a.dtype)


def factor(a):
    return a.tril() + 3 * facula.eye(a.shape[-1], dtype=a.dtype)


def upper_factor(a):
    return a.triu() + 3 * facula.eye(a.shape[-1], dtype=a.dtype)


def weights(vectors):
    return facula.arange(1, vectors.shape[-1] + 1, dtype=facula.float64).to(vectors.dtype)


def projections(values, vectors):
    """Eigenvectors up to their free phase."""
    return values, (vectors * weights(vectors)) @ vectors.mH


def singular(u, s, vh):
    k = s.shape[-1]
    return s, (u[..., :k] * weights(u[..., :k])) @ vh[..., :k, :]


# Ops that read less than what they are given, or whose results have a free phase: the check is made on a function of the
# inputs (per position) and on one of the outputs that has neither.
INPUTS = {
    **dict.fromkeys(("linalg_eigh", "_linalg_eigh", "linalg_eigvalsh"), {0: hermitian}),
    **dict.fromkeys(("linalg_cholesky_ex", "linalg_cholesky", "cholesky"), {0: definite}),
    "cholesky_inverse": {0: factor},
    "cholesky_solve": {1: factor},
    # the derivative holds where log_probs come from a log-softmax
    **dict.fromkeys(("_ctc", "ctc_loss_IntList"), {0: lambda a: a.log_softmax(-1)}),
}
OUTPUTS = {
    **dict.fromkeys(("linalg_eigh", "_linalg_eigh"), projections),
    "_linalg_svd": singular,
    "linalg_svd": lambda u, s, vh: s,  # with full matrices, which are the default, vectors have no derivative
    "svd": lambda u, s, v: singular(u, s, v.mH),
    "linalg_eig": lambda values, vectors: (values, vectors.abs()),
}
# Derivatives of draws by rejection, which are those of the distribution and not of the algorithm (test_distributions.py);
# their own, which are errors (so are those of distinct elements); a factorization whose factors have none (see
# test_a_missing_derivative_is_an_error_of_backward), and products of integers. Rounding whose gradient is that of no rounding (test_quantize.py).
NEVER = {
    "_standard_gamma", "_sample_dirichlet", "_standard_gamma_grad", "_dirichlet_grad", "linalg_ldl_factor", "_fake_quantize",
    "fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_tensor_qparams", "fake_quantize_per_channel_affine",
    "_int_mm", "_unique", "_unique_consecutive",
}  # fmt: skip
# Draws: the gradient of their parameters is zero, as PyTorch's.
DRAWN = {"normal_Tensor_Tensor", "normal_Tensor_float", "normal_float_Tensor", "binomial", "bernoulli", "bernoulli_p", "poisson"}
# Derivatives that stop at the first order, as PyTorch's do: the second pass raises NotImplementedError.
ONCE = {"_ctc", "ctc_loss_IntList", "deform_conv2d"}


# Views that only memory without gaps has.
DENSE = {"view", "view_as", "view_as_complex", "view_copy_dtype", "view_as_complex_copy"}


def differentiable():
    for op in op_samples.all_ops():
        takes_tensor = any(a.is_tensor for a in op.args)
        if not takes_tensor or op.name.endswith("_") or op.kind in ("factory", "random") or op.grad == {}:
            continue
        if op.grad is None and not op.composite:
            continue  # no derivative stated, see test_a_missing_derivative_is_an_error_of_backward
        if op.returns and not any(r.startswith("Tensor") for r in op.returns) or op.id.endswith("_out"):
            continue
        if op.topic == "random" and not op.grad or op.id in NEVER:
            continue
        yield op


OPS = {op.id: op for op in differentiable()}
# Ops whose results depend on no floating tensor, or not differentiably: counts, positions, comparisons, what leaves the graph.
CONSTANT = {
    "argwhere", "detach_copy", "isclose", "linalg_matrix_rank_float", "linalg_matrix_rank_tensor", "linalg_matrix_rank_tol",
    "one_hot", "repeat_interleave_Tensor", "unravel_index", "view_copy_dtype", "where_nonzero",
}  # fmt: skip
COMPUTED = (("float64", "Float64"), ("complex128", "Complex128"))
DTYPES = {name: [dtype for dtype, kind in COMPUTED if kind in op.dtypes] for name, op in OPS.items()}


def cases(layouts):
    return [
        (name, dtype, layout)
        for name, op in OPS.items()
        if name not in CONSTANT
        for dtype in DTYPES[name]
        for layout in layouts
        # test_ops.py lists the ops without any samples
        if op_samples.has_samples(op, layout) and (layout != "strided" or name not in DENSE)
    ]


def make_samples(name, dtype, layout):
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {layout}".encode()))
    # a Jacobian takes two calls for each element: the small shape is enough
    return op_samples.samples(OPS[name], dtype, rng, layout, op_samples.ELEMENTWISE_SHAPES[:1])


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
        own = [replaced(a, mapping) for a in args]
        for position, change in INPUTS.get(op.id, {}).items():
            own[position] = change(own[position])
        facula.manual_seed(7)  # what an op draws is part of the function
        outputs = op_samples.call(op, *own, **{k: replaced(v, mapping) for k, v in kwargs.items()})
        return OUTPUTS[op.id](*outputs) if op.id in OUTPUTS else outputs

    return function


def chosen_samples(name, dtype, layout):
    """(function, the tensors it may be differentiated by) per sample."""
    op = OPS[name]
    for args, kwargs in make_samples(name, dtype, layout):
        chosen = floating_tensors(args, kwargs)
        wanted = {name for name, formula in op.grad.items() if "no_derivative" not in str(formula)} if op.grad else None
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
        if chosen:
            yield as_function(op, args, kwargs, chosen), chosen


def prepared(name, dtype, layout):
    """(function, inputs) per sample; the result of each depends differentiably on its tensors."""
    found = []
    for function, chosen in chosen_samples(name, dtype, layout):
        inputs = tuple(t.detach().requires_grad_() for t in chosen)
        if any(o.requires_grad for o in flat_outputs(function(*inputs))):
            found.append((function, inputs))
    assert len(found) == len(make_samples(name, dtype, layout)) > 0
    return found


@pytest.mark.parametrize("name", sorted(CONSTANT))
def test_constant_results_have_no_history(name):
    for dtype in DTYPES[name]:
        for args, kwargs in make_samples(name, dtype, "contiguous"):
            for t in floating_tensors(args, kwargs):
                t.requires_grad_()
            outputs = flat_outputs(op_samples.call(OPS[name], *args, **kwargs))
            assert outputs and not any(o.requires_grad for o in outputs)


def test_every_op_is_checked_in_some_dtype():
    assert [name for name, dtypes in DTYPES.items() if not dtypes] == []


def without_derivative():
    for op in op_samples.all_ops():
        stated = op.grad is not None or op.composite or op.kind in ("factory", "random", "view") or op.name.endswith("_")
        if not stated and op.samples and "Float64" in op.dtypes and any(r.startswith("Tensor") for r in op.returns):
            yield op


PARTS_OF = {"_householder": r"linalg\.householder_product", "_linalg_eigvals": r"linalg\.eigvals"}  # what users call


@pytest.mark.parametrize("op", list(without_derivative()), ids=lambda op: op.id)
def test_a_missing_derivative_is_an_error_of_backward(op):
    rng = np.random.default_rng(0)
    for args, kwargs in op_samples.samples(op, "float64", rng):
        tensors = floating_tensors(args, kwargs)
        if not tensors and op.name == "bincount":  # of the integers alone
            continue
        for t in tensors:
            t.requires_grad_()
        results = [r for r in flat_outputs(op_samples.call(op, *args, **kwargs)) if r.is_floating_point() or r.is_complex()]
        assert tensors and results
        assert all(r.requires_grad for r in results)
        shown = PARTS_OF.get(op.name, op.name.lstrip("_"))
        with pytest.raises(RuntimeError, match=f"^{shown}: the derivative is not implemented"):
            results[0].abs().sum().backward()


@pytest.mark.parametrize("name,dtype,layout", cases(op_samples.LAYOUTS))
def test_first_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        if name in DRAWN:
            pulled = facula.autograd.grad(flat_outputs(function(*inputs))[0].abs().sum(), inputs)
            assert all(bool((g == 0).all()) for g in pulled)
        else:
            assert gradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", cases(("contiguous", "strided", "broadcast")))
def test_second_derivative(name, dtype, layout):
    for function, inputs in prepared(name, dtype, layout):
        if name in ONCE:
            with pytest.raises(RuntimeError, match="the derivative is not implemented"):
                gradgradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)
        else:
            assert gradgradcheck(function, inputs, eps=EPS, atol=ATOL, rtol=RTOL)


@pytest.mark.parametrize("name,dtype,layout", cases(("contiguous",)))
def test_forward_mode_agrees_with_reverse_mode(name, dtype, layout):
    """<u, J v> computed from both sides."""
    rng = np.random.default_rng(1)
    for function, inputs in prepared(name, dtype, layout):
        if name in ONCE:
            with pytest.raises(RuntimeError, match="the derivative is not implemented"):
                both_sides(function, inputs, rng)
        else:
            forward, reverse = both_sides(function, inputs, rng)
            assert np.isclose(forward, reverse, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name,dtype,layout", cases(("contiguous",)))
@pytest.mark.filterwarnings("ignore:vmap. There is a performance drop")
def test_a_batch_of_gradients_is_a_loop(name, dtype, layout):
    """grad(is_grads_batched=True): derivative formulas on batches."""
    rng = np.random.default_rng(2)
    for function, inputs in prepared(name, dtype, layout):
        outputs = [o for o in flat_outputs(function(*inputs)) if o.requires_grad]
        cotangents = [[random_like(o, rng) for o in outputs] for _ in range(2)]
        stacked = [facula.stack(column) for column in zip(*cotangents)]
        together = facula.autograd.grad(outputs, inputs, stacked, allow_unused=True, retain_graph=True, is_grads_batched=True)
        for k, own in enumerate(cotangents):
            alone = facula.autograd.grad(outputs, inputs, own, allow_unused=True, retain_graph=True)
            for a, b in zip(together, alone):
                assert (a is None) == (b is None)
                if b is not None:
                    np.testing.assert_allclose(as_array(a[k]), as_array(b), rtol=1e-9, atol=1e-11)


def flat_outputs(outputs):
    return [o for o in ([outputs] if isinstance(outputs, facula.Tensor) else outputs) if isinstance(o, facula.Tensor)]


def as_array(tensor):
    return tensor.detach().resolve_conj().numpy()


def both_sides(function, inputs, rng):
    directions = [random_like(x, rng) for x in inputs]
    outputs = [o for o in flat_outputs(function(*inputs)) if o.requires_grad]
    cotangents = [random_like(o, rng) for o in outputs]
    pushed = pushforward(outputs, list(inputs), directions)
    pulled = facula.autograd.grad(outputs, inputs, cotangents, allow_unused=True, retain_graph=True)
    forward = sum(inner(u, t) for u, t in zip(cotangents, pushed) if t is not None)
    reverse = sum(inner(g, v) for g, v in zip(pulled, directions) if g is not None)
    return forward, reverse


def random_like(tensor, rng):
    values = rng.standard_normal(tuple(tensor.shape))
    if tensor.is_complex():
        values = values + 1j * rng.standard_normal(tuple(tensor.shape))
    return facula.from_numpy(np.asarray(values)).to(tensor.dtype)


def inner(a, b):
    return float(np.real(np.sum(np.conj(a.detach().resolve_conj().numpy()) * b.detach().resolve_conj().numpy())))


def test_the_function_survives_an_import_of_its_module():
    import facula.autograd.gradcheck as module  # binds the module to the function's name

    x = facula.randn(3, dtype=facula.float64, requires_grad=True)
    assert facula.autograd.gradcheck(facula.sin, (x,)) and module(facula.sin, (x,))
