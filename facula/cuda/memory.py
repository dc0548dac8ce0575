"""Report and control the memory of CUDA devices: what the caching allocator holds, and how to return it.

Long because every function states its types and explains its arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from facula import _C
from facula._shared.on_demand import _on_demand
from facula.cuda._memory_table import table
from facula.cuda._sensors import list_gpu_processes

from ._device import _index

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from facula.types import Device
    from facula.utils._memory_budget import MemoryBudget

__all__ = [
    "empty_cache", "list_gpu_processes", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_snapshot", "mem_get_info",
    "reset_peak_memory_stats", "reset_accumulated_memory_stats", "host_memory_stats", "host_memory_stats_as_nested_dict",
    "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats", "set_per_process_memory_fraction",
    "get_per_process_memory_fraction", "get_allocator_backend", "caching_allocator_alloc", "caching_allocator_delete",
    "MemPool", "use_mem_pool", "CUDAPluggableAllocator", "change_current_allocator", "memory_budget",
]  # fmt: skip


# ---- Which lines of the program took a CUDA device's memory, and what its allocator did


def _stack(number):
    return [{"filename": file, "line": line, "name": name} for file, line, name in _C._stack(number)]


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=None, device=None, **more):
    """Note from now on which lines of the program take memory: out-of-memory errors and snapshots then show them.

    Args:
        enabled: "all" or "state" (only of live blocks), None: ends it. True and False are taken for the first and last.
        context, stacks: anything; stacks are Python's.
        max_entries: with "all", the last so many actions of the allocator are kept for _snapshot(), by default a million.
        device: not read: all devices are followed.
        more: clear_history forgets the actions that were kept; the others are not read.
    """
    if enabled not in ("all", "state", None, True, False):
        raise ValueError(f"_record_memory_history: enabled is 'all', 'state' or None, got {enabled!r}")
    most = min(1_000_000 if max_entries is None else max_entries, 2**62) if enabled in ("all", True) else 0
    _C._cuda_record_places(enabled not in (None, False))
    _C._cuda_record_trace(most, more.get("clear_history", False))


def _trace(device):
    """Return what the allocator did since _record_memory_history(), a dict for each action."""
    entries = []
    for action, address, size, stream, pool, stack, time_us in _C._cuda_memory_trace(device):
        entry = {"action": action, "addr": address, "frames": _stack(stack), "size": size, "stream": stream}
        # Viewers of snapshots expect the free bytes of the device here, as there is no address.
        if action == "oom":
            entry["device_free"] = entry.pop("addr")
        entries.append({**entry, "pool_id": (0, pool), "time_us": time_us})
    return entries


def _snapshot(device=None, augment_with_fx_traces=False):
    """Return what is known of the memory: {"segments": memory_snapshot(), "device_traces": actions of each device, ...}."""
    from facula.cuda.memory import memory_snapshot

    return {
        "segments": memory_snapshot(),
        "device_traces": [_trace(index) for index in range(_C._cuda_device_count())],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": _C._cuda_allocator_settings()},
    }


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Write _snapshot() into a pickle file."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _has_devices():
    return _C._cuda_device_count() > 0 and not _C._cuda_is_in_bad_fork()


def empty_cache() -> None:
    """Give segments that hold no tensor back to the driver; nothing to do without a device.

    >>> torch.cuda.empty_cache()
    """
    if _has_devices():
        _C._cuda_empty_cache()


def memory_stats(device: Device = None) -> dict[Any, Any]:
    """Return the allocator's counters: a dict with keys such as "allocated_bytes.all.peak"; empty without a device.

    Args:
        device: its number or name; None: the current one.

    Of every counter there are `current`, `peak`, `allocated` (in all) and `freed`, for all blocks and for the small and
    the large pool.

    >>> stats = torch.cuda.memory_stats()
    >>> ("allocated_bytes.all.peak" in stats) == torch.cuda.is_available()
    True
    """
    if not _has_devices():
        return {}
    return dict(sorted(_C._cuda_memory_stats(_index(device, "memory_stats")).items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[Any, Any]:
    """Return the counters of memory_stats() as dicts in dicts; empty without a device.

    Args:
        device: its number or name; None: the current one.

    >>> stats = torch.cuda.memory_stats_as_nested_dict()
    >>> if torch.cuda.is_available():
    ...     assert "peak" in stats["allocated_bytes"]["all"]
    """
    nested = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _counter(name, which, device, function):
    return memory_stats(_index(device, function))[f"{name}.all.{which}"] if _has_devices() else 0


def memory_allocated(device: Device = None) -> int:
    """Return the bytes of blocks that hold tensors; 0 without a device.

    Args:
        device: its number or name; None: the current one.

    >>> if torch.cuda.is_available():
    ...     before = torch.cuda.memory_allocated()
    ...     x = torch.zeros(2**20, device="cuda")
    ...     assert torch.cuda.memory_allocated() - before >= 2**22
    """
    return _counter("allocated_bytes", "current", device, "memory_allocated")


def max_memory_allocated(device: Device = None) -> int:
    """Return the most bytes of blocks that held tensors since the start, or since reset_peak_memory_stats(); 0 without a
    device.

    Args:
        device: its number or name; None: the current one.

    >>> torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    True
    """
    return _counter("allocated_bytes", "peak", device, "max_memory_allocated")


def memory_reserved(device: Device = None) -> int:
    """Return the bytes taken from the driver; 0 without a device.

    Args:
        device: its number or name; None: the current one.

    >>> torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    True
    """
    return _counter("reserved_bytes", "current", device, "memory_reserved")


def max_memory_reserved(device: Device = None) -> int:
    """Return the most bytes that were taken from the driver since the start, or since reset_peak_memory_stats(); 0 without a
    device.

    Args:
        device: its number or name; None: the current one.

    >>> torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
    True
    """
    return _counter("reserved_bytes", "peak", device, "max_memory_reserved")


memory_cached: Callable[..., int] = memory_reserved
max_memory_cached: Callable[..., int] = max_memory_reserved


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let peaks begin at the current values; nothing to do without a device.

    Args:
        device: its number or name; None: the current one.

    >>> torch.cuda.reset_peak_memory_stats()
    >>> torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
    True
    """
    if _has_devices():
        _C._cuda_reset_peak(_index(device, "reset_peak_memory_stats"))


