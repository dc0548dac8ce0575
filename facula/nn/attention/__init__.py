"""Choice of the implementation behind `functional.scaled_dot_product_attention`."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]

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
