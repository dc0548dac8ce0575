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
from op_samples import all_ops

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


#: rows that no call reaches: what runs graphs, what only computes with sizes, and formulas that element-wise loops have inside
WITHOUT_CALLS = re.compile(
    r"(cond|while_loop|map_impl|scan|wrap_with_set_grad_enabled|(sym|int|bool)_\w+|__(and|or|xor)__)\."
    r"|_(pow|xlogy|xlog1py|angle|sinc|sgn|gelu_tanh|mish)(_double)?_backward|_scale_grad"
)


@functools.cache
def in_schema():
    """Rows of the schema's functions, whose results show the first tensor if they show one."""
    return {f"{op.name}.{op.overload or 'default'}" for op in all_ops()}


def arguments(texts):
    names = {name: value for name, value in vars(preamble).items() if not name.startswith("__")}
    return tuple(eval(text, names) for text in texts)


def bits(tensor):
    """The elements of a tensor as bytes, and how they lie."""
    if tensor.layout != facula.strided:
        return bits(tensor.to_dense())
    if tensor.device.type != "cpu":
        return tuple(tensor.shape), str(tensor.dtype), b""
    flat = tensor.detach().resolve_conj().clone().contiguous().reshape(-1)
    return tuple(tensor.shape), str(tensor.dtype), flat.view(facula.uint8).numpy().tobytes() if flat.numel() else b""


def tensors_of(value):
    if isinstance(value, facula.Tensor):
        return [value]
    return [t for item in value for t in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def ran(key, given):
    """The results of a call; None where these arguments are refused."""
    facula.manual_seed(3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _C._boxed_call(key, given)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        return None


@functools.cache
def start():
    """The generator's state at the begin of a call."""
    facula.manual_seed(3)
    return bits(facula.get_rng_state())


def on_storage(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout == facula.strided and tensor.numel() else None


def differences(key, texts):
    """What a call does that the table does not state."""
    info, given = _C._boxed_op(key), arguments(texts)
    before = [[bits(t) for t in tensors_of(value)] for value in given]
    results = ran(key, given)
    if results is None:
        return
    if not info["draws"] and bits(facula.get_rng_state()) != start():
        yield "draws"
    for (name, _, _, _, written, _), value, bytes_before in zip(info["arguments"], given, before):
        if not written and [bits(t) for t in tensors_of(value)] != bytes_before:
            yield f"writes to {name}"
    with_tensors = [tensors_of(value) for value in given if tensors_of(value)]
    first = {on_storage(t) for t in (with_tensors[0] if with_tensors else ())}
    written = {on_storage(t) for a, value in zip(info["arguments"], given) if a[4] for t in tensors_of(value)}
    others = {on_storage(t) for listed in with_tensors[1:] for t in listed} - first - written - {None}
    lying = {on_storage(t) for t in tensors_of(results)} - {None}
    if not info["may_alias"] and lying & first:
        yield "gives a result on the memory of an argument"
    if lying & others and key in in_schema():
        yield "gives a result on the memory of another argument than the first"
    if UNSET.match(key):
        return
    if not any(a[4] for a in info["arguments"]) and [bits(t) for t in tensors_of(ran(key, given))] != [bits(t) for t in tensors_of(results)]:
        yield "gives another result of the same tensors"
    again = arguments(texts)
    repeated = ran(key, again)
    if [bits(t) for t in tensors_of(results)] != [bits(t) for t in tensors_of(repeated)]:
        yield "gives another result when it is repeated"
    if [bits(t) for t in tensors_of(given)] != [bits(t) for t in tensors_of(again)]:
        yield "writes something else when it is repeated"


def test_nearly_every_row_has_a_call():
    assert [key for key in _C._boxed_keys() if key not in calls() and not WITHOUT_CALLS.match(key)] == []


def test_ops_do_what_the_schema_states():
    found = {}
    for key, listed in sorted(calls().items()):
        for texts in listed:
            for what in differences(key, texts):
                found.setdefault(f"{key} {what}", texts)
    assert not found


MANY = 70_001
#: sums to which several threads may come
SUMS = {
    "index_add": lambda x, at: facula.zeros(97).index_add(0, at, x),
    "index_add of rows": lambda x, at: facula.zeros(97, 3).index_add(0, at, x[:, None].expand(-1, 3)),
    "scatter_add": lambda x, at: facula.zeros(97).scatter_add(0, at, x),
    "scatter_reduce": lambda x, at: facula.zeros(97).scatter_reduce(0, at, x, "mean"),
    "index_put": lambda x, at: facula.zeros(97).index_put((at,), x, accumulate=True),
    "bincount": lambda x, at: facula.bincount(at, x),
    "histogram": lambda x, at: facula.histogram(x, 31)[0],
    "embedding": lambda x, at: facula._C._boxed_call(
        "embedding_dense_backward.default", (x[:, None].expand(-1, 2), at, 97, -1, False)
    )[0],
    "sum": lambda x, at: x.sum(),
    "sum of columns": lambda x, at: x[: 97 * 700].reshape(700, 97).sum(0),
    "cumsum": lambda x, at: x.cumsum(0),
    "logsumexp": lambda x, at: x.logsumexp(0),
    "norm": lambda x, at: x.norm(),
    "var": lambda x, at: x.var(),
    "mm": lambda x, at: x[:70000].reshape(100, 700) @ x[:70000].reshape(700, 100),
    "conv_transpose1d": lambda x, at: facula.nn.functional.conv_transpose1d(x[None, None, :4001], facula.ones(1, 8, 5)),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("threads", [1, 4])
def test_sums_by_several_threads_are_the_same_every_time(name, threads):
    x, at = preamble.x(MANY), preamble.k(MANY, below=97)
    before = facula.get_num_threads()
    facula.set_num_threads(threads)
    try:
        first = bits(SUMS[name](x, at))
        assert all(bits(SUMS[name](x, at)) == first for _ in range(5))
    finally:
        facula.set_num_threads(before)
