"""Answer questions about sizes that may be symbols. Sizes are numbers here, so every question has its answer at once."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols", "guard_or_false", "guard_or_true", "guard_int",
    "guard_bool", "guard_float", "guard_scalar", "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols",
    "has_static_value", "hint_int", "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic",
    "statically_known_false", "statically_known_true", "sym_and", "sym_eq", "sym_or", "has_symbolic_sizes_strides",
]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """Report a program that decides by a size that is not known before it runs.

    Args:
        cond: what it decides by.
        args: the message.
    """

    def __init__(self, cond: str, *args: Any) -> None:
        super().__init__(*args)
        self.cond = cond


def free_symbols(val: Any) -> set[Any]:
    """Return the symbols in a value: none.

    Args:
        val: a tensor, a size, or lists and tuples of them.

    >>> from facula.fx.experimental.symbolic_shapes import free_symbols
    >>> free_symbols(facula.ones(2, 3))
    set()
    """
    del val
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Return whether there are symbols in a value: no.

    Args:
        val: the value.

    >>> from facula.fx.experimental.symbolic_shapes import has_free_symbols
    >>> has_free_symbols(facula.ones(2, 3).shape)
    False
    """
    return bool(free_symbols(val))


has_free_unbacked_symbols: Callable[[Any], bool]
has_symbolic_sizes_strides: Callable[[Any], bool]
is_symbolic: Callable[[Any], bool]
has_free_unbacked_symbols = has_symbolic_sizes_strides = is_symbolic = has_free_symbols


def has_static_value(a: Any) -> bool:
    """Return whether a value is known: yes.

    Args:
        a: the value.

    >>> from facula.fx.experimental.symbolic_shapes import has_static_value
    >>> has_static_value(3)
    True
    """
    return isinstance(a, (bool, int, float))


def _truth(a):
    """Return whether it holds.

    Args:
        a: a condition.

    >>> from facula.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true
    >>> guard_or_false(facula.ones(2).shape[0] == 2), statically_known_true(2 < 1)
    (True, False)
    """
    return bool(a)


guard_or_true: Callable[[Any], bool]
guard_or_false: Callable[[Any], bool]
guard_bool: Callable[[Any], bool]
guard_size_oblivious: Callable[[Any], bool]
statically_known_true: Callable[[Any], bool]
guard_or_true = guard_or_false = guard_bool = guard_size_oblivious = statically_known_true = _truth


def statically_known_false(x: Any) -> bool:
    """Return whether it does not hold.

    Args:
        x: a condition.

    >>> from facula.fx.experimental.symbolic_shapes import statically_known_false
    >>> statically_known_false(2 < 1)
    True
    """
    return not x


def guard_int(a: Any) -> int:
    """Return the number.

    Args:
        a: a size.

    >>> from facula.fx.experimental.symbolic_shapes import guard_int
    >>> guard_int(facula.ones(2).shape[0])
    2
    """
    return int(a)


def hint_int(a: Any, fallback: Any = None) -> int:
    """Return the number.

    Args:
        a: a size.
        fallback: what is given where `a` is None.

    >>> from facula.fx.experimental.symbolic_shapes import hint_int
    >>> hint_int(3), hint_int(None, fallback=8)
    (3, 8)
    """
    return fallback if a is None else int(a)


def guard_float(a: Any) -> float:
    """Return the number.

    Args:
        a: a number.

    >>> from facula.fx.experimental.symbolic_shapes import guard_float
    >>> guard_float(0.5)
    0.5
    """
    return float(a)


def guard_scalar(a: Any) -> bool | float:
    """Return the number, as Python's.

    Args:
        a: a number or condition.

    >>> from facula.fx.experimental.symbolic_shapes import guard_scalar
    >>> guard_scalar(True), guard_scalar(3), guard_scalar(0.5)
    (True, 3, 0.5)
    """
    return bool(a) if isinstance(a, bool) else int(a) if isinstance(a, int) else float(a)


def is_concrete_int(a: Any) -> bool:
    """Return whether it is a number without symbols.

    Args:
        a: an integer.

    >>> from facula.fx.experimental.symbolic_shapes import is_concrete_int
    >>> is_concrete_int(3)
    True
    """
    return isinstance(a, int)


def is_concrete_bool(a: Any) -> bool:
    """Return whether it is a condition without symbols.

    Args:
        a: a condition.

    >>> from facula.fx.experimental.symbolic_shapes import is_concrete_bool
    >>> is_concrete_bool(3)
    False
    """
    return isinstance(a, bool)


def is_concrete_float(a: Any) -> bool:
    """Return whether it is a number without symbols.

    Args:
        a: a number.

    >>> from facula.fx.experimental.symbolic_shapes import is_concrete_float
    >>> is_concrete_float(0.5)
    True
    """
    return isinstance(a, float)


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two sizes, or lists of sizes, are equal.

    Args:
        x, y: the sizes.

    Errors: AssertionError for a size and a list.

    >>> from facula.fx.experimental.symbolic_shapes import sym_eq
    >>> sym_eq(facula.ones(2, 3).shape, (2, 3)), sym_eq(2, 3)
    (True, False)
    """
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        return len(x) == len(y) and all(map(operator.eq, x, y))
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return x == y
    raise AssertionError(f"sym_eq: two numbers or two sequences are expected, got {type(x)} and {type(y)}")


def sym_and(x: Any, *others: Any) -> Any:
    """Return whether all hold.

    Args:
        x, others: conditions.

    >>> from facula.fx.experimental.symbolic_shapes import sym_and
    >>> sym_and(True, 2 < 3, 3 < 2)
    False
    """
    return functools.reduce(operator.and_, others, x)


def sym_or(x: Any, *others: Any) -> Any:
    """Return whether one holds.

    Args:
        x, others: conditions.

    >>> from facula.fx.experimental.symbolic_shapes import sym_or
    >>> sym_or(False, 2 < 3)
    True
    """
    return functools.reduce(operator.or_, others, x)


SymTypes: tuple[Any, ...] = tuple(getattr(facula, name) for name in ("SymInt", "SymFloat", "SymBool") if hasattr(facula, name))
