"""Describe the results of an op in words: with its statement's `returns`, or with what its kind and arguments imply.

Arguments have the names of the schema, in which the first one is `self`.
"""

from __future__ import annotations

from .op import Op


def returned(op: Op) -> str:
    """Return a sentence without a subject, "a tensor of the shape of self."; "" where nothing is known."""
    return op.returned or implied(op)


def implied(op: Op) -> str:
    names = [arg.name for arg in op.args]
    first = next((arg.name for arg in op.args if arg.is_tensor), "")
    if not op.returns or op.name.endswith("_"):
        return f"{first}, which was written to." if op.returns else ""
    several = len(op.returns) > 1
    tensors = {1: "a tensor", 2: "two tensors"}.get(len(op.returns), "tensors")
    if op.elementwise:
        inputs = [arg.name for arg in op.inputs]
        if len(inputs) == 1:
            return f"{tensors} of the shape of {first}."
        return f"{tensors} of the shape that {', '.join(inputs[:-1])} and {inputs[-1]} broadcast to."
    if "inplace" in names:
        return f"a tensor of the shape of {first}; {first} itself where inplace is True."
    if op.kind in ("factory", "random") and "size" in names and not several:
        return "a tensor of shape size."
    if op.name.endswith("_like"):
        return f"a tensor of the shape of {first}."
    if op.kind == "scan" and "dim" in names:
        return f"{tensors} of the shape of {first}."
    if "dim" in names and "keepdim" in names:
        return _reduced(op, tensors, first)
    if op.kind == "reduce" and "dim" not in names and not several:
        return "a 0-d tensor."
    if op.name.endswith("_copy"):
        made = "new tensors" if op.returns == ("Tensor[]",) else "a new tensor"
        return f"{made} of the shape that {op.name.removesuffix('_copy')} gives."
    return ""


def _reduced(op: Op, tensors: str, first: str) -> str:
    dim = next(arg for arg in op.args if arg.name == "dim")
    several = dim.type.startswith("int[]")
    every = {"None": " (all where it is None)", "[]": " (all where it is empty)"}.get(dim.default or "", "")
    which = f"{'the dimensions in dim' if several else 'dimension dim'}{every}, which {'stay' if several or every else 'stays'}"
    return f"{tensors} of the shape of {first} without {which} with size 1 where keepdim is True."
