"""Provide PyTorch's second package, `functorch`: older names of `facula.func`."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

import facula.func
from facula.func._make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from facula.fx.experimental.proxy_tensor import make_fx
from facula.version import __version__

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "__version__", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "make_fx", "vjp",
    "vmap",
]  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _older(name: str, new_name: str) -> Callable[..., Any]:
    """Return the function of `facula.func`, with a warning that tells its present name."""
    function = getattr(facula.func, name)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        text = f"functorch.{name}: the functions of functorch are deprecated. Please use `{new_name}`"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return called


vmap = _older("vmap", "torch.vmap")
functionalize = _older("functionalize", "torch.func.functionalize")
grad = _older("grad", "torch.func.grad")
grad_and_value = _older("grad_and_value", "torch.func.grad_and_value")
hessian = _older("hessian", "torch.func.hessian")
jacfwd = _older("jacfwd", "torch.func.jacfwd")
jacrev = _older("jacrev", "torch.func.jacrev")
jvp = _older("jvp", "torch.func.jvp")
vjp = _older("vjp", "torch.func.vjp")
