"""Sparse tensors: what is made, taken apart and converted, arithmetic, products, gradients, printing, files."""

import io
import pickle

import numpy as np
import pytest

import facula
from facula import nn

COMPRESSED = [facula.sparse_csr, facula.sparse_csc]
BLOCKED = [facula.sparse_bsr, facula.sparse_bsc]
LAYOUTS = [facula.sparse_coo, *COMPRESSED]


def dense_example(seed=0, shape=(4, 6), dtype=facula.float64):
    generator = np.random.default_rng(seed)
    values = generator.uniform(-1, 1, shape) * (generator.uniform(size=shape) < 0.4)
    return facula.tensor(values, dtype=dtype)


def uncoalesced(requires_grad=False):
    return facula.sparse_coo_tensor(
        [[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 0.5], (2, 3), dtype=facula.float64, requires_grad=requires_grad
    )


def same(a, b):
    assert a.shape == b.shape and a.dtype is b.dtype, (a, b)
    atol = 1e-6 if a.dtype is facula.float32 else 1e-12
    np.testing.assert_allclose(a.detach().to_dense().numpy(), b.detach().to_dense().numpy(), rtol=1e-5, atol=atol)


def test_coo_parts_and_attributes():
    x = uncoalesced()
    assert x.is_sparse and x.layout is facula.sparse_coo and not x.is_sparse_csr
    assert (x.shape, x._nnz(), x.sparse_dim(), x.dense_dim(), x.numel()) == ((2, 3), 4, 2, 0, 6)
    assert not x.is_coalesced()
    with pytest.raises(RuntimeError, match="^indices: the tensor is not coalesced"):
        x.indices()
    y = x.coalesce()
    assert y.is_coalesced() and y.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and y.values().tolist() == [3.5, 4.0, 5.0]
    assert x.to_dense().tolist() == [[0.0, 0.0, 3.5], [4.0, 0.0, 5.0]]
    hybrid = facula.sparse_coo_tensor([[1, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert (hybrid.sparse_dim(), hybrid.dense_dim()) == (1, 1)
    assert hybrid.to_dense().tolist() == [[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]
    assert facula.sparse_coo_tensor([[0, 4]], [1.0, 2.0]).shape == (5,)
    assert facula.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    assert facula.sparse_coo_tensor(size=(2, 3)).to_dense().tolist() == [[0.0] * 3] * 2
    for parts in ({}, {"values": facula.ones(2)}, {"indices": facula.zeros(1, 1, dtype=facula.int64), "size": (4,)}):
        with pytest.raises(TypeError, match="^sparse_coo_tensor: "):
            facula.sparse_coo_tensor(**parts)


@pytest.mark.parametrize("layout", LAYOUTS + BLOCKED)
def test_round_trips_between_layouts(layout):
    dense = dense_example()
    block = {"blocksize": (2, 3)} if layout in BLOCKED else {}
    made = dense.to_sparse(layout=layout, **block)
    assert made.layout is layout and made.shape == dense.shape
    same(made, dense)
    same(made.to_sparse(), dense)
    for other in LAYOUTS:
        converted = made.to_sparse(layout=other)
        assert converted.layout is other
        same(converted, dense)
    same(made.clone(), dense)
    same(made.t(), dense.t())
    same(made * 2.0, dense * 2.0)
    same(made.to(facula.float32), dense.to(facula.float32))
    same(made.sin(), dense.sin())


@pytest.mark.parametrize("layout", COMPRESSED)
def test_batches_of_compressed_matrices(layout):
    dense = facula.tensor([[[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]], [[0.0, 4.0, 0.0], [5.0, 6.0, 0.0]]])
    made = dense.to_sparse(layout=layout)
    assert made._nnz() == 3 and made.values().shape == (2, 3)
    same(made, dense)
    same(made.to_sparse(), dense)
    with pytest.raises(RuntimeError, match="each matrix of a batch must have as many entries"):
        facula.tensor([[[1.0, 0.0]], [[1.0, 1.0]]]).to_sparse(layout=layout)


def test_compressed_parts():
    x = facula.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3))
    assert x.is_sparse_csr and not x.is_sparse and x.layout is facula.sparse_csr
    assert x.crow_indices().tolist() == [0, 1, 3] and x.col_indices().tolist() == [2, 0, 2]
    assert x.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    y = facula.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3.0, 5.0])
    assert y.shape == (2, 3) and y.row_indices().tolist() == [1, 0, 1]
    same(y, x)
    z = facula.sparse_bsr_tensor([0, 1, 2], [0, 1], [[[1.0, 2.0]], [[3.0, 4.0]]])
    assert z.shape == (2, 4) and z.to_dense().tolist() == [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]]
    with pytest.raises(RuntimeError, match="^crow_indices: a tensor compressed by rows is expected"):
        y.crow_indices()
    with pytest.raises(RuntimeError, match="expected a compressed layout, got none"):
        facula.sparse_compressed_tensor([0, 1], [0], [1.0])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: facula.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True), "size is 3 but found index 5"),
        (lambda: facula.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), "found negative index -1 for dim 0"),
        (lambda: facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (3,)), "of as many entries, got 2 and 3"),
        (lambda: facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 4)), "number of dimensions must be"),
        (lambda: facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (-3,)), "negative dimension -3"),
        (lambda: facula.sparse_coo_tensor([[0]], [1.0], (1 << 62, 8)), "number of dimensions"),
        (lambda: facula.sparse_coo_tensor([[0], [0]], [1.0], (1 << 62, 8)), "too large|overflow|elements"),
        (lambda: _csr([0, 3, 2], [0, 1]), "is not satisfied"),
        (lambda: _csr([0, 1, 2], [0, 5]), "0 <= col_indices < ncols"),
        (lambda: _csr([1, 1, 2], [0, 1]), r"crow_indices\[..., 0\] == 0"),
        (lambda: _csr([0, 2, 2], [1, 0]), "must rise strictly"),
        (lambda: _csr([0, 1], [0, 1]), "must fit the size"),
    ],
)
def test_wrong_parts_are_refused(make, text):
    with pytest.raises(RuntimeError, match=text):
        make()


