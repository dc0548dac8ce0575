"""Attention in one pass against its definition in NumPy and against the same written in ops."""

import itertools

import numpy as np
import pytest

import facula
from facula.nn import functional as F

SHAPES = [  # batch, queries, keys, size, size of values
    ((2, 3), 5, 7, 8, 6),
    ((1, 2), 49, 200, 33, 20),  # more than a block of queries and of keys, no multiple of anything
    ((3,), 100, 50, 16, 16),
    ((), 60, 400, 4, 40),
]


def inputs(shape, dtype=facula.float64):
    batch, queries, keys, size, value_size = shape
    r = np.random.default_rng(0)
    wanted = ((*batch, queries, size), (*batch, keys, size), (*batch, keys, value_size))
    return [facula.from_numpy(r.standard_normal(s)).to(dtype).requires_grad_() for s in wanted]


def in_ops(q, k, v, allowed=None, bias=None):
    scores = q.double() @ k.double().transpose(-2, -1) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -float("inf"))
        empty = ~allowed.any(-1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ v.double()
    return scores.softmax(-1) @ v.double()


def check(got, expected, tensors, tolerance):
    assert got.dtype == tensors[0].dtype
    facula.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)
    grad = facula.from_numpy(np.random.default_rng(1).standard_normal(tuple(got.shape)))
    mine = facula.autograd.grad(got, tensors, grad.to(got.dtype))
    for a, b in zip(mine, facula.autograd.grad(expected, tensors, grad), strict=True):
        facula.testing.assert_close(a, b, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("shape", "kind"), list(itertools.product(SHAPES, ("plain", "causal", "bool", "bias"))))
def test_values_and_gradients(shape, kind):
    for dtype, tolerance in ((facula.float64, 1e-12), (facula.float32, 3e-6), (facula.bfloat16, 2e-2)):
        q, k, v = tensors = inputs(shape, dtype)
        queries, keys = shape[1:3]
        if kind == "causal":
            result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            check(result, in_ops(q, k, v, allowed=facula.ones(queries, keys, dtype=facula.bool).tril()), tensors, tolerance)
        elif kind == "bool":
            allowed = facula.rand(queries, keys) > 0.3
            allowed[2] = False  # nothing left: zeros
            check(F.scaled_dot_product_attention(q, k, v, allowed), in_ops(q, k, v, allowed=allowed), tensors, tolerance)
        elif kind == "bias":
            bias = facula.randn(queries, keys)
            result = F.scaled_dot_product_attention(q, k, v, bias.to(dtype) if dtype == facula.float64 else bias)
            check(result, in_ops(q, k, v, bias=bias.double()), tensors, tolerance)
        else:
            check(F.scaled_dot_product_attention(q, k, v), in_ops(q, k, v), tensors, tolerance)


def test_large_scores_do_not_overflow():
    q = facula.tensor([[100.0, 0.0], [0.0, -100.0], [50.0, 50.0], [1.0, 1.0]])
    k, v = facula.randn(300, 2), facula.randn(300, 3)
    facula.testing.assert_close(F.scaled_dot_product_attention(q, k, v, scale=30.0), ((30 * q) @ k.T).softmax(-1) @ v)


def test_layouts_and_broadcasting():
    """Heads that are views of one product, keys that all heads share."""
    joined = facula.randn(2, 60, 3 * 4 * 8).requires_grad_()
    q, k, v = (t.reshape(2, 60, 4, 8).transpose(1, 2) for t in joined.split(32, 2))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert out.transpose(1, 2).is_contiguous()  # so that joining the heads copies nothing
    expected = F.scaled_dot_product_attention(*(t.detach().contiguous() for t in (q, k, v)), is_causal=True)
    facula.testing.assert_close(out.detach(), expected)
    shared = facula.randn(1, 1, 60, 8).requires_grad_()
    out = F.scaled_dot_product_attention(q, shared, shared)
    wide = shared.detach().expand(2, 4, 60, 8).clone().requires_grad_()
    facula.testing.assert_close(out, F.scaled_dot_product_attention(q, wide, wide))
    (grad,) = facula.autograd.grad(out.sum(), shared)
    (grad_wide,) = facula.autograd.grad(F.scaled_dot_product_attention(q, wide, wide).sum(), wide)
    facula.testing.assert_close(grad, grad_wide.sum((0, 1), keepdim=True))


def test_dropout_is_the_same_forwards_and_backwards():
    q, k, v = inputs(((2,), 50, 250, 8, 250))
    facula.manual_seed(3)
    weights = F.scaled_dot_product_attention(q, k, facula.eye(250, dtype=facula.float64).expand(2, 250, 250), dropout_p=0.3)
    kept = weights != 0
    assert abs(kept.double().mean().item() - 0.7) < 0.02
    plain = F.scaled_dot_product_attention(q, k, facula.eye(250, dtype=facula.float64).expand(2, 250, 250))
    facula.testing.assert_close(weights, plain * kept / 0.7)
    facula.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)

    def written_out():
        return (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) * kept / 0.7 @ v

    check(out, written_out(), [q, k, v], 1e-12)
    # differentiable gradients drop the same weights
    facula.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    grads = facula.autograd.grad(out.sin().sum(), (q, k, v), create_graph=True)
    wanted = facula.autograd.grad(written_out().sin().sum(), (q, k, v), create_graph=True)
    for a, b in zip(grads, wanted, strict=True):
        facula.testing.assert_close(a, b)
    (a,), (b,) = (facula.autograd.grad(g[0].square().sum(), q) for g in (grads, wanted))
    facula.testing.assert_close(a, b)


def test_threads_change_nothing():
    q, k, v = inputs(((1, 1), 150, 400, 16, 16), facula.float32)
    before, found = facula.get_num_threads(), []
    try:
        for threads in (1, 2):
            facula.set_num_threads(threads)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            found.append([out.detach(), *facula.autograd.grad(out.sin().sum(), (q, k, v))])
    finally:
        facula.set_num_threads(before)
    assert all(facula.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.fixture
def one_thread():
    """Each thread has its own block of scores."""
    before = facula.get_num_threads()
    facula.set_num_threads(1)
    yield
    facula.set_num_threads(before)


def test_no_matrix_of_scores_in_memory(one_thread):
    q, k, v = (facula.randn(1, 2, 2048, 16).requires_grad_() for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    before = facula.cpu.memory_stats()["allocated_bytes.current"]
    facula.cpu.reset_peak_memory_stats()
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    peak = facula.cpu.memory_stats()["allocated_bytes.peak"]
    assert peak - before < 2 * 2048 * 2048 * 4 / 4


def test_empty_and_wrong():
    zeros = F.scaled_dot_product_attention(facula.ones(2, 5, 4), facula.ones(2, 0, 4), facula.ones(2, 0, 3))
    assert facula.equal(zeros, facula.zeros(2, 5, 3))
    with pytest.raises(RuntimeError, match="^scaled_dot_product_attention: .*got shapes"):
        F.scaled_dot_product_attention(facula.ones(2, 5, 4), facula.ones(2, 6, 3), facula.ones(2, 6, 3))
    with pytest.raises(RuntimeError, match="^scaled_dot_product_attention: .*dropout probability.*-1"):
        F.scaled_dot_product_attention(facula.ones(2, 5, 4), facula.ones(2, 6, 4), facula.ones(2, 6, 3), dropout_p=-1.0)
