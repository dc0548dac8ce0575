"""Random programs beside PyTorch found these in a second round: forward mode, tracked out=, overlap, missing derivatives, flags, warnings."""

import pytest

import facula as torch
from facula.nn import functional as F

fw = torch.autograd.forward_ad


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


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
    with pytest.raises(RuntimeError, match="^ones: the derivative is not implemented"):
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
    with pytest.raises(RuntimeError, match="derivative"):
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
    assert torch.stft(torch.ones(16), 8, return_complex=True).shape == (5, 9)
    assert float(torch.tensor(2 + 0j)) == 2.0
    with pytest.raises(RuntimeError):
        float(torch.tensor(2 + 1j))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_have_no_inverse(dtype):
    generator = torch.Generator().manual_seed(0)
    for n in (2, 3, 4, 8):
        for value in torch.randn(50, generator=generator, dtype=dtype):
            assert torch.linalg.lu_factor_ex(value.expand(n, n).clone()).info.item() != 0


def test_hooks_on_several_tensors_know_the_nodes_of_their_time():
    x, seen = leaf(1.0), []
    y, z = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook([y, z], seen.append)
    total = y.sum() + z.sum()
    y.detach_()
    total.backward()
    assert [g.tolist() for g in seen[0]] == [[1.0], [1.0]]


def test_gradients_with_a_history_stay_the_same_tensor():
    x = leaf(1.0, 2.0)
    x.reciprocal().sum().backward(create_graph=True)
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.requires_grad and torch.allclose(first.detach(), torch.tensor([1.0, 1.75], dtype=torch.float64))


def test_an_exponent_of_integers_leaves_the_dtype():
    assert torch.ldexp(torch.tensor(1.5, dtype=torch.bfloat16), torch.tensor([3])).dtype == torch.bfloat16
    assert torch.ldexp(torch.tensor(0.5, dtype=torch.float16), torch.tensor(16)).item() == 32768.0


def test_nan_passes_gradients_of_hardtanh_and_counts_nothing_in_nansum():
    x = leaf(float("nan"), 0.0)
    F.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert torch.nansum(torch.tensor([float("nan"), 2.0]), 0, dtype=torch.int64).item() == 2


def test_norms_of_one_number_do_not_overflow():
    assert torch.linalg.vector_norm(torch.tensor([1e30])).item() == torch.dist(torch.tensor(1e30), torch.tensor(0.0)).item() == torch.tensor(1e30).item()


def test_a_shared_number_takes_part_in_the_dtype_of_a_batch():
    shared, batch = torch.tensor(1.0, dtype=torch.float64), torch.ones(2)
    for op in (torch.add, torch.hypot, torch.logaddexp2, torch.maximum):
        assert torch.func.vmap(op, (None, 0))(shared, batch).dtype == torch.float64
        assert torch.func.vmap(op, (None, 0))(shared, batch[:, None]).dtype == torch.float32


def test_views_in_place_keep_their_history_without_recording():
    y = leaf(1.0) * 2
    with torch.no_grad():
        y.squeeze_()
    assert not y.is_leaf and y.requires_grad


def test_an_index_without_positions_goes_with_a_source_of_any_rank():
    x, source = torch.zeros(0, 4, 2, dtype=torch.float64), leaf(3.0).squeeze()
    x.scatter(1, torch.zeros(0, 4, 2, dtype=torch.int64), source).sum().backward()
    (grad,) = torch.autograd.grad(torch.zeros(0, 4, 2, dtype=torch.float64).scatter(1, torch.zeros(0, 4, 2, dtype=torch.int64), source).sum(), source)
    assert grad.shape == () and grad.item() == 0


def test_empty_vectors_joined_in_any_dimension_have_gradients():
    x = torch.zeros(0, requires_grad=True)
    torch.cat([x, x], 3).sum().backward()
    assert x.grad.shape == (0,)
    assert torch.zeros(0, requires_grad=True).median().requires_grad


def test_a_rule_of_the_users_own_takes_part_in_transforms():
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 3

    x = torch.ones(2)
    value, tangent = torch.func.jvp(lambda t: Triple.apply(t) * 2, (x,), (x,))
    assert tangent.tolist() == [6.0, 6.0] and not tangent.requires_grad and value.grad_fn is None
    assert torch.func.jvp(Triple.apply, (x,), (x,))[1].tolist() == [3.0, 3.0]
    hessian = torch.func.hessian(lambda t: (t**3).sum())(x)
    assert hessian.diagonal().tolist() == [6.0, 6.0] and hessian.grad_fn is None and not hessian.requires_grad
