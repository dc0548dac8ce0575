"""Reorder, join and split axes by a pattern in the notation of einops: `rearrange`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

EVERY = ("...",)
_WORDS = re.compile(r"\(|\)|\.\.\.|[A-Za-z_]\w*|\d+|\S")


def _side(text, pattern):
    """Return [[names of an axis]], "..." among them; any number of axes, a "..." outside of brackets, are EVERY."""
    found: list[Any] = []
    group = None
    for word in _WORDS.findall(text):
        if word == "(":
            if group is not None:
                raise ValueError(f"rearrange: brackets are one level deep, got {pattern!r}")
            group = []
        elif word == ")":
            if group is None:
                raise ValueError(f"rearrange: brackets are not balanced in {pattern!r}")
            found.append(group)
            group = None
        elif word == "1" or word == "..." or word.isidentifier():
            names = [] if word == "1" else EVERY if word == "..." and group is None else [word]
            found.append(names) if group is None else group.extend(names)
        else:
            raise ValueError(f"rearrange: expected names, brackets, ... or 1, got {word!r} in {pattern!r}")
    if group is not None:
        raise ValueError(f"rearrange: brackets are not balanced in {pattern!r}")
    names = [name for axis in found for name in axis]
    if len(names) != len(set(names)):
        raise ValueError(f"rearrange: names stand once on each side, got {pattern!r}")
    return found


def _lengths(axis, size, known, pattern):
    """Return the lengths of the names of one axis, of which one may be unknown."""
    product, unknown = 1, [name for name in axis if name not in known]
    for name in axis:
        product *= known.get(name, 1)
    if len(unknown) > 1 or (size % product if unknown and product else size != product):
        raise ValueError(f"rearrange: an axis of {size} cannot be taken apart as {axis} with {known} in {pattern!r}")
    if unknown:
        known[unknown[0]] = size // product if product else 0
    return [known[name] for name in axis]


def rearrange(tensor: Tensor, pattern: Any, **axes_lengths: Any) -> Tensor:
    """Return the tensor with its axes in another order, some put together or taken apart.

    Args:
        tensor: a tensor, or a list of tensors of one shape, which are stacked first.
        pattern: names of the axes before and after, "b c h w -> b (h w) c"; brackets hold axes that are one; "..." stands for
            any others, 1 or () for an axis of length 1.
        axes_lengths: lengths of names, as far as needed.

    Errors: ValueError for a pattern that is malformed or does not fit.

    Example::

        >>> torch.func.rearrange(torch.arange(6), "(a b) -> b a", a=2)
        tensor([[0, 3],
                [1, 4],
                [2, 5]])
    """
    if not isinstance(tensor, facula.Tensor):
        tensor = facula.stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: a pattern has one ->, got {pattern!r}")
    left, right = (_side(side, pattern) for side in sides)
    if any("..." in axis and axis is not EVERY for axis in left):
        raise ValueError(f"rearrange: ... is not taken apart, got {pattern!r}")
    if any("..." in axis for axis in right) and EVERY not in left:
        raise ValueError(f"rearrange: ... must stand on both sides, got it on the right of {pattern!r} only")
    named = [{name for axis in side for name in axis} for side in (left, right)]
    if named[0] != named[1]:
        only = (named[0] ^ named[1]) - {"..."} or {"..."}
        raise ValueError(f"rearrange: each name must stand on both sides of the pattern, got {only} on one")
    extra = tensor.dim() - sum(axis is not EVERY for axis in left)
    if extra < 0 or extra and EVERY not in left:
        raise ValueError(f"rearrange: {pattern!r} has {len(left)} axes on its left, got a tensor of {tensor.dim()}")
    unused = axes_lengths.keys() - named[0]
    if unused:
        raise ValueError(f"rearrange: lengths of names that are not in {pattern!r}, got {sorted(unused)}")
    others = [f"...{i}" for i in range(extra)]
    left, right = ([part for axis in side for part in _spread(axis, others)] for side in (left, right))
    known, shape = dict(axes_lengths), list(tensor.shape)
    sizes = [length for axis, size in zip(left, shape, strict=True) for length in _lengths(axis, size, known, pattern)]
    names = [name for axis in left for name in axis]
    apart = tensor.reshape(sizes).permute([names.index(name) for axis in right for name in axis])
    result = []
    for axis in right:
        length = 1
        for name in axis:
            length *= known[name]
        result.append(length)
    return apart.reshape(result)


def _spread(axis, others):
    """Return an axis with "..." as what that stands for; outside of brackets it is as many axes."""
    if axis is EVERY:
        return [[name] for name in others]
    return [[part for name in axis for part in (others if name == "..." else [name])]]
