"""Choose the order of products in einsum."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

enabled = True
strategy = "auto"


def is_available() -> bool:
    """Return whether the opt_einsum package is installed.

    >>> torch.backends.opt_einsum.is_available() == (torch.backends.opt_einsum.get_opt_einsum() is not None)
    True
    """
    return get_opt_einsum() is not None


def get_opt_einsum() -> Any:
    """Return the opt_einsum package, None where it is not installed.

    >>> getattr(torch.backends.opt_einsum.get_opt_einsum(), "__name__", "opt_einsum")
    'opt_einsum'
    """
    try:
        import opt_einsum
    except ImportError:
        return None
    return opt_einsum
