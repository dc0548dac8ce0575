"""Compare results and make inputs in tests: `assert_close`, `make_tensor`."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = ["assert_allclose", "assert_close", "make_tensor"]


# dtype: (rtol, atol); integers and bool compare exactly.
_TOLERANCES = {
    facula.float16: (1e-3, 1e-5),
    facula.bfloat16: (1.6e-2, 1e-5),
    facula.float32: (1.3e-6, 1e-5),
    facula.float64: (1e-7, 1e-7),
    facula.complex64: (1.3e-6, 1e-5),
    facula.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPE = {bool: facula.bool, int: facula.int64, float: facula.float64, complex: facula.complex128}


# ---- `assert_close`: two results agree, up to a tolerance that follows from their dtype.
#
# Policy: structures (sequences, mappings) are walked first, attributes (shape, device, dtype) are compared before values,
# and the first disagreement is reported with its place in the structure.


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raise AssertionError unless ``abs(actual - expected) <= atol + rtol * abs(expected)`` everywhere.

    The first disagreement is reported with its place. Without tolerances those of the wider dtype hold, rtol and atol:
    1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16;
    integers are compared exactly.

    Args:
        actual: a tensor, NumPy array, number or None, or a sequence or mapping of these.
        expected: the same structure.
        allow_subclasses: whether tensors of different classes may be compared.
        rtol: the tolerance relative to `expected`; given together with `atol` or not at all.
        atol: the absolute tolerance.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must be the same.
        check_dtype: whether dtypes must be the same; without, values are compared in the dtype that both promote to.
        check_layout: whether layouts must be the same.
        check_stride: whether strides must be the same.
        msg: the text of the error instead of the report, or a function from the report to the text.

    Errors: AssertionError where they differ; ValueError where only one tolerance is given; TypeError for what
    cannot be compared.

    >>> torch.testing.assert_close(torch.tensor([1., 2.]), torch.tensor([1., 2.000001]))
    >>> torch.testing.assert_close({"x": 3}, {"x": 4}, msg="they differ")
    Traceback (most recent call last):
        ...
    AssertionError: they differ
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: rtol and atol are given together or not at all, got rtol={rtol}, atol={atol}")
    wanted = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    comparison = _Comparison(rtol, atol, equal_nan, allow_subclasses, wanted)
    try:
        comparison.values(actual, expected, ())
    except _Mismatch as mismatch:
        report = str(mismatch)
        text = msg(report) if callable(msg) else report if msg is None else msg
        raise AssertionError(text) from None


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
                    msg: str = "") -> None:  # fmt: skip
    """Compare as the older form of assert_close, which takes anything that makes a tensor, and does not compare dtypes and
    devices.

    Args:
        actual: a tensor, or what torch.tensor takes.
        expected: the same.
        rtol: the tolerance relative to `expected`; given together with `atol`, or None for that of the dtype.
        atol: the absolute tolerance.
        equal_nan: whether NaN equals NaN.
        msg: the text of the error; empty for the report.

    Errors: those of assert_close.

    >>> torch.testing.assert_allclose([1.0, float("nan")], torch.tensor([1.0, float("nan")], dtype=torch.float64))
    """
    tensors = [v if isinstance(v, facula.Tensor) else facula.tensor(v) for v in (actual, expected)]
    tolerance = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    assert_close(*tensors, **tolerance, check_device=False, check_dtype=False, msg=msg or None)


class _Mismatch(Exception):
    pass


_INDICES = {
    "sparse_coo": ("indices",),
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


class _Comparison:
    def __init__(self, rtol, atol, equal_nan, allow_subclasses, attributes):
        self.rtol, self.atol, self.equal_nan, self.allow_subclasses = rtol, atol, equal_nan, allow_subclasses
        self.attributes = attributes

    def values(self, actual, expected, place):
        if actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual!r} is not {expected!r}", place)
        elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
            self.number(actual, expected, place)
        elif _is_array(actual) and _is_array(expected):
            self.tensors(actual, expected, place)
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self.mappings(actual, expected, place)
        elif _is_sequence(actual) and _is_sequence(expected):
            self.sequences(actual, expected, place)
        else:
            raise TypeError(f"assert_close: no way to compare {type(actual)} with {type(expected)}{_at(place)}")

    def mappings(self, actual, expected, place):
        missing, extra = [k for k in expected if k not in actual], [k for k in actual if k not in expected]
        if missing or extra:
            self.fail(f"The mappings have different keys: {missing} missing, {extra} additional", place)
        for key in actual:
            self.values(actual[key], expected[key], (*place, key))

    def sequences(self, actual, expected, place):
        if len(actual) != len(expected):
            self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for i, (a, e) in enumerate(zip(actual, expected)):
            self.values(a, e, (*place, i))

    def number(self, actual, expected, place):
        kinds = [next((k for k in _NUMBER_DTYPE if isinstance(v, k)), None) for v in (actual, expected)]
        if None in kinds:
            raise TypeError(f"assert_close: no way to compare {type(actual)} with {type(expected)}{_at(place)}")
        if self.attributes["dtype"] and kinds[0] is not kinds[1]:
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
        dtypes = [_NUMBER_DTYPE[k] for k in kinds]
        pair = [facula.tensor(v, dtype=d) for v, d in zip((actual, expected), dtypes)]
        self.elements(*pair, place, f"Expected {expected!r} but got {actual!r}.")

    def tensors(self, actual, expected, place):
        if not self.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(f"assert_close: subclasses are not allowed, got {type(actual)} and {type(expected)}{_at(place)}")
        if not (isinstance(actual, type(expected)) or isinstance(expected, type(actual))):
            raise TypeError(f"assert_close: no way to compare {type(actual)} with {type(expected)}{_at(place)}")
        actual, expected = (v if isinstance(v, facula.Tensor) else facula.as_tensor(v) for v in (actual, expected))
        self.attribute("shape", actual.shape, expected.shape, True, place)
        for name in ("layout", "device", "dtype"):
            self.attribute(name, getattr(actual, name), getattr(expected, name), self.attributes[name], place)
        actual, expected = actual.detach(), expected.detach()
        if actual.layout is not expected.layout:
            actual, expected = (v if v.layout is facula.strided else v.to_dense() for v in (actual, expected))
        if actual.layout is not facula.strided:
            return self.sparse(actual, expected, place)
        self.attribute("stride()", actual.stride(), expected.stride(), self.attributes["stride"], place)
        self.elements(actual, expected, place, None)

    def sparse(self, actual, expected, place):
        """Check that places are the same and values close."""
        kind = str(actual.layout).removeprefix("torch.")
        if actual._nnz() != expected._nnz():
            counts = f"{actual._nnz()} != {expected._nnz()}"
            self.fail(f"The number of specified values in {kind} tensors does not match: {counts}", place)
        for name in _INDICES[kind]:
            a, e = (getattr(v, f"_{name}" if kind == "sparse_coo" else name)() for v in (actual, expected))
            if a.shape != e.shape or not bool((a == e).all()):
                self.fail(f"The {name} of {kind} tensors do not match: {a.tolist()} != {e.tolist()}", place)
        a, e = (v._values() if kind == "sparse_coo" else v.values() for v in (actual, expected))
        self.elements(a, e, place, None)

    def attribute(self, name, actual, expected, wanted, place):
        if wanted and actual != expected:
            self.fail(f"The values for attribute '{name}' do not match: {actual} != {expected}.", place)

    def elements(self, actual, expected, place, headline):
        rtol, atol = self.tolerance(actual.dtype, expected.dtype)
        wide = facula.promote_types(actual.dtype, expected.dtype)
        if wide is facula.bool:
            wide = facula.int64
        a, e = actual.to(wide), expected.to(wide)
        close = facula.isclose(a, e, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if close.all():
            return
        exact = rtol == 0 and atol == 0
        kind = "Scalars" if headline else "Tensor-likes"
        lines = [f"{kind} are not {'equal' if exact else 'close'}!", ""]
        lines += [headline] if headline else [_count(close)]
        lines += _differences(a, e, close, (atol, rtol), exact, headline is not None)
        self.fail("\n".join(lines), place)

    def tolerance(self, *dtypes):
        if self.rtol is not None:
            return self.rtol, self.atol
        return tuple(map(max, zip(*(_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes))))

    def fail(self, text, place):
        raise _Mismatch(f"assert_close: {text}{_at(place)}")


def _count(close):
    wrong, total = int((~close).sum()), close.numel()
    return f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"


def _differences(actual, expected, close, allowed, exact, scalar):
    absolute = (actual - expected).abs().to(facula.float64)
    size = expected.abs().to(facula.float64)
    relative = facula.where((absolute == 0) & (size == 0), 0.0, absolute / size)
    lines = []
    for name, values, limit in zip(("absolute", "relative"), (absolute, relative), allowed):
        tail = "" if exact else f" (up to {limit:g} allowed)"
        if scalar:
            lines.append(f"{name.capitalize()} difference: {values.item():g}{tail}")
            continue
        worst = values.masked_fill(close, -1.0).nan_to_num(math.inf).flatten().argmax().item()
        index = tuple(int(i) for i in facula.unravel_index(facula.tensor(worst), values.shape)) if values.dim() else ()
        lines.append(f"Greatest {name} difference: {values.flatten()[worst].item():g} at index {index}{tail}")
    return lines


def _at(place):
    return f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in place)}" if place else ""


def _is_array(value):
    return isinstance(value, facula.Tensor) or (hasattr(value, "__array__") and hasattr(value, "dtype"))


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, str)


# ---- `make_tensor`: random inputs for tests, of any dtype


def make_tensor(
    *shape: Sequence[int] | int,
    dtype: facula.dtype,
    device: Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: facula.memory_format | None = None,
) -> Tensor:
    """Return a tensor for a test, with uniform values in [low, high).

    Args:
        shape: sizes, one by one or as one sequence.
        dtype: the dtype, any.
        device: the device, such as "cpu".
        low: the lower bound; None for -9, for unsigned integers and bool 0.
        high: the upper bound; None for 9 for floating and complex dtypes, 10 for integers, 2 for bool. Both bounds are
            clipped to what the dtype holds.
        requires_grad: whether autograd records what is done with it.
        noncontiguous: whether it is every second element of a longer last dimension.
        exclude_zero: whether zeros become the dtype's smallest positive number.
        memory_format: the order of the elements in memory; not together with `noncontiguous`.

    Errors: ValueError for low >= high (a FutureWarning where both are one number of a floating or complex dtype), for NaN,
    for bounds that the dtype does not hold, for requires_grad of integers, and for noncontiguous with a memory_format.

    >>> x = torch.testing.make_tensor(2, 3, dtype=torch.int32, device="cpu", low=0, high=5)
    >>> x.shape, x.dtype, bool(((x >= 0) & (x < 5)).all())
    (torch.Size([2, 3]), torch.int32, True)
    """
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        (shape,) = shape
    shape = tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"make_tensor: `noncontiguous` and `memory_format` are mutually exclusive, got both, {memory_format}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"make_tensor: only floating and complex tensors require gradients, got {dtype}")
    low, high = _interval(dtype, low, high)
    wide = shape if not (noncontiguous and shape) else (*shape[:-1], 2 * shape[-1])
    result = _draw(wide, dtype, device, low, high)
    if wide != shape:
        result = result[..., ::2]
    if exclude_zero:
        result[result == 0] = facula.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    return result.requires_grad_(requires_grad) if requires_grad else result


def _interval(dtype, low, high):
    if dtype is facula.bool:
        least, most, defaults = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        info = facula.finfo(dtype)
        least, most, defaults = info.min, info.max, (-9, 9)
    else:
        info = facula.iinfo(dtype)
        least, most, defaults = info.min, info.max + 1, (-9, 10) if info.min < 0 else (0, 10)
    low, high = (d if v is None else v for v, d in zip((low, high), defaults))
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"make_tensor: `low` and `high` cannot be NaN, got low={low}, high={high}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        text = f"make_tensor: low below high; that both are {low} is an old form of torch.full"
        warnings.warn(text, FutureWarning, stacklevel=3)
    elif not low < high:
        raise ValueError(f"make_tensor: `low` must be less than `high`, got low={low}, high={high}")
    if high < least or low > most or (low == most and not dtype.is_floating_point and not dtype.is_complex):
        raise ValueError(f"make_tensor: {dtype} holds numbers from {least} to {most}, got low={low}, high={high}")
    return max(low, least), min(high, most)


def _draw(shape, dtype, device, low, high):
    if low == high:
        return facula.full(shape, complex(low, low) if dtype.is_complex else low, dtype=dtype, device=device)
    if dtype.is_complex:
        part = facula.float64 if dtype is facula.complex128 else facula.float32
        real, imag = (facula.empty(shape, dtype=part, device=device).uniform_(low, high) for _ in range(2))
        return facula.complex(real, imag).to(dtype)
    if dtype.is_floating_point:
        wide = dtype if dtype in (facula.float32, facula.float64) else facula.float32
        return facula.empty(shape, dtype=wide, device=device).uniform_(low, high).to(dtype)
    return facula.randint(math.ceil(low), math.ceil(high), shape, device=device).to(dtype)
