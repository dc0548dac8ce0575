"""Provide the names of `torch._dynamo` that programs use: compiled functions, markers, settings, errors.

Nothing is translated here: the core records what a compiled function does while Python runs it (docs/compile.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand
from facula.compiler._backends.registry import list_backends, lookup_backend, register_backend
from facula.compiler._decorators import *  # noqa: F403
from facula.compiler._looks import error_on_graph_break, set_stance

from . import config, exc  # noqa: F401  programs reach them as attributes

if TYPE_CHECKING:
    from facula.compiler._eval_frame import OptimizedModule, disable, explain, optimize, optimize_assert, run

__all__ = ["OptimizedModule", "disable", "error_on_graph_break", "explain", "is_compiling", "list_backends", "lookup_backend"]
__all__ += ["optimize", "optimize_assert", "register_backend", "reset", "run", "set_stance"]


def is_compiling() -> bool:
    """Return whether this is a call of a compiled function, or one that `torch.export` records."""
    from facula import compiler

    return compiler.is_compiling()


def reset() -> None:
    """Forget all recordings of compiled functions."""
    from facula.compiler._eval_frame import reset_all

    reset_all()


reset_code_caches = reset

__getattr__ = _on_demand(
    __name__,
    ("_trace_wrapped_higher_order_op", "backends", "decorators", "eval_frame", "test_case", "testing", "utils"),
    **dict.fromkeys(
        """
        OptimizedModule disable explain is_dynamo_supported is_inductor_supported optimize optimize_assert reset_code run
        """.split(),
        "facula.compiler._eval_frame",
    ),
)
