"""Sparse tensors beside each other: what is made like one, sizes and results in place, gradients of conversions, batches."""

import pytest
from test_sparse import BLOCKED, COMPRESSED, LAYOUTS, dense_example, same, uncoalesced

import facula


def compressed_example(layout, **options):
    x = dense_example(3, (4, 6))
    return x.to_sparse(layout=layout, blocksize=(2, 3) if layout in BLOCKED else None, **options)


def places(x):
    rows = x.layout in (facula.sparse_csr, facula.sparse_bsr)
    return (x.crow_indices(), x.col_indices()) if rows else (x.ccol_indices(), x.row_indices())


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
def test_tensors_like_a_compressed_one_have_its_places(layout):
    x = compressed_example(layout)
    made = {
        "ones": facula.ones_like(x), "full": facula.full_like(x, 7, dtype=facula.int32), "empty": facula.empty_like(x),
        "randn": facula.randn_like(x, dtype=facula.float32),
    }  # fmt: skip
    for name, y in made.items():
        assert y.layout is layout and y.shape == x.shape and y.values().shape == x.values().shape, name
        assert all(facula.equal(a, b) for a, b in zip(places(x), places(y))), name
        places(y)[0].zero_()
    assert x._nnz() > 0 and places(x)[0].any(), "places are copies"
    assert (made["ones"].values() == 1).all() and made["ones"].dtype is x.dtype
    assert (made["full"].values() == 7).all() and made["full"].dtype is facula.int32
    assert facula.zeros_like(x)._nnz() == 0
    y = x.clone()
    values = y.values()
    assert y.fill_(2) is y and (values == 2).all(), "written where the values are"
    assert y.zero_() is y and y._nnz() == 0 and y.to_dense().count_nonzero() == 0
    for like in (facula.ones_like, facula.zeros_like, facula.empty_like, facula.randn_like):
        with pytest.raises(RuntimeError, match=f"^{like.__name__}: a tensor of another sparse layout cannot be made .*got {layout}"):
            like(x, layout=facula.strided)


def test_strided_tensors_like_a_coo_one():
    x = uncoalesced()
    assert facula.equal(facula.ones_like(x, layout=facula.strided), facula.ones(2, 3, dtype=facula.float64))
    assert facula.equal(facula.full_like(x, 4, layout=facula.strided), facula.full((2, 3), 4, dtype=facula.float64))
    drawn = facula.rand_like(x, layout=facula.strided), facula.randn_like(x, layout=facula.strided, dtype=facula.float32)
    assert [(t.layout, t.shape, t.dtype, t.unique().numel()) for t in drawn] == [
        (facula.strided, (2, 3), facula.float64, 6), (facula.strided, (2, 3), facula.float32, 6)
    ]  # fmt: skip
    with pytest.raises(NotImplementedError, match="^ones_like: not implemented for COO tensors"):
        facula.ones_like(x)
    with pytest.raises(RuntimeError, match="^zeros_like: memory_format is only supported by strided tensors"):
        facula.zeros_like(x, memory_format=facula.contiguous_format)


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
def test_compressed_tensors_get_and_lose_lines_in_place(layout):
    x = compressed_example(layout)
    before, rows = x.to_dense(), layout in (facula.sparse_csr, facula.sparse_bsr)
    assert x.resize_(8, 12) is x and x.shape == (8, 12)
    assert facula.equal(x.to_dense()[:4, :6], before) and x.to_dense().sum() == before.sum()
    assert x.resize_(*((4, 12) if rows else (8, 6))).shape == ((4, 12) if rows else (8, 6))
    assert facula.equal(x.to_dense()[:4, :6], before)
    x.resize_as_(facula.ones(8, 12))
    assert x.shape == (8, 12) and x.resize_(1, 8, 12).shape == (1, 8, 12)
    fewer, line = ((8, 6), "columns") if rows else ((4, 12), "rows")
    with pytest.raises(RuntimeError, match=f"^resize_: {line} of a tensor of layout {layout} cannot become fewer"):
        x.resize_(1, *fewer)
    with pytest.raises(RuntimeError, match="^resize_: a compressed layout has 2 dimensions or more here, got .4."):
        x.resize_(4)
    with pytest.raises(RuntimeError, match="^resize_: a compressed layout cannot get more matrices than 1, got 2"):
        x.resize_(2, 8, 12)
    if layout in BLOCKED:
        with pytest.raises(RuntimeError, match="^resize_: sizes must be multiples of the block's"):
            x.resize_(9, 13)
    assert x.resize_(0, 12).to_dense().shape == (0, 12) if rows else x.resize_(8, 0).to_dense().shape == (8, 0)
    assert x._nnz() == 0


