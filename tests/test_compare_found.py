"""What random programs found beside PyTorch (tests/compare), one test for each class of differences."""

import pytest

import facula as torch
from facula import nn
from facula.nn import functional as F

fw = torch.autograd.forward_ad


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


# ---- what is saved for the backward pass


@pytest.mark.parametrize("op", [lambda x: x / (x + 2), lambda x: 1 / x, F.softsign, lambda x: torch.erfinv(x / 9), lambda x: F.normalize(x, dim=0), lambda x: F.local_response_norm(x.reshape(1, 3, 1), 2)])
def test_results_may_be_written_to_before_backward(op):
    x = leaf(1.0, 2.0, 3.0)
    (wanted,) = torch.autograd.grad(op(x).sum(), x)
    y = op(x)
    y.add_(1)
    y.sum().backward()
    assert torch.equal(x.grad, wanted)


# ---- gradients


def test_a_bound_given_as_a_tensor_gets_its_gradient():
    x, bound = leaf(-1.0, 2.0), leaf(0.5)
    torch.clamp(x, bound.squeeze()).sum().backward()
    assert bound.grad.tolist() == [1.0] and x.grad.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("call", [lambda g: torch.full((2,), g), lambda g: torch.add(torch.ones(2), 1, alpha=g), lambda g: F.leaky_relu(torch.ones(2), g), lambda g: torch.arange(g)])
def test_a_number_that_wants_a_gradient_is_refused_where_it_would_be_lost(call):
    with pytest.raises(TypeError):
        call(torch.tensor(2.0, requires_grad=True))
    call(torch.tensor(2.0))


@pytest.mark.parametrize("op", [torch.median, torch.nanmedian])
def test_equal_elements_share_the_gradient_of_the_median(op):
    x = leaf(1.0, 2.0, 2.0, 5.0)
    op(x).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_the_gradient_of_a_median_of_nan_goes_to_nan():
    x = leaf(1.0, float("nan"), 3.0)
    torch.median(x).backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    y = leaf(1.0, float("nan"), 3.0)
    torch.nanmedian(y).backward()
    assert y.grad.tolist() == [1.0, 0.0, 0.0]


def test_a_complex_power_of_a_negative_number_has_a_gradient():
    e = torch.tensor([1 + 1j], dtype=torch.complex128, requires_grad=True)
    torch.pow(-torch.ones(1, dtype=torch.float64), e).abs().sum().backward()
    assert torch.isfinite(e.grad.real).all() and torch.autograd.gradcheck(lambda e: torch.pow(-torch.ones(1, dtype=torch.float64), e), e)


def test_tangents_of_powers_and_deviations_are_zero_where_gradients_are():
    zero = torch.zeros(2, dtype=torch.float64)
    assert torch.func.jvp(torch.pow, (zero, zero), (zero + 1, zero + 1))[1].tolist() == [0.0, 0.0]
    assert torch.func.jvp(lambda x: x.std(), (zero + 3,), (zero + 3,))[1].item() == 0.0


@pytest.mark.parametrize("loss", [lambda w: F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]), w), lambda w: F.nll_loss(torch.ones(2, 3), torch.tensor([0, 1]), w)])
def test_class_weights_that_want_a_gradient_are_refused(loss):
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to weight"):
        loss(weight)
    with torch.no_grad():
        loss(weight)


# ---- arguments


def test_numbers_before_tensors_are_taken_with_a_warning():
    a, b, m = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.ones(2, 2)
    with pytest.warns(UserWarning, match="by keyword"):
        assert torch.add(a, 10, b).tolist() == [31.0, 42.0]
    with pytest.warns(UserWarning, match="by keyword"):
        assert a.addcmul(10, b, b).tolist() == [91.0, 162.0]
    with pytest.warns(UserWarning, match="by keyword"):
        assert torch.addmm(2, m, 3, m, m).tolist() == [[8.0, 8.0], [8.0, 8.0]]
    with pytest.warns(UserWarning, match="by keyword"):
        assert m.addmm(2, m, m).tolist() == [[4.0, 4.0], [4.0, 4.0]]
    with pytest.raises(TypeError):
        torch.add(a, 10, 20, b)


