"""Make GraphModules for tracers; the code is written as soon as a module is made."""

from __future__ import annotations

import contextlib

from facula.fx.graph_module import GraphModule


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    return (graph_module_cls or GraphModule)(*args, **kwargs)


@contextlib.contextmanager
def _use_lazy_graph_module(should_use):
    """Change nothing: writing the code of a graph costs little."""
    yield
