"""Define methods of Tensor in Python: functions of the top level whose files are loaded on the first call, and methods
that few programs call.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

    from facula.types import Device

Tensor = _C.Tensor


def overridable(function):
    """Let classes and modes take over a method written here, as they take over those of the core."""
    name = function.__name__
    is_overridden = _C._has_torch_function_variadic

    def method(self, *args, **kwargs):
        if is_overridden(self, *args):
            from facula.overrides import handle_torch_function

            return handle_torch_function(getattr(_C.Tensor, name), (self, *args), self, *args, **kwargs)
        if not (args or kwargs):  # which takes a tenth of a microsecond less
            return function(self)
        return function(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", function.__doc__
    method.__wrapped__ = function
    return method


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Return the distinct elements in ascending order, or the distinct slices along `dim`.

    Args:
        sorted: the result is in order whatever this says.
        return_inverse: whether also the place of each element (slice) among them is wanted.
        return_counts: whether also how often each occurs is wanted.
        dim: the dimension of the slices; None for elements.

    Returns: the distinct ones; or a tuple of them, the places and the counts (int64), as far as they are wanted.

    >>> torch.tensor([3, 1, 3]).unique(return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    import facula

    return facula.unique(self, sorted, return_inverse, return_counts, dim)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Return the first of every run of equal neighbors, of the flattened tensor or among its slices along `dim`.

    Args:
        return_inverse: whether also the run of each element (slice) is wanted.
        return_counts: whether also the lengths of the runs are wanted.
        dim: the dimension of the slices; None for elements.

    Returns: the first ones; or a tuple of them, the runs and the lengths (int64), as far as they are wanted.

    >>> torch.tensor([1, 1, 2, 1]).unique_consecutive()
    tensor([1, 2, 1])
    """
    import facula

    return facula.unique_consecutive(self, return_inverse, return_counts, dim)


def stft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
    onesided=None, return_complex=None, align_to_window=None,
):  # fmt: skip
    """Return the Fourier transforms of windowed frames of this signal, (time) or (batch, time): how its frequencies change.

    Args:
        n_fft: samples of a frame.
        hop_length: samples from one frame to the next; None for n_fft // 4.
        win_length: samples of the window, which lies in the middle of the frame; None for n_fft.
        window: (win_length), what frames are multiplied by; None for ones.
        center: whether frames are centered on their samples, the signal padded by n_fft // 2 at both ends.
        pad_mode: how it is padded, a mode of nn.functional.pad.
        normalized: whether the transforms are divided by the root of n_fft.
        onesided: whether only the frequencies 0 to n_fft // 2 are given; None for that where signal and window are real.
        return_complex: True for a complex result, False for real and imaginary parts in a last dimension of 2; needed for
            real signals.
        align_to_window: only with center=False.

    Returns: (frequencies, frames), with a batch in front where the signal has one.

    Errors: RuntimeError for other shapes, a missing return_complex, and frames longer than the signal.

    >>> torch.ones(16).stft(8, return_complex=True).shape
    torch.Size([5, 9])
    """
    import facula

    return facula.stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
    )


def istft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None,
    return_complex=False,
):  # fmt: skip
    """Return the signal whose `stft` is this: overlapping frames are averaged, weighted by the window.

    The tensor is complex, (frequencies, frames) or (batch, frequencies, frames).

    Args:
        n_fft, hop_length, win_length, window, center, normalized, onesided: as stft was given them; onesided None for what
            the number of frequencies says.
        length: samples of the signal; None for what the frames say.
        return_complex: whether the signal is complex.

    Returns: the signal, (time) or (batch, time).

    Errors: RuntimeError for other shapes, a wrong number of frequencies, and windows that add up to zero somewhere.

    >>> x, window = torch.arange(16.), torch.hann_window(8)
    >>> y = x.stft(8, window=window, return_complex=True).istft(8, window=window)
    >>> torch.allclose(x, y, atol=1e-5)
    True
    """
    import facula

    return facula.istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)


def lu(self, pivot=True, get_infos=False):
    """Return the LU factors of these matrices, (..., m, n), in one matrix, and the row exchanges: ``P L U = A``.

    Args:
        pivot: whether rows are exchanged; without, only on a GPU.
        get_infos: whether a third result tells for each matrix 0, or the place of the first pivot that is zero.

    Returns: a tuple: L below the diagonal and U above, (..., m, n); the exchanges counted from 1, int32, (..., min(m, n)).

    Errors: RuntimeError for a singular matrix without get_infos, and for pivot=False on the CPU.

    >>> factors, exchanges = torch.tensor([[4., 2.], [2., 3.]]).lu()
    >>> factors
    tensor([[4.0000, 2.0000],
            [0.5000, 2.0000]])
    """
    import facula

    return facula.lu(self, pivot, get_infos)


