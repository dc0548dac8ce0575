"""Values, gradients and refusals that PyTorch's own tests look at: one test for each mechanism that was wrong."""

import copy

import numpy as np
import pytest

import facula as torch
from facula.masked import _masks


def test_arrays_and_tensors_compare_by_element():
    t, a = torch.arange(3), np.array([0, 5, 2])
    for found in (t == a, a == t):
        assert isinstance(found, torch.Tensor) and found.tolist() == [True, False, True]
    assert (t != a).tolist() == [False, True, False]
    with pytest.raises(TypeError):
        _ = t < a


def test_arrays_of_no_dimension_are_numbers():
    assert torch.tensor(((7, np.array(5)), (np.array(9), 5.0))).dtype is torch.float32
    assert torch.tensor([5, np.array(3)]).tolist() == [5, 3]
    assert torch.ones((np.array(3), np.int64(4))).shape == (3, 4)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_equals_of_a_median_share_its_gradient(name):
    x = torch.tensor([1.0, 3.0, 3.0, 4.0], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5, 0]
    x = torch.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == ([0, 1, 0] if name == "median" else [1, 0, 0])


@pytest.mark.parametrize("base", [-torch.ones(2, dtype=torch.float64), -1.0])
def test_a_complex_exponent_of_a_negative_number(base):
    exponent = torch.tensor([1 + 2j, 0.5j], dtype=torch.complex128, requires_grad=True)
    torch.pow(base, exponent).sum().abs().backward()
    assert exponent.grad.isfinite().all() and exponent.grad.abs().sum() > 0.1


@pytest.mark.parametrize("reduce, want", [("max", [1, 1, 0, 0, 0.5, 0.5]), ("min", [0, 1, 0, 1, 0, 0]), ("prod", [2, 6, np.nan, 50, 40, 40])])
def test_segments_with_nan_and_ties(reduce, want):
    data = torch.tensor([1.0, float("nan"), 3.0, 4.0, 5.0, 5.0], requires_grad=True)
    initial = {"max": 1.0, "min": 0.5, "prod": 2.0}[reduce]
    start = torch.segment_reduce(data, reduce, lengths=torch.tensor([1, 2, 3]), initial=initial if reduce != "min" else None)
    start.sum().backward()
    if reduce == "min":
        want = [1, 1, 0, 1, 0, 0]
    np.testing.assert_allclose(data.grad.numpy(), want, rtol=1e-6)


def test_shares_of_tiny_concentrations():
    assert not torch.distributions.Beta(torch.tensor(1e-6), torch.tensor(1e-6)).sample((1000,)).isnan().any()
    shares = torch.distributions.Dirichlet(torch.full((3,), 1e-6)).sample((1000,))
    assert not shares.isnan().any() and (shares > 0).all()


@pytest.mark.parametrize("draw", [torch.randn, torch.rand])
@pytest.mark.parametrize("size", [3, 40])
def test_complex32_numbers_are_two_halves(draw, size):
    torch.manual_seed(0)
    x = draw(size, dtype=torch.complex32)
    torch.manual_seed(0)
    halves = draw(2 * size, dtype=torch.float16).float() * (0.5**0.5 if draw is torch.randn else 1)
    assert x.dtype is torch.complex32 and torch.view_as_real(x).flatten().float().allclose(halves, atol=2e-3)


def test_a_condition_number_of_infinity():
    x = torch.stack([torch.eye(2), torch.tensor([[float("inf"), 1.0], [1.0, 1.0]])])
    for p in (None, 2, -2):
        assert torch.linalg.cond(x, p)[0] == 1 and torch.linalg.cond(x, p)[1].isnan()
    assert torch.linalg.cond(x, "nuc")[1].isnan()
    for p in ("fro", 1, float("inf")):
        assert torch.linalg.cond(x, p)[0] >= 1 and torch.linalg.cond(x, p)[1] == float("inf")


def test_values_of_complex_numbers_as_bool():
    assert torch.tensor([0j, 1e-323j, 1 + 2j], dtype=torch.bool).tolist() == [False, True, True]


@pytest.mark.parametrize("write", [
    lambda x: x.index_fill_(0, torch.tensor([2, 0]), 1.0), lambda x: x.masked_fill_(torch.tensor([True] * 6), 1.0),
    lambda x: x.index_put_((torch.tensor([1, 2]),), torch.ones(2)),
])  # fmt: skip
def test_writes_to_expanded_memory_warn(write):
    x = torch.zeros(1).expand(6)
    with pytest.warns(UserWarning, match="same place in memory"):
        write(x)
    assert x.tolist() == [1] * 6


def test_kinds_of_errors():
    z = torch.zeros
    for kind, call in [
        (RuntimeError, lambda: z(3, 4).index_add_(0, torch.tensor([0, 1]), z(3, 4))),
        (RuntimeError, lambda: z(3, 4).index_add_(0, torch.tensor([0, 5]), z(2, 4))),
        (RuntimeError, lambda: torch.zeros(3, out=z(3), dtype=torch.int64)),
        (RuntimeError, lambda: torch.full((3,), 1.0, out=z(3), dtype=torch.float64)),
        (RuntimeError, lambda: torch.nonzero(z(2), as_tuple=True, out=z(2))),
        (RuntimeError, lambda: torch.int32.to_complex()),
        (ValueError, lambda: torch.set_num_interop_threads(2**65)),
        (ValueError, lambda: complex(z(2))),
    ]:
        with pytest.raises(kind, match="got"):
            call()


