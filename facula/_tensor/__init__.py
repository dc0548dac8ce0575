"""The Python half of Tensor: what needs no speed. Installed into the built-in type when Facula is imported.

Long because all methods that Python gives to Tensor stand here, by what they are about.
"""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np

from facula import _C

from .overrides_off import DisableTorchFunctionSubclass

Tensor = _C.Tensor


def _overridable(function):
    """Let classes and modes take over a method written here, as they take over those of the core."""
    name = function.__name__
    is_overridden = _C._has_torch_function_variadic

    def method(self, *args, **kwargs):
        if is_overridden(self, *args):
            from facula.overrides import handle_torch_function

            return handle_torch_function(getattr(Tensor, name), (self, *args), self, *args, **kwargs)
        if not (args or kwargs):  # which takes a tenth of a microsecond less
            return function(self)
        return function(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", function.__doc__
    method.__wrapped__ = function
    return method


# ---- Copy tensors for the module `copy`: `__copy__` and `__deepcopy__`


def __copy__(self):
    return copy._reconstruct(self, None, *_shallow(self))


def _shallow(tensor):
    """Return what copy.copy rebuilds: the same memory and attributes in another object."""
    return _rebuild_copy, (type(tensor), tensor.detach(), tensor.requires_grad), tensor.__dict__ or None


def _rebuild_copy(cls, data, requires_grad):
    return Tensor._make_subclass(cls, data, requires_grad)


def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: only tensors made by the program itself can be copied (use detach() or clone()), "
            f"got the result of {self.grad_fn.name() if self.grad_fn is not None else 'an op'}"
        )
    if _is_wrapper(self):
        return _deep_wrapper(self, memo)
    with DisableTorchFunctionSubclass(), _no_recording():
        result = _deep_data(self, memo)
        if self.requires_grad:
            result.requires_grad_(True)
        if type(self) is not Tensor:
            result = Tensor._make_subclass(type(self), result, self.requires_grad)
        memo[id(self)] = result
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        if self.__dict__:
            result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        for name in _slots(type(self)):
            if hasattr(self, name):
                setattr(result, name, copy.deepcopy(getattr(self, name), memo))
    return result


def _is_wrapper(tensor):
    """Return whether the tensor has no memory of its own, and a class that stands in for kernels."""
    return "_reported_device" in tensor.__dict__ and "fake_mode" not in tensor.__dict__


def _deep_wrapper(tensor, memo):
    """Make the copy by the tensor's class, with copies of the attributes."""
    with _no_recording():
        result = tensor.clone()
    if type(result) is not type(tensor):
        raise RuntimeError(
            f"deepcopy: __torch_dispatch__ of {type(tensor).__name__} must give a {type(tensor).__name__} for clone, "
            f"got {type(result).__name__}"
        )
    memo[id(tensor)] = result
    if tensor.requires_grad:
        result.requires_grad_(True)
    result.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return result


def _deep_data(tensor, memo):
    """Return the same geometry over a copy of the storage, one copy per storage and deepcopy."""
    if tensor.is_meta or tensor.layout is not _C.strided:
        return _C.Tensor.detach(tensor).clone()
    storage = copy.deepcopy(tensor.untyped_storage(), memo)
    data = _C._tensor_from_storage(storage, tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride())
    return data.conj() if tensor.is_conj() else data


def _slots(cls):
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        yield from (n for n in ((names,) if isinstance(names, str) else names) if n not in ("__dict__", "__weakref__"))


class _no_recording:
    def __enter__(self):
        self.before = _C._set_grad_enabled(False)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before)


