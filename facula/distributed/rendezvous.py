"""Find the other processes by a URL, whose scheme selects the method."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from . import _rendezvous
from .constants import default_pg_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["register_rendezvous_handler", "rendezvous"]


def register_rendezvous_handler(scheme: str, handler: Any) -> None:
    """Let `init_process_group` meet by URLs of a scheme of your own.

    Args:
        scheme: what stands before "://". RuntimeError for one that there is already.
        handler: `handler(url, timeout=...)`, a generator of (store, rank, world_size).

    >>> import torch.distributed as dist
    >>> def alone(url, timeout, **options):
    ...     yield dist.HashStore(), 0, 1
    >>> dist.register_rendezvous_handler("alone", alone)
    >>> dist.init_process_group(init_method="alone://")
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    if scheme in _rendezvous.handlers or scheme in ("env", "tcp", "file"):
        raise RuntimeError(f"register_rendezvous_handler: there is a handler for {scheme}:// already, got another one")
    _rendezvous.handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = default_pg_timeout,
               **options: Any) -> Iterator[Any]:  # fmt: skip
    """Yield (store, rank, world_size), by which processes meet as a URL says.

    Args:
        url: "env://", "tcp://address:port", "file://path", or a scheme of `register_rendezvous_handler`.
        rank, world_size: which process this is, of how many; the environment or the URL may say so too.
        timeout: how long the store waits, a timedelta.
        options: given to a handler of your own.

    Errors: RuntimeError for another scheme, ValueError where rank or world size are not known.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store, rank, size = next(torch.distributed.rendezvous(f"file://{folder.name}/store?rank=0&world_size=1"))
    >>> rank, size
    (0, 1)
    >>> folder.cleanup()
    """
    if not isinstance(url, str):
        raise RuntimeError(f"rendezvous: the URL must be a text, got {type(url).__name__}")
    scheme = urlparse(url).scheme
    if scheme in _rendezvous.handlers:
        yield from _rendezvous.handlers[scheme](url, timeout=timeout, **options)
        return
    size, rank = _rendezvous.place(url, world_size, rank, None, "rendezvous")
    yield _rendezvous.open_store(url, size, rank, timeout), rank, size
