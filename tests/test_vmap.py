"""vmap of every op whose kind has a batching rule, compared with a Python loop; generated from ops/*.yaml."""

from __future__ import annotations

import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import op_samples
import pytest

import facula
from facula.func import _vmap, vmap

sys.path.append(str(Path(__file__).resolve().parents[1]))
from codegen import batching  # noqa: E402

SIZE = 3
# Ops that look at values, give shapes that depend on them, or write to what they are given: vmap says so.
VALUES = "^vmap: .*(needs the values|has no single value)"
SHARED = "^vmap: batch_norm: running statistics that all examples share"
REFUSED = {
    **dict.fromkeys(
        ("narrow_Tensor", "tensor_split_tensor_indices_or_sections"),
        (VALUES, ("first", "last", "nested")),
    ),
    **dict.fromkeys(("_channel_norm", "native_batch_norm", "batch_norm", "instance_norm"), (SHARED, ("only one",))),
}  # fmt: skip
# Ops on the layout of memory, in which the examples of a batch in the last dimension differ from a contiguous one.
LAYOUT = {"view_dtype", "view_copy_dtype", "view_as_complex", "view_as_complex_copy", "as_strided", "as_strided_copy"}
# Ops whose rule holds for some arguments only, others than their sample's.
LOOPS = {
    "searchsorted_Tensor": "a sequence of one dimension for values of two",
    "_class_weights": "a weight per example",
}


def with_rule():
    for op in op_samples.all_ops():
        if not any(a.is_tensor for a in op.args) or op.id.endswith("_out") or op.name.endswith("_"):
            continue
        if not any(r.startswith("Tensor") for r in op.returns) or op.kind in ("random", "factory") or op.topic == "random":
            continue
        if (op.composite or batching.has_rule(op)) and op_samples.has_samples(op):  # test_ops.py lists those without
            yield op


OPS = {op.id: op for op in with_rule()}


def a_sample(name, dtype):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return op_samples.samples(OPS[name], dtype, rng, "contiguous")


def dtype_of(op):
    return next(d for d in ("Float64", "Int64", "Bool", "Complex128") if d in op.dtypes).lower()


def leaves(value):
    if isinstance(value, facula.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)


def variations(tensor, rng):
    """Values like the given ones, SIZE of them."""
    if tensor.is_floating_point() or tensor.is_complex():
        return [tensor * float(scale) for scale in (1.0, *rng.uniform(0.95, 0.999, SIZE - 1))]
    return [tensor] * SIZE


def rebuilt(value, mapping):
    if isinstance(value, facula.Tensor):
        return mapping.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)(rebuilt(item, mapping) for item in value)
    return value


def as_function(op, args, kwargs, chosen):
    def function(*tensors):
        mapping = {id(old): new for old, new in zip(chosen, tensors)}
        result = op_samples.call(
            op, *(rebuilt(a, mapping) for a in args), **{k: rebuilt(v, mapping) for k, v in kwargs.items()}
        )
        return tuple(t for t in leaves(result))

    return function


def same(batched, rows):
    assert len(batched) == len(rows[0])
    for together, *alone in zip(batched, *rows):
        expected = facula.stack(alone)
        assert together.shape == expected.shape and together.dtype == expected.dtype
        np.testing.assert_allclose(
            together.resolve_conj().numpy(), expected.resolve_conj().numpy(), rtol=1e-9, atol=1e-11, equal_nan=True
        )


MODES = ("first", "last", "only one", "nested")


def check(name, mode):
    op = OPS[name]
    rng = np.random.default_rng(3)
    for args, kwargs in a_sample(name, dtype_of(op)):
        chosen = list(leaves((*args, *kwargs.values())))
        if mode == "only one":
            chosen = chosen[:1]
        assert chosen
        function = as_function(op, args, kwargs, chosen)
        columns = [variations(t, rng) for t in chosen]
        rows = [function(*row) for row in zip(*columns)]
        if mode == "nested":
            stacked = [facula.stack([facula.stack(c), facula.stack(c)]) for c in columns]
            outer = vmap(vmap(function))(*stacked)
            for k in range(2):
                same(tuple(t[k] for t in outer), rows)
            continue
        dim = -1 if mode == "last" else 0
        stacked = [facula.stack(c, dim) for c in columns]
        same(vmap(function, in_dims=dim)(*stacked), rows)


@pytest.mark.parametrize(("name", "mode"), [(n, m) for n in OPS for m in MODES if n not in LAYOUT or m != "last"])
@pytest.mark.filterwarnings("ignore:vmap. There is a performance drop")
def test_vmap_is_a_loop(name, mode):
    text, modes = REFUSED.get(name, ("", ()))
    if mode in modes:
        with pytest.raises(RuntimeError, match=text):
            check(name, mode)
    else:
        check(name, mode)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if not op.composite and n not in LOOPS and n not in REFUSED])
