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


# ---- forward mode: what is recorded for it, for backward passes, or for both


def without_recording(x):
    with torch.no_grad():
        y = x * 3
    return x + y


@pytest.mark.parametrize("transform", [lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1], lambda f, x: torch.func.jacfwd(f)(x).diagonal(), lambda f, x: torch.func.linearize(f, x)[1](torch.ones_like(x)), lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True, strategy="forward-mode").diagonal(), lambda f, x: torch.vmap(lambda t: torch.func.jvp(f, (t,), (torch.ones_like(t),))[1])(x)])
def test_tangents_pass_through_no_grad(transform):
    x = torch.ones(2)
    assert transform(without_recording, x).tolist() == [4.0, 4.0]
    with torch.no_grad():
        assert transform(without_recording, x).tolist() == [4.0, 4.0]


def test_gradients_of_what_a_transform_shows_stop_at_no_grad():
    x = torch.ones(2)
    assert torch.func.jvp(lambda t: torch.func.grad(lambda u: without_recording(u * u).sum())(t), (x,), (x,))[1].tolist() == [2.0, 2.0]
    assert torch.func.jacrev(without_recording)(x).diagonal().tolist() == [1.0, 1.0]
    leaf_of_both = torch.ones(2, requires_grad=True)
    with fw.dual_level():
        y = without_recording(fw.make_dual(leaf_of_both, torch.ones(2)))
        assert fw.unpack_dual(y).tangent.tolist() == [4.0, 4.0]
        y.sum().backward()
    assert leaf_of_both.grad.tolist() == [1.0, 1.0]


def test_forward_mode_switched_off_has_no_tangents():
    def half(x):
        with fw._set_fwd_grad_enabled(False):
            y = x * 3
        return x + y

    x = torch.ones(2)
    assert torch.func.jvp(half, (x,), (x,))[1].tolist() == [1.0, 1.0]
    assert torch.func.jacfwd(half)(x).diagonal().tolist() == [1.0, 1.0]
    with fw.dual_level():
        dual = fw.make_dual(x, x)
        with fw._set_fwd_grad_enabled(False):
            assert fw.unpack_dual(dual).tangent is None
        assert fw.unpack_dual(half(dual)).tangent.tolist() == [1.0, 1.0]


def test_transforms_nest_in_both_modes():
    def cube(t):
        return t**3

    x, v = torch.tensor(2.0), torch.tensor(1.0)
    assert torch.func.jvp(lambda t: torch.func.jvp(cube, (t,), (v,))[1], (x,), (v,))[1].item() == 12
    assert torch.func.jvp(torch.func.grad(cube), (x,), (v,))[1].item() == 12
    assert torch.func.grad(lambda t: torch.func.jvp(cube, (t,), (v,))[1])(x).item() == 12
    assert torch.func.jacfwd(torch.func.jacfwd(cube))(x).item() == 12 == torch.func.hessian(cube)(x).item()
    outer = torch.tensor(2.0, requires_grad=True)
    torch.func.jvp(cube, (outer,), (v,))[1].backward()
    assert outer.grad.item() == 12
    with fw.dual_level():
        inner = torch.func.grad(cube)(fw.make_dual(x, v))
        assert fw.unpack_dual(inner).tangent.item() == 12


def test_functions_see_plain_tensors_in_forward_transforms():
    seen = []
    torch.func.jvp(lambda t: seen.append((t.requires_grad, (t * 2).grad_fn)) or t, (torch.ones(1),), (torch.ones(1),))
    assert seen == [(False, None)]
    assert torch.func.jvp(lambda t: t.mul_(t), (torch.full((1,), 3.0),), (torch.ones(1),))[1].item() == 6


def test_a_dual_written_in_place_writes_its_tangent():
    primal, tangent = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    with fw.dual_level():
        dual = fw.make_dual(primal, tangent)
        dual *= 2
        assert fw.unpack_dual(dual).tangent is tangent and tangent.tolist() == [20.0, 40.0]
        assert fw.unpack_dual(dual * dual).tangent.tolist() == [80.0, 320.0]
        dual[0] = 5
    assert tangent.tolist() == [0.0, 40.0] and primal.tolist() == [5.0, 4.0]
    spread = torch.ones(1).expand(2)
    with fw.dual_level():
        dual = fw.make_dual(primal, spread).mul_(3)
        assert fw.unpack_dual(dual).tangent.tolist() == [3.0, 3.0] and spread.tolist() == [1.0, 1.0]


# ---- results that are written into a tracked out=


def test_truth_values_are_written_into_a_tracked_out():
    x, y = leaf(1.0, 2.0), leaf(3.0, 2.0) * 1
    torch.lt(x, 2, out=y)
    assert y.tolist() == [1.0, 0.0] and y.requires_grad
    with pytest.raises(RuntimeError):
        torch.floor(x.detach(), out=y)


def test_factories_end_the_history_of_a_tracked_out():
    x = leaf(1.0, 2.0)
    y = x * 2
    torch.ones(2, out=y)
    with pytest.raises(NotImplementedError):
        y.sum().backward()
    with pytest.raises(RuntimeError):
        torch.zeros(2, out=x)


def test_factories_fill_what_they_are_given(recwarn):
    shown = torch.ones(1).expand(3)
    torch.zeros(3, out=shown)
    assert shown.tolist() == [0.0] * 3
    torch.ones(2, out=torch.ones(4)), torch.eye(2, out=torch.ones(4)), torch.full((2,), 1.0, out=torch.ones(4))
    assert len(recwarn) == 0
    with pytest.warns(UserWarning):
        torch.arange(2, out=torch.ones(4))