reset_max_memory_allocated: Callable[..., None] = reset_peak_memory_stats
reset_max_memory_cached: Callable[..., None] = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let sums over time begin at zero; nothing to do without a device.

    Args:
        device: its number or name; None: the current one.

    >>> torch.cuda.reset_accumulated_memory_stats()
    """
    if _has_devices():
        _C._cuda_reset_accumulated(_index(device, "reset_accumulated_memory_stats"))


def host_memory_stats_as_nested_dict() -> dict[Any, Any]:
    """Return the counters of pinned memory of the host, as dicts in dicts: see host_memory_stats(). Empty without a device.

    >>> stats = torch.cuda.host_memory_stats_as_nested_dict()
    >>> if torch.cuda.is_available():
    ...     assert "peak" in stats["active_bytes"]
    """
    return _C._cuda_host_stats() if _has_devices() else {}


def host_memory_stats() -> dict[Any, Any]:
    """Return the counters of pinned memory: a dict with keys such as "active_bytes.peak"; empty without a device.

    `allocations` and `allocated_bytes` count blocks that were taken from the driver, `active_requests` and `active_bytes`
    those that are in use, or that streams have not done with. Blocks are powers of two of bytes. `host_alloc_time` and
    `host_free_time` are microseconds of calls of the driver.

    >>> ("active_bytes.peak" in torch.cuda.host_memory_stats()) == torch.cuda.is_available()
    True
    """
    return _flat(host_memory_stats_as_nested_dict())


def _flat(nested, prefix=""):
    flat = {}
    for key, value in sorted(nested.items()):
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def reset_peak_host_memory_stats() -> None:
    """Let peaks of pinned memory begin at the current values.

    >>> torch.cuda.reset_peak_host_memory_stats()
    """
    _C._cuda_reset_peak_host()


def reset_accumulated_host_memory_stats() -> None:
    """Let sums over time of pinned memory begin at zero.

    >>> torch.cuda.reset_accumulated_host_memory_stats()
    """
    _C._cuda_reset_accumulated_host()


def mem_get_info(device: Device = None) -> Any:
    """Return (free, total) bytes of the device, as the driver counts them.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     free, total = torch.cuda.mem_get_info()
    ...     assert free <= total
    """
    return _C._cuda_memory_info(_index(device, "mem_get_info"))


def set_per_process_memory_fraction(fraction: Any, device: Device = None) -> None:
    """Take at most this share of the device's memory; more is an OutOfMemoryError.

    Args:
        fraction: from 0 to 1.
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_per_process_memory_fraction(0.5)
    ...     assert torch.cuda.get_per_process_memory_fraction() == 0.5
    ...     torch.cuda.set_per_process_memory_fraction(1.0)
    """
    _C._cuda_set_memory_fraction(_index(device, "set_per_process_memory_fraction"), fraction)


def get_per_process_memory_fraction(device: Device = None) -> Any:
    """Return the share of the device's memory that is taken at most: 1.0 at the start.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     assert 0.0 < torch.cuda.get_per_process_memory_fraction() <= 1.0
    """
    return _C._cuda_memory_fraction(_index(device, "get_per_process_memory_fraction"))


def memory_budget(limit: str | float | None, device: Device = None) -> MemoryBudget:
    """Make programs keep within a bound on the memory that tensors of a device hold: see torch.cpu.memory_budget().

    Args:
        limit: bytes, a text such as "8GB" or "512MiB", a share of the device's memory as a float, or None for no bound.
        device: its number or name; None: the current one.

    Returns: an object that tells what the budget does; as a context manager it ends with its block.

    Errors: NotImplementedError without a device; ValueError for what is no size; TypeError for other types.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.memory_budget(0.9) as budget:
    ...         x = torch.ones(3, device="cuda").sum()
    ...     assert budget.limit < torch.cuda.mem_get_info()[1]
    """
    from facula.utils._memory_budget import MemoryBudget, parse_limit

    index = _index(device, "memory_budget")
    return MemoryBudget(_C.device("cuda", index), parse_limit(limit, lambda: mem_get_info(index)[1]))


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    """Return all segments of all devices: a list of dicts with their blocks, in the order of their addresses; empty without a
    device.

    Args:
        mempool_id: only the segments of that pool, of a graph or a MemPool.

    A block says for which tensor it was taken (`tensor`: dtype and sizes) and, where _record_memory_history() was on, from
    where (`frames`, innermost first).

    >>> if torch.cuda.is_available():
    ...     x = torch.ones(2, device="cuda")
    ...     assert any(segment["blocks"] for segment in torch.cuda.memory_snapshot())
    """
    segments = _C._cuda_memory_snapshot() if _has_devices() else []
    for segment in segments:
        segment["segment_pool_id"] = (0, segment["segment_pool_id"])
        for block in segment["blocks"]:
            block["frames"] = _stack(block.pop("stack"))
    return [s for s in segments if mempool_id is None or s["segment_pool_id"] == tuple(mempool_id)]


def _set_allocator_settings(env):
    """Set what FACULA_CUDA_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF) would say: "key:value,key:value".

    Keys are expandable_segments (True or False), max_split_size_mb, garbage_collection_threshold,
    roundup_power2_divisions and backend (native). They hold for what is allocated from now on.
    """
    _C._cuda_set_allocator_settings(env)


def get_allocator_backend() -> str:
    """Return "native": the name of the only allocator.

    >>> torch.cuda.get_allocator_backend()
    'native'
    """
    return "native"


_raw_blocks = {}  # address -> device


def caching_allocator_alloc(size: int, device: Device = None, stream: Any = None) -> Any:
    """Return the address of bytes of the caching allocator, for other libraries.

    Args:
        size: how many bytes.
        device: its number or name; None: the current one.
        stream: the Stream, or its handle, that may use them at once; None: the current one.

    Errors: NotImplementedError without a device; TypeError for another stream.

    >>> if torch.cuda.is_available():
    ...     address = torch.cuda.caching_allocator_alloc(1024)
    ...     torch.cuda.caching_allocator_delete(address)
    """
    index = _index(device, "caching_allocator_alloc")
    if stream is None:
        stream = _C._cuda_current_stream(index)
    stream = getattr(stream, "cuda_stream", stream)
    if not isinstance(stream, int):
        raise TypeError(f"caching_allocator_alloc: stream is a Stream or its handle, got {type(stream).__name__}")
    address = _C._cuda_raw_allocate(size, index, stream)
    if address:
        _raw_blocks[address] = index
    return address


def caching_allocator_delete(mem_ptr: Any) -> None:
    """Give back what caching_allocator_alloc() gave.

    Args:
        mem_ptr: the address; 0 and None give nothing back.

    Errors: RuntimeError for another address.

    >>> torch.cuda.caching_allocator_delete(0)
    """
    if not mem_ptr:
        return
    index = _raw_blocks.pop(mem_ptr, None)
    if index is None:
        raise RuntimeError(f"caching_allocator_delete: an address of caching_allocator_alloc() in use, got {mem_ptr}")
    _C._cuda_raw_release(mem_ptr, index)


class MemPool:
    """Hold memory apart from other memory: what is allocated in use_mem_pool() shares segments with nothing else.

    Its memory goes back to the driver by empty_cache(), once the pool is gone and nothing lies in it any more.

    Args:
        allocator, use_on_oom, no_split: not supported, only their defaults.

    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.MemPool()
    ...     with torch.cuda.use_mem_pool(pool):
    ...         assert pool.use_count() == 2
    ...         x = torch.ones(2, device="cuda")
    ...     assert len(pool.snapshot()) == 1
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        for name, given in (("allocator", allocator), ("use_on_oom", use_on_oom), ("no_split", no_split)):
            if given:
                raise NotImplementedError(f"cuda.MemPool: pools are cut as all memory is, got {name}={given!r}")
        self._device = _index(None, "MemPool")
        self._number = _C._cuda_new_pool()
        _C._cuda_keep_pool(self._number, self._device)

    @property
    def id(self) -> tuple[int, Any]:
        """Two numbers, as memory_snapshot() shows them."""
        return (0, self._number)

    @property
    def allocator(self) -> None:
        """None: the caching allocator."""
        return None

    def use_count(self) -> Any:
        """Return one, and one for every use_mem_pool() that is open.

        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.MemPool().use_count() == 1
        """
        return _C._cuda_pool_users(self._number, self._device)

    def snapshot(self, include_traces: bool = True) -> list[Any]:
        """Return memory_snapshot() of the pool's segments.

        Args:
            include_traces: accepted; what happened to them is in cuda.memory._snapshot().

        >>> if torch.cuda.is_available():
        ...     assert torch.cuda.MemPool().snapshot() == []
        """
        return memory_snapshot(self.id)

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            _C._cuda_release_pool(self._number, self._device)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None):
    """Take from the pool what this thread allocates on the device; threads that it starts do not.

    Args:
        pool: a MemPool.
        device: its number or name; None: the current one.

    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.MemPool()
    ...     with torch.cuda.use_mem_pool(pool):
    ...         x = torch.ones(2, device="cuda")
    ...     assert [segment["device"] for segment in pool.snapshot()] == [x.get_device()]
    """
    index = _index(device, "use_mem_pool")
    _C._cuda_route_to_pool(pool._number, index)
    try:
        yield
    finally:
        _C._cuda_end_route(pool._number, index)


