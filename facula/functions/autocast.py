"""Set which device types are in an autocast region on this thread, and the lower precision of each.

The core holds the state of the CPU and of CUDA and casts by it. For other device types this file only stores what a
program sets.
"""

from __future__ import annotations

import inspect
import threading
import warnings

import facula
from facula import _C

DEVICE_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
# the lower precision where a program sets none; a device type that is not here has no autocast
LOWER_PRECISION = {
    **dict.fromkeys(("cpu", "xla", "hpu"), facula.bfloat16),
    **dict.fromkeys(("cuda", "ipu", "xpu", "mps", "maia", "mtia", "privateuseone"), facula.float16),
}


_OF_THE_CORE = ("cpu", "cuda")


class _Others(threading.local):
    def __init__(self):
        self.enabled = {}
        self.dtype = {}


_others = _Others()


def known_device_type(name: str, device_type: str) -> str:
    """Return `device_type`, if there is such a type; TypeError or RuntimeError otherwise."""
    if not isinstance(device_type, str):
        raise TypeError(f"{name}: argument 'device_type' must be str, got {type(device_type).__name__}")
    kind = device_type.split(":")[0]
    if kind not in DEVICE_TYPES:
        raise RuntimeError(f"{name}: device_type must be {_C._one_of(device_type, DEVICE_TYPES)}")
    return kind


def _check(name: str, argument: str, value, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name}: argument '{argument}' must be {kind.__name__}, got {type(value).__name__}")


def is_autocast_available(device_type: str) -> bool:
    """Return whether there is autocast for a device type, whether or not this machine has such a device.

    Args:
        device_type: "cpu", "cuda" or another type's name.

    Errors: TypeError for what is no str, RuntimeError for an unknown type.

    >>> torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("meta")
    (True, False)
    """
    return known_device_type("is_autocast_available", device_type) in LOWER_PRECISION


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether this thread is in an autocast region of a device type.

    Args:
        device_type: "cpu", "cuda" or another type's name.

    Errors: TypeError for what is no str, RuntimeError for an unknown type.

    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    kind = known_device_type("is_autocast_enabled", device_type)
    return _C._is_autocast_enabled(kind) if kind in _OF_THE_CORE else _others.enabled.get(kind, False)


def set_autocast_enabled(device_type: str, enabled: bool | None = None) -> None:
    """Switch autocast of a device type on this thread; `autocast` does it for a block.

    Args:
        device_type: the type's name; or the switch alone, for "cuda".
        enabled: the switch.

    Errors: TypeError for other classes of arguments, RuntimeError for an unknown type.

    >>> torch.set_autocast_enabled("cpu", True)
    >>> torch.is_autocast_enabled("cpu")
    True
    >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is None and isinstance(device_type, bool):
        device_type, enabled = "cuda", device_type
    kind = known_device_type("set_autocast_enabled", device_type)
    _check("set_autocast_enabled", "enabled", enabled, bool)
    if kind in _OF_THE_CORE:
        _C._set_autocast_enabled(kind, enabled)
    else:
        _others.enabled[kind] = enabled


def get_autocast_dtype(device_type: str) -> facula.dtype:
    """Return the lower precision in which ops of a device type compute in an autocast region.

    Args:
        device_type: "cpu", "cuda" or another type's name.

    Errors: TypeError for what is no str; RuntimeError for an unknown type and for one that has no autocast.

    >>> torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    kind = known_device_type("get_autocast_dtype", device_type)
    if kind not in LOWER_PRECISION:
        raise RuntimeError(f"get_autocast_dtype: expected a device type that has autocast, got {device_type!r}")
    return _C._get_autocast_dtype(kind) if kind in _OF_THE_CORE else _others.dtype.get(kind, LOWER_PRECISION[kind])