def _csr(bounds, columns):
    return facula.sparse_csr_tensor(bounds, columns, [1.0, 2.0], (2, 2), check_invariants=True)


def test_wrong_indices_that_were_not_checked_are_found_when_used():
    beyond = facula.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))
    with pytest.raises((RuntimeError, IndexError)):
        beyond.to_dense()
    for bounds, columns in (([0, 3, 2], [0, 1]), ([0, 1, 2], [0, 9]), ([5, 5, 5], [0, 1]), ([0, -4, 2], [0, 1])):
        wrong = facula.sparse_csr_tensor(bounds, columns, [1.0, 2.0], (2, 2))
        for use in (lambda t: t.to_dense(), lambda t: t @ facula.ones(2, 2), lambda t: t.to_sparse().to_dense()):
            with pytest.raises((RuntimeError, IndexError)):
                use(wrong)


def test_invariants_are_checked_where_asked():
    assert not facula.sparse.check_sparse_tensor_invariants.is_enabled()
    with facula.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="found index 5"):
        facula.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))
    assert not facula.sparse.check_sparse_tensor_invariants.is_enabled()


def test_what_shows_memory_is_refused():
    x = uncoalesced()
    for use in (x.numpy, x.data_ptr, x.storage, x.untyped_storage, x.tolist, lambda: memoryview(x), x.__dlpack__):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError, BufferError)):
            use()
    with pytest.raises(NotImplementedError, match="^cos: not implemented for sparse tensors .*got layouts"):
        x.cos()
    with pytest.raises(RuntimeError):
        facula.vmap(lambda t: t * 2)(x)


