"""Average the gradients of several processes while the backward pass runs: the part that a program uses, and the choice
of the bucket for each parameter. `src/distributed/reducer.h` does the work; its first lines are the policy.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from facula import Tensor
    from facula.distributed._group import ProcessGroup

# Small, so that the first reduction starts early in the backward pass; PyTorch has the same size.
FIRST_BUCKET_BYTES = 1 << 20


class GradBucket:
    """Hold gradients that are sent together, for communication hooks."""

    def __init__(self, native, index: int, parameters: list[facula.Tensor], is_last: bool) -> None:
        self._native, self._index, self._parameters, self._is_last = native, index, parameters, is_last
        self._numel = sum(parameter.numel() for parameter in parameters)
        self._storage: facula.Tensor | None = None  # the gradients, and behind them a number for each
        self._future = None

    def index(self) -> int:
        """Return which of the buckets it is; 0 is ready first."""
        return self._index

    def is_last(self) -> bool:
        """Return whether it is the last of the pass."""
        return self._is_last

    def buffer(self) -> facula.Tensor:
        """Return all gradients in one dimension; what is written here is what parameters get."""
        return self._storage[: self._numel]

    def gradients(self) -> list[facula.Tensor]:
        """Return views of the buffer, one for each parameter."""
        return list(self._native.gradients(self._index))

    def parameters(self) -> list[facula.Tensor]:
        """Return the parameters, in the order of the gradients."""
        return list(self._parameters)

    def set_buffer(self, tensor: facula.Tensor) -> None:
        """Replace the buffer's values. ValueError for another number of elements."""
        if tensor.numel() != self._numel:
            raise ValueError(f"GradBucket.set_buffer: expected {self._numel} elements, got {tensor.numel()}")
        self.buffer().copy_(tensor.reshape(-1))

    def _used(self) -> facula.Tensor:
        """Return a number for each parameter, above 0 where it got a gradient."""
        return self._storage[self._numel :]


