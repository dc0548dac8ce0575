"""Define DistributedDataParallel, which trains the same model in several processes with averaged gradients.

Long because PyTorch has the wrapper and its records in one file of this name.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import facula
from facula.types import Device

from ..modules.batchnorm import _world_size
from ..modules.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula import Tensor
    from facula.distributed._group import ProcessGroup
    from facula.distributed.device_mesh import DeviceMesh

__all__ = ["DistributedDataParallel"]


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


# ---- What `DistributedDataParallel` knows of itself: settings, buckets and times, under the names of PyTorch's logs


class _Record:
    """Hold the times of the passes that were measured, and the last error."""

    def __init__(self) -> None:
        self.rate = 100
        self.error: BaseException | None = None
        self.iteration = 0
        self._forward = 0
        self._last: dict[Any, Any] = {}
        self._sums: dict[Any, Any] = {}
        self._looks = 0

    def forward_begins(self, reducer) -> None:
        """Note that a forward begins whose backward is averaged: the pass before it is looked at."""
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
        """Return the times of the last pass that was looked at, in ns, and the averages."""
        return {**self._last, **{f"avg_{name}": total // self._looks for name, total in self._sums.items()}}


def _described(ddp) -> dict:
    """Return everything that is known of one wrapper."""
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


_BROADCAST_BYTES = 250 << 20
_MIB = 1 << 20


class _LazyJoinable:
    """Provide what Joinable requires, without loading `facula.distributed` for models in one process."""

    _join_config = None


class DistributedDataParallel(Module, _LazyJoinable):
    """Wrap a module (found under ``.module``) for training in several processes, each with its part of the data.

    Every process begins with the values of rank 0; in every backward pass gradients are averaged over the processes, in
    buckets, while the pass goes on. In a group of one process it only calls the module. Parameters that a pass does not use
    need no flag.

    Args:
        module: the module to train.
        device_ids: the one GPU that the module is on; inputs are moved there. None for modules on the CPU or several GPUs.
        output_device: accepted without effect: outputs are where the module puts them.
        dim: the dimension of batches.
        broadcast_buffers: if True, take buffers (running statistics) from rank 0 at the beginning of every forward.
        init_sync: if True, check parameters and take them from rank 0 at the start.
        process_group: the processes. Default: all, of `init_process_group`, which must have been called.
        bucket_cap_mb: the number of MiB of gradients that travel together. Default: 25; the first bucket is smaller.
        find_unused_parameters, gradient_as_bucket_view, check_reduction: accepted; unused parameters are always found, and
            gradients always are views of buckets.
        static_graph: if True, every pass is like the first: then several reentrant checkpoints may use a parameter.
        delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision: not supported.
        device_mesh: a mesh of one dimension, instead of process_group.
        skip_all_reduce_unused_params, batched_grad_copy: accepted without effect.
        bucket_cap_mb_list: the sizes of buckets, of which the last counts.
        forward_sync_buffers: another name of broadcast_buffers.

    Shapes: those of the module.

    Errors: ValueError before init_process_group, and for device_ids that do not fit the module; RuntimeError for no parameter
    that requires a gradient, ranks with different parameters, or both process_group and device_mesh; TypeError for a
    process_group that is none; NotImplementedError for what is not supported.

    >>> import tempfile
    >>> from torch import distributed
    >>> from torch.nn.parallel import DistributedDataParallel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = distributed.FileStore(f"{folder}/store", 1)
    ...     distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    ...     model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    ...     with model.no_sync():  # gradients add up; the next pass outside averages them
    ...         model(torch.ones(3, 2)).sum().backward()
    ...     with model.join():  # processes may have different numbers of batches
    ...         model(torch.ones(3, 2)).sum().backward()
    ...     distributed.destroy_process_group()
    >>> model.module.weight.grad
    tensor([[6., 6.]])
    >>> model.will_sync_module_buffers()
    False
    """

    device_ids: Any
    output_device: Device
    find_unused_parameters: bool
    gradient_as_bucket_view: bool
    reducer: Any

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Device = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: DeviceMesh | None = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
        ):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported, got {type(value).__name__}")
        if device_mesh is not None and process_group is not None:
            raise RuntimeError("DistributedDataParallel: expected process_group or device_mesh, got both")
        group = device_mesh.get_group() if device_mesh is not None else _group(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel: the module must have a parameter that requires a gradient, "
                f"got {type(module).__name__}"
            )
        self.module = module
        self.process_group = group
        self.device_ids, self.output_device = self._checked_devices(device_ids), output_device
        self.device: Any = next(module.parameters()).device
        self.dim = dim
        if broadcast_buffers is None:
            broadcast_buffers = True if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters, self.gradient_as_bucket_view = find_unused_parameters, gradient_as_bucket_view
        self.static_graph = static_graph
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MIB)
        if bucket_cap_mb_list:
            self.bucket_bytes_cap: int = int(bucket_cap_mb_list[-1] * _MIB)
        self.parameters_to_ignore: set[Any] = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.reducer = None
        self._divide_by_initial_world_size = True
        self._buffer_hook = None
        self._record = _Record()
        if _world_size(self.process_group) > 1:
            self._begin(init_sync)

    def _checked_devices(self, device_ids):
        devices = {p.device for p in self.module.parameters()}
        if device_ids is None or not device_ids:
            return None
        if len(device_ids) != 1 or len(devices) != 1 or next(iter(devices)).type == "cpu":
            raise ValueError(
                "DistributedDataParallel: device_ids must name the one GPU that the module is on, and be None for modules on "
                f"the CPU or several devices, got {list(device_ids)} for a module on {', '.join(sorted(map(str, devices)))}"
            )
        return list(device_ids)

    # ---- several processes

    def _begin(self, init_sync: bool) -> None:
        from facula import distributed as dist
        from facula.distributed._reducer import Reducer
        from facula.distributed.algorithms.join import _JoinConfig

        self._dist = dist
        self._join_config = _JoinConfig()
        self._has_buffers = bool(self._named_buffers())
        named = self._named_parameters()
        if init_sync:
            self._check_parameters(named)
            self._sync_state(0)
        self.reducer = Reducer(
            [(name, p) for name, p in named if p.requires_grad], self.process_group, self.bucket_bytes_cap, self.static_graph
        )

    def _named_parameters(self):
        return [(name, p) for name, p in self.module.named_parameters() if name not in self.parameters_to_ignore]

    def _named_buffers(self):
        return [(name, b) for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _check_parameters(self, named) -> None:
        """Raise RuntimeError, in every process, that names the first parameter in which processes differ."""
        mine = [(name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in named]
        everybody: list[Any] = [None] * self._dist.get_world_size(self.process_group)
        self._dist.all_gather_object(everybody, mine, group=self.process_group)
        for rank, theirs in enumerate(everybody):
            if theirs == everybody[0]:
                continue
            for number in range(max(len(theirs), len(everybody[0]))):
                first, other = (x[number] if number < len(x) else "nothing" for x in (everybody[0], theirs))
                if first != other:
                    raise RuntimeError(
                        f"DistributedDataParallel: every process must have the same parameters, got {first} as parameter "
                        f"{number} of rank 0 and {other} of rank {rank}"
                    )

    def _sync_state(self, source: int) -> None:
        """Make parameters and buffers those of a rank of the group."""
        tensors = [p.detach() for _, p in self._named_parameters()] + [b.detach() for _, b in self._named_buffers()]
        self._broadcast(tensors, source)

    def _broadcast(self, tensors, source: int) -> None:
        root = self._dist.get_global_rank(self.process_group, source)
        with facula.no_grad():
            for group in _packed(tensors):
                flat = facula.cat([t.reshape(-1) for t in group]) if len(group) > 1 else group[0].contiguous()
                self._dist.broadcast(flat, root, group=self.process_group)
                if flat is not group[0]:
                    offset = 0
                    for t in group:
                        t.copy_(flat.reshape(-1)[offset : offset + t.numel()].view(t.shape))
                        offset += t.numel()

    # ---- forward

    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor:
        if self.reducer is not None:
            self._before_forward()
        if self.device_ids:
            inputs, kwargs = self.to_kwargs(inputs, kwargs, self.device_ids[0])
            inputs, kwargs = inputs[0], kwargs[0]
        output = self.module(*inputs, **kwargs)
        if self.reducer is not None and self._buffer_hook is not None and self._buffer_hook[0] == "after":
            self._buffer_hook[2](self._buffer_hook[1], dict(self._named_buffers()))
        return output

    def _before_forward(self) -> None:
        averages = facula.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config.enable and facula.is_grad_enabled():
            self._notify_join()
        if self.training and self._is_synced_before_forward():
            self._sync_buffers()
        if facula.is_grad_enabled():
            if self._join_config.enable:
                self._agree_on_sync(averages)
            if averages:
                self.reducer.rebuild()
                self._record.forward_begins(self.reducer)
            self.reducer.enabled = averages

    def _notify_join(self) -> None:
        from facula.distributed.algorithms.join import Join

        work = Join.notify_join_context(self)
        if work is not None and not self._divide_by_initial_world_size:
            work.wait()
            self.reducer.divisor = int(self._join_active.item())

    def _is_synced_before_forward(self) -> bool:
        wanted = self.require_forward_param_sync and self.broadcast_buffers and self._buffer_hook is None
        return wanted and self._has_buffers

    def will_sync_module_buffers(self) -> bool:
        """Return whether the next forward takes the buffers of rank 0."""
        return self.reducer is not None and self._is_synced_before_forward()

    def _sync_buffers(self) -> None:
        """Make buffers those of rank 0, or of the last rank that has inputs where some may have none."""
        source = self._common_rank(self._dist.get_rank(self.process_group)) if self._join_config.enable else 0
        self._broadcast([b.detach() for _, b in self._named_buffers()], source)

    def _common_rank(self, rank) -> int:
        """Return the greatest rank that still has inputs; rank 0 may have none any more."""
        told = facula.tensor([rank], device=self.device, dtype=facula.int64)
        self._dist.all_reduce(told, op=self._dist.ReduceOp.MAX, group=self.process_group)
        return int(told.item())

    def _agree_on_sync(self, averages: bool) -> bool:
        """Tell processes that have joined whether the pass of the others is averaged."""
        told = facula.tensor([int(averages)], device=self.device)
        self._dist.all_reduce(told, group=self.process_group)
        return bool(told.item())

    def to_kwargs(self, inputs: Any, kwargs: Any, device_id: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arguments on a device: ((moved inputs,), (moved kwargs,)).

        Args:
            inputs: a tuple.
            kwargs: a dict.
            device_id: the device.

        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> model.to_kwargs((torch.ones(1),), {"y": 2}, "cpu")
        (((tensor([1.]),),), ({'y': 2},))
        >>> torch.distributed.destroy_process_group()
        """
        from .scatter_gather import scatter_kwargs

        return scatter_kwargs(inputs, kwargs, [device_id], self.dim)

    # ---- what programs ask for

    @contextlib.contextmanager
    def no_sync(self):
        """Return a block in which gradients are kept in the process; the next pass outside averages them with its own."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync: bool = before

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Hand each bucket of gradients to ``hook(state, bucket)``, which gives a Future of the tensor that replaces its
        buffer.

        In a single process nothing is handed over.

        Args:
            state: handed to the hook.
            hook: sums and divides the gradients of a `GradBucket`; ``torch.distributed.algorithms.ddp_comm_hooks`` has some.

        Errors: TypeError for something that cannot be called; RuntimeError for a second hook.

        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> model.register_comm_hook(None, fp16_compress_hook)
        >>> torch.distributed.destroy_process_group()
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: the hook must be callable, got {type(hook).__name__}")
        if self.reducer is None:
            return  # one process has nothing to hand over
        if self.reducer._hook is not None:
            raise RuntimeError(f"register_comm_hook: a hook is registered already, got a second one {hook!r}")
        self.reducer.register_hook(state, hook)

    def _register_buffer_comm_hook(self, state, hook, comm_hook_location=None) -> None:
        where = "after" if "POST" in str(comm_hook_location) else "before"
        self._buffer_hook = (where, state, hook)

    def _set_static_graph(self) -> None:
        if self.reducer is not None and self.reducer._passes and not self.static_graph:
            self._record.error = RuntimeError(
                "_set_static_graph: it should be called before training loop starts, "
                f"got it after {self.reducer._passes} backward passes"
            )
            raise self._record.error
        self.static_graph: bool = True
        if self.reducer is not None:
            self.reducer.static_graph = True

    def _get_ddp_logging_data(self) -> dict:
        """Return settings, buckets and times, as PyTorch's logs name them."""
        return _described(self)

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """Set of how many passes one is looked at, from the tenth on. Default: 100."""
        if sample_rate < 1:
            raise ValueError(f"_set_ddp_runtime_logging_sample_rate: must be positive, got {sample_rate}")
        self._record.rate = int(sample_rate)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def __getstate__(self) -> Any:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_dist", "_join_config"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group, self.reducer = _group(None), None
        if _world_size(None) > 1:
            self._begin(False)

    # ---- uneven inputs

    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Any:  # fmt: skip
        """Return a context in which processes may have different numbers of inputs.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all processes or of those that have
                inputs.
            enable: False turns the context off.
            throw_on_early_termination: all processes raise RuntimeError as soon as one has no more inputs.
        """
        if self.reducer is None:
            return contextlib.nullcontext()
        from facula.distributed.algorithms.join import Join

        return Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs: Any) -> Any:
        """Return what `Join` calls for a process without inputs: it answers the collectives of the others.

        Args:
            kwargs: ``divide_by_initial_world_size``, by default True: see `join`.

        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> [name for name in dir(model.join_hook()) if not name.startswith("_")]
        ['main_hook', 'post_hook']
        >>> torch.distributed.destroy_process_group()
        """
        from facula.distributed.algorithms.join import JoinHook

        if self.reducer is None:  # one process, which answers nobody
            return JoinHook()
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        ddp = self

        class Shadow(JoinHook):
            def main_hook(self):
                ddp._shadow_iteration()

            def post_hook(self, is_last_joiner):
                ddp._sync_state(ddp._common_rank(ddp._dist.get_rank(ddp.process_group) if is_last_joiner else -1))

        return Shadow()

    @property
    def join_device(self) -> Any:
        """Where the collectives of a `Join` put their tensors."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    def _shadow_iteration(self) -> None:
        if self.training and self._is_synced_before_forward():
            self._broadcast([b.detach() for _, b in self._named_buffers()], self._common_rank(-1))
        if self._agree_on_sync(False):
            self.reducer.rebuild()
            self.reducer.shadow()


def _group(given):
    """Return the given processes, or all of init_process_group; without these, models would train apart from each other."""
    from facula import distributed as dist

    if given is None:
        if not dist.is_initialized():
            raise ValueError(
                "DistributedDataParallel: expected init_process_group to have been called, or process_group=, got neither"
            )
        return dist.group.WORLD
    if not isinstance(given, dist.ProcessGroup):
        raise TypeError(f"DistributedDataParallel: process_group must be a ProcessGroup, got {type(given).__name__}")
    return given


def _packed(tensors):
    """Return lists of tensors of one dtype and device, of so many bytes that they travel well in one message."""
    groups, sizes = [], {}
    for t in tensors:
        key = (t.dtype, t.device)
        if key not in sizes or sizes[key][1] + t.nbytes > _BROADCAST_BYTES:
            groups.append([])
            sizes[key] = [groups[-1], 0]
        sizes[key][0].append(t)
        sizes[key][1] += t.nbytes
    return groups
