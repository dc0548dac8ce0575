"""Which device types are in an autocast region on this thread, and with which lower precision.

The state of the CPU and of CUDA is the core's, which casts by it. Other device types only remember what a program sets.
"""

from __future__ import annotations

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


def known_device_type(name: str, device_type) -> str:
    """`device_type`, if there is such a type; TypeError or RuntimeError otherwise."""
    if not isinstance(device_type, str):
        raise TypeError(f"{name}: argument 'device_type' must be str, got {type(device_type).__name__}")
    kind = device_type.split(":")[0]
    if kind not in DEVICE_TYPES:
        raise RuntimeError(f"{name}: expected one of {', '.join(DEVICE_TYPES)} device type, got {device_type!r}")
    return kind


def _check(name: str, argument: str, value, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name}: argument '{argument}' must be {kind.__name__}, got {type(value).__name__}")


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a device type, whether or not this machine has such a device."""
    return known_device_type("is_autocast_available", device_type) in LOWER_PRECISION


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is in an autocast region of a device type."""
    kind = known_device_type("is_autocast_enabled", device_type)
    return _C._is_autocast_enabled(kind) if kind in _OF_THE_CORE else _others.enabled.get(kind, False)


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Switches autocast of a device type on this thread; of "cuda" when called with the switch alone."""
    if enabled is None and isinstance(device_type, bool):
        device_type, enabled = "cuda", device_type
    kind = known_device_type("set_autocast_enabled", device_type)
    _check("set_autocast_enabled", "enabled", enabled, bool)
    if kind in _OF_THE_CORE:
        _C._set_autocast_enabled(kind, enabled)
    else:
        _others.enabled[kind] = enabled


def get_autocast_dtype(device_type: str) -> facula.dtype:
    """The lower precision of a device type."""
    kind = known_device_type("get_autocast_dtype", device_type)
    if kind not in LOWER_PRECISION:
        raise RuntimeError(f"get_autocast_dtype: expected a device type that has autocast, got {device_type!r}")
    return _C._get_autocast_dtype(kind) if kind in _OF_THE_CORE else _others.dtype.get(kind, LOWER_PRECISION[kind])


def set_autocast_dtype(device_type: str, dtype: facula.dtype) -> None:
    """Sets the lower precision of a device type on this thread."""
    kind = known_device_type("set_autocast_dtype", device_type)
    _check("set_autocast_dtype", "dtype", dtype, facula.dtype)
    if kind in _OF_THE_CORE:
        _C._set_autocast_dtype(kind, dtype)
    else:
        _others.dtype[kind] = dtype


def exchange(kind: str, enabled: bool, dtype: facula.dtype) -> tuple[bool, facula.dtype]:
    """Sets switch and lower precision of a known device type; returns what they were."""
    if kind in _OF_THE_CORE:
        before = _C._is_autocast_enabled(kind), _C._get_autocast_dtype(kind)
        _C._set_autocast_enabled(kind, enabled)
        _C._set_autocast_dtype(kind, dtype)
        return before
    before = _others.enabled.get(kind, False), _others.dtype.get(kind, LOWER_PRECISION[kind])
    _others.enabled[kind], _others.dtype[kind] = enabled, dtype
    return before


# Names of older programs: one function for each of four device types.


def _deprecated(name: str, replacement: str, function):
    def call(*args):
        warnings.warn(f"{name}: deprecated, use {replacement}", DeprecationWarning, stacklevel=2)
        return function(*args)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As {replacement}. Deprecated."
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
            yield name, _deprecated(name, f"{replacement}('{kind}', ...)", function)
    for name, (replacement, function) in dtypes_of("gpu", "cuda").items():
        yield name, _deprecated(name, f"{replacement}('cuda', ...)", function)


globals().update(_older_names())
