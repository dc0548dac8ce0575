"""Implement the contexts of distributed autograd.

Policy
  - In a context, a message with tensors that require gradients leaves a node on either side: `SendRpc` where it came from,
    whose results stand for what was sent, `RecvRpc` where it went, whose results are what came. The pair has a number.
  - A backward pass has a part on each worker, a `SteppedPass` of the core (src/autograd/engine.h). Its roots are the results
    of all messages that this worker has sent, and on the worker that began it the roots that the program gives. When a
    `RecvRpc` node runs, it sends its gradients to the other worker, whose part goes on with them; the answer comes when all
    that followed is done.
  - A message whose result the pass does not use never gets a gradient, and what waits for it would never run. When all
    answers have come and a worker still waits, the pass follows the nodes from the roots over all workers to find the
    messages that it does use (`explore`), and lets go the others (`settle`).
  - Gradients of leaves are added up in the context, not in `.grad`.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.autograd import Function
from facula.futures import Future, collect_all

from ..rpc import _kinds as kinds
from ..rpc._rref import agent_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

_thread = threading.local()
_contexts: dict[int, DistAutogradContext] = {}
_lock = threading.Lock()
_context_numbers, _message_numbers, _pass_numbers = itertools.count(), itertools.count(), itertools.count()
_nothing = contextlib.nullcontext()


class DistAutogradContext:
    """Hold what one worker has recorded in a context."""

    def __init__(self, number):
        self.number = number
        self.lock = threading.Lock()
        self.sent: dict[int, tuple[Any, ...]] = {}  # by message, the results of its node
        self.known: set[int] = set()  # workers that may know the context from this one
        self.gradients: dict[facula.Tensor, facula.Tensor] = {}
        self.passes: dict[int, _Part] = {}

    def _context_id(self):
        return self.number

    def _known_worker_ids(self):
        return set(self.known)

    def add(self, pairs):
        """Add gradients of leaves."""
        with self.lock, facula.no_grad():
            for leaf, gradient in pairs:
                before = self.gradients.get(leaf)
                self.gradients[leaf] = gradient.clone() if before is None else before + gradient

    def part(self, number, keep_graph, roots=()):
        """Return this worker's part of a pass."""
        with self.lock:
            part = self.passes.get(number)
            if part is None:
                part = self.passes[number] = _Part(self, number, keep_graph, roots)
            return part


def _find(number, what):
    found = _contexts.get(number)
    if found is None:
        raise RuntimeError(f"{what}: there is no autograd context with this number, got {number}")
    return found


def _find_or_make(number):
    with _lock:
        found = _contexts.get(number)
        if found is None:
            found = _contexts[number] = DistAutogradContext(number)
        return found


# ---- what messages leave


class SendRpc(Function):
    """Represent tensors that were sent to another worker, as a node of the graph."""

    @staticmethod
    def forward(_ctx, *tensors):
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(_ctx, *gradients):
        return gradients


class RecvRpc(Function):
    """Represent tensors that came from another worker, to which their gradients return."""

    @staticmethod
    def forward(ctx, source, context, message, *tensors):
        ctx.set_materialize_grads(False)
        ctx.source, ctx.context, ctx.message = source, context, message
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        part = getattr(_thread, "part", None)
        if part is None:
            raise RuntimeError("backward: the graph leads to another worker, call distributed.autograd.backward")
        part.hand_on(ctx.source, ctx.message, gradients)
        return (None,) * (3 + len(gradients))


def current():
    """Return the context of this thread, or None."""
    return getattr(_thread, "context", None)


def record_sent(agent, tensors, to, about):
    """Leave a node for the tensors of a message that require gradients."""
    context = current()
    if context is None:
        return tensors
    places = [i for i, t in enumerate(tensors) if t.requires_grad]
    message = agent.rank << 48 | next(_message_numbers)
    about["autograd"] = context.number, message, places
    context.known.add(to)
    if places:
        with facula.enable_grad():
            results = SendRpc.apply(*(tensors[i] for i in places))
        with context.lock:
            context.sent[message] = results
    return tensors


