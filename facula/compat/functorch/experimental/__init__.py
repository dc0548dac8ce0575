"""Provide the experimental names of functorch."""

from facula._functorch.apis import chunk_vmap
from facula.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
