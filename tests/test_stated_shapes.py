"""The shapes that docstrings of ops state (`returns` in ops/*.yaml, codegen/results.py) are those of results."""

import re

import numpy as np
import op_samples
import pytest

import facula
from codegen import results  # beside the package; op_samples makes it known

TENSORS = r"(?:an?|two) (?:[\w-]+ )?tensors?"
ALL = r"(?: \(all where it is (?:None|empty)\))?"
SAME = re.compile(rf"{TENSORS} of the shape of (\w+)")
BROADCAST = re.compile(rf"{TENSORS} of the shape that ([\w, ]+) broadcast to")
SIZE = re.compile(r"a tensor of shape (size|shape)")
REDUCED = re.compile(rf"{TENSORS} of the shape of (\w+) without (?:the dimensions in dim|dimension dim){ALL}, which stays? with size 1 "
                     r"where keepdim is True")  # fmt: skip
NUMBER = re.compile(r"(?:an?|two) (?:[\w-]+ )?0-d (?:\w+ )?tensors?")
VECTOR = re.compile(r"a vector of ([^;]*?)(?: elements?)?(?:,[^;]*)?")
SYMBOLS = re.compile(r"((?:(?:a|two) (?:\w+ )?tensors?|\w+) of shape \([^;]*?) for ([^;]*?)(?:, with k = min\(n, m\))?")
SHAPE = r"\(((?:[^()]|\([^()]*\))*)\)"


def understood(text):
    text = text.removesuffix(".")
    if match := SYMBOLS.fullmatch(text):
        shapes = " ".join(re.findall(SHAPE, match[1]))
        known = {"k", "min", *re.findall(r"\w+", match[2])}
        return set(re.findall(r"\w+", shapes)) <= known and not re.search(r"\*|\w \w", shapes) and not re.search(r"\b(or|for|else)\b", text.replace(" for ", "", 1))
    return any(words.fullmatch(text) for words in (SAME, BROADCAST, SIZE, REDUCED, NUMBER, VECTOR))


def stated(text, given):
    """The shapes of the results by the words, as tuples; of a vector the number of dimensions."""
    text = text.removesuffix(".")
    if match := SAME.fullmatch(text):
        return [tuple(given[match[1]].shape)]
    if match := BROADCAST.fullmatch(text):
        named = [given.get(name) for name in re.split(r", | and ", match[1])]
        return [np.broadcast_shapes(*(tuple(one.shape) if isinstance(one, facula.Tensor) else () for one in named))]
    if match := SIZE.fullmatch(text):
        size = given[match[1]]
        return [(size,) if isinstance(size, int) else len(size) if -1 in size else tuple(size)]
    if match := REDUCED.fullmatch(text):
        return [reduced(tuple(given[match[1]].shape), given.get("dim"), given.get("keepdim", False))]
    if NUMBER.fullmatch(text):
        return [()]
    if VECTOR.fullmatch(text):
        return [1]
    match = SYMBOLS.fullmatch(text)
    return by_symbols(match[1], match[2], given)


def by_symbols(results_words, inputs_words, given):
    """The shapes of results (n, p) for arguments (n, m) and (m, p)."""
    known = {"min": min, "abs": abs, **{name: value for name, value in given.items() if isinstance(value, int)}}
    tensors = [value for value in given.values() if isinstance(value, facula.Tensor)]
    named = [given[name] for name in re.findall(r"(\w+) of shape", inputs_words) if name in given]
    for words, tensor in zip(re.findall(SHAPE, inputs_words), named or tensors, strict=False):
        shape = tuple(tensor.shape)
        symbols = [word.strip() for word in words.split(",") if word.strip()]
        if symbols[0] == "...":
            front = len(shape) - len(symbols) + 1
            batch, shape, symbols = shape[:front], shape[front:], symbols[1:]
            known["batch"] = np.broadcast_shapes(known.get("batch", ()), batch)
        for symbol, size in zip(symbols, shape, strict=True):
            assert known.setdefault(symbol, size) == size or size == 1, f"{symbol} is {known[symbol]} and {size}"
    if {"m", "n"} <= known.keys():
        known.setdefault("k", min(known["m"], known["n"]))
    made = []
    for words in re.findall(rf"of shape {SHAPE}", results_words):
        parts = [word.strip() for word in re.split(r",(?![^(]*\))", words) if word.strip()]
        made.append(tuple(size for part in parts for size in (known["batch"] if part == "..." else (eval(part, known),))))
    return made


def reduced(shape, dim, keepdim):
    dims = range(len(shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    dims = {d % len(shape) for d in dims} if shape else set()
    return tuple(1 if at in dims else size for at, size in enumerate(shape) if keepdim or at not in dims)


def given_by_name(op, args, kwargs):
    names = [arg.name for arg in op.args]
    defaults = {arg.name: int(arg.default) for arg in op.args if arg.name == "dim" and re.fullmatch(r"-?\d+", arg.default or "")}
    return defaults | dict(zip(names, args)) | {op.args[0].name if name == "input" and name not in names else name: v for name, v in kwargs.items()}


OPS = [op for op in op_samples.all_ops() if op_samples.has_samples(op) and set(op.returns) == {"Tensor"} and understood(results.returned(op))]


def compared(op):
    """Pairs of the shape that is stated and the one that comes, for each sample."""
    dtype = next((dtype for word, dtype in (("Float64", "float64"), ("Complex128", "complex128")) if word in op.dtypes), "int64")
    for args, kwargs in op_samples.samples(op, dtype, np.random.default_rng(0)):
        words = stated(results.returned(op), given_by_name(op, args, kwargs))
        made = op_samples.call(op, *args, **kwargs)
        made = [tuple(tensor.shape) for tensor in (made if isinstance(made, tuple) else (made,))]
        for shape, said in zip(made, words * len(made) if len(words) == 1 else words, strict=bool(words)):
            yield said, shape if isinstance(said, tuple) else len(shape)


@pytest.mark.filterwarnings("ignore")  # of ops that are deprecated
@pytest.mark.parametrize("op", [pytest.param(op, id=op.id) for op in OPS])
def test_results_have_the_stated_shapes(op):
    for said, made in compared(op):
        assert made == said, results.returned(op)


@pytest.mark.filterwarnings("ignore")
def test_most_words_are_read():
    assert len(OPS) > 420 and sum(any(True for _ in compared(op)) for op in OPS) > 400


def test_what_is_read():
    x = facula.zeros(2, 3)
    assert stated("a tensor of the shape of self.", {"self": x}) == [(2, 3)]
    assert stated("a bool tensor of the shape that self and other broadcast to.", {"self": x, "other": facula.zeros(4, 1, 1)}) == [(4, 2, 3)]
    reduces = "two tensors of the shape of self without dimension dim, which stays with size 1 where keepdim is True."
    assert stated(reduces, {"self": x, "dim": -1}) == [(2,)] and stated(reduces, {"self": x, "dim": 1, "keepdim": True}) == [(2, 1)]
    assert stated("a 0-d tensor.", {}) == [()] and stated("a vector of n elements.", {}) == [1] and not understood("what may be.")
    product = "a tensor of shape (..., n, p) for matrices (..., n, m) and (..., m, p)."
    assert stated(product, {"self": x, "other": facula.zeros(5, 3, 4)}) == [(5, 2, 4)]
    with pytest.raises(AssertionError, match="m is 3 and 4"):
        stated(product, {"self": x, "other": facula.zeros(4, 3)})
