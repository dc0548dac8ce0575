"""The modules of device kinds that Facula does not support: `facula.mps`, `facula.mtia`, `facula.xpu`.

What asks whether there is such a device is answered: no. What needs one is in not_here.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula.compat import placeholders

if TYPE_CHECKING:
    from typing import Any

#: name -> (the answer or what makes one, in words)
_ANSWERS = {
    **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported"), (False, "False.")),
    **dict.fromkeys(("device_count", "memory_allocated", "max_memory_allocated"), (0, "0.")),
    **dict.fromkeys(("memory_reserved", "max_memory_reserved"), (0, "0.")),
    **dict.fromkeys(("memory_stats", "memory_stats_as_nested_dict"), (dict, "An empty dict.")),
    **dict.fromkeys(("get_arch_list", "get_rng_state_all"), (list, "An empty list.")),
    **dict.fromkeys(("device", "device_of", "stream"), (contextlib.nullcontext, "A block that changes nothing.")),
    **dict.fromkeys(
        ("empty_cache", "manual_seed", "manual_seed_all", "seed", "seed_all", "reset_peak_memory_stats",
         "reset_accumulated_memory_stats"),
        (None, "Nothing to do."),
    ),
}  # fmt: skip

#: which of them PyTorch has under each kind
_ANSWERED = {
    "mps": "is_available device_count empty_cache manual_seed seed",
    "mtia": """
        is_available device_count empty_cache manual_seed seed is_initialized is_bf16_supported manual_seed_all seed_all
        stream device get_rng_state_all memory_allocated max_memory_allocated memory_reserved max_memory_reserved
        memory_stats reset_peak_memory_stats
        """,
    "xpu": """
        is_available device_count empty_cache manual_seed seed is_initialized is_bf16_supported is_tf32_supported
        manual_seed_all seed_all stream device device_of get_arch_list get_rng_state_all memory_allocated
        max_memory_allocated memory_reserved max_memory_reserved memory_stats memory_stats_as_nested_dict
        reset_peak_memory_stats reset_accumulated_memory_stats
        """,
}


def _answer(name):
    value, doc = _ANSWERS[name]

    def answer(*args, **kwargs):
        return value() if callable(value) else value

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = doc
    return answer


def names_of(kind: str) -> dict[Any, Any]:
    """What the module of a kind holds."""
    module = f"torch.{kind}"
    found = {name: _answer(name) for name in _ANSWERED[kind].split()}
    names = sorted(found.keys() | placeholders.not_here.MODULES[module].keys())
    return {**found, "__all__": names, "__getattr__": lambda name: placeholders.member(module, name)}