def set_autocast_dtype(device_type: str, dtype: facula.dtype) -> None:
    """Set the lower precision of a device type on this thread; `autocast` does it for a block.

    Args:
        device_type: "cpu", "cuda" or another type's name.
        dtype: float16 or bfloat16.

    Errors: TypeError for other classes of arguments, RuntimeError for an unknown type.

    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> torch.get_autocast_dtype("cpu")
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    kind = known_device_type("set_autocast_dtype", device_type)
    _check("set_autocast_dtype", "dtype", dtype, facula.dtype)
    if kind in _OF_THE_CORE:
        _C._set_autocast_dtype(kind, dtype)
    else:
        _others.dtype[kind] = dtype


def exchange(kind: str, enabled: bool, dtype: facula.dtype) -> tuple[bool, facula.dtype]:
    """Set switch and lower precision of a known device type; return what they were."""
    if kind in _OF_THE_CORE:
        before = _C._is_autocast_enabled(kind), _C._get_autocast_dtype(kind)
        _C._set_autocast_enabled(kind, enabled)
        _C._set_autocast_dtype(kind, dtype)
        return before
    before = _others.enabled.get(kind, False), _others.dtype.get(kind, LOWER_PRECISION[kind])
    _others.enabled[kind], _others.dtype[kind] = enabled, dtype
    return before


# Names of older programs: one function for each of four device types.


_ANSWERS = """Return {what} on this thread: {replacement}, under a deprecated name, which warns.

Args: none.

>>> import warnings
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore")
...     torch.{name}()
{shown}
"""
_SETS = """Set {what} on this thread: {replacement}, under a deprecated name, which warns.

Args:
    {argument}

>>> import warnings
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore")
...     torch.{name}({value})
"""


def _text_of_older(name, replacement, kind):
    """Return the docstring of such a function."""
    switch = "enabled" in name
    what = f"whether {kind} tensors are cast" if switch else f"the lower precision of {kind} tensors"
    if name.startswith("set"):
        argument = "enabled: whether it is on." if switch else "dtype: the lower precision."
        value = "False" if switch else LOWER_PRECISION[kind]
        return _SETS.format(name=name, replacement=replacement, what=what, argument=argument, value=value)
    shown = "False" if switch else LOWER_PRECISION[kind]
    return _ANSWERS.format(name=name, replacement=replacement, what=what, shown=shown)


def _deprecated(name: str, replacement: str, doc: str, function):
    def call(*args):
        warnings.warn(f"{name}: deprecated, use {replacement}", DeprecationWarning, stacklevel=2)
        return function(*args)

    call.__name__ = call.__qualname__ = name
    call.__signature__ = inspect.Signature(
        [inspect.Parameter(a, inspect.Parameter.POSITIONAL_ONLY) for a in inspect.signature(function).parameters]
    )
    call.__doc__ = doc
    return call


def _older_names():
    def of(kind):
        return {
            f"is_autocast_{kind}_enabled": ("is_autocast_enabled", lambda: is_autocast_enabled(kind)),
            f"set_autocast_{kind}_enabled": ("set_autocast_enabled", lambda enabled: set_autocast_enabled(kind, enabled)),
        }

    def dtypes_of(name, kind):
        return {
            f"get_autocast_{name}_dtype": ("get_autocast_dtype", lambda: get_autocast_dtype(kind)),
            f"set_autocast_{name}_dtype": ("set_autocast_dtype", lambda dtype: set_autocast_dtype(kind, dtype)),
        }

    for kind in ("cpu", "ipu", "xla"):
        for name, (replacement, function) in {**of(kind), **dtypes_of(kind, kind)}.items():
            instead = f"{replacement}('{kind}', ...)"
            yield name, _deprecated(name, instead, _text_of_older(name, instead, kind), function)
    for name, (replacement, function) in dtypes_of("gpu", "cuda").items():
        instead = f"{replacement}('cuda', ...)"
        yield name, _deprecated(name, instead, _text_of_older(name, instead, "cuda"), function)


globals().update(_older_names())
