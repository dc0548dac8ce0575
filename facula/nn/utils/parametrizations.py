"""Define ready-made parametrizations: orthogonal matrices, weight normalization and spectral normalization."""

from __future__ import annotations

import facula
from facula import _C

from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize
from .spectral_norm import matrix_of
from .weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


def _adjoint(matrix):
    return matrix.transpose(-2, -1).conj()


def _is_orthogonal(matrix) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    identity = facula.eye(k, dtype=matrix.dtype, device=matrix.device)
    tolerance = 10.0 * n * facula.finfo(matrix.dtype).eps
    return bool(
        facula.allclose(_adjoint(matrix) @ matrix, identity.expand(*matrix.shape[:-2], k, k), atol=tolerance)
    )


def _make_orthogonal(matrix):
    """Return the orthogonal factor of ``matrix``, of the QR decomposition with a positive diagonal of R."""
    q, r = facula.linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Map a matrix (..., n, k) to one with orthonormal columns, or orthonormal rows where n < k."""

    def __init__(self, weight, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(f"orthogonal: householder parametrization does not support complex tensors, got {weight.dtype}")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        transposed = X.size(-2) < X.size(-1)
        if transposed:
            X = X.transpose(-2, -1)
        Q = self._householder(X) if self.orthogonal_map == "householder" else self._exponential(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.transpose(-2, -1) if transposed else Q

    def _exponential(self, X):
        """Return the exponential or Cayley transform of a skew-symmetric matrix made from the lower triangle."""
        n, k = X.size(-2), X.size(-1)
        X = X.tril()
        if n != k:
            X = facula.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        A = X - _adjoint(X)
        if self.orthogonal_map == "matrix_exp":
            Q = facula.linalg.matrix_exp(A)
        else:
            identity = facula.eye(n, dtype=A.dtype, device=A.device)
            Q = facula.linalg.solve(identity - 0.5 * A, identity + 0.5 * A)
        return Q[..., :k]

    @staticmethod
    def _householder(X):
        """Return the product of reflections whose vectors are the columns below the diagonal; the diagonal holds
        signs.
        """
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        Q = facula.linalg.householder_product(A, tau)
        return Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(
                f"orthogonal: the value must have shape {tuple(self.shape)}, got {tuple(Q.shape)}"
            )
        with facula.no_grad():
            shape_like = Q
            transposed = Q.size(-2) < Q.size(-1)
            if transposed:
                Q = Q.transpose(-2, -1)
            if not hasattr(self, "base"):
                A = self._reflections_of(Q)
                return A.transpose(-2, -1) if transposed else A
            self.base = self._square_orthogonal(Q)
            # Householder reads signs from the diagonal: minus the identity is the source of the identity.
            source = facula.zeros_like(shape_like)
            source.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return source

    def _reflections_of(self, Q):
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "orthogonal: without use_trivialization=True only orthogonal_map 'householder' allows an assignment, got "
                f"{self.orthogonal_map!r}"
            )
        A, tau = facula.geqrf(Q)
        diagonal = A.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        # Where no reflection was needed the sign counts the other way round.
        diagonal[tau == 0.0] *= -1
        return A

    @staticmethod
    def _square_orthogonal(Q):
        """Return ``Q`` itself when it is orthogonal, otherwise made so; completed to a square matrix."""
        n, k = Q.size(-2), Q.size(-1)
        if n == k:
            return Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        rest = facula.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
        return _make_orthogonal(facula.cat([Q, rest], dim=-1))


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix (or a batch of matrices) orthogonal while it is trained; return the module.

    Args:
        module: the module that has the tensor; it is changed in place.
        name: the name of the tensor, (..., n, k): columns are orthonormal, or rows where n < k.
        orthogonal_map: 'matrix_exp', 'cayley' or 'householder'. Default: matrix_exp for square and complex matrices, otherwise
            householder.
        use_trivialization: if True, multiply the map by a fixed orthogonal matrix, so that any orthogonal value can be
            assigned.

    Returns: the module.

    Errors: ValueError for a tensor that does not exist or has fewer than 2 dimensions, or another map.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> bool(torch.allclose(layer.weight @ layer.weight.t(), torch.eye(3), atol=1e-5))
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, facula.Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no such parameter or buffer, got {name!r}")
    if weight.dim() < 2:
        raise ValueError(f"orthogonal: expected a matrix or a batch of them, got {weight.dim()} dimensions")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _ORTHOGONAL_MAPS:
        raise ValueError(
            f"orthogonal: orthogonal_map must be {_C._one_of(orthogonal_map, _ORTHOGONAL_MAPS)}"
        )
    orth = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, orth, unsafe=True)
    return module


class _WeightNorm(Module):
    """Compute weight = g * v / ||v|| with one norm per index of ``dim``; for -1 there is one norm in all."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a parameter into its length and its direction: ``weight = length * direction / norm(direction)``; return the
    module.

    They are ``module.parametrizations.<name>.original0`` and ``original1``. State dicts of `nn.utils.weight_norm` can be
    loaded.

    Args:
        module: the module that has the parameter; it is changed in place.
        name: the name of the parameter.
        dim: lengths are taken per index of this dimension; None: one for the whole tensor.

    Returns: the module.

    Errors: ValueError for a parameter that does not exist.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def load_old_names(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Load entries of the older hook, which are called ``name_g`` and ``name_v``."""
        for i, suffix in enumerate(("_g", "_v")):
            old = prefix + name + suffix
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(load_old_names)
    return module


class _SpectralNorm(Module):
    """Divide a weight by its largest singular value, which power iteration approximates in training mode."""

    def __init__(self, weight, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(f"spectral_norm: dim must be within {ndim} dimensions, got {dim}")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight, self.dim)
            u = matrix.new_empty(matrix.size(0)).normal_(0, 1)
            v = matrix.new_empty(matrix.size(1)).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix, steps: int) -> None:
        # In place: replicas on other devices share the buffers of the original.
        with facula.no_grad():
            for _ in range(steps):
                F.normalize(matrix.mv(self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(_adjoint(matrix).mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, so that the graphs of two forward passes do not share changing buffers.
        u, v = self._u.clone(), self._v.clone()
        return weight / facula.vdot(u, matrix.mv(v))

    def right_inverse(self, value):
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a parameter by its largest singular value, found by power iteration; return the module.

    Args:
        module: the module that has the parameter; it is changed in place.
        name: the name of the parameter.
        n_power_iterations: the number of steps of the power iteration that a use in training mode makes.
        eps: the smallest norm in the steps.
        dim: the dimension of the outputs. Default: 0, and 1 for transposed convolutions.

    Returns: the module.

    Errors: ValueError for a parameter that does not exist, or n_power_iterations that is not positive; IndexError for a dim
    that it does not have.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> round(torch.linalg.matrix_norm(layer.weight, 2).item(), 3)
    1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, facula.Tensor):
        raise ValueError(
            f"spectral_norm: {type(module).__name__} has no such parameter or buffer, got {name!r}"
        )
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
