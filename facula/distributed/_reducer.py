"""Gradients of several processes, averaged while the backward pass runs.

Parameters are put into buckets in the order in which their gradients are expected. A gradient is copied into its place
in the bucket, times 1 / world size, when it is ready, and becomes a view of the bucket; a bucket that is full is summed
over the processes while the pass goes on. Behind its gradients a bucket has one number for each of them, above 0 where
the parameter got a gradient: after the sum it says whether any process used the parameter, so that one that nobody used
keeps what it had, and unused ones need no search through the graph and no message of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import facula
from facula import _C

FIRST_BUCKET_BYTES = 1 << 20


@dataclass
class _Slot:
    """A parameter's place in its bucket."""

    parameter: facula.Tensor
    name: str
    number: int  # in the order of registration
    offset: int
    strides: tuple[int, ...]
    expected: int = 1  # how often a backward pass accumulates: more with static_graph and reentrant checkpoints
    left: int = 0
    used: bool = False


class GradBucket:
    """Gradients that travel together, as communication hooks see them."""

    def __init__(self, index: int, slots: list[_Slot], is_last: bool) -> None:
        self._index, self._slots, self._is_last = index, slots, is_last
        self._numel = sum(slot.parameter.numel() for slot in slots)
        self._storage: facula.Tensor | None = None  # the gradients, and behind them a number for each
        self._begun = self._launched = False
        self._left = 0
        self._future = None

    def index(self) -> int:
        """Which of the buckets it is; 0 is ready first."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last of the pass."""
        return self._is_last

    def buffer(self) -> facula.Tensor:
        """All gradients in one dimension; what is written here is what parameters get."""
        return self._storage[: self._numel]

    def gradients(self) -> list[facula.Tensor]:
        """Views of the buffer, one for each parameter."""
        return [self._view(slot) for slot in self._slots]

    def parameters(self) -> list[facula.Tensor]:
        """The parameters, in the order of the gradients."""
        return [slot.parameter for slot in self._slots]

    def set_buffer(self, tensor: facula.Tensor) -> None:
        """Replaces the buffer's values. ValueError for another number of elements."""
        if tensor.numel() != self._numel:
            raise ValueError(f"GradBucket.set_buffer: expected {self._numel} elements, got {tensor.numel()}")
        self.buffer().copy_(tensor.reshape(-1))

    # ---- what follows is the reducer's

    def _view(self, slot: _Slot) -> facula.Tensor:
        return self._storage.as_strided(slot.parameter.shape, slot.strides, slot.offset)

    def _holds(self, grad: facula.Tensor) -> bool:
        return self._storage is not None and grad.untyped_storage()._cdata == self._storage.untyped_storage()._cdata

    def _begin(self) -> None:
        """Takes a storage that nobody else looks at: a gradient of an earlier pass that somebody keeps stays as it is."""
        if self._storage is not None:
            grads = [grad for slot in self._slots if (grad := slot.parameter.grad) is not None and self._holds(grad)]
            if self._storage.untyped_storage()._use_count() > 1 + len(grads):
                self._storage = None
        if self._storage is None:
            first = self._slots[0].parameter
            self._storage = facula.empty(self._numel + len(self._slots), dtype=first.dtype, device=first.device)
        self._storage[self._numel :].fill_(1)
        self._left = sum(slot.expected for slot in self._slots)
        for slot in self._slots:
            slot.left, slot.used = slot.expected, False
        self._begun, self._launched, self._future = True, False, None

    def _put(self, slot: _Slot, scale: float) -> None:
        """Copies the parameter's gradient, times `scale`, into its place, which becomes the gradient."""
        grad = slot.parameter.grad
        if self._holds(grad):
            if scale != 1:
                grad.mul_(scale)
            return
        view = self._view(slot)
        if scale == 1:
            view.copy_(grad)
        else:
            facula.mul(grad, scale, out=view)
        slot.parameter.grad = view

    def _leave_out(self, position: int, scale: float, accumulated: bool) -> None:
        """Puts in what a parameter without a gradient in this pass has: what it had before, or nothing. Gradients that passes
        under no_sync `accumulated` are averaged like those of this pass."""
        slot = self._slots[position]
        if accumulated and slot.parameter.grad is not None:
            slot.used = True
            self._put(slot, scale)
            return
        self._storage[self._numel + position] = 0
        if slot.parameter.grad is None:
            self._view(slot).zero_()
        else:
            had = slot.parameter.grad
            facula.mul(had, scale, out=self._view(slot))

    def _used_anywhere(self) -> list[bool]:
        return (self._storage[self._numel :] > 0).tolist()


