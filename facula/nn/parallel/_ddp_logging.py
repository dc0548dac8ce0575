"""What `DistributedDataParallel` knows of itself: settings, buckets and times, under the names of PyTorch's logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

_ALWAYS = 10  # passes that are all looked at, before only every so many are
_DTYPES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}
_VARIABLES = {
    "master_port": "MASTER_PORT", "master_addr": "MASTER_ADDR", "torch_distributed_debug": "TORCH_DISTRIBUTED_DEBUG",
    "cuda_visible_devices": "CUDA_VISIBLE_DEVICES",
}  # fmt: skip
_OF_BACKEND = {
    "gloo": {"gloo_socket_ifname": "GLOO_SOCKET_IFNAME", "gloo_device_transport": "GLOO_DEVICE_TRANSPORT"},
    "nccl": {
        "nccl_socket_ifname": "NCCL_SOCKET_IFNAME", "nccl_blocking_wait": "TORCH_NCCL_BLOCKING_WAIT",
        "nccl_async_error_handling": "TORCH_NCCL_ASYNC_ERROR_HANDLING", "nccl_debug": "NCCL_DEBUG",
        "nccl_nthreads": "NCCL_NTHREADS", "nccl_ib_timeout": "NCCL_IB_TIMEOUT",
    },
}  # fmt: skip


class Record:
    """Times of passes, some of which are looked at, and the last error."""

    def __init__(self) -> None:
        self.rate = 100
        self.error: BaseException | None = None
        self.iteration = 0
        self._forward = 0
        self._last: dict[Any, Any] = {}
        self._sums: dict[Any, Any] = {}
        self._looks = 0

    def forward_begins(self, reducer) -> None:
        """A forward begins whose backward is averaged: the pass before it is looked at."""
        passes = reducer._passes
        if passes and (passes < _ALWAYS or passes % self.rate == 0):
            self.iteration = passes
            self._look(reducer._native.times())
        self._forward = time.time_ns()

    def _look(self, times) -> None:
        first, last, summing, summed = times
        self._last = {
            "forward_compute_time": max(first - self._forward, 0),
            "backward_compute_time": last - first,
            "backward_comm_time": summed - summing,
            "backward_compute_comm_overlap_time": max(last - summing, 0),
            "forward_compute_time_start": self._forward,
            "backward_compute_time_start": first,
            "backward_compute_time_end": last,
            "backward_comm_time_start": summing,
            "backward_comm_time_end": summed,
        }
        self._looks += 1
        for name in list(self._last)[:4]:
            self._sums[name] = self._sums.get(name, 0) + self._last[name]

    def times(self) -> dict:
        """Of the last pass that was looked at, in ns, and the averages."""
        return {**self._last, **{f"avg_{name}": total // self._looks for name, total in self._sums.items()}}


def described(ddp) -> dict:
    """Everything, for one wrapper."""
    reducer, group = ddp.reducer, ddp.process_group
    parameters = [p for _, p in ddp._named_parameters() if p.requires_grad]
    devices = ddp.device_ids or []
    found = {
        "world_size": 1 if reducer is None else reducer.world_size,
        "rank": 0 if reducer is None else facula.distributed.get_rank(group),
        "module_name": type(ddp.module).__name__,
        "device_ids": ", ".join(str(facula.device(d).index if not isinstance(d, int) else d) for d in devices),
        "output_device": devices[0] if devices and isinstance(devices[0], int) else -1,
        "broadcast_buffers": int(ddp.broadcast_buffers),
        "bucket_cap_bytes": ddp.bucket_bytes_cap,
        "find_unused_parameters": int(ddp.find_unused_parameters),
        "gradient_as_bucket_view": int(ddp.gradient_as_bucket_view),
        "static_graph": int(ddp.static_graph),
        "num_parameter_tensors": len(parameters),
        "total_parameter_size_bytes": sum(p.nbytes for p in parameters),
        "dtypes": ", ".join(sorted({_dtype_name(p.dtype) for p in parameters})),
        "iteration": ddp._record.iteration,
        **{name: os.environ.get(variable, "N/A") for name, variable in _VARIABLES.items()},
    }
    if ddp._record.error is not None:
        found |= {"has_error": 1, "error": str(ddp._record.error)}
    if reducer is None:
        return found | {"bucket_sizes": "", "has_rebuilt_buckets": 0}
    backend = facula.distributed.get_backend(group)
    found |= {"backend_name": backend, "has_rebuilt_buckets": int(reducer.was_rebuilt), **ddp._record.times()}
    found |= {name: os.environ.get(variable, "N/A") for name, variable in _OF_BACKEND.get(backend, {}).items()}
    if backend == "gloo":
        found["gloo_num_threads"] = 2  # PyTorch's; messages are MPI's here
    if reducer._hook is not None:
        found["comm_hook"] = getattr(reducer._hook, "__qualname__", str(reducer._hook))
    return found | _buckets(reducer)


def _dtype_name(dtype) -> str:
    name = str(dtype).rpartition(".")[2]
    return _DTYPES.get(name, name)


def _buckets(reducer) -> dict:
    found = {"bucket_sizes": ", ".join(map(str, reducer.first_sizes)), "num_buckets_reduced": len(reducer._buckets)}
    if reducer.was_rebuilt:
        numbers = {id(p): i for i, (_, p) in enumerate(reducer._parameters)}
        found["rebuilt_bucket_sizes"] = ", ".join(map(str, reducer.sizes()))
        found["rebuilt_per_bucket_param_indices"] = ", ".join(
            " ".join(str(numbers[id(p)]) for p in bucket.parameters()) for bucket in reducer._buckets
        )
    if reducer._passes:
        found["prev_iteration_grad_ready_order_indices"] = ", ".join(map(str, reducer._native.order()))
    return found
