"""Implement references to values of other workers, and track who holds them.

The owner of a value keeps it as long as a fork is known: every RRef of another worker is one, with a number of its own.
A worker that sends on an RRef keeps its own until the receiver's fork is known to the owner (ACCEPT), so that the owner
never sees the last one go while another is on its way:

    user A sends to user B:   A keeps its fork -> B tells the owner FORK -> the owner answers FORKED -> B tells A ACCEPT
    the owner sends to B:     the owner writes the fork down as it sends
    anyone sends to the owner: the owner answers ACCEPT
    the last RRef of a fork goes: DELETE

Forks of a worker that is lost are deleted.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from facula.futures import Future

from . import _kinds as kinds
from . import _profiling, _wire

if TYPE_CHECKING:
    from typing import Any


T = TypeVar("T")
_agent = None  # the worker that this process is; api.py sets it
CALLS: dict[str, Any] = {}  # functions of api.py, which knows this file


def agent_for(what):
    """Return the worker that this process is; RuntimeError when it is none."""
    if _agent is None:
        raise RuntimeError(f"{what}: RPC has not been initialized, call init_rpc first")
    return _agent


class Owned:
    """Hold a value that this worker owns, or will own when the call that makes it has ended."""

    def __init__(self, number):
        self.number = number
        self.future = Future()
        self.forks: dict[tuple[Any, ...], int] = {}  # which worker holds it, by fork


class References:
    """Track the RRefs that an agent owns, uses and is sending."""

    def __init__(self, agent):
        self.agent = agent
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.owned: dict[tuple[Any, ...], Owned] = {}  # those with forks, or whose call has not come
        self.weakly = weakref.WeakValueDictionary()  # all
        self.children: dict[tuple, tuple[Any, ...]] = {}  # forks that others are being given: (who, the RRef they come from)
        self.forking: dict[tuple, tuple] = {}  # forks of this worker that the owner has not confirmed: (parent, RRef, weakly)
        self.users = weakref.WeakSet()

    def new_number(self):
        return self.agent.rank, next(self._numbers)

    def new_owned(self):
        owned = Owned(self.new_number())
        with self._lock:
            self.weakly[owned.number] = owned
        return owned

    def find(self, number):
        """Return what this worker owns under the number; it may be that the call that makes it comes later."""
        with self._lock:
            owned = self.weakly.get(number)
            if owned is None:
                # A fetch may overtake the call that makes the value, if they come over different connections.
                owned = self.weakly[number] = self.owned[number] = Owned(number)
            return owned

    def own(self, number, fork, holder):
        """Return what `find` gives, and `holder` has a fork of it."""
        owned = self.find(number)
        with self._lock:
            owned.forks[fork] = holder
            self.owned[number] = owned
        return owned

    def drop(self, number, fork):
        with self._lock:
            owned = self.owned.get(number)
            if owned is None:
                return
            owned.forks.pop(fork, None)
            if not owned.forks:
                del self.owned[number]
        # `owned` goes here, outside the lock: the value's destructor may be a long story

    # ---- sending RRefs

    def pickled(self, rref):
        sending = _wire.sending()
        if sending is None or sending.agent is not self.agent:
            raise RuntimeError("RRef: an RRef is pickled only in calls between workers, got another pickle")
        fork, number, me = self.new_number(), rref._number, self.agent.rank
        if rref._owner == me:
            self.own(number, fork, sending.to)
            # This is undone if pickling fails later, as no worker would ever release the fork.
            sending.forks.append(lambda: self.drop(number, fork))
        else:
            with self._lock:
                # The RRef stays alive here until the owner knows of the fork: otherwise its deletion could arrive first
                # and free the value.
                self.children[fork] = (sending.to, rref)
            sending.forks.append(lambda: self.children.pop(fork, None))
        return _received, (rref._owner, number, fork, me)

    def received(self, owner, number, fork, parent):
        agent = self.agent
        if owner == agent.rank:
            rref = RRef._of_owner(agent, self.find(number))
            if parent == owner:
                self.drop(number, fork)
            else:
                agent.tell(parent, kinds.ACCEPT, {"fork": fork})
            return rref
        rref = RRef._of_user(agent, owner, number, fork)
        if parent == owner:
            rref._created.set_result(None)
        else:
            with self._lock:
                # Weakly: this table must not keep an RRef alive that the program has dropped.
                self.forking[fork] = (parent, weakref.ref(rref))
            agent.tell(owner, kinds.FORK, {"rref": number, "fork": fork})
        return rref

    # ---- what others tell

    def on_fork(self, source, frame):
        self.own(frame.about["rref"], frame.about["fork"], source)
        self.agent.tell(source, kinds.FORKED, {"fork": frame.about["fork"]})

    def on_forked(self, _source, frame):
        fork = frame.about["fork"]
        with self._lock:
            parent, weak = self.forking.pop(fork)
        rref = weak()
        if rref is not None:
            rref._created.set_result(None)
        self.agent.tell(parent, kinds.ACCEPT, {"fork": fork})

    def on_accept(self, _source, frame):
        with self._lock:
            kept = self.children.pop(frame.about["fork"], None)
        del kept  # outside the lock

    def on_delete(self, _source, frame):
        self.drop(frame.about["rref"], frame.about["fork"])

    def lost(self, rank):
        """Let go what a worker held that is gone."""
        gone = []
        with self._lock:
            for number, owned in list(self.owned.items()):
                for fork in [f for f, holder in owned.forks.items() if holder == rank]:
                    del owned.forks[fork]
                if not owned.forks:
                    gone.append(self.owned.pop(number))
            for fork in [f for f, (to, _) in self.children.items() if to == rank]:
                gone.append(self.children.pop(fork))
        del gone

    def close(self):
        """Let everything go."""
        with self._lock:
            held = self.owned, self.children
            self.owned, self.children, self.forking = {}, {}, {}
        del held

    def debug_info(self):
        with self._lock:
            return {
                "num_owner_rrefs": str(len(self.owned)),
                "num_pending_children": str(len(self.children)),
                "num_pending_users": str(len(self.forking)),
                "num_forks": str(sum(len(o.forks) for o in self.owned.values())),
            }


def _received(owner, number, fork, parent):
    return agent_for("RRef").references.received(owner, number, fork, parent)


class RRef(Generic[T]):
    """Refer to a value that one worker, its owner, holds. PyRRef is another name of it.

    It can be sent to other workers, in calls; the owner keeps the value until the last RRef of it is gone.

    Args:
        value: a value of this worker, which becomes its owner. `remote` makes values of other workers.
        type_hint: read by TorchScript, which is not here; None.

    >>> from torch.distributed import rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> made = rpc.remote("me", torch.add, args=(torch.ones(2), 1))
    >>> made.to_here()
    tensor([2., 2.])
    >>> made.owner(), made.owner_name(), made.is_owner(), made.confirmed_by_owner()
    (WorkerInfo(id=0, name=me), 'me', True, True)
    >>> rpc.RRef("text").local_value()
    'text'
    >>> made.rpc_sync().sum(), made.rpc_async().sum().wait(), made.remote().sum().to_here()
    (tensor(4.), tensor(4.), tensor(4.))
    >>> x = torch.ones(2, requires_grad=True)
    >>> rpc.RRef((x * 3).sum()).backward()
    >>> x.grad
    tensor([3., 3.])
    >>> rpc.shutdown()
    """

    def __init__(self, value: Any, type_hint: Any = None) -> None:
        if type_hint is not None:
            raise RuntimeError(f"RRef: a type_hint is for TorchScript modules, got {type_hint!r}")
        agent = agent_for("RRef")
        self._become(agent, agent.rank, agent.references.new_owned())
        self._owned.future.set_result(value)

    def _become(self, agent, owner, owned, number=None, fork=None):
        self._agent, self._owner, self._owned = agent, owner, owned
        self._number = owned.number if owned is not None else number
        self._fork = fork
        self._created, self._type = Future(), None
        if owned is not None:
            self._created.set_result(None)

    @classmethod
    def _of_owner(cls, agent, owned):
        made = object.__new__(cls)
        made._become(agent, agent.rank, owned)
        return made

    @classmethod
    def _of_user(cls, agent, owner, number, fork):
        made = object.__new__(cls)
        made._become(agent, owner, None, number, fork)
        return made

    def __del__(self) -> None:
        if getattr(self, "_fork", None) is not None:
            self._agent.tell(self._owner, kinds.DELETE, {"rref": self._number, "fork": self._fork})

    def __reduce__(self) -> Any:
        return self._agent.references.pickled(self)

    def __repr__(self) -> str:
        if self._owned is not None:
            return f"OwnerRRef({self._number[0]}:{self._number[1]})"
        return f"UserRRef({self._number[0]}:{self._number[1]}, fork {self._fork[0]}:{self._fork[1]}, owner {self.owner()})"

    def owner(self) -> Any:
        """Return the WorkerInfo of the owner."""
        return self._agent.worker(self._owner)

    def owner_name(self) -> Any:
        """Return the name of the owner."""
        return self.owner().name

    def is_owner(self) -> bool:
        """Return whether this worker is the owner."""
        return self._owned is not None

    def confirmed_by_owner(self) -> bool:
        """Return whether the owner knows of this RRef."""
        return self._created.done() and self._created._error is None

    def local_value(self) -> Any:
        """Return the value, on its owner; wait for the call that makes it, and raises its exception. RuntimeError on other
        workers.
        """
        if self._owned is None:
            here = self._agent.info
            raise RuntimeError(f"RRef.local_value: only the owner, {self.owner()}, has the value (use to_here), got {here}")
        return self._owned.future.wait()

    def to_here(self, timeout: float = -1.0) -> Any:
        """Return the value, copied from its owner; wait for the call that makes it, and raises its exception.

        Args:
            timeout: seconds; by default the one that init_rpc was given, 0 is for ever.
        """
        if self._owned is not None:
            return self._owned.future.wait()
        self._check_created()
        agent = self._agent
        with _profiling.range_of(lambda: f"to_here#({agent.info.name})->({self.owner_name()})"):
            value = agent.call(self._owner, kinds.FETCH, None, "to_here", timeout, {"rref": self._number}).wait()
        self._created.wait()  # the owner knows of this RRef: its word to that effect is on the way
        return value

    def _get_type(self, timeout=-1.0, blocking=True):
        """Return the type of the value, which is asked for once; a Future of it, if not blocking."""
        if self._type is None:
            if self._owned is not None:
                self._type = self._owned.future.then(lambda made: type(made.value()))
            else:
                self._check_created()
                self._type = CALLS["rpc_async"](self._owner, _type_there, (self,), timeout=timeout)
        return self._type.wait() if blocking else self._type

    def _get_future(self):
        """Return a Future that is done when the owner knows of this RRef, or has failed to make the value."""
        return self._created

    def _check_created(self):
        if self._created.done():
            self._created.value()

    def _invoke(self, name, arguments, options, timeout):
        self._check_created()
        agent = self._agent
        about, what = {"rref": self._number}, f"{name} of an RRef"
        return agent.call(self._owner, kinds.INVOKE, (name, arguments, options), what, timeout, about)

    def rpc_sync(self, timeout: float = -1.0) -> Any:
        """Return a stand-in for the value: its methods run on the owner and give their results.

        Args:
            timeout: seconds of each call; by default the one that init_rpc was given, 0 is for ever.
        """
        return _Methods(self, lambda name, *given: self._invoke(name, *given, timeout).wait())

    def rpc_async(self, timeout: float = -1.0) -> Any:
        """Return a stand-in for the value: its methods run on the owner and give futures of their results.

        Args:
            timeout: seconds of each call; by default the one that init_rpc was given, 0 is for ever.
        """
        return _Methods(self, lambda name, *given: self._invoke(name, *given, timeout))

    def remote(self, timeout: float = -1.0) -> Any:
        """Return a stand-in for the value: its methods run on the owner, and give RRefs of what stays there.

        Args:
            timeout: seconds of each call; by default the one that init_rpc was given, 0 is for ever.
        """
        def call(name, arguments, options):
            return CALLS["remote"](self._owner, _invoked, (self, name, *arguments), options, timeout)

        return _Methods(self, call)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Run backward from the value, a tensor, on its owner.

        Args:
            dist_autograd_ctx_id: in the context of distributed autograd with this number; the owner's own autograd for -1.
            retain_graph: keeps the graph for another pass.
        """
        if self._owned is None:
            CALLS["rpc_sync"](self._owner, _backward_there, (self, dist_autograd_ctx_id, retain_graph))
        else:
            _backward_there(self, dist_autograd_ctx_id, retain_graph)


class _Methods:
    """Call the methods of the object that an RRef refers to."""

    def __init__(self, rref, call):
        self._rref, self._call = rref, call

    def __getattr__(self, name):
        if name.startswith("__") and name != "__call__":
            raise AttributeError(name)
        return functools.partial(self._called, name)

    def __call__(self, *arguments, **options):
        return self._called("__call__", *arguments, **options)

    def _called(self, name, /, *arguments, **options):
        return self._call(name, arguments, options)


def _invoked(rref, name, /, *arguments, **options):
    return getattr(rref.local_value(), name)(*arguments, **options)


def _type_there(rref):
    return type(rref.local_value())


def _backward_there(rref, context_id, retain_graph):
    import facula

    value = rref.local_value()
    if not isinstance(value, facula.Tensor):
        raise RuntimeError(f"RRef.backward: the value must be a Tensor, got {type(value).__name__}")
    if context_id == -1:
        value.backward(retain_graph=retain_graph)
    else:
        CALLS["backward"](context_id, [value], retain_graph)
