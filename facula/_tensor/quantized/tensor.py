"""Define QuantizedTensor, a subclass of Tensor.

A quantized tensor *is* the tensor of its levels (as a `NestedTensor` is that of its rows) and shows values: its dtype is
qint8, quint8 or qint32, functions are rules (`rules`) on levels, and what has no rule raises NotImplementedError.
"""

from __future__ import annotations

import facula
from facula import _C
from facula._tensor.printing import _contents, _wrap_suffixes

from .schemes import PerChannel, PerTensor


class QuantizedTensor(facula.Tensor):
    """Hold integers together with the scheme that maps them to values. `quantize_per_tensor`, `quantize_per_channel`
    and others make it.
    """

    _scheme: PerTensor | PerChannel
    _rows: tuple | None = None  # what products of a weight keep (ao/nn/quantized/_products.py, weight_rows)
    _row_sums: tuple = (None, None)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return QuantizedTensor._call_by_rule(func, args, kwargs or {})

    def int_repr(self):
        """Return a copy of the levels, of dtype uint8, int8 or int32."""
        return levels_of(self).clone()

    def dequantize(self):
        """Return the values, float32."""
        return self._scheme.values(levels_of(self))

    def qscheme(self):
        """Return per_tensor_affine, or how else levels are laid out."""
        return self._scheme.qscheme

    def _one(self, name):
        if not isinstance(self._scheme, PerTensor):
            raise RuntimeError(f"{name}: expected a tensor quantized per tensor, got {self.qscheme()}")
        return self._scheme

    def _many(self, name):
        if not isinstance(self._scheme, PerChannel):
            raise RuntimeError(f"{name}: expected a tensor quantized per channel, got {self.qscheme()}")
        return self._scheme

    def q_scale(self):
        """Return the distance between the values of neighboring levels.

        Errors: RuntimeError for one scale per channel.
        """
        return self._one("q_scale").scale

    def q_zero_point(self):
        """Return the level of zero.

        Errors: RuntimeError for one per channel.
        """
        return self._one("q_zero_point").zero_point

    def q_per_channel_scales(self):
        """Return the scale of each channel, float64.

        Errors: RuntimeError for one scale in all.
        """
        return self._many("q_per_channel_scales").scales

    def q_per_channel_zero_points(self):
        """Return the level of zero of each channel, int64.

        Errors: RuntimeError for one in all.
        """
        return self._many("q_per_channel_zero_points").zero_points

    def q_per_channel_axis(self):
        """Return the dimension whose indices are channels.

        Errors: RuntimeError for one scale in all.
        """
        return self._many("q_per_channel_axis").axis

    @property
    def dtype(self):
        """qint8, quint8 or qint32."""
        return self._scheme.dtype

    @property
    def is_quantized(self):
        """True."""
        return True

    def requires_grad_(self, requires_grad=True):
        """Refuse True: levels have no gradient."""
        if requires_grad:
            raise RuntimeError(f"requires_grad_: a gradient needs a floating or complex dtype, got {self.dtype}")
        return self

    def item(self):
        """Return the value of the one element.

        Errors: RuntimeError for more.
        """
        return self.dequantize().item()

    def numpy(self, *, force=False):
        """Raise TypeError: there is no such array; ask int_repr() or dequantize()."""
        raise TypeError(f"numpy: quantized tensors are no arrays, use int_repr() or dequantize(), got {self.dtype}")

    def tolist(self):
        """Raise TypeError: there is no such list; ask int_repr() or dequantize()."""
        raise RuntimeError(f"tolist: quantized tensors are no lists, use int_repr() or dequantize(), got {self.dtype}")

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __repr__(self, *, tensor_contents=None):
        prefix = "tensor("
        text = tensor_contents or (_contents(self.dequantize(), len(prefix)) if self.numel() else "[]")
        suffixes = [f"size={tuple(self.shape)}", f"dtype={self.dtype}", f"quantization_scheme={self.qscheme()}"]
        return _wrap_suffixes(prefix + text, [*suffixes, *self._scheme.suffixes()], len(prefix))

    __str__ = __repr__

    def __deepcopy__(self, memo):
        made = memo[id(self)] = wrap(levels_of(self).clone(), self._scheme)
        return made




def levels_of(x):
    """Return the plain tensor of the levels, over the same memory."""
    with _C.DisableTorchFunctionSubclass():
        return x.as_subclass(facula.Tensor)


def wrap(levels, scheme):
    """Return a quantized tensor over the memory of its levels."""
    with _C.DisableTorchFunctionSubclass():
        made = levels.as_subclass(QuantizedTensor)
    made._scheme = scheme
    return made
