"""Provide the names of `facula.distributed` under PyTorch's path, and its helpers that libraries call."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, NewType

import facula
from facula import distributed

from ._group import _group_named, _rank_not_in_group  # noqa: F401
from ._group import default_pg_timeout as default_pg_timeout
from ._group import member as member
from ._messages import _coalescing_manager  # noqa: F401

if TYPE_CHECKING:
    from datetime import timedelta

    from facula.distributed import *  # noqa: F403

globals().update(
    {
        name: value
        for name, value in vars(distributed).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, ModuleType)
    }
)
GroupName = NewType("GroupName", str)
default_pg_nccl_timeout: timedelta = default_pg_timeout


def _get_default_group():
    """Return the group of all processes. ValueError before init_process_group."""
    return member("_get_default_group")


def _get_default_store():
    """Return the store by which the processes met."""
    return member("_get_default_store").get_group_store()


def _get_process_group_store(pg):
    """Return the store of a group."""
    return member("_get_process_group_store", pg).get_group_store()


def _get_process_group_name(pg):
    """Return the name that `_resolve_process_group` takes."""
    return member("_get_process_group_name", pg).group_name


def _resolve_process_group(group_name):
    """Return the group of that name. ValueError where there is none."""
    return _group_named(group_name)


def _get_group_size(group):
    """Return the number of processes."""
    return distributed.get_world_size(group)


def _get_pg_default_device(group=None):
    """Return where tensors of object collectives lie."""
    member("_get_pg_default_device", group)
    return facula.device("cpu")