def test_a_rule_does_not_loop(name):
    """An op that has a rule runs once when what it is differentiated by is batched."""
    op = OPS[name]
    _vmap._warned.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="vmap: There is a performance drop")
        for args, kwargs in a_sample(name, dtype_of(op)):
            every = list(leaves((*args, *kwargs.values())))
            chosen = ([t for t in every if t.is_floating_point() or t.is_complex()] or every)[:1]
            vmap(as_function(op, args, kwargs, chosen))(*(facula.stack([t] * SIZE) for t in chosen))


def test_an_op_without_a_rule_warns_once_and_loops():
    _vmap._warned.clear()
    x = facula.tensor([[3.0, 1.0, 2.0], [0.5, 0.0, 0.25]])
    with pytest.warns(UserWarning, match="^vmap: There is a performance drop because histc has no batching rule"):
        found = vmap(lambda r: facula.histc(r, 3))(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = vmap(lambda r: facula.histc(r, 3))(x)
    for result in (found, again):
        assert result.tolist() == facula.stack([facula.histc(r, 3) for r in x]).tolist()
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="^vmap: .*the shape of the result depends on the values"):
            vmap(lambda r: facula.nonzero(r))(x)


RANDOM = {
    "rand": lambda r: facula.rand(4),
    "randn_like": lambda r: facula.randn_like(r),
    "bernoulli": lambda r: facula.bernoulli(r.sigmoid()),
    "dropout": lambda r: facula.nn.functional.dropout(r + 2, 0.5),
    "normal_": lambda r: facula.empty_like(r).normal_(),
    "multinomial": lambda r: facula.multinomial(facula.ones(8), 3) if r is None else facula.multinomial(r.softmax(-1), 2),
}


@pytest.mark.parametrize("name", RANDOM)
def test_randomness(name):
    f, x = RANDOM[name], facula.zeros(6, 64)
    with pytest.raises(RuntimeError, match="^vmap: .* draws random numbers"):
        vmap(f)(x)
    equal = vmap(f, randomness="same")(x)
    assert all(bool((row == equal[0]).all()) for row in equal)
    facula.manual_seed(0)
    different = vmap(f, randomness="different")(x)
    assert different.shape == equal.shape
    assert any(bool((row != different[0]).any()) for row in different[1:])


def test_in_place_writes_reach_the_batch():
    x = facula.arange(6.0).reshape(2, 3)
    vmap(lambda r: r.mul_(2))(x)
    assert x.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]

    def write(r):
        r[1] = 5.0
        r[0] += r[2]
        return r

    assert vmap(write)(x.clone()).tolist() == [[4.0, 5.0, 4.0], [16.0, 5.0, 10.0]]
    with pytest.raises(RuntimeError, match="^vmap: add_: the examples share this tensor"):
        vmap(lambda r: facula.zeros(3).add_(r))(x)


def test_examples_show_no_values():
    x = facula.ones(2, 3)
    for use in (lambda r: r.sum().item(), lambda r: r.numpy(), lambda r: bool(r[0]), lambda r: r.tolist(), lambda r: float(r[0])):
        with pytest.raises(RuntimeError, match="^vmap: .*(has no single value|stands for a whole batch)"):
            vmap(use)(x)
    with pytest.raises(RuntimeError, match="out= is not supported inside vmap"):
        vmap(lambda r: facula.add(r, r, out=facula.empty(3)))(x)


def test_indices_of_a_batch():
    rng = np.random.default_rng(0)
    x = facula.from_numpy(rng.standard_normal((3, 4, 5, 6)))
    i = facula.from_numpy(rng.integers(0, 4, (3, 2)))
    j = facula.from_numpy(rng.integers(0, 5, (3, 2)))
    w = facula.from_numpy(rng.standard_normal((3, 2, 6)))
    cases = [
        (lambda x, i, j: x[i], (0, 0, None)),
        (lambda x, i, j: x[:, j], (0, None, 0)),
        (lambda x, i, j: x[i, :, j], (0, 0, 0)),
        (lambda x, i, j: x[i, j], (0, 0, 0)),
        (lambda x, i, j: x[:, j, j], (0, None, 0)),
        (lambda x, i, j: x[0][:, j], (None, None, 0)),
        (lambda x, i, j: x[0][i, :, j], (None, 0, 0)),
    ]
    for f, dims in cases:
        own = [x if dims[0] == 0 else x, i if dims[1] == 0 else i[0], j if dims[2] == 0 else j[0]]
        rows = [f(*(v[k] if d == 0 else v for v, d in zip(own, dims))) for k in range(3)]
        np.testing.assert_array_equal(vmap(f, in_dims=dims)(*own).numpy(), facula.stack(rows).numpy())
    put = lambda x, i, j, w: x.index_put((i, j), w)  # noqa: E731
    rows = [put(x[k], i[k], j[k], w[k]) for k in range(3)]
    np.testing.assert_array_equal(vmap(put)(x, i, j, w).numpy(), facula.stack(rows).numpy())