@pytest.mark.parametrize("change", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()])
def test_sparse_results_are_written_to_out(change):
    x = torch.tensor([[0.0, -2.0], [3.0, 0.0]])
    for name in ("abs", "sin", "sign", "expm1", "neg"):
        out = change(torch.zeros(2, 2) if change(x).layout is torch.sparse_coo else torch.ones(2, 2).fill_diagonal_(0))
        assert getattr(torch, name)(change(x), out=out) is out
        assert out.to_dense().equal(getattr(torch, name)(x))
    sparse = change(x)
    copied = copy.deepcopy(sparse)
    assert copied.to_dense().equal(x) and copied.layout is sparse.layout
    copied._values().zero_() if copied.layout is torch.sparse_coo else copied.values().zero_()
    assert sparse.to_dense().equal(x)


@pytest.mark.parametrize("layout", ["csr", "bsr", "coo"])
def test_a_sparse_matrix_times_a_vector_is_added(layout):
    x = torch.tensor([[0.0, -2.0], [3.0, 0.0]])
    sparse = {"csr": x.to_sparse_csr, "coo": x.to_sparse, "bsr": lambda: x.to_sparse_bsr((1, 1))}[layout]()
    a, v = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])
    assert torch.addmv(a, sparse, v, beta=0, alpha=2).tolist() == [-8, 6]
    assert torch.addmv(torch.ones(2), sparse, v, beta=2).tolist() == [-2, 5]


BLOCKED = [torch.sparse_bsr, torch.sparse_bsc]
SPARSE = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, *BLOCKED]


@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.parametrize("wanted", SPARSE)
def test_tensors_like_one_of_another_layout(layout, wanted):
    """zeros_like keeps blocks or their absence, empty_like the layout; coordinates take no blocks, and go to any without."""
    blocked = {"blocksize": (1, 1)} if layout in BLOCKED else {}
    x = torch.eye(3).to_sparse(layout=layout, **blocked)
    zeros = wanted is torch.sparse_coo or (layout in BLOCKED) is (wanted in BLOCKED)
    for make, made in (
        (torch.zeros_like, zeros),
        (torch.empty_like, zeros and (layout in (torch.sparse_coo, wanted))),
    ):
        if made:
            like = make(x, layout=wanted)
            assert like.layout is wanted and like.shape == x.shape
            assert make is torch.empty_like or like._nnz() == 0
        else:
            with pytest.raises(RuntimeError, match=f"^{make.__name__}: .*another sparse layout.*{layout} and {wanted}"):
                make(x, layout=wanted)


def test_what_sparse_tensors_refuse():
    x = torch.eye(2).to_sparse_csr()
    with pytest.raises(TypeError, match="sparse"):
        x[0, 0] = 1.0
    with pytest.raises(RuntimeError, match="another sparse layout"):
        torch.empty_like(x, layout=torch.sparse_bsr)
    batch = torch.stack([torch.eye(2), torch.eye(2)]).to_sparse_csr()
    with pytest.raises(RuntimeError, match="batch"):
        batch.select(-1, 0)
    assert batch.select(0, 1).to_dense().equal(torch.eye(2))


def test_sparse_sums_lose_no_part():
    x = torch.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match="^add_.*complex64"):
        x.add_(torch.eye(2).to(torch.complex64).to_sparse())
    assert x.add_(torch.eye(2).to_sparse(), alpha=2).to_dense().equal(3 * torch.eye(2))


def test_new_of_a_sparse_tensor():
    x = torch.sparse_coo_tensor((2, 3))
    assert x.new().is_sparse and x.new(torch.Size([4, 5])).shape == (4, 5)
    assert x.new(torch.tensor([[0], [1]]), torch.tensor([3.0])).to_dense().tolist() == [[0, 3]]
    with pytest.raises(TypeError, match="got list"):
        x.new([6])
    assert torch.zeros(1).new(size=(3, 4)).shape == (3, 4)


def test_masks_of_results():
    mask = torch.tensor([[True, False], [False, False]])
    x = torch.ones(2, 2)
    assert _masks.output_mask(torch.masked.sum, x, 1, mask=mask).tolist() == [True, False]
    assert _masks.output_mask(torch.masked.softmax, x, 1, mask=mask).equal(mask)
    assert _masks.input_mask(x.to_sparse(), mask=mask).to_dense().equal(mask)
    assert _masks.canonical_dim((-1, 0), 3) == (0, 2)
    for name, want in (("sum", 0), ("prod", 1), ("amax", -(2**31)), ("amin", 2**31 - 1), ("norm", 0)):
        assert _masks.reduction_identity(f"masked.{name}", x.int()).item() == want
    assert _masks.reduction_identity("mean", x) is None and _masks.reduction_identity("median", x).isnan()


def test_numbers_are_taken_as_values_of_gamma():
    assert abs(torch.distributions.Gamma(1.0, 1.0).log_prob(0).item()) < 1e-12


def test_old_files(tmp_path):
    path = tmp_path / "old.pt"
    empty = torch.zeros(0)
    torch.save([empty, torch.TypedStorage(wrap_storage=empty.untyped_storage(), dtype=torch.int64)], path,
               _use_new_zipfile_serialization=False)  # fmt: skip
    assert torch.load(path)[1].dtype is torch.int64
    with open(path, "rb") as file:
        assert not torch.serialization._is_zipfile(file) and file.tell() == 0
    torch.save({"a": 1}, path)
    with open(path, "rb") as file:
        assert torch.serialization._is_zipfile(file)
        assert torch.load(file, encoding="bytes", weights_only=False) == {"a": 1}


def test_storages_and_tensors_are_copied_together():
    x = torch.ones(3)
    copied, storage = copy.deepcopy([x, x.storage()])
    copied.add_(1)
    assert storage.tolist() == [2, 2, 2] and x.storage().tolist() == [1, 1, 1]