class Reducer:
    """Average the gradients of `parameters` over a process group.

    Args:
        parameters: (name, parameter) in the order of registration.
        process_group: the processes.
        bucket_bytes: the size of a bucket; the first is smaller, so that work begins early.
        static_graph: every pass is like the first one: parameters may get their gradient in several pieces.
    """

    process_group: ProcessGroup

    def __init__(self, parameters: Iterable[Tensor], process_group: ProcessGroup, bucket_bytes: int,
                 static_graph: bool = False) -> None:  # fmt: skip
        from facula import distributed as dist

        self._dist, self.process_group = dist, process_group
        self.world_size: int = dist.get_world_size(process_group)
        self._parameters = list(parameters)
        self._bucket_bytes, self._static_graph = bucket_bytes, static_graph
        self._hook = self._hook_state = None
        self._divisor = self.world_size
        self.was_rebuilt = False
        self._native = _C._dist_reducer(
            [name for name, _ in self._parameters], [parameter for _, parameter in self._parameters], process_group._native,
            process_group._timeout.total_seconds(), _weakly(self._launch), _weakly(self._land),
        )  # fmt: skip
        self._tell_options()
        # In reverse order of registration: gradients of the last layers are complete first.
        self._make_buckets(range(len(self._parameters) - 1, -1, -1))
        self.first_sizes: list[int] = self.sizes()

    def _tell_options(self) -> None:
        self._native.set_options(self._divisor, self._hook is not None, self._static_graph)

    @property
    def enabled(self) -> bool:
        """Whether the next backward pass is averaged."""
        return self._native.enabled()

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._native.enable(bool(on))

    @property
    def divisor(self) -> int:
        """What sums are divided by."""
        return self._divisor

    @divisor.setter
    def divisor(self, value: int) -> None:
        self._divisor = value
        self._tell_options()

    @property
    def static_graph(self) -> bool:
        """Whether every pass is like the first one."""
        return self._static_graph

    @static_graph.setter
    def static_graph(self, value: bool) -> None:
        self._static_graph = value
        self._tell_options()

    @property
    def _passes(self) -> int:
        return self._native.passes()

    # ---- buckets

    def _make_buckets(self, order) -> None:
        """Fill buckets with parameters in the given order, one list of open buckets for each dtype and device."""
        groups: list[list[int]] = []
        open_groups, sizes, limits = {}, {}, {}
        for number in order:
            parameter = self._parameters[number][1]
            key = (parameter.dtype, parameter.device)
            if key not in open_groups:
                open_groups[key], sizes[key] = [], 0
                groups.append(open_groups[key])
            open_groups[key].append(number)
            sizes[key] += parameter.nbytes
            if sizes[key] >= limits.get(key, min(FIRST_BUCKET_BYTES, self._bucket_bytes)):
                limits[key] = self._bucket_bytes
                del open_groups[key]
        self._native.set_buckets(groups)
        self._buckets = [
            GradBucket(self._native, index, [self._parameters[number][1] for number in group], index == len(groups) - 1)
            for index, group in enumerate(groups)
        ]

    def sizes(self) -> list[int]:
        """Return the bytes of the gradients of each bucket."""
        return [sum(parameter.nbytes for parameter in bucket.parameters()) for bucket in self._buckets]

    def rebuild(self) -> None:
        """Order the buckets as gradients came in the first pass of rank 0; all processes must call it."""
        if self.was_rebuilt or not self._passes:
            return
        self.was_rebuilt: bool = True
        came = self._native.order()
        rest = set(range(len(self._parameters))).difference(came)
        # Parameters without a gradient come last, in the order of the first buckets. Rank 0 decides, because the orders
        # of processes may differ and their buckets must not.
        told = facula.tensor(came + sorted(rest, reverse=True), dtype=facula.int64)
        self._dist.broadcast(told, self._dist.get_global_rank(self.process_group, 0), group=self.process_group)
        for _, parameter in self._parameters:  # gradients that lie in the old buckets stay what they are
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        self._make_buckets(told.tolist())

    # ---- buckets that the program sums by a hook, or that observers follow

    def _launch(self, index: int, storage: facula.Tensor) -> None:
        bucket = self._buckets[index]
        bucket._storage = storage
        with facula.no_grad():
            if self._hook is None:
                bucket._future = self._dist.all_reduce(storage, group=self.process_group, async_op=True)
                return
            bucket._future = self._hook(self._hook_state, bucket)
        if not hasattr(bucket._future, "wait"):
            raise TypeError(
                "register_comm_hook: the hook must return a Future of the bucket's buffer, got "
                f"{type(bucket._future).__name__}"
            )

    def _land(self, index: int, all_used: bool) -> None:
        bucket = self._buckets[index]
        future, bucket._future = bucket._future, None
        with facula.no_grad():
            result = future.wait()
            if self._hook is not None:
                self._take_result(bucket, result, all_used)

    def _take_result(self, bucket: GradBucket, result, all_used: bool) -> None:
        """Take what a hook's future gave: a tensor, or a list with one."""
        tensor = result[0] if isinstance(result, (list, tuple)) else result
        if not isinstance(tensor, facula.Tensor):
            raise TypeError(f"register_comm_hook: the hook's Future must give a tensor, got {type(tensor).__name__}")
        # A hook that works in place returns the buffer itself, and nothing has to be copied.
        if tensor.untyped_storage()._cdata != bucket._storage.untyped_storage()._cdata:
            bucket.set_buffer(tensor)
        if not all_used or not self.static_graph:
            self._dist.all_reduce(bucket._used(), group=self.process_group)

    # ---- for others

    def prepare_for_backward(self, outputs: Any = ()) -> None:
        """Average the next backward pass, though its forward was made under no_sync; `outputs` are not needed."""
        self.enabled = True

    def register_hook(self, state: dict[str, Any], hook: Callable[..., Any]) -> None:
        """Hand buckets to `hook(state, bucket)` instead of summing them."""
        self._hook_state, self._hook = state, hook
        self._tell_options()

    def shadow(self) -> None:
        """Take part in the averages of a pass with zeros, for processes that have no more inputs."""
        self._native.shadow()

    def remove_hooks(self) -> None:
        """Leave the parameters alone from now on."""
        self._native.remove()


def _weakly(method):
    """Return a function that calls a method as long as its object lives."""
    # The core holds the function in hooks of parameters. A strong reference would be a cycle through C++, which
    # Python's collector does not see.
    reference = weakref.WeakMethod(method)

    def call(*args):
        alive = reference()
        if alive is not None:
            alive(*args)

    return call
