"""How long collectives wait."""

from ._group import default_pg_timeout

default_pg_nccl_timeout = default_pg_timeout
