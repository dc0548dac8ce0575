"""What changes a module and all below it: modes, gradients, devices and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import facula
from facula import __future__ as _future
from facula.utils._python_dispatch import is_traceable_wrapper_subclass

from ..parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula.types import Device


def _is_swapped(new) -> bool:
    return _future.get_swap_module_params_on_conversion() or is_traceable_wrapper_subclass(new)


def _takes_data_of(tensor, new) -> bool:
    """Return whether ``tensor.data = new`` is how a conversion is done."""
    if _future.get_overwrite_module_params_on_conversion():
        return False
    # a meta tensor has no memory that could be exchanged in place, and a layout belongs to the kind of tensor
    return tensor.is_meta == new.is_meta and tensor.layout == new.layout


def _exchange(tensor, new, module) -> None:
    try:
        facula.utils.swap_tensors(tensor, new)
    except Exception as error:
        raise RuntimeError(
            f"{type(module).__name__}: a parameter or gradient could not be swapped for the converted one ({error}), got "
            f"one of shape {tuple(tensor.shape)}"
        ) from error


def _swapped(param, new, module):
    grad, param.grad = param.grad, None
    try:
        _exchange(param, Parameter(new, requires_grad=param.requires_grad), module)
    except RuntimeError:
        param.grad = grad
        raise
    return param


def _converted(param, new):
    if _takes_data_of(param, new):
        param.data = new
        return param
    return Parameter(new, param.requires_grad)


def _set_grad(param, grad, new, swapped: bool, module) -> None:
    """Convert the gradient as the parameter was; ``new`` is what the conversion made of it."""
    if swapped:
        new.requires_grad_(grad.requires_grad)
        _exchange(grad, new, module)
        new = grad
    elif _takes_data_of(grad, new):
        grad.data = new
        new = grad
    else:
        new = new.requires_grad_(grad.requires_grad)
    param.grad = None
    param.grad = new


class _ConvertMethods:
    """The part of Module that sets modes and gradients, and moves and converts parameters and buffers."""

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` of this module and all below it: dropout, batch normalisation and some others do in training
        what they do not in evaluation.

        Args:
            mode: True for training, False for evaluation.

        Returns: the module.

        Errors: ValueError for what is no bool.

        >>> net = nn.Sequential(nn.Dropout(0.5))
        >>> net.train(False).training, net[0].training
        (False, False)
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {type(mode).__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set this module and all below it to evaluation, as ``train(False)`` does. It does not switch gradients off:
        `no_grad` does.

        Returns: the module.

        >>> nn.Dropout(0.5).eval()(torch.ones(3))
        tensor([1., 1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of all parameters whether gradients are recorded.

        Args:
            requires_grad: whether they are; False freezes the module.

        Returns: the module.

        >>> layer = nn.Linear(2, 3).requires_grad_(False)
        >>> layer.weight.requires_grad
        False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: whether they become None, which saves memory, or zeros in place.

        >>> layer = nn.Linear(2, 1)
        >>> layer(torch.ones(2)).backward()
        >>> layer.zero_grad(set_to_none=False)
        >>> layer.weight.grad
        tensor([[0., 0.]])
        """
        if getattr(self, "_is_replica", False):
            import warnings

            warnings.warn(
                "zero_grad: a replica made by DataParallel shares its parameters with the original, whose "
                "gradients stay",
                stacklevel=2,
            )
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by ``fn`` of it; Parameter objects stay the same objects, unless
        `torch.__future__` says otherwise or the result is a tensor of another kind.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with facula.no_grad():
                new = fn(param)
            grad = param.grad
            swapped = _is_swapped(new)
            kept = _swapped(param, new, self) if swapped else _converted(param, new)
            self._parameters[name] = kept
            if grad is not None:
                with facula.no_grad():
                    new_grad = fn(grad)
                _set_grad(kept, grad, new_grad, swapped, self)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert parameters and buffers, in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``,
        ``to(tensor)`` or ``to(memory_format=channels_last)``. Integers keep their dtype; a memory format is for what has
        4 or 5 dimensions.

        Args:
            args, kwargs: ``device``, ``dtype``, ``non_blocking`` (whether copies from pinned memory may go on behind the
                caller) and ``memory_format``, or a tensor that has the device and dtype.

        Returns: the module.

        Errors: TypeError for a dtype that is neither floating-point nor complex.

        >>> layer = nn.Linear(2, 3).to(torch.float64)
        >>> layer.weight.dtype
        torch.float64
        """
        device, dtype, non_blocking, memory_format = facula._C._parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be floating-point or complex, got {dtype}")

        def convert(t):
            new_dtype = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and not is_lazy(t) and t.dim() in (4, 5):
                return t.to(device, new_dtype, non_blocking, memory_format=memory_format)
            return t.to(device, new_dtype, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Give parameters and buffers new memory on a device, without values: so a module that was made on the device
        'meta' becomes a real one.

        Args:
            device: where.
            recurse: whether submodules are concerned.

        Returns: the module.

        >>> layer = nn.Linear(2, 3, device="meta").to_empty(device="cpu")
        >>> layer.weight.device, layer.weight.shape
        (device(type='cpu'), torch.Size([3, 2]))
        """
        return self._apply(lambda t: facula.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, integers among them.

        Args:
            dst_type: a dtype, or the name of a tensor type.

        Returns: the module.

        >>> nn.Linear(2, 3).type(torch.float64).weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32.

        Returns: the module.

        >>> nn.Linear(2, 3, dtype=torch.float64).float().weight.dtype
        torch.float32
        """
        return self._cast(facula.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64.

        Returns: the module.

        >>> nn.Linear(2, 3).double().weight.dtype
        torch.float64
        """
        return self._cast(facula.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16.

        Returns: the module.

        >>> nn.Linear(2, 3).half().weight.dtype
        torch.float16
        """
        return self._cast(facula.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16.

        Returns: the module.

        >>> nn.Linear(2, 3).bfloat16().weight.dtype
        torch.bfloat16
        """
        return self._cast(facula.bfloat16)

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU.

        Returns: the module.

        >>> nn.Linear(2, 3).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Device = None) -> Self:
        """Move parameters and buffers to a CUDA device. Make the optimizer afterwards.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError or AssertionError where there is no such device.

        >>> layer = nn.Linear(2, 3)
        >>> if torch.cuda.is_available():
        ...     layer = layer.cuda()
        >>> layer.weight.is_cuda == torch.cuda.is_available()
        True
        """
        return self._apply(lambda t: t.cuda(device))

    def _to_device_type(self, name: str, device) -> Self:
        index = "" if device is None else f":{getattr(device, 'index', device)}"
        return self.to(facula.device(name + index))

    def xpu(self, device: Device = None) -> Self:
        """Move parameters and buffers to an XPU.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).xpu()
        ... except RuntimeError:
        ...     print("no XPU")
        no XPU
        """
        return self._to_device_type("xpu", device)

    def ipu(self, device: Device = None) -> Self:
        """Move parameters and buffers to an IPU.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError or NotImplementedError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).ipu()
        ... except (RuntimeError, NotImplementedError):
        ...     print("no IPU")
        no IPU
        """
        return self._to_device_type("ipu", device)

    def mtia(self, device: Device = None) -> Self:
        """Move parameters and buffers to an MTIA accelerator.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).mtia()
        ... except RuntimeError:
        ...     print("no MTIA")
        no MTIA
        """
        return self._to_device_type("mtia", device)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes can see, in place.

        Returns: the module.

        >>> nn.Linear(2, 3).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda t: t.share_memory_())