def test_a_number_is_copied_into_every_place():
    x = torch.zeros(2)
    assert x.copy_(3).tolist() == [3.0, 3.0] and x.copy_(other=torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(TypeError):
        x.copy_([1.0, 2.0])


def test_names_and_places_of_arguments():
    a = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    assert torch.det(input=a) == 6 and torch.inverse(input=a)[0, 0] == 0.5 and torch.linalg.eigh(input=a)[0].tolist() == [2.0, 3.0]
    assert torch.softmax(a, 0, torch.float64).dtype == a.log_softmax(0, torch.float64).dtype == torch.float64
    assert torch.sparse.mm(sparse=a.to_sparse(), dense=a).tolist() == [[4.0, 0.0], [0.0, 9.0]]
    assert len(torch.atleast_1d()) == 0 and torch.tensor(5.0).mH == 5


@pytest.mark.filterwarnings("ignore:mse_loss")
def test_mse_loss_with_weights_broadcasts_its_target():
    assert F.mse_loss(torch.ones(2), torch.zeros(3, 2), weight=torch.ones(2)) == 3.0
    assert F.mse_loss(torch.ones(2) * 1j, torch.zeros(2), weight=torch.ones(2)) == -1
    with pytest.raises(ValueError):
        F.mse_loss(torch.ones(2), torch.zeros(3, 2), weight=torch.ones(3, 2))


def test_in_place_lists_are_given_back():
    tensors = [-torch.ones(2)]
    assert torch._foreach_abs_(tensors) is tensors and tensors[0].tolist() == [1.0, 1.0]


# ---- classes of exceptions

C, B = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.bool)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: ~torch.ones(2), TypeError),
        (lambda: C.sort(), RuntimeError),
        (lambda: C.sort(5), IndexError),
        (lambda: C.topk(1, 4), IndexError),
        (lambda: C.max(0), RuntimeError),
        (lambda: C.max(4), IndexError),
        (lambda: C.argmax(), RuntimeError),
        (lambda: C.softmax(3), IndexError),
        (lambda: torch.amax(torch.tensor(1.0), (-1, 0)), RuntimeError),
        (lambda: torch.tensor(1.0).stride(0), IndexError),
        (lambda: torch.bincount(torch.ones(2, 3)), NotImplementedError),
        (lambda: torch.relu(C), NotImplementedError),
        (lambda: torch.zeros(2, 3).index_add(0, torch.tensor([0, 5]), torch.zeros(2, 3)), RuntimeError),
        (lambda: torch.tensor(1.0).index_select(0, torch.tensor([0, 0])), RuntimeError),
        (lambda: torch.sparse.softmax(torch.ones(2), 0), NotImplementedError),
        (lambda: torch.autograd.grad(leaf(1.0).sum(), []), RuntimeError),
        (lambda: torch.autograd.grad(leaf(1.0).sum(), [leaf(1.0)], is_grads_batched=True), ValueError),
        (lambda: torch.autograd.graph.register_multi_grad_hook([torch.ones(2)], print), AssertionError),
        (lambda: torch.func.jvp(torch.sin, (torch.arange(2),), (torch.ones(2),)), ValueError),
        (lambda: torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(3),)), RuntimeError),
        (lambda: torch.func.linearize(torch.sin, torch.arange(2)), ValueError),
        (lambda: torch.func.vjp(torch.sin, 1), ValueError),
        (lambda: torch.func.vjp(torch.isnan, torch.ones(2)), RuntimeError),
        (lambda: F.batch_norm(torch.ones(2, 2), None, torch.ones(2), training=True), ValueError),
        (lambda: torch.asarray(leaf(1.0), dtype=torch.int64), RuntimeError),
    ],
)
def test_exceptions_have_the_class_that_programs_catch(call, error):
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error


