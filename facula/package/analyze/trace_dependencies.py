"""Find the modules that a function uses when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["trace_dependencies"]


def trace_dependencies(callable: Callable[..., Any], inputs: Any) -> list[str]:
    """Return the names of the modules whose functions run while `callable` is called.

    Args:
        callable: a function.
        inputs: a list of argument tuples: one call for each.

    Returns: the names, without order.

    >>> import textwrap
    >>> "textwrap" in torch.package.analyze.trace_dependencies(textwrap.dedent, [("  text",)])
    True
    """
    used = set()

    def note(frame, event, _):
        if event == "call":
            name = frame.f_globals.get("__name__")
            if name:
                used.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for arguments in inputs:
            callable(*arguments)
    finally:
        sys.setprofile(before)
    return list(used)
