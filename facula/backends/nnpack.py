"""Report on NNPACK, which Facula does not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """Return False: there is no NNPACK.

    >>> torch.backends.nnpack.is_available()
    False
    """
    return False


def set_flags(_enabled: Any) -> Any:
    """Set nothing, as there is no NNPACK; give the previous flags.

    Args:
        _enabled: not read.

    >>> torch.backends.nnpack.set_flags(True)
    (False,)
    """
    return (False,)