def test_only_leaves_have_a_flag_to_set():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = True


# ---- flags, dtypes and the rest


def test_asarray_keeps_what_the_tensor_requires():
    x = leaf(1.0)
    assert torch.asarray(x) is x and torch.asarray(x * 2).grad_fn is not None
    assert not torch.asarray(x * 2, requires_grad=False).requires_grad


def test_losses_of_two_dtypes():
    wide, narrow = torch.ones(2, dtype=torch.float64), torch.ones(2)
    assert F.huber_loss(narrow, wide).dtype == torch.float32
    assert F.binary_cross_entropy_with_logits(wide, narrow).dtype == torch.float32


def test_a_tensor_without_dimensions_gives_way_in_block_diag():
    assert torch.block_diag(torch.tensor(1, dtype=torch.int16), torch.ones(2, 2, dtype=torch.uint8)).dtype == torch.uint8


def test_an_empty_tensor_may_be_divided_by_zero():
    empty = torch.empty(0, dtype=torch.int64)
    assert (empty % 0).numel() == (empty // 0).numel() == torch.fmod(empty, 0).numel() == 0


def test_data_of_a_sparse_tensor_is_a_sparse_tensor():
    s = torch.eye(3).to_sparse()
    assert s.data._nnz() == 3 and s.data.mul(2).to_dense()[1, 1] == 2


def test_a_parameter_is_an_array_under_no_grad():
    p = nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert p.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError):
        p.numpy()


def test_backends_of_attention_are_no_numbers():
    backend = nn.attention.SDPBackend
    assert backend.MATH != 0 and int(backend.FLASH_ATTENTION) == 1 and backend(1) is backend.FLASH_ATTENTION


def test_attention_drops_the_weights_that_dropout_drops():
    q, k, v = torch.rand(2, 20, 8), torch.rand(2, 20, 8), torch.rand(2, 20, 8)
    torch.manual_seed(3)
    got = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(3)
    wanted = F.dropout(torch.softmax(q @ k.mT / 8**0.5, -1), 0.5) @ v
    torch.testing.assert_close(got, wanted)


def test_chain_matmul_of_one_matrix_fills_its_out():
    out = torch.empty(0)
    assert torch.chain_matmul(torch.eye(2), out=out) is out and torch.equal(out, torch.eye(2))


def test_nothing_to_clip_is_nothing_to_warn_of(recwarn):
    assert nn.utils.clip_grad_norm_([], 1.0) == 0 and not recwarn


def test_instance_norm_of_one_channel_averages_over_the_instances():
    norm = nn.InstanceNorm1d(1, track_running_stats=True, momentum=1.0)
    norm(torch.tensor([[[1.0, 3.0]], [[5.0, 9.0]]]))
    assert norm.running_mean.tolist() == [4.5] and norm.running_var.tolist() == [5.0]


def test_the_exponential_of_a_narrow_matrix():
    a = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.bfloat16, requires_grad=True)
    result = torch.linalg.matrix_exp(a)
    assert result.dtype == torch.bfloat16 and abs(result[0, 0].item() - 0.54) < 0.01
    result.sum().backward()
    assert torch.isfinite(a.grad).all()


def test_attention_lies_as_its_query():
    q, k = torch.rand(2, 3, 20, 8), torch.rand(2, 3, 20, 8)
    assert F.scaled_dot_product_attention(q, k, k).is_contiguous()
    joined = torch.rand(2, 20, 3, 8).transpose(1, 2)
    assert F.scaled_dot_product_attention(joined, k, k).stride() == joined.stride()
    assert F.scaled_dot_product_attention(joined[..., :4], k[..., :4], k).is_contiguous()
    parts = torch.rand(2, 20, 72).split(24, 2)[0].view(2, 20, 3, 8).transpose(1, 2)
    assert F.scaled_dot_product_attention(parts, k, k).stride() == joined.stride()
    torch.testing.assert_close(F.scaled_dot_product_attention(joined, k, k), torch.softmax(joined @ k.mT / 8**0.5, -1) @ k)


