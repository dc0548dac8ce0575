"""Define function transforms: derivatives and batching of functions from tensors to tensors, freely nested."""

from __future__ import annotations

from ._batching import vmap
from ._functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ._jacobians import hessian, jacfwd, jacrev
from ._rearrange import rearrange
from ._transforms import functionalize, grad, grad_and_value, jvp, linearize, vjp
from ._vmap import debug_unwrap

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
    "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
