"""The modules of device kinds that Facula does not support: `facula.mps`, `facula.mtia`, `facula.xpu`.

What asks whether there is such a device is answered: no. What needs one raises NotImplementedError with its name; a class
can be named, for annotations and isinstance.
"""

from __future__ import annotations

import contextlib


def _answers(value, doc):
    return lambda: _function(lambda *args, **kwargs: value() if callable(value) else value, doc)


def _function(function, doc):
    function.__doc__ = doc
    return function


_ANSWERS = {
    **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported"), _answers(False, "False.")),
    **dict.fromkeys(("device_count", "memory_allocated", "max_memory_allocated"), _answers(0, "0.")),
    **dict.fromkeys(("memory_reserved", "max_memory_reserved"), _answers(0, "0.")),
    **dict.fromkeys(("memory_stats", "memory_stats_as_nested_dict"), _answers(dict, "An empty dict.")),
    **dict.fromkeys(("get_arch_list", "get_rng_state_all"), _answers(list, "An empty list.")),
    **dict.fromkeys(("device", "device_of", "stream"), _answers(contextlib.nullcontext, "A block that changes nothing.")),
    **dict.fromkeys(
        ("empty_cache", "manual_seed", "manual_seed_all", "seed", "seed_all", "reset_peak_memory_stats",
         "reset_accumulated_memory_stats"),
        _answers(None, "Nothing to do."),
    ),
}  # fmt: skip

_COMMON = """
    is_available device_count empty_cache manual_seed seed synchronize get_rng_state set_rng_state
    set_per_process_memory_fraction Event
"""
_SEVERAL = """
    is_initialized is_bf16_supported manual_seed_all seed_all initial_seed init current_device set_device current_stream
    set_stream stream Stream StreamContext device get_device_capability get_device_name get_device_properties
    get_rng_state_all set_rng_state_all memory_allocated max_memory_allocated memory_reserved max_memory_reserved
    memory_stats reset_peak_memory_stats mem_get_info graph graph_pool_handle
"""
#: what PyTorch has under each kind
_NAMES = {
    "mps": _COMMON + "current_allocated_memory driver_allocated_memory recommended_max_memory compile_shader load_metallib",
    "mtia": _COMMON + _SEVERAL + "default_stream record_memory_history snapshot attach_out_of_memory_observer MTIAGraph",
    "xpu": _COMMON + _SEVERAL + """
        is_tf32_supported device_of get_arch_list get_gencode_flags memory_stats_as_nested_dict memory_snapshot
        reset_accumulated_memory_stats get_per_process_memory_fraction device_memory_used memory_usage utilization power_draw
        temperature clock_rate can_device_access_peer change_current_allocator default_generators get_stream_from_external
        is_current_stream_capturing make_graphed_callables use_mem_pool MemPool XPUGraph XPUPluggableAllocator
    """,
}


def _refuse(kind, name):
    """What says, when called, which device kind is missing: a class for a capital letter, else a function."""

    def needs_device(*args, **kwargs):
        raise NotImplementedError(f"{kind}.{name}: Facula does not support this kind of device")

    if name[0].isupper():
        return type(name, (), {"__init__": needs_device, "__doc__": "Needs a device that Facula does not support."})
    needs_device.__name__ = needs_device.__qualname__ = name
    return _function(needs_device, "Needs a device that Facula does not support.")


def names_of(kind: str) -> dict:
    """The public names of the module of a kind."""
    names = sorted(set(_NAMES[kind].split()))
    found = {name: _ANSWERS[name]() if name in _ANSWERS else _refuse(kind, name) for name in names}
    for name in _ANSWERS.keys() & found.keys():
        found[name].__name__ = found[name].__qualname__ = name
    return {**found, "__all__": names}