def test_arithmetic_of_sparse_and_dense():
    x, dense = uncoalesced(), uncoalesced().to_dense()
    y = facula.sparse_coo_tensor([[0, 1], [0, 2]], [1.0, 2.0], (2, 3), dtype=facula.float64)
    other = facula.arange(6.0, dtype=facula.float64).view(2, 3)
    same(x + y, dense + y.to_dense())
    same(x - y, dense - y.to_dense())
    same(x * y, dense * y.to_dense())
    same(other + x, other + dense)
    same(other.clone().add_(x, alpha=2), other + 2 * dense)
    same(x * other, dense * other)
    same(other * x, dense * other)
    same(x * other[0], dense * other[0])
    same(x / 4, dense / 4)
    same(-x, -dense)
    same(2 * x, 2 * dense)
    same(x.pow(2), dense.pow(2))
    same(x.mul_(3.0), dense * 3)
    same(x.add_(y), dense * 3 + y.to_dense())
    for wrong in (lambda: x + other, lambda: x + 1, lambda: x / other):
        with pytest.raises(RuntimeError, match="strided one comes first|the divisor must be"):
            wrong()
    csr = dense.to_sparse_csr()
    same(csr + csr, dense + dense)
    same(csr * csr, dense * dense)


def test_parts_of_sparse_tensors():
    dense = dense_example()
    x = dense.to_sparse()
    index = facula.tensor([3, 0, 0, -1])
    same(x.index_select(0, index % 4), dense.index_select(0, index % 4))
    same(x.index_select(1, facula.tensor([5, 1])), dense.index_select(1, facula.tensor([5, 1])))
    same(x[1], dense[1])
    same(x.select(1, -1), dense.select(1, -1))
    same(x.narrow(1, 2, 3), dense.narrow(1, 2, 3))
    same(x.unsqueeze(1), dense.unsqueeze(1))
    same(x.unsqueeze(-1).squeeze(-1), dense)
    same(x.transpose(0, 1), dense.t())
    same(facula.cat([x, x], 1), facula.cat([dense, dense], 1))
    same(facula.sparse.sum(x, 0), dense.sum(0))
    same(facula.sparse.sum(x), dense.sum())
    same(x.sum((0, 1)), dense.sum())
    assert x.norm().item() == pytest.approx(dense.norm().item())
    hybrid = dense_example(1, (3, 4, 2)).to_sparse(2)
    same(hybrid.sum(2), hybrid.to_dense().sum(2))
    same(hybrid.select(2, 1), hybrid.to_dense().select(2, 1))
    with pytest.raises(IndexError):
        x.index_select(0, facula.tensor([9]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout):
    a, b = dense_example(), dense_example(2, (6, 5))
    sparse = a.to_sparse(layout=layout)
    same(sparse @ b, a @ b)
    same(facula.sparse.mm(sparse, b), a @ b)
    same(b.t() @ sparse.t(), b.t() @ a.t())
    same(sparse.mv(b[:, 0]), a.mv(b[:, 0]))
    same(facula.sparse.mm(sparse, b.to_sparse(layout=layout)), a @ b)
    c = facula.ones(4, 5, dtype=facula.float64)
    same(facula.addmm(c, sparse, b, beta=0.5, alpha=2), facula.addmm(c, a, b, beta=0.5, alpha=2))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        sparse @ c


def gradients(function, *inputs):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    made = function(*leaves)
    (made.to_dense() * facula.arange(1.0, made.numel() + 1, dtype=made.dtype).view(made.shape)).sum().backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_products(layout):
    a, b = dense_example(), dense_example(2, (6, 5))
    of_sparse, of_dense = gradients(facula.sparse.mm, a.to_sparse(layout=layout), b)
    expected_a, expected_b = gradients(facula.mm, a, b)
    assert of_sparse.layout is layout
    same(of_sparse, expected_a * (a != 0))
    same(of_dense, expected_b)


def test_gradients_through_conversions():
    a = dense_example()
    (grad,) = gradients(lambda t: t.to_sparse().coalesce() * 2, a)
    weight = facula.arange(1.0, 25, dtype=facula.float64).view(4, 6)
    same(grad, 2 * weight * (a != 0))
    values = facula.tensor([1.0, 2.0, 3.0], dtype=facula.float64, requires_grad=True)
    x = facula.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], values, (2, 3))
    assert x.requires_grad and not x.is_leaf
    (x.to_dense() ** 2).sum().backward()
    assert values.grad.tolist() == [8.0, 4.0, 8.0]
    leaf = uncoalesced(requires_grad=True)
    (leaf.to_dense() * 3).sum().backward()
    assert leaf.grad.layout is facula.sparse_coo
    same(leaf.grad, 3 * (leaf.detach().to_dense() != 0).to(facula.float64))
    facula.sparse.sum(leaf, 1).to_dense().sum().backward()
    same(leaf.grad, 4 * (leaf.detach().to_dense() != 0).to(facula.float64))


