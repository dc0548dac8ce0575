"""Define rules that decompose ops, by PyTorch's names, into ops of its core IR.

A rule receives the op's arguments as the table has them, calls ops by `op` (`_functional.py`), and returns
NotImplemented for a call that it does not decompose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.export._functional import op
from facula.export._symint import text_of
from facula.export.decomp_utils import CustomDecompTable

if TYPE_CHECKING:
    pass

RULES = {}


def rule(*names):
    """Note a rule under names of PyTorch's."""

    def note(function):
        for name in names:
            RULES[name] = function
        return function

    return note


def _same(a, b):
    return [*map(text_of, a)] == [*map(text_of, b)]


def _view(x, *sizes):
    sizes = list(sizes)
    return x if _same(x.shape, sizes) else op("view.default", _contiguous(x), sizes)


def _broadcast(a, b):
    """Return the sizes of both together. Numbers are compared, not expressions: this asks for no condition on sizes that
    vary."""
    n = max(len(a), len(b))
    a, b = ([1] * (n - len(sizes)) + list(sizes) for sizes in (a, b))
    return [y if int(x) == 1 else x for x, y in zip(a, b)]


def _contiguous(x):
    return x if x.is_contiguous() else op("clone.default", x, facula.contiguous_format)


def _expand(x, *sizes):
    return x if _same(x.shape, sizes) else op("expand.default", x, list(sizes))


def _permuted(x, *dims):
    return op("permute.default", x, list(dims))


def _swapped(x, a, b):
    dims = list(range(x.dim()))
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted(x, *dims)


def _cast(x, dtype):
    return x if dtype is None or x.dtype == dtype else op("_to_copy.default", x, dtype)


# ---- products


@rule("linear.default")
def linear(x, weight, bias=None):
    if weight.dim() != 2:
        return NotImplemented
    turned = _permuted(weight, 1, 0)
    rows = x if x.dim() == 2 else _view(x, math.prod(x.shape[:-1]), x.shape[-1])
    made = op("mm.default", rows, turned) if bias is None else op("addmm.default", bias, rows, turned)
    return made if x.dim() == 2 else _view(made, *x.shape[:-1], weight.shape[0])


@rule("matmul.default")
def matmul(a, b):
    if a.dim() == 2 and b.dim() == 2:
        return op("mm.default", a, b)
    if a.dim() < 2 or b.dim() < 2:
        if a.dim() == 1 and b.dim() == 1:
            return op("sum.default", op("mul.default", a, b))
        if b.dim() == 1:
            return op("squeeze.dim", matmul(a, op("unsqueeze.default", b, 1)), -1)
        return op("squeeze.dim", matmul(op("unsqueeze.default", a, 0), b), -2)
    if b.dim() == 2:
        rows = _view(a, math.prod(a.shape[:-1]), a.shape[-1])
        return _view(op("mm.default", rows, b), *a.shape[:-1], b.shape[-1])
    batch = _broadcast(a.shape[:-2], b.shape[:-2])
    a, b = (_expand(t, *batch, *t.shape[-2:]) for t in (a, b))
    a, b = (_view(t, math.prod(batch), *t.shape[-2:]) for t in (a, b))
    return _view(op("bmm.default", a, b), *batch, a.shape[-2], b.shape[-1])


@rule("baddbmm.default")
def baddbmm(x, a, b, beta=1, alpha=1):
    made = op("bmm.default", a, b)
    made = made if alpha == 1 else op("mul.default", made, alpha)
    if beta == 0:
        return made  # whatever x holds
    return op("add.default", made, x if beta == 1 else op("mul.default", x, beta))


