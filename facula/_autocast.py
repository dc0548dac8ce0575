"""Autocast for functions written in Python: as the key `autocast: float32` of an op in `ops/*.yaml`."""

from __future__ import annotations

import functools

from . import _C


def in_float32(function):
    """Inside an autocast region, tensor arguments come in float32 and the function runs outside of the region."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if not _C._is_autocast_enabled():
            return function(*args, **kwargs)
        args = [_cast(a) for a in args]
        kwargs = {name: _cast(a) for name, a in kwargs.items()}
        _C._set_autocast_enabled(False)
        try:
            return function(*args, **kwargs)
        finally:
            _C._set_autocast_enabled(True)

    return run


def _cast(value):
    return _C._autocast_tensor(value, _C.float32) if isinstance(value, _C.Tensor) else value
