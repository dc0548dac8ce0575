"""Define the interface by which the launchers of a job's machines find each other, its errors, and the table of
implementations.
"""

from __future__ import annotations

import abc
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from facula.distributed._store import Store

__all__: RendezvousHandlerRegistry = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """Report launchers that did not find each other."""


class RendezvousClosedError(RendezvousError):
    """Report that the job has ended, so that no launcher can join any more."""


class RendezvousTimeoutError(RendezvousError):
    """Report that too few launchers came in time."""


class RendezvousConnectionError(RendezvousError):
    """Report that the store cannot be reached."""


class RendezvousStateError(RendezvousError):
    """Report that the contents of the store are invalid."""


class RendezvousGracefulExitError(RendezvousError):
    """Report that a launcher is no longer needed and may end."""


@dataclass
class RendezvousStoreInfo:
    """Hold the address of the store by which the processes of a group find each other.

    Args:
        master_addr, master_port: the host and the port of their store.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.rendezvous import RendezvousStoreInfo
    >>> RendezvousStoreInfo.build(0, HashStore(), local_addr="node0", server_port=29500)
    RendezvousStoreInfo(master_addr='node0', master_port=29500)
    """

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank: int, store: Store, local_addr: str | None = None, server_port: int | None = None) -> RendezvousStoreInfo:
        """Rank 0 names itself in the store, the others read it.

        Args:
            rank: the number of this launcher.
            store: the store of the launchers.
            local_addr: the address of this machine. Default: its name.
            server_port: the port. Default: one that is free.

        Returns: the address and the port of rank 0, in every launcher.
        """
        if rank == 0:
            port = server_port or _free_port()
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, local_addr or socket.getfqdn())
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(port))
        return RendezvousStoreInfo(
            store.get(RendezvousStoreInfo.MASTER_ADDR_KEY).decode(),
            int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY).decode()),
        )


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


@dataclass
class RendezvousInfo:
    """Hold the result of a rendezvous for one launcher.

    Args:
        store: the store of the round.
        rank: the number of this launcher.
        world_size: how many launchers there are.
        bootstrap_store_info: where processes meet, a RendezvousStoreInfo, or None.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.rendezvous import RendezvousInfo
    >>> RendezvousInfo(HashStore(), rank=0, world_size=1, bootstrap_store_info=None).world_size
    1
    """

    store: Any
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo | None


class RendezvousHandler(abc.ABC):
    """Let launchers find each other. A subclass that is registered implements another method.

    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry
    >>> handler = rendezvous_handler_registry.create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
    >>> info = handler.next_rendezvous()
    >>> info.rank, info.world_size
    (0, 1)
    >>> handler.get_backend(), handler.get_run_id(), handler.num_nodes_waiting(), handler.is_closed()
    ('c10d', 'job', 0, False)
    >>> handler.set_closed()
    >>> handler.is_closed()
    True
    >>> handler.shutdown()
    True
    """

    _hosts_store: bool | None = None  # whether the store is with this launcher, which ends last; None: with that of rank 0

    @abc.abstractmethod
    def get_backend(self) -> str:
        """Return its name."""

    @property
    def use_agent_store(self) -> bool:
        """Whether the processes meet in the store that the launchers have."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until enough launchers are here. Raises the errors of this module.

        Returns: a RendezvousInfo: the store, the number of this launcher and how many there are.
        """

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Return whether the job has ended."""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """End the job for everybody."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """Return how many launchers want to join; above 0, the processes are started anew with them."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """Return the job's name."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Let go of what the handler holds; return whether that went well."""


class RendezvousParameters:
    """Hold the arguments from which a handler is made.

    Args:
        backend: the name under which the handler is registered.
        endpoint: "host:port", host or whatever the handler reads.
        run_id: the job's name, the same for all launchers.
        min_nodes, max_nodes: how many launchers there may be.
        local_addr: the address of this machine.
        config: further settings.

    Errors: ValueError without a backend, and for less than one launcher.

    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters
    >>> parameters = RendezvousParameters("c10d", "node0:29400", "job", 1, 4, is_host="yes", timeout="60")
    >>> parameters.get("timeout"), parameters.get_as_int("timeout"), parameters.get_as_bool("is_host")
    ('60', 60, True)
    """

    backend: str
    endpoint: str
    run_id: str
    min_nodes: int
    max_nodes: int
    local_addr: str | None
    config: dict[str, Any]

    def __init__(self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int, local_addr: str | None = None,
                 **config: Any) -> None:  # fmt: skip
        if not backend:
            raise ValueError(f"RendezvousParameters: backend must be a name, got {backend!r}")
        if not 1 <= min_nodes <= max_nodes:
            raise ValueError(
                f"RendezvousParameters: min_nodes must be 1 to max_nodes, got min_nodes {min_nodes} and max_nodes {max_nodes}"
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr, self.config = min_nodes, max_nodes, local_addr, config

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting.

        Args:
            key: its name.
            default: what is given where there is none.
        """
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """Return a setting that is true or false, in the words people use.

        Args:
            key: its name. ValueError where it is another word.
            default: what is given where there is none.
        """
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        words = {"1": True, "true": True, "t": True, "yes": True, "y": True,
                 "0": False, "false": False, "f": False, "no": False, "n": False}  # fmt: skip
        if str(value).lower() not in words:
            raise ValueError(f"RendezvousParameters.get_as_bool: {key} must be true or false, got {value!r}")
        return words[str(value).lower()]

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """Return a setting that is a whole number.

        Args:
            key: its name. ValueError where it is anything else.
            default: what is given where there is none.
        """
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except (TypeError, ValueError):
            raise ValueError(f"RendezvousParameters.get_as_int: {key} must be a whole number, got {value!r}") from None


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Map names to handlers; launchers look in `rendezvous_handler_registry`.

    >>> from torch.distributed.elastic.rendezvous import RendezvousHandlerRegistry, RendezvousParameters
    >>> from torch.distributed.elastic.rendezvous.static import create_rdzv_handler
    >>> registry = RendezvousHandlerRegistry()
    >>> registry.register("static", create_rdzv_handler)
    >>> registry.create_handler(RendezvousParameters("static", "node0:29500", "job", 1, 1, rank=0)).get_run_id()
    'job'
    """

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Add a way to meet.

        Args:
            backend: its name. ValueError for one that another creator has.
            creator: a function that makes a handler of RendezvousParameters.
        """
        if not backend:
            raise ValueError(f"RendezvousHandlerRegistry.register: backend must be a name, got {backend!r}")
        if self._creators.get(backend, creator) is not creator:
            raise ValueError(f"RendezvousHandlerRegistry.register: another handler has this name already, got {backend!r}")
        self._creators[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Return the handler that the parameters name.

        Args:
            params: RendezvousParameters. ValueError for a name that nobody has registered.

        Errors: RuntimeError for a handler that calls itself by another name.
        """
        if params.backend not in self._creators:
            known = ", ".join(sorted(self._creators))
            raise ValueError(
                f"RendezvousHandlerRegistry.create_handler: the backend must be one of {known}, or be registered "
                f"(for etcd: by a package of yours), got {params.backend!r}"
            )
        handler = self._creators[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"RendezvousHandlerRegistry.create_handler: the handler must call itself {params.backend!r}, "
                f"got {handler.get_backend()!r}"
            )
        return handler


rendezvous_handler_registry: RendezvousHandlerRegistry = RendezvousHandlerRegistry()
