"""Call NCCL, by which `facula.distributed` moves tensors between devices, and a program among its own devices."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.on_demand import _on_demand

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"]

SUM = 0

# NCCL's operations, as collectives of Facula's are numbered
_OPERATIONS = {0: 0, 1: 2, 2: 4, 3: 3, 4: 1}
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER = 0, 1, 2, 3, 6


def is_available(tensors: Sequence[Tensor] = ()) -> bool:
    """Return whether there is NCCL, and all tensors are contiguous ones of different CUDA devices."""
    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or not tensor.is_cuda or tensor.device in devices:
            return False
        devices.add(tensor.device)
    return not _C._dist_why_no_nccl()


def version() -> tuple[Any, Any, Any]:
    """Return (major, minor, patch). DistBackendError without NCCL."""
    number = _C._dist_nccl_version()
    return number // 10000, number % 10000 // 100, number % 100


def unique_id() -> Any:
    """Return the bytes by which ranks of a communicator find each other."""
    return _C._dist_nccl_unique_id()


def _sequence(name, tensors) -> list:
    if isinstance(tensors, facula.Tensor) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"nccl.{name}: expected a tensor on each device, in a sequence, got {type(tensors).__name__}")
    return list(tensors)


def _run(name, kind, inputs, outputs, op=SUM, root=0, streams=None, comms=None) -> None:
    if comms is not None:
        raise NotImplementedError(f"nccl.{name}: communicators are made by devices, got comms={type(comms).__name__}")
    if op not in _OPERATIONS:
        raise ValueError(f"nccl.{name}: operations are from 0 (SUM) to 4 (AVG), got {op!r}")
    if streams is not None and len(streams) != len(inputs):
        raise ValueError(f"nccl.{name}: expected a stream, or None, for each of {len(inputs)} tensors, got {len(streams)}")
    with contextlib.ExitStack() as stack:
        for stream in streams or ():
            if stream is not None:
                stack.enter_context(facula.cuda.stream(stream))
        _C._dist_nccl_run(kind, inputs, outputs, _OPERATIONS[op], root)


def all_reduce(inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None, op: int = SUM, streams: Any = None,
               comms: Sequence[Any] | None = None) -> None:  # fmt: skip
    """Sum tensors of several devices (or another `op`: 1 multiplies, 2 and 3 take the greatest and the least, 4 averages).

    Args:
        inputs: a tensor on each device.
        outputs: where results are written. Default: into the inputs.
        streams: of each device, in which it runs. Default: the current ones.
        comms: not supported.
        op: the number of the operation.

    Errors: TypeError for a tensor alone; ValueError for another number of outputs or another operation.

    >>> if torch.cuda.device_count() > 1 and torch.cuda.nccl.is_available():
    ...     parts = [torch.ones(2, device=f"cuda:{i}") for i in range(2)]
    ...     torch.cuda.nccl.all_reduce(parts)
    ...     assert parts[0].tolist() == [2.0, 2.0]
    """
    inputs = _sequence("all_reduce", inputs)
    outputs = inputs if outputs is None else _sequence("all_reduce", outputs)
    _same_number("all_reduce", inputs, outputs)
    _run("all_reduce", _ALL_REDUCE, inputs, outputs, op, 0, streams, comms)


def _same_number(name, inputs, outputs) -> None:
    if len(inputs) != len(outputs):
        raise ValueError(f"nccl.{name}: expected an output for each of {len(inputs)} inputs, got {len(outputs)}")


def reduce(inputs: Sequence[Tensor], output: Tensor | None = None, root: int = 0, op: int = SUM, streams: Any = None,
           comms: Sequence[Any] | None = None, *, outputs: Sequence[Tensor] | None = None) -> None:  # fmt: skip
    """Do as `all_reduce` does, with the result on one device only: in `output`, or in `inputs[root]`.

    Args:
        inputs: a tensor on each device.
        output: where the result is written, on the device of `inputs[root]`.
        root: the place of that device.
        op: 0 sums, 1 multiplies, 2 and 3 take the greatest and the least, 4 averages.
        streams: of each device, in which it runs. Default: the current ones.
        comms: not supported.
        outputs: a list, of which `outputs[root]` is taken; deprecated.

    Errors: ValueError for a root that there is not, and where both `output` and `outputs` are given.

    >>> if torch.cuda.device_count() > 1 and torch.cuda.nccl.is_available():
    ...     parts = [torch.ones(2, device=f"cuda:{i}") for i in range(2)]
    ...     torch.cuda.nccl.reduce(parts, root=1)
    ...     assert parts[1].tolist() == [2.0, 2.0]
    """
    inputs = _sequence("reduce", inputs)
    if outputs is not None and output is not None:
        raise ValueError("nccl.reduce: output and outputs cannot both be given, got both")
    listed = outputs if outputs is not None else output if isinstance(output, (list, tuple)) else None
    if not 0 <= root < len(inputs):
        raise ValueError(f"nccl.reduce: there are {len(inputs)} tensors, got root {root}")
    if listed is not None:
        warnings.warn("nccl.reduce: give one tensor as output, instead of a list", FutureWarning, stacklevel=2)
        output = listed[root]
    _run("reduce", _REDUCE, inputs, [inputs[root] if output is None else output], op, root, streams, comms)


def broadcast(inputs: Sequence[Tensor], root: int = 0, streams: Any = None, comms: Sequence[Any] | None = None) -> None:
    """Write `inputs[root]` into all inputs.

    Args:
        inputs: a tensor on each device.
        root: the place of the one that is written.
        streams: of each device, in which it runs. Default: the current ones.
        comms: not supported.

    >>> if torch.cuda.device_count() > 1 and torch.cuda.nccl.is_available():
    ...     parts = [torch.full((2,), i, device=f"cuda:{i}") for i in range(2)]
    ...     torch.cuda.nccl.broadcast(parts)
    ...     assert parts[1].tolist() == [0, 0]
    """
    inputs = _sequence("broadcast", inputs)
    _run("broadcast", _BROADCAST, inputs, inputs, SUM, root, streams, comms)


def all_gather(inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Any = None,
               comms: Sequence[Any] | None = None) -> None:  # fmt: skip
    """Write all inputs, one behind the other, into each output.

    Args:
        inputs: a tensor on each device.
        outputs: a tensor on each device, as long as all inputs together.
        streams: of each device, in which it runs. Default: the current ones.
        comms: not supported.

    >>> if torch.cuda.device_count() > 1 and torch.cuda.nccl.is_available():
    ...     parts = [torch.full((1,), i, device=f"cuda:{i}") for i in range(2)]
    ...     wholes = [torch.empty(2, dtype=torch.int64, device=f"cuda:{i}") for i in range(2)]
    ...     torch.cuda.nccl.all_gather(parts, wholes)
    ...     assert wholes[1].tolist() == [0, 1]
    """
    inputs, outputs = _sequence("all_gather", inputs), _sequence("all_gather", outputs)
    _same_number("all_gather", inputs, outputs)
    _run("all_gather", _ALL_GATHER, inputs, outputs, SUM, 0, streams, comms)


def reduce_scatter(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int = SUM, streams: Any = None,
                   comms: Sequence[Any] | None = None) -> None:  # fmt: skip
    """Do as `all_reduce` does; each output gets its part of the result.

    Args:
        inputs: a tensor on each device.
        outputs: a tensor on each device, of which together they have the length of one input.
        op: 0 sums, 1 multiplies, 2 and 3 take the greatest and the least, 4 averages.
        streams: of each device, in which it runs. Default: the current ones.
        comms: not supported.

    >>> if torch.cuda.device_count() > 1 and torch.cuda.nccl.is_available():
    ...     wholes = [torch.arange(2, device=f"cuda:{i}") for i in range(2)]
    ...     parts = [torch.empty(1, dtype=torch.int64, device=f"cuda:{i}") for i in range(2)]
    ...     torch.cuda.nccl.reduce_scatter(wholes, parts)
    ...     assert parts[1].tolist() == [2]
    """
    inputs, outputs = _sequence("reduce_scatter", inputs), _sequence("reduce_scatter", outputs)
    _same_number("reduce_scatter", inputs, outputs)
    _run("reduce_scatter", _REDUCE_SCATTER, inputs, outputs, op, 0, streams, comms)

__getattr__ = _on_demand(__name__)
