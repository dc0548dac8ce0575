"""Addresses and settings of launchers."""

from __future__ import annotations

import socket
import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["address_of", "is_this_machine", "macros", "read_settings"]


def address_of(endpoint: str, default_port: int) -> tuple[str, int]:
    """(host, port) of "host", "host:port" or "[v6 address]:port". ValueError for a port that is none."""
    endpoint = endpoint.strip()
    if endpoint.startswith("["):
        host, _, rest = endpoint[1:].partition("]")
        port = rest.removeprefix(":")
    elif endpoint.count(":") == 1:
        host, _, port = endpoint.partition(":")
    else:
        host, port = endpoint, ""
    if not port:
        return host, default_port
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"address_of: the port must be 0 to 65535, got {endpoint!r}")
    return host, int(port)


def is_this_machine(host: str, local_addr: str | None = None) -> bool:
    """Whether an address is one of this machine's: a socket can be bound to it."""
    if host in ("localhost", socket.gethostname(), socket.getfqdn(), local_addr):
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as s:
            try:
                s.bind(address)
                return True
            except OSError:
                continue
    return False


def read_settings(text: str) -> dict[str, str]:
    """`key=value,key=value` as a dict. ValueError for a part without a value."""
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ValueError(f"read_settings: expected key=value,key=value, got {text!r}")
        settings[key.strip()] = value.strip()
    return settings


class macros:
    """Words in the arguments of a program that are filled in for each process."""

    local_rank = "${local_rank}"

    def __init__(self, local_rank: str) -> None:
        self._local_rank = local_rank

    def substitute(self, args: list[Any]) -> list[Any]:
        """The arguments for one process."""
        return [
            string.Template(arg).safe_substitute(local_rank=self._local_rank) if isinstance(arg, str) else arg for arg in args
        ]