# ---- histories of what is overwritten, and of views


@pytest.mark.parametrize("write", [lambda y: y.fill_(2.0), lambda y: y.zero_(), lambda y: y.copy_(torch.ones(3)), lambda y: y.uniform_(), lambda y: y.__setitem__(slice(None), 3.0), lambda y: y.eq_(1.0), lambda y: y.floor_()])
def test_what_was_overwritten_has_the_gradient_zero(write):
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    write(y)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_what_copies_a_tensor_hands_the_gradient_on():
    x, source = leaf(1.0, 2.0), leaf(5.0, 6.0)
    y = x * 2
    y.copy_(source * 3)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0] and source.grad.tolist() == [3.0, 3.0]


def test_a_view_requires_what_its_base_requires():
    base = torch.zeros(4)
    view = base.view(2, 2)
    base.requires_grad_()
    assert view.requires_grad and view.is_leaf and not base.detach().requires_grad
    with torch.no_grad():
        later = base.view(-1)
        assert later.requires_grad and later.is_leaf and not (base * 2).requires_grad
    (later * 2).sum().backward()
    assert later.grad is None and base.grad is None


def test_a_view_made_without_recording_is_not_written_to_with():
    y = leaf(1.0, 2.0) * 2
    with torch.no_grad():
        view = y.view(-1)
        view.mul_(1)
    with pytest.raises(RuntimeError, match="no_grad"):
        view.mul_(2)


def test_copying_a_tensor_by_tensor_is_advised_against():
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="detach"):
        assert torch.tensor(x).tolist() == [1.0, 1.0]
    assert torch.as_tensor(x) is x and torch.tensor([x.sum()]).tolist() == [2.0]


def test_a_bound_without_dimensions_takes_part_in_the_dtype():
    x, bound = torch.tensor(1.5), torch.tensor(2.0, dtype=torch.float64)
    assert torch.clamp(x, min=bound).dtype == torch.float64 and torch.clamp(x, 1, bound).dtype == torch.float32


def test_tangents_at_zero_are_numbers():
    assert torch.func.jvp(torch.sinc, (torch.zeros(1),), (torch.ones(1),))[1].item() == 0.0


_BOUNDED = [
    torch.clamp,
    torch.Tensor.clip,
    torch.clamp_min,
    torch.ops.aten.clamp,
    lambda x, low: x.clamp(min=low),
    lambda x, low: torch.clamp(x, None, low),
    lambda x, low: torch.clamp(x, low, low + 1),
    lambda x, low: x.clone().clamp_(max=low),
]


@pytest.mark.parametrize("call", _BOUNDED)
def test_bounds_of_a_batch_are_tensors(call):
    x, low = torch.arange(6.0).reshape(2, 3) - 2, torch.tensor([-0.5, 1.5])
    assert torch.equal(torch.vmap(call)(x, low), torch.stack([call(*one) for one in zip(x, low)]))
    assert torch.equal(torch.vmap(call, (0, None))(x, low[0]), call(x, low[0]))


# ---- sums and powers in the dtype that is asked of them


def test_a_truth_value_that_is_summed_beside_numbers_is_a_number():
    product = torch.einsum("...i,...i->...", torch.ones(2, dtype=torch.bool), torch.full((3, 1), 1.5))
    assert product.tolist() == [3.0, 3.0, 3.0]


def test_tensordot_keeps_the_dtype_of_what_it_sums():
    x = torch.ones(3, 1, 2, dtype=torch.uint8)
    assert torch.tensordot(x, x).dtype == torch.uint8


def test_ldexp_has_the_range_of_its_argument():
    scaled = torch.ldexp(torch.ones(2, dtype=torch.float64), torch.tensor(200))
    assert scaled.tolist() == [2.0**200] * 2 and scaled.dtype == torch.float64
    wide = torch.ldexp(torch.tensor(1j, dtype=torch.complex128), torch.ones(2, dtype=torch.uint8))
    assert wide.dtype == torch.complex128


