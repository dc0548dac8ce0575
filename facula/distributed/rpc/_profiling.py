"""Show calls as ranges of profiles."""

import contextlib

from facula import _C
from facula.autograd.profiler import record_function

_nothing = contextlib.nullcontext()


def range_of(name):
    """Return a range called name(), while somebody watches."""
    return record_function(name()) if _C._watching() else _nothing


def call_name(kind, function, here, there):
    """ Return "rpc_sync#fn(worker0 -> worker1)"; ops are called aten::op, as PyTorch calls them."""
    module = getattr(function, "__module__", None) or "facula"
    title = getattr(function, "__qualname__", None) or type(function).__qualname__
    if not hasattr(function, "__code__") and (module == "torch" or module.partition(".")[0] == "facula"):
        title = f"aten::{getattr(function, '__name__', title)}"
    return f"{kind}#{title}({here} -> {there})"
