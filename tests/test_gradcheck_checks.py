"""What gradcheck notices and what it lets pass: each check by a derivative that fails it alone."""

from __future__ import annotations

import pytest

import facula
from facula.autograd import Function, gradcheck, gradgradcheck

GradcheckError = __import__("sys").modules["facula.autograd.gradcheck"].GradcheckError


def leaf(*shape, dtype=facula.float64):
    return facula.rand(*shape, dtype=dtype, requires_grad=True)


def hooked(change):
    """The identity, whose backward changes the gradient."""

    def function(x):
        y = x.clone()
        y.register_hook(change)
        return y

    return function


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_right_derivatives_pass(fast, dtype):
    options = {"fast_mode": fast, "check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda x: (x * x, x.abs(), x[0]), leaf(3, 2, dtype=dtype), **options)
    assert gradgradcheck(lambda x: (x * x).abs(), leaf(3, dtype=dtype), fast_mode=fast, check_fwd_over_rev=True)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("change", [lambda g: g * 1.01, lambda g: g.flip(0), lambda g: -g])
def test_wrong_derivatives_do_not(fast, change):
    with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 0"):
        gradcheck(hooked(change), leaf(3), fast_mode=fast)
    assert not gradcheck(hooked(change), leaf(3), fast_mode=fast, raise_exception=False)


def test_fast_mode_calls_the_function_a_fixed_number_of_times():
    calls = []

    def function(x):
        calls.append(None)
        return x.sin()

    gradcheck(function, leaf(200), fast_mode=True)
    fast = len(calls)
    calls.clear()
    gradcheck(function, leaf(200))
    assert fast < 10 and len(calls) > 400


class Jittering(Function):
    """The identity, whose backward is never the same twice."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * (1 + facula.rand_like(g) * 1e-9)


def test_backward_has_to_give_the_same_twice():
    with pytest.raises(GradcheckError, match="the same gradient each time"):
        gradcheck(Jittering.apply, leaf(3))
    assert gradcheck(Jittering.apply, leaf(3), nondet_tol=1e-6)


def test_backward_has_to_multiply_by_its_cotangents():
    with pytest.raises(GradcheckError, match="backward must multiply"):
        gradcheck(hooked(lambda g: g + 1e-2), leaf(2), atol=0.1)


class Two(Function):
    """Two outputs, of which either may have no gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        given = [factor * g for factor, g in ((2, first), (3, second)) if g is not None]
        return sum(given[1:], given[0]) if given else None


def test_outputs_without_gradient():
    assert gradcheck(Two.apply, leaf(2)) and gradcheck(Two.apply, leaf(2), fast_mode=True)


class WrongForwards(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, t):
        return t * 3


class WrongBackwards(WrongForwards):
    @staticmethod
    def backward(ctx, g):
        return g * 3

    @staticmethod
    def jvp(ctx, t):
        return t * 2


def test_the_modes_are_checked_apart():
    assert gradcheck(WrongForwards.apply, leaf(2))
    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(WrongForwards.apply, leaf(2), check_forward_ad=True)
    assert gradcheck(WrongBackwards.apply, leaf(2), check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_sparse_inputs(fast, masked):
    for layout in (facula.sparse_coo, facula.sparse_csr):
        x = facula.rand(3, 4, dtype=facula.float64).to_sparse(layout=layout).requires_grad_()
        assert gradcheck(lambda x: x.to_dense(masked_grad=masked).sin(), x, fast_mode=fast, masked=masked)
    with pytest.raises(ValueError, match="outputs must be dense"):
        gradcheck(lambda x: x * 2, facula.eye(2, dtype=facula.float64).to_sparse().requires_grad_())


def test_what_is_no_difference_is_raised_even_so():
    with pytest.raises(AssertionError, match="same shape when inputs are perturbed"):
        gradcheck(lambda x: facula.cat([x, x]) if bool((x >= 1).all()) else x, facula.ones(1, dtype=facula.float64).requires_grad_())
    with pytest.raises(ValueError, match="some input must be a tensor"):
        gradcheck(lambda x: x, facula.ones(1), raise_exception=False)
    with pytest.raises(RuntimeError, match="no such thing"):
        gradcheck(raising, leaf(1), raise_exception=False)


def raising(x):
    raise RuntimeError("no such thing")


def test_functions_of_old_programs():
    module = __import__("sys").modules["facula.autograd.gradcheck"]
    a, b = leaf(2), leaf(2)
    with pytest.warns(FutureWarning, match="use gradcheck"):
        both = module.get_numerical_jacobian(lambda inputs: 2 * inputs[0] + inputs[1], (a, b))
    assert [m.round().tolist() for m in both] == [[[2, 0], [0, 2]], [[1, 0], [0, 1]]]
    with pytest.warns(FutureWarning):
        matrices, same, shapes, dtypes = module.get_analytical_jacobian((a, b), 2 * a + b)
    assert [m.tolist() for m in matrices] == [[[2, 0], [0, 2]], [[1, 0], [0, 1]]] and same and shapes and dtypes
    with pytest.warns(FutureWarning):
        assert not module.get_analytical_jacobian((a,), Jittering.apply(a))[1]
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="grad_out"):
        module.get_analytical_jacobian((a,), a * 1, grad_out=2.0)