def test_a_matrix_with_an_infinity_may_have_an_inverse():
    x = torch.tensor([[float("inf"), 1.0], [2.0, 3.0]])
    assert [torch.linalg.cond(x, p).item() for p in (1, -1, float("-inf"), "fro")] == [float("inf"), 0.0, 0.0, float("inf")]
    assert torch.linalg.cond(x).isnan() and torch.linalg.cond(torch.full((2, 2), float("inf")), -1).isinf()


def test_the_result_of_solve_triangular_has_the_dtype_of_the_matrix():
    for one, other in ((torch.float64, torch.float32), (torch.float32, torch.float64), (torch.complex64, torch.float32)):
        b = torch.ones(2, 1, dtype=other, requires_grad=True)
        x = torch.linalg.solve_triangular(2 * torch.eye(2, dtype=one), b, upper=True)
        assert x.dtype == one and x.flatten().tolist() == [0.5, 0.5]
        x.abs().sum().backward()
        assert b.grad.dtype == other and b.grad.flatten().tolist() == [0.5, 0.5]


def test_a_weight_without_dimensions_counts_as_a_number():
    x, y = torch.zeros(2), torch.ones(2)
    for dtype in (torch.float64, torch.float16, torch.int64):
        assert torch.lerp(x, y, torch.ones((), dtype=dtype)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="one dtype"):
        torch.lerp(x, y, torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("factor", [1j, torch.tensor(1j), 2 + 1j])
def test_a_real_sparse_tensor_times_a_complex_number_has_a_real_gradient(factor):
    values = leaf(1.0, 2.0)
    made = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), values, (2, 2)) * factor
    made.to_dense().imag.sum().backward()
    assert values.grad.tolist() == [1.0, 1.0]


# ---- tangents


def test_a_view_of_a_dual_has_a_view_of_its_tangent():
    value, tangent = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
    with fw.dual_level():
        dual = fw.make_dual(value, tangent)
        for view in (lambda t: t[:, 1:], lambda t: t.t(), lambda t: t[0].expand(2, 3), lambda t: t.view(-1)[::2]):
            shown, wanted = fw.unpack_dual(view(dual)).tangent, view(tangent)
            assert shown.stride() == wanted.stride() and shown.data_ptr() == wanted.data_ptr() and torch.equal(shown, wanted)
        assert fw.unpack_dual(dual.clone()).tangent.data_ptr() != tangent.data_ptr()
        dual.mul_(2)
        assert fw.unpack_dual(dual[1]).tangent.tolist() == [6.0, 8.0, 10.0]


@pytest.mark.parametrize(("value", "tangent"), [(torch.float32, torch.float64), (torch.float64, torch.float32), (torch.float32, torch.float16)])
def test_a_tangent_may_have_another_dtype(value, tangent):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2, dtype=value), torch.full((2,), 3.0, dtype=tangent))
        assert fw.unpack_dual(dual[1:]).tangent.dtype == tangent
        shown = fw.unpack_dual(dual * 2).tangent
        assert shown.dtype == torch.promote_types(value, tangent) and shown.tolist() == [6.0, 6.0]
        with pytest.raises(RuntimeError, match="must be real"):
            fw.make_dual(torch.ones(2), torch.ones(2, dtype=torch.complex64))


# ---- classes of exceptions

SPARSE = torch.eye(2).to_sparse()
TRUE = torch.ones(3, dtype=torch.bool)
COMPLEX = torch.ones(3, dtype=torch.complex64)


def written(index, value, target=None):
    (torch.zeros(2) if target is None else target)[index] = value


def itself(name, dim, shape=(3,)):
    x = torch.zeros(shape)
    index = torch.tensor([0, 0]) if name.startswith("index") else torch.zeros_like(x, dtype=torch.int64)
    return getattr(x, name)(dim, index, x)


