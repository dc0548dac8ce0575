"""Provide settings under the names that PyTorch's launcher has for them."""

from __future__ import annotations

import os

from . import macros
from .distributed import get_socket_with_port

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name: str) -> str:
    """Return a variable of the environment.

    Args:
        env_name: its name. ValueError where it is not set.

    >>> import os
    >>> from torch.distributed.elastic.utils.api import get_env_variable_or_raise
    >>> get_env_variable_or_raise("PATH") == os.environ["PATH"]
    True
    """
    found = os.environ.get(env_name)
    if found is None:
        raise ValueError(f"get_env_variable_or_raise: expected the environment variable {env_name}, got none")
    return found
