"""Public names that few programs use, and the ones that only say what is missing."""

import warnings

import numpy as np
import pytest

import facula
from facula import nn

rng = np.random.default_rng(3)


def close(actual, expected, tolerance=1e-6):
    assert np.allclose(actual.detach().numpy(), expected, atol=tolerance, rtol=tolerance), f"{actual} {expected}"


# gradient


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_is_that_of_numpy(edge_order):
    a = rng.standard_normal((4, 5))
    x = facula.from_numpy(a)
    coordinates = [np.cumsum(rng.random(4) + 0.1), np.cumsum(rng.random(5) + 0.1)]
    tensors = [facula.from_numpy(c) for c in coordinates]
    for actual, expected in [
        (facula.gradient(x, edge_order=edge_order), np.gradient(a, edge_order=edge_order)),
        (facula.gradient(x, spacing=0.5, edge_order=edge_order), np.gradient(a, 0.5, edge_order=edge_order)),
        (facula.gradient(x, spacing=(0.5, 2.0), edge_order=edge_order), np.gradient(a, 0.5, 2.0, edge_order=edge_order)),
        (facula.gradient(x, spacing=tensors, edge_order=edge_order), np.gradient(a, *coordinates, edge_order=edge_order)),
    ]:
        assert isinstance(actual, tuple) and len(actual) == 2
        for one, other in zip(actual, expected):
            close(one, other, 1e-12)
    (along,) = facula.gradient(x, dim=-1, edge_order=edge_order)
    close(along, np.gradient(a, axis=1, edge_order=edge_order), 1e-12)


def test_gradient_is_differentiable_and_keeps_to_small_shapes():
    x = facula.randn(5, dtype=facula.float64, requires_grad=True)
    assert facula.autograd.gradcheck(lambda t: facula.gradient(t, edge_order=2), (x,))
    assert facula.gradient(facula.tensor([1.0, 4.0]))[0].tolist() == [3, 3] and facula.gradient(facula.ones(())) == ()
    assert facula.gradient(facula.arange(4))[0].dtype is facula.float32


@pytest.mark.parametrize(
    ("arguments", "error", "end"),
    [
        ({"edge_order": 3}, RuntimeError, "got 3"),
        ({"spacing": (1.0, 2.0, 3.0)}, RuntimeError, "got 3"),
        ({"dim": 2}, IndexError, "got 2"),
        ({"dim": (0, 0)}, RuntimeError, r"got \(0, 0\)"),
        ({"spacing": (facula.ones(3), 1.0)}, TypeError, "got Tensor, float"),
        ({"spacing": "x"}, TypeError, "got str"),
        ({"spacing": (facula.ones(2), facula.ones(3))}, RuntimeError, r"got spacing of shape \(2,\)"),
    ],
)
def test_gradient_errors(arguments, error, end):
    with pytest.raises(error, match=f"^gradient: .*{end}"):
        facula.gradient(facula.ones(3, 3), **arguments)


# lobpcg


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_finds_extreme_eigenpairs(largest):
    a = rng.standard_normal((2, 30, 30))
    a = facula.from_numpy(a @ a.transpose(0, 2, 1) + 30 * np.eye(30))
    b = facula.from_numpy(np.diag(rng.random(30) + 1))
    facula.manual_seed(0)
    values, vectors = facula.lobpcg(a, k=3, largest=largest)
    assert values.shape == (2, 3) and vectors.shape == (2, 30, 3)
    exact = facula.linalg.eigvalsh(a)
    close(values, (exact.flip(-1) if largest else exact)[:, :3].numpy(), 1e-5)
    values, vectors = facula.lobpcg(a[0], k=2, B=b, largest=largest, tol=1e-9)
    close(a[0] @ vectors, (b @ vectors * values).numpy(), 1e-4)


@pytest.mark.parametrize("layout", [facula.sparse_coo, facula.sparse_csr])
def test_lobpcg_takes_sparse_matrices(layout):
    a = facula.diag(facula.arange(1.0, 31.0, dtype=facula.float64)) + 0.01
    sparse = a.to_sparse(layout=layout)
    values, _ = facula.lobpcg(sparse, k=3, B=2 * facula.eye(30).double().to_sparse(layout=layout), X=facula.ones(30, 3).double() + a[:, :3])
    close(values, (facula.linalg.eigvalsh(a).flip(0)[:3] / 2).numpy(), 1e-5)


