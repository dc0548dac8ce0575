"""What ops do besides giving results: every write and every draw is stated in the schema, and nothing else happens.

Programs, deferred ops and passes believe the table (`written`, `draws` and `may_alias` of its rows), so what it does not state
would be a wrong result somewhere else. The calls are those of tests/fuzz/boxed_seeds.py: samples of the schema, and what their
derivatives call. A new op with a sample is among them.
"""

from __future__ import annotations

import functools
import re
import warnings

import pytest
from fuzz import boxed, preamble

import facula
from facula import _C

#: memory as it was: no two calls have to give the same
UNSET = re.compile(r"(new_)?empty(_like|_strided|_permuted|_quantized|_affine_quantized)?(?=[._])|resize_|_to_dense")


@functools.cache
def calls():
    """{key: [texts of arguments, ...]}, with what bool arguments choose besides."""
    found: dict = {}
    for key, texts, kinds in boxed.made_seeds():
        kept = found.setdefault(key, [])
        kept.append(texts)
        for i, kind in enumerate(kinds[: len(texts)]):
            if kind == "bool":
                kept.append([*texts[:i], str(texts[i] != "True"), *texts[i + 1 :]])
    return found


def arguments(texts):
    names = {name: value for name, value in vars(preamble).items() if not name.startswith("__")}
    return tuple(eval(text, names) for text in texts)


def bits(tensor):
    """The elements of a tensor as bytes, and how they lie."""
    if tensor.layout != facula.strided:
        return bits(tensor.to_dense())
    flat = facula._C._ops.clone(tensor.detach().resolve_conj()).contiguous().reshape(-1)
    return tuple(tensor.shape), str(tensor.dtype), flat.view(facula.uint8).numpy().tobytes() if flat.numel() else b""


def tensors_of(value):
    if isinstance(value, facula.Tensor):
        return [value]
    return [t for item in value for t in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def ran(key, given):
    """The results of a call; None where these arguments are refused."""
    facula.manual_seed(3)
    try:
        with warnings.catch_warnings(action="ignore"):
            return _C._boxed_call(key, given)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        return None


def on_storage(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout == facula.strided and tensor.numel() else None


def differences(key, texts):
    """What a call does that the table does not state."""
    info, given = _C._boxed_op(key), arguments(texts)
    before = [[bits(t) for t in tensors_of(value)] for value in given]
    results = ran(key, given)
    if results is None:
        return
    for (name, _, _, _, written, _), value, bytes_before in zip(info["arguments"], given, before):
        if not written and [bits(t) for t in tensors_of(value)] != bytes_before:
            yield f"writes to {name}"
    if not info["may_alias"]:
        lying = {on_storage(t) for t in tensors_of(given)} - {None}
        if any(on_storage(t) in lying for t in tensors_of(results)):
            yield "gives a result on the memory of an argument"
    if UNSET.match(key):
        return
    again = arguments(texts)
    repeated = ran(key, again)
    if [bits(t) for t in tensors_of(results)] != [bits(t) for t in tensors_of(repeated)]:
        yield "gives another result when it is repeated"
    if [bits(t) for t in tensors_of(given)] != [bits(t) for t in tensors_of(again)]:
        yield "writes something else when it is repeated"


def test_ops_do_what_the_schema_states():
    found = {}
    for key, listed in sorted(calls().items()):
        for texts in listed:
            for what in differences(key, texts):
                found.setdefault(f"{key} {what}", texts)
    assert not found
