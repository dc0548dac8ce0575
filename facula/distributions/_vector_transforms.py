"""Transforms of vectors and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import pad, softmax, softplus

from . import constraints
from ._scalar_transforms import SigmoidTransform, TanhTransform
from ._transform import SameKind, Transform, check_shape
from .utils import tril_matrix_to_vec, vec_to_tril_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence


class SoftmaxTransform(SameKind, Transform):
    """Softmax of vectors, which is not bijective; the inverse is the logarithm.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> torch.distributions.SoftmaxTransform()(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _call(self, x):
        return softmax(x, dim=-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(SameKind, Transform):
    """From n numbers to a point of the simplex with n + 1 components: each takes a share of what the others left.

    Component k takes sigmoid(x_k - log(n - k)) of the rest, so that zeros give equal components.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> t = torch.distributions.StickBreakingTransform()
    >>> t(torch.zeros(3)), t.forward_shape((3,))
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), torch.Size([4]))
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x):
        n = x.shape[-1]
        return facula.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        share = SigmoidTransform()._call(x - self._offset(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y):
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=facula.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._offset(taken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (y[..., :-1].log() - softplus(x)).sum(-1)  # share * (1 - share) * what was left, for each

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return facula.Size(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        return facula.Size(shape[:-1]) + (shape[-1] - 1,)


class LowerCholeskyTransform(SameKind, Transform):
    """The lower triangle of a matrix with the exponentials of its diagonal.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> torch.distributions.LowerCholeskyTransform()(torch.tensor([[0.0, 5.0], [2.0, 0.0]]))
    tensor([[1., 0.],
            [2., 1.]])
    """

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(SameKind, Transform):
    """``L @ L.mT`` with L of LowerCholeskyTransform.

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> torch.distributions.PositiveDefiniteTransform()(torch.tensor([[0.0, 5.0], [2.0, 0.0]]))
    tensor([[1., 2.],
            [2., 5.]])
    """

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()._call(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform()._inverse(facula.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From n (n - 1) / 2 numbers to the Cholesky factor of an n x n correlation matrix.

    tanh makes the numbers partial correlations z; row i of the factor is z_ij times what the elements before left of
    the row's length 1, and on the diagonal the rest (Lewandowski, Kurowicka and Joe 2009).

    Args:
        cache_size: 1 keeps the last input and output, see Transform.

    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.corr_cholesky
    bijective = True

    @staticmethod
    def _keep(z):
        """Squared lengths left after each element, of a row of partial correlations."""
        return 1 - z.square()

    def _call(self, x):
        eps = facula.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = self._keep(partial).sqrt().cumprod(-1)
        identity = facula.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + identity) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = 1 - (y * y).cumsum(-1)
        before = pad(left[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        # atanh, of a number that may have been rounded to 1
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # dy_ij/dx_ij = (1 - z_ij^2) * sqrt(what was left before j)
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2).clamp(min=facula.finfo(y.dtype).tiny)
        return 0.5 * left.log().sum(-1) + TanhTransform().log_abs_det_jacobian(x, x).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        check_shape(self, shape, len(shape) >= 1, "at least one dimension")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        check_shape(self, shape, n * (n - 1) // 2 == count, "a last dimension of n (n - 1) / 2 elements")
        return facula.Size(shape[:-1]) + (n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        check_shape(self, shape, len(shape) >= 2 and shape[-1] == shape[-2], "square matrices")
        n = shape[-1]
        return facula.Size(shape[:-2]) + (n * (n - 1) // 2,)