# ---- Methods of Tensor that are functions of the top level written in Python, whose files are loaded on the first call


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Return the distinct elements in ascending order, or the distinct slices along `dim`.

    Args:
        sorted: the result is in order whatever this says.
        return_inverse: whether also the place of each element (slice) among them is wanted.
        return_counts: whether also how often each occurs is wanted.
        dim: the dimension of the slices; None for elements.

    Returns the distinct ones; or a tuple of them, the places and the counts (int64), as far as they are wanted.

    >>> torch.tensor([3, 1, 3]).unique(return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    import facula

    return facula.unique(self, sorted, return_inverse, return_counts, dim)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Return the first of every run of equal neighbours, of the flattened tensor or among its slices along `dim`.

    Args:
        return_inverse: whether also the run of each element (slice) is wanted.
        return_counts: whether also the lengths of the runs are wanted.
        dim: the dimension of the slices; None for elements.

    Returns the first ones; or a tuple of them, the runs and the lengths (int64), as far as they are wanted.

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
        center: whether frames are centred on their samples, the signal padded by n_fft // 2 at both ends.
        pad_mode: how it is padded, a mode of nn.functional.pad.
        normalized: whether the transforms are divided by the root of n_fft.
        onesided: whether only the frequencies 0 to n_fft // 2 are given; None for that where signal and window are real.
        return_complex: True for a complex result, False for real and imaginary parts in a last dimension of 2; needed for
            real signals.
        align_to_window: only with center=False.

    Returns (frequencies, frames), with a batch in front where the signal has one.

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

    Returns the signal, (time) or (batch, time).

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

    Returns a tuple: L below the diagonal and U above, (..., m, n); the exchanges counted from 1, int32, (..., min(m, n)).

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
_C._install_methods({f.__name__: _overridable(f) for f in _IN_PYTHON})


# ---- Methods of Tensor that few programs call: old names, and questions that only other layouts answer otherwise


def is_nonzero(self):
    """Return True if the one element differs from zero. Errors: RuntimeError where there is not exactly one.

    >>> torch.tensor([0.5]).is_nonzero()
    True
    """
    return bool(self)


def map2_(self, x, y, callable):
    """Replace each element by callable(element, element of x, element of y) in place; return the tensor.

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
    """Return what Module.load_state_dict puts in the place of this tensor for the tensor `other` of a state_dict; classes may
    replace it.

    With `assign` it is `other` without history, else this tensor with the values of `other`.

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
    """Return the elements in the shape of `tensor`; deprecated for `reshape`. Errors and warnings are those of `resize`.

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
    """Return the tensor on `device`, under the name that the Array API gives it.

    Errors: ValueError for a `stream` that is not None.

    >>> torch.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    if stream is not None:
        raise ValueError(f"to_device: only devices with streams take one, got {stream!r}")
    return self.to(device)


def dequantize(self):
    """Return the values in float32, of a quantised tensor and of any other.

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
    raise NotImplementedError(f"to_padded_tensor: only a nested tensor has sequences, got shape {list(self.shape)}")


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
    """Return a method of quantised tensors as others have it: it raises NotImplementedError."""

    def method(self):
        raise NotImplementedError(f"{name}: expected a quantised tensor, got {self.dtype}")

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"""Return, of a quantised tensor, {_QUANTIZED[name][0]}. Errors: NotImplementedError for any other.

    >>> values, scales, zero_points = torch.tensor([0.6, 1.0]), torch.tensor([0.5, 1.0]), torch.tensor([0, 5])
    >>> {_QUANTIZED[name][1]}.{name}()
    {_QUANTIZED[name][2]}
    """
    return method


def record_stream(self, stream):
    """Make the tensor's memory be used again only when `stream`, a CUDA stream, has done what is queued when the tensor dies.

    It is needed where a tensor that was made on one stream is used on another.

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


# NumPy

asarray = np.asarray

def numpy(self, *, force=False):
    """Do what the core's method leaves: subclasses, copies, and reasons why there is no array."""
    if _is_wrapper(self):
        raise RuntimeError(f"numpy: .numpy() is not supported for tensor subclasses without memory, got {type(self).__name__}")
    if self.layout is not _C.strided:
        raise TypeError(f"numpy: only strided tensors have an array's memory (call to_dense() first), got layout {self.layout}")
    tensor = self.detach().cpu().resolve_conj() if force else self
    try:
        return asarray(memoryview(tensor))
    except BufferError:  # the reason follows, or the dtype has no name as a buffer
        pass
    if tensor.requires_grad and not _C.is_grad_enabled():
        return numpy(tensor.detach())
    if tensor.requires_grad:
        raise RuntimeError(
            "numpy: a tensor that requires grad must go through detach() first, "
            f"got shape {list(tensor.shape)}"
        )
    if tensor.device.type != "cpu" or tensor.is_meta:  # a wrapper only says that it lies on the CPU
        raise TypeError(f"numpy: only the CPU's memory can be shared (use tensor.cpu()), got device {tensor.device}")
    if tensor.is_conj():
        raise RuntimeError(
            f"numpy: the values are stored as conjugates (use tensor.resolve_conj().numpy()), got {list(tensor.shape)}"
        )
    return np.asarray(_Exporter(tensor))


class _Exporter:
    """Shows a tensor's memory to NumPy and keeps it alive."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = tensor._array_interface()


def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__: copy=False, but {array.dtype} has to be converted to {dtype}")
        return array.astype(dtype, copy=True)
    return array.copy() if copy else array


def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array)


def apply_(self, callable):
    """Replace each element by callable(element) in place; return the tensor. For the CPU, and slow: Python is called each
    time.

    Errors: RuntimeError for a tensor that requires grad.

    >>> torch.tensor([1.0, 4.0]).apply_(lambda value: value + 1)
    tensor([2., 5.])
    """
    if self.requires_grad:
        raise RuntimeError(f"apply_: not for a tensor that requires grad, got shape {list(self.shape)}")
    values = [callable(value) for value in self.detach().reshape(-1).tolist()]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self, tensor, callable):
    """Replace each element by callable(element, element of `tensor`) in place; return the tensor. Slow, as apply_.

    `tensor` is broadcast to this shape. Errors: RuntimeError where one of the two requires grad.

    >>> torch.tensor([1.0, 4.0]).map_(torch.tensor([10.0, 20.0]), lambda a, b: a + b)
    tensor([11., 24.])
    """
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError(f"map_: not for a tensor that requires grad, got shape {list(self.shape)}")
    pairs = zip(self.reshape(-1).tolist(), tensor.expand(self.shape).reshape(-1).tolist())
    values = [callable(a, b) for a, b in pairs]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


# Python's protocols


def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iter: a 0-d tensor cannot be iterated over, got shape []")
    return iter(self.unbind(0))


def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex, bool, np.number, np.bool_)):
        return bool((self == element).any())
    raise RuntimeError(f"Tensor.__contains__: element is a Tensor or a number, got {type(element).__name__}")


def __format__(self, spec):
    if self.dim() == 0 and type(self) is Tensor and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def __repr__(self, *, tensor_contents=None):
    from .printing import tensor_str

    return tensor_str(self, tensor_contents=tensor_contents)


def __complex__(self):
    if self.numel() != 1:
        shape = list(self.shape)
        raise ValueError(f"complex: a tensor of one element can be converted to a Python number, got shape {shape}")
    return complex(self.item())


def _dir(self):
    names = {*dir(type(self)), *self.__dict__} - {"volatile"}
    return sorted(names if self.is_cuda else names - {"__cuda_array_interface__"})


def __reduce_ex__(self, protocol):
    from facula._serialization import rebuild

    return rebuild.reduce_tensor(self)


def __setstate__(self, state):
    """Take (storage, offset, size, stride[, requires_grad, ...]), as very old pickles hold it, or attributes."""
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__: only a leaf can be restored, got the result of an op")
    storage, offset, size, stride, *rest = state
    self.set_(storage, offset, size, stride)
    if rest:
        self.requires_grad_(bool(rest[0]))


def __cuda_array_interface__(self):
    if not self.is_cuda:
        raise AttributeError(f"__cuda_array_interface__: only for tensors on a GPU (use cuda()), got device {self.device}")
    from facula.cuda import _interface

    return _interface.interface_of(self)


def __torch_function__(cls, func, types, args=(), kwargs=None):
    from facula.overrides import default_torch_function

    return default_torch_function(cls, func, types, args, kwargs)


def __array_namespace__(self, *, api_version=None):
    from facula import array_api

    return array_api.namespace(api_version)


def is_distributed(self):
    """Return False, as of every tensor that is not a `DTensor`.

    >>> torch.ones(2).is_distributed()
    False
    """
    return False


def _is_zerotensor(self):
    """Return False: zeros have memory."""
    return False


def _make_wrapper_subclass(
    cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False, dispatch_sizes_strides_policy=None, dispatch_device=False,
    dispatch_layout=False,
):  # fmt: skip
    """Return a tensor of class `cls` with a shape and a dtype and without memory: its `__torch_dispatch__` does the work.

    Errors: RuntimeError where `cls` has no `__torch_dispatch__`.
    """
    from facula.utils._python_dispatch import _disable_current_modes, has_dispatch

    if not has_dispatch(cls):
        raise RuntimeError(f"_make_wrapper_subclass: {cls.__name__} must define __torch_dispatch__, got a class without")
    import facula

    with _disable_current_modes():
        if strides is None:
            data = facula.empty(size, dtype=dtype, device="meta", memory_format=memory_format or facula.contiguous_format)
        else:
            data = facula.empty_strided(size, strides, dtype=dtype, device="meta")
        if storage_offset:
            span = 1 + sum((n - 1) * step for n, step in zip(data.shape, data.stride(), strict=True)) if data.numel() else 0
            storage = facula.empty(storage_offset + span, dtype=data.dtype, device="meta").untyped_storage()
            data = _C._tensor_from_storage(storage, data.dtype, storage_offset, data.shape, data.stride())
    result = Tensor._make_subclass(cls, data, requires_grad)
    result.__dict__["_reported_device"] = facula.device("cpu" if device is None else device)
    return result


# Relatives: tensors like this one


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """Return a tensor with a copy of `data`, by default in this tensor's dtype and on its device.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor.
        dtype: by default that of this tensor.
        device: by default that of this tensor.
        requires_grad: whether to record what is computed from it.
        layout: taken for compatibility; the result is strided.
        pin_memory: puts it in page-locked memory of the CPU, for quick copies to a GPU.

    >>> torch.zeros(2, dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    device = self.device if device is None else device
    return _C.tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory)


def new(self, *args, **kwargs):
    """Return a tensor of this dtype and on this device, in the manner of the constructor `torch.Tensor`.

    Args:
        args: sizes, whose elements are not set; or a sequence of numbers to copy; or a tensor to share; nothing for no
            elements.
        kwargs: `device`, which must be of the same type as this tensor's, and `size` in the place of sizes.

    `new_empty` and `new_tensor` say more plainly which is meant.

    >>> torch.zeros(1, dtype=torch.int64).new([1, 2]), torch.zeros(1).new(2, 3).shape
    (tensor([1, 2]), torch.Size([2, 3]))
    """
    if "size" in kwargs and not args:
        args = (_C.Size(kwargs["size"]),)
        kwargs = {name: value for name, value in kwargs.items() if name != "size"}
    if self.layout is _C.sparse_coo:
        return _new_sparse(self, *args, **kwargs)
    return _C._legacy_new("new", self.dtype, self.device, args, kwargs)


def _new_sparse(tensor, *args, device=None):
    parts = args or (_C.Size([0]),)
    known = [isinstance(part, (Tensor, _C.Size)) for part in parts]
    if not all(known) or (len(parts) == 1 and not isinstance(parts[0], _C.Size)):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(f"new(): of a sparse tensor a Size, or indices and values, are expected, got {kinds}")
    from facula.functions.sparse import sparse_coo_tensor

    return sparse_coo_tensor(*parts, dtype=tensor.dtype, device=tensor.device if device is None else device)


def type_(self, dtype=None, non_blocking=False):
    """Return the name of the tensor's type without arguments, e.g. "torch.FloatTensor"; else the tensor in another dtype.

    Args:
        dtype: a dtype, such a name, or a class such as `torch.LongTensor`; the tensor itself where it is of that type already.
        non_blocking: lets a copy between pinned memory and a GPU go on while the program continues.

    >>> x = torch.tensor([1.9])
    >>> x.type(), x.type(torch.int32), x.type("torch.LongTensor")
    ('torch.FloatTensor', tensor([1], dtype=torch.int32), tensor([1]))
    """
    from facula.functions import tensor_types

    if dtype is None:
        name = tensor_types.name_of(self.dtype, self.device)
        space, _, kind = name.rpartition(".")
        return name if self.layout is _C.strided else f"{space}.sparse.{kind}"
    wanted, device = tensor_types.parse(dtype)
    return self.to(device=device if device is not None else self.device, dtype=wanted, non_blocking=non_blocking)


type_.__name__ = "type"


# Memory


def pin_memory(self, device=None):
    """Return the elements in pinned memory, from which a GPU copies while the host goes on; the tensor itself where it is
    there.

    `device` is the device that would use the memory, a CUDA device. Errors: RuntimeError for another one, and without a GPU.

    >>> x = torch.ones(2)
    >>> x.pin_memory().is_pinned() if torch.cuda.is_available() else True
    True
    """
    if self.is_pinned(device):
        return self
    return _C._pinned_empty_like(self).copy_(self)


def storage(self):
    """Return the elements of the whole storage, as a TypedStorage of this tensor's dtype; `untyped_storage` gives the bytes.

    >>> torch.arange(4.0)[2:].storage().size()
    4
    """
    from facula.storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def is_pinned(self, device=None):
    """Return whether the elements lie in pinned memory, from which a GPU copies by itself.

    `device` is the device that would use the memory. Errors: RuntimeError for one that is not a CUDA device.

    >>> torch.ones(2).is_pinned()
    False
    """
    if device is not None and _C.device(device).type != "cuda":
        raise RuntimeError(f"is_pinned: a CUDA device, got {device}")
    return _C._is_pinned(self)


def storage_type(self):
    """Return the legacy storage class of the dtype.

    >>> torch.ones(2).storage_type() is torch.FloatStorage
    True
    """
    from facula import storage as storages

    return storages.LEGACY_STORAGES[storages.storage_class_name(self.dtype)]


_OVERRIDABLE = (
    apply_,
    map_,
    __contains__,
    __reversed__,
    new_tensor,
    new,
    type_,
    pin_memory,
    storage,
    is_pinned,
)
_PLAIN = (
    __array__,
    __array_wrap__,
    __iter__,
    __format__,
    __repr__,
    __complex__,
    __copy__,
    __deepcopy__,
    __reduce_ex__,
    __setstate__,
    __array_namespace__,
    storage_type,
    is_distributed,
    _is_zerotensor,
)

_C._install_methods(
    {
        **{f.__name__: f for f in _PLAIN},
        **{f.__name__: _overridable(f) for f in _OVERRIDABLE},
        "__dir__": _dir,
        "_numpy": _overridable(numpy),
        "_typed_storage": storage,
        "__nonzero__": Tensor.__bool__,
        "__long__": Tensor.__int__,
        "__array_priority__": 1000,
        "__torch_function__": classmethod(__torch_function__),
        "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
        "__torch_dispatch__": _C._disabled_torch_dispatch_impl,
        "__cuda_array_interface__": property(__cuda_array_interface__),
        "__div__": Tensor.__truediv__,
        "__rdiv__": Tensor.__rtruediv__,
        "__idiv__": Tensor.__itruediv__,
    }
)
_C._set_default_torch_function(__torch_function__)
_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
_C.TensorBase = Tensor
