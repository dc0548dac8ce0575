"""Provide the module of devices of kind "mps", which Facula does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.compat import no_device

if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...


globals().update(no_device.names_of("mps"))
