"""Define the backend "cudagraphs": stretches of ops (`src/region/stretch.h`) that run as one launch of a CUDA graph.

A stretch runs op by op twice, is then captured, and is launched in later calls. Inputs that lay at the same address in the
calls before stay where they are, such as parameters; the others are copied into memory of the graph's own. The core copies
results out of it, so that no later launch writes to what a program holds. A stretch on the CPU, one in a capture of the
program's, and one whose capture failed run op by op.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.cuda import graphs

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["GraphedStretches", "launches"]

#: calls of a stretch that run op by op
WARM = 2
#: captures of one stretch on one stream, since inputs that stayed have moved
MOST_CAPTURES = 8
#: streams of threads on which one stretch is captured
MOST_STREAMS = 4
#: launches and captures in this process
launches = {"launched": 0, "captured": 0, "failed": 0}


class _Graph:
    """Hold the graph of a stretch on one stream of one thread, so that nothing else uses its memory.

    Args:
        run: a function of a tuple of tensors that runs the ops.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run, self.calls, self.captures = run, 0, 0
        self.graph: Any = None
        self.addresses: list[int] = []
        self.moves: set[int] = set()  # inputs that are copied

    def __call__(self, inputs: tuple[Any, ...]) -> Any:
        addresses = [_C._cuda_address(t) for t in inputs]
        if self.addresses:
            # A graph reads fixed addresses. Inputs that stay in place, such as parameters, are read there; the others
            # are copied first.
            self.moves |= {i for i, (a, b) in enumerate(zip(addresses, self.addresses, strict=True)) if a != b}
        self.addresses = addresses
        self.calls += 1
        if self.calls <= WARM or self.captures > MOST_CAPTURES:
            return self.run(inputs)
        # An input has moved for the first time, so that the graph must be captured again with a copy of it.
        if self.graph is None or not self.moves <= self.copied.keys():
            self.captures += 1
            self.capture(inputs)
        if self.graph is None:
            return self.run(inputs)
        for i, copy in self.copied.items():
            copy.copy_(inputs[i])
        self.graph.replay()
        launches["launched"] += 1
        return self.results

    def capture(self, inputs: tuple[Any, ...]) -> None:
        """Capture the ops; where that fails, they go on to run one by one."""
        self.graph, self.results = None, ()
        self.copied = {i: inputs[i].clone() for i in sorted(self.moves)}
        given = tuple(self.copied.get(i, t) for i, t in enumerate(inputs))
        graph = graphs.CUDAGraph()
        try:
            with graphs.graph(graph, capture_error_mode="thread_local"):
                self.results = tuple(self.run(given))
        except RuntimeError:
            launches["failed"] += 1
            # Do not try again: a failed capture costs as much as many calls.
            self.captures = MOST_CAPTURES + 1
            return
        launches["captured"] += 1
        self.graph = graph


class _Code:
    """Run a stretch."""

    def __init__(self, run):
        self.run, self.graphs = run, {}

    def __call__(self, *inputs):
        if not inputs or not inputs[0].is_cuda or facula.cuda.is_current_stream_capturing():
            return self.run(inputs)
        # Each has a graph of its own, because replays of one graph must not overlap.
        key = threading.get_ident(), facula.cuda.current_stream(inputs[0].device).cuda_stream
        if key not in self.graphs and len(self.graphs) == MOST_STREAMS:
            return self.run(inputs)
        return self.graphs.setdefault(key, _Graph(self.run))(inputs)


class GraphedStretches:
    """Hold the codes of a compiled function's stretches, or of its backward passes.

    Args:
        settings: those of the function.
        compiled: the function.
        is_backward: whether these are passes.
    """

    name = "compile: the backend 'cudagraphs'"

    def __init__(self, settings: Any, compiled: Any, is_backward: bool) -> None:
        self.settings, self.is_backward = settings, is_backward
        self.codes: list[Callable[..., Any]] = []  # the core calls them by their place
        # Weakly, because the compiled function holds this object.
        self._compiled = weakref.ref(compiled)

    def may_record(self) -> bool:
        """Return whether more is recorded."""
        compiled = self._compiled()
        return self.is_backward or (compiled is not None and self.settings.look_begins(compiled))

    def compile(self, run: Callable[..., Any], examples: tuple[Any, ...], records_gradients: bool) -> int:
        """Return the place in `codes` of what runs a stretch.

        Args:
            run: a function of a tuple of tensors that runs the ops.
            examples: the tensors.
            records_gradients: whether a derivative may be asked for; the tape is that of the ops in any case.
        """
        self.codes.append(_Code(run))
        return len(self.codes) - 1
