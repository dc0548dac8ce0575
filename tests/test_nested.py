"""Nested tensors against the same functions of each sequence alone: values and gradients; what they print and refuse."""

import copy
import io
import pickle

import numpy as np
import pytest

import facula
from facula.nested import as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged, to_padded_tensor
from facula.nn import functional as F

LENGTHS = (3, 1, 5, 2)
JAGGED = {"layout": facula.jagged}


def sequences(seed=0, lengths=LENGTHS, width=6):
    draw = np.random.RandomState(seed)
    return [facula.tensor(draw.randn(length, width), requires_grad=True) for length in lengths]


def fixed(*shape):
    return facula.tensor(np.random.RandomState(7).randn(*shape))


def pair():
    first, second = sequences(), sequences(1)
    a = as_nested_tensor(first, **JAGGED)
    b = nested_tensor_from_jagged(facula.cat(second), a.offsets())
    return first, second, a, b


def weighted(x):
    return (x * facula.arange(x.numel(), dtype=x.dtype).reshape(x.shape).sin()).sum()


def agree(got, expected, sources):
    """`got`, nested or with a row for each sequence, against a list; and the gradients of both."""
    parts = list(got.unbind())
    assert len(parts) == len(expected)
    for part, wanted in zip(parts, expected, strict=True):
        assert part.shape == wanted.shape and part.dtype == wanted.dtype
        facula.testing.assert_close(part, wanted, rtol=1e-9, atol=1e-9)
    if not parts[0].requires_grad:
        return
    ours = facula.autograd.grad(sum(map(weighted, parts)), sources, allow_unused=True)
    theirs = facula.autograd.grad(sum(map(weighted, expected)), sources, allow_unused=True)
    for one, other, source in zip(ours, theirs, sources, strict=True):
        one, other = (facula.zeros_like(source) if g is None else g for g in (one, other))
        facula.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def heads(x):
    """(length, 6) or (N, length, 6) as two heads of 3 features."""
    return x.unflatten(-1, [2, 3]).transpose(-3, -2)


