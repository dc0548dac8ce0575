"""Define schedules: batches are cut into pieces, which stages run forwards and backwards at the same time as other stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist

from . import _orders
from .microbatch import merge_chunks, split_args_kwargs_into_chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]

FORWARD = F = _orders.Kind.FORWARD
FULL_BACKWARD = B = _orders.Kind.FULL_BACKWARD
BACKWARD_INPUT = I = _orders.Kind.BACKWARD_INPUT  # noqa: E741  (PyTorch's name)
BACKWARD_WEIGHT = W = _orders.Kind.BACKWARD_WEIGHT
OVERLAP_F_B = _orders.Kind.OVERLAP_F_B
UNSHARD, RESHARD, REDUCE_GRAD = _orders.Kind.UNSHARD, _orders.Kind.RESHARD, _orders.Kind.REDUCE_GRAD
SEND_F, RECV_F, SEND_B, RECV_B = _orders.Kind.SEND_F, _orders.Kind.RECV_F, _orders.Kind.SEND_B, _orders.Kind.RECV_B


class _PipelineSchedule:
    """Run batches by the orders that a subclass computes."""

    def __init__(self, stages: Any, n_microbatches: int, loss_fn: Callable[..., Any], args_spec: Any, kwargs_spec: Any,
                 merge_spec: Any, scale_grads: bool) -> None:  # fmt: skip
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: n_microbatches must be positive, got {n_microbatches}")
        self._stages, self._count, self._loss_fn = {s.stage_index: s for s in stages}, n_microbatches, loss_fn
        self._args_spec, self._kwargs_spec, self._merge_spec = args_spec, kwargs_spec, merge_spec
        self.scale_grads = scale_grads
        first = stages[0]
        self._size, self._rank = dist.get_world_size(first.group), dist.get_rank(first.group)
        self._num_stages = first.num_stages
        self._check_places()
        for stage in stages:
            stage._rank_of = lambda index: self._place(index, self._size)
            stage._near = self._stages
        #: {rank: [its actions]}
        self.pipeline_order: dict[Any, Any] = dict(enumerate(self._orders()))
        self._order = self.pipeline_order[self._rank]

    @staticmethod
    def _place(stage: int, size: int) -> int:
        """Return the rank of a stage."""
        return _orders.loop(stage, size)

    def _orders(self) -> list:
        """Return the actions of each process."""
        raise NotImplementedError(f"{type(self).__name__}._orders: derive from it, got {self._count} pieces")

    def _check_places(self) -> None:
        expected = [s for s in range(self._num_stages) if self._place(s, self._size) == self._rank]
        if sorted(self._stages) != expected:
            raise ValueError(
                f"{type(self).__name__}: rank {self._rank} of {self._size} has stages {expected} of {self._num_stages}, "
                f"got {sorted(self._stages)}"
            )

    def step(self, *args: Any, target: Tensor | None = None, losses: list[Any] | None = None, return_outputs: bool = True,
             loss_kwargs: Any = None, **kwargs: Any) -> Any:  # fmt: skip
        """Run one batch forwards and backwards.

        Args:
            args: the batch, in the process of the first stage.
            target: what the loss compares with, in that of the last one; ValueError where it is missing there.
            losses: a list that gets the loss of every piece, in that of the last one.
            return_outputs: whether the last stage gives its outputs.
            loss_kwargs, kwargs: further arguments of the loss, and of every stage's part of the model.
        Returns:
            the outputs of the batch in the process of the last stage, else None.
        """
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, self._loss_fn is not None)

    def eval(self, *args: Any, target: Tensor | None = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """Run one batch forwards, without gradients; give what `step` does.

        Args:
            args: the batch, in the process of the first stage.
            target: what the loss compares with; needed only for `losses`.
            losses: a list that gets the loss of every piece, in the process of the last stage.
            kwargs: further arguments of every stage's part of the model.
        """
        with facula.no_grad():
            return self._run(args, kwargs, target, losses, True, {}, False)

    @property
    def _has_last(self) -> bool:
        return self._num_stages - 1 in self._stages

    def _run(self, args, kwargs, target, losses, return_outputs, loss_kwargs, backwards):
        pieces, named = split_args_kwargs_into_chunks(args, kwargs, self._count, self._args_spec, self._kwargs_spec)
        wanted = self._targets(target, backwards)
        waiting, weights, outputs = {}, {}, []

        def forward(stage, i):
            inputs, output = stage.forward(pieces[i], named[i])
            loss = None
            if stage.is_last:
                outputs.append(output.detach() if isinstance(output, facula.Tensor) else output)
                if self._loss_fn is not None and wanted is not None:
                    loss = self._loss_fn(output, wanted[i], **loss_kwargs)
                    if losses is not None:
                        losses.append(loss.detach())
                    loss = loss / self._count if self.scale_grads else loss
            waiting[stage.stage_index, i] = inputs, output, loss

        def backward(kind, stage, i):
            place, last = (stage.stage_index, i), i == self._count - 1
            if stage.sums_gradients:
                stage.set_sync(False)
                if last and kind == "I":  # sums come with a whole backward pass, behind all that they are of
                    for other in [p for p in weights if p[0] == stage.stage_index]:
                        weights.pop(other)()
                    kind = "B"
                stage.set_sync(last and kind == "B")
            if kind == "B":
                stage.backward(*waiting.pop(place))
            elif kind == "I":
                weights[place] = stage.backward_inputs(*waiting.pop(place))
            elif place in weights:
                weights.pop(place)()

        for stage in self._stages.values():
            stage.begin()
        for kind, number, i in self._order:
            if kind == "F":
                forward(self._stages[number], i)
            elif backwards:
                backward(kind, self._stages[number], i)
        for stage in self._stages.values():
            stage.set_sync(True)
            stage.finish()
        return merge_chunks(outputs, self._merge_spec) if self._has_last and return_outputs else None

    def _targets(self, target, backwards: bool):
        if not self._has_last or target is None:
            if self._has_last and backwards:
                raise ValueError(f"{type(self).__name__}.step: the last stage needs a target for its loss, got None")
            return None
        return [args[0] for args in split_args_kwargs_into_chunks((target,), {}, self._count)[0]]


class PipelineScheduleSingle(_PipelineSchedule):
    """Schedule one stage in each process; ScheduleGPipe and Schedule1F1B derive from it.

    Args:
        stage: the stage of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.

    >>> from torch.distributed.pipelining.schedules import PipelineScheduleSingle, ScheduleGPipe
    >>> issubclass(ScheduleGPipe, PipelineScheduleSingle)
    True
    """

    def __init__(self, stage: Any, n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
                 kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True) -> None:  # fmt: skip
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )


class ScheduleGPipe(PipelineScheduleSingle):
    """Run all pieces forwards, then all backwards.

    Args:
        stage: the stage of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stage = PipelineStage(nn.Linear(4, 2), stage_index=0, num_stages=1, device="cpu")
    >>> schedule, losses = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss), []
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 2), losses=losses).shape, len(losses)
    (torch.Size([6, 2]), 2)
    >>> schedule.pipeline_order
    {0: [0F0, 0F1, 0B0, 0B1]}
    >>> dist.destroy_process_group()
    """

    def _orders(self):
        return _orders.all_forward_first(self._size, self._num_stages, self._count)


class Schedule1F1B(PipelineScheduleSingle):
    """Run one piece backwards for every one forwards, as soon as the first piece has come through. No stage holds more
    pieces than there are stages behind it.

    Args:
        stage: the stage of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stage = PipelineStage(nn.Linear(4, 2), stage_index=0, num_stages=1, device="cpu")
    >>> schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 2)).shape
    torch.Size([6, 2])
    >>> schedule.pipeline_order
    {0: [0F0, 0B0, 0F1, 0B1]}
    >>> dist.destroy_process_group()
    """

    def _orders(self):
        return _orders.one_by_one(self._size, self._num_stages, self._count)


class PipelineScheduleMulti(_PipelineSchedule):
    """Schedule several stages in each process; the others of this module derive from it.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        use_full_backward: accepted: a schedule knows which backwards are in halves.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleLoopedBFS
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleLoopedBFS(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape, schedule.eval(torch.ones(6, 4)).shape
    (torch.Size([6, 4]), torch.Size([6, 4]))
    >>> dist.destroy_process_group()
    """

    def __init__(self, stages: Any, n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
                 kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, use_full_backward: bool | None = None,
                 scale_grads: bool = True, backward_requires_autograd: bool = True) -> None:  # fmt: skip
        if not backward_requires_autograd:
            raise NotImplementedError(f"{type(self).__name__}: backward_requires_autograd is not supported, got False")
        super().__init__(
            list(stages), n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Run all pieces forwards, stage by stage, then all backwards.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).
        defer_pp_recv: accepted: processes receive when they need something.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleLoopedBFS
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleLoopedBFS(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape
    torch.Size([6, 4])
    >>> dist.destroy_process_group()
    """

    def __init__(self, stages: Any, n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
                 output_merge_spec: Any = None, scale_grads: bool = True, backward_requires_autograd: bool = True,
                 defer_pp_recv: bool = False) -> None:  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, None, None, output_merge_spec, None, scale_grads, backward_requires_autograd
        )

    def _orders(self):
        return _orders.all_forward_first(self._size, self._num_stages, self._count)


