"""Set the device on which factories make tensors when the call names none: `with device("meta"):`, set_default_device."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from facula import _C
from facula.overrides import TorchFunctionMode, _modes, _push

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import facula
    from facula.types import Device

_FACTORIES = """
    tensor as_tensor asarray empty zeros ones full arange linspace logspace eye rand randn randint randperm
    empty_strided empty_permuted tril_indices triu_indices normal frombuffer scalar_tensor hann_window
    hamming_window bartlett_window blackman_window kaiser_window range fft.fftfreq fft.rfftfreq
    """.split()


def _factories():
    import facula

    found = set()
    for path in _FACTORIES:
        place = facula
        for part in path.split("."):
            place = getattr(place, part, None)
        if place is not None:
            found.add(place)
    return found


class DeviceContext(TorchFunctionMode):
    """Pass a device to every factory that is called without one."""

    factories = None
    factories: Any

    def __init__(self, device: Device) -> None:
        self.device: facula.device = _C.device(device)
        if DeviceContext.factories is None:
            DeviceContext.factories = _factories()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.factories and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


class _Entered(threading.local):
    """Hold the contexts that a thread entered and the context of its default device. Each thread has its own stack of
    modes, so each needs its own record.
    """

    def __init__(self):
        self.contexts = []
        self.default = None


_entered = _Entered()


def enter(device: facula.device) -> facula.device:
    """Begin a block of `with device:`."""
    context = DeviceContext(device)
    _entered.contexts.append(context)
    context.__enter__()
    return device


def exit(device: facula.device) -> None:
    """End a block of `with device:`."""
    _entered.contexts.pop().__exit__(None, None, None)


def set_default_device(device: Device) -> None:
    """Set the device of factories that are not told one, for this thread.

    Args:
        device: a device, its name or its number; None goes back to the CPU.

    >>> torch.set_default_device("meta")
    >>> torch.ones(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    if _entered.default in _modes.stack:
        _modes.stack.remove(_entered.default)
        _C._set_function_mode_active(bool(_modes.stack))
    _entered.default = None
    if device is None or _C.device(device).type == "cpu":
        return
    _entered.default = DeviceContext(device)
    if _modes.stack:
        _modes.stack.insert(0, _entered.default)
    else:
        _push(_entered.default)


def get_default_device() -> facula.device:
    """Return the device of factories that are not told one: of set_default_device, or of the innermost ``with device:``.

    >>> torch.get_default_device()
    device(type='cpu')
    >>> with torch.device("meta"):
    ...     torch.get_default_device()
    device(type='meta')
    """
    for mode in reversed(_modes.stack):
        if isinstance(mode, DeviceContext):
            return mode.device
    return _C.device("cpu")


def get_device_module(device: Device = None) -> ModuleType:
    """Return the module of a kind of device, such as cpu or cuda.

    Args:
        device: a device or the name of its kind; by default that of the accelerator, or the CPU where there is none.

    Errors: RuntimeError for what is neither a device nor its name.

    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    import importlib

    if device is not None and not isinstance(device, (str, _C.device)):
        raise RuntimeError(f"get_device_module: expected a device, a str or None, got {device!r}")
    kind = ("cuda" if _C._cuda_device_count() else "cpu") if device is None else _C.device(device).type
    return importlib.import_module(f"facula.{kind}")


def _get_accelerator():
    """Return the device that is not the CPU, or that."""
    import facula

    return facula.accelerator.current_accelerator() or facula.device("cpu")


def _get_default_device():
    """Return the kind and number of the default device, as text."""
    return str(get_default_device())


#: whether the library was built with the strings of C++11; there is no other build
_NEW_STRINGS = True