def smm(self, mat):
    """Return the product of this sparse matrix, (m, k), and a strided one as a COO tensor.

    Args:
        mat: the strided matrix, (k, n).

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> a.smm(torch.tensor([[1.], [3.]])).to_dense()
    tensor([[6.],
            [0.]])
    """
    import facula

    return facula.smm(self, mat)


def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    """Return ``beta * self + alpha * (mat1 @ mat2)`` as a COO tensor.

    Args:
        mat1: a sparse matrix.
        mat2: a strided matrix.
        beta, alpha: the factors.

    Errors: RuntimeError for sizes that do not fit.

    >>> a = torch.tensor([[0., 2.], [0., 0.]]).to_sparse()
    >>> a.sspaddmm(a, torch.ones(2, 2)).to_dense()
    tensor([[2., 4.],
            [0., 0.]])
    """
    import facula

    return facula.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


_IN_PYTHON = (unique, unique_consecutive, stft, istft, lu, smm, sspaddmm)


def is_nonzero(self):
    """Return True if the one element differs from zero.

    Errors: RuntimeError where there is not exactly one.

    >>> torch.tensor([0.5]).is_nonzero()
    True
    """
    return bool(self)


def map2_(self, x, y, callable):
    """Replace each element by callable(element, element of x, element of y) in place; return the tensor.

    The tensors `x` and `y` are broadcast to this shape. Slow: Python is called each time.

    Args:
        x, y: tensors that broadcast to the shape of this one.
        callable: takes three numbers and gives one.

    Errors: RuntimeError where one requires grad.

    >>> torch.tensor([1.0, 2.0]).map2_(torch.tensor([10.0]), torch.tensor([100.0]), lambda a, b, c: a + b + c)
    tensor([111., 112.])
    """
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(f"map2_: not for a tensor that requires grad, got shape {tuple(self.shape)}")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, x, y)]
    values = [callable(a, b, c) for a, b, c in zip(*columns)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def module_load(self, other, assign=False):
    """Return what Module.load_state_dict puts in the place of this tensor for the tensor `other` of a state_dict; classes may
    replace it.

    With `assign` it is `other` without history, else this tensor with the values of `other`.

    Args:
        other: a tensor of the shape of this one.
        assign: whether other takes the place of this tensor.

    >>> x, other = torch.zeros(2), torch.ones(2)
    >>> x.module_load(other).data_ptr() == x.data_ptr(), x
    (True, tensor([1., 1.]))
    >>> x.module_load(other, assign=True).data_ptr() == other.data_ptr()
    True
    """
    return other.detach() if assign else self.copy_(other).detach()


def resize(self, *sizes):
    """Return the elements in the shape `sizes`, a copy only where they do not lie in order; deprecated for `view` and
    `reshape`.

    Args:
        sizes: the shape, as ints or one sequence.

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
        raise RuntimeError(f"resize: expected a shape of {self.numel()} elements, got {tuple(shape)}")
    return self.contiguous().view(shape)


def resize_as(self, tensor):
    """Return the elements in the shape of `tensor`; deprecated for `reshape`. Errors and warnings are those of `resize`.

    Args:
        tensor: the tensor whose shape is taken.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.arange(4).resize_as(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return self.resize(*tensor.shape)


def dim_order(self, ambiguity_check=False):
    """Return the dimensions from the outermost in memory to the innermost.

    With `ambiguity_check` a RuntimeError where sizes of 1 or overlapping strides leave the order open; given a list of
    memory formats, only where more than one of them fits.

    Args:
        ambiguity_check: True, or a list of memory formats.

    Errors: RuntimeError with ambiguity_check where the order is open.

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
                f"dim_order: the order is not determined, got shape {tuple(self.shape)} and strides {list(self.stride())}"
            )
    elif ambiguity_check:
        fits = [f for f in ambiguity_check if self.is_contiguous(memory_format=f)]
        if len(fits) > 1:
            raise RuntimeError(f"dim_order: several memory formats fit, got {fits}")
    return order


def to_device(self, device: Device, /, *, stream: Any = None):
    """Return the tensor on `device`, under the name that the Array API gives it.

    Args:
        device: the device.
        stream: None.

    Errors: ValueError for a `stream` that is not None.

    >>> torch.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    if stream is not None:
        raise ValueError(f"to_device: only devices with streams take one, got {stream!r}")
    return self.to(device)


def dequantize(self):
    """Return the values in float32, of a quantized tensor and of any other.

    >>> torch.quantize_per_tensor(torch.tensor([0.6, 1.0]), 0.5, 10, torch.quint8).dequantize()
    tensor([0.5000, 1.0000])
    """
    return self.float()


def const_data_ptr(self):
    """Return the address of the first element as an int, of memory that is only read; the same as data_ptr gives.

    >>> x = torch.ones(2)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


def to_padded_tensor(self, padding, output_size=None):
    """Return the sequences of a nested tensor as one tensor.

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
        from facula.overrides import handle_torch_function

        return handle_torch_function(Tensor.to_padded_tensor, (self,), self, padding, output_size)
    raise NotImplementedError(f"to_padded_tensor: only a nested tensor has sequences, got shape {tuple(self.shape)}")


def _grad_dtype(self):
    """Return the dtype of gradients, which is the tensor's own."""
    return self.dtype


def _volatile(self):
    """Return False; the word has no meaning any more."""
    warnings.warn("volatile: has no meaning any more (use no_grad())", UserWarning, stacklevel=2)
    return False


def _name(self):
    """Return None: tensors have no names."""
    return None


def _not_here(name):
    """Make what stands for a method that compat/not_here.py lists."""

    def method(self, *args, **kwargs):
        from facula.compat import placeholders

        placeholders.refuse(method._facula_missing, (self, *args), kwargs)

    method._facula_missing = f"torch.Tensor.{name}"
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = "Raises NotImplementedError, which says why: docs/supported.md."
    return method


def _quantized_only(name):
    """Return a method of quantized tensors as others have it: it raises NotImplementedError."""

    def method(self):
        raise NotImplementedError(f"{name}: expected a quantized tensor, got {self.dtype}")

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"""Return, of a quantized tensor, {_QUANTIZED[name][0]}. Errors: NotImplementedError for any other.

    >>> values, scales, zero_points = torch.tensor([0.6, 1.0]), torch.tensor([0.5, 1.0]), torch.tensor([0, 5])
    >>> {_QUANTIZED[name][1]}.{name}()
    {_QUANTIZED[name][2]}
    """
    return method


def record_stream(self, stream):
    """Make the tensor's memory be used again only when `stream`, a CUDA stream, has done what is queued when the tensor dies.

    It is needed where a tensor that was made on one stream is used on another.

    Args:
        stream: a CUDA stream.

    >>> if torch.cuda.is_available():
    ...     torch.ones(2, device="cuda").record_stream(torch.cuda.Stream())
    """
    _C._cuda_record_stream(self, stream.device_index, stream.cuda_stream)


def _repr_html_(self):
    """Return what a notebook shows."""
    from .html import tensor_html

    return tensor_html(self)


# compat/not_here.py has the reasons; importing Facula does not read it
_NOT_HERE = """
    eig index ipu lstsq mtia reinforce slice_inverse solve symeig to_mkldnn xpu
    """


_PER_TENSOR = "torch.quantize_per_tensor(values, 0.5, 10, torch.quint8)"


_PER_CHANNEL = "torch.quantize_per_channel(values, scales, zero_points, 0, torch.quint8)"


#: Methods of quantized tensors: what they give, and an example.
_QUANTIZED = {
    "int_repr": ("a copy of its levels", _PER_TENSOR, "tensor([11, 12], dtype=torch.uint8)"),
    "q_per_channel_axis": ("the dimension whose indices are channels", _PER_CHANNEL, "0"),
    "q_per_channel_scales": ("the scale of each channel", _PER_CHANNEL, "tensor([0.5000, 1.0000], dtype=torch.float64)"),
    "q_per_channel_zero_points": ("the level that is zero, of each channel", _PER_CHANNEL, "tensor([0, 5])"),
    "q_scale": ("the step from one level to the next", _PER_TENSOR, "0.5"),
    "q_zero_point": ("the level that is zero", _PER_TENSOR, "10"),
    "qscheme": ("whether scales are the tensor's or its channels'", _PER_CHANNEL, "torch.per_channel_affine"),
}


_C._install_methods({f.__name__: overridable(f) for f in _IN_PYTHON})
_C._install_methods(
    {
        **{
            f.__name__: f
            for f in (
                is_nonzero, map2_, resize, resize_as, dim_order, to_device, dequantize, const_data_ptr,
                record_stream, to_padded_tensor, _repr_html_,
            )
        },
        "module_load": overridable(module_load),
        "grad_dtype": property(_grad_dtype),
        "volatile": property(_volatile),
        "name": property(_name),
        **{name: overridable(_quantized_only(name)) for name in _QUANTIZED},
        **{name: _not_here(name) for name in _NOT_HERE.split()},
    }
)  # fmt: skip