#: what gives for the whole what it gives for each sequence
SAME = {
    "arithmetic": lambda a, b: a * b + 2 - a / (b * b + 1),
    "a vector beside it": lambda a, b: a * fixed(6) + 1,
    "activations": lambda a, b: F.gelu(a) + F.silu(b) * a.sigmoid() - F.relu(b).exp(),
    "where": lambda a, b: facula.where(a > b, a, 2 * b),
    "clamp": lambda a, b: a.clamp(-0.5, 0.5) + facula.maximum(a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, -1.0),
    "right operands": lambda a, b: 1 - 2**a + 3 / (b * b + 1),
    "linear": lambda a, b: F.linear(a, fixed(4, 6), fixed(4)),
    "layer_norm": lambda a, b: F.layer_norm(a, (6,), fixed(6)),
    "rms_norm": lambda a, b: F.rms_norm(a, (6,)),
    "softmax": lambda a, b: F.softmax(a, -1) + F.log_softmax(b, dim=-1),
    "softmax along sequences": lambda a, b: facula.softmax(a, -2) + facula.log_softmax(b, -2),
    "sums of rows": lambda a, b: a.sum(-1) * b.mean(-1),
    "sums that stay": lambda a, b: a * b.amax(-1, keepdim=True),
    "sums along sequences": lambda a, b: a.sum(-2),
    "means along sequences": lambda a, b: a.mean(-2, keepdim=True),
    "greatest of sequences": lambda a, b: a.max(-2)[0] + b.amin(-2) + b.logsumexp(-2),
    "places of the greatest": lambda a, b: a.argmax(-2),
    "products along sequences": lambda a, b: a.prod(-2),
    "any": lambda a, b: (a > 1).any(-2) & (b > -1).all(-2),
    "norms": lambda a, b: facula.linalg.vector_norm(a, dim=-1) + facula.linalg.vector_norm(b, dim=-1),
    "matmul": lambda a, b: a @ fixed(6, 3),
    "Gram matrices": lambda a, b: a.transpose(-2, -1) @ b,
    "chunk": lambda a, b: a.chunk(2, -1)[1] * b.split([1, 5], -1)[1].narrow(-1, 1, 3),
    "cat": lambda a, b: facula.cat([a, b], -1),
    "stack": lambda a, b: facula.stack([a, b], -1),
    "unflatten": lambda a, b: a.unflatten(-1, [2, 3]) - heads(b).transpose(-3, -2),
    "flatten": lambda a, b: (a.unflatten(-1, [2, 3]) * 2).flatten(-2),
    "unsqueeze": lambda a, b: a.unsqueeze(-1).unsqueeze(-4).squeeze(-4).squeeze(-1),
    "index": lambda a, b: a[..., 2:4] * b[..., 1, None],
    "transposed": lambda a, b: (a.transpose(-1, -2) * b.mT).transpose(-2, -1),
    "cumsum": lambda a, b: a.cumsum(-1) + b.sort(-1)[0],
    "clone": lambda a, b: a.clone().contiguous() * b.detach(),
    "dtypes": lambda a, b: a.to(facula.float32).double() + b.half(),
    "expand": lambda a, b: a.sum(-1, keepdim=True).expand_as(b) * b,
    "embedding": lambda a, b: F.embedding((a.detach().abs() * 3).long(), fixed(20, 2)) * b[..., None],
    "attention": lambda a, b: F.scaled_dot_product_attention(heads(a), heads(b), heads(a * b)),
    "causal attention": lambda a, b: F.scaled_dot_product_attention(heads(a), heads(b), heads(b), is_causal=True, scale=0.4),
    "self-attention": lambda a, b: F.scaled_dot_product_attention(*map(heads, (a, b, a))).transpose(-3, -2).flatten(-2),
    "dropout of nothing": lambda a, b: F.dropout(a, 0.0) * F.dropout(b, 0.7, training=False),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_of_the_whole_are_those_of_each_sequence(name):
    first, second, a, b = pair()
    expected = [SAME[name](x, y) for x, y in zip(first, second, strict=True)]
    agree(SAME[name](a, b), expected, first + second)


#: what meets a tensor that is not nested, with a row for each sequence
BESIDE = {
    "a row each": (lambda a, c: a * c, (4, 1, 6), lambda x, row: x * row),
    "one row": (lambda a, c: c - a, (1, 1, 6), lambda x, row: row - x),
    "rows that are filled up": (lambda a, c: a + c, (4, 5, 6), lambda x, row: x + row[: len(x)]),
    "places that all share": (lambda a, c: a + c[0], (1, 5, 6), lambda x, row: x + row[: len(x)]),
    "a matrix each": (facula.bmm, (4, 6, 3), facula.matmul),
    "matmul": (facula.matmul, (4, 6, 2), facula.matmul),
    "from the left": (lambda a, c: c @ a.mT, (4, 2, 6), lambda x, row: row @ x.mT),
}


@pytest.mark.parametrize("name", BESIDE)
def test_tensors_beside_it_broadcast_to_the_sequences(name):
    whole, shape, each = BESIDE[name]
    parts, beside = sequences(), fixed(*shape).requires_grad_()
    rows = beside if shape[0] > 1 else beside.expand(4, *shape[1:])
    agree(whole(as_nested_tensor(parts, **JAGGED), beside), [each(x, row) for x, row in zip(parts, rows, strict=True)], [*parts, beside])


def test_it_shows_a_length_that_equals_only_itself():
    parts = [x.detach() for x in sequences()]
    x = nested_tensor(parts, **JAGGED)
    length = x.size(1)
    assert x.shape == (4, length, 6) and x.dim() == 3 and len(x) == 4 and x.numel() == 66 and x.is_nested
    assert x.layout is facula.jagged and facula.is_tensor(x) and x.size(-1) == 6
    assert str(x.shape) == f"torch.Size([4, {length}, 6])" and str(length).startswith("j")
    assert length == (x * 2).size(1) and length != nested_tensor(parts, **JAGGED).size(1) and length != 3
    assert length >= 2 and not length < 1
    with pytest.raises(ValueError, match="relation is indeterminate, got j"):
        bool(length > 3)
    text = f"NestedTensor(size=(4, {length}, 6), offsets=tensor([ 0,  3,  4,  9, 11]), contiguous=True)"
    assert repr(x) == text
    assert repr(x.requires_grad_()) == text.replace(", contiguous", ", requires_grad=True, contiguous")
    assert x.transpose(1, 2).shape == (4, 6, length) and x.stride() == (6 * length, 6, 1)
    assert str(x.stride()[0]) == f"6*{length}"
    assert x.view(4, -1, 2, 3).shape == x.view(4, length, 2, 3).shape == (4, length, 2, 3)
    with pytest.raises(RuntimeError):
        facula.empty(x.shape)


def test_constructors_agree():
    parts = sequences()
    x = nested_tensor(parts, **JAGGED)
    assert x.is_leaf and not x.requires_grad and not x.values().requires_grad
    assert x.offsets().tolist() == [0, 3, 4, 9, 11] and x.lengths() is None
    other = nested_tensor_from_jagged(facula.cat(parts), lengths=facula.tensor(LENGTHS))
    assert other.offsets().tolist() == x.offsets().tolist()
    assert nested_tensor_from_jagged(x.values(), x.offsets()).size(1) == x.size(1)
    across = nested_tensor_from_jagged(fixed(2, 11), x.offsets(), jagged_dim=2)
    assert across.shape == (4, 2, x.size(1)) and across[1].shape == (2, 1)
    assert [p.tolist() for p in nested_tensor([[1, 2], [3]], **JAGGED)] == [[1, 2], [3]]
    even = as_nested_tensor(fixed(2, 3, 4), **JAGGED)
    assert even.to_padded_tensor(0.0).equal(fixed(2, 3, 4)) and as_nested_tensor(even, **JAGGED) is even
    wide = nested_tensor([facula.ones(2, 3), facula.ones(2, 4)], **JAGGED)
    assert wide.shape == (2, 2, wide.size(2)) and wide.values().shape == (2, 7)
    chosen = masked_select(facula.arange(6).view(2, 3), facula.tensor([[True, False, True], [True, True, True]]))
    assert [p.tolist() for p in chosen] == [[0, 2], [3, 4, 5]]


def test_a_part_of_each_row_is_a_view_with_gaps():
    whole = fixed(4, 5, 6).requires_grad_()
    starts, lengths = facula.tensor([0, 1, 2, 0]), facula.tensor([2, 4, 0, 5])
    x = narrow(whole, 1, starts, lengths, **JAGGED)
    assert x.lengths() is lengths and not x.is_contiguous() and x.values().data_ptr() == whole.data_ptr()
    expected = [row[s : s + n] for row, s, n in zip(whole, starts.tolist(), lengths.tolist(), strict=True)]
    agree(x, expected, [whole])
    agree(x * 2, [2 * e for e in expected], [whole])
    agree(x.sum(1), [e.sum(0) for e in expected], [whole])
    packed = x.contiguous()
    assert packed.is_contiguous() and packed.numel() == x.numel() == 66
    agree(packed * x, [e * e for e in expected], [whole])
    agree(x + fixed(6), [e + fixed(6) for e in expected], [whole])
    assert narrow(whole, 1, 0, 2, **JAGGED).to_padded_tensor(0.0).equal(whole[:, :2])


def test_padding():
    parts = sequences()
    x = as_nested_tensor(parts, **JAGGED)
    dense = to_padded_tensor(x, -1.0)
    assert dense.shape == (4, 5, 6) and bool((dense[1, 1:] == -1).all())
    agree(dense, [F.pad(p, (0, 0, 0, 5 - len(p)), value=-1.0) for p in parts], parts)
    assert x.to_padded_tensor(0.5, (4, 7, 8)).shape == (4, 7, 8)
    assert to_padded_tensor(x, 0.0, (4, 2, 6))[2].equal(parts[2][:2])
    assert x.transpose(1, 2).to_padded_tensor(-1.0).equal(dense.transpose(1, 2))


def test_sums_over_everything():
    first, second, a, b = pair()
    rows, others = facula.cat(first), facula.cat(second)
    for got, wanted in (
        (a.sum(), rows.sum()), (a.mean(), rows.mean()), (a.max(), rows.max()), ((a > -9).all(), facula.tensor(True)),
        (a.sum((0, 1)), rows.sum(0)), (a.mean((0, 1, 2), keepdim=True), rows.mean().reshape(1, 1, 1)),
        (F.mse_loss(a, b), F.mse_loss(rows, others)), (a.var(), rows.var()),
    ):  # fmt: skip
        facula.testing.assert_close(got, wanted)


def test_gradients_have_the_structure():
    x = nested_tensor(sequences(), requires_grad=True, **JAGGED)
    (x * x).sum().backward()
    assert x.grad.shape == x.shape and x.grad.values().equal(2 * x.values())
    (x * 2).backward(facula.ones_like(x))
    assert x.grad.values().equal(2 * x.values() + 2)
    (grad,) = facula.autograd.grad((x * 3).sum(), [x])
    assert grad.is_nested and grad.size(1) == x.size(1)
    x.grad = None
    assert x.grad is None and (x * 2).requires_grad and not x.detach().requires_grad
    optimizer = facula.optim.SGD([x], lr=0.5)
    before = x.values().detach().clone()
    x.sum().backward()
    optimizer.step()
    assert x.values().equal(before - 0.5)


def test_modules():
    facula.manual_seed(0)
    parts = sequences()
    model = facula.nn.Sequential(
        facula.nn.Linear(6, 8), facula.nn.LayerNorm(8), facula.nn.GELU(), facula.nn.Dropout(0.0), facula.nn.RMSNorm(8)
    ).double()
    agree(model(as_nested_tensor(parts, **JAGGED)), [model(p) for p in parts], [*parts, *model.parameters()])
    ids = nested_tensor([facula.tensor([1, 2]), facula.tensor([0])], **JAGGED)
    table = facula.nn.Embedding(4, 3)
    agree(table(ids), [table(i) for i in ids], [table.weight])


@pytest.mark.parametrize("layout", [facula.jagged, facula.strided])
def test_attention_modules(layout):
    facula.manual_seed(0)
    parts = sequences()
    x = as_nested_tensor(parts, layout=layout)
    attention = facula.nn.MultiheadAttention(6, 2, batch_first=True).double()
    output, weights = attention(x, x, x)
    expected = [attention(p, p, p) for p in parts]
    agree(output, [e[0] for e in expected], [*parts, attention.in_proj_weight])
    for got, (_, wanted), length in zip(weights, expected, LENGTHS, strict=True):
        facula.testing.assert_close(got[:length, :length], wanted)
        assert not got[length:].any() and not got[:, length:].any()
    layer = facula.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True).double()
    encoder = facula.nn.TransformerEncoder(layer, 2)
    agree(encoder(x), [encoder(p) for p in parts], parts)
    with pytest.raises(AssertionError, match="can only take the fast path.* got one$"):
        attention(x, x, x, attn_mask=facula.ones(5, 5))