def test_lobpcg_errors():
    with pytest.raises(ValueError, match="^lobpcg: expected at least 6 rows.*got 4"):
        facula.lobpcg(facula.eye(4), k=2)
    a = facula.diag(facula.arange(1.0, 10.0)).requires_grad_()
    values, _ = facula.lobpcg(a, k=1, B=facula.eye(9))
    with pytest.raises(ValueError, match="^lobpcg: .*got another problem"):
        values.sum().backward()


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_gradients_are_those_of_all_eigenpairs(largest):
    matrix = rng.standard_normal((2, 9, 9))
    matrix = matrix @ matrix.transpose(0, 2, 1) + 3 * np.eye(9)
    weights = facula.from_numpy(rng.standard_normal((2, 9, 2)))
    grads = []
    for find in (lambda a: facula.lobpcg(a, k=2, largest=largest, tol=1e-13), lambda a: [t.flip(-1)[..., :2] if largest else t[..., :2] for t in facula.linalg.eigh(a)]):
        a = facula.from_numpy(matrix.copy()).requires_grad_()
        values, vectors = find(a)
        signs = vectors.detach()[:, :1].sign()
        (values.sum() + (vectors * signs * weights).sum()).backward()
        grads.append(a.grad)
    close((grads[0] + grads[0].mT) / 2, ((grads[1] + grads[1].mT) / 2).numpy(), 1e-6)


# functions that have another home


def test_functions_with_another_home():
    a, b, y = facula.tensor([1.0, 2.0]), facula.tensor([2.0, 0.5]), facula.tensor([1.0, -1.0])
    assert facula.margin_ranking_loss(a, b, y, 0.5, 2) == nn.functional.margin_ranking_loss(a, b, y, 0.5, reduction="sum")
    assert facula.hinge_embedding_loss(a, y, reduction=1) == nn.functional.hinge_embedding_loss(a, y)
    # functions of the top level give the loss of each element where no reduction is named
    assert facula.hinge_embedding_loss(a, y).shape == facula.kl_div(a, b).shape == (2,)
    assert facula.binary_cross_entropy_with_logits(a, b).shape == (2,)
    wide = facula.margin_ranking_loss(facula.ones(2, 3), facula.zeros(2, 3), facula.ones(3))
    assert wide.shape == (2, 3)
    assert facula.poisson_nll_loss(a, b, True, False, 1e-8, 1) == nn.functional.poisson_nll_loss(a, b)
    with pytest.raises(ValueError, match="^triplet_margin_loss: .*got 7"):
        facula.triplet_margin_loss(a, a, a, reduction=7)
    x = facula.randn(3, 4, requires_grad=True)
    assert not facula.detach(x).requires_grad and facula.get_device(x) == -1
    close(facula.frobenius_norm(x, (0, 1)), x.detach().norm().numpy())
    close(facula.nuclear_norm(x), facula.linalg.svdvals(x.detach()).sum().numpy())
    close(facula.norm_except_dim(x, 2, 0), x.detach().norm(dim=1, keepdim=True).numpy())
    with pytest.raises(IndexError, match="^norm_except_dim: .* got 5"):
        facula.norm_except_dim(x, 2, 5)
    theta = facula.eye(2, 3).unsqueeze(0)
    assert facula.affine_grid_generator(theta, (1, 1, 2, 2), True).shape == (1, 2, 2, 2)


def test_segment_reduce():
    data = facula.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    lengths = facula.tensor([2, 0, 1])
    assert facula.segment_reduce(data, "sum", lengths=lengths).tolist() == [[4, 6], [0, 0], [5, 6]]
    assert facula.segment_reduce(data, "max", offsets=facula.tensor([0, 2, 3])).tolist() == [[3, 4], [5, 6]]
    assert facula.segment_reduce(data, "mean", lengths=lengths, initial=0).tolist() == [[2, 3], [0, 0], [5, 6]]
    with pytest.raises(RuntimeError, match=r"^segment_reduce: .*got 4$"):
        facula.segment_reduce(data, "sum", lengths=facula.tensor([2, 2]))


def test_embedding_renorm():
    table = facula.tensor([[3.0, 4.0], [0.3, 0.4]])
    facula.embedding_renorm_(table, facula.tensor([0, 1]), 1.0, 2.0)
    close(table, [[0.6, 0.8], [0.3, 0.4]])


def test_from_file(tmp_path):
    path = tmp_path / "numbers"
    shared = facula.from_file(path, True, 4, dtype=facula.int32)
    shared[2] = 7
    del shared
    assert facula.from_file(str(path), False, 4, dtype=facula.int32).tolist() == [0, 0, 7, 0]
    with pytest.raises(RuntimeError, match="^from_file: .*got a file of 16$"):
        facula.from_file(path, False, 5, dtype=facula.int32)


def test_control_flow():
    x = facula.tensor(3.0)
    assert facula.cond(x > 2, lambda a: a + 1, lambda a: a - 1, (x,)) == 4
    assert facula.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + i), (0, 0)) == (3, 3)
    assert facula.sym_max(2, 3) == 3 and facula.sym_int(-2.5) == -2 and facula.sym_ite(False, 1, 2) == 2
    assert facula.sym_sum([1, 2]) == 3 and facula.sym_not(0) and facula.sym_sqrt(9) == 3 and facula.sym_float(2) == 2.0


