"""Provide transforms of functions: Jacobians, products with them, and the removal of writes."""

from facula.func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from facula.func._transforms import _argnums

__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


def _slice_argnums(args, argnums, as_tuple=True):
    # The arguments that a transform differentiates, in the order in which argnums names them.
    chosen = tuple(args[n] for n in _argnums(args, argnums, "argnums"))
    return chosen if as_tuple or isinstance(argnums, tuple) else chosen[0]
