"""Indexing functions whose result depends on a Python flag."""

from __future__ import annotations

from . import _C


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
