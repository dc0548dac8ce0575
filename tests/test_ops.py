"""Every op of ops/*.yaml, by its samples: values against the reference, and the properties that all ops share."""

from __future__ import annotations

import functools
import importlib
import zlib

import numpy as np
import pytest
from op_samples import all_ops, call, has_samples, samples

import facula

FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16")
TOLERANCE = {"float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128": 1e-10, "float16": 2e-2, "bfloat16": 8e-2}
SCHEMA_NAMES = {"Float16": "float16", "BFloat16": "bfloat16", "Float32": "float32", "Float64": "float64",
                "Complex64": "complex64", "Complex128": "complex128", "Int64": "int64", "Int32": "int32",
                "UInt8": "uint8", "Bool": "bool"}  # fmt: skip
# results that differ from call to call, or hold whatever memory held
UNDETERMINED = ("random", "factory")


def rng_for(op):
    return np.random.default_rng(zlib.crc32(op.id.encode()))


def callable_ops(*kinds):
    return [op for op in all_ops() if (not kinds or op.kind in kinds) and has_samples(op)]


# Second halves of derivatives, which run with the ops that they belong to; a move to a device, the tensor form of ctc_loss and
# products of float8 have tests of their own.
WITHOUT_SAMPLES = """
    _angle_backward _channel_norm_backward _cross_entropy_backward _ctc_backward
    _gelu_tanh_double_backward _mish_double_backward _nll_backward _pow_backward _pow_backward_exponent _row_norm_backward
    _scale_grad _scaled_mm _sgn_backward _sinc_backward _to_device _xlog1py_backward _xlogy_backward ctc_loss_Tensor
""".split()  # fmt: skip


def test_which_ops_have_no_samples():
    """What these tests do not see; sparse tensors have tests and golden cases of their own (test_sparse*.py)."""
    assert sorted(op.id for op in all_ops() if not has_samples(op) and op.topic != "sparse") == WITHOUT_SAMPLES


def tensors(result):
    if isinstance(result, facula.Tensor):
        return [result]
    return [t for item in result for t in tensors(item)] if isinstance(result, (tuple, list)) else []


def array(tensor):
    if tensor.dtype == facula.bfloat16:
        tensor = tensor.float()
    return tensor.detach().resolve_conj().numpy()


def assert_close(actual, expected, dtype):
    bound = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(array(actual), array(expected), rtol=bound, atol=bound, equal_nan=True)


def dtype_of(op, wanted=FLOATS):
    """The first of the dtypes that the op takes."""
    names = [SCHEMA_NAMES[d] for d in op.dtypes if d in SCHEMA_NAMES]
    return next((d for d in wanted if d in names), names[0] if names else "float32")


def undetermined(op):
    draws = op.topic == "random" or "dropout" in op.name or "rrelu" in op.name
    return draws or op.kind in UNDETERMINED or "Generator?" in {a.type for a in op.args} or op.name.startswith(("empty", "new_empty"))


def with_dtypes(ops, wanted):
    """(op, dtype) for each of the wanted dtypes that the op takes."""
    cases = [(op, dtype) for op in ops for dtype in wanted if dtype in [SCHEMA_NAMES.get(d) for d in op.dtypes]]
    return pytest.mark.parametrize(("op", "dtype"), cases, ids=[f"{op.id}-{dtype}" for op, dtype in cases])


@with_dtypes([op for op in all_ops() if op.reference and op.elementwise], FLOATS)
def test_value_against_reference(op, dtype):
    module, _, name = op.reference.rpartition(".")
    reference = getattr(importlib.import_module(module), name)
    bound = TOLERANCE[dtype]
    for args, kwargs in samples(op, dtype, rng_for(op)):
        assert not kwargs, "which the reference would not be given"
        with np.errstate(all="ignore"):
            expected = reference(*(array(a).astype("float64") if isinstance(a, facula.Tensor) else a for a in args))
        result = array(call(op, *args))
        np.testing.assert_allclose(result, np.asarray(expected), rtol=bound, atol=bound)


ABOUT_MEMORY = ("as_strided", "view", "set_", "resize")  # not about values


@pytest.mark.parametrize(
    "op", [op for op in callable_ops() if not undetermined(op) and not op.name.startswith(ABOUT_MEMORY)], ids=lambda op: op.id
)
def test_strided_input_gives_the_same(op):
    dtype = dtype_of(op)
    plain, strided = samples(op, dtype, rng_for(op)), samples(op, dtype, rng_for(op), layout="strided")
    for (args, kwargs), (other_args, other_kwargs) in zip(plain, strided):
        expected, actual = tensors(call(op, *args, **kwargs)), tensors(call(op, *other_args, **other_kwargs))
        for e, a in zip(expected, actual):
            assert e.shape == a.shape and e.dtype == a.dtype
            assert_close(a, e, str(e.dtype).split(".")[1])


@pytest.mark.parametrize("op", [op for op in callable_ops() if op.elementwise], ids=lambda op: op.id)
def test_empty_input(op):
    dtype = dtype_of(op)
    for args, kwargs in samples(op, dtype, rng_for(op), layout="empty"):
        for result in tensors(call(op, *args, **kwargs)):
            assert result.shape == (0, 3)


