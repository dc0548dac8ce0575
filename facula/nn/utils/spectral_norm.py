"""Apply spectral normalization by a forward pre-hook: weight / its largest singular value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter

if TYPE_CHECKING:
    from typing import Any, TypeVar

    _M = TypeVar("_M", bound=Module)

    from facula import Tensor

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "spectral_norm",
    "remove_spectral_norm",
]


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """Return ``weight`` as a matrix whose rows are the entries of dimension ``dim``."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.size(0), -1)


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, steps: int, eps: float) -> None:
    """Improve ``u`` and ``v``, in place, as first left and right singular vectors of ``matrix``."""
    with facula.no_grad():
        for _ in range(steps):
            F.normalize(matrix.t().conj().mv(u), dim=0, eps=eps, out=v)
            F.normalize(matrix.mv(v), dim=0, eps=eps, out=u)


class SpectralNorm:
    """Compute ``name`` from ``name_orig`` before every call of a module: the hook of `spectral_norm`.

    The vectors of the power iteration are the buffers ``name_u`` and ``name_v``.

    Args:
        name: the name of the parameter.
        n_power_iterations: the number of steps of the power iteration that a call in training mode makes.
        dim: the dimension of the outputs.
        eps: the smallest norm in the steps.

    Errors: ValueError for n_power_iterations that is not positive.

    >>> from torch.nn.utils.spectral_norm import SpectralNorm
    >>> layer = nn.Linear(3, 2)
    >>> hook = SpectralNorm.apply(layer, "weight", n_power_iterations=5, dim=0, eps=1e-12)
    >>> hook.reshape_weight_to_matrix(layer.weight_orig).shape
    torch.Size([2, 3])
    >>> hook.compute_weight(layer, do_power_iteration=True).shape
    torch.Size([2, 3])
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    >>> hook.remove(layer)
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """

    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix whose rows are the entries of ``dim``.

        Args:
            weight: of two dimensions or more.
        """
        return matrix_of(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the normalized weight.

        Args:
            module: has the original weight and the buffers.
            do_power_iteration: if True, improve the buffers first.
        """
        weight = getattr(module, self.name + "_orig")
        u = getattr(module, self.name + "_u")
        v = getattr(module, self.name + "_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            power_iteration(matrix, u, v, self.n_power_iterations, self.eps)
            # Copies, so that the graphs of two forward passes do not share changing buffers.
            u, v = u.clone(), v.clone()
        return weight / facula.dot(u, matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again, with its present value; the hook itself stays registered, see
        `remove_spectral_norm`.

        Args:
            module: that of `apply`.
        """
        with facula.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        delattr(module, self.name + "_u")
        delattr(module, self.name + "_v")
        delattr(module, self.name + "_orig")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix, u, target_sigma):
        """Return v with ``u = normalize(W v)`` and ``u W v = sigma``: old files have no v."""
        gram = matrix.t().mm(matrix)
        v = facula.linalg.multi_dot([gram.pinverse(), matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / facula.dot(u, matrix.mv(v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Move a parameter to ``name_orig``, register the hooks, and return the one that computes it.

        Args:
            module: has the parameter.
            name: the name of the parameter.
            n_power_iterations: the number of steps of the power iteration that a call in training mode makes.
            dim: the dimension of the outputs.
            eps: the smallest norm in the steps.

        Errors: RuntimeError for a parameter that has such a hook already; ValueError for one that is None.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"spectral_norm: the parameter already has one, got {name!r}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm: the parameter is None, got {name!r}")
        with facula.no_grad():
            rows, cols = matrix_of(weight, dim).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(cols).normal_(0, 1), dim=0, eps=eps)
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        # A plain attribute until the first call, so that code that looks at the weight finds one.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Complete entries of the oldest format, which have no ``name_v``: a hook for loading.

    Args:
        fn: the `SpectralNorm` of the parameter.

    >>> from torch.nn.utils.spectral_norm import SpectralNorm, SpectralNormLoadStateDictPreHook
    >>> SpectralNormLoadStateDictPreHook(SpectralNorm("weight")).fn.name
    'weight'
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
                 unexpected_keys: list[str], error_msgs: list[str]) -> None:  # fmt: skip
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        key = prefix + fn.name
        if version is not None and version >= 1:
            return
        complete = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if complete and key not in state_dict:
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with facula.no_grad():
            original = state_dict[key + "_orig"]
            normalized = state_dict.pop(key)
            sigma = (original / normalized).mean()
            state_dict[key + "_v"] = fn._solve_v_and_rescale(
                fn.reshape_weight_to_matrix(original), state_dict[key + "_u"], sigma
            )


class SpectralNormStateDictHook:
    """Write the version of the format into the metadata: a hook for saving.

    Args:
        fn: the `SpectralNorm` of the parameter.

    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> layer.state_dict()._metadata[""]["spectral_norm"]
    {'weight.version': 1}
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"spectral_norm: the metadata already has a version, got {key!r}")
        versions[key] = self.fn._version


def spectral_norm(
    module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> _M:
    """Divide a parameter by its largest singular value, found by power iteration; return the module.

    A hook computes it before every call. `nn.utils.parametrizations.spectral_norm` does the same with a parametrization.

    Args:
        module: the module that has the parameter; it is changed in place.
        name: the name of the parameter.
        n_power_iterations: the number of steps of the power iteration that a call in training mode makes.
        eps: the smallest norm in the steps.
        dim: the dimension of the outputs. Default: 0, and 1 for transposed convolutions.

    Returns: the module.

    Errors: ValueError for n_power_iterations that is not positive, or a parameter that is None; RuntimeError for a second time.

    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=20)
    >>> _ = layer(torch.zeros(3))
    >>> round(torch.linalg.matrix_norm(layer.weight, 2).item(), 4)
    1.0
    """
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`: the present value becomes the parameter.

    Args:
        module: the module, which is changed in place.
        name: the name of the parameter.

    Returns: the module.

    Errors: ValueError for a parameter that is not normalized.

    >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2)))
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(
            f"remove_spectral_norm: {type(module).__name__} has no such normalization, got {name!r}"
        )
    for hooks, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            hook = getattr(hook, "hook", hook)
            if isinstance(hook, kind) and hook.fn.name == name:
                del hooks[key]
                break
    return module
