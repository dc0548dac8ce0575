"""Compute prefixes of an associative function, in steps each of which processes all elements at once."""

import facula
from facula import _C
from facula.functions.control_flow import _leaves
from facula.utils import _pytree

__all__ = ["associative_scan"]


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Return all prefixes `x0`, `f(x0, x1)`, `f(f(x0, x1), x2)` ... of an associative function, with about 2 log2(n) calls of
    it.

    Args:
        combine_fn: takes two elements, each like `xs` without the dimension `dim`, and gives such a one; associative.
        xs: a tensor, or tensors in tuples, lists and dicts, of one length along `dim`.
        dim: the dimension to go along.
        reverse: go from the end to the beginning.
        combine_mode: "pointwise": combine_fn treats every number of the elements alike, and is called with many of them at
            once; "generic": it needs not, and is called under `vmap`.

    Returns: what has the form and the sizes of `xs`.

    Errors: ValueError for other modes; IndexError for a dimension that is not there; RuntimeError for tensors of several
    lengths, and where combine_fn gives something of another form.

    Example:
        >>> facula._higher_order_ops.associative_scan(lambda a, b: a * b, facula.arange(1.0, 5), 0)
        tensor([ 1.,  2.,  6., 24.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be {_C._one_of(combine_mode, ('pointwise', 'generic'))}")
    leaves, spec = _pytree.tree_flatten(xs)
    if all(isinstance(x, facula.Tensor) for x in leaves):
        leaves = [x.movedim(dim, 0) for x in leaves]
    leaves, _ = _leaves("associative_scan", leaves)
    leaves = [x.flip(0) if reverse else x for x in leaves]
    called = facula.vmap(combine_fn) if combine_mode == "generic" else combine_fn

    def combined(left, right):
        made, form = _pytree.tree_flatten(called(_pytree.tree_unflatten(left, spec), _pytree.tree_unflatten(right, spec)))
        shapes = [tuple(x.shape) for x in left]
        if form != spec or [tuple(x.shape) for x in made] != shapes:
            got = [tuple(x.shape)[1:] for x in made if isinstance(x, facula.Tensor)]
            raise RuntimeError(f"associative_scan: combine_fn must give what is like its arguments, got {got} for {spec}")
        return made

    made = [x.flip(0) if reverse else x for x in _prefixes(combined, leaves)]
    return _pytree.tree_unflatten([x.movedim(0, dim) for x in made], spec)


def _prefixes(combined, leaves):
    """Return the prefixes along the first dimension: those of neighbors that were combined are every second one."""
    count = leaves[0].shape[0]
    if count < 2:
        return leaves
    pairs = combined([x[: count - 1 : 2] for x in leaves], [x[1::2] for x in leaves])
    odd = _prefixes(combined, pairs)
    if count == 2:
        even = [x[:1] for x in leaves]
    else:
        before = [x[: (count - 1) // 2] for x in odd]
        even = [facula.cat([x[:1], y]) for x, y in zip(leaves, combined(before, [x[2::2] for x in leaves]))]
    return [_alternating(a, b) for a, b in zip(even, odd)]


def _alternating(even, odd):
    whole = facula.stack([even[: odd.shape[0]], odd], 1).flatten(0, 1)
    return facula.cat([whole, even[odd.shape[0] :]])
