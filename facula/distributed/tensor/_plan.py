"""Choose how an op is sharded on a dimension of the mesh: along one of its labels, not at all, or as terms of a sum.

Of all correct choices, the one is taken that moves the least data, where a message costs a few microseconds and a time
for its bytes; of equal choices, the first. A value that is still to be summed passes through ops that allow it
(`moved`, `linear`, ...), and is summed later, perhaps together with others.
"""

from __future__ import annotations

import math

from .placement_types import Partial, Placement, Replicate, Shard, _NormPartial

# a message takes _START + _HOP for each step of a ring, in µs, and its bytes over _SPEED, in bytes a µs
_START, _HOP, _SPEED = 6.6, 2.7, 19.3e3

_LINEAR = ("sum", "avg")
_WHOLE = Replicate()


def _is_linear(p) -> bool:
    return isinstance(p, Partial) and p.reduce_op in _LINEAR and not isinstance(p, _NormPartial)


def _ring(steps: int, size: int, count: float) -> float:
    return _START + steps * _HOP + count * steps / size / _SPEED


def _cost(now: Placement, to: Placement, size: int, count: float) -> float:
    """Return the time in µs for `count` bytes of each process to go from one placement to another."""
    if now == to or isinstance(now, Replicate):
        return 0.0
    if isinstance(to, Partial):
        return math.inf
    if isinstance(now, Shard):
        return _ring(size - 1, size, count * size) if isinstance(to, Replicate) else _ring(size - 1, size, count) + 1.0
    return _ring(2 * (size - 1), size, count) if isinstance(to, Replicate) else _ring(size - 1, size, count)


# ---- which sums go through; each gives [(placements that inputs must have, that of the result)]


def _first(now):
    return next((p for p in now if isinstance(p, Partial)), None)


def moved(now):
    """Pass parts through ops that only move elements: each process moves its own."""
    p = _first(now)
    return [([p] * len(now), p)] if p is not None and not isinstance(p, _NormPartial) else []


def linear(now):
    """Pass sums through sums of the inputs."""
    p = _first(now)
    return [([p] * len(now), p)] if _is_linear(p) else []


def scaled(now):
    """Pass sums through products, from one of the factors."""
    return [([p if i == k else _WHOLE for k in range(len(now))], p) for i, p in enumerate(now) if _is_linear(p)]


def numerator(now):
    """Pass sums through quotients, from above."""
    return scaled(now)[:1] if _is_linear(now[0]) else []


def growing(now):
    """Pass the greatest or the least on, through functions that never fall."""
    p = now[0]
    return [([p], p)] if isinstance(p, Partial) and p.reduce_op in ("max", "min") else []


def falling(now):
    """Make the greatest the least and the least the greatest, through functions that never rise."""
    other = {"max": "min", "min": "max"}.get(getattr(now[0], "reduce_op", None))
    return [([now[0]], Partial(other))] if other is not None else []


def alike(reduce_op: str):
    """Pass values through the same reduction."""
    wanted = Partial(reduce_op)
    return lambda now: [([wanted], wanted)] if now[0] == wanted else []


# ---- the choice


def _along(inputs, label, out_labels, reduce):
    """Return what it takes to cut along a label."""
    targets = [Shard(x.labels.index(label)) if label in x.labels else _WHOLE for x in inputs]
    return targets, Shard(out_labels.index(label)) if label in out_labels else reduce


def _ways(inputs, now, out_labels, reduce, passes):
    """Yield whole tensors; along a label that some input is cut along; as sums."""
    yield [_WHOLE] * len(inputs), _WHOLE, None
    known = dict.fromkeys([*out_labels, *(label for x in inputs for label in x.labels)])
    cut = {x.labels[p.dim] for x, p in zip(inputs, now) if isinstance(p, Shard)}
    # Labels in a fixed order: all processes must find the same first one of equal choices.
    for label in known:
        if label is not None and label in cut and (reduce is not None or label in out_labels):
            yield *_along(inputs, label, out_labels, reduce), label
    for way in passes:
        for targets, result in way(now):
            yield targets, result, None


def choose(inputs, number: int, out_labels, reduce: Partial | None, passes):
    """Return (placements of the inputs, that of the result, the label or None) on dimension `number` of the mesh."""
    mesh = inputs[0].value.device_mesh
    size, now = mesh.size(number), [x.value.placements[number] for x in inputs]
    if all(isinstance(p, Replicate) for p in now):
        return [_WHOLE] * len(now), _WHOLE, None
    counts = [_bytes(x.value) for x in inputs]
    best, least = None, math.inf
    for way in _ways(inputs, now, out_labels, reduce, passes):
        cost = sum(_cost(p, to, size, n) for p, to, n in zip(now, way[0], counts))
        if any(x.stays and p != to for x, p, to in zip(inputs, now, way[0])):
            continue
        if cost < least:
            best, least = way, cost
        # No other choice can be cheaper.
        if cost == 0.0:
            break
    return best


def _bytes(x) -> int:
    """Return the bytes of this process's part; equal ones for all processes, so that all choose alike."""
    parts = 1
    for number, p in enumerate(x.placements):
        parts *= x.device_mesh.size(number) if isinstance(p, Shard) else 1
    return math.prod(x.shape) * x.element_size() / parts
