"""Methods of Tensor that few programs call: old names, and questions that only other layouts answer otherwise."""

from __future__ import annotations

import math
import warnings

from . import _C

Tensor = _C.Tensor


def is_nonzero(self):
    """Whether the one element differs from zero."""
    return bool(self)


def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of x, element of y)."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(f"map2_: not for a tensor that requires grad, got shape {list(self.shape)}")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, x, y)]
    values = [callable(a, b, c) for a, b, c in zip(*columns)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def module_load(self, other, assign=False):
    """What Module.load_state_dict puts in the place of this tensor for `other`."""
    return other.detach() if assign else self.copy_(other).detach()


def resize(self, *sizes):
    """As view, with a warning: the name is deprecated. The number of elements must stay."""
    warnings.warn("resize: deprecated, use view, reshape or resize_", UserWarning, stacklevel=2)
    shape = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)
    if math.prod(shape) != self.numel():
        raise RuntimeError(f"resize: a shape of {self.numel()} elements, got {shape}")
    return self.contiguous().view(shape)


def resize_as(self, tensor):
    """As resize, with the shape of `tensor`."""
    return self.resize(*tensor.shape)


def dim_order(self, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost.

    With `ambiguity_check` a RuntimeError where sizes of 1 or overlapping strides leave the order open; given a list of
    memory formats, only where more than one of them fits.
    """
    order = tuple(sorted(range(self.dim()), key=lambda d: -self.stride(d)))
    if ambiguity_check is True:
        strides = [self.stride(d) for d in order]
        if len(set(strides)) < len(strides) or any(size in (0, 1) for size in self.shape):
            raise RuntimeError(
                f"dim_order: the order is not determined, got shape {list(self.shape)} and strides {list(self.stride())}"
            )
    elif ambiguity_check:
        fits = [f for f in ambiguity_check if self.is_contiguous(memory_format=f)]
        if len(fits) > 1:
            raise RuntimeError(f"dim_order: several memory formats fit, got {fits}")
    return order


def to_device(self, device, /, *, stream=None):
    """As to(device), under the name that the Array API gives it; there are no streams."""
    if stream is not None:
        raise ValueError(f"to_device: only devices with streams take one, got {stream!r}")
    return self.to(device)


def dequantize(self):
    """The values in float32, of a quantised tensor and of any other."""
    return self.float()


def const_data_ptr(self):
    """As data_ptr."""
    return self.data_ptr()


def to_padded_tensor(self, padding, output_size=None):
    """The sequences of a nested tensor as one tensor: `facula.nested.to_padded_tensor`."""
    if _C._has_torch_function_variadic(self):
        from .overrides import handle_torch_function

        return handle_torch_function(Tensor.to_padded_tensor, (self,), self, padding, output_size)
    raise NotImplementedError(f"to_padded_tensor: only a nested tensor has sequences, got shape {list(self.shape)}")


def _grad_dtype(self):
    """The dtype of gradients, which is the tensor's own."""
    return self.dtype


def _volatile(self):
    """False; the word has no meaning any more."""
    warnings.warn("volatile: has no meaning any more (use no_grad())", UserWarning, stacklevel=2)
    return False


def _name(self):
    """None: tensors have no names."""
    return None


def _not_here(name):
    """What stands for a method that compat/not_here.py lists."""

    def method(self, *args, **kwargs):
        from .compat import placeholders

        placeholders.refuse(method._facula_missing, (self, *args), kwargs)

    method._facula_missing = f"torch.Tensor.{name}"
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = "Raises NotImplementedError, which says why: docs/supported.md."
    return method


def _quantized_only(name):
    """A method of quantised tensors, on one that is not."""

    def method(self):
        raise NotImplementedError(f"{name}: expected a quantised tensor, got {self.dtype}")

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"Of a quantised tensor: `facula.{name}`. Errors: NotImplementedError for any other."
    return method


def record_stream(self, stream):
    """The tensor's memory is used again only when the stream has done what is queued there when the tensor dies."""
    _C._cuda_record_stream(self, stream.device_index, stream.cuda_stream)


# compat/not_here.py has the reasons; importing Facula does not read it
_NOT_HERE = """
    eig index ipu lstsq mtia reinforce slice_inverse solve symeig to_mkldnn xpu
    """

_QUANTIZED = "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme"

_C._install_methods(
    {
        **{
            f.__name__: f
            for f in (
                is_nonzero, map2_, module_load, resize, resize_as, dim_order, to_device, dequantize, const_data_ptr,
                record_stream, to_padded_tensor,
            )
        },
        "grad_dtype": property(_grad_dtype),
        "volatile": property(_volatile),
        "name": property(_name),
        **{name: _quantized_only(name) for name in _QUANTIZED.split()},
        **{name: _not_here(name) for name in _NOT_HERE.split()},
    }
)  # fmt: skip