def record_received(_agent, tensors, source, about):
    """Return the tensors of a message, with the node that sends their gradients back."""
    recorded = about.get("autograd") if about else None
    if recorded is None or not recorded[2]:
        return tensors
    number, message, places = recorded
    with facula.enable_grad():
        results = RecvRpc.apply(source, number, message, *(tensors[i] for i in places))
    tensors = list(tensors)
    for place, result in zip(places, results):
        tensors[place] = result
    return tensors


class _Entered:
    def __init__(self, context):
        self.context = context

    def __enter__(self):
        self.before, _thread.context = current(), self.context

    def __exit__(self, *_):
        _thread.context = self.before


def entered(about):
    """Enter, while a call of another worker runs, the context in which it was made."""
    recorded = about.get("autograd") if about else None
    if recorded is None and current() is None:
        return _nothing
    return _Entered(None if recorded is None else _find_or_make(recorded[0]))


# ---- backward


class _Part:
    """Run the part of one worker in a backward pass."""

    def __init__(self, context, number, keep_graph, roots):
        self.context, self.number, self.keep_graph = context, number, keep_graph
        self.lock = threading.Lock()
        self.agent = agent_for("backward")
        self.first, tensors = {}, []
        for message, results in context.sent.items():
            self.first[message] = len(tensors), len(results)
            tensors += results
        self.roots_at, self.roots = len(tensors), list(roots)
        self.native = _C._stepped_pass((*tensors, *roots), keep_graph)
        self.waiting = set(self.first)  # messages whose gradients have not come
        self.used = None  # messages that the pass uses, once that is asked for
        self.steps, self.futures = 0, []

    def begin(self):
        """Go on from the roots."""
        return self._step(self.roots_at, tuple(facula.ones_like(root) for root in self.roots))

    def go_on(self, message, gradients):
        """Go on from a message; return a future of what each worker says of itself."""
        if message not in self.first:
            raise RuntimeError(f"backward: this worker has not sent message {message} of context {self.context.number}")
        self.waiting.discard(message)
        return self._step(self.first[message][0], tuple(gradients))

    def settle(self):
        """Go on without the messages that the pass does not use."""
        futures = [self.go_on(m, (None,) * self.first[m][1]) for m in sorted(self.waiting - (self.used or set()))]
        return _merged({}, futures)

    def _step(self, first, gradients):
        with self.lock, _Entered(None):
            before, _thread.part = getattr(_thread, "part", None), self
            try:
                self.context.add(_C._stepped_pass_step(self.native, first, gradients))
            finally:
                _thread.part = before
                futures, self.futures = self.futures, []
            self.steps += 1
            return _merged({self.agent.rank: (self.steps, len(self.waiting))}, futures)

    def hand_on(self, to, message, gradients):
        """Hand the gradients of a message on to the worker that sent it; nodes call it."""
        value = self.context.number, self.number, self.keep_graph, message, list(gradients)
        self.futures.append(self.agent.call(to, kinds.GRADIENTS, ("go_on", value), "backward"))

    def explore(self, messages):
        """Follow the graph from some messages (None: the roots) to those of other workers; return a future, done when all
        are."""
        with self.lock:
            if self.used is None:
                self.used, self.seen = set(), set()
            fresh = [m for m in messages or () if m not in self.used]
            self.used.update(fresh)
            starts = [t.grad_fn for m in fresh for t in self.context.sent[m]]
            if messages is None:
                starts += [root.grad_fn for root in self.roots if root.grad_fn is not None]
            found = self._received_from(starts)
        calls = {}
        for source, message in found:
            calls.setdefault(source, []).append(message)
        place = self.context.number, self.number, self.keep_graph
        return [self.agent.call(to, kinds.GRADIENTS, ("explore", (*place, m)), "backward") for to, m in calls.items()]

    def _received_from(self, nodes):
        """Return (worker, message) of each node `RecvRpc` that these lead to and that was not seen before."""
        found, nodes = [], [n for n in nodes if n not in self.seen]
        self.seen.update(nodes)
        while nodes:
            node = nodes.pop()
            if getattr(node, "message", None) is not None and node.context == self.context.number:
                found.append((node.source, node.message))
            for following, _ in node.next_functions:
                if following is not None and following not in self.seen:
                    self.seen.add(following)
                    nodes.append(following)
        return found