@with_dtypes([op for op in callable_ops() if op.elementwise], NARROW)
def test_narrow_floats_follow_float32(op, dtype):
    for args, kwargs in samples(op, dtype, rng_for(op)):
        result = call(op, *args, **kwargs)
        wide = call(op, *(a.float() if isinstance(a, facula.Tensor) else a for a in args), **kwargs)
        expected = wide.dtype if op.result in ("bool", "int64") else getattr(facula, dtype)
        assert result.dtype == expected or op.result == "complex"
        assert_close(result.to(wide.dtype), wide, dtype)


@pytest.mark.parametrize("op", [op for op in callable_ops() if "out" in op.variants and not undetermined(op)],
                         ids=lambda op: op.id)  # fmt: skip
def test_out_receives_the_result(op):
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        expected = call(op, *args, **kwargs)
        targets = [facula.empty(0, dtype=t.dtype) for t in tensors(expected)]
        out = targets[0] if isinstance(expected, facula.Tensor) else tuple(targets)
        call(op, *args, **kwargs, out=out)
        for e, a in zip(tensors(expected), targets):
            assert e.shape == a.shape
            assert_close(a, e, str(e.dtype).split(".")[1])


def inplace_form(op):
    """The method, the function name_(), or the function with an argument `inplace`."""
    name = next((n for n in op.names if "." not in n), op.name.lstrip("_"))
    for home in (facula.Tensor, facula, facula.nn.functional):
        if hasattr(home, f"{name}_"):
            return getattr(home, f"{name}_")
    return functools.partial(getattr(facula.nn.functional, name), inplace=True)


@pytest.mark.parametrize("op", [op for op in callable_ops() if "inplace" in op.variants], ids=lambda op: op.id)
def test_inplace_gives_the_same(op):
    dtype = "float64" if op.name == "float_power" else dtype_of(op)  # whose result is never narrower
    for args, kwargs in samples(op, dtype, rng_for(op)):
        target = args[0].clone()
        expected = call(op, *args, **kwargs).to(target.dtype)  # of a comparison: ones and zeros
        version = target._version
        returned = inplace_form(op)(target, *args[1:], **kwargs)
        assert returned is target
        assert op.kind == "view" or target._version > version
        assert target.shape == expected.shape
        assert_close(target, expected, str(expected.dtype).split(".")[1])


def to_meta(value):
    if isinstance(value, (list, tuple)):
        return [to_meta(v) for v in value]
    return value.to("meta") if isinstance(value, facula.Tensor) else value


@pytest.mark.parametrize("op", [op for op in callable_ops() if op.kind in ("unary", "binary", "ternary", "view", "reduce", "scan", "matmul")],
                         ids=lambda op: op.id)  # fmt: skip
def test_meta_knows_shape_and_dtype(op):
    for args, kwargs in samples(op, dtype_of(op), rng_for(op)):
        expected = tensors(call(op, *args, **kwargs))
        moved = [to_meta(a) for a in args]
        actual = tensors(call(op, *moved, **kwargs))
        for e, a in zip(expected, actual):
            assert a.is_meta and a.shape == e.shape and a.dtype == e.dtype


def takes_tensors_of_one_device(op):
    moves = op.name in ("copy", "resize_as_")
    return sum(a.type == "Tensor" for a in op.args) > 1 and op.kind != "composite" and not moves


@pytest.mark.parametrize("op", [op for op in callable_ops() if takes_tensors_of_one_device(op)], ids=lambda op: op.id)
def test_devices_do_not_mix(op):
    """Every tensor argument in turn lies elsewhere: an error that names the devices, or a rule of the op, but no crash."""
    args, kwargs = samples(op, dtype_of(op), rng_for(op))[0]
    places = [i for i, a in enumerate(args) if isinstance(a, facula.Tensor) and a.dim() > 0]  # numbers of any device mix
    assert places
    for i in places:
        mixed = [*args[:i], args[i].to("meta"), *args[i + 1 :]]
        with pytest.raises((RuntimeError, NotImplementedError), match="the same device|meta tensor"):
            call(op, *mixed, **kwargs)


@pytest.mark.parametrize("op", [op for op in callable_ops() if any(a.none_is_default for a in op.args)], ids=lambda op: op.id)
def test_none_stands_for_sizes_that_are_empty_by_default(op):
    args, _ = samples(op, dtype_of(op), rng_for(op))[0]
    given = [a for a in op.args if a.default is None]
    name = next(a.name for a in op.args if a.none_is_default)
    required, place = args[: len(given)], [a.name for a in op.args].index(name)
    expected = tensors(call(op, *required))
    for result in (call(op, *required, **{name: None}), *([call(op, *required, None)] if place == len(given) else [])):
        assert len(tensors(result)) == len(expected)
        assert all(facula.equal(a, e) for a, e in zip(tensors(result), expected))
    with pytest.raises(TypeError, match=r"fit no signature.*NoneType"):  # it is an argument that was given
        call(op, *required, None, **{name: 1})