class CUDAPluggableAllocator:
    """Allocate with two functions of a library: void* f(ssize_t size, int device, stream), void g(void*, ssize_t size,
    int device, stream).

    Args:
        path_to_so_file: the library.
        alloc_fn_name, free_fn_name: their names.

    Errors: OSError where there is no such library, AttributeError where it has no such function.

    >>> made = torch.cuda.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
    >>> made.allocator() is made
    True
    """

    def __init__(self, path_to_so_file: Any, alloc_fn_name: Any, free_fn_name: Any) -> None:
        self._library = ctypes.CDLL(path_to_so_file)
        self._addresses = tuple(
            ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value for name in (alloc_fn_name, free_fn_name)
        )

    def allocator(self) -> Self:
        """Return what change_current_allocator() uses: the object itself."""
        return self


def change_current_allocator(allocator: Any) -> None:
    """Let tensors lie in the allocator's memory from now on; to be called before there are any. There are no statistics of it.

    Args:
        allocator: a CUDAPluggableAllocator.

    Errors: TypeError for anything else.

    >>> torch.cuda.change_current_allocator("mine")
    Traceback (most recent call last):
        ...
    TypeError: change_current_allocator: expected a CUDAPluggableAllocator, got str
    """
    _need_allocator(allocator)
    _C._cuda_change_allocator(*allocator._addresses)
    # The library must stay loaded for as long as tensors lie in its memory.
    _library_in_use.append(allocator)


_library_in_use = []


def _need_allocator(allocator):
    if not isinstance(allocator, CUDAPluggableAllocator):
        raise TypeError(f"change_current_allocator: expected a CUDAPluggableAllocator, got {type(allocator).__name__}")


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return the counters as a table.

    Args:
        device: its number or name; None: the current one.
        abbreviated: whether the large and the small pool are left out.

    >>> table = torch.cuda.memory_summary(abbreviated=True)
    >>> ("Allocated memory" in table) == torch.cuda.is_available()
    True
    """
    if not _has_devices():
        return "no CUDA device"
    index = _index(device, "memory_summary")
    return table(index, memory_stats(index), abbreviated)

__getattr__ = _on_demand(__name__)