@pytest.mark.parametrize(("call", "error"), [
    (lambda: SPARSE.reshape(4), RuntimeError), (lambda: SPARSE.flatten(), RuntimeError), (lambda: SPARSE.expand(3, 2, 2), RuntimeError),
    (lambda: torch.sparse.mm(torch.ones(3), torch.ones(3, 2)), IndexError), (lambda: torch.sparse.sum(torch.ones(3), 5), IndexError),
    (lambda: torch.ones(3).clamp(1j, 2), RuntimeError), (lambda: torch.ones(3).clamp_(1j), RuntimeError), (lambda: COMPLEX.clamp(torch.ones(2)), NotImplementedError),
    (lambda: TRUE.argmax(), RuntimeError), (lambda: torch.cov(TRUE), RuntimeError), (lambda: torch.linalg.vander(TRUE), RuntimeError),
    (lambda: TRUE.argmax(7), RuntimeError), (lambda: COMPLEX.amax(7), IndexError), (lambda: COMPLEX.nansum(7), IndexError),
    (lambda: TRUE.logcumsumexp(7), IndexError), (lambda: COMPLEX.cummax(7), IndexError), (lambda: TRUE.kthvalue(1, 7), IndexError),
    (lambda: torch.fft.fft(torch.ones(3), -2, 7), IndexError), (lambda: torch.fft.fft(torch.ones(()), 2), IndexError),
    (lambda: torch.addbmm(torch.ones(3), torch.ones(3), torch.ones(3)), IndexError), (lambda: torch.baddbmm(torch.ones(3, 1), torch.ones(3, 1), torch.ones(3, 1)), IndexError),
    (lambda: itself("index_add_", 7), IndexError), (lambda: itself("index_copy_", 7), IndexError), (lambda: itself("scatter_", 7), IndexError),
    (lambda: itself("scatter_add_", -4), IndexError), (lambda: itself("scatter_", 0), RuntimeError),
    (lambda: torch.ones(3, 1).scatter(0, torch.zeros(3, 1, dtype=torch.int64), torch.ones(3)), IndexError),
    (lambda: written(5, 1j), RuntimeError), (lambda: written(1.5, 1j), RuntimeError), (lambda: written(5, 1), IndexError), (lambda: written((0, 0), 1j), RuntimeError),
    (lambda: (lambda x: written(x, 2, x))(torch.zeros(2)), RuntimeError), (lambda: written(torch.zeros(2), 2), IndexError),
])  # fmt: skip
def test_what_is_said_first_is_what_programs_catch(call, error):
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error


def test_a_missing_derivative_is_a_runtime_error():
    x = leaf(1.0, 2.0) * 1
    with pytest.raises(RuntimeError, match="^heaviside: the derivative is not implemented") as caught:
        torch.heaviside(x, x).sum().backward()
    assert caught.type is RuntimeError


def test_a_number_is_let_go_like_a_tensor():
    for op in (lambda x: x * 2, lambda x: x / 2, lambda x: 3 * x):
        x = leaf(1.0, 2.0)
        y = op(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="an earlier pass freed"):
            y.backward()
    z = (leaf(1.0, 2.0) + 3).sum()
    z.backward()
    z.backward()


def test_slices_are_in_the_order_of_their_elements():
    x = torch.zeros(2, 3, 2)
    x[0, 1], x[1, 0] = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    columns = x.unique(dim=-1)
    assert columns.reshape(6, 2).T.tolist() == sorted(x.reshape(6, 2).T.tolist())


def test_sums_of_some_dimensions_of_a_sparse_tensor_keep_its_dtype():
    for dtype in (torch.bool, torch.uint8, torch.int32):
        x = torch.tensor([[0, 1], [2, 0]]).to(dtype).to_sparse()
        assert torch.sparse.sum(x, 1).dtype == dtype and torch.sparse.sum(x).dtype == torch.int64