def test_rows_that_a_csr_tensor_loses():
    x = facula.sparse_csr_tensor([0, 2, 3, 4, 6], [1, 3, 0, 2, 1, 3], [1.0, 2, 3, 4, 5, 6], (4, 4))
    x.resize_(2, 4)  # as in PyTorch: the entries that have no row any more are in the last one
    assert x.crow_indices().tolist() == [0, 2, 6] and x._nnz() == 6
    assert x.resize_(1, 4).crow_indices().tolist() == [0, 4] and x.values().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
def test_compressed_tensors_take_the_places_of_others(layout):
    x = compressed_example(layout)
    like = facula.ones(8, 6).to_sparse(layout=layout, blocksize=(2, 3) if layout in BLOCKED else None)
    kept = x.values().flatten().clone()
    assert x.resize_as_sparse_(like) is x and x.shape == (8, 6)
    assert all(facula.equal(a, b) for a, b in zip(places(x), places(like))) and x.dtype is facula.float64
    assert facula.equal(x.values().flatten()[: kept.numel()], kept) and (x.values().flatten()[kept.numel() :] == 0).all()
    if layout in BLOCKED:
        other = facula.ones(4, 6).to_sparse(layout=layout, blocksize=(4, 2))
        assert x.resize_as_sparse_(other).values().shape == other.values().shape
    with pytest.raises(RuntimeError, match="^resize_as_sparse_: a template of layout"):
        x.resize_as_sparse_(like.to_sparse_coo())


@pytest.mark.parametrize("before", [facula.strided, *LAYOUTS, *BLOCKED])
@pytest.mark.parametrize("after", [*LAYOUTS, *BLOCKED])
def test_gradients_of_conversions_have_the_layout_of_what_was_converted(before, after):
    def convert(x, layout, block):
        return x.to_dense() if layout is facula.strided else x.to_sparse(layout=layout, blocksize=block if layout in BLOCKED else None)

    x = convert(dense_example(4, (4, 6)) + 2, before, (2, 3)).requires_grad_()
    gradient = dense_example(5, (4, 6)) + 3
    y = convert(x, after, (2, 2))
    y.backward(convert(gradient, after, (2, 2)))
    assert x.grad.layout is before and facula.equal(x.grad.to_dense(), gradient)
    if before in BLOCKED:
        assert x.grad.values().shape[1:] == (2, 3)


