"""Convert between values and integers, with one scale and zero point for a tensor or one for every index along a dimension."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class qscheme:  # noqa: N801  (PyTorch's name)
    """Name a way to quantize tensors. The instances are constants such as per_tensor_affine.

    Args:
        name: of the constant; a program does not make others.

    >>> torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8).qscheme()
    torch.per_tensor_affine
    """

    __slots__: qscheme = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"qscheme: constants do not change, got {name}={value!r}")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return named, (self._name,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


qscheme.__module__ = "torch"


def named(name):
    """Return a constant by its name, for pickles."""
    return getattr(facula, name)


per_tensor_affine: qscheme = qscheme("per_tensor_affine")
per_channel_affine: qscheme = qscheme("per_channel_affine")
per_tensor_symmetric: qscheme = qscheme("per_tensor_symmetric")
per_channel_symmetric: qscheme = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams: qscheme = qscheme("per_channel_affine_float_qparams")

#: the dtypes whose levels can be told apart in memory here, with the least and the greatest level
LIMITS = {_C.quint8: (0, 255), _C.qint8: (-128, 127), _C.qint32: (-(2**31), 2**31 - 1)}


def limits(name, dtype):
    """Return the least and the greatest level of a quantized dtype."""
    if dtype in LIMITS:
        return LIMITS[dtype]
    if isinstance(dtype, _C._quantized_dtype):
        raise NotImplementedError(f"{name}: elements of less than a byte are not supported, got {dtype}")
    raise RuntimeError(f"{name}: expected one of torch.quint8, torch.qint8 and torch.qint32, got {dtype}")


def _levels(values, scale, zero_point, dtype):
    """Return the levels of floating-point values; scale and zero_point are tensors that broadcast with them."""
    low, high = LIMITS[dtype]
    if dtype is _C.qint32:  # more levels than float32 has digits for
        level = (values * scale.to(values.dtype).reciprocal()).round_().double().add_(zero_point)
        return level.clamp_(low, high).to(_C.int32)
    if zero_point.is_floating_point():
        return (values * scale.reciprocal() + zero_point).round_().clamp_(low, high).to(dtype._levels)
    return _C._quantize(values, scale, zero_point.to(values.dtype), low, high).to(dtype._levels)


@dataclasses.dataclass(frozen=True)
class PerTensor:
    """Quantize a tensor with one scale and one zero point."""

    dtype: object
    scale: float
    zero_point: int

    qscheme = per_tensor_affine

    def levels(self, values):
        """Return the integers that stand for floating-point values."""
        scale = _C.as_tensor(self.scale, dtype=_C.float32, device=values.device)
        return _levels(values, scale, _C.as_tensor(self.zero_point, dtype=_C.int64, device=values.device), self.dtype)

    def values(self, levels):
        """Return what integers stand for, in float32."""
        if self.dtype is _C.qint32:
            return (levels.double() - self.zero_point).mul_(self.scale).float()
        return (levels.float() - self.zero_point).mul_(self.scale)

    def suffixes(self):
        """Return what printing adds."""
        return [f"scale={self.scale}", f"zero_point={self.zero_point}"]

    def pickled(self):
        """Return what a checkpoint holds."""
        return (self.qscheme, self.scale, self.zero_point)

    def is_like(self, other):
        return self == other


@dataclasses.dataclass(frozen=True, eq=False)
class PerChannel:
    """Quantize a tensor with a scale and a zero point for every index along `axis`; both are tensors."""

    dtype: object
    scales: facula.Tensor
    zero_points: facula.Tensor
    axis: int
    qscheme: qscheme = per_channel_affine

    def _along(self, parameter, dims):
        return parameter.view([-1 if i == self.axis else 1 for i in range(dims)])

    def levels(self, values):
        """Return the integers that stand for floating-point values."""
        scales, zeros = (self._along(x, values.dim()) for x in (self.scales.float(), self.zero_points))
        return _levels(values, scales, zeros, self.dtype)

    def values(self, levels):
        """Return what integers stand for, in float32."""
        scales, zeros = (self._along(x, levels.dim()) for x in (self.scales.float(), self.zero_points))
        return (levels.float() - zeros).mul_(scales)

    def suffixes(self):
        """Return what printing adds."""
        return [f"scale={self.scales}", f"zero_point={self.zero_points}", f"axis={self.axis}"]

    def pickled(self):
        """Return what a checkpoint holds."""
        return (self.qscheme, self.scales, self.zero_points, self.axis)

    def is_like(self, other):
        return (
            isinstance(other, PerChannel)
            and (self.dtype, self.axis, self.qscheme) == (other.dtype, other.axis, other.qscheme)
            and facula.equal(self.scales, other.scales)
            and facula.equal(self.zero_points, other.zero_points)
        )

    def moved(self, axis):
        """Return the same for a tensor whose channels lie along another dimension."""
        return dataclasses.replace(self, axis=axis)

    def at(self, index):
        """Return the scheme of one channel."""
        return PerTensor(self.dtype, float(self.scales[index]), int(self.zero_points[index]))


def scheme_from_file(dtype, levels, given):
    """Return the scheme that a checkpoint names: (scheme, scale, zero point) or (scheme, scales, zero points, axis)."""
    low, high = LIMITS[dtype]
    kinds = (per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric)
    if type(given) is tuple and len(given) == 3 and given[0] in (per_tensor_affine, per_tensor_symmetric):
        _, scale, zero = given
        if isinstance(scale, float) and type(zero) is int and low <= zero <= high:
            return PerTensor(dtype, scale, zero)
    elif type(given) is tuple and len(given) == 4 and given[0] in kinds:
        kind, scales, zeros, axis = given
        tensors = all(isinstance(x, facula.Tensor) and x.dim() == 1 and not x.is_quantized for x in (scales, zeros))
        if type(axis) is int and 0 <= axis < levels.dim() and tensors and len(scales) == len(zeros) == levels.size(axis):
            return PerChannel(dtype, scales, zeros, axis, kind)
    raise RuntimeError(f"load: a quantized tensor has parameters that do not fit it, of type {type(given).__name__}")
