"""Devices of kind "mps", which Facula does not support."""

from facula import _no_device
from facula._no_device import (  # noqa: F401
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    manual_seed_all,
)

_NAMES = {
    "synchronize",
    "current_device",
    "set_device",
    "current_stream",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "current_allocated_memory",
    "driver_allocated_memory",
    "recommended_max_memory",
    "set_per_process_memory_fraction",
    "get_rng_state",
    "set_rng_state",
    "memory_allocated",
    "memory_reserved",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "mem_get_info",
    "Stream",
    "Event",
    "stream",
    "set_stream",
    "device",
}


def __getattr__(name):
    if name in _NAMES:
        return _no_device.refuse("mps", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
