"""Define finfo and iinfo, the limits of number types."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from facula import _C

if TYPE_CHECKING:
    import facula

# mantissa bits, smallest normal exponent, largest value, decimal digits that always survive
_FLOATS = {
    "float64": (52, -1022, (2 - 2.0**-52) * 2.0**1023, 15),
    "float32": (23, -126, (2 - 2.0**-23) * 2.0**127, 6),
    "float16": (10, -14, 65504.0, 3),
    "bfloat16": (7, -126, (2 - 2.0**-7) * 2.0**127, 2),
    "float8_e4m3fn": (3, -6, 448.0, 0),
    "float8_e5m2": (2, -14, 57344.0, 0),
    "float8_e4m3fnuz": (3, -7, 240.0, 0),
    "float8_e5m2fnuz": (3, -15, 57344.0, 0),
}


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _checked(owner, dtype):
    if dtype in (float, int, bool, complex):
        dtype = {float: _C.float64, int: _C.int64, bool: _C.bool, complex: _C.complex128}[dtype]
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"{owner}: type is a dtype, got {type(dtype).__name__}")
    return dtype


class _Limits:
    __slots__ = ("bits", "dtype", "max", "min")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.dtype == other.dtype


class finfo(_Limits):
    """Describe the limits of a floating-point dtype, or of the real part of a complex one; the default is the default
    dtype.

    Args:
        type: the dtype.

    Attributes: ``bits``, the size of a number; ``eps``, the step from 1 upwards; ``max`` and ``min``, the largest finite number
    and its negative; ``tiny`` = ``smallest_normal``, the smallest positive number of full precision; ``resolution``, a power of
    ten that decimal digits keep; ``dtype``, the dtype's name.

    Errors: TypeError for integers, bool, and what is no dtype.

    >>> torch.finfo(torch.bfloat16).eps
    0.0078125
    >>> torch.finfo(torch.float16).max
    65504.0
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")
    __module__ = "torch"
    smallest_normal: float
    tiny: float
    max: float

    def __init__(self, type: facula.dtype | None = None) -> None:
        dtype = _C.get_default_dtype() if type is None else _checked("finfo", type)
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"finfo: a floating-point dtype is expected (use iinfo), got {dtype}")
        real = dtype.to_real()
        self.dtype: str = _name(real)
        mantissa, exponent, self.max, digits = _FLOATS[self.dtype]
        self.bits: int = 8 * real.itemsize
        self.eps: float = 2.0**-mantissa
        self.min: float = -self.max
        self.tiny = self.smallest_normal = 2.0**exponent
        self.resolution: float = float(f"1e-{digits}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Describe the limits of an integer dtype.

    Args:
        type: the dtype.

    Attributes: ``bits``, the size of a number; ``min`` and ``max``, the smallest and the largest; ``dtype``, the dtype's name.

    Errors: TypeError for floating-point and complex dtypes, bool, and what is no dtype.

    >>> torch.iinfo(torch.int8)
    iinfo(min=-128, max=127, dtype=int8)
    >>> torch.iinfo(torch.int64).max
    9223372036854775807
    """

    __slots__ = ()
    __module__ = "torch"

    def __init__(self, type: facula.dtype) -> None:
        dtype = _checked("iinfo", type)
        if dtype.is_floating_point or dtype.is_complex or dtype is _C.bool:
            raise TypeError(f"iinfo: an integer dtype is expected (use finfo for floating-point ones), got {dtype}")
        self.dtype: str = _name(dtype)
        self.bits: int = 8 * dtype.itemsize
        self.min: int = -(1 << (self.bits - 1)) if dtype.is_signed else 0
        self.max: int = (1 << (self.bits - dtype.is_signed)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
