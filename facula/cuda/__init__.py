"""Use CUDA devices: list them, choose the current one, and wait for them.

Tensors come here by `device="cuda"`, `.to("cuda")` or `.cuda()`; ops on them are queued and return at once. NVIDIA's
driver and libraries are opened when a device is first used; `why_unavailable()` says what is missing where
`is_available()` is False. With FACULA_CUDA=emulated in the environment there is one device of software, for tests of
programs on machines without a GPU: it needs a C++ compiler and is slow.

Long because it names, beside the functions of devices, what the whole package offers.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.functions import tensor_types

from ._device import _index, _is_in_bad_fork, _need_device

if TYPE_CHECKING:
    from typing import Any

    from facula.types import Device

has_half = True
has_magma = False


# -- what there is --------------------------------------------------------------------------------------


def is_available() -> bool:
    """Return whether there is a CUDA device to use.

    >>> device = "cuda" if torch.cuda.is_available() else "cpu"
    >>> torch.ones(2, device=device).sum().item()
    2.0
    """
    return _C._cuda_device_count() > 0


def why_unavailable() -> str:
    """Return what is missing for CUDA, as a sentence; empty where it can be used.

    >>> bool(torch.cuda.why_unavailable()) == (not torch.cuda.is_available())
    True
    """
    return _C._cuda_why_unavailable()


def is_emulated() -> bool:
    """Return whether the device is the emulated one (FACULA_CUDA=emulated in the environment).

    >>> torch.cuda.is_emulated() <= torch.cuda.is_available()
    True
    """
    return _C._cuda_is_emulated()


def libraries(details: bool = False) -> dict[Any, Any | None]:
    """Return NVIDIA's libraries by name: the path that each was loaded from, or None where it is not there.

    Args:
        details: whether the reason stands in the place of None.

    FACULA_CUDA_DISABLE=cublas,cusolver in the environment does without those.

    >>> "cublas" in torch.cuda.libraries()
    True
    """
    found = {name: _C._cuda_library(name) for name in _C._cuda_library_names()}
    return {name: place if there or details else None for name, (there, place) in found.items()}


def device_count() -> int:
    """Return the number of CUDA devices; 0 where CUDA cannot be used.

    >>> (torch.cuda.device_count() > 0) == torch.cuda.is_available()
    True
    """
    return _C._cuda_device_count()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current device computes with bfloat16: from compute capability 8.0 on, or by conversion to float32.

    False without a device.

    Args:
        including_emulation: whether conversion to float32 counts.

    >>> torch.cuda.is_bf16_supported() == torch.cuda.is_available()
    True
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Return whether the current device multiplies float32 matrices as TF32: from compute capability 8.0 on. False without a
    device.

    >>> torch.cuda.is_tf32_supported() <= torch.cuda.is_available()
    True
    """
    return is_available() and get_device_capability()[0] >= 8


def is_initialized() -> bool:
    """Return whether a device can be used without further ado: there is nothing to initialize. False in a forked child of a
    process that has begun to use one.

    >>> torch.cuda.is_initialized() == torch.cuda.is_available()
    True
    """
    return is_available() and not _is_in_bad_fork()


def init() -> None:
    """Raise where there is no device; else there is nothing to do.

    Errors: NotImplementedError (also an AssertionError) without a device, with the reason; RuntimeError in a forked process
    whose parent has begun to use CUDA.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.init()
    """
    _need_device("init")


_lazy_init = init


def _lazy_call(callable, **kwargs):
    """Run `callable` where there is a device."""
    if is_initialized():
        callable()