def test_gradients_of_embeddings():
    indices = facula.tensor([[1, 3, 1], [0, 1, 2]])
    tables = [nn.Embedding(5, 2, sparse=sparse, padding_idx=2) for sparse in (False, True)]
    tables[1].load_state_dict(tables[0].state_dict())
    for table in tables:
        (table(indices) * facula.arange(12.0).view(2, 3, 2)).sum().backward()
        table(indices[0]).sum().backward()
    assert tables[1].weight.grad.layout is facula.sparse_coo
    same(tables[1].weight.grad, tables[0].weight.grad)
    bags = [nn.EmbeddingBag(5, 2, mode="mean", sparse=sparse) for sparse in (False, True)]
    bags[1].load_state_dict(bags[0].state_dict())
    for bag in bags:
        bag(indices).square().sum().backward()
    assert bags[1].weight.grad.is_sparse
    same(bags[1].weight.grad, bags[0].weight.grad)
    x = facula.arange(6.0).view(2, 3).requires_grad_()
    facula.gather(x, 1, facula.tensor([[0, 0], [2, 1]]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("make", "same_as_dense"),
    [
        (lambda p: facula.optim.SGD(p, lr=0.1), True),
        (lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9), True),
        (lambda p: facula.optim.Adagrad(p, lr=0.1), True),
        (lambda p: facula.optim.SparseAdam(p, lr=0.1), False),
    ],
)
def test_optimizers_take_sparse_gradients(make, same_as_dense):
    indices = facula.tensor([1, 3, 1])
    tables = [nn.Embedding(5, 2, sparse=sparse) for sparse in (True, False)][: 1 + same_as_dense]
    start = tables[0].weight.detach().clone()
    for table in tables:
        table.load_state_dict(tables[0].state_dict())
    for table in tables:
        optimizer = make(list(table.parameters()))
        for _ in range(3):
            optimizer.zero_grad()
            table(indices).square().sum().backward()
            optimizer.step()
    moved = tables[0].weight.detach()
    assert (moved != start).any(1).tolist() == [False, True, False, True, False]
    for table in tables[1:]:
        same(moved, table.weight.detach())


def test_optimizers_that_do_not():
    table = nn.Embedding(5, 2, sparse=True)
    table(facula.tensor([1])).sum().backward()
    for name in ("Adam", "AdamW", "RMSprop", "Adadelta"):
        with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
            getattr(facula.optim, name)(table.parameters(), lr=0.1).step()
    dense = facula.ones(2, requires_grad=True)
    dense.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam: expected sparse gradients"):
        facula.optim.SparseAdam([dense]).step()


def test_masks_and_values():
    dense = dense_example(3)
    mask = dense_example(4).to_sparse()
    made = dense.sparse_mask(mask)
    same(made, dense * (mask.to_dense() != 0))
    same(dense.to_sparse().sparse_mask(mask), dense * (mask.to_dense() != 0))
    leaf = mask.detach().clone().requires_grad_()
    (leaf.coalesce().values() * 2).sum().backward()
    same(leaf.grad, 2 * (mask.to_dense() != 0).to(facula.float64))
    x = facula.sparse_coo_tensor((2, 3))
    x.sparse_resize_((4, 5), 2, 0)
    assert x.shape == (4, 5) and x._nnz() == 0
    y = uncoalesced()
    shared = y.detach()
    y.sparse_resize_((3, 4), 2, 0)
    assert shared.shape == (2, 3) and y.shape == (3, 4) and shared.to_dense().shape == (2, 3)
    with pytest.raises(RuntimeError, match="shrinking the size"):
        y.sparse_resize_((2, 3), 2, 0)