# methods


def test_methods():
    x = facula.tensor([[3.0, 1.0], [3.0, 1.0]])
    assert x.unique().tolist() == [1, 3] and x.unique(dim=0).tolist() == [[3, 1]]
    assert x.unique_consecutive(return_counts=True)[1].tolist() == [1, 1, 1, 1]
    assert x.dim_order() == (0, 1) and facula.empty(1, 2, 3, 4).to(memory_format=facula.channels_last).dim_order() == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="^dim_order: "):
        facula.ones(1, 1).dim_order(ambiguity_check=True)
    assert x.to_dense() is x and x.sparse_dim() == 0 and x.dense_dim() == 2 and x.grad_dtype is facula.float32
    assert facula.tensor(2).is_nonzero() and x.clone().map2_(x, x, lambda a, b, c: a + b * c).tolist() == [[12, 2], [12, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert x.resize(4).shape == (4,) and x.resize_as(facula.ones(1, 4)).shape == (1, 4) and x.volatile is False
        with pytest.raises(RuntimeError, match=r"^resize: .*got \(3,\)$"):
            x.resize(3)
    with pytest.raises(RuntimeError, match="^torch.Tensor.symeig was removed"):
        x.symeig()
    with pytest.raises(NotImplementedError, match="^torch.Tensor.to_mkldnn is not supported"):
        x.to_mkldnn()


def test_in_place_forms_that_resize_or_keep():
    out = facula.ones(())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert out.addbmm_(facula.ones(2, 3, 4), facula.ones(2, 4, 5)).shape == (3, 5)
    assert out.tolist() == [[9.0] * 5] * 3
    whole = facula.tensor([1, 2]).expand(3, 2)
    assert whole.nan_to_num_() is whole and whole.conj_physical() is whole
    shown = facula.tensor([0.0, 2.0]).expand(3, 2)
    assert nn.functional.threshold(shown, 1, -1, inplace=True).tolist() == [[-1, 2]] * 3


# what is missing says so


@pytest.mark.parametrize("name", ["batch_norm_elemt", "crow_indices_copy", "cudnn_convolution", "bits8"])
def test_missing_names_exist_and_say_so(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(facula, name)()


def test_removed_functions_name_their_successor():
    with pytest.raises(RuntimeError, match=r"^torch\.symeig was removed .*use linalg\.eigh"):
        facula.symeig(facula.eye(2))


# out= and numbers


@pytest.mark.parametrize(
    "call",
    [
        lambda out: facula.abs(facula.ones(2), out=out),
        lambda out: facula.gather(facula.ones(2), 0, facula.tensor([0, 1]), out=out),
        lambda out: facula.mm(facula.ones(2, 2), facula.ones(2, 2), out=out),
        lambda out: facula.complex(facula.ones(2), facula.ones(2), out=out.to(facula.complex128)),
        lambda out: facula.softmax(facula.ones(2), 0, out=out),
    ],
)
def test_out_of_another_dtype_is_refused(call):
    with pytest.raises(RuntimeError, match=r"cannot be written into.* (float64|complex128)$"):
        call(facula.empty(2, dtype=facula.float64))


def test_out_of_a_wider_dtype_is_written():
    out = facula.empty(2, dtype=facula.float64)
    assert facula.add(facula.ones(2), 1, out=out) is out and out.tolist() == [2, 2]
    assert facula.cat([facula.ones(1), facula.ones(1)], out=out).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(facula.uint8, 300), (facula.uint8, -1.0), (facula.int32, float("inf")), (facula.float16, 1e6), (facula.float32, 1j)],
)
def test_numbers_without_a_value_in_the_dtype(dtype, value):
    with pytest.raises(RuntimeError, match=r"^fill: .*got "):
        facula.full((2,), value, dtype=dtype)
    with pytest.raises(RuntimeError, match="got "):
        facula.zeros(2, dtype=dtype).index_fill_(0, facula.tensor([0]), value)


def test_nextafter_of_narrow_floats():
    x = facula.tensor([1.0, -8.5, 0.0, float("inf"), 2.0], dtype=facula.bfloat16)
    y = facula.tensor([2.0, 0.0, 1.0, 0.0, 1.0], dtype=facula.bfloat16)
    assert facula.nextafter(x, y).tolist() == [1.0078125, -8.4375, 2.0**-133, (2 - 2**-7) * 2.0**127, 1.9921875]


def test_none_is_not_a_number():
    with pytest.raises(TypeError, match="^addmm"):
        facula.addmm(facula.ones(2, 2), facula.ones(2, 2), facula.ones(2, 2), beta=None)


def test_rms_norm_of_complex_numbers():
    x = facula.tensor([[3 + 4j, 1j]])
    expected = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + 0.5)
    close(nn.functional.rms_norm(x, (2,), eps=0.5), expected)
