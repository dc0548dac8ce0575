"""Define arithmetic of tensors as modules, so that observers can follow it: a sum of quantized tensors has a scale of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn

from .utils import OutputLevels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


def _add_relu(x, y):
    return facula.relu(facula.add(x, y))


class FloatFunctional(nn.Module):
    """Compute in floating point, observed; `convert` replaces this module by `QFunctional`.

    Example::

        >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(2), torch.ones(2))
        tensor([2., 2.])
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process: Module = nn.Identity()

    def forward(self, x: Tensor) -> Any:
        """Raise RuntimeError: there is no forward; call the functions."""
        raise RuntimeError(
            f"{type(self).__name__}: FloatFunctional is not intended to use the 'forward', call its functions, "
            f"got {type(x).__name__}"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x + y``, observed.

        Args:
            x, y: tensors that broadcast.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().add(x, x)
        tensor([2., 4.])
        """
        return self.activation_post_process(facula.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return ``x + y`` for a number, not observed.

        Args:
            x: a tensor.
            y: a number.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().add_scalar(x, 3)
        tensor([4., 5.])
        """
        return facula.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Any:
        """Return ``x * y``, observed.

        Args:
            x, y: tensors that broadcast.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().mul(x, x)
        tensor([1., 4.])
        """
        return self.activation_post_process(facula.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return ``x * y`` for a number, not observed.

        Args:
            x: a tensor.
            y: a number.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().mul_scalar(x, 3)
        tensor([3., 6.])
        """
        return facula.mul(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Any:
        """Return the tensors joined along a dimension, observed.

        Args:
            x: a list of tensors.
            dim: the dimension.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().cat([x, x])
        tensor([1., 2., 1., 2.])
        """
        return self.activation_post_process(facula.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Any:
        """Return ``max(x + y, 0)``, observed.

        Args:
            x, y: tensors that broadcast.

        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.ao.nn.quantized.FloatFunctional().add_relu(x, x)
        tensor([2., 4.])
        """
        return self.activation_post_process(_add_relu(x, y))

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """Return the matrix product, observed.

        Args:
            x, y: tensors as for `torch.matmul`.

        >>> x = torch.ones(2, 2)
        >>> torch.ao.nn.quantized.FloatFunctional().matmul(x, x)
        tensor([[2., 2.],
                [2., 2.]])
        """
        return self.activation_post_process(facula.matmul(x, y))


class FXFloatFunctional(FloatFunctional):
    """Compute as `FloatFunctional` without observers, for networks that are traced.

    >>> torch.ao.nn.quantized.FXFloatFunctional().add(torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self):
        super().__init__()
        del self.activation_post_process

    def __getattr__(self, name: str) -> Any:
        if name == "activation_post_process":
            return lambda x: x
        return super().__getattr__(name)


class QFunctional(OutputLevels, nn.Module):
    """Compute with quantized tensors. Attributes: `scale` and `zero_point` of the results.

    Example::

        >>> x = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().add(x, x).dequantize()
        tensor([2., 2.])
    """

    scale: float
    zero_point: int

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process: Module = nn.Identity()

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Tensor) -> Any:
        """Raise RuntimeError: there is no forward; call the functions."""
        raise RuntimeError(
            f"QFunctional: Functional is not intended to use the 'forward', call its functions, got {type(x).__name__}"
        )

    def _made(self, function, *values):
        for x in values:
            if not isinstance(x, facula.Tensor) or not x.is_quantized:
                kind = x.dtype if isinstance(x, facula.Tensor) else type(x).__name__
                raise RuntimeError(f"QFunctional: expected quantized tensors, got {kind}")
        result = function(*(x.dequantize() for x in values))
        return self.activation_post_process(
            facula.quantize_per_tensor(result, self.scale, self.zero_point, values[0].dtype)
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x + y``, on the levels of this module.

        Args:
            x, y: quantized tensors that broadcast.

        Errors: RuntimeError for tensors that are not quantized.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().add(x, x).dequantize()
        tensor([2., 4.])
        """
        return self._made(facula.add, x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return ``x + y`` for a number; the result has the levels of x, moved or scaled.

        Args:
            x: a quantized tensor.
            y: a number.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().add_scalar(x, 3).dequantize()
        tensor([4.0471, 5.0588])
        """
        return _shifted(x, float(y))

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x * y``, on the levels of this module.

        Args:
            x, y: quantized tensors that broadcast.

        Errors: RuntimeError for tensors that are not quantized.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().mul(x, x).dequantize()
        tensor([1., 4.])
        """
        return self._made(facula.mul, x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return ``x * y`` for a number; the result has the levels of x, moved or scaled.

        Args:
            x: a quantized tensor.
            y: a number.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().mul_scalar(x, 3).dequantize()
        tensor([3., 6.])
        """
        return _scaled(x, float(y))

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Return the tensors joined along a dimension, on the levels of this module.

        Args:
            x: a list of quantized tensors.
            dim: the dimension.

        Errors: RuntimeError for tensors that are not quantized.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().cat([x, x]).dequantize()
        tensor([1., 2., 1., 2.])
        """
        return self._made(lambda *parts: facula.cat(parts, dim=dim), *x)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``max(x + y, 0)``, on the levels of this module.

        Args:
            x, y: quantized tensors that broadcast.

        Errors: RuntimeError for tensors that are not quantized.

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().add_relu(x, x).dequantize()
        tensor([2., 4.])
        """
        return self._made(_add_relu, x, y)

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """Return the matrix product, on the levels of this module.

        Args:
            x, y: quantized tensors as for `torch.matmul`.

        Errors: RuntimeError for tensors that are not quantized.

        >>> x = torch.quantize_per_tensor(torch.ones(2, 2), 1.0, 0, torch.quint8)
        >>> torch.ao.nn.quantized.QFunctional().matmul(x, x).dequantize()
        tensor([[2., 2.],
                [2., 2.]])
        """
        return self._made(facula.matmul, x, y)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed `FloatFunctional`; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its results.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for other modules.

        >>> functions = torch.ao.nn.quantized.FloatFunctional()
        >>> functions.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = functions.add(torch.ones(2), torch.ones(2))
        >>> torch.ao.nn.quantized.QFunctional.from_float(functions)
        QFunctional(
          scale=0.015748031437397003, zero_point=0
          (activation_post_process): Identity()
        )
        """
        if type(mod) is not FloatFunctional:
            raise AssertionError(f"QFunctional.from_float: expected a FloatFunctional, got {type(mod).__name__}")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made


def _limits(x):
    from facula._tensor.quantized.schemes import limits

    return limits("QFunctional", x.dtype)


def _shifted(x, number):
    """Return x + number without a new scale: the level of zero moves as far as it can, and the scale takes the rest."""
    low, high = _limits(x)
    scale, zero = x.q_scale(), x.q_zero_point()
    level = round(number / scale)
    if low > zero - level:
        new_scale = (high - zero + level) / (high - low) * scale
        return facula.quantize_per_tensor(x.dequantize() + level * scale, new_scale, low, x.dtype)
    if zero - level > high:
        new_scale = (zero - level - low) / (high - low) * scale
        return facula.quantize_per_tensor(x.dequantize() + level * scale, new_scale, high, x.dtype)
    return _as(x, scale, zero - level)


def _scaled(x, number):
    low, high = _limits(x)
    if number > 0:
        return _as(x, x.q_scale() * number, x.q_zero_point())
    if number == 0:
        return _as(x, 1.0, 0, zeros=True)
    turned = low + high - x.int_repr().to(facula.int32)
    return _as(x, x.q_scale() * -number, low + high - x.q_zero_point(), turned)


def _as(x, scale, zero_point, levels=None, zeros=False):
    """Return the levels of x, or others, with another meaning."""
    from facula._tensor.quantized.schemes import PerTensor
    from facula._tensor.quantized.tensor import wrap

    kept = x.int_repr() if levels is None else levels.to(x.dtype._levels)
    return wrap(kept.zero_() if zeros else kept, PerTensor(x.dtype, scale, zero_point))