@pytest.mark.parametrize("write", [lambda t: t.sparse_resize_((4, 5), 2, 0), lambda t: t.sparse_resize_and_clear_((4, 5), 2, 0)])
def test_resizing_counts_one_write_where_it_is_seen(write):
    """The write is counted in a storage that still exists: in freed memory, the count damages whatever is there next."""
    alone = facula.sparse_coo_tensor((2, 3))
    write(alone)
    assert alone._version == 1
    shared = facula.sparse_coo_tensor((2, 3))
    other = shared.detach()
    write(shared)
    assert (shared._version, other._version) == (1, 1)


def test_soft_max_along_sparse_dimensions():
    x = facula.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 3.0, 5.0], (2, 3), dtype=facula.float64)
    made = facula.sparse.softmax(x, 1)
    row = np.exp([1.0, 3.0]) / np.exp([1.0, 3.0]).sum()
    np.testing.assert_allclose(made.values().numpy(), [*row, 1.0])
    np.testing.assert_allclose(facula.sparse.log_softmax(x, 1).values().numpy(), [*np.log(row), 0.0], atol=1e-15)


def test_printing():
    x = facula.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    assert repr(x) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(x.to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,\n       layout=torch.sparse_csr)"
    )
    assert repr(facula.sparse_coo_tensor((2, 3), dtype=facula.int32)) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, dtype=torch.int32, layout=torch.sparse_coo)"
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files(layout):
    x = dense_example().to_sparse(layout=layout)
    for made in (pickle.loads(pickle.dumps(x)), _saved(x)):
        assert made.layout is layout and made._nnz() == x._nnz()
        same(made, x)


def _saved(x):
    file = io.BytesIO()
    facula.save({"x": x}, file)
    file.seek(0)
    return facula.load(file)["x"]


def test_factories_with_a_layout():
    x = facula.zeros(2, 3, layout=facula.sparse_coo)
    assert x._nnz() == 0 and x.is_sparse and x.to_dense().tolist() == [[0.0] * 3] * 2
    assert facula.zeros(2, 3, layout=facula.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert facula.zeros_like(uncoalesced())._nnz() == 0
    assert facula.zeros_like(uncoalesced(), layout=facula.strided).layout is facula.strided
    for make in (facula.ones, facula.rand):
        with pytest.raises(RuntimeError, match="not implemented for sparse layout"):
            make(2, 3, layout=facula.sparse_coo)


def test_old_names():
    x = facula.sparse.FloatTensor(facula.tensor([[0, 1], [2, 0]]), facula.tensor([3.0, 4.0]), facula.Size([2, 3]))
    assert isinstance(x, facula.sparse.FloatTensor) and not isinstance(x, facula.sparse.DoubleTensor)
    assert x.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]
    assert facula.spmm(x, facula.ones(3, 1)).tolist() == [[3.0], [4.0]]
    same(facula.hspmm(x, facula.ones(3, 2)), x.to_dense() @ facula.ones(3, 2))


def test_products_with_wide_and_narrow_matrices():
    rng = np.random.default_rng(0)
    places, values = rng.integers(0, 300, (2, 2000)), rng.standard_normal(2000)
    for dtype in (facula.float32, facula.float64, facula.bfloat16, facula.complex128, facula.int64):
        matrix = facula.sparse_coo_tensor(facula.from_numpy(places), (facula.from_numpy(values) * 9).to(dtype), (300, 300))
        for columns in (0, 1, 3, 64, 131):
            dense = (facula.from_numpy(rng.standard_normal((300, columns))) * 9).to(dtype)
            expected = (matrix.to_dense().to(facula.complex128) @ dense.to(facula.complex128)).numpy()
            for sparse in (matrix, matrix.coalesce(), matrix.to_sparse_csr(), matrix.to_sparse_csc()):
                found = (sparse @ dense).to(facula.complex128).numpy()
                atol = {facula.bfloat16: 60, facula.float32: 1e-2}.get(dtype, 1e-9)
                np.testing.assert_allclose(found, expected, atol=atol)