@pytest.mark.parametrize("layout", [facula.jagged, facula.strided])
@pytest.mark.parametrize("keep", [
    copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: _saved(x, True), lambda x: _saved(x, False),
])  # fmt: skip
def test_copies(layout, keep):
    x = nested_tensor(sequences(), layout=layout, requires_grad=True)
    other = keep(x)
    assert type(other) is type(x) and other.requires_grad and other.is_leaf
    for got, wanted in zip(other.unbind(), x.unbind(), strict=True):
        assert got.equal(wanted)


def _saved(x, weights_only):
    buffer = io.BytesIO()
    facula.save({"x": x}, buffer)
    buffer.seek(0)
    return facula.load(buffer, weights_only=weights_only)["x"]


def _joined(batch):
    return nested_tensor(batch, **JAGGED)


def test_batches_of_a_loader():
    data = [facula.arange(float(n)) for n in (1, 4, 2, 3)]
    for workers in (0, 1):
        loader = facula.utils.data.DataLoader(data, batch_size=2, collate_fn=_joined, num_workers=workers)
        assert [[p.tolist() for p in x] for x in loader] == [[[0.0], [0.0, 1.0, 2.0, 3.0]], [[0.0, 1.0], [0.0, 1.0, 2.0]]]
    with pytest.raises(RuntimeError, match="collate"):
        facula.utils.data.default_collate([_joined(data)] * 2)


