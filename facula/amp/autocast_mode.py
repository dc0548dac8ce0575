"""Define autocast regions. `ops/*.yaml` states under the key `autocast` what each op does inside one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import facula
from facula import _C, Tensor
from facula.functions import autocast as _state
from facula.functions.autocast import is_autocast_available

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

__all__ = ["autocast_decorator", "autocast", "is_autocast_available", "custom_fwd", "custom_bwd"]

_CPU_DTYPES = (facula.bfloat16, facula.float16)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `func` in the region of `autocast_instance`; what the decorator `@autocast(...)` makes.

    >>> region = torch.autocast("cpu")
    >>> product = torch.amp.autocast_mode.autocast_decorator(region, torch.mm)
    >>> product(torch.ones(2, 2), torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    @functools.wraps(func)
    def decorate_autocast(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


class autocast:
    """Run each op in the dtype that suits it, in a block or a decorated function.

    Products and convolutions cast their floating-point inputs to the lower precision, losses and decompositions to
    float32, cat and stack to the widest dtype among them; other ops take what they are given. float64 inputs, in-place
    forms and ``out=`` are left alone. Gradients have the dtype of the tensors that were cast. Regions nest.

    Args:
        device_type: "cpu" or "cuda"; regions of other device types change nothing on these.
        dtype: the lower precision, bfloat16 or float16; by default that of `get_autocast_dtype`.
        enabled: False makes a region without autocast.
        cache_enabled: whether a weight is cast once per outermost region; by default as it is set.

    A device type without a device and a dtype that is no lower precision give a UserWarning, and a region without autocast.

    Errors: ValueError for a device type that is no str, RuntimeError for one without autocast.

    >>> a = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     b = a @ a
    >>> b.dtype, a.dtype
    (torch.bfloat16, torch.float32)
    """

    prev: bool
    prev_fastdtype: facula.dtype

    def __init__(self, device_type: str, dtype: facula.dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:  # fmt: skip
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: expected a device_type of type str, got {type(device_type)}")
        kind = _state.known_device_type("autocast", device_type)
        if kind not in _state.LOWER_PRECISION:
            raise RuntimeError(f"autocast: expected a device type that has autocast, got {device_type!r}")
        self.device = kind
        self.custom_backend_name = "privateuseone"
        self.fast_dtype: facula.dtype = _state.get_autocast_dtype(kind) if dtype is None else dtype
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._possible()

    def _possible(self) -> bool:
        if self.device == "cuda" and not facula.cuda.is_available():
            warnings.warn("autocast: there is no CUDA device; autocast is disabled", stacklevel=3)
            return False
        if self.device == "cpu" and self.fast_dtype not in _CPU_DTYPES:
            warnings.warn(
                f"autocast: the lower precision on the CPU is bfloat16 or float16, got {self.fast_dtype}; autocast is disabled",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> Self:
        self.prev_cache_enabled: Any = _C.is_autocast_cache_enabled()
        self.prev, self.prev_fastdtype = _state.exchange(self.device, self._enabled, self.fast_dtype)
        _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> bool | None:
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        _state.exchange(self.device, self.prev, self.prev_fastdtype)
        _C.set_autocast_cache_enabled(self.prev_cache_enabled)
        return False

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(f"autocast: a function is decorated, got {type(func).__name__}")
        return autocast_decorator(self, func)


def _enter_autocast(*args):
    """Enter a region for which there is no block; _exit_autocast leaves it."""
    region = autocast(*args)
    region.__enter__()
    return region


def _exit_autocast(region):
    region.__exit__(None, None, None)


def current_regions() -> list[autocast]:
    """Return the regions of every device type as they are now: to enter again later, or elsewhere."""
    kinds = ["cpu"] + ([] if not facula.cuda.is_available() else ["cuda"])
    return [
        autocast(k, _state.get_autocast_dtype(k), _state.is_autocast_enabled(k), _C.is_autocast_cache_enabled())
        for k in kinds
    ]


# autograd.Function


def _cast(value, device_type, dtype):
    """Return floating-point tensors in a nest of containers, except float64, in `dtype`."""
    if isinstance(value, Tensor):
        touched = value.is_floating_point() and value.device.type == device_type and value.dtype != facula.float64
        return value.to(dtype) if touched else value
    if isinstance(value, str) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def _check_device_type(name, device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"{name}: expected a device_type of type str, got {type(device_type)}")


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str,
               cast_inputs: facula.dtype | None = None) -> Callable[..., Any]:  # fmt: skip
    """Decorate `forward` of an autograd.Function that may run in a region.

    Args:
        fwd: the static method; None for a decorator with arguments.
        device_type: the device type of the region, as for `autocast`.
        cast_inputs: a dtype to which floating-point inputs are cast, forward then running without autocast, when called in a
            region; out of a region it changes nothing. None: forward runs as the region says and custom_bwd runs backward
            alike.

    Errors: ValueError for a device type that is no str.

    >>> class Product(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, a, b):
    ...         return a @ b
    >>> a = torch.ones(2, 2, dtype=torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     y = Product.apply(a, a)
    >>> y.dtype
    torch.float32
    """
    _check_device_type("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        ctx = args[0]
        inside = _state.is_autocast_enabled(device_type)
        ctx._dtype = _state.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = inside and cast_inputs is None
        if cast_inputs is None or not inside:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args[1:], device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate `backward` of an autograd.Function whose forward has custom_fwd: runs it in the same state.

    Args:
        bwd: the static method; None for a decorator with arguments.
        device_type: the device type of the region, as for `autocast`.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = torch.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """
    _check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        ctx = args[0]
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorate_bwd