def test_a_gradient_arrives_at_all_places_of_blocks():
    x = facula.tensor([[0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    x.to_sparse().to_sparse_bsr((2, 2)).to_dense().backward(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert x.grad.tolist() == [[1, 2], [3, 4]], "the function is the identity"


@pytest.mark.parametrize(("bounds", "columns"), [(facula.int8, facula.int8), (facula.int32, facula.int64), (facula.float32, facula.float32)], ids=str)
def test_dtypes_of_indices_are_among_the_invariants(bounds, columns):
    parts = facula.tensor([0, 1, 2], dtype=bounds), facula.tensor([0, 1], dtype=columns), facula.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=f"^sparse_csr_tensor: .* must both be int32 or both int64, got {bounds} and {columns}$"):
        facula.sparse_csr_tensor(*parts, check_invariants=True)


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
@pytest.mark.parametrize("sized", [False, True])
def test_that_indices_lie_side_by_side_is_among_the_invariants(layout, sized):
    by_row = layout in (facula.sparse_csr, facula.sparse_bsr)
    bounds, plain = facula.tensor([0, 2, 4]), facula.tensor([0, 1, 0, 2])
    values = facula.arange(4.0).reshape(4, *((1, 1) if layout in BLOCKED else ()))
    size = [(2, 3) if by_row else (3, 2)] if sized else []
    apart = lambda index: facula.stack([index, -index], 1)[:, 0]  # noqa: E731
    for parts in ((apart(bounds), plain), (bounds, apart(plain))):
        facula.sparse_compressed_tensor(*parts, values, *size, layout=layout)
        with pytest.raises(RuntimeError, match=r"must be contiguous within each matrix of a batch, got strides \(2,\)$"):
            facula.sparse_compressed_tensor(*parts, values, *size, layout=layout, check_invariants=True)
    batch = bounds.expand(2, 3), plain.expand(2, 4), values.expand(2, *values.shape)
    facula.sparse_compressed_tensor(*batch, *[(2, *s) for s in size], layout=layout, check_invariants=True)


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
@pytest.mark.parametrize("own", [facula.int32, facula.int64])
@pytest.mark.parametrize("other", [facula.int32, facula.int64])
def test_resize_as_keeps_the_dtype_of_indices(layout, own, other):
    def of(n, dtype):
        x = facula.eye(n).to_sparse(layout=layout, blocksize=(1, 1) if layout in BLOCKED else None)
        return facula.sparse_compressed_tensor(*(part.to(dtype) for part in places(x)), x.values(), x.shape, layout=layout)

    x = of(3, own)
    x.resize_as_sparse_(of(4, other))
    assert x.shape == (4, 4) and {part.dtype for part in places(x)} == {own}


def test_places_that_come_twice_are_added_up_before_they_are_repeated():
    x = facula.sparse_coo_tensor([[0, 0, 1, 1], [1, 1, 2, 2]], [1.0, 2.0, 3.0, 4.0], (2, 3))
    dense = facula.arange(24.0).reshape(4, 2, 3)
    for made in (x * dense, dense * x):
        assert made.is_coalesced() and made._nnz() == 8
        same(made, x.to_dense() * dense)
    assert (x * dense[0])._nnz() == 4, "of one shape there is nothing to repeat"


def test_a_coo_factor_is_broadcast():
    x = facula.tensor([[0.0, 2.0], [3.0, 0.0]])
    dense = facula.arange(1.0, 9.0).reshape(2, 2, 2)
    for made in (x.to_sparse() * dense, dense * x.to_sparse()):
        assert made.layout is facula.sparse_coo and made.is_coalesced() and made._nnz() == 4
        same(made, x * dense)
    column = facula.tensor([[0.0], [3.0]])
    same(column.to_sparse() * dense, column * dense)
    hybrid = facula.ones(3, 1, 2).to_sparse(1) * 2
    same(hybrid * facula.ones(2, 3, 4, 2), facula.full((2, 3, 4, 2), 2.0))
    assert (hybrid * facula.ones(2, 3, 4, 2)).dense_dim() == 2
    other = (facula.arange(24.0).reshape(3, 4, 2)).to_sparse(1)
    same(hybrid * other, 2 * other.to_dense())
    same(other * hybrid, 2 * other.to_dense())
    with pytest.raises(RuntimeError):
        x.to_sparse().mul_(dense)


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
def test_results_in_place_of_compressed_tensors_have_places_of_their_own(layout):
    block = (2, 3) if layout in BLOCKED else None
    a = dense_example(1, (4, 6)).float()
    b = facula.ones(4, 6).tril()
    sparse = b.to_sparse(layout=layout, blocksize=block)

    def fresh():
        return a.to_sparse(layout=layout, blocksize=block)

    for made, wanted in (
        (fresh().add_(sparse), a + b), (fresh().sub_(sparse, alpha=2), a - 2 * b), (fresh().mul_(sparse), a * b),
        (facula.add(fresh(), sparse, out=facula.zeros(4, 6).to_sparse(layout=layout, blocksize=block)), a + b),
        (facula.mul(fresh(), sparse, out=fresh().double()), (a * b).double()),
    ):  # fmt: skip
        assert made.layout is layout
        same(made, wanted)
    with pytest.raises(RuntimeError, match="^copy_: compressed tensors of one shape"):
        fresh().copy_(facula.zeros(4, 6).to_sparse(layout=layout, blocksize=block))


@pytest.mark.parametrize("layout", COMPRESSED + BLOCKED)
def test_matrices_of_a_batch_keep_their_layout(layout):
    dense = facula.stack([dense_example(1, (4, 6)), dense_example(1, (4, 6)) * 2, dense_example(1, (4, 6)) * 3])
    x = dense.to_sparse(layout=layout, blocksize=(2, 3) if layout in BLOCKED else None)
    for made, wanted in ((x[1], dense[1]), (x.unbind()[2], dense[2]), (x[1:], dense[1:]), (x.narrow(0, 0, 1), dense[:1]), (x[::2], dense[::2])):
        assert made.layout is layout and made.values().shape[made.dim() - 1 :] == x.values().shape[2:]
        same(made, wanted)


def test_a_product_without_the_first_summand_has_its_layout():
    a, b = (dense_example(seed, (4, 4)).to_sparse_csr() for seed in (1, 2))
    for start in (facula.zeros(4, 4).double(), a):
        made = facula.addmm(start, a, b, beta=0)
        assert made.layout is start.layout
        same(made, a.to_dense() @ b.to_dense())
    made = facula.full((4, 4), float("nan")).double()
    same(facula.addmm(made, a, b, beta=0, out=made), a.to_dense() @ b.to_dense())


def test_sparse_numbers_are_factors():
    many = facula.sparse_coo_tensor(facula.empty(0, 3, dtype=facula.int64), [1.0, 2.0, 3.0], ())
    number = facula.tensor(2.0).to_sparse()
    for made in (many * number, many * 2.0):
        assert made._nnz() == 3 and made.to_dense() == 12, "entries stay as they are"


def test_quotients_that_are_rounded():
    x = uncoalesced()
    for mode in ("floor", "trunc"):
        made = facula.div(x, 2, rounding_mode=mode)
        assert made.layout is facula.sparse_coo
        same(made, facula.div(x.to_dense(), 2, rounding_mode=mode))
    same(x // 2, x.to_dense() // 2)
    with pytest.raises(RuntimeError, match="^div: the divisor must be a number"):
        x // facula.ones(2, 3)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_a_compressed_summand_may_come_first(layout):
    x = dense_example(1, (4, 4)).to_sparse(layout=layout).requires_grad_()
    dense = facula.ones(4, 4).double().requires_grad_()
    made = facula.add(x, dense, alpha=3)
    assert made.layout is facula.strided
    same(made, x.to_dense() + 3 * dense)
    made.sum().backward()
    assert (x.grad.to_dense() == 1).all() and (dense.grad == 3).all()


def test_gradients_of_sparse_matrices_of_a_batch():
    dense = facula.stack([dense_example(1, (3, 4)), dense_example(2, (3, 4))])
    x, y = dense.to_sparse().requires_grad_(), dense_example(3, (4, 5)).expand(2, 4, 5)
    facula.bmm(x, y).sum().backward()
    same(x.grad, (facula.ones(2, 3, 5).double() @ y.mT) * (dense != 0))
    assert not x.is_contiguous() and x.type() == "torch.sparse.DoubleTensor"


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.complex64, facula.complex128], ids=str)
@pytest.mark.parametrize("layout", [facula.sparse_csr, facula.sparse_bsr])
@pytest.mark.parametrize("options", [{"upper": u, "transpose": t, "unitriangular": o} for u in (False, True) for t in (False, True) for o in (False, True)], ids=str)
def test_sparse_triangular_systems(layout, dtype, options):
    dense = dense_example(6, (6, 6)).to(dtype) * (1 + 1j if dtype.is_complex else 1) / 4 + 2 * facula.eye(6, dtype=dtype)
    dense[4, 1] = dense[1, 4] = dense[3, 0] = 0
    matrix = dense.to_sparse(layout=layout, blocksize=(2, 2) if layout in BLOCKED else None)
    right = dense_example(7, (2, 6, 3)).to(dtype)
    expected = facula.triangular_solve(right, dense, **options).solution
    solution, copy = facula.triangular_solve(right, matrix, **options)
    assert copy.shape == (0,) and solution.is_contiguous() and solution.dtype is dtype
    facula.testing.assert_close(solution, expected)
    out = facula.empty(2, 6, 3, dtype=dtype), facula.empty(0, dtype=dtype)
    assert facula.equal(facula.triangular_solve(right, matrix, **options, out=out)[0], solution)


def test_sparse_triangular_systems_without_rows_or_sides():
    assert facula.triangular_solve(facula.ones(0, 2), facula.zeros(0, 0).to_sparse_csr())[0].shape == (0, 2)
    assert facula.triangular_solve(facula.ones(3, 0), facula.eye(3).to_sparse_csr())[0].shape == (3, 0)
    zero = facula.triangular_solve(facula.ones(2, 1), facula.zeros(2, 2).to_sparse_csr())[0]
    assert zero.isinf().all(), "as of a strided matrix"


def test_sparse_triangular_systems_that_are_refused():
    matrix, right = facula.eye(4).to_sparse_csr(), facula.ones(4, 1)
    solve = facula.triangular_solve
    for error, arguments, text in [
        (NotImplementedError, (right, facula.eye(4).to_sparse()), "torch.sparse_csr or torch.sparse_bsr are expected, got torch.sparse_coo"),
        (ValueError, (right, facula.eye(4).to_sparse_csc()), "torch.sparse_csr or torch.sparse_bsr are expected, got torch.sparse_csc"),
        (NotImplementedError, (right.to_sparse_csr(), facula.eye(4)), "a strided right side is expected"),
        (RuntimeError, (right, facula.eye(4).to_sparse_bsr((1, 2))), "blocks must be square, got 1 x 2"),
        (RuntimeError, (right[:3], matrix), "the shapes do not fit"),
        (NotImplementedError, (right.clone().requires_grad_(), matrix), "derivatives of sparse systems are not recorded"),
        (NotImplementedError, (right, matrix.clone().requires_grad_()), "derivatives of sparse systems are not recorded"),
    ]:  # fmt: skip
        with pytest.raises(error, match=f"^triangular_solve: .*{text}"):
            solve(*arguments)
