"""Give access to the recorded graph: nodes and edges, hooks on saved values, and hooks on several gradients at once."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "saved_tensors_hooks", "save_on_cpu", "disable_saved_tensors_hooks", "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors", "Node", "GradientEdge", "get_gradient_edge", "increment_version",
    "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip

Node = _C._Node
Tensor = _C.Tensor


class GradientEdge(NamedTuple):
    """Name the place where the gradient of a tensor arrives: output `output_nr` of `node`.

    Args:
        node: the node of the graph.
        output_nr: which of its outputs.
        ownership_token: keeps the graph alive when the node is the context of a Function.

    >>> y = torch.ones(1, requires_grad=True) * 2
    >>> edge = torch.autograd.graph.get_gradient_edge(y)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of a tensor that requires a gradient; it serves in its place in `grad` and `backward`, and does not keep
    its memory.

    Args:
        tensor: the tensor.

    Errors: RuntimeError for a tensor that does not require a gradient.

    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x)
    >>> torch.autograd.grad((x * 3).sum(), edge)
    (tensor([3., 3.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            f"get_gradient_edge: a tensor that requires a gradient is expected, got shape {tuple(tensor.shape)}"
        )
    node = tensor._accumulator()
    # The node of a Function is its context, which only the tensor keeps alive.
    token = _C._node_owner(tensor) if isinstance(node, _C._FunctionBase) else None
    return GradientEdge(node, tensor.output_nr, token)


def increment_version(tensor: Tensor) -> None:
    """Count a write that autograd did not see, so that backward finds out that a saved value has changed.

    Args:
        tensor: a tensor or several.

    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump_version()


class saved_tensors_hooks:
    """Pass every value saved for backward in a block through `pack_hook`, and through `unpack_hook` when it is used.

    Args:
        pack_hook: takes a tensor and may return anything.
        unpack_hook: makes the tensor again of that.

    >>> packed = []
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.numpy(), torch.from_numpy):
    ...     y = x.detach().exp() * x
    >>> y.sum().backward()
    >>> len(packed), x.grad
    (1, tensor([2.7183, 2.7183]))
    """

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception: object) -> None:
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Store values that are saved for backward in a block in main memory, and copy them back to their device when they
    are used.

    Args:
        pin_memory: whether in page-locked memory, which copies faster; changes nothing where no device could use it.
        device_type: the device whose kind of pinned memory is meant.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        from .. import cuda

        def pack(tensor):
            if not (pin_memory and cuda.is_available()):
                return tensor.device, tensor.cpu()
            packed = _C.empty(tensor.size(), dtype=tensor.dtype, device="cpu", pin_memory=True)
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str):
    """Make entering saved_tensors_hooks a RuntimeError within it.

    Args:
        error_message: the text of the error.

    >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     y = torch.ones(1, requires_grad=True) * 2
    """
    before = _C._disable_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_hooks(before)


_MOST_PASSES = 1024  # that run at the same time, for register_multi_grad_hook


class _MultiHandle:
    """Remove several hooks together."""

    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call a function when the gradients of several tensors were computed.

    Args:
        tensors: tensors that require gradients.
        fn: called once per backward pass.
        mode: "all": when all were, with the list of them, None where there is none; "any": when the first was, with that
            gradient.

    Returns: a handle with ``remove()``.

    Errors: ValueError for another mode; AssertionError for a tensor that does not require a gradient.

    >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (a * 2 + b * 3).backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be {_C._one_of(mode, ('all', 'any'))}")
    tensors = list(tensors)
    for tensor in tensors:
        if not tensor.requires_grad:
            raise AssertionError(
                f"register_multi_grad_hook: expected tensors that require a gradient, got one of shape {tuple(tensor.shape)} "
                "that does not"
            )
    lock = threading.Lock()
    if mode == "any":
        fired = {}  # the last passes, in order: several may run at once, on threads or one inside the other

        def first(gradient):
            with lock:
                key = _C._pass_id()
                if key in fired:
                    return
                fired[key] = True
                if len(fired) > _MOST_PASSES:
                    del fired[next(iter(fired))]
            fn(gradient)

        return _MultiHandle([t.register_hook(first) for t in tensors])

    states = {}
    nodes = [t._accumulator() for t in tensors]  # as the tensors are now: they may lose their history

    def collect(gradient, index):
        key = _C._pass_id()
        with lock:
            if key not in states:
                states[key] = [[None] * len(tensors), _C._pass_reaches(nodes)]
            gradients, expected = states[key]
            gradients[index] = gradient
            states[key][1] = expected = expected - 1
            complete = expected == 0
            if complete:
                del states[key]
        if complete:
            fn(gradients)

    return _MultiHandle([t.register_hook(functools.partial(collect, index=i)) for i, t in enumerate(tensors)])


class _Kept:
    """Hold a saved value: the tensor itself, or a copy that was made before the first write to it."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.version = tensor._version
        self.copied = False

    def before_write(self, copies):
        """Keep a copy, one for all that were saved from the same place."""
        if self.copied:
            return
        place = (self.version, self.tensor.storage_offset(), tuple(self.tensor.shape), self.tensor.stride(), self.tensor.dtype)
        # Several values may be saved from the same memory, such as both arguments of x * x.
        if place not in copies:
            copies[place] = self.tensor.detach().clone()
        self.tensor, self.copied = copies[place], True


class _MutationContext:
    """Hold the saved values of `allow_mutation_on_saved_tensors`, by the memory in which they lie."""

    def __init__(self):
        self.by_memory = {}
        self.open = True

    def pack(self, tensor):
        kept = _Kept(tensor)
        # Weakly: a value that the graph has released needs no copy.
        entries = self.by_memory.setdefault(_memory_of(tensor), weakref.WeakSet())
        entries.add(kept)
        return kept

    def unpack(self, kept):
        if not self.open:
            raise AssertionError(
                "allow_mutation_on_saved_tensors: backward must run within the region that recorded the graph, got a call "
                "outside of it"
            )
        if not kept.copied and kept.tensor._version != kept.version:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors: a saved value was modified by a write that the context did not see, "
                f"got shape {tuple(kept.tensor.shape)} at version {kept.tensor._version}, saved at {kept.version}"
            )
        return kept.tensor

    def before_write(self, tensor):
        copies = {}
        for kept in list(self.by_memory.get(_memory_of(tensor), ())):
            kept.before_write(copies)

    def clear(self):
        self.by_memory.clear()

    def _kept(self):
        return [(memory, kept) for memory, entries in self.by_memory.items() for kept in entries]

    @property
    def cloned(self):
        """Hold the copies that were made before writes and are still needed, by their identity."""
        return {id(kept.tensor): kept.tensor for _, kept in self._kept() if kept.copied}

    @property
    def tid_to_weakhandle(self):
        """Return what stands for saved values in the graph, by the memory in which they lay and its version."""
        return {(memory, kept.version): kept for memory, kept in self._kept()}