# ---- overlap, kinds of errors


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("write", [lambda x: x.put_(torch.tensor([0]), x.reshape(-1)[:1]), lambda x: x.scatter_(0, torch.zeros(3, dtype=torch.int64), x), lambda x: x.index_copy_(0, torch.tensor([0]), x[:1]), lambda x: x.index_add_(0, torch.tensor([0]), x[:1]), lambda x: x.index_put_((torch.tensor([0, 1, 2]),), x)])
def test_what_is_read_may_not_lie_where_it_is_written(write, tracked):
    with pytest.raises(RuntimeError):
        write(torch.ones(3, requires_grad=tracked) * 1)


_KINDS = [
    (IndexError, lambda: torch.ones(2, 2).index_copy_(0, torch.tensor([0]), torch.ones(1, dtype=torch.float64))),
    (IndexError, lambda: torch.ones(2).scatter(3, torch.tensor([0]), torch.ones(1, dtype=torch.float64))),
    (IndexError, lambda: torch.ones(2).index_add_(0, torch.tensor([5]), torch.ones(1))),
    (RuntimeError, lambda: torch.ones(2, 2).index_add_(0, torch.tensor([5]), torch.ones(1, 2))),
    (IndexError, lambda: torch.tensor(1.0).repeat_interleave(2, 0)),
    (TypeError, lambda: torch.cat([torch.ones(1), torch.ones(1)], out=torch.ones(2, dtype=torch.int64))),
    (TypeError, lambda: torch.unique(torch.ones(2), -1)),
    (RuntimeError, lambda: torch.ones(2, dtype=torch.int64).std()),
    (RuntimeError, lambda: torch.ones(2, dtype=torch.int64).mean()),
    (RuntimeError, lambda: torch.linalg.vector_norm(torch.ones(2, dtype=torch.int64))),
    (RuntimeError, lambda: torch.ones(2) & torch.ones(3)),
]


@pytest.mark.parametrize("kind, call", _KINDS)
def test_kinds_of_errors(kind, call):
    with pytest.raises(kind) as raised:
        call()
    assert raised.type is kind


# ---- derivatives that do not exist are missed when they are asked for


@pytest.mark.parametrize("call", [lambda x: torch.heaviside(x, x.detach()), lambda x: torch.heaviside(x.detach(), x), lambda x: torch.bincount(torch.tensor([0, 1]), x), lambda x: torch.histogram(x.detach(), 2, weight=x)[0], lambda x: torch.special.zeta(x, 2.0), lambda x: torch.special.zeta(x, x)])
def test_a_missing_derivative_is_an_error(call):
    result = call(leaf(2.0, 3.0))
    assert result.requires_grad
    with pytest.raises(NotImplementedError):
        result.sum().backward()


def test_hardtanh_keeps_its_argument():
    x = leaf(-2.0, 0.5, 2.0)
    y = F.hardtanh(x)
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    x.grad = None
    F.relu6(x * 1, inplace=True).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


# ---- flags


def test_a_view_without_recording_is_a_leaf_also_of_what_was_written_before():
    y = leaf(1.0, 2.0) * 1
    y.exp_()
    with torch.no_grad():
        view = y.view(-1)
    assert view.is_leaf and view.requires_grad


def test_inference_mode_false_records_again():
    x = leaf(1.0)
    with torch.inference_mode():
        with torch.inference_mode(False):
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with torch.no_grad():
        with torch.inference_mode(False):
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad


@pytest.mark.parametrize("name", ["bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall"])
def test_windows_that_want_a_gradient_are_computed_from_leaves(name):
    window = getattr(torch.signal.windows, name)
    for sym in (True, False):
        tracked = window(6, sym=sym, requires_grad=True)
        assert tracked.grad_fn is not None and torch.allclose(tracked.detach(), window(6, sym=sym), atol=1e-6)


# ---- warnings


@pytest.mark.parametrize("convert", [lambda c: c.float(), lambda c: torch.zeros(1).copy_(c), lambda c: c.sum(dtype=torch.float32), lambda c: c.cumsum(0, dtype=torch.float64), lambda c: c.softmax(0, dtype=torch.float32)])
def test_lost_imaginary_parts_are_warned_of(convert):
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="imaginary"):
            convert(torch.tensor([1 + 1j]))
    finally:
        torch.set_warn_always(False)


def test_numbers_of_tracked_tensors_and_missing_windows_are_warned_of(recwarn):
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="float"):
            float(leaf(1.0))
        with pytest.warns(UserWarning, match="window"):
            torch.stft(torch.ones(16), 8, return_complex=True)
        with pytest.warns(UserWarning, match="freedom"):
            torch.ones(0, 1, 2).std((-1, 1))
    finally:
        torch.set_warn_always(False)
    assert float(torch.tensor(2 + 0j)) == 2.0
    with pytest.raises(RuntimeError):
        float(torch.tensor(2 + 1j))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_have_no_inverse(dtype):
    generator = torch.Generator().manual_seed(0)
    for n in (2, 3, 4, 8):
        for value in torch.randn(50, generator=generator, dtype=dtype):
            assert torch.linalg.lu_factor_ex(value.expand(n, n).clone()).info.item() != 0
