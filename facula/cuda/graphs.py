"""Capture the work of a stream once as a graph, and replay it at the cost of one launch.

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)              # nothing runs: it is listed
    x.copy_(batch)
    graph.replay()                # y has the result for the batch

A replay reads and writes the same memory as the capture: inputs are copied into the tensors that were captured. What is made
during the capture comes from a pool that the graph keeps. Random numbers are those that the same ops would draw next without
a graph. What makes the host wait (item(), copies to the host, shapes that depend on values) raises RuntimeError inside.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula._shared.on_demand import _on_demand
from facula.utils import _pytree

from ._device import _need_device

if TYPE_CHECKING:
    from facula import Generator

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing() -> bool:
    """Return whether a graph is captured from the current stream of the current device.

    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return _C._cuda_captures_here()


def graph_pool_handle() -> tuple[int, Any]:
    """Return a new pool, for graphs that share their memory: they are replayed in the order of their captures, one at a time.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     x, pool = torch.ones(2, device="cuda"), torch.cuda.graph_pool_handle()
    ...     first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(first, pool=pool):
    ...         y = x + 1
    ...     with torch.cuda.graph(second, pool=pool):
    ...         z = y * 2
    ...     first.replay()
    ...     second.replay()
    ...     assert z.tolist() == [4.0, 4.0]
    """
    _need_device("graph_pool_handle")
    return 0, _C._cuda_new_pool()