def _memory_of(tensor):
    return tensor.untyped_storage()._cdata


_WRITING_DUNDERS = {"__setitem__", "__set__"} | {
    f"__i{name}__" for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
}


def _written(func, args, kwargs):
    """Yield the tensors that a call writes to, judged by the name of the function."""
    name = getattr(func, "__name__", "")
    in_place = name in _WRITING_DUNDERS if name.startswith("__") else name.endswith("_")
    if args and isinstance(args[0], Tensor) and in_place:
        yield args[0]
    out = kwargs.get("out")
    for tensor in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(tensor, Tensor):
            yield tensor


_mutation_contexts = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Let values saved for backward be written to within it: each is copied just before the first write to its memory.

    Backward has to run within it, too. Writes are seen when they are made by functions and methods of the library.

    Errors: RuntimeError when entered twice, AssertionError for a backward after it ended.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y * y
    ...     y = y.mul_(5)
    ...     z.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    from ..overrides import TorchFunctionMode

    if getattr(_mutation_contexts, "current", None) is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors: allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _MutationContext()

    class CopyBeforeWrite(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            for tensor in _written(func, args, kwargs):
                context.before_write(tensor)
            return func(*args, **kwargs)

    _mutation_contexts.current = context
    try:
        with saved_tensors_hooks(context.pack, context.unpack), CopyBeforeWrite():
            yield context
    finally:
        _mutation_contexts.current = None
        context.open = False
        context.clear()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Set whether to warn of gradients that accumulate in another stream. Changes nothing: they accumulate on the calling
    thread.

    Args:
        enabled: the switch.

    >>> torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """
