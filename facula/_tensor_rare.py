"""Methods of Tensor that few programs call: old names, and questions that only other layouts answer otherwise."""

from __future__ import annotations

import math
import warnings

from . import _C
from ._tensor import _overridable

Tensor = _C.Tensor


def is_nonzero(self):
    """Whether the one element differs from zero. Errors: RuntimeError where there is not exactly one.

    >>> torch.tensor([0.5]).is_nonzero()
    True
    """
    return bool(self)


def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of x, element of y) in place; returns the tensor.

    The tensors `x` and `y` are broadcast to this shape. Slow: Python is called each time. Errors: RuntimeError where one
    requires grad.

    >>> torch.tensor([1.0, 2.0]).map2_(torch.tensor([10.0]), torch.tensor([100.0]), lambda a, b, c: a + b + c)
    tensor([111., 112.])
    """
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(f"map2_: not for a tensor that requires grad, got shape {list(self.shape)}")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, x, y)]
    values = [callable(a, b, c) for a, b, c in zip(*columns)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def module_load(self, other, assign=False):
    """What Module.load_state_dict puts in the place of this tensor for the tensor `other` of a state_dict; classes may replace
    it.

    With `assign` it is `other` without history, else this tensor with the values of `other`.

    >>> x, other = torch.zeros(2), torch.ones(2)
    >>> x.module_load(other).data_ptr() == x.data_ptr(), x
    (True, tensor([1., 1.]))
    >>> x.module_load(other, assign=True).data_ptr() == other.data_ptr()
    True
    """
    return other.detach() if assign else self.copy_(other).detach()


def resize(self, *sizes):
    """The elements in the shape `sizes`, a copy only where they do not lie in order; deprecated for `view` and `reshape`.

    Errors: RuntimeError where the number of elements differs; a UserWarning always.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.arange(4).resize(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    warnings.warn("resize: deprecated, use view, reshape or resize_", UserWarning, stacklevel=2)
    shape = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)
    if math.prod(shape) != self.numel():
        raise RuntimeError(f"resize: a shape of {self.numel()} elements, got {shape}")
    return self.contiguous().view(shape)


def resize_as(self, tensor):
    """The elements in the shape of `tensor`; deprecated for `reshape`. Errors and warnings are those of `resize`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.arange(4).resize_as(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return self.resize(*tensor.shape)


def dim_order(self, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost.

    With `ambiguity_check` a RuntimeError where sizes of 1 or overlapping strides leave the order open; given a list of
    memory formats, only where more than one of them fits.

    >>> x = torch.zeros(2, 3, 4, 5)
    >>> x.dim_order(), x.to(memory_format=torch.channels_last).dim_order()
    ((0, 1, 2, 3), (0, 2, 3, 1))
    """
    if self.layout is not _C.strided:
        raise AttributeError(f"dim_order: a sparse tensor has no order in memory, got layout {self.layout}")
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
    """The tensor on `device`, under the name that the Array API gives it.

    Errors: ValueError for a `stream` that is not None.

    >>> torch.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    if stream is not None:
        raise ValueError(f"to_device: only devices with streams take one, got {stream!r}")
    return self.to(device)


def dequantize(self):
    """The values in float32, of a quantised tensor and of any other.

    >>> torch.quantize_per_tensor(torch.tensor([0.6, 1.0]), 0.5, 10, torch.quint8).dequantize()
    tensor([0.5000, 1.0000])
    """
    return self.float()


def const_data_ptr(self):
    """The address of the first element as an int, of memory that is only read; the same as data_ptr gives.

    >>> x = torch.ones(2)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


def to_padded_tensor(self, padding, output_size=None):
    """The sequences of a nested tensor as one tensor.

    Args:
        padding: the value of elements behind the end of a sequence.
        output_size: the shape of the result; by default that of the longest sequences.

    Errors: NotImplementedError for a tensor that is not nested.

    >>> x = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
    >>> x.to_padded_tensor(0.0)
    tensor([[1., 0.],
            [1., 1.]])
    """
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
    method.__doc__ = f"""Of a quantised tensor: {_QUANTIZED[name][0]}. Errors: NotImplementedError for any other.

    >>> values, scales, zero_points = torch.tensor([0.6, 1.0]), torch.tensor([0.5, 1.0]), torch.tensor([0, 5])
    >>> {_QUANTIZED[name][1]}.{name}()
    {_QUANTIZED[name][2]}
    """
    return method


def record_stream(self, stream):
    """Makes the tensor's memory be used again only when `stream`, a CUDA stream, has done what is queued when the tensor dies.

    It is needed where a tensor that was made on one stream is used on another.

    >>> if torch.cuda.is_available():
    ...     torch.ones(2, device="cuda").record_stream(torch.cuda.Stream())
    """
    _C._cuda_record_stream(self, stream.device_index, stream.cuda_stream)


def _repr_html_(self):
    """Return what a notebook shows."""
    from ._html import tensor_html

    return tensor_html(self)


# compat/not_here.py has the reasons; importing Facula does not read it
_NOT_HERE = """
    eig index ipu lstsq mtia reinforce slice_inverse solve symeig to_mkldnn xpu
    """

_PER_TENSOR = "torch.quantize_per_tensor(values, 0.5, 10, torch.quint8)"
_PER_CHANNEL = "torch.quantize_per_channel(values, scales, zero_points, 0, torch.quint8)"
#: Methods of quantised tensors: what they give, and an example.
_QUANTIZED = {
    "int_repr": ("a copy of its levels", _PER_TENSOR, "tensor([11, 12], dtype=torch.uint8)"),
    "q_per_channel_axis": ("the dimension whose indices are channels", _PER_CHANNEL, "0"),
    "q_per_channel_scales": ("the scale of each channel", _PER_CHANNEL, "tensor([0.5000, 1.0000], dtype=torch.float64)"),
    "q_per_channel_zero_points": ("the level that is zero, of each channel", _PER_CHANNEL, "tensor([0, 5])"),
    "q_scale": ("the step from one level to the next", _PER_TENSOR, "0.5"),
    "q_zero_point": ("the level that is zero", _PER_TENSOR, "10"),
    "qscheme": ("whether scales are the tensor's or its channels'", _PER_CHANNEL, "torch.per_channel_affine"),
}

_C._install_methods(
    {
        **{
            f.__name__: f
            for f in (
                is_nonzero, map2_, resize, resize_as, dim_order, to_device, dequantize, const_data_ptr,
                record_stream, to_padded_tensor, _repr_html_,
            )
        },
        "module_load": _overridable(module_load),
        "grad_dtype": property(_grad_dtype),
        "volatile": property(_volatile),
        "name": property(_name),
        **{name: _overridable(_quantized_only(name)) for name in _QUANTIZED},
        **{name: _not_here(name) for name in _NOT_HERE.split()},
    }
)  # fmt: skip
