"""Control flow on values, as functions that a tracer would see: `cond`, `while_loop`."""

from __future__ import annotations


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) where `pred` (a bool, or a tensor of one element) holds, else false_fn(*operands)."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(f"cond: two callables, got {type(true_fn).__name__} and {type(false_fn).__name__}")
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Repeats ``carried = body_fn(*carried)`` as long as cond_fn(*carried) holds; the last values, as a tuple."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return carried
