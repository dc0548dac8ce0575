"""Define stores: keys and values that processes share, by which they find each other. `src/distributed/store.h` has the
kinds.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Any

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from typing_extensions import Self

default_store_timeout = datetime.timedelta(seconds=300)


def _seconds(name, timeout):
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"{name}: a timeout is a datetime.timedelta, got {type(timeout).__name__}")
    return timeout.total_seconds()


class Store:
    """Hold keys and values that processes share, by which they find each other. A program makes a HashStore, FileStore
    or TCPStore.

    A class of one's own defines `set`, `get`, `add`, `wait`, `check`, `compare_set` and `delete_key`; the other methods are
    made of these. Values are bytes; where one is given, str stands for its UTF-8.

    >>> import torch.distributed as dist
    >>> store = dist.HashStore()
    >>> store.set("name", "value")
    >>> store.get("name")
    b'value'
    >>> store.add("count", 2), store.add("count", 3)
    (2, 5)
    >>> store.append("name", "s")
    >>> store.multi_set(["a", "b"], ["1", "2"])
    >>> store.multi_get(["name", "a"])
    [b'values', b'1']
    >>> store.wait(["a", "b"])
    >>> store.barrier("all here", world_size=1)
    >>> store.check(["a", "c"]), store.compare_set("a", "1", "3"), store.delete_key("b"), store.has_extended_api()
    (False, b'3', True, True)
    >>> import datetime
    >>> store.set_timeout(datetime.timedelta(seconds=1))
    >>> store.timeout
    datetime.timedelta(seconds=1)
    """

    _timeout = default_store_timeout

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait, a timedelta; 300 seconds at first."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait.

        Args:
            timeout: a timedelta; TypeError for anything else.
        """
        _seconds("set_timeout", timeout)
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value under a key; one that was there is replaced.

        Args:
            key: a str.
            value: bytes, or a str, which stands for its UTF-8.
        """
        raise NotImplementedError(f"{type(self).__name__}.set: not defined by this class of stores")

    def get(self, key: str) -> bytes:
        """Return the value of a key, as bytes; wait for it.

        Args:
            key: a str. DistStoreError when nobody sets it within `timeout`.
        """
        raise NotImplementedError(f"{type(self).__name__}.get: not defined by this class of stores")

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, 0 at first; return the sum. No other process can come between.

        Args:
            key: a str.
            amount: an int.
        """
        raise NotImplementedError(f"{type(self).__name__}.add: not defined by this class of stores")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Args:
            keys: a list of str.
            timeout: how long, a timedelta. Default: that of the store. DistStoreError, which names the missing keys, when they
                do not come in time.
        """
        raise NotImplementedError(f"{type(self).__name__}.wait: not defined by this class of stores")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys; wait for all of them.

        Args:
            keys: a list of str.
        """
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values.

        Args:
            keys: a list of str.
            values: as many values.
        """
        for key, value in zip(keys, values):
            self.set(key, value)

    def append(self, key: str, value: str | bytes) -> None:
        """Add bytes at the end of a value, which is made where there is none. In a class of one's own, not safe against others
        at the same time.

        Args:
            key: a str.
            value: bytes or a str.
        """
        new = value.encode() if isinstance(value, str) else bytes(value)
        self.set(key, self.get(key) + new if self.check([key]) else new)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` processes have called it with this key, which serves once.

        Args:
            key: a str.
            world_size: how many.
            timeout: how long, a timedelta. Default: that of the store. DistStoreError when they do not come in time.
        """
        # The last process to arrive releases the others.
        if self.add(f"{key}/count", 1) == world_size:
            self.set(f"{key}/all", "1")
        self.wait([f"{key}/all"], timeout or self.timeout)

    def has_extended_api(self) -> bool:
        """Return whether append, multi_get and multi_set are one request each; False in a class of one's own."""
        return False


# methods that the core's stores have in the same form
_SAME = "set get add compare_set check delete_key num_keys append multi_get multi_set queue_push queue_len".split()


