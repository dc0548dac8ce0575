"""Order the messages of all groups under one outermost module, and track those in progress.

Policy
  - Gathers are started in the order of the last pass: while a module computes, the parameters of the module that came next are
    being gathered. A pass in another order loses time, nothing else. All processes gather in the same order anyway, so their
    predictions agree.
  - Sums of gradients are waited for when the pass has nothing else to do: `Arrival`, through which gradients reach the parts,
    is recorded before everything else of a forward pass, so its backward runs last.
  - No gathered parameter outlives its pass: what was gathered too early is dropped at the end, because parameters may change
    before the next pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.autograd import Function, Variable

if TYPE_CHECKING:
    from typing import Any


class _Order:
    """Record the order of gathers in the last pass and in the present one."""

    def __init__(self) -> None:
        self._last: list[Any] = []
        self._now: list[Any] = []

    def begin(self) -> None:
        """Begin a new pass."""
        self._last, self._now = self._now, []

    def next_after(self, group):
        """Return what followed `group` in the last pass, if it was at this place there; None if that is not known."""
        at = len(self._now)
        self._now.append(group)
        known = at + 1 < len(self._last) and self._last[at] is group
        return self._last[at + 1] if known else None


class Passes:
    """Manage the passes of an outermost module."""

    def __init__(self) -> None:
        self.groups: list[Any] = []
        self.forward_order, self.backward_order = _Order(), _Order()
        self.reductions: list[Any] = []  # those that hold their input, oldest first
        self.event = None
        self._depth = 0  # of calls of the outermost module inside each other
        self._backward = 0  # the number of the backward pass that is known to run

    # ---- forward

    def begin_forward(self) -> None:
        """Note that the outermost module begins."""
        self._depth += 1
        if self._depth > 1 or _C._pass_id():
            return
        if self.event is not None:
            self.event.synchronize()
            self.event = None
        self.forget()
        self._depth = 1
        self.forward_order.begin()
        if facula.is_grad_enabled():
            for group in self.groups:
                group.expect_gradients()

    def end_forward(self) -> None:
        """Note that the outermost module has ended."""
        self._depth -= 1
        if self._depth > 0 or _C._pass_id():
            return
        for group in self.groups:
            group.arrival = None
            group.drop_gather()

    def after_gather_in_forward(self, group) -> None:
        """Begin to gather what comes next."""
        if group.forward_next is not None:
            for other in group.forward_next:
                other.begin_gather()
        elif self._depth and not _C._pass_id():
            other = self.forward_order.next_after(group)
            if other is not None:
                other.begin_gather()

    # ---- backward

    def enter_backward(self) -> None:
        """Note that something of a backward pass happens."""
        running = _C._pass_id()
        if running == 0 or self._backward:
            return
        self._backward = running
        self.backward_order.begin()
        # Only the engine knows when a pass has ended: inputs may need no gradient, so that no hook runs last.
        Variable._execution_engine.queue_callback(self.end_backward)

    def after_gather_in_backward(self, group) -> None:
        """Begin to gather what comes next."""
        chosen = group.backward_next
        if chosen is None:
            other = self.backward_order.next_after(group) if self._backward else None
            chosen = [] if other is None else [other]
        for other in chosen:
            if other.gathers_in_backward:
                other.begin_gather()

    def end_backward(self) -> None:
        """Note that the pass has ended."""
        self._backward = 0
        for group in self.groups:
            group.end_backward()

    def forget(self) -> None:
        """Drop what a pass that failed left behind."""
        self._backward = self._depth = 0
        self.reductions.clear()
        for group in self.groups:
            group.forget()

    def forget_orders(self) -> None:
        """Let the next pass guess nothing: processes may have failed at different places."""
        self.forward_order, self.backward_order = _Order(), _Order()

    def make_room(self, limit: int) -> None:
        """Let at most `limit` - 1 sums of gradients hold their input."""
        while len(self.reductions) >= limit:
            self.reductions.pop(0).end_scatter()


class Arrival(Function):
    """Return the parts unchanged; in the backward pass, this is the place where their gradients are waited for."""

    @staticmethod
    def forward(ctx, reductions, *parts):
        ctx.reductions = reductions
        ctx.set_materialize_grads(False)
        # Views, so that the results are new tensors, through which the gradients come back to this node.
        return tuple(p.view_as(p) for p in parts)

    @staticmethod
    def backward(ctx, *placeholders):
        total = [None] * len(placeholders)
        while ctx.reductions:
            for i, part in enumerate(ctx.reductions.pop(0).parts()):
                if part is not None:
                    total[i] = part if total[i] is None else total[i] + part
        return None, *total
