"""Rules of changes of shape."""

from __future__ import annotations

import facula

from ._labels import _Input, _run
from ._plan import moved
from ._spec import Spec
from .placement_types import Shard


def _transpose(func, args, kwargs):
    x = args[0]
    dims = list(range(x.dim()))
    if func.__name__ in ("t", "adjoint"):
        order = dims[::-1]
    elif func.__name__ == "permute":
        given = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
        order = [d % x.dim() for d in (given or kwargs["dims"])]
    else:
        a, b = (args[1:] if len(args) == 3 else (kwargs["dim0"], kwargs["dim1"]))
        order = dims
        order[a], order[b] = order[b], order[a]
    compute = lambda parts: parts[0].permute(order)  # noqa: E731
    return _run(func.__name__, [_Input(x, list(range(x.dim())))], order, compute, None, (moved,))


def _unsqueeze(func, args, kwargs):
    x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    labels = list(range(x.dim()))
    out = labels.copy()
    out.insert(dim % (x.dim() + 1), None)
    return _run("unsqueeze", [_Input(x, labels)], out, lambda parts: parts[0].unsqueeze(dim), None, (moved,))


def _view(func, args, kwargs):
    """Cut dimensions stay cut where they are the first of those that are joined or split, and lengths allow it."""
    x = args[0]
    if func.__name__ == "view" and len(args) == 2 and isinstance(args[1], facula.dtype):
        return NotImplemented
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    wanted = tuple(shape or kwargs.get("shape", kwargs.get("size")))
    shape = list(facula.empty(tuple(x.shape), device="meta").reshape(wanted).shape)
    labels, out = _joined(list(x.shape), shape, x)
    cut = dict(enumerate(shape))

    def compute(parts):
        local = list(shape)
        for i, label in enumerate(out):
            if label is not None:
                local[i] = parts[0].shape[labels.index(label)] * cut[i] // x.shape[labels.index(label)]
        return parts[0].reshape(local)

    result = _run("reshape", [_Input(x, labels)], out, compute, None, (moved,))
    result._spec = Spec(result._spec.mesh, result._spec.placements, facula.Size(shape))
    return result


def _joined(before, after, x):
    """Labels for a change of shape: the first dimensions of each group of dimensions with one product."""
    labels, out = [None] * len(before), [None] * len(after)
    i = j = 0
    while i < len(before) and j < len(after):
        first, second, a, b = i, j, before[i], after[j]
        while a != b:
            if a < b:
                i += 1
                if i == len(before):
                    return labels, out
                a *= before[i]
            else:
                j += 1
                if j == len(after):
                    return labels, out
                b *= after[j]
        parts = 1
        for number, p in enumerate(x.placements):
            if isinstance(p, Shard) and p.dim == first:
                parts *= x.device_mesh.size(number)
        if before[first] % parts == 0 and after[second] % parts == 0:
            labels[first], out[second] = f"group{first}", f"group{first}"
        i, j = i + 1, j + 1
    return labels, out
