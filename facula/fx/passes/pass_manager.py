"""Run several passes one after the other: the older PassManager."""

from __future__ import annotations

import logging
from functools import wraps
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from facula.fx._compatibility import compatibility

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

__all__ = ["PassManager", "inplace_wrapper", "log_hook", "loop_pass", "this_before_that_pass_constraint",
           "these_before_those_pass_constraint"]  # fmt: skip

logger: Any = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
def inplace_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pass of a function that changes its argument and gives something else.

    Args:
        fn: the function.

    >>> from facula.fx.passes.pass_manager import inplace_wrapper
    >>> inplace_wrapper(list.sort)([2, 1])
    [1, 2]
    """

    @wraps(fn)
    def wrapped(gm, *args, **kwargs):
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


@compatibility(is_backward_compatible=False)
def log_hook(fn: Callable[..., Any], level: int = logging.INFO) -> Any:
    """Return a pass whose result is logged.

    Args:
        fn: the pass.
        level: the level of the message.

    >>> from facula.fx.passes.pass_manager import log_hook
    >>> log_hook(lambda x: x + 1)(1)
    2
    """

    @wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


@compatibility(is_backward_compatible=False)
def loop_pass(base_pass: Callable[..., Any], n_iter: int | None = None, predicate: Any = None) -> Callable[..., Any]:
    """Return a pass that runs another several times.

    Args:
        base_pass: the other.
        n_iter: how often; or
        predicate: result -> whether it runs again.

    Errors: AssertionError unless one of both is given.

    >>> from facula.fx.passes.pass_manager import loop_pass
    >>> loop_pass(lambda x: 2 * x, n_iter=3)(1), loop_pass(lambda x: 2 * x, predicate=lambda x: x < 100)(1)
    (8, 128)
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("loop_pass: give n_iter or predicate, and not both")

    @wraps(base_pass)
    def looped(source):
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
            return output
        while predicate(output):
            output = base_pass(output)
        return output

    return looped


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this: Callable[..., Any], that: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constraint: one pass comes before another.

    Args:
        this, that: the passes.

    >>> from facula.fx.passes.pass_manager import this_before_that_pass_constraint
    >>> allows = this_before_that_pass_constraint(abs, max)
    >>> allows(abs, max), allows(max, abs)
    (True, False)
    """

    def depends_on(a, b):
        return a != that or b != this

    return depends_on


@compatibility(is_backward_compatible=False)
def these_before_those_pass_constraint(these: Any, those: Any) -> Any:
    """Return a constraint: passes made by one function come before those made by another.

    Args:
        these, those: the functions within the passes.

    >>> from facula.fx.passes.pass_manager import inplace_wrapper, these_before_those_pass_constraint
    >>> def first(x): pass
    >>> def second(x): pass
    >>> allows = these_before_those_pass_constraint(first, second)
    >>> allows(inplace_wrapper(first), second), allows(second, inplace_wrapper(first))
    (True, False)
    """

    def depends_on(a, b):
        return unwrap(a) != those or unwrap(b) != these

    return depends_on


class _Ordered:
    """Order passes by constraints; both classes named PassManager derive from it."""

    def __init__(self, passes: Sequence[Callable[..., Any]] | None = None,
                 constraints: Sequence[Callable[..., Any]] | None = None) -> None:  # fmt: skip
        self.passes: list[Callable[..., Any]] = list(passes or ())
        self.constraints: list[Callable[..., Any]] = list(constraints or ())
        self._validated = False

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """Add a pass.

        Args:
            _pass: the pass.
        """
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., Any]) -> None:
        """Add a constraint.

        Args:
            constraint: (pass, later pass) -> bool
        """
        self.constraints.append(constraint)
        self._validated = False

    def _check_order(self):
        if self._validated:
            return
        for constraint in self.constraints:
            for at, first in enumerate(self.passes):
                for later in self.passes[at + 1 :]:
                    if not constraint(first, later):
                        raise RuntimeError(
                            f"PassManager: the passes must be in the order of the constraints, {later} before {first}"
                        )
        self._validated = True


@compatibility(is_backward_compatible=False)
class PassManager(_Ordered):
    """Run passes on a module.

    Args:
        passes: functions from a module to a module.
        constraints: functions (pass, later pass) -> whether that order is right.

    >>> from facula.fx.passes.pass_manager import PassManager, this_before_that_pass_constraint
    >>> def double(x): return 2 * x
    >>> def plus(x): return x + 1
    >>> manager = PassManager.build_from_passlist([double])
    >>> manager.add_pass(plus)
    >>> manager.add_constraint(this_before_that_pass_constraint(double, plus))
    >>> manager.validate()
    >>> manager(5)
    11
    >>> manager.replace_pass(plus, double)
    >>> manager.remove_pass(["nothing"])
    >>> manager(5)
    20
    """

    constraints: list[Any]

    @classmethod
    def build_from_passlist(cls, passes: Any) -> Self:
        """Return a manager of some passes.

        Args:
            passes: the passes.
        """
        return cls(passes)

    def remove_pass(self, _passes: Any) -> None:
        """Take passes out.

        Args:
            _passes: their names.
        """
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Any, _replacement: Any) -> None:
        """Put a pass in the place of another.

        Args:
            _target, _replacement: the passes.
        """
        self.passes: list[Any] = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raise RuntimeError where the order of the passes breaks a constraint."""
        self._check_order()

    def __call__(self, source: Any) -> int:
        self.validate()
        for fn in self.passes:
            source = fn(source)
        return source
