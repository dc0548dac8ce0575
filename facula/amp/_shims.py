"""Provide `facula.amp` with its device type filled in, as `cpu.amp` and `cuda.amp` have it, with their warnings."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

from .autocast_mode import autocast, custom_bwd, custom_fwd
from .grad_scaler import GradScaler

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import facula


def _warn(kind, name, instead):
    warnings.warn(f"{kind}.amp.{name}: deprecated, use amp.{name}({instead})", FutureWarning, stacklevel=3)


def autocast_of(kind, lower_precision, module):
    def __init__(self, enabled: bool = True, dtype: facula.dtype = lower_precision, cache_enabled: bool = True):
        _warn(kind, "autocast", f"'{kind}', ...")
        autocast.__init__(self, kind, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    doc = f"""amp.autocast("{kind}", ...). Deprecated: making one is a FutureWarning.

    Args:
        enabled: False: nothing changes inside.
        dtype: what ops compute with that gain from it: {str(lower_precision).removeprefix("torch.")} by default.
        cache_enabled: whether casts of parameters are kept for the length of the block.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     context = torch.{kind}.amp.autocast(enabled=False)
    >>> with context:
    ...     torch.is_autocast_enabled("{kind}")
    False
    """
    return type("autocast", (autocast,), {"__init__": __init__, "__doc__": doc, "__module__": module})


def grad_scaler_of(kind, module):
    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ):
        _warn(kind, "GradScaler", f"'{kind}', ...")
        GradScaler.__init__(self, kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    doc = f"""amp.GradScaler("{kind}", ...). Deprecated: making one is a FutureWarning.

    Args:
        init_scale: what losses are multiplied by at the start.
        growth_factor: what the scale is multiplied by after `growth_interval` steps without inf or nan.
        backoff_factor: what it is multiplied by after a step with one, which is left out.
        growth_interval: how many steps.
        enabled: False: losses and steps are as without it.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     scaler = torch.{kind}.amp.GradScaler(enabled=False)
    >>> scaler.scale(torch.ones(1))
    tensor([1.])
    """
    return type("GradScaler", (GradScaler,), {"__init__": __init__, "__doc__": doc, "__module__": module})


def cuda_custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: facula.dtype | None = None):
    """Return amp.custom_fwd(..., device_type="cuda"). Deprecated: using it is a FutureWarning.

    Args:
        fwd: the forward of a `torch.autograd.Function`.
        cast_inputs: a dtype that tensors of floating point are cast to, with autocast off inside; None: neither.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     forward = torch.cuda.amp.custom_fwd(lambda ctx, x: 2 * x, cast_inputs=torch.float32)
    >>> callable(forward)
    True
    """
    _warn("cuda", "custom_fwd", "..., device_type='cuda'")
    return functools.partial(custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def cuda_custom_bwd(bwd: Callable[..., Any]):
    """Return amp.custom_bwd(..., device_type="cuda"). Deprecated: using it is a FutureWarning.

    Args:
        bwd: the backward of a `torch.autograd.Function` whose forward `custom_fwd` decorates; it runs as the forward did.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     backward = torch.cuda.amp.custom_bwd(lambda ctx, g: 2 * g)
    >>> callable(backward)
    True
    """
    _warn("cuda", "custom_bwd", "..., device_type='cuda'")
    return functools.partial(custom_bwd, device_type="cuda")(bwd)
