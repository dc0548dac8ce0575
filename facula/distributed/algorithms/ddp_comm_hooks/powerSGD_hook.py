"""Send gradients as products of two thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019).

A gradient matrix M (n x m) is approximated by P Q^T of rank r. All processes share a matrix Q: P = M Q is averaged and
made orthogonal, and then Q = M^T P is averaged, so that n r + m r numbers are sent instead of n m. The error of the
approximation is added to the next gradient (error feedback), and Q begins with its value of the last step (warm start).
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

from . import default_hooks

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
logger: Any = logging.getLogger(__name__)


class PowerSGDState:
    """Hold the state of the hooks of PowerSGD between steps.

    Args:
        process_group: the processes. None: all.
        matrix_approximation_rank: the rank r; higher is closer and slower.
        start_powerSGD_iter: the first steps, in which gradients change most, are averaged as they are.
        min_compression_rate: tensors that would not shrink by this factor travel as they are.
        use_error_feedback: whether what is left out is added to the next gradient.
        warm_start: whether Q begins where it ended.
        orthogonalization_epsilon: added to norms, against division by zero. 0: orthogonalized by QR.
        random_seed: of the first Q, the same in all processes.
        compression_stats_logging_frequency: every so many steps the rate is logged.
        batch_tensors_with_same_shape: tensors of one shape are multiplied together.

    Errors: ValueError for a rank below 1, and for `start_powerSGD_iter` below 2 with error feedback or warm start.

    >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
    >>> state = PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=100)
    >>> state.compression_stats()  # before the first step
    (0, 0, 0)
    """

    matrix_approximation_rank: int
    start_powerSGD_iter: int
    use_error_feedback: bool
    warm_start: bool
    orthogonalization_epsilon: int
    random_seed: int
    iter: int

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: int = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: int = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ValueError(f"PowerSGDState: matrix_approximation_rank must be positive, got {matrix_approximation_rank}")
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "PowerSGDState: start_powerSGD_iter must be above 1 with error feedback or warm start, for buckets are "
                f"rebuilt after the first step, got {start_powerSGD_iter}"
            )
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon, self.random_seed = orthogonalization_epsilon, random_seed
        self.compression_stats_logging_frequency: int = max(1, compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.error_dict: dict[int, facula.Tensor] = {}
        self.q_memory_dict: dict[int, list[facula.Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.next_stats_report = 0

    def __getstate__(self) -> Any:
        # A process group is a connection of this process, which no file can hold.
        return {name: value for name, value in self.__dict__.items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, process_group=dist.group.WORLD)

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count a step, at its last bucket; the hook calls it.

        Args:
            bucket: a GradBucket.

        >>> from types import SimpleNamespace
        >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
        >>> state = PowerSGDState(process_group=None)
        >>> state.maybe_increase_iter(SimpleNamespace(is_last=lambda: False))
        >>> state.iter
        0
        """
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float | int, int, int]:
        """Return (how many times fewer numbers travel, numbers before, numbers after)."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after


def _orthogonalize(matrices: facula.Tensor, epsilon: float) -> None:
    """Make the columns of a matrix, or of each of a batch, orthonormal, in place."""
    if epsilon == 0 and matrices.dtype in (facula.float32, facula.float64):
        matrices.copy_(facula.linalg.qr(matrices).Q)
        return
    for i in range(matrices.shape[-1]):
        column = matrices[..., :, i : i + 1]
        column.div_(column.norm(dim=-2, keepdim=True) + epsilon)
        rest = matrices[..., :, i + 1 :]
        if rest.shape[-1]:
            rest.sub_((column * rest).sum(dim=-2, keepdim=True) * column)


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients as a hook of DistributedDataParallel: every tensor with two dimensions or more travels as two thin
    matrices, all others as they are. A matrix of ``n x m`` becomes ``r (n + m)`` numbers.

    Args:
        state: a PowerSGDState.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
    >>> model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=100), powerSGD_hook)
    >>> dist.destroy_process_group()
    """
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._sum(group, bucket.buffer())
    return _run(state, bucket, group, bucket.gradients())


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients as a hook of DistributedDataParallel: the whole bucket travels as one square matrix in two thin ones:
    faster, less close.

    Args:
        state: a PowerSGDState.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, batched_powerSGD_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
    >>> model.register_comm_hook(PowerSGDState(None), batched_powerSGD_hook)
    >>> dist.destroy_process_group()
    """
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._sum(group, bucket.buffer())
    buffer = bucket.buffer()
    side = math.ceil(math.sqrt(buffer.numel()))
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()] = buffer
    future = _run(state, bucket, group, [square.view(side, side)], buffer)
    return future.then(lambda done: buffer.copy_(square[: buffer.numel()]))


def _run(state: PowerSGDState, bucket, group, tensors, whole=None) -> facula.futures.Future:
    size, index = dist.get_world_size(group), bucket.index()
    buffer = bucket.buffer()
    had_error = index in state.error_dict
    if state.use_error_feedback:
        if had_error:
            for tensor, error in zip(tensors, state.error_dict[index]):
                tensor.add_(error)
        # The gradients are averaged in place, and the error is the difference from these.
        before = [tensor.clone() for tensor in tensors]
    compressed, plain = [], []
    for tensor in tensors:
        (compressed if _is_worth_it(tensor, state) else plain).append(tensor)
    state.total_numel_before_compression += sum(t.numel() for t in tensors)
    _average(plain, group, size)
    _approximate(state, index, compressed, group, size)
    state.total_numel_after_compression += sum(t.numel() for t in plain) + sum(
        (_matrix(t).shape[0] + _matrix(t).shape[1]) * _rank(_matrix(t), state) for t in compressed
    )
    if state.use_error_feedback:
        state.error_dict[index] = [b - local for b, local in zip(before, _own_part(state, before, tensors))]
    if index == 0 and state.iter >= state.next_stats_report:
        state.next_stats_report = state.iter + state.compression_stats_logging_frequency
        logger.info("PowerSGD: rate %s, %s numbers became %s", *state.compression_stats())
    state.maybe_increase_iter(bucket)
    future: facula.futures.Future[Any] = facula.futures.Future()
    future.set_result(buffer if whole is None else whole)
    return future


def _own_part(state, before, after):
    """Return what of a gradient has traveled: the average for what was approximated, all for what traveled as it was."""
    return [a if _is_worth_it(a, state) else b for a, b in zip(after, before)]


def _matrix(tensor: facula.Tensor) -> facula.Tensor:
    return tensor.view(tensor.shape[0], -1)


def _rank(matrix: facula.Tensor, state: PowerSGDState) -> int:
    return min(*matrix.shape, state.matrix_approximation_rank)


def _is_worth_it(tensor: facula.Tensor, state: PowerSGDState) -> bool:
    if tensor.dim() < 2 or tensor.numel() == 0:
        return False
    n, m = tensor.shape[0], tensor.numel() // tensor.shape[0]
    return (n + m) * min(n, m, state.matrix_approximation_rank) * state.min_compression_rate < tensor.numel()


def _average(tensors, group, size) -> None:
    """Average all in one message."""
    if not tensors:
        return
    flat = facula.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat, group=group)
    flat.div_(size)
    offset = 0
    for t in tensors:
        t.copy_(flat[offset : offset + t.numel()].view(t.shape))
        offset += t.numel()


def _approximate(state: PowerSGDState, index: int, tensors, group, size) -> None:
    """Replace each tensor by the average over the processes of its approximation."""
    if not tensors:
        return
    matrices = [_matrix(t) for t in tensors]
    qs = state.q_memory_dict.get(index) if state.warm_start else None
    if qs is None:
        qs = [_first_q(m, state, number) for number, m in enumerate(matrices)]
    for q in qs:
        _orthogonalize(q, state.orthogonalization_epsilon)
    ps = [m @ q for m, q in zip(matrices, qs)]
    _average(ps, group, size)
    for p in ps:
        _orthogonalize(p, state.orthogonalization_epsilon)
    qs = [m.t() @ p for m, p in zip(matrices, ps)]
    _average(qs, group, size)
    for m, p, q in zip(matrices, ps, qs):
        facula.matmul(p, q.t(), out=m)
    state.q_memory_dict[index] = qs


def _first_q(matrix: facula.Tensor, state: PowerSGDState, number: int) -> facula.Tensor:
    # All processes have to begin with the same numbers.
    generator = facula.Generator().manual_seed(state.random_seed + 1000 * state.iter + number)
    shape = (matrix.shape[1], _rank(matrix, state))
    return facula.randn(shape, generator=generator, dtype=facula.float32).to(matrix)
