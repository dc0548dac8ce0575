"""Run several passes in an order that satisfies constraints."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from functools import wraps
from typing import TYPE_CHECKING, Any

from facula.fx._compatibility import compatibility
from facula.fx.passes.infra.pass_base import PassResult
from facula.fx.passes.pass_manager import _Ordered, this_before_that_pass_constraint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula.fx.passes.infra.pass_base import PassBase
    from facula.nn.modules.module import Module

__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]

logger: Any = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn: Callable[..., Any]) -> Any:
    """Return a pass of a function that may give nothing: then the module counts as changed.

    Args:
        fn: the function.

    >>> from facula.fx.passes.infra.pass_manager import pass_result_wrapper
    >>> pass_result_wrapper(lambda gm: None)(nn.ReLU())
    PassResult(graph_module=ReLU(), modified=True)
    """
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        return PassResult(result, True) if hasattr(result, "graph") else result

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


@compatibility(is_backward_compatible=False)
class PassManager(_Ordered):
    """Run passes that return a PassResult.

    Args:
        passes: functions from a module to a PassResult.
        constraints: functions (pass, later pass) -> whether that order is right.
        steps: how often they run, until nothing changes.
        run_checks_after_each_pass: if True, call `check` after each.
        suppress_check_failures: if True, run an order that breaks a constraint all the same.

    Calling it on a module gives a PassResult.

    >>> from facula.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper, this_before_that_pass_constraint
    >>> def swap(gm):
    ...     for node in gm.graph.find_nodes(op="call_function", target=facula.relu):
    ...         node.target = facula.tanh
    >>> def clean(gm):
    ...     gm.graph.eliminate_dead_code()
    ...     gm.recompile()
    >>> swap, clean = pass_result_wrapper(swap), pass_result_wrapper(clean)
    >>> manager = PassManager([clean])
    >>> manager.add_pass(swap)
    >>> manager.add_constraint(this_before_that_pass_constraint(swap, clean))
    >>> manager.solve_constraints()
    >>> [fn.__name__ for fn in manager.passes]
    ['swap', 'clean']
    >>> manager.validate_constraints()
    >>> manager.add_checks(lambda gm: gm.graph.lint())
    >>> manager.check(facula.fx.symbolic_trace(lambda x: x))
    >>> manager(facula.fx.symbolic_trace(lambda x: facula.relu(x))).graph_module(facula.tensor(0.0))
    tensor(0.)
    >>> manager(facula.fx.symbolic_trace(lambda x: facula.relu(x))).graph_module.code.strip().splitlines()[1].strip()
    'relu = torch.tanh(x);  x = None'
    """

    passes: Any
    constraints: list[Any]

    def __init__(self, passes: Sequence[Callable[..., Any] | PassBase] | None = None,
                 constraints: Sequence[Callable[..., Any]] | None = None, steps: int | None = None,
                 run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False) -> None:  # fmt: skip
        super().__init__(passes, constraints)
        self.steps: int = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def validate_constraints(self) -> None:
        """Raise RuntimeError where the order of the passes breaks a constraint."""
        self._check_order()

    def solve_constraints(self) -> None:
        """Put the passes in an order that keeps to the constraints."""
        after = {p: [q for q in self.passes if q != p and not all(c(q, p) for c in self.constraints)] for p in self.passes}
        waits = {p: sum(p in later for later in after.values()) for p in self.passes}
        ready, order = deque(p for p in self.passes if not waits[p]), []
        while ready:
            found = ready.popleft()
            order.append(found)
            for later in after[found]:
                waits[later] -= 1
                if not waits[later]:
                    ready.append(later)
        if len(order) < len(self.passes):
            left = [p for p in self.passes if p not in order]
            raise RuntimeError(f"solve_constraints: the passes require one another in a circle, got {left}")
        self.passes, self._validated = order, True

    def add_checks(self, check: Any) -> None:
        """Set the check that runs after passes.

        Args:
            check: a function of the module, of one parameter.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("add_checks: check must take one argument, the module, got another function")
        self.check = check

    def check(self, module: Module) -> None:
        """Check the module after passes: raise where it is not right.

        Args:
            module: the module.
        """

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            again = False
            for fn in self.passes:
                module, once = self._run(fn, module)
                again = again or once
            changed = changed or again
            if not again:
                break
        return PassResult(module, changed)

    def _run(self, fn, module):
        name = getattr(fn, "__name__", type(fn).__name__)
        try:
            result = fn(module)
            if not isinstance(result, PassResult):
                raise TypeError(
                    f"PassManager: the pass {name} must return a PassResult (pass_result_wrapper makes one)"
                )
            if self.run_checks_after_each_pass:
                self.check(result.graph_module)
        except Exception as error:
            before = [getattr(p, "__name__", type(p).__name__) for p in self.passes[: self.passes.index(fn)]]
            raise Exception(f"PassManager: the pass {name!r} failed; run before it: {before}") from error
        return result.graph_module, result.modified