def test_in_place_and_drawn():
    x = nested_tensor(sequences(), **JAGGED)
    before = x.values().clone()
    assert x.mul_(2).add_(x) is x and x.values().allclose(before * 4)
    x += 1
    assert x.is_nested and x.values().allclose(before * 4 + 1)
    x.zero_()
    assert not x.any() and facula.rand_like(x).shape == x.shape and facula.zeros_like(x, dtype=facula.bool).dtype is facula.bool
    assert F.dropout(facula.ones_like(x), 1.0).sum() == 0 and x.normal_().values().any()


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda x: x.sum(0), RuntimeError, "^sum: .* over its batch together with .* got dim 0$"),
        (lambda x: x.sum((1, 2)), RuntimeError, r"^sum: .* ragged dimension alone or .* got dim \(1, 2\)$"),
        (lambda x: x + nested_tensor(sequences(), **JAGGED), RuntimeError, r"^add: .* different structure, got \(4, j"),
        (lambda x: x + fixed(2, 3, 6), RuntimeError, r"^add: .* got \(2, 3, 6\) and \(4, j"),
        (lambda x: x.view(4, -1), RuntimeError, r"^view: cannot view shape .* as \[4, -1\]$"),
        (lambda x: x.flatten(1), RuntimeError, "^flatten: not supported for NestedTensor on ragged dim"),
        (lambda x: x.transpose(0, 1), ValueError, "^transpose: .* batch dimension .* got 0 and 1$"),
        (lambda x: x.permute(1, 0, 2), ValueError, "^permute: .* batch dimension"),
        (lambda x: x.T, ValueError, "^T: "),
        (lambda x: x[1:], RuntimeError, "^slice: not supported for NestedTensor on dim=0"),
        (lambda x: x[4], IndexError, "^select: index 4 is out of range for 4 sequences$"),
        (lambda x: x.unbind(1), RuntimeError, "^unbind: only supported"),
        (lambda x: x.split(1, 1), RuntimeError, "^split: not supported for NestedTensor on ragged dim"),
        (lambda x: facula.cat([x, x]), RuntimeError, "^cat: not supported for NestedTensor on dim=0"),
        (lambda x: facula.cat([x, fixed(4, 5, 6)], -1), RuntimeError, "^cat: tensors must be nested"),
        (lambda x: x @ x.mT, RuntimeError, "^matmul: not supported between"),
        (lambda x: F.linear(x.mT, fixed(2, 5)), RuntimeError, "^linear: the ragged dimension"),
        (lambda x: F.layer_norm(x, (5, 6)), RuntimeError, "^layer_norm: the ragged dimension"),
        (lambda x: F.scaled_dot_product_attention(x, x, fixed(4, 5, 6)), ValueError, "^scaled_dot_product_attention: expected"),
        (lambda x: x.numpy(), RuntimeError, "^numpy: "),
        (lambda x: x.tolist(), RuntimeError, "^tolist: "),
        (lambda x: x.roll(1), NotImplementedError, r"^roll: not supported for nested tensors, got \(4, j"),
        (lambda x: x.size(3), IndexError, "^size: dimension out of range"),
        (lambda x: x.expand(5, 2, 6), RuntimeError, "^expand: "),
        (lambda x: x.to_padded_tensor(0.0, (4, 5)), RuntimeError, r"^to_padded_tensor: .* got \(4, 5\)"),
        (lambda x: to_padded_tensor(x.values(), 0.0), TypeError, "^to_padded_tensor: .* got Tensor$"),
        (lambda x: x.values().to_padded_tensor(0.0), NotImplementedError, "^to_padded_tensor: "),
        (lambda x: nested_tensor([], **JAGGED), RuntimeError, "^nested_tensor: .* empty"),
        (lambda x: nested_tensor(3, **JAGGED), TypeError, "^nested_tensor: .* got int$"),
        (lambda x: nested_tensor([1, 2], **JAGGED), RuntimeError, "zero-dim"),
        (lambda x: nested_tensor([fixed(2, 3), fixed(3, 4)], **JAGGED), RuntimeError, "differ in one dimension only"),
        (lambda x: nested_tensor([fixed(2)], layout=facula.sparse_coo), RuntimeError, "^nested_tensor: .* got torch.sparse_coo$"),
        (lambda x: as_nested_tensor([[1.0]], **JAGGED), TypeError, "^as_nested_tensor: .* got list$"),
        (lambda x: nested_tensor_from_jagged(fixed(3)), RuntimeError, "got neither$"),
        (lambda x: nested_tensor_from_jagged(fixed(3), facula.tensor([0, 9])), RuntimeError, "end at row 9, got values with 3"),
        (lambda x: nested_tensor_from_jagged(fixed(3), facula.tensor([0, 2, 1, 3])), RuntimeError, "must not fall"),
        (lambda x: nested_tensor_from_jagged(fixed(3), facula.tensor([-1, 2])), RuntimeError, "must not fall"),
        (lambda x: nested_tensor_from_jagged(fixed(3), facula.tensor([0.0, 2])), RuntimeError, "integers .*float32"),
        (lambda x: nested_tensor_from_jagged(fixed(3), [0, 1]), TypeError, "offsets must be a Tensor, got list"),
        (lambda x: nested_tensor_from_jagged(fixed(3), facula.tensor([0, 3]), jagged_dim=2), IndexError, "no jagged_dim 2"),
        (lambda x: narrow(fixed(2, 3), 1, 1, 3, **JAGGED), RuntimeError, "^narrow: parts must lie within 0 and 3"),
        (lambda x: narrow(fixed(2, 3), 0, 1, 1, **JAGGED), RuntimeError, "^narrow: only dim=1"),
        (lambda x: masked_select(fixed(2, 3), fixed(2, 3)), RuntimeError, "^masked_select: .*float64$"),
    ],
)
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use(nested_tensor(sequences(), **JAGGED))