def _merged(states, futures):
    """Return a future of what workers say of themselves, {rank: (steps, messages they wait for)}: the latest of each."""
    if not futures:
        done = Future()
        done.set_result(states)
        return done
    merged = Future()

    def ready(together):
        try:
            for future in together.value():
                for rank, state in (future.value() or {}).items():
                    states[rank] = max(states.get(rank, state), state, key=lambda s: s[0])
        except Exception as error:
            merged.set_exception(error)
        else:
            merged.set_result(states)

    collect_all(futures).add_done_callback(ready)
    return merged


def gradients_came(_agent, _source, what, value):
    """Do what another worker asks for in a pass; return a future of the answer."""
    number, pass_number, keep_graph, *given = value
    part = _find(number, "backward").part(pass_number, keep_graph)
    if what == "go_on":
        return part.go_on(*given)
    if what == "explore":
        return _merged({}, part.explore(*given))
    return part.settle()


def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Run backward from `roots` through the graphs of all workers; the gradients of leaves are then in the context, not in
    `.grad`.

    Args:
        context_id: the number of the context. RuntimeError where there is none of it.
        roots: tensors of one element on this worker.
        retain_graph: keeps the graphs for another pass.

    >>> from torch.distributed import autograd, rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> with autograd.context() as context_id:
    ...     autograd.backward(context_id, [rpc.rpc_sync("me", torch.mul, (x, x)).sum()])
    ...     autograd.get_gradients(context_id)[x]
    tensor([2., 2.])
    >>> rpc.shutdown()
    """
    agent = agent_for("backward")
    context = _find(context_id, "backward")
    roots = list(roots)
    if not roots:
        raise RuntimeError("backward: expected at least one root, got none")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError(f"backward: a root requires grad, got one of shape {tuple(root.shape)} that does not")
        if root.numel() != 1:
            raise RuntimeError(f"backward: a root has one element, got shape {tuple(root.shape)}")
    number = agent.rank << 48 | next(_pass_numbers)
    part = context.part(number, bool(retain_graph), roots)
    states = part.begin().wait()
    waiting = [rank for rank, (_, messages) in states.items() if messages]
    if waiting:
        _merged({}, part.explore(None)).wait()
        value = "settle", (context_id, number, bool(retain_graph))
        for future in [agent.call(rank, kinds.GRADIENTS, value, "backward") for rank in waiting]:
            future.wait()


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return the gradients of the leaves on this worker, a dict by leaf.

    Args:
        context_id: the number of the context. RuntimeError where there is none of it.

    Returns: a dict from leaves to gradients, each of the shape of its leaf.

    Errors: RuntimeError for a number without a context.

    >>> from torch.distributed import autograd, rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> with autograd.context() as context_id:
    ...     autograd.get_gradients(context_id)
    {}
    >>> rpc.shutdown()
    """
    context = _find(context_id, "get_gradients")
    with context.lock:
        return dict(context.gradients)


# ---- the life of contexts


def _new_context():
    agent = agent_for("context")
    if current() is not None:
        raise RuntimeError(f"context: this thread is in a context already, number {current().number}, got a second")
    _thread.context = _find_or_make(agent.rank << 48 | next(_context_numbers))
    return _thread.context


def _release_context(number):
    if current() is not None and current().number == number:
        _thread.context = None
    agent = agent_for("context")
    released(agent, number)


def released(agent, number):
    """Forget a context, here and on the workers that know it from here."""
    with _lock:
        context = _contexts.pop(number, None)
    if context is not None:
        for rank in context.known - {agent.rank}:
            agent.tell(rank, kinds.RELEASE, {"context": number})


def forget_all():
    """Forget all contexts of this worker, which is shut down."""
    with _lock:
        _contexts.clear()
    _thread.context = None


def _retrieve_context(number):
    return _find(number, "_retrieve_context")


def _is_valid_context(number):
    _find(number, "_is_valid_context")


def _current_context():
    if current() is None:
        raise RuntimeError("_current_context: this thread is in no context, got none")
    return current()


def _get_debug_info():
    passes = sum(len(c.passes) for c in list(_contexts.values()))
    return {"num_autograd_contexts": len(_contexts), "num_current_backward_passes": passes}
