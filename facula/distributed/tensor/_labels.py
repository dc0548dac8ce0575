"""Label dimensions, and run an op that is described by labels on parts. `_rules.py` opens with what labels are."""

from __future__ import annotations

import facula

from ._dtensor import DTensor
from ._plan import choose
from ._redistribute import redistribute, summed_gradient
from ._spec import Spec
from .placement_types import Partial, Replicate


class _Input:
    """Hold a DTensor, the label of each of its dimensions, and whether it may not be redistributed."""

    def __init__(self, value, labels, stays: bool = False) -> None:
        self.value, self.labels, self.stays = value, labels, stays


def _mesh_of(caller, values):
    meshes = [v.device_mesh for v in values]
    if any(m != meshes[0] for m in meshes):
        raise NotImplementedError(f"{caller}: DTensors must be on one mesh, got {meshes[0]} and {meshes[-1]}")
    return meshes[0]


def _prepared(x, targets, varies):
    """Return the part of this process as the op needs it. Where processes compute with other parts of the other inputs
    (`varies`, for each dimension of the mesh), the gradient of what is whole is the sum of theirs.
    """
    mesh = x.value.device_mesh
    local = redistribute(x.value._local_tensor, x.value._spec, targets)
    for number, target in enumerate(targets):
        # Every process computes a part of the gradient of such an input; the gradient is the sum of these parts.
        if varies[number] and isinstance(target, Replicate) and facula.is_grad_enabled() and local.requires_grad:
            local = summed_gradient(local, mesh.get_group(number))
    return local


def _run(name, inputs, out_labels, compute, reduce=None, passes=()):
    """Run `compute(parts)` on the parts of the inputs, and wrap its result.

    Args:
        reduce: what joins the results where the op is cut along a label that its result lacks. None: it is not cut there.
        passes: the sums that go through it (`_plan`).
    """
    mesh = _mesh_of(name, [x.value for x in inputs])
    joined = Partial(reduce) if isinstance(reduce, str) else reduce
    chosen = [choose(inputs, number, out_labels, joined, passes) for number in range(mesh.ndim)]
    varies = [label is not None or _mixes_sums(targets) for targets, _, label in chosen]
    sizes = {label: n for x in inputs for label, n in zip(x.labels, x.value.shape) if label is not None}
    parts = [_prepared(x, [targets[i] for targets, _, _ in chosen], varies) for i, x in enumerate(inputs)]
    result = compute(parts)
    cuts = [label for _, _, label in chosen]
    shape = [n if label is None or label not in cuts else sizes[label] for label, n in zip(out_labels, result.shape)]
    return DTensor._wrap(result, Spec(mesh, tuple(p for _, p, _ in chosen), facula.Size(shape)))


def _mixes_sums(targets) -> bool:
    return any(isinstance(p, Partial) for p in targets) and any(isinstance(p, Replicate) for p in targets)


def _broadcast_labels(values):
    """Return the labels of dimensions that are aligned from the right; a dimension that is stretched has none in that input."""
    dims = max(len(v.shape) for v in values)
    lengths = [1] * dims
    for v in values:
        for i, n in enumerate(v.shape):
            at = dims - len(v.shape) + i
            lengths[at] = n if lengths[at] == 1 else lengths[at]
    labels = [
        [at if n == lengths[at] else None for at, n in zip(range(dims - len(v.shape), dims), v.shape)] for v in values
    ]
    return labels, list(range(dims))