class _NativeStore(Store):
    """Wrap a store of the core and hold its timeout."""

    if TYPE_CHECKING:  # what the core does, of _SAME

        def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes: ...
        def check(self, keys: Sequence[str]) -> bool: ...
        def delete_key(self, key: str) -> bool: ...
        def num_keys(self) -> int: ...
        def queue_push(self, key: str, value: str | bytes) -> None: ...
        def queue_len(self, key: str) -> int: ...

    def __init__(self, native: Any) -> None:
        self._native = native
        for name in _SAME:
            # Bound methods of the core as attributes, which saves a Python call for each request.
            setattr(self, name, getattr(native, name))

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__}: a connection is not pickled; every process makes its own")

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait, a timedelta."""
        return datetime.timedelta(seconds=self._native.timeout())

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait.

        Args:
            timeout: a timedelta.
        """
        self._native.timeout(_seconds("set_timeout", timeout))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Args:
            keys: a list of str.
            timeout: how long, a timedelta. Default: that of the store. DistStoreError when they do not come in time.
        """
        self._native.wait(keys, -1.0 if timeout is None else _seconds("wait", timeout))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the oldest value of a queue, which `queue_push(key, value)` fills and `queue_len(key)` measures.

        Args:
            key: a str, the name of the queue.
            block: whether it waits for a value. Else QueueEmptyError where there is none.
        """
        return self._native.queue_pop(key, block)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` processes have called it with this key, which serves once.

        Args:
            key: a str.
            world_size: how many.
            timeout: how long, a timedelta. Default: that of the store.
        """
        self._native.barrier(key, world_size, -1.0 if timeout is None else _seconds("barrier", timeout))

    def list_keys(self) -> list[str]:
        """Return all keys, in no order."""
        return [key.decode() for key in self._native.list_keys()]

    def has_extended_api(self) -> bool:
        """Return True: append, multi_get and multi_set are one request each."""
        return True

    def clone(self) -> Self:
        """Return the same store by a connection of its own, for another thread."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        _NativeStore.__init__(made, self._native.clone())
        return made


class HashStore(_NativeStore):
    """Hold keys and values in this process, for its threads. The class has all methods of `Store`, and queues.

    >>> store = torch.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.queue_push("queue", "first"), store.queue_len("queue"), store.queue_pop("queue")
    (None, 1, b'first')
    >>> other = store.clone()
    >>> other.get("key"), other.list_keys(), other.num_keys()
    (b'value', ['key'], 1)
    """

    def __init__(self) -> None:
        super().__init__(_C._hash_store())


class FileStore(_NativeStore):
    """Hold keys and values in a file, for processes that share a directory.

    Args:
        file_name: a file that is not there yet.
        world_size: how many processes will use it; the last one to end removes the file. Without it, nobody does.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = torch.distributed.FileStore(os.path.join(folder.name, "store"), 1)
    >>> store.set("key", "value")
    >>> store.get("key"), store.list_keys()
    (b'value', ['key'])
    >>> store.queue_push("queue", "first")
    >>> store.queue_pop("queue")
    b'first'
    >>> store.clone().get("key")
    b'value'
    >>> del store
    >>> folder.cleanup()
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1) -> None:
        self.path: str = os.fspath(file_name)
        super().__init__(_C._file_store(self.path, world_size))


class TCPStore(_NativeStore):
    """Hold keys and values in one process, the master, which serves them to others over TCP.

    It listens on the addresses of `host_name` only, or on FACULA_STORE_BIND. Where FACULA_STORE_TOKEN is set, clients without
    the same one are refused.

    Args:
        host_name, port: where the master listens; port 0 lets it choose.
        world_size: how many processes come, the master too; None if that is not known.
        is_master: whether this process serves.
        timeout: how long `get` and `wait` wait, and connecting.
        wait_for_workers: whether the master waits for all of them.
        multi_tenant: whether a server of this process on that port is used instead of a new one.
        master_listen_fd: a socket that listens already, which becomes the store's.
        use_libuv: read by programs; there is one server.

    Errors: DistNetworkError where nobody listens, or the port is taken.

    >>> server = torch.distributed.TCPStore("localhost", 0, is_master=True)
    >>> client = torch.distributed.TCPStore("localhost", server.port)
    >>> client.set("key", "value")
    >>> server.get("key")
    b'value'
    """

    host: Any
    port: Any

    def __init__(self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
                 timeout: Any = default_store_timeout, wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True, *, _token: Any = None) -> None:  # fmt: skip
        self.libuvBackend: bool = bool(use_libuv)
        super().__init__(
            _C._tcp_store(
                host_name, port, -1 if world_size is None else world_size, is_master, _seconds("TCPStore", timeout),
                wait_for_workers, multi_tenant, -1 if master_listen_fd is None else master_listen_fd, _token,
            )
        )  # fmt: skip
        self.host, self.port = self._native.address()

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"


class PrefixStore(_NativeStore):
    """View the part of a store whose keys begin with `prefix` and a slash, so that several uses of a store do not
    conflict.

    Args:
        prefix: a str.
        store: a Store; TypeError for anything else.

    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.PrefixStore("mine", store).set("key", "value")
    >>> store.get("mine/key")
    b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self.underlying_store: Store = store
        super().__init__(_C._prefix_store(prefix, native_of(store)))

    @property
    def _underlying_non_prefix_store(self):
        below = self.underlying_store
        return below._underlying_non_prefix_store if isinstance(below, PrefixStore) else below


def native_of(store: Store) -> Any:
    """Return what the core uses of a store, which may be of the program's own class."""
    if not isinstance(store, Store):
        raise TypeError(f"store: expected a Store, got {type(store).__name__}")
    return store._native if isinstance(store, _NativeStore) else _C._python_store(store)
