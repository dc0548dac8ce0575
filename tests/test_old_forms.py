"""Calls in forms that old programs use: numbers in front of tensors, numbers to copy, no tensors at all."""

import io

import pytest

import facula as torch


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_a_factor_in_front_of_the_tensors(name):
    x, a, b = torch.ones(3), torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), 2.0)
    want = getattr(torch, name)(x, a, b, value=3)
    with pytest.warns(UserWarning, match=f"^{name}.*value="):
        assert getattr(torch, name)(x, 3, a, b).equal(want)
    with pytest.warns(UserWarning, match=f"^{name}"):
        assert getattr(x, name)(3, a, b).equal(want)
    with pytest.warns(UserWarning, match=f"^{name}_"):
        assert getattr(x, name + "_")(3, a, b) is x
    assert x.equal(want)


def test_factors_of_products():
    m, a, b = torch.eye(2), torch.rand(2, 2), torch.rand(2, 2)
    want = torch.addmm(m, a, b, beta=2, alpha=3)
    with pytest.warns(UserWarning, match="alpha="):
        assert torch.addmm(2, m, 3, a, b).equal(want)
    with pytest.warns(UserWarning, match="alpha="):
        assert m.addmm(2, 3, a, b).equal(want)
    with pytest.warns(UserWarning, match="beta="):
        assert torch.addmv(2, torch.ones(2), a, torch.ones(2)).equal(torch.addmv(torch.ones(2), a, torch.ones(2), beta=2))
    batch = torch.rand(3, 2, 2)
    with pytest.warns(UserWarning, match="^addbmm_"):
        assert m.clone().addbmm_(1, batch, batch).allclose(torch.addbmm(m, batch, batch))
    with pytest.warns(UserWarning, match="^add"):
        assert torch.add(m, 2, a).equal(m + 2 * a)
    with pytest.warns(UserWarning, match="^sub"):
        assert m.sub(2, a).equal(m - 2 * a)
    with pytest.raises(TypeError, match="fit no signature"):
        torch.addmm(2, m, 3, a)


def test_copy_takes_numbers():
    x = torch.zeros(2)
    assert x.copy_(3) is x and x.tolist() == [3, 3]
    assert x.copy_(float("inf")).isinf().all()
    with pytest.raises(TypeError, match="fit no signature"):
        x.copy_("3")


def test_no_tensors():
    assert torch.block_diag().shape == (1, 0) and torch.atleast_1d() == () and torch.atleast_2d() == ()
    with pytest.raises(RuntimeError, match="non-empty TensorList"):
        torch.meshgrid()
    with pytest.raises(TypeError, match="fit no signature"):
        torch.stack()


def test_a_quotient_of_integers():
    x = torch.arange(1, 4)
    for call in (lambda: torch.addcdiv(x, x, x), lambda: torch.addcdiv(x.float(), x, x == 1)):
        with pytest.raises(RuntimeError, match="^addcdiv"):
            call()
    assert torch.addcdiv(x, x.float(), x).tolist() == [2, 3, 4]


def test_classes_that_moved_are_found_under_their_old_names(monkeypatch):
    constraints = torch.distributions.constraints
    constraint = constraints.cat([constraints.positive])
    monkeypatch.setattr(type(constraint), "__module__", "facula.distributions._compound_constraints")
    file = io.BytesIO()
    torch.save(constraint, file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is type(constraint)