def test_convolution_with_a_weight_per_example():
    rng = np.random.default_rng(0)
    x = facula.from_numpy(rng.standard_normal((3, 2, 4, 8, 8)))
    w = facula.from_numpy(rng.standard_normal((3, 6, 2, 3, 3)))
    b = facula.from_numpy(rng.standard_normal((3, 6)))
    f = lambda x, w, b: facula.nn.functional.conv2d(x, w, b, padding=1, groups=2)  # noqa: E731
    loss = lambda w, b, x: f(x, w, b).square().sum()  # noqa: E731
    for dims in ((0, 0, 0), (0, None, None), (None, 0, 0), (0, 0, None)):
        own = [v if d == 0 else v[0] for v, d in zip((x, w, b), dims)]
        rows = [f(*(v[k] if d == 0 else v for v, d in zip(own, dims))) for k in range(3)]
        np.testing.assert_allclose(vmap(f, in_dims=dims)(*own).numpy(), facula.stack(rows).numpy(), rtol=1e-9, atol=1e-9)
    per_example = vmap(facula.func.grad(loss), in_dims=(None, None, 0))(w[0], b[0], x)
    rows = [facula.func.grad(loss)(w[0], b[0], x[k]) for k in range(3)]
    np.testing.assert_allclose(per_example.numpy(), facula.stack(rows).numpy(), rtol=1e-9, atol=1e-9)