def get_arch_list() -> list[str]:
    """Return the architectures that kernels are compiled for, when they are first used: that of each device, such as "sm_90".

    >>> bool(torch.cuda.get_arch_list()) == torch.cuda.is_available()
    True
    """
    return sorted({"sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())})


def get_gencode_flags() -> str:
    """Return the compiler flags of the architectures of get_arch_list(), as a text.

    >>> bool(torch.cuda.get_gencode_flags()) == torch.cuda.is_available()
    True
    """
    return " ".join(f"-gencode compute={a.replace('sm', 'compute')},code={a}" for a in get_arch_list())


class _CudaDeviceProperties(types.SimpleNamespace):
    """Describe a device; sizes are in bytes, clocks in kHz."""

    def __init__(self, **facts):
        uuid = facts.pop("uuid").hex()
        parts = [uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]]
        super().__init__(uuid="-".join(parts), gcnArchName="", **facts)

    def __repr__(self):
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


@functools.cache
def _properties(index):
    return _CudaDeviceProperties(**_C._cuda_properties(index))


def get_device_properties(device: Device = None) -> Any:
    """Return what the device is like: an object with `name`, `major` and `minor` (compute capability), `total_memory`,
    `multi_processor_count`, `uuid`, `L2_cache_size` and more; sizes in bytes, clocks in kHz.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_properties(0).total_memory > 0
    """
    return _properties(_index(device, "get_device_properties"))


def get_device_name(device: Device = None) -> Any:
    """Return the device's name.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_name() == torch.cuda.get_device_properties().name
    """
    return _properties(_index(device, "get_device_name")).name


def get_device_capability(device: Device = None) -> tuple[Any, Any]:
    """Return the device's compute capability: (major, minor).

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     major, minor = torch.cuda.get_device_capability()
    """
    properties = _properties(_index(device, "get_device_capability"))
    return properties.major, properties.minor


def can_device_access_peer(device: Device, peer_device: Any) -> bool:
    """Return whether a device can read the memory of another.

    Args:
        device, peer_device: their numbers or names.

    Errors: NotImplementedError without a device; AssertionError for a number that there is not.

    >>> if torch.cuda.device_count() > 1:
    ...     direct = torch.cuda.can_device_access_peer(0, 1)
    """
    name = "can_device_access_peer"
    return _C._cuda_can_access_peer(_index(device, name), _index(peer_device, name))


# -- the current device -----------------------------------------------------------------------------------


def current_device() -> Any:
    """Return the number of the current device.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_device() < torch.cuda.device_count()
    """
    _need_device("current_device")
    return _C._cuda_current_device()


def set_device(device: Device) -> None:
    """Make the device the current one of this thread.

    Args:
        device: its number or name; a negative number changes nothing.

    Errors: NotImplementedError without a device; AssertionError for a number that there is not.

    >>> torch.cuda.set_device(-1)
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_device(0)
    """
    if not isinstance(device, int) or device >= 0:
        _C._cuda_set_device(_index(device, "set_device", optional=False))


class device:
    """Make a device the current one in a block.

    Args:
        device: its number or name; None and negative numbers change nothing.

    Errors: NotImplementedError without a device.

    >>> with torch.cuda.device(None):
    ...     torch.ones(1)
    tensor([1.])
    >>> if torch.cuda.is_available():
    ...     with torch.cuda.device(0):
    ...         assert torch.ones(1, device="cuda").get_device() == 0
    """

    def __init__(self, device: Device) -> None:
        if device is None or (isinstance(device, int) and device < 0):
            self.idx = -1
        else:
            self.idx: int = _index(device, "device")
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx: Any = _C._cuda_current_device()
            _C._cuda_set_device(self.idx)

    def __exit__(self, *_: object) -> bool | None:
        if self.prev_idx >= 0:
            _C._cuda_set_device(self.prev_idx)
        return False


class device_of(device):
    """Make the device of a tensor the current one in a block; a tensor on the CPU changes nothing.

    Args:
        obj: the tensor.

    >>> with torch.cuda.device_of(torch.ones(1)):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else None)


def synchronize(device: Device = None) -> None:
    """Wait for all work of the device, and raise what its kernels have found wrong.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.synchronize()
    """
    _C._cuda_synchronize(_index(device, "synchronize"))


def ipc_collect() -> None:
    """Let go of memory that other processes were sent and are done with; nothing to do without a device.

    >>> torch.cuda.ipc_collect()
    """
    if is_available():
        _C._cuda_ipc_collect()


_SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Say what becomes of calls that make the host wait for a stream.

    Args:
        debug_mode: 0 or "default": nothing; 1 or "warn": a UserWarning each; 2 or "error": a RuntimeError each.

    Such calls are those that read values (`item`, `cpu`, `nonzero`, a bool of a tensor, ...) and Stream.synchronize();
    `synchronize` and Event.synchronize() may always be called.

    Errors: NotImplementedError without a device; RuntimeError for another word.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_sync_debug_mode("warn")
    ...     assert torch.cuda.get_sync_debug_mode() == 1
    ...     torch.cuda.set_sync_debug_mode("default")
    """
    _need_device("set_sync_debug_mode")
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError(f"set_sync_debug_mode: debug_mode must be {_C._one_of(debug_mode, _SYNC_MODES)}")
        debug_mode = _SYNC_MODES[debug_mode]
    _C._cuda_set_wait_mode(debug_mode)


def get_sync_debug_mode() -> Any:
    """Return 0, 1 or 2, as set_sync_debug_mode was told; 0 at the start.

    >>> torch.cuda.get_sync_debug_mode()
    0
    """
    return _C._cuda_get_wait_mode()


# -- errors -----------------------------------------------------------------------------------------------

OutOfMemoryError = facula.OutOfMemoryError
AcceleratorError = facula.AcceleratorError


class DeferredCudaCallError(Exception):
    """Report the failure of a call that waited for the first use of CUDA. In Facula no call waits, and nothing raises
    this error.

    >>> issubclass(torch.cuda.DeferredCudaCallError, Exception)
    True
    """


from facula.cuda._runtime import CudaError, check_error, cudart, cudaStatus  # noqa: E402
from facula.cuda._sensors import (  # noqa: E402
    clock_rate,
    device_memory_used,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from facula.cuda.graphs import (  # noqa: E402
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from facula.cuda.memory import (  # noqa: E402
    CUDAPluggableAllocator,
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    change_current_allocator,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_budget,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from facula.cuda.random import (  # noqa: E402
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from facula.cuda.streams import (  # noqa: E402
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

__all__ = [
    "AcceleratorError", "caching_allocator_alloc", "caching_allocator_delete", "can_device_access_peer",
    "change_current_allocator", "check_error", "clock_rate", "CudaError", "CUDAGraph", "CUDAPluggableAllocator", "cudart",
    "cudaStatus", "current_device", "current_stream", "default_stream", "DeferredCudaCallError", "device", "device_count",
    "device_memory_used", "device_of", "empty_cache", "Event", "ExternalStream", "get_allocator_backend", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
    "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all", "get_stream_from_external",
    "get_sync_debug_mode", "graph", "graph_pool_handle", "has_half", "has_magma", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_emulated", "is_initialized", "is_tf32_supported", "libraries",
    "list_gpu_processes", "make_graphed_callables", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_budget", "memory_cached",
    "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "MemPool",
    "OutOfMemoryError", "power_draw", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats", "reset_peak_memory_stats",
    "seed", "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all",
    "set_stream", "set_sync_debug_mode", "Stream", "stream", "StreamContext", "synchronize", "temperature",
    "use_mem_pool", "utilization", "why_unavailable",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(_C._default_generator(facula.device("cuda", i)) for i in range(device_count()))
    if name.endswith("Storage"):
        from facula import storage

        if name in storage.CUDA_STORAGES:
            return storage.CUDA_STORAGES[name]
    if name in ("amp", "comm", "jiterator", "nvtx", "nccl", "profiler", "tunable"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    from facula.compat import placeholders

    return placeholders.member("torch.cuda", name)


# FloatTensor, LongTensor, ...: names for `isinstance` and `Tensor.type`
globals().update(tensor_types.CUDA_TYPES)
