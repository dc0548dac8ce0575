"""Capture graphs of the accelerator's work, whichever kind it is."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.cuda.graphs import CUDAGraph

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Graph"]

_MODES = ("default", "global", "thread_local", "relaxed")


class Graph(CUDAGraph):
    """Hold the work of the current stream and repeat it with replay(); as a context manager, it captures the work of a
    block.

        stream, graph = torch.Stream(), torch.accelerator.Graph()
        with stream, graph:
            x += 1
        graph.replay()

    Args:
        keep_graph: the graph is made launchable by instantiate() or the first replay().
        pool: that of another graph, which then shares its memory with this one.
        capture_error_mode: see CUDAGraph.capture_begin; "default" is "global".

    Errors: RuntimeError for another mode; NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     x = torch.ones(2, device="cuda")
    ...     graph = torch.accelerator.Graph()
    ...     with torch.Stream(), graph:
    ...         x += 1
    ...     graph.replay()
    ...     assert x.tolist() == [2.0, 2.0]
    """

    def __init__(self, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default") -> None:
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Graph: capture_error_mode must be {_C._one_of(capture_error_mode, _MODES)}")
        super().__init__(keep_graph)
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode

    def capture_begin(self) -> None:
        """Begin, on the current stream."""
        mode = "global" if self.capture_error_mode == "default" else self.capture_error_mode
        super().capture_begin(pool=self.graph_pool, capture_error_mode=mode)

    def __enter__(self) -> None:
        facula.accelerator.synchronize()
        gc.collect()
        facula.accelerator.empty_cache()
        facula.accelerator.empty_host_cache()
        self.capture_begin()

    def __exit__(self, *exception: object) -> None:
        self.capture_end()