# ---- layout strided


def parts_of_any_shape():
    return [fixed(2, 3), fixed(4, 3), fixed(1, 3)]


@pytest.mark.parametrize("name", [
    "arithmetic", "activations", "where", "softmax", "matmul between", "transposed", "chunk", "linear", "layer_norm", "sum",
])  # fmt: skip
def test_strided_runs_part_by_part(name):
    functions = {
        "arithmetic": lambda x: x * x + 2 - x / 3, "activations": lambda x: F.gelu(x) + x.relu(), "sum": lambda x: x.sum(-1, keepdim=True),
        "where": lambda x: facula.where(x > 0, x, 2 * x), "softmax": lambda x: x.softmax(-1), "linear": lambda x: F.linear(x, fixed(2, 3)),
        "matmul between": lambda x: facula.matmul(x, x.transpose(-2, -1)), "transposed": lambda x: x.transpose(-2, -1),
        "chunk": lambda x: x.chunk(3, -1)[1], "layer_norm": lambda x: F.layer_norm(x, (3,), fixed(3), fixed(3)),
    }  # fmt: skip
    parts = [p.requires_grad_() for p in parts_of_any_shape()]
    agree(functions[name](as_nested_tensor(parts)), [functions[name](p) for p in parts], parts)


def test_strided_shows_its_parts():
    x = nested_tensor([facula.ones(1, 2), facula.zeros(2, 1)])
    assert repr(x) == "nested_tensor([\n  tensor([[1., 1.]]),\n  tensor([[0.],\n          [0.]])\n])"
    assert x.is_nested and x.layout is facula.strided and x.dim() == 3 and x.size(0) == 2 and len(x) == 2
    assert x[0].shape == (1, 2) and facula.cat([x, x]).size(0) == 4 and x._nested_tensor_size().tolist() == [[1, 2], [2, 1]]
    assert x.to_padded_tensor(5.0).tolist() == [[[1.0, 1.0], [5.0, 5.0]], [[0.0, 5.0], [0.0, 5.0]]]
    assert x.to_padded_tensor(0.0, (2, 3, 3)).shape == (2, 3, 3)
    assert x.mul_(2)[0].tolist() == [[2.0, 2.0]] and (x + facula.ones(2, 1, 1))[1].tolist() == [[1.0], [1.0]]
    for use, text in (
        (lambda: x.size(1), "^size: .* irregular"), (lambda: x.shape, "^shape: "), (lambda: x.sum(-1), "^sum: .* keepdim"),
        (lambda: x.roll(1), "^roll: not supported"), (lambda: nested_tensor([fixed(2), fixed(1, 2)]), r"\[\(2,\), \(1, 2\)\]$"),
        (lambda: x.softmax(0), "^softmax: "), (lambda: x + facula.ones(3, 1, 1), r"^add: .* got \(3, 1, 1\)$"),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            use()


def test_a_damaged_file_is_refused():
    from facula._utils import _rebuild_nested_tensor

    good = (facula.ones(6), facula.tensor([[2, 2], [1, 2]]), facula.tensor([[2, 1], [2, 1]]), facula.tensor([0, 4]))
    assert _rebuild_nested_tensor(*good)[1].shape == (1, 2)
    for place, value in ((1, facula.tensor([[2, 2], [9, 2]])), (2, facula.tensor([[2, 1], [2, -1]])), (3, facula.tensor([0, 5])), (3, None)):
        with pytest.raises(RuntimeError, match="^load: "):
            _rebuild_nested_tensor(*[value if i == place else g for i, g in enumerate(good)])


def strided(*shapes):
    return facula.nested.nested_tensor([facula.arange(float(facula.Size(s).numel())).view(s) for s in shapes])


def test_strided_views_share_memory():
    nt = strided((2, 4), (3, 4))
    turned = nt.transpose(1, 2)
    assert not turned.is_contiguous() and turned.contiguous().is_contiguous()
    assert turned._nested_tensor_strides().tolist() == [[1, 4], [1, 4]]
    turned[0].fill_(7)
    assert nt[0].tolist() == [[7] * 4] * 2
    left, right = nt.chunk(2, dim=-1)
    assert right[1].tolist() == nt[1][:, 2:].tolist() and not right.is_contiguous()
    first, second = nt.split_with_sizes([1, 3], -1)
    assert second[1].tolist() == nt[1][:, 1:].tolist()
    assert nt.select(1, 0)[1].tolist() == nt[1][0].tolist()
    middle = nt.narrow(0, 1, 1)
    assert len(middle) == 1 and middle[0].tolist() == nt[1].tolist() and middle._base is nt
    wide = nt.view(2, -1, 2, 2)
    assert wide[1].shape == (3, 2, 2) and nt.unsqueeze(1).squeeze(1).is_contiguous()
    assert nt.transpose(1, 2).reshape(2, 4, -1, 1)[0].shape == (4, 2, 1)
    assert nt[...][0].data_ptr() == nt[0].data_ptr() and nt[1, 1, :].tolist() == nt[1][1].tolist()


def test_strided_gradients_pass_views():
    a, b = strided((2, 3), (4, 3)).requires_grad_(), strided((3, 2), (3, 4)).requires_grad_()
    (a - b.transpose(-1, -2)).backward(strided((2, 3), (4, 3)))
    want = [x.tolist() for x in strided((2, 3), (4, 3)).unbind()]
    assert [x.tolist() for x in a.grad.unbind()] == want
    assert [x.neg().t().tolist() for x in b.grad.unbind()] == want
    nt = strided((2, 3), (4, 3)).requires_grad_()
    nt[0].sum().backward()
    assert [x.sum().item() for x in nt.grad.unbind()] == [6, 0]


@pytest.mark.parametrize("use, kind", [
    (lambda x: x.transpose(1, 2).relu(), RuntimeError),
    (lambda x: x.transpose(1, 2).to_padded_tensor(0.0), RuntimeError),
    (lambda x: x.narrow(1, 0, 1), RuntimeError),
    (lambda x: x.split_with_sizes([1, 3], 1), RuntimeError),
    (lambda x: x.view(()), RuntimeError),
    (lambda x: x.view(-1, 2, 4), RuntimeError),
    (lambda x: x.view(2, -1, -1), RuntimeError),
    (lambda x: x[:], NotImplementedError),
    (lambda x: x[2], IndexError),
    (lambda x: x.softmax(3), IndexError),
    (lambda x: x.squeeze(), RuntimeError),
    (lambda x: x * facula.ones(4), RuntimeError),
    (lambda x: facula.ones(4).mul_(x), RuntimeError),
    (lambda x: x.is_same_size(facula.ones(2)), RuntimeError),
])  # fmt: skip
def test_what_strided_refuses(use, kind):
    with pytest.raises(kind, match="got"):
        use(strided((2, 4), (3, 4)))


def test_strided_gradients_come_in_the_order_of_the_view():
    nt = strided((2, 3), (4, 3)).requires_grad_()
    turned = nt.transpose(1, 2)
    turned.backward(turned.detach().clone())
    assert [g.tolist() for g in nt.grad.unbind()] == [x.tolist() for x in nt.detach().unbind()]
    nt.grad = None
    nt.narrow(0, 1, 1).backward(strided((4, 3)))
    assert [g.sum().item() for g in nt.grad.unbind()] == [0, 66]
    nt.grad = None
    left, right = nt.split_with_sizes([1, 2], -1)
    right.backward(right.detach() * 0 + 1)
    assert [g.tolist() for g in nt.grad.unbind()] == [[[0, 1, 1]] * 2, [[0, 1, 1]] * 4]


def test_as_nested_tensor_gives_what_is_nested_already():
    nt = strided((2, 3), (4, 3))
    assert as_nested_tensor(nt, dtype=nt.dtype, device="cpu") is nt
    with pytest.raises(RuntimeError, match="a nested tensor keeps its layout"):
        as_nested_tensor(nt, layout=facula.jagged)
    for given in (facula.tensor(3.0), facula.ones(3)):
        with pytest.raises(RuntimeError, match="got [01]$"):
            as_nested_tensor(given)


@pytest.mark.parametrize("lengths", [(0,), (0, 0), (2, 0), (0, 3, 1)], ids=str)
def test_attention_of_empty_parts(lengths):
    facula.manual_seed(0)
    layer = facula.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    parts = [facula.randn(n, 8) for n in lengths]
    with facula.no_grad():
        result = layer(nested_tensor(parts))
        alone = [layer(x[None])[0] if len(x) else x for x in parts]
    assert [x.shape for x in result.unbind()] == [x.shape for x in parts]
    for x, y in zip(result.unbind(), alone, strict=True):
        assert facula.allclose(x, y, atol=1e-6)
