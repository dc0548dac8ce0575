"""`facula.amp` with its device type filled in, as `cpu.amp` and `cuda.amp` have it, with their warnings."""

from __future__ import annotations

import functools
import warnings

from .autocast_mode import autocast, custom_bwd, custom_fwd
from .grad_scaler import GradScaler


def _warn(kind, name, instead):
    warnings.warn(f"{kind}.amp.{name}: deprecated, use amp.{name}({instead})", FutureWarning, stacklevel=3)


def autocast_of(kind, lower_precision, module):
    def __init__(self, enabled=True, dtype=lower_precision, cache_enabled=True):
        _warn(kind, "autocast", f"'{kind}', ...")
        autocast.__init__(self, kind, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    doc = f'amp.autocast("{kind}", ...). Deprecated.'
    return type("autocast", (autocast,), {"__init__": __init__, "__doc__": doc, "__module__": module})


def grad_scaler_of(kind, module):
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
    ):
        _warn(kind, "GradScaler", f"'{kind}', ...")
        GradScaler.__init__(self, kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    doc = f'amp.GradScaler("{kind}", ...). Deprecated.'
    return type("GradScaler", (GradScaler,), {"__init__": __init__, "__doc__": doc, "__module__": module})


def cuda_custom_fwd(fwd=None, *, cast_inputs=None):
    """amp.custom_fwd(..., device_type="cuda"). Deprecated."""
    _warn("cuda", "custom_fwd", "..., device_type='cuda'")
    return functools.partial(custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def cuda_custom_bwd(bwd):
    """amp.custom_bwd(..., device_type="cuda"). Deprecated."""
    _warn("cuda", "custom_bwd", "..., device_type='cuda'")
    return functools.partial(custom_bwd, device_type="cuda")(bwd)
