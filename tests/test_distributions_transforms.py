"""Transforms of distributions, and the sets that values lie in."""

import math
import pickle

import pytest
from distribution_helpers import T, close, double

import facula as torch
import facula.distributions as D
from facula.distributions import constraints

TRANSFORMS = {
    "exp": T.ExpTransform(),
    "power": T.PowerTransform(double(-0.5)[0]),
    "sigmoid": T.SigmoidTransform(),
    "softplus": T.SoftplusTransform(),
    "tanh": T.TanhTransform(),
    "affine": T.AffineTransform(1.0, double(-2.0, 3.0, 0.5)),
    "affine event": T.AffineTransform(1.0, double(-2.0)[0], event_dim=1),
    "stick breaking": T.StickBreakingTransform(),
    "correlations": T.CorrCholeskyTransform(),
    "composed": T.ComposeTransform([T.AffineTransform(0.5, 2.0), T.TanhTransform(), T.StickBreakingTransform()]),
    "cat": T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]),
    "stack": T.StackTransform([T.ExpTransform(), T.TanhTransform(), T.identity_transform], dim=-1),
    "independent": T.IndependentTransform(T.ExpTransform(), 1),
    "reshape": T.ReshapeTransform((3,), (3, 1)),
    "distribution": T.CumulativeDistributionTransform(D.Normal(double(0.2)[0], double(1.5)[0])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    torch.manual_seed(0)
    transform = TRANSFORMS[name]
    x = torch.randn(3, dtype=torch.float64)
    if name == "power":
        x = x.exp()
    y = transform(x)
    assert transform.bijective and transform.domain.check(x).all()
    if name not in ("cat", "stack"):
        assert transform.codomain.check(y).all()
    assert transform.forward_shape(x.shape) == y.shape and transform.inverse_shape(y.shape) == x.shape
    close(transform.inv(y), x.numpy())
    close(transform.inv.inv(x), y.numpy())
    close(pickle.loads(pickle.dumps(transform))(x), y.numpy())
    # the determinant of the Jacobian; of the simplex and of factors, by their free elements
    free = {"stick breaking": slice(0, 3), "composed": slice(0, 3), "correlations": torch.tensor([3, 6, 7])}.get(name, slice(None))
    jacobian = torch.autograd.functional.jacobian(lambda x: transform(x).flatten()[free], x)
    found = transform.log_abs_det_jacobian(x, y)
    close(found.sum(), torch.linalg.slogdet(jacobian).logabsdet.item())
    close(transform.inv.log_abs_det_jacobian(y, x), -found.numpy())


def test_transform_cache():
    transform = T.TanhTransform(cache_size=1)
    x = torch.tensor([30.0, -40.0])
    y = transform(x)
    assert transform.inv(y) is x and transform(x) is y
    assert T.ComposeTransform([T.TanhTransform()]).with_cache().parts[0]._cache_size == 1
    assert T.ExpTransform() == T.ExpTransform() and T.ExpTransform() != T.TanhTransform() and T.AffineTransform(0, 1) == T.AffineTransform(0, 1)


REGISTERED = [
    constraints.positive, constraints.nonnegative, constraints.greater_than(2.0), constraints.less_than(-1.0),
    constraints.unit_interval, constraints.interval(-2.0, 5.0), constraints.half_open_interval(1.0, 3.0), constraints.real,
    constraints.real_vector, constraints.simplex, constraints.corr_cholesky, constraints.lower_cholesky,
    constraints.positive_definite, constraints.positive_semidefinite, constraints.independent(constraints.positive, 1),
    constraints.stack([constraints.positive, constraints.real, constraints.unit_interval], -1),
    constraints.cat([constraints.positive, constraints.real], -1, [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("constraint", REGISTERED, ids=repr)
def test_registry(constraint):
    torch.manual_seed(0)
    matrices = "Lower" in repr(constraint) or "Positive" in repr(constraint)
    x = torch.randn(4, 3, 3) if matrices else torch.randn(4, 3)
    made = D.transform_to(constraint)(x)
    assert constraint.check(made).all()
    assert D.transform_to(constraint)(D.transform_to(constraint).inv(made)).allclose(made, atol=1e-4)
    if matrices:
        with pytest.raises(NotImplementedError):
            D.biject_to(constraint)
    else:
        assert constraint.check(D.biject_to(constraint)(x)).all() and D.biject_to(constraint).bijective


def test_constraints():
    nan, inf = math.nan, math.inf
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, inf, nan])
    rows = {
        "boolean": "0101000", "nonnegative_integer": "0101100", "positive_integer": "0001100", "real": "1111110",
        "positive": "0011110", "nonnegative": "0111110", "unit_interval": "0111000",
    }  # fmt: skip
    for name, bits in rows.items():
        found = getattr(constraints, name).check(x)
        assert [int(b) for b in bits] == found.int().tolist(), name
    eye = torch.eye(2)
    skew = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    for name, yes, no in (
        ("simplex", [0.3, 0.7], [0.3, 0.6]), ("one_hot", [0.0, 1.0], [1.0, 1.0]), ("lower_triangular", eye, skew),
        ("lower_cholesky", eye, -eye), ("positive_definite", eye, skew), ("positive_semidefinite", eye * 0, skew),
        ("symmetric", skew, torch.tensor([[1.0, 2.0], [0.0, 1.0]])), ("square", eye, torch.ones(2, 3)),
        ("corr_cholesky", eye, 2 * eye),
    ):  # fmt: skip
        constraint = getattr(constraints, name)
        yes, no = torch.as_tensor(yes), torch.as_tensor(no)
        assert constraint.check(yes).item() is True and constraint.check(no).item() is False, name
        assert constraint.event_dim == yes.dim()
    assert constraints.is_dependent(D.Uniform.support) and not constraints.is_dependent(D.Normal.support)