class _Several(PipelineScheduleMulti):
    """Take the arguments of schedules of several stages.

    Args:
        stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads,
            backward_requires_autograd: as for `PipelineScheduleMulti`.
        defer_pp_recv: accepted: processes receive when they need something.
    """

    def __init__(self, stages: Any, n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
                 kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
                 backward_requires_autograd: bool = True, defer_pp_recv: bool = False) -> None:  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, None, scale_grads,
            backward_requires_autograd,
        )  # fmt: skip


class ScheduleInterleaved1F1B(_Several):
    """Run one piece backwards for every one forwards. Stages go around the processes, so that less time passes before
    the first piece is through.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).
        defer_pp_recv: accepted: processes receive when they need something.

    Errors: ValueError where the pieces are no multiple of the rounds in which processes take them.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleInterleaved1F1B(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape
    torch.Size([6, 4])
    >>> dist.destroy_process_group()
    """

    def _orders(self):
        rounds = max(1, self._count // self._size)
        if self._count % rounds:
            raise ValueError(
                f"{type(self).__name__}: the rounds, {rounds}, must divide n_microbatches, got {self._count}"
            )
        return self._ordered()

    def _ordered(self):
        return _orders.one_by_one(self._size, self._num_stages, self._count)


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """Run the order of `ScheduleInterleaved1F1B`, and compute gradients of weights where a process would wait.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).
        defer_pp_recv: accepted: processes receive when they need something.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleInterleavedZeroBubble(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape
    torch.Size([6, 4])
    >>> dist.destroy_process_group()
    """

    def _ordered(self):
        base = _orders.one_by_one(self._size, self._num_stages, self._count, "I")
        return _orders.with_weights_in_gaps(base, self._num_stages)


class _Vee(_Several):
    """Place two stages in each process, the first and the last stage in the same one."""

    @staticmethod
    def _place(stage: int, size: int) -> int:
        return _orders.vee(stage, size)

    def _orders(self):
        name = type(self).__name__
        if self._num_stages != 2 * self._size:
            raise ValueError(f"{name}: two stages in each process, got {self._num_stages} for {self._size}")
        return self._ordered()


class ScheduleZBVZeroBubble(_Vee):
    """Run two stages in each process, with the first and the last in the same one, and compute gradients of weights
    where a process would wait.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).
        defer_pp_recv: accepted: processes receive when they need something.

    Errors: ValueError for another number of stages than two in each process.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleZBVZeroBubble(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape
    torch.Size([6, 4])
    >>> dist.destroy_process_group()
    """

    def _ordered(self):
        return _orders.vee_without_gaps(self._size, self._count)


class ScheduleDualPipeV(_Vee):
    """Run two stages in each process, with the first and the last in the same one, and a forward of one beside a
    backward of the other.

    Args:
        stages: the stages of this process.
        n_microbatches: pieces of a batch.
        loss_fn: `loss_fn(output, target)`, in the last stage. None: nothing runs backwards.
        args_chunk_spec, kwargs_chunk_spec: along which dimensions inputs are cut. Default: 0.
        output_merge_spec: along which dimension outputs are put together. Default: 0.
        scale_grads: whether gradients are those of the mean of the pieces' losses.
        backward_requires_autograd: False is not supported (NotImplementedError).
        defer_pp_recv: accepted: processes receive when they need something.

    Errors: ValueError for another number of stages than two in each process, and for fewer pieces than stages.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage, ScheduleDualPipeV
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stages = [PipelineStage(nn.Linear(4, 4), index, num_stages=2, device="cpu") for index in range(2)]
    >>> schedule = ScheduleDualPipeV(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    >>> schedule.step(torch.ones(6, 4), target=torch.ones(6, 4)).shape
    torch.Size([6, 4])
    >>> dist.destroy_process_group()
    """

    def _ordered(self):
        if self._count < self._num_stages:
            raise ValueError(
                f"ScheduleDualPipeV: as many pieces as there are stages, {self._num_stages}, at least, got {self._count}"
            )
        return _orders.dual_vee(self._size, self._count)


_CLASSES = {
    c.__name__.removeprefix("Schedule").lower(): c
    for c in (
        ScheduleGPipe, Schedule1F1B, ScheduleLoopedBFS, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble,
        ScheduleZBVZeroBubble, ScheduleDualPipeV, PipelineScheduleSingle, PipelineScheduleMulti,
    )
}  # fmt: skip


def get_schedule_class(schedule_name: str) -> Any:
    """Return the class of a schedule.

    Args:
        schedule_name: its name, with "Schedule" or without it, in any case. ValueError if there is none.

    >>> from torch.distributed.pipelining.schedules import get_schedule_class
    >>> get_schedule_class("1f1b").__name__
    'Schedule1F1B'
    """
    found = _CLASSES.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(f"get_schedule_class: schedule_name must be {_C._one_of(schedule_name, _CLASSES)}")
    return found
