"""Indexing functions with an option that the op does not have, and `embedding_renorm_`."""

from __future__ import annotations

from facula import _C
from facula.autograd.grad_mode import no_grad


def nonzero(input, *, out=None, as_tuple=False):
    """The positions of the elements of `input` that are not zero.

    An int64 tensor of shape (count, input.dim()), or with `as_tuple` one tensor of shape (count,) per dimension, which
    is what indexing takes: ``x[x.nonzero(as_tuple=True)]``. A 0-d tensor counts as one of a single element then.
    """
    if not as_tuple:
        return _C.nonzero(input, out=out)
    if out is not None:
        raise TypeError(f"nonzero: out= goes with as_tuple=False only, got out of type {type(out).__name__}")
    return _C.nonzero(input if input.dim() else input.unsqueeze(0)).unbind(1)


_C._install_methods({"nonzero": nonzero})


def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scales the rows of `input` that `indices` names down to a norm of at most `max_norm`, in place."""
    if _C._recording():
        arguments = (input, indices, float(max_norm), float(norm_type))
        return _C._record_op("embedding_renorm_.default", arguments, lambda: _renorm_(*arguments), ())
    return _renorm_(input, indices, max_norm, norm_type)


def _renorm_(input, indices, max_norm, norm_type):
    with no_grad():
        rows = indices.reshape(-1).unique()
        values = input.index_select(0, rows)
        norms = _C.linalg.vector_norm(values, norm_type, [1], True)
        factors = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
        input.index_copy_(0, rows, values * factors)
    return input
