"""Define how long collectives wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._group import default_pg_timeout as default_pg_timeout

if TYPE_CHECKING:
    from datetime import timedelta

default_pg_nccl_timeout: timedelta = default_pg_timeout
