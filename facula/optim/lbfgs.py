"""Define LBFGS, the limited-memory BFGS method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["LBFGS"]


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None) -> float:
    """Return the minimum between two points of the cubic with the given values and slopes (Nocedal and Wright, 3.59)."""
    least, most = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    # The cubic has no minimum there; the middle is a safe step.
    if square < 0:
        return (least + most) / 2.0
    root = square.sqrt() if isinstance(square, facula.Tensor) else square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + root - d1) / (g2 - g1 + 2 * root))
    else:
        at = x1 - (x1 - x2) * ((g1 + root - d1) / (g1 - g2 + 2 * root))
    return min(max(at, least), most)


class _Point:
    """Hold a step length with the loss, the gradient and the slope along the direction there."""

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


class _StrongWolfe:
    """Find a step length that lowers the loss enough (c1) and flattens the slope enough (c2).

    Args:
        evaluate: step length -> (loss, flat gradient).
        direction: flat direction of the search.
        start: the point of step length 0.
        most: bound on the number of points tried.
    """

    def __init__(self, evaluate, direction, start, most, c1=1e-4, c2=0.9, tolerance_change=1e-9):
        self.evaluate, self.direction, self.start = evaluate, direction, start
        self.most, self.c1, self.c2, self.tolerance_change = most, c1, c2, tolerance_change
        self.size = direction.abs().max()
        self.evaluations = 0

    def at(self, t) -> _Point:
        loss, grad = self.evaluate(t)
        self.evaluations += 1
        return _Point(t, loss, grad, grad.dot(self.direction))

    def too_high(self, p: _Point) -> bool:
        return p.loss > self.start.loss + self.c1 * p.t * self.start.slope

    def flat(self, p: _Point) -> bool:
        return abs(p.slope) <= -self.c2 * self.start.slope

    def search(self, t) -> _Point:
        """Return the best point found, starting with step length ``t``."""
        bracket, done, used = self._bracket(t)
        return self._narrow(bracket, done, used)

    def _bracket(self, t):
        """Return two points around a good one (or the good one alone, and True)."""
        before, new = self.start, self.at(t)
        for used in range(self.most):
            if self.too_high(new) or (used > 1 and new.loss >= before.loss):
                return [before, new], False, used
            if self.flat(new):
                return [new], True, used
            if new.slope >= 0:
                return [before, new], False, used
            # Extrapolate, but neither stay in place nor leap.
            bounds = (new.t + 0.01 * (new.t - before.t), new.t * 10)
            t = _cubic_minimum(before.t, before.loss, before.slope, new.t, new.loss, new.slope, bounds)
            before, new = new, self.at(t)
        zero = _Point(0, self.start.loss, self.start.grad, before.slope)
        return [zero, new], False, self.most

    def _narrow(self, bracket, done, used) -> _Point:
        slow = False  # the last point was near an end of the bracket
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        while not done and used < self.most:
            a, b = bracket
            if abs(b.t - a.t) * self.size < self.tolerance_change:
                break
            t = _cubic_minimum(a.t, a.loss, a.slope, b.t, b.loss, b.slope)
            first, last = min(a.t, b.t), max(a.t, b.t)
            # A point near an end of the bracket would shrink it too little. The second time in a row, move it inwards.
            margin = 0.1 * (last - first)
            if min(last - t, t - first) < margin:
                if slow or t >= last or t <= first:
                    t = last - margin if abs(t - last) < abs(t - first) else first + margin
                    slow = False
                else:
                    slow = True
            else:
                slow = False
            new = self.at(t)
            used += 1
            if self.too_high(new) or new.loss >= bracket[low].loss:
                bracket[high] = new
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            if self.flat(new):
                done = True
            elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = new
        return bracket[low]


class LBFGS(Optimizer):
    """Make quasi-Newton steps from the last changes of parameters and gradient (Nocedal 1980).

    It needs few steps for smooth losses that do not vary from batch to batch. `step` takes a closure that evaluates loss and
    gradients, and calls it several times.

    Args:
        params: tensors or (name, tensor) pairs, or one group of them.
        lr: the length of a step without line search, or where the line search begins.
        max_iter: the number of iterations in one step.
        max_eval: the number of evaluations of the closure in one step. Default: ``max_iter * 5 // 4``.
        tolerance_grad: a step ends when the largest element of the gradient is at most this.
        tolerance_change: a step ends when loss or parameters change less than this.
        history_size: the number of changes that are remembered.
        line_search_fn: None or 'strong_wolfe'.

    Shapes: parameters of any shape; history and directions are stored as vectors of all elements.

    Errors: ValueError for several groups, or a negative lr; TypeError for a step without closure; RuntimeError, at a step, for
    another line_search_fn.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([weight], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (weight - 3).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> weight
    tensor([3.0000, 3.0000], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:  # fmt: skip
        check_lr("LBFGS", lr)
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: takes one parameter group, got {len(self.param_groups)}")
        self._params = self.param_groups[0]["params"]

    # -- all parameters as one vector

    def _flat_grad(self):
        views = []
        for p in self._params:
            view = facula.zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1)
            views.append(facula.view_as_real(view.resolve_conj()).reshape(-1) if view.is_complex() else view)
        return facula.cat(views, 0)

    def _move(self, t, direction) -> None:
        offset = 0
        for p in self._params:
            count = p.numel() * (2 if p.is_complex() else 1)
            change = direction[offset : offset + count]
            if p.is_complex():
                change = facula.complex(*change.reshape(-1, 2).unbind(1))
            p.add_(change.reshape(p.shape), alpha=float(t))
            offset += count

    def _evaluate_at(self, closure, origin, t, direction):
        self._move(t, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for p, value in zip(self._params, origin, strict=True):
            p.copy_(value)
        return loss, grad

    # -- the direction

    def _new_direction(self, state, grad, history_size):
        """Return the direction from the history, after noting the last change in it."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change, moved = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(moved)
        changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        # Otherwise the approximation of the Hessian would not stay positive definite (Nocedal and Wright, 6.7).
        if curvature > 1e-10:
            for history, value in ((changes, change), (moves, moved), (inverses, 1.0 / curvature)):
                if len(history) == history_size:
                    history.pop(0)
                history.append(value)
            state["H_diag"] = curvature / change.dot(change)
        state.setdefault("al", [None] * history_size)
        alphas = state["al"]
        q = grad.neg()
        for i in reversed(range(len(changes))):
            alphas[i] = moves[i].dot(q) * inverses[i]
            q.add_(changes[i] * -alphas[i])
        r = q * state["H_diag"]
        for i in range(len(changes)):
            r.add_(moves[i] * (alphas[i] - changes[i].dot(r) * inverses[i]))
        return r

    @facula.no_grad()
    def step(self, closure: Callable[..., Any]) -> Tensor:
        """Iterate until a tolerance or a bound is met; return the first loss.

        Args:
            closure: computes the loss again with its gradients, and returns it; called several times in a step.

        Returns: the loss of the first call, a 0-d tensor.

        Errors: RuntimeError for another line_search_fn.
        """
        closure = facula.enable_grad()(closure)
        group = self.param_groups[0]
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {search!r}")
        lr, max_iter, max_eval = float(group["lr"]), group["max_iter"], group["max_eval"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad, evaluations = float(first_loss), self._flat_grad(), 1
        state["func_evals"] += 1
        optimal = grad.abs().max() <= group["tolerance_grad"]
        for i in range(0 if optimal else max_iter):
            state["n_iter"] += 1
            state["d"] = d = self._new_direction(state, grad, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            # The first direction is the gradient, whose length says nothing about a suitable step.
            state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(d)
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if search is not None:
                # Copies, so that every point of the search starts from the same parameters, without errors of adding
                # and subtracting.
                origin = [p.clone(memory_format=facula.contiguous_format) for p in self._params]
                line = _StrongWolfe(
                    lambda t, d=d, origin=origin: self._evaluate_at(closure, origin, t, d), d,
                    _Point(0, loss, grad, slope), max_eval - evaluations,
                )  # fmt: skip
                point = line.search(state["t"])
                loss, grad, state["t"], used = point.loss, point.grad, point.t, line.evaluations
                self._move(state["t"], d)
            else:
                self._move(state["t"], d)
                # After the last iteration nothing reads the loss and gradient, so the closure need not run.
                if i + 1 < max_iter:
                    loss, grad, used = float(closure()), self._flat_grad(), 1
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= max_eval
                or grad.abs().max() <= group["tolerance_grad"]
                or d.mul(state["t"]).abs().max() <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first_loss