class CUDAGraph:
    """Hold the work of a stream between capture_begin() and capture_end(), and repeat it with replay().

    Args:
        keep_graph: the graph stays changeable and is made launchable by instantiate(), or by the first replay().

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)
    ...     with torch.cuda.graph(graph):
    ...         y = x + 1
    ...     x += 4
    ...     graph.instantiate()
    ...     graph.replay()
    ...     assert y.tolist() == [6.0, 6.0]
    ...     graph.reset()
    """

    def __init__(self, keep_graph: bool = False) -> None:
        _need_device("CUDAGraph")
        self._graph = _C._cuda_graph()
        self._keeps = keep_graph
        if keep_graph:
            _C._cuda_graph_keep(self._graph)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin, on the current stream, which is not the default one. `graph` is the usual way to do it.

        Args:
            pool: of graph_pool_handle() or another graph's pool(): memory is shared with those graphs.
            capture_error_mode: what is refused while it lasts: calls that could disturb it from any thread ("global"), from
                this one ("thread_local"), or none ("relaxed").

        >>> if torch.cuda.is_available():
        ...     x, graph, stream = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        ...     torch.cuda.synchronize()
        ...     with torch.cuda.stream(stream):
        ...         graph.capture_begin()
        ...         y = x + 1
        ...         graph.capture_end()
        ...     graph.replay()
        """
        _C._cuda_graph_begin(self._graph, _pool_number(pool), capture_error_mode)

    def capture_end(self) -> None:
        """End the capture, on the same stream.

        >>> if torch.cuda.is_available():
        ...     graph, x = torch.cuda.CUDAGraph(), torch.ones(2, device="cuda")
        ...     torch.cuda.synchronize()
        ...     with torch.cuda.stream(torch.cuda.Stream()):
        ...         graph.capture_begin()
        ...         y = x + 1
        ...         graph.capture_end()
        """
        _C._cuda_graph_end(self._graph, not self._keeps)

    def instantiate(self) -> None:
        """Make what replay() launches, where keep_graph=True put that off.

        >>> if torch.cuda.is_available():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)
        ...     with torch.cuda.graph(graph):
        ...         y = x + 1
        ...     graph.instantiate()
        """
        _C._cuda_graph_instantiate(self._graph)

    def replay(self) -> None:
        """Queue all of it on the current stream.

        >>> if torch.cuda.is_available():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
        ...     with torch.cuda.graph(graph):
        ...         x += 1
        ...     graph.replay()
        ...     graph.replay()
        ...     assert x.tolist() == [3.0, 3.0]
        """
        _C._cuda_graph_replay(self._graph)

    def reset(self) -> None:
        """Give the graph and its hold on the pool back; another can be captured.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.CUDAGraph().reset()
        """
        _C._cuda_graph_reset(self._graph)

    def pool(self) -> tuple[int, Any]:
        """Return the graph's pool, for other graphs to share: two numbers.

        >>> if torch.cuda.is_available():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
        ...     with torch.cuda.graph(graph):
        ...         y = x + 1
        ...     assert len(graph.pool()) == 2
        """
        return 0, _C._cuda_graph_pool(self._graph)

    def register_generator_state(self, generator: Generator) -> None:
        """Do nothing: a generator that is drawn from takes part by itself.

        Args:
            generator: a `torch.Generator`.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.CUDAGraph().register_generator_state(torch.Generator("cuda"))
        """

    def enable_debug_mode(self) -> None:
        """Make debug_dump() have something to show; called before the capture.

        >>> if torch.cuda.is_available():
        ...     torch.cuda.CUDAGraph().enable_debug_mode()
        """
        _C._cuda_graph_keep(self._graph)

    def debug_dump(self, debug_path: Any) -> None:
        """Write the graph in Graphviz's language.

        Args:
            debug_path: the file.

        >>> import os, tempfile
        >>> if torch.cuda.is_available() and not torch.cuda.is_emulated():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
        ...     graph.enable_debug_mode()
        ...     with torch.cuda.graph(graph):
        ...         y = x + 1
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         graph.debug_dump(os.path.join(folder, "graph.dot"))
        """
        _C._cuda_graph_dump(self._graph, str(debug_path))

    def raw_cuda_graph(self) -> Any:
        """Return the driver's handle of the graph, a number.

        Errors: RuntimeError unless keep_graph=True and something was captured.

        >>> if torch.cuda.is_available():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)
        ...     with torch.cuda.graph(graph):
        ...         y = x + 1
        ...     assert graph.raw_cuda_graph()
        """
        handle = _C._cuda_graph_handle(self._graph)
        if not handle:
            raise RuntimeError("CUDAGraph.raw_cuda_graph: a captured graph that is kept (keep_graph=True), got none")
        return handle

    def raw_cuda_graph_exec(self) -> Any:
        """Return the driver's handle of what replay() launches; it is good until the graph is made launchable again, or reset.

        Errors: RuntimeError where nothing can be launched yet.

        >>> if torch.cuda.is_available():
        ...     x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
        ...     with torch.cuda.graph(graph):
        ...         y = x + 1
        ...     assert graph.raw_cuda_graph_exec()
        """
        handle = _C._cuda_graph_executable(self._graph)
        if not handle:
            raise RuntimeError("CUDAGraph.raw_cuda_graph_exec: a graph that can be launched (see instantiate()), got none")
        return handle


def _pool_number(pool):
    if pool is None:
        return 0
    if not isinstance(pool, tuple) or len(pool) != 2:
        raise TypeError(f"CUDAGraph: pool is what graph_pool_handle() or pool() gives, got {pool!r}")
    return pool[1]


class graph:
    """Capture the work that is queued in a block into `cuda_graph`, on a stream of its own.

    Args:
        cuda_graph: the CUDAGraph.
        pool: see CUDAGraph.capture_begin.
        stream: the stream; all graphs share one where none is given.
        capture_error_mode: see CUDAGraph.capture_begin.

    Errors: NotImplementedError without a device; RuntimeError inside for what makes the host wait.

    >>> if torch.cuda.is_available():
    ...     x, captured = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(captured):
    ...         y = x * 2
    ...     x += 2
    ...     captured.replay()
    ...     assert y.tolist() == [6.0, 6.0]
    """

    default_capture_stream: facula.cuda.Stream | None = None
    cuda_graph: Any
    capture_stream: Any
    pool: Any
    capture_error_mode: str

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global") -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = facula.cuda.Stream()
            stream = graph.default_capture_stream
        self.cuda_graph, self.capture_stream = cuda_graph, stream
        self.pool, self.capture_error_mode = pool, capture_error_mode
        self.stream_ctx: Any = facula.cuda.stream(stream)

    def __enter__(self) -> None:
        facula.cuda.synchronize()
        # A collection during the capture could free memory of the device, which a capture forbids.
        gc.collect()
        facula.cuda.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(pool=self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()  # what went wrong inside is the error to show
        finally:
            self.stream_ctx.__exit__(kind, error, trace)


# -- callables ------------------------------------------------------------------------------------------


def make_graphed_callables(callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
                           pool: Any = None) -> Any:  # fmt: skip
    """Replace functions or modules by their graphs, forwards and backwards.

    Args:
        callables: a function or Module of tensors, or a tuple of them in the order in which they run.
        sample_args: a tuple of tensors for it, or a tuple of such tuples; later arguments have their shapes, dtypes and
            `requires_grad`.
        num_warmup_iters: how often each runs before it is captured.
        allow_unused_input: whether an argument or parameter may take no part in the result.
        pool: a pool to share.

    Returns: the graphed callable, or a tuple of them. A Module stays the same object: its forward is replaced for the mode
    (training or not) that it was captured in. Results are overwritten by the next call.

    Errors: RuntimeError within autocast that keeps casts, and for modules with hooks or with buffers that require gradients;
    TypeError for arguments that are no tensors.

    >>> if torch.cuda.is_available():
    ...     lin, x = nn.Linear(2, 3).cuda(), torch.ones(4, 2, device="cuda", requires_grad=True)
    ...     graphed = torch.cuda.make_graphed_callables(lin, (x,))
    ...     graphed(torch.zeros(4, 2, device="cuda", requires_grad=True)).sum().backward()
    """
    if facula.is_autocast_enabled() and facula.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables: autocast must be without its cache (cache_enabled=False), got autocast with it; casts "
            "that it "
            "keeps would not be captured"
        )
    one = not isinstance(callables, tuple)
    if one:
        callables, sample_args = (callables,), (sample_args,)
    graphed = [_Graphed(f, args, allow_unused_input) for f, args in zip(callables, sample_args, strict=True)]
    pool = graph_pool_handle() if pool is None else pool
    facula.cuda.synchronize()
    with facula.cuda.stream(facula.cuda.Stream()):
        for g in graphed:
            for _ in range(num_warmup_iters):
                g.run_once()
    facula.cuda.synchronize()
    for g in graphed:
        g.capture_forward(pool)
    for g in reversed(graphed):  # memory is shared: backward passes run in the opposite order
        g.capture_backward(pool)
    made = tuple(g.result() for g in graphed)
    return made[0] if one else made


class _Graphed:
    """Hold one callable with its two graphs and the tensors that they read and write."""

    def __init__(self, function, sample_args, allow_unused):
        self.function, self.allow_unused = function, allow_unused
        self.is_module = isinstance(function, facula.nn.Module)
        if self.is_module:
            self._check_module()
        flat, self.args_shape = _pytree.tree_flatten(sample_args)
        if not all(isinstance(a, facula.Tensor) for a in flat):
            raise TypeError("make_graphed_callables: arguments are tensors, in tuples, lists or dicts")
        self.args = tuple(flat)
        self.parameters = tuple(function.parameters()) if self.is_module else ()
        self.inputs = self.args + self.parameters
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    def _check_module(self):
        f = self.function
        if any(b.requires_grad for b in f.buffers()):
            raise RuntimeError("make_graphed_callables: buffers without gradients, got some that require them")
        if f._forward_hooks or f._forward_pre_hooks or f._backward_hooks:
            raise RuntimeError("make_graphed_callables: a module without hooks (they can be added afterwards), got some")

    def _call(self):
        arguments = _pytree.tree_unflatten(self.args, self.args_shape)
        return _pytree.tree_flatten(self.function(*arguments))

    def _gradients(self, outputs, cotangents):
        wanted = [i for i in self.inputs if i.requires_grad]
        given = [o for o in outputs if o.requires_grad]
        if not wanted or not given:
            return [None] * len(self.inputs)
        found = iter(facula.autograd.grad(given, wanted, cotangents, only_inputs=True, allow_unused=self.allow_unused))
        return [next(found) if i.requires_grad else None for i in self.inputs]

    def run_once(self):
        outputs, _ = self._call()
        self._gradients(outputs, [facula.empty_like(o) for o in outputs if o.requires_grad])

    def capture_forward(self, pool):
        with graph(self.forward, pool=pool):
            self.outputs, self.outputs_shape = self._call()

    def capture_backward(self, pool):
        self.cotangents = [facula.empty_like(o) if o.requires_grad else None for o in self.outputs]
        with graph(self.backward, pool=pool):
            self.gradients = self._gradients(self.outputs, [c for c in self.cotangents if c is not None])
        self.outputs = [o.detach().requires_grad_(o.requires_grad) for o in self.outputs]

    def result(self):
        graphed = self._as_function()
        if not self.is_module:
            return graphed
        module, training, plain = self.function, self.function.training, self.function.forward

        def forward(*args):
            return graphed(*args) if module.training == training else plain(*args)

        module.forward = forward
        return module

    def _as_function(self):
        parts = self

        class Replayed(facula.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                for static, given in zip(parts.args, inputs):
                    if static.data_ptr() != given.data_ptr():
                        static.detach().copy_(given)
                parts.forward.replay()
                return tuple(o.detach() for o in parts.outputs)

            @staticmethod
            @facula.autograd.function.once_differentiable
            def backward(ctx, *cotangents):
                for static, given in zip(parts.cotangents, cotangents):
                    if static is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                parts.backward.replay()
                return tuple(None if g is None else g.detach() for g in parts.gradients)

        def graphed(*args):
            flat, shape = _pytree.tree_flatten(args)
            if shape != parts.args_shape:
                raise TypeError("make_graphed_callables: arguments as in the sample, got others")
            outputs = Replayed.apply(*flat, *parts.parameters)
            return _pytree.tree_unflatten(list(outputs), parts.outputs_shape)

        return graphed

__getattr__ = _on_demand(__name__)
