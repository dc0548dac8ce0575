"""Choice of the implementation behind `functional.scaled_dot_product_attention`."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable

__all__ = [
    "SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS", "register_flash_attention_impl",
    "activate_flash_attention_impl", "list_flash_attention_impls", "current_flash_attention_impl",
    "restore_flash_attention_impl",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Names of the implementations; the numbers are PyTorch's."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_ALL = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)
_allowed: tuple[SDPBackend, ...] = _ALL


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The implementations that the enclosing `sdpa_kernel` allows."""
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False):
    """Allow only some implementations inside the ``with`` block.

    Facula has one implementation per device, so the choice is recorded but does not change the result.

    Args:
        backends: one `SDPBackend` or several.
        set_priority: the order of ``backends`` is their priority.
    """
    global _allowed
    if isinstance(backends, SDPBackend):
        backends = (backends,)
    chosen = tuple(dict.fromkeys(backends))
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"sdpa_kernel: backends must be SDPBackend members, got {backend!r}")
    if not chosen:
        raise AssertionError("sdpa_kernel: needs at least one backend, got none")
    before = _allowed
    _allowed = chosen
    try:
        yield {}
    finally:
        _allowed = before


# Other implementations on the GPU, which other packages bring: they can be registered, not used on the CPU.

_registered = {}


def register_flash_attention_impl(impl: str, *, register_fn) -> None:
    """Names a function that brings an implementation."""
    _registered[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The registered names."""
    return sorted(_registered)


def activate_flash_attention_impl(impl: str) -> None:
    """Raises: ValueError for a name that is not registered, else NotImplementedError."""
    if impl not in _registered:
        raise ValueError(f"activate_flash_attention_impl: expected one of {list_flash_attention_impls()}, got {impl!r}")
    raise NotImplementedError(f"activate_flash_attention_impl: only Facula's own implementation is supported, got {impl!r}")


def current_flash_attention_impl() -> str | None:
    """None: Facula's own."""
    return None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Goes back to Facula's own implementation, which is always in use."""
