"""The shapes that docstrings of ops state (`returns` in ops/*.yaml, codegen/results.py) are those of results."""

import re

import numpy as np
import op_samples
import pytest

import facula

from codegen import results  # noqa: E402  (op_samples makes it known)

TENSORS = r"(?:(?:an?|two) (?:[\w-]+ )?tensors?)"
ALL = r"(?: \(all where it is (?:None|empty)\))?"
REDUCED = rf"{TENSORS} of the shape of (\w+) without (?:the dimensions in dim|dimension dim){ALL}, which stays? with size 1 where keepdim is True"


def read(text, given):
    """The shape of the results by words that this function can read: a tuple, a number of dimensions, or None."""
    text = text.removesuffix(".")
    if match := re.fullmatch(rf"{TENSORS} of the shape of (\w+)", text):
        return tuple(given[match[1]].shape)
    if match := re.fullmatch(rf"{TENSORS} of the shape that ([\w, ]+) broadcast to", text):
        names = re.split(r", | and ", match[1])
        return np.broadcast_shapes(*(np.shape(given[name]) if not isinstance(given.get(name), facula.Tensor) else tuple(given[name].shape)
                                     for name in names if given.get(name) is not None))  # fmt: skip
    if match := re.fullmatch(r"a tensor of shape (size|shape)", text):
        size = given[match[1]]
        return (size,) if isinstance(size, int) else tuple(size) if -1 not in size else len(size)
    if match := re.fullmatch(REDUCED, text):
        return reduced(tuple(given[match[1]].shape), given.get("dim"), given.get("keepdim", False))
    if re.match(r"a vector\b[^;]*$", text):
        return 1
    if re.fullmatch(rf"(?:an?|two) (?:[\w-]+ )?0-d (?:\w+ )?tensors?", text):
        return ()
    return None


def reduced(shape, dim, keepdim):
    dims = range(len(shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    dims = {d % len(shape) for d in dims} if shape else set()
    return tuple(1 if at in dims else size for at, size in enumerate(shape) if keepdim or at not in dims)


def given_by_name(op, args, kwargs):
    names = [arg.name for arg in op.args]
    return dict(zip(names, args)) | {op.args[0].name if name == "input" and name not in names else name: v for name, v in kwargs.items()}


def readable():
    for op in op_samples.all_ops():
        if op.names and op_samples.has_samples(op) and op.returns and set(op.returns) == {"Tensor"} and results.returned(op):
            yield op


def measured(op):
    """What is stated and what comes, for each sample of the op; None where the words are not understood."""
    found = []
    for args, kwargs in op_samples.samples(op, "float64" if "Float64" in op.dtypes else "int64", np.random.default_rng(0)):
        stated = read(results.returned(op), given_by_name(op, args, kwargs))
        if stated is None:
            return []
        made = op_samples.call(op, *args, **kwargs)
        for tensor in made if isinstance(made, tuple) else (made,):
            shape = tuple(tensor.shape)
            found.append((stated, shape if isinstance(stated, tuple) else len(shape)))
    return found


@pytest.mark.parametrize("op", [pytest.param(op, id=op.id) for op in readable()])
def test_results_have_the_stated_shapes(op):
    for stated, made in measured(op):
        assert made == stated, f"{results.returned(op)} {stated}, got {made}"


def test_most_words_are_read():
    every = list(readable())
    read_ones = sum(bool(measured(op)) for op in every)
    assert read_ones > 300, f"{read_ones} of {len(every)}"


def test_what_is_read():
    x = facula.zeros(2, 3)
    assert read("a tensor of the shape of self.", {"self": x}) == (2, 3)
    assert read("a bool tensor of the shape that self and other broadcast to.", {"self": x, "other": facula.zeros(4, 1, 1)}) == (4, 2, 3)
    reduces = "two tensors of the shape of self without dimension dim, which stays with size 1 where keepdim is True."
    assert read(reduces, {"self": x, "dim": -1}) == (2,) and read(reduces, {"self": x, "dim": 1, "keepdim": True}) == (2, 1)
    assert read("a 0-d tensor.", {}) == () and read("a vector of n elements.", {}) == 1 and read("what may be.", {}) is None
