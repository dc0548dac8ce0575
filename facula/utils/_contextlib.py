"""Define context managers that are decorators, too: the base of autograd's modes, under the names that packages derive
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.autograd.grad_mode import _Switch as _DecoratorContextManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["context_decorator"]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Decorate functions without parentheses, too (`@mode`); for context managers that take no arguments."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)


class _Within(_DecoratorContextManager):
    def __init__(self, enter):
        self.clone = enter


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, or generator function, run within a context.

    Args:
        ctx: a context manager that can be entered again, or a function that gives one for each call.
        func: what is decorated.
    """
    return _Within(ctx if isinstance(ctx, type) or not hasattr(ctx, "__enter__") else lambda: ctx)(func)
