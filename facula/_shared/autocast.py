"""Apply autocast to functions written in Python, as the key `autocast` does for an op in `ops/*.yaml`."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

_DEVICES = ("cpu", "cuda")


@contextlib.contextmanager
def paused(devices=_DEVICES):
    """Leave the regions of these device types within the block."""
    before = [(device, _C._is_autocast_enabled(device)) for device in devices]
    for device, _ in before:
        _C._set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device, on in before:
            _C._set_autocast_enabled(device, on)


def in_dtype(dtype: _C.dtype | None, devices: Sequence[str] = _DEVICES) -> Callable[[_F], _F]:
    """Return a decorator: inside a region of these device types, tensor arguments come in `dtype` (None: the region's lower
    precision) and the function runs outside of it."""

    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            if not _C._autocasts():
                return function(*args, **kwargs)
            args = [cast(a, dtype, devices) for a in args]
            kwargs = {name: cast(a, dtype, devices) for name, a in kwargs.items()}
            with paused(devices):
                return function(*args, **kwargs)

        return run

    return decorate


in_float32 = in_dtype(_C.float32)
in_float32.__doc__ = "Runs a function of the nn layer in float32, as `in_dtype`."


def cast(value, dtype, devices=_DEVICES):
    """Return `value` in `dtype` (None: the lower precision) if it is a tensor, or holds tensors, that a region touches."""
    if isinstance(value, _C.Tensor):
        return _C._autocast_tensor(value, dtype) if value.device.type in devices else value
    if type(value) in (list, tuple):
        return type(value)(cast(v, dtype, devices) for v in value)
    return value