@rule("scaled_dot_product_attention.default")
def attention(q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        return NotImplemented
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    weights = _decomposed_scores(q, k, mask, is_causal, scale)[1]
    if dropout_p:
        return matmul(op("native_dropout.default", weights, dropout_p, True)[0], v)
    return _in_order_of_query(matmul(weights, v), q)


def _in_order_of_query(attended, q):
    """Return the result of attention with its elements where eager puts them: in the order of the query's dimensions.

    Views that follow in the program are possible in that order only.
    """
    if q.dim() != 4 or int(attended.shape[-1]) != int(q.shape[-1]) or q.stride(-1) != 1:
        return attended
    like = _C._record_unseen(lambda: facula.empty_like(q), ())
    if like.is_contiguous():
        return attended
    order = sorted(range(q.dim()), key=lambda d: -like.stride(d))
    laid = _contiguous(_permuted(attended, *order))
    return _permuted(laid, *(order.index(d) for d in range(q.dim())))


def _decomposed_scores(q, k, mask, is_causal, scale):
    """Return the scores of queries and keys, and their soft-max."""
    scores = matmul(op("mul.default", q, math.sqrt(scale)), op("mul.default", _swapped(k, -2, -1), math.sqrt(scale)))
    if is_causal:
        rows, columns = q.shape[-2], k.shape[-2]
        mask = op("tril.default", op("full.default", [rows, columns], True, facula.bool), 0)
    if mask is not None and mask.dtype == facula.bool:
        scores = op("where.default", mask, scores, op("full.default", [], -math.inf, scores.dtype))
    elif mask is not None:
        scores = op("add.default", scores, mask)
    weights = op("_core_softmax.default", scores, -1, False)
    if mask is not None:  # where nothing may be looked at
        seen = op("any.dim", op("ne.default", scores, -math.inf), -1, True)
        weights = op("where.default", seen, weights, op("full.default", [], 0.0, scores.dtype))
    return scores, weights


@rule("embedding_bag.padding_idx")
def embedding_bag(weight, indices, offsets, by_freq=False, mode=0, sparse=False, weights=None, last=False, padding=None):
    padding = -1 if padding is None else padding
    return op("_core_embedding_bag.default", weight, indices, offsets, by_freq, mode, sparse, weights, last, padding)


@rule("conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def convolution(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    n = weight.dim() - 2
    if x.dim() != n + 2 or padding == "same" or any(isinstance(p, str) and p != "valid" for p in [padding]):
        return NotImplemented
    stride, padding, dilation = (_numbers(v, n) for v in (stride, 0 if padding == "valid" else padding, dilation))
    return op("convolution.default", x, weight, bias, stride, padding, dilation, False, [0] * n, groups)


def _numbers(value, n):
    return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)


# ---- normalization


@rule("batch_norm.default")
def batch_norm(x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    if training or mean is None:
        return op("_native_batch_norm_legit.no_stats", x, weight, bias, True, momentum, eps)[0]
    return op("_native_batch_norm_legit_no_training.default", x, weight, bias, mean, var, momentum, eps)[0]


@rule("layer_norm.default")
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return op("native_layer_norm.default", x, list(shape), weight, bias, eps)[0]


@rule("group_norm.default")
def group_norm(x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c, rest = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    return op("native_group_norm.default", _contiguous(x), weight, bias, n, c, rest, groups, eps)[0]


@rule("rms_norm.default")
def rms_norm(x, shape, weight=None, eps=None):
    eps = facula.finfo(x.dtype).eps if eps is None else eps
    square = op("mean.dim", op("pow.default", x, 2), list(range(-len(shape), 0)), True)
    made = op("mul.default", x, op("rsqrt.default", op("add.default", square, eps)))
    return made if weight is None else op("mul.default", made, weight)


@rule("dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(x, p=0.5, train=True):
    return NotImplemented if train and p else op("clone.default", x)


# ---- activations


@rule("softmax.int")
def softmax(x, dim, dtype=None):
    return op("_core_softmax.default", _cast(x, dtype), dim, False)


@rule("log_softmax.int")
def log_softmax(x, dim, dtype=None):
    return op("_core_log_softmax.default", _cast(x, dtype), dim, False)


@rule("silu.default")
def silu(x):
    return op("mul.default", x, op("sigmoid.default", x))


@rule("hardsigmoid.default")
def hardsigmoid(x):
    return op("div.default", op("clamp.default", op("add.default", x, 3), 0, 6), 6)


@rule("hardswish.default")
def hardswish(x):
    return op("mul.default", x, hardsigmoid(x))


@rule("softplus.default")
def softplus(x, beta=1, threshold=20):
    scaled = op("mul.default", x, beta)
    made = op("div.default", op("log1p.default", op("exp.default", scaled)), beta)
    return op("where.default", op("gt.default", scaled, threshold), x, made)


@rule("mish.default")
def mish(x):
    return op("mul.default", x, op("tanh.default", softplus(x)))


@rule("glu.default")
def glu(x, dim=-1):
    half = x.shape[dim] // 2
    a, b = (op("slice.Tensor", x, dim, start, start + half, 1) for start in (0, half))
    return op("mul.default", a, op("sigmoid.default", b))


@rule("prelu.default")
def prelu(x, weight):
    shape = [weight.numel() if d == 1 and weight.numel() > 1 else 1 for d in range(max(x.dim(), 1))]
    scaled = op("mul.default", x, weight if x.dim() < 2 else _view(weight, *shape))
    return op("where.default", op("gt.default", x, 0), x, scaled)


@rule("square.default")
def square(x):
    return op("pow.default", x, 2)


@rule("addcmul.default")
def addcmul(x, a, b, value=1):
    made = op("mul.default", a, b)
    return op("add.default", x, made if value == 1 else op("mul.default", made, value))


@rule("addcdiv.default")
def addcdiv(x, a, b, value=1):
    made = op("div.default", a, b)
    return op("add.default", x, made if value == 1 else op("mul.default", made, value))


@rule("lerp.Tensor", "lerp.Scalar")
def lerp(x, end, weight):
    return op("add.default", x, op("mul.default", op("sub.default", end, x), weight))


@rule("std.correction")
def std(x, dim=None, correction=None, keepdim=False):
    return op("sqrt.default", op("var.correction", x, dim, correction, keepdim))


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x, mask, value):
    if isinstance(value, facula.Tensor):
        return op("where.default", mask, _cast(value, x.dtype), x)
    return op("where.default", mask, op("full.default", [], value, x.dtype), x)


# ---- shapes


@rule("reshape.default")
def reshape(x, shape):
    shape = list(shape)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = math.prod(x.shape) // known if known else -1
    return op("view.default", _contiguous(x), shape)


@rule("reshape_as.default", "view_as.default")
def reshape_as(x, other):
    return op("view.default", _contiguous(x), list(other.shape))


@rule("flatten.using_ints")
def flatten(x, start=0, end=-1):
    if x.dim() == 0:
        return op("view.default", x, [1])
    start, end = start % x.dim(), end % x.dim()
    sizes = list(x.shape)
    return op("view.default", _contiguous(x), [*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]])


@rule("unflatten.int")
def unflatten(x, dim, sizes):
    dim, sizes, shape = dim % x.dim(), list(sizes), list(x.shape)
    if -1 in sizes:
        sizes[sizes.index(-1)] = shape[dim] // math.prod(n for n in sizes if n != -1)
    return op("view.default", _contiguous(x), [*shape[:dim], *sizes, *shape[dim + 1 :]])


@rule("pad.default")
def pad(x, pad, mode="constant", value=None):
    return op("constant_pad_nd.default", x, list(pad), value or 0) if mode == "constant" else NotImplemented


@rule("arange.default", "arange.start")
def arange(*arguments):
    numbers = [a for a in arguments if isinstance(a, (int, float))]
    dtype, device = arguments[len(numbers) : len(numbers) + 2]
    start, end = numbers if len(numbers) == 2 else (0, numbers[0])
    return op("arange.start_step", start, end, 1, dtype, device)


@rule("new_zeros.default")
def new_zeros(x, size, dtype=None, device=None):
    return op("full.default", list(size), 0, dtype or x.dtype, device or x.device)


@rule("new_ones.default")
def new_ones(x, size, dtype=None, device=None):
    return op("full.default", list(size), 1, dtype or x.dtype, device or x.device)


@rule("max_pool2d.default")
def max_pool2d(x, *window):
    return op("max_pool2d_with_indices.default", x, *window)[0]


@rule("roll.default")
def roll(x, shifts, dims=()):
    shifts, dims = (_numbers(v, 1) if isinstance(v, int) else list(v) for v in (shifts, dims))
    if not dims:
        return NotImplemented
    for shift, dim in zip(shifts, dims):
        n = x.shape[dim]
        if n:
            cut = (n - shift) % n
            x = op("cat.default", [op("slice.Tensor", x, dim, cut, n, 1), op("slice.Tensor", x, dim, 0, cut, 1)], dim)
    return x


@rule("t.default")
def turned(x):
    return _permuted(x, *reversed(range(x.dim())))


@rule("transpose.int")
def transpose(x, a, b):
    return _swapped(x, a, b) if x.dim() else op("alias_view.default", x)


@rule("contiguous.default")
def contiguous(x, memory_format=facula.contiguous_format):
    return op("clone.default", x, memory_format)


@rule("expand_as.default")
def expand_as(x, other):
    return op("expand.default", x, list(other.shape))


@rule("type_as.default")
def type_as(x, other):
    return op("_to_copy.default", x, other.dtype)


@rule("to.dtype")
def to_dtype(x, dtype, non_blocking=False, copy=False, memory_format=None):
    return op("_to_copy.default", x, dtype, None, None, None, False, memory_format)


@rule("stack.default")
def stack(tensors, dim=0):
    return op("cat.default", [op("unsqueeze.default", t, dim) for t in tensors], dim)


@rule("chunk.default")
def chunk(x, chunks, dim=0):
    size = -(-x.shape[dim] // chunks)
    return split(x, max(size, 1), dim)


@rule("split.Tensor", "split_with_sizes.default", "split.sizes")
def split(x, sizes, dim=0):
    if isinstance(sizes, int):
        n = x.shape[dim]
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)] or [0]
    return op("split_with_sizes.default", x, list(sizes), dim)


@rule("unbind.int")
def unbind(x, dim=0):
    return [op("select.int", x, dim, i) for i in range(x.shape[dim])]


@rule("narrow.default")
def narrow(x, dim, start, length):
    return op("slice.Tensor", x, dim, start, start + length, 1)


@rule("zeros.default")
def zeros(size, dtype=None, device=None):
    return op("full.default", list(size), 0, dtype or facula.get_default_dtype(), device)


@rule("ones.default")
def ones(size, dtype=None, device=None):
    return op("full.default", list(size), 1, dtype or facula.get_default_dtype(), device)


@rule("zeros_like.default")
def zeros_like(x, *rest):
    return op("full_like.default", x, 0, *rest)


@rule("ones_like.default")
def ones_like(x, *rest):
    return op("full_like.default", x, 1, *rest)


@rule("lift_fresh_copy.default")
def lifted(x):
    return op("clone.default", x)


@rule("detach.default")
def detach(x):
    return op("alias_view.default", x)


@rule("adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(x, size):
    if list(size) == [1, 1]:
        return op("mean.dim", x, [-2, -1], True)
    return NotImplemented


def table():
    """Return all rules, by operator."""
    made = CustomDecompTable()
    for name, function in RULES.items():
        packet, overload = name.split(".")
        made[getattr(getattr(facula.ops.aten, packet), overload)] = function
    return made
