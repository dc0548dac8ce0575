"""Report on compiled functions to programs and tests: counters, times."""

from __future__ import annotations

import functools
import warnings
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["compile_times", "counters", "is_compile_supported", "warn_once"]

#: "stats": calls_captured, unique_graphs (stretches of ops); "frames": total, ok (recorded calls); "graph_break": by reason
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: str) -> bool:
    """Return whether functions on tensors of a kind of device can be compiled.

    Args:
        device_type: "cpu", "cuda".

    >>> torch._dynamo.utils.is_compile_supported("cpu")
    True
    """
    import facula

    return device_type == "cpu" or (device_type == "cuda" and facula.cuda.is_available())


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, once for the same text.

    Args:
        msg: the text.
        stacklevel: whose line it names.
    """
    warnings.warn(msg, stacklevel=stacklevel + 1)


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """Return how much was recorded, as a text or as a table: recordings cost no time of their own that would have to be shown.

    Args:
        repr: "str", or "csv" for (headers, values).
        aggregate: there is one row in any case; without effect.
    """
    rows = {"recorded calls": counters["frames"]["total"], "ops": counters["stats"]["calls_captured"]}
    if repr == "csv":
        return list(rows), [str(value) for value in rows.values()]
    return ", ".join(f"{name}: {value}" for name, value in rows.items())

