"""Annotate values that are traced with types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.fx._compatibility import compatibility
from facula.fx.proxy import Proxy

if TYPE_CHECKING:
    from typing import Any

__all__ = ["annotate"]


@compatibility(is_backward_compatible=False)
def annotate(val: Any, type: Any) -> Any:
    """Say the type of a traced value; other values are given back as they are.

    Args:
        val: the value.
        type: its type.

    Returns:
        `val`

    Errors: RuntimeError where the value has a type already.

    >>> from facula.fx.annotate import annotate
    >>> gm = facula.fx.symbolic_trace(lambda x: annotate(x + 1, int))
    >>> list(gm.graph.nodes)[1].type
    <class 'int'>
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"annotate: {val.node} is annotated as {val.node.type} already, got {type}"
            )
        val.node.type = type
    return val
