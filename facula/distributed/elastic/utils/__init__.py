"""Provide addresses and settings of launchers."""

from __future__ import annotations

import socket
import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["address_of", "is_this_machine", "macros", "read_settings"]


def address_of(endpoint: str, default_port: int) -> tuple[str, int]:
    """Return (host, port) of "host", "host:port" or "[v6 address]:port".

    Args:
        endpoint: the text. ValueError for a port that is none.
        default_port: where it names none.

    >>> from torch.distributed.elastic.utils import address_of
    >>> address_of("node0", 29500), address_of("[::1]:80", 29500)
    (('node0', 29500), ('::1', 80))
    """
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
    """Return whether an address is one of this machine's: a socket can be bound to it.

    Args:
        host: a name or an address.
        local_addr: an address that is known to be.

    >>> from torch.distributed.elastic.utils import is_this_machine
    >>> is_this_machine("localhost"), is_this_machine("node7", local_addr="node7")
    (True, True)
    """
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
    """Return `key=value,key=value` as a dict.

    Args:
        text: the settings. ValueError for a part without a value.

    >>> from torch.distributed.elastic.utils import read_settings
    >>> read_settings("timeout=60, is_host=yes")
    {'timeout': '60', 'is_host': 'yes'}
    """
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ValueError(f"read_settings: expected key=value,key=value, got {text!r}")
        settings[key.strip()] = value.strip()
    return settings


class macros:
    """Define words in the arguments of a program that are replaced for each process: `macros.local_rank` is
    "${local_rank}".

    Args:
        local_rank: the number of the process, as a text.

    >>> from torch.distributed.elastic.utils import macros
    >>> macros("1").substitute(["--device", f"cuda:{macros.local_rank}", 3])
    ['--device', 'cuda:1', 3]
    """

    local_rank = "${local_rank}"

    def __init__(self, local_rank: str) -> None:
        self._local_rank = local_rank

    def substitute(self, args: list[Any]) -> list[Any]:
        """Return the arguments for one process.

        Args:
            args: the arguments; what is no text stays.
        """
        return [
            string.Template(arg).safe_substitute(local_rank=self._local_rank) if isinstance(arg, str) else arg for arg in args
        ]