def test_linear_with_a_sparse_weight():
    weight, x = dense_example(), dense_example(2, (2, 5, 6))
    for sparse in (weight.to_sparse(), weight.to_sparse_csr()):
        same(nn.functional.linear(x, sparse, facula.ones(4, dtype=facula.float64)), x @ weight.t() + 1)
        of_x, of_weight = gradients(nn.functional.linear, x, sparse)
        expected_x, expected_weight = gradients(nn.functional.linear, x, weight)
        same(of_x, expected_x)
        same(of_weight, expected_weight * (weight != 0))


def test_stacks_and_lines():
    x = dense_example().to_sparse()
    same(facula.stack([x, x], 1), facula.stack([x.to_dense()] * 2, 1))
    for found, expected in zip(x.unbind(1), x.to_dense().unbind(1), strict=True):
        same(found, expected)
    assert bool(x.any()) and len(list(x)) == 4


def test_reductions_with_masks():
    x = facula.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 3.0, -5.0], (2, 3))
    assert facula.masked.amax(x, 1).to_dense().tolist() == [3.0, -5.0]
    mask = facula.tensor([[True, False, False], [True, True, True]])
    made = facula.masked.sum(x, 1, mask=mask)
    assert made.is_sparse and made.to_dense().tolist() == [1.0, -5.0]
    csr = facula.masked.mean(x.to_sparse_csr(), 1, keepdim=True)
    assert csr.layout is facula.sparse_csr and csr.to_dense().tolist() == [[2.0], [-5.0]]
    with pytest.raises(AssertionError, match="keep their dimensions"):
        facula.masked.sum(x.to_sparse_csr(), 1)
    with pytest.raises(ValueError, match="strided, COO or CSR"):
        facula.masked.sum(x.to_sparse_csc(), 1)


def test_solving_with_scipy():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    dense = dense_example(5, (4, 4)) + 5 * facula.eye(4, dtype=facula.float64)
    matrix = facula.sparse_csr_tensor(*from_scipy(scipy_sparse.csr_matrix(dense.numpy())), (4, 4))
    right = facula.arange(4.0, dtype=facula.float64)
    same(facula.sparse.spsolve(matrix, right), facula.linalg.solve(dense, right))
    of_matrix, of_right = gradients(facula.sparse.spsolve, matrix, right)
    expected_matrix, expected_right = gradients(facula.linalg.solve, dense, right)
    np.testing.assert_allclose(of_right.numpy(), expected_right.numpy(), rtol=1e-9)
    np.testing.assert_allclose(of_matrix.to_dense().numpy(), (expected_matrix * (dense != 0)).numpy(), rtol=1e-9, atol=1e-12)
    with pytest.raises(RuntimeError, match="^spsolve: a CSR and a strided tensor are expected, got"):
        facula.sparse.spsolve(dense, right)
    with pytest.raises(NotImplementedError, match="spsolve: left=False"):
        facula.sparse.spsolve(matrix, right, left=False)


def from_scipy(matrix):
    return facula.from_numpy(matrix.indptr), facula.from_numpy(matrix.indices), facula.from_numpy(matrix.data)


def test_scipy_both_ways():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    dense = dense_example()
    for kind, make in ((scipy_sparse.csr_matrix, facula.sparse_csr_tensor), (scipy_sparse.csc_matrix, facula.sparse_csc_tensor)):
        made = make(*from_scipy(kind(dense.numpy())), dense.shape)
        same(made, dense)
    coo = dense.to_sparse()
    assert abs(scipy_sparse.coo_matrix((coo.values().numpy(), coo.indices().numpy()), coo.shape) - scipy_sparse.csr_matrix(dense.numpy())).sum() == 0


def test_other_processes_get_sparse_tensors():
    from multiprocessing.reduction import ForkingPickler

    from facula.multiprocessing import reductions

    reductions.init_reductions()
    for layout in LAYOUTS:
        x = dense_example().to_sparse(layout=layout)
        same(pickle.loads(ForkingPickler.dumps(x)), x)