class Reducer:
    """Averages gradients of `parameters` over a process group.

    Args:
        parameters: (name, parameter) in the order of registration.
        process_group: the processes.
        bucket_bytes: the size of a bucket; the first is smaller, so that work begins early.
        static_graph: every pass is like the first one: parameters may get their gradient in several pieces.
    """

    def __init__(self, parameters, process_group, bucket_bytes: int, static_graph: bool = False) -> None:
        from facula import distributed as dist

        self._dist, self.process_group = dist, process_group
        self.world_size = dist.get_world_size(process_group)
        self._parameters = list(parameters)
        self._bucket_bytes, self.static_graph = bucket_bytes, static_graph
        self._hook = self._hook_state = None
        self.divisor = self.world_size
        self.enabled = True  # whether the next backward pass is averaged
        self._pass = None
        self._order: dict[int, None] = {}  # numbers of parameters, as their gradients came at first
        self._counts: dict[int, int] = {}
        self._accumulated: set[int] = set()  # numbers of parameters that got gradients since the last average
        self.was_rebuilt, self._passes = False, 0
        self._make_buckets(range(len(self._parameters) - 1, -1, -1))
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._ready(number))
            for number, (_, parameter) in enumerate(self._parameters)
        ]

    # ---- buckets

    def _make_buckets(self, order) -> None:
        """Fills buckets with parameters in the given order, one list of open buckets for each dtype and device."""
        groups, open_groups, limits = [], {}, {}
        for number in order:
            name, parameter = self._parameters[number]
            key = (parameter.dtype, parameter.device)
            group = open_groups.get(key)
            if group is None:
                group = open_groups[key] = []
                groups.append(group)
            group.append(number)
            size = sum(self._parameters[n][1].nbytes for n in group)
            if size >= limits.get(key, min(FIRST_BUCKET_BYTES, self._bucket_bytes)):
                limits[key] = self._bucket_bytes
                del open_groups[key]
        self._buckets, self._places = [], {}
        for index, group in enumerate(groups):
            slots = self._slots(group)
            self._buckets.append(GradBucket(index, slots, index == len(groups) - 1))
            for position, slot in enumerate(slots):
                self._places[slot.number] = (self._buckets[-1], position, slot)

    def _slots(self, group: list[int]) -> list[_Slot]:
        slots, offset = [], 0
        for number in group:
            name, parameter = self._parameters[number]
            strides = parameter.stride() if _is_dense(parameter) else facula.empty(parameter.shape, device="meta").stride()
            slots.append(_Slot(parameter, name, number, offset, strides, self._counts.get(number, 1)))
            offset += parameter.numel()
        return slots

    def rebuild(self) -> None:
        """Orders the buckets as gradients came in the first pass of rank 0; all processes must call it."""
        if self.was_rebuilt or not self._passes:
            return
        self.was_rebuilt = True
        order = list(self._order) + [n for n in range(len(self._parameters) - 1, -1, -1) if n not in self._order]
        told = facula.tensor(order, dtype=facula.int64)
        self._dist.broadcast(told, self._dist.get_global_rank(self.process_group, 0), group=self.process_group)
        for _, parameter in self._parameters:  # gradients that lie in the old buckets stay what they are
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        self._make_buckets(told.tolist())

    # ---- a backward pass

    def _ready(self, number: int):
        def hook(parameter):
            if self.enabled:
                with facula.no_grad():
                    self._gradient_came(number)
            else:
                self._accumulated.add(number)

        return hook

    def _gradient_came(self, number: int) -> None:
        if self._pass is None:
            self._begin_pass()
        bucket, _, slot = self._places[number]
        if not self.was_rebuilt:
            self._order.setdefault(number)
        slot.used = True
        slot.left -= 1
        if self._deferred:
            self._counts[number] = self._counts.get(number, 0) + 1
            return  # the first pass of a static graph shows how often each comes
        if slot.left < 0:
            raise RuntimeError(
                f"DistributedDataParallel: {slot.name} got a gradient again after it had been averaged, in one backward pass: "
                "a reentrant checkpoint uses it twice (use_reentrant=False or static_graph=True helps), got "
                f"{slot.expected - slot.left} gradients"
            )
        if slot.left == 0:
            bucket._put(slot, self._scale)
        bucket._left -= 1
        if bucket._left == 0:
            self._launch_what_is_ready()

    def _begin_pass(self) -> None:
        self._pass = True
        self._scale = 1.0 if self._hook else 1.0 / self.divisor
        self._deferred = self.static_graph and not self._counts
        self._next = 0
        for bucket in self._buckets:
            bucket._begin()
        facula.autograd.Variable._execution_engine.queue_callback(self._end_pass)
        reached = _C._pass_reaches_leaves([parameter for _, parameter in self._parameters])
        if reached is not None and not self._deferred and not all(reached):
            for number, reaches in enumerate(reached):
                if not reaches:
                    self._leave_out(number)
            self._launch_what_is_ready()

    def _leave_out(self, number: int) -> None:
        bucket, position, slot = self._places[number]
        bucket._leave_out(position, self._scale, number in self._accumulated)
        bucket._left -= slot.left
        slot.left = 0

    def _launch_what_is_ready(self) -> None:
        """In the order of the buckets, the same in every process."""
        while self._next < len(self._buckets) and self._buckets[self._next]._left == 0:
            self._launch(self._buckets[self._next])
            self._next += 1

    def _launch(self, bucket: GradBucket) -> None:
        bucket._launched = True
        if self._hook is None:
            bucket._future = self._dist.all_reduce(bucket._storage, group=self.process_group, async_op=True)
        else:
            bucket._future = self._hook(self._hook_state, bucket)
            if not hasattr(bucket._future, "wait"):
                raise TypeError(
                    "register_comm_hook: the hook must return a Future of the bucket's buffer, got "
                    f"{type(bucket._future).__name__}"
                )

    def _end_pass(self) -> None:
        try:
            with facula.no_grad():
                self._finish()
        finally:
            self._pass = None
            self._passes += 1
            self._accumulated.clear()
            for bucket in self._buckets:
                bucket._begun, bucket._future = False, None

    def _finish(self) -> None:
        for number in range(len(self._parameters)):
            bucket, _, slot = self._places[number]
            if self._deferred and slot.used:
                bucket._put(slot, self._scale)
                bucket._left -= slot.left + self._counts[number]
                slot.left = 0
            elif slot.left > 0:
                self._leave_out(number)
        if self._deferred:
            for bucket in self._buckets:
                bucket._left = 0
            self._counts = {number: self._counts.get(number, 1) for number in range(len(self._parameters))}
            for number, (_, _, slot) in self._places.items():
                slot.expected = self._counts[number]
        self._launch_what_is_ready()
        for bucket in self._buckets:
            result = bucket._future.wait()
            if self._hook is not None:
                self._take_result(bucket, result)
            self._give_gradients(bucket)

    def _take_result(self, bucket: GradBucket, result) -> None:
        """What a hook's future gave: a tensor, or a list with one."""
        tensor = result[0] if isinstance(result, (list, tuple)) else result
        if not isinstance(tensor, facula.Tensor):
            raise TypeError(f"register_comm_hook: the hook's Future must give a tensor, got {type(tensor).__name__}")
        if tensor.untyped_storage()._cdata != bucket._storage.untyped_storage()._cdata:
            bucket.set_buffer(tensor)
        used = bucket._storage[bucket._numel :]
        if not all(slot.used for slot in bucket._slots) or not self.static_graph:
            self._dist.all_reduce(used, group=self.process_group)

    def _give_gradients(self, bucket: GradBucket) -> None:
        """Parameters that only other processes have used get their gradients, too."""
        if all(slot.used for slot in bucket._slots):
            return
        for slot, used in zip(bucket._slots, bucket._used_anywhere()):
            if used and not slot.used:
                slot.parameter.grad = bucket._view(slot)

    # ---- for others

    def prepare_for_backward(self, outputs=()) -> None:
        """The next backward pass is averaged, though its forward was made under no_sync; `outputs` are not needed."""
        self.enabled = True

    def register_hook(self, state, hook) -> None:
        """Hands buckets to `hook(state, bucket)` instead of summing them."""
        self._hook_state, self._hook = state, hook

    def shadow(self) -> None:
        """Takes part in the averages of a pass with zeros, for processes that have no more inputs."""
        self._passes += 1
        with facula.no_grad():
            for bucket in self._buckets:
                bucket._begin()
                bucket._storage.zero_()
                self._launch(bucket)
            for bucket in self._buckets:
                result = bucket._future.wait()
                if self._hook is not None:
                    self._take_result(bucket, result)
                bucket._begun, bucket._future = False, None

    def remove_hooks(self) -> None:
        """Leaves the parameters alone from now on."""
        for handle in self._handles:
            handle.remove()


def _is_dense(t: facula.Tensor) -> bool:
    """Whether the elements fill memory without gaps and without overlaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(t.stride(), t.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
