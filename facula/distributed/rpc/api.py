"""Call functions in other processes, which are connected by `init_rpc`."""

from __future__ import annotations

import enum
import functools
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from .. import _rendezvous
from .._store import PrefixStore, default_store_timeout
from . import _kinds as kinds
from . import _profiling, _rref, constants
from ._agent import Agent
from ._rref import RRef, agent_for
from ._workers import WorkerInfo
from .options import TensorPipeRpcBackendOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Event

__all__ = [
    "AllGatherStates", "BackendType", "RRef", "WorkerInfo", "get_rpc_timeout", "get_worker_info", "init_rpc", "method_factory",
    "new_method", "remote", "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip

_lock = threading.Lock()
_meetings = 0


class BackendType(enum.Enum):
    """Name the transport of calls: sockets, under the name of PyTorch's backend.

    >>> torch.distributed.rpc.BackendType["TENSORPIPE"]
    <BackendType.TENSORPIPE: 'TENSORPIPE'>
    """

    TENSORPIPE = "TENSORPIPE"


class AllGatherStates:
    """Hold the state of a gathering in its leader: the objects so far (`gathered_objects`), and whether all have come
    (`proceed_signal`). It is a name of PyTorch's helper; the agent gathers in another way.

    >>> torch.distributed.rpc.AllGatherStates().gathered_objects
    {}
    """

    def __init__(self):
        self.gathered_objects: dict[Any, Any] = {}
        self.proceed_signal: Event = threading.Event()


def _checked(name, backend, options):
    if not isinstance(name, str) or not name or len(name) > 128 or any(c.isspace() for c in name):
        raise ValueError(f"init_rpc: a name is a str of up to 128 characters without spaces, got {name!r}")
    if backend is not None and backend is not BackendType.TENSORPIPE:
        raise TypeError(f"init_rpc: backend is BackendType.TENSORPIPE or None, got {backend!r}")
    if options is None:
        return TensorPipeRpcBackendOptions()
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError(f"init_rpc: expected TensorPipeRpcBackendOptions, got {type(options).__name__}")
    return options


def _host_of(init_method):
    """Return the host of the store, by which this machine's own address is found; None for a file."""
    url = urlparse(init_method)
    if url.scheme == "env":
        return os.environ.get("MASTER_ADDR", os.environ.get("SLURM_LAUNCH_NODE_IPADDR"))
    return url.hostname if url.scheme == "tcp" else None


def init_rpc(name: str, backend: str | None = None, rank: int = -1, world_size: int | None = None,
             rpc_backend_options: Any = None) -> None:  # fmt: skip
    """Make this process a worker and wait until all of them are there. `shutdown` ends it.

    Args:
        name: how others call it, up to 128 characters without spaces.
        backend: BackendType.TENSORPIPE or None.
        rank, world_size: which of how many workers this is; from the environment with the init_method "env://".
        rpc_backend_options: a TensorPipeRpcBackendOptions.

    Errors: RuntimeError where this process is a worker already; ValueError for such a name, and where it is not known how many
    workers there are; TypeError for another backend or options.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> rpc.rpc_sync("me", max, args=(3, 5))
    5
    >>> rpc.shutdown()
    """
    global _meetings
    options = _checked(name, backend, rpc_backend_options)
    with _lock:
        if _rref._agent is not None:
            raise RuntimeError(f"init_rpc: this process is a worker already, {_rref._agent.info}, got {name!r}")
        size, rank = _rendezvous.place(options.init_method, -1 if world_size is None else world_size, rank, None, "init_rpc")
        timeout = max(default_store_timeout, timedelta(seconds=options.rpc_timeout))
        agent = Agent(name, rank, size, options, _autograd())
        try:
            if size == 1:
                agent.alone()
            else:
                store = _rendezvous.open_store(options.init_method, size, rank, timeout)
                _meetings += 1
                store = PrefixStore(f"rpc{_meetings}", store)
                store.set_timeout(timeout)
                _rref._agent = agent
                agent.meet(store, _host_of(options.init_method), timeout.total_seconds())
        except BaseException:
            _rref._agent = None
            agent.close(graceful=False)  # after what others are being told
            raise
        _rref._agent = agent


def _autograd():
    from ..autograd import _context

    return _context


def shutdown(graceful: bool = True, timeout: float = constants.DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """End this worker. RuntimeError where it is none.

    Args:
        graceful: first waits until no worker has a call to answer; all of them must call it so. RRefs end with it.
        timeout: seconds that this may take; 0 is for ever.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> rpc.shutdown()
    """
    agent = agent_for("shutdown")
    try:
        if graceful:
            agent.finish_together(timeout)
    finally:
        with _lock:
            _rref._agent = None
        agent.close(graceful)
        _autograd().forget_all()


def _leave_to_parent():
    agent, _rref._agent = _rref._agent, None
    if agent is not None:
        agent.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def get_worker_info(worker_name: Any = None) -> Any:
    """Return the WorkerInfo of a worker; of this one without a name.

    Args:
        worker_name: its name. RuntimeError for one that is not there.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> rpc.get_worker_info()
    WorkerInfo(id=0, name=me)
    >>> rpc.shutdown()
    """
    agent = agent_for("get_worker_info")
    return agent.info if worker_name is None else agent.worker(worker_name)


def get_rpc_timeout() -> Any:
    """Return the seconds that a call may take, where it says nothing itself; 0 is for ever.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> rpc.get_rpc_timeout()
    60.0
    >>> rpc.shutdown()
    """
    return agent_for("get_rpc_timeout").timeout


def _set_rpc_timeout(seconds):
    agent_for("_set_rpc_timeout").timeout = float(seconds)


def _is_current_rpc_agent_set():
    return _rref._agent is not None


def _get_current_rpc_agent():
    return agent_for("_get_current_rpc_agent")


def _require_initialized(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        agent_for(function.__name__)
        return function(*args, **kwargs)

    return wrapper


def _started(name, to, func, args, kwargs, timeout, kind, about=None):
    agent = agent_for(name)
    to = agent.worker(to, name)
    if not callable(func):
        raise TypeError(f"{name}: expected a function, got {type(func).__name__}")
    what = f"{name} of {getattr(func, '__qualname__', None) or type(func).__qualname__}"
    return agent.call(to.id, kind, (func, tuple(args or ()), dict(kwargs or {})), what, timeout, about)


def _range(kind, to, func):
    agent = agent_for(kind)
    return _profiling.range_of(
        lambda: _profiling.call_name(kind, func, agent.info.name, agent.worker(to, kind).name),
    )


def rpc_sync(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
             timeout: float = constants.UNSET_RPC_TIMEOUT) -> Any:  # fmt: skip
    """Run func(*args, **kwargs) on another worker and return its result; what it raises is raised here, with its traceback in
    the text.

    Arguments and results are copied, as pickles; tensors with gradients are recorded in a `distributed.autograd.context`.

    Args:
        to: name, rank or WorkerInfo.
        func: what can be pickled; tensors of the CPU and NumPy arrays are sent without copies.
        args, kwargs: its arguments.
        timeout: seconds; by default the one that init_rpc was given, 0 is for ever.

    Errors: RuntimeError before init_rpc, after the timeout, and when the other worker is lost.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> rpc.rpc_sync("me", torch.add, args=(torch.ones(2), 1))
    tensor([2., 2.])
    >>> rpc.shutdown()
    """
    with _range("rpc_sync", to, func):
        return _started("rpc_sync", to, func, args, kwargs, timeout, kinds.CALL).wait()


def rpc_async(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
              timeout: float = constants.UNSET_RPC_TIMEOUT) -> Any:  # fmt: skip
    """Return a Future of func(*args, **kwargs) on another worker.

    Args:
        to: name, rank or WorkerInfo.
        func: what can be pickled; tensors of the CPU and NumPy arrays are sent without copies.
        args, kwargs: its arguments.
        timeout: seconds; by default the one that init_rpc was given, 0 is for ever.

    Errors: RuntimeError before init_rpc; what fails later is raised by `wait`.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> futures = [rpc.rpc_async("me", torch.add, args=(torch.ones(2), i)) for i in range(2)]
    >>> torch.futures.wait_all(futures)
    [tensor([1., 1.]), tensor([2., 2.])]
    >>> rpc.shutdown()
    """
    with _range("rpc_async", to, func):
        return _started("rpc_async", to, func, args, kwargs, timeout, kinds.CALL)


def remote(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None,
           timeout: float = constants.UNSET_RPC_TIMEOUT) -> RRef:  # fmt: skip
    """Return an RRef of func(*args, **kwargs), which stays on the worker that makes it.

    Args:
        to: name, rank or WorkerInfo.
        func: what can be pickled, such as a class.
        args, kwargs: its arguments.
        timeout: seconds; by default the one that init_rpc was given, 0 is for ever. What fails is raised by to_here.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> layer = rpc.remote("me", nn.Linear, args=(4, 2))
    >>> layer.rpc_sync().forward(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    >>> rpc.shutdown()
    """
    agent = agent_for("remote")
    with _range("rpc_remote", to, func):
        to = agent.worker(to, "remote")
        references = agent.references
        number, fork = references.new_number(), references.new_number()
        if to.id == agent.rank:
            made = RRef._of_owner(agent, references.find(number))
            created = _started("remote", to, func, args, kwargs, timeout, kinds.REMOTE, {"rref": number, "fork": fork})
            references.drop(number, fork)
            created.add_done_callback(lambda _: None)
            return made
        created = _started("remote", to, func, args, kwargs, timeout, kinds.REMOTE, {"rref": number, "fork": fork})
        made = RRef._of_user(agent, to.id, number, fork)
        made._created = created
        return made


def _all_gather(obj, worker_names=None, timeout=constants.UNSET_RPC_TIMEOUT):
    """Return the objects of all workers (or those named), which all call it, by name."""
    agent = agent_for("_all_gather")
    for name in worker_names or ():
        agent.worker(name, "_all_gather")
    return agent.gather("_all_gather", obj, timeout, worker_names)


def _barrier(worker_names):
    _all_gather(None, set(worker_names))


def _wait_all_workers(timeout=constants.DEFAULT_SHUTDOWN_TIMEOUT):
    agent_for("_wait_all_workers").finish_together(timeout)


def _rref_context_get_debug_info():
    return agent_for("_rref_context_get_debug_info").references.debug_info()


def new_method(cls: type, func_name: Any) -> Any:
    """Return PyTorch's helper for methods of RRef that call the class's own.

    Args:
        cls: the class.
        func_name: the method of its base that is called.

    >>> from torch.distributed.rpc import new_method
    >>> class Loud(str):
    ...     pass
    >>> Loud.upper = new_method(Loud, "upper")
    >>> Loud("text").upper()
    'TEXT'
    """

    def method(self, *args, **kwargs):
        return getattr(super(cls, self), func_name)(*args, **kwargs)

    return method


def method_factory(method_name: str, docstring: Any) -> Any:
    """Return PyTorch's helper for methods of RRef that call the class's own, with a docstring.

    Args:
        method_name: the method of RRef's base that is called.
        docstring: the docstring.

    >>> from torch.distributed.rpc import method_factory
    >>> method_factory("__str__", "A text.").__doc__
    'A text.'
    """

    def method(self, *args, **kwargs):
        return getattr(super(RRef, self), method_name)(*args, **kwargs)

    method.__doc__ = docstring
    return method


_rref.CALLS.update(
    rpc_sync=rpc_sync, rpc_async=rpc_async, remote=remote, backward=lambda *given: _autograd().backward(*given)
)