def test_per_example_gradients_of_a_network():
    facula.manual_seed(0)
    net = facula.nn.Sequential(
        facula.nn.Conv2d(1, 4, 3), facula.nn.GroupNorm(2, 4), facula.nn.ReLU(), facula.nn.MaxPool2d(2), facula.nn.Flatten(),
        facula.nn.Linear(36, 8), facula.nn.LayerNorm(8), facula.nn.Linear(8, 5),
    ).double()  # fmt: skip
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    x, y = facula.randn(4, 1, 8, 8, dtype=facula.float64), facula.tensor([0, 3, 1, 4])

    def loss(parameters, x, y):
        scores = facula.func.functional_call(net, parameters, (x.unsqueeze(0),))
        return facula.nn.functional.cross_entropy(scores, y.unsqueeze(0))

    _vmap._warned.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="vmap: There is a performance drop")
        found = vmap(facula.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for k in range(4):
        expected = facula.func.grad(loss)(parameters, x[k], y[k])
        for name in parameters:
            np.testing.assert_allclose(found[name][k].numpy(), expected[name].numpy(), rtol=1e-8, atol=1e-10)


def test_jacobians_take_one_pass():
    passes = []

    class Counted(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            passes.append(tuple(grad.shape))
            return grad

    x = facula.arange(5.0, dtype=facula.float64)
    found = facula.func.jacrev(lambda x: Counted.apply(x).sin())(x)
    np.testing.assert_allclose(found.numpy(), np.diag(np.cos(np.arange(5.0))))
    assert passes == [(5,)]
    assert facula.func.jacrev(lambda x: Counted.apply(x).sin(), chunk_size=2)(x).shape == (5, 5)
    assert len(passes) == 4


INDEXED = {
    "index_select": lambda x, i, s: x.index_select(1, i),
    "index_add": lambda x, i, s: x.index_add(1, i, s, alpha=2),
    "index_copy": lambda x, i, s: x.index_copy(1, i, s),
    "index_fill": lambda x, i, s: x.index_fill(1, i, 7.0),
    "index_fill tensor": lambda x, i, s: x.index_fill(-1, i, s[0, 0]),
    "index_reduce": lambda x, i, s: x.index_reduce(1, i, s, "prod"),
    "put": lambda x, i, s: x.put(i, s[0], accumulate=True),
    "of a vector": lambda x, i, s: x[0].index_select(0, i) * x[0].index_add(0, i, s[0]).sum(),
    "of a number": lambda x, i, s: x[0, 0].index_select(0, i[:1] * 0),
}


BATCHED = ((0, 0, 0), (None, 0, 0), (0, 0, None), (None, 0, None), (0, None, None), (None, None, 0))  # of x, i and s
# index_fill takes a value, not one per example, where the examples share the positions
INDEXED_CASES = [(n, d) for n in INDEXED for d in BATCHED if n != "index_fill tensor" or d[1] == 0]


@pytest.mark.parametrize(("name", "dims"), INDEXED_CASES)
def test_positions_of_each_example_take_one_call(name, dims):
    rng = np.random.default_rng(0)
    x = facula.from_numpy(rng.standard_normal((3, 4, 5)))
    i = facula.from_numpy(np.stack([rng.permutation(4)[:2] for _ in range(3)]))
    s = facula.from_numpy(rng.standard_normal((3, 4, 2)))
    given = [v if d == 0 else v[0] for v, d in zip((x, i, s), dims)]
    rows = [INDEXED[name](*(v[k] if d == 0 else v for v, d in zip(given, dims))) for k in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(INDEXED[name], in_dims=dims)(*given)
    np.testing.assert_allclose(found.numpy(), facula.stack(rows).expand_as(found).numpy(), rtol=1e-12)


def test_a_source_per_example_has_a_row_per_position():
    with pytest.raises(RuntimeError, match="as many indices as the source has positions"):
        vmap(lambda x, i: x.index_add(0, i, facula.ones(3)))(facula.ones(2, 4), facula.tensor([[0, 1], [1, 2]]))


@pytest.mark.filterwarnings("ignore:vmap. There is a performance drop")
def test_ops_that_read_values_run_example_by_example():
    rng = np.random.default_rng(0)
    weight, indices = facula.from_numpy(rng.standard_normal((7, 4))), facula.from_numpy(rng.integers(0, 7, (2, 3, 2)))
    bags = vmap(lambda i: facula.nn.functional.embedding_bag(i, weight))(indices)
    np.testing.assert_allclose(bags.numpy(), weight[indices].mean(2).numpy())
    x, repeats = facula.arange(6.0).reshape(2, 3), facula.tensor([[1, 2, 1], [0, 1, 3]])
    assert vmap(facula.repeat_interleave)(x, repeats).tolist() == [[0, 1, 1, 2], [4, 5, 5, 5]]
    counts, edges = vmap(lambda a: facula.histogram(a, 2))(facula.tensor([[0.0, 1.0, 4.0], [0.0, 3.0, 4.0]]))
    assert counts.tolist() == [[2, 1], [1, 2]] and edges.tolist() == [[0, 2, 4]] * 2
    log_probs = facula.from_numpy(rng.standard_normal((2, 5, 3, 4))).log_softmax(-1)
    targets, lengths = facula.ones(3, 2, dtype=facula.int64), facula.tensor([[5, 4, 5], [3, 5, 4]])
    loss = lambda a, n: facula.nn.functional.ctc_loss(a, targets, n, facula.tensor([2, 2, 1]))  # noqa: E731
    np.testing.assert_allclose(vmap(loss)(log_probs, lengths).numpy(), [loss(a, n).item() for a, n in zip(log_probs, lengths)])


def test_attention_of_each_example():
    attention = facula.nn.functional.scaled_dot_product_attention
    rng = np.random.default_rng(0)
    q = facula.from_numpy(rng.standard_normal((2, 3, 4, 5)))
    masks = facula.from_numpy(rng.standard_normal((2, 4, 4))).requires_grad_()
    for mask in (masks, masks > 0):
        rows = facula.stack([attention(a, a, a, attn_mask=m) for a, m in zip(q, mask)])
        found = vmap(lambda a, m: attention(a, a, a, attn_mask=m))(q, mask)
        np.testing.assert_allclose(found.detach().numpy(), rows.detach().numpy())
    (expected,) = facula.autograd.grad(facula.stack([attention(a, a, a, attn_mask=m) for a, m in zip(q, masks)]).square().sum(), masks)
    (got,) = facula.autograd.grad(vmap(lambda a, m: attention(a, a, a, attn_mask=m))(q, masks).square().sum(), masks)
    np.testing.assert_allclose(got.numpy(), expected.numpy())


def test_reflectors_of_each_example_have_gradients():
    rng = np.random.default_rng(0)
    a, tau = (facula.from_numpy(rng.standard_normal(s)).requires_grad_() for s in ((2, 4, 3), (2, 3)))
    product = facula.linalg.householder_product
    expected = facula.autograd.grad(facula.stack([product(x, t) for x, t in zip(a, tau)]).square().sum(), (a, tau))
    got = facula.autograd.grad(vmap(product)(a, tau).square().sum(), (a, tau))
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10)
