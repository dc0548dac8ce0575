"""Define the loggers of launchers."""

from __future__ import annotations

import inspect
import logging
import os

__all__ = ["get_logger"]


def get_logger(name: str | None = None) -> logging.Logger:
    """Return a logger at the level that LOGLEVEL of the environment says (WARNING without it).

    Args:
        name: its name. Default: that of the calling module.

    >>> from torch.distributed.elastic.utils.logging import get_logger
    >>> get_logger("launcher").name
    'launcher'
    """
    if name is None:
        frame = inspect.currentframe()
        name = frame.f_back.f_globals.get("__name__") if frame is not None and frame.f_back is not None else None
    found = logging.getLogger(name)
    found.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return found
