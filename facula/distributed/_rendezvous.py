"""Find the other processes: the store that init_process_group uses, and the number of processes."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlparse

from facula import _C

from . import _launchers
from ._errors import DistBackendError, DistNetworkError, DistStoreError
from ._store import FileStore, PrefixStore, Store, TCPStore

if TYPE_CHECKING:
    from typing import Any

#: scheme of URLs -> a program's own way to meet (`rendezvous.register_rendezvous_handler`)
handlers: dict[Any, Any] = {}

_SLICE = 0.2  # seconds between looks whether somebody has gone

# Stores by address: a process that makes its group anew finds the same server, and keys with another prefix.
_stores: dict[tuple[Any, ...], Store] = {}
_times: dict[int, int] = {}


def _number(name, given, variables, caller):
    if given >= 0:
        return given
    found = _launchers.number(variables)
    if found is None:
        told = f", or be in the environment as {variables[0]}" if variables else ""
        raise ValueError(f"{caller}: {name} must be given{told}, got {given}")
    return found


def place(init_method, world_size, rank, store, caller="init_process_group"):
    """Return (world size, rank) from the arguments, the URL or the environment."""
    scheme = "store"
    if store is None:
        url = urlparse(init_method or "env://")
        scheme = url.scheme
        if scheme not in ("env", "tcp", "file"):
            raise RuntimeError(f"{caller}: expected env://, tcp:// or file://, got {init_method!r}")
        query = {key: int(values[0]) for key, values in parse_qs(url.query).items() if key in ("rank", "world_size")}
        rank, world_size = query.get("rank", rank), query.get("world_size", world_size)
    names = _launchers.NAMES if scheme == "env" else []
    rank = _number("rank", rank, [n.rank for n in names], caller)
    size = _number("world_size", world_size, [n.size for n in names], caller)
    if rank >= size:
        raise ValueError(f"{caller}: rank must be below world_size {size}, got {rank}")
    return size, rank


def _served_by_launcher():
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _tcp(host, port, rank, timeout):
    key = (host, port)
    if key not in _stores:
        # A launcher that holds the store outlives the processes, so that none of them must serve it.
        holds = rank == 0 and not _served_by_launcher()
        try:
            _stores[key] = TCPStore(host, port, None, holds, timeout, multi_tenant=True)
        except DistNetworkError as error:
            raise _holder_is_gone(error) from None
    return _stores[key]


def _from_environment(name):
    if name not in os.environ:
        raise ValueError(f"init_process_group: env:// needs the environment variable {name}, got none")
    return os.environ[name]


def _store_of_environment(size, rank, timeout):
    if "MASTER_ADDR" not in os.environ:
        found = _launchers.meeting(rank, size, timeout)
        if found is not None:
            return _tcp(*found, rank, timeout) if isinstance(found, tuple) else found
    address = _from_environment("MASTER_ADDR")
    return _tcp(address, int(_from_environment("MASTER_PORT")), rank, timeout)


def open_store(init_method, size, rank, timeout):
    """Return the store that a URL names."""
    url = urlparse(init_method or "env://")
    if url.scheme == "env":
        # a launcher that starts processes again, perhaps with others, must not show them keys of the time before
        attempt = os.environ.get("FACULA_STORE_PREFIX") or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(f"attempt{attempt}", _store_of_environment(size, rank, timeout))
    if url.scheme == "tcp":
        if not url.hostname or url.port is None:
            raise ValueError(f"init_process_group: tcp:// needs an address and a port, got {init_method!r}")
        return _tcp(url.hostname, url.port, rank, timeout)
    path = url.netloc + url.path
    if not path:
        raise ValueError(f"init_process_group: file:// needs a path, got {init_method!r}")
    if path not in _stores:
        _stores[path] = FileStore(path, size)
    return _stores[path]


def _below(store):
    return _below(store.underlying_store) if isinstance(store, PrefixStore) else store


def _once_more(store):
    """Return the store with a prefix that tells this meeting from earlier ones."""
    key = id(_below(store))
    _times[key] = _times.get(key, 0) + 1
    return PrefixStore(f"world{_times[key]}", store)


def _refuse(store, rank, why):
    """Raise RuntimeError; the ranks that wait already hear it as well."""
    store.set("refused", f"rank {rank}: {why}")
    raise RuntimeError(f"init_process_group: {why}")


def _agree(store, rank, what, value):
    # The first process sets the value; all others compare theirs with it.
    found = store.compare_set(what, "", value).decode()
    if found != value:
        _refuse(store, rank, f"all processes need one {what}, another has {found}, got {value}")


@contextlib.contextmanager
def within(store, timeout):
    """Bound requests, for who holds the store may hang: none to a store of the core takes longer than all of it may."""
    native = getattr(_below(store), "_native", None)
    if native is not None:
        native.until(timeout.total_seconds())
    try:
        yield
    finally:
        if native is not None:
            native.until(-1)


def meet(store, size, rank, timeout):
    """Wait for all ranks; return a store of the core by TCP, which tells when one of them is gone."""
    store = _once_more(store)
    store.set_timeout(timeout)
    try:
        return _meet(store, size, rank, timeout)
    except DistNetworkError as error:
        raise _holder_is_gone(error) from None
    except RuntimeError:
        if rank == 0:  # which may hold the store: the others are still to read there why
            time.sleep(2 * _SLICE)
        raise


def _meet(store, size, rank, timeout):
    from facula import __version__

    _agree(store, rank, "world_size", str(size))
    _agree(store, rank, "version", __version__)
    # add is atomic, so exactly one of two processes with the same rank reads 1.
    if store.add(f"rank{rank}", 1) != 1:
        _refuse(store, rank, f"two processes say that they are rank {rank} of {size}, each has its own")
    connected = isinstance(_below(store), TCPStore)
    if connected:
        _C._dist_announce(store._native, rank)
    store.set(f"here{rank}", socket.gethostname())
    everybody = [f"here{r}" for r in range(size)]
    try:
        _wait_for_all(store, everybody, timeout, connected)
    except DistStoreError:
        why = _who_is_missing(store, size, timeout)
        store.set("refused", f"rank {rank}: {why}")  # for those whose deadline is later than the end of this process
        raise DistStoreError(f"init_process_group: {why}") from None
    if connected:
        return store
    # Other kinds of stores do not notice when a process dies, and later operations need to know it.
    beside = _tcp_beside(store, everybody, rank, timeout)
    _C._dist_announce(beside._native, rank)
    return beside


def _holder_is_gone(error):
    """Return what a store by TCP says of its connection, as an error of init_process_group."""
    text = str(error)
    holder = "the launcher" if _served_by_launcher() else "rank 0"
    if "or one that is ending" in text:
        return DistNetworkError(f"init_process_group: {holder}, which holds the store, is gone, or was never there: {text}")
    if not text.startswith("store: "):  # there was none
        return DistNetworkError(f"init_process_group: {text}")
    state = "does not answer" if "may hang" in text else "is gone"
    return DistNetworkError(f"init_process_group: {holder}, which holds the store, {state}: {text}")


def _who_is_missing(store, size, timeout):
    missing = [r for r in range(size) if not store.check([f"here{r}"])]
    came = f"{size - len(missing)} of {size} ranks came within {timeout.total_seconds():g} s"
    text = f"rank{'s' * (len(missing) > 1)} {' '.join(map(str, missing))}"
    return f"{came}, missing: {text}"


def _wait_for_all(store, everybody, timeout, connected):
    """Wait in slices, in which one that has gone is noticed."""
    deadline = time.monotonic() + timeout.total_seconds()
    while connected and deadline - time.monotonic() > _SLICE:
        try:
            return store.wait(everybody, datetime.timedelta(seconds=_SLICE))
        except DistStoreError:
            if store.check(["refused"]):
                raise DistBackendError(f"init_process_group: {store.get('refused').decode()}") from None
            if gone := _C._dist_lost(store._native):
                raise DistBackendError(f"init_process_group: {gone}") from None
    store.wait(everybody, datetime.timedelta(seconds=max(0.0, deadline - time.monotonic())))


def _tcp_beside(store, everybody, rank, timeout):
    """Return a TCP store of rank 0, for ranks that have met by another one."""
    if rank:
        return _launchers.connect(store.get("tcp").decode(), timeout)
    served, where = _launchers.serve(len(set(store.multi_get(everybody))) == 1, timeout)
    store.set("tcp", where)
    return served


def look_for_mpi():
    """Tell the core where the `mpich` package has its library."""
    try:
        package = importlib.metadata.distribution("mpich")
    except importlib.metadata.PackageNotFoundError:
        return
    names = ("libmpi_abi.1.dylib",) if sys.platform == "darwin" else ("libmpi_abi.so.1", "libmpi_abi.so.0")
    found = [str(Path(file.locate()).resolve()) for file in package.files or () if file.name in names]
    _C._dist_mpi_candidates(found)


def seconds(timeout, default):
    """Return a timedelta, or None for the default, as seconds."""
    timeout = default if timeout is None else timeout
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"timeout: expected a datetime.timedelta, got {type(timeout).__name__}")
    return timeout.total_seconds()
