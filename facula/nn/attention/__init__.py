"""Choose the implementation behind `functional.scaled_dot_product_attention`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from facula import _C
from facula.backends import _attention
from facula.backends._attention import SDPBackend

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS", "register_flash_attention_impl",
    "activate_flash_attention_impl", "list_flash_attention_impls", "current_flash_attention_impl",
    "restore_flash_attention_impl",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the implementations that are allowed, with_priority in their order."""
    listed = _attention.order() if with_priority else _attention.LISTED
    return [backend for backend in listed if _attention.is_allowed(backend)]


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False):
    """Allow only some implementations of attention inside the ``with`` block, on all devices.

    ``FLASH_ATTENTION`` and ``EFFICIENT_ATTENTION`` are one implementation: attention in one pass. ``MATH`` is written with
    matrix products and soft-max, and ``CUDNN_ATTENTION`` is cuDNN's, on CUDA.

    Args:
        backends: one `SDPBackend` or several.
        set_priority: if True, the order of ``backends`` is their priority.

    Returns: a context manager.

    Errors: AssertionError for something else; RuntimeError, with the reasons, from a call that none of the allowed ones can
    compute.

    >>> from torch.nn.attention import SDPBackend, sdpa_kernel
    >>> query = key = value = torch.ones(1, 1, 3, 2)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(query, key, value).shape
    torch.Size([1, 1, 3, 2])
    """
    if isinstance(backends, SDPBackend):
        backends = (backends,)
    chosen = tuple(dict.fromkeys(backends))
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"sdpa_kernel: backends must be SDPBackend members, got {backend!r}")
    with _attention.kept():
        for backend in _attention.LISTED:
            _attention.allow(backend, backend in chosen)
        if set_priority:
            _attention.set_order(chosen)
        yield {}


# Other implementations on the GPU, which other packages bring: they can be registered, not used on the CPU.

_registered = {}


def register_flash_attention_impl(impl: str, *, register_fn: Any) -> None:
    """Name a function that brings an implementation of another package. Facula uses none: it is only listed.

    Args:
        impl: the name.
        register_fn: the function.

    >>> from torch.nn import attention
    >>> attention.register_flash_attention_impl("FA4", register_fn=lambda: None)
    >>> attention.list_flash_attention_impls()
    ['FA4']
    """
    _registered[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """Return the names that were registered, in alphabetical order.

    >>> "unheard" in nn.attention.list_flash_attention_impls()
    False
    """
    return sorted(_registered)


def activate_flash_attention_impl(impl: str) -> None:
    """Raise an error: only Facula's own implementation is used.

    Args:
        impl: a name that was registered.

    Errors: ValueError for a name that is not registered, else NotImplementedError.

    >>> nn.attention.register_flash_attention_impl("FA4", register_fn=lambda: None)
    >>> nn.attention.activate_flash_attention_impl("FA4")
    Traceback (most recent call last):
        ...
    NotImplementedError: activate_flash_attention_impl: only Facula's own implementation is supported, got 'FA4'
    """
    if impl not in _registered:
        raise ValueError(f"activate_flash_attention_impl: impl must be {_C._one_of(impl, list_flash_attention_impls())}")
    raise NotImplementedError(f"activate_flash_attention_impl: only Facula's own implementation is supported, got {impl!r}")


def current_flash_attention_impl() -> str | None:
    """Return None, which stands for Facula's own implementation.

    >>> nn.attention.current_flash_attention_impl() is None
    True
    """
    return None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Go back to Facula's own implementation, which is always in use.

    >>> nn.attention.restore_flash_attention_impl()
    """
