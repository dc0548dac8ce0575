"""Define the modules of device kinds that Facula does not support: `facula.mps`, `facula.mtia`, `facula.xpu`.

What asks whether there is such a device is answered: no. What needs one is in not_here.py.
"""

import contextlib

from facula.compat import placeholders

#: name -> (what it takes, the answer or what makes one, in words)
_ANSWERS = {
    "is_available": ("", False, "Return False: Facula computes on no such device."),
    "is_initialized": ("", False, "Return False: there is no such device to initialize."),
    "is_bf16_supported": ("including_emulation=True", False, "Return False: there is no such device to compute with bfloat16."),
    "is_tf32_supported": ("", False, "Return False: there is no such device to multiply as TF32."),
    "device_count": ("", 0, "Return 0: the number of such devices."),
    "memory_allocated": ("device=None", 0, "Return 0: bytes of tensors on the device."),
    "max_memory_allocated": ("device=None", 0, "Return 0: the most bytes of tensors on the device."),
    "memory_reserved": ("device=None", 0, "Return 0: bytes taken from the device."),
    "max_memory_reserved": ("device=None", 0, "Return 0: the most bytes taken from the device."),
    "memory_stats": ("device=None", dict, "Return an empty dict: there are no counters of an allocator."),
    "memory_stats_as_nested_dict": ("device=None", dict, "Return an empty dict: there are no counters of an allocator."),
    "get_arch_list": ("", list, "Return an empty list: kernels are compiled for no such device."),
    "get_rng_state_all": ("", list, "Return an empty list: there are no generators of such devices."),
    "device": ("device", contextlib.nullcontext, "Return a block on a device: changes nothing."),
    "device_of": ("obj", contextlib.nullcontext, "Return a block on a tensor's device: changes nothing."),
    "stream": ("stream", contextlib.nullcontext, "Return a block whose work would go to a stream: changes nothing."),
    "empty_cache": ("", None, "Do nothing: no memory of such a device is kept."),
    "manual_seed": ("seed", None, "Do nothing: there is no generator of such a device."),
    "manual_seed_all": ("seed", None, "Do nothing: there are no generators of such devices."),
    "seed": ("", None, "Do nothing: there is no generator of such a device."),
    "seed_all": ("", None, "Do nothing: there are no generators of such devices."),
    "reset_peak_memory_stats": ("device=None", None, "Do nothing: there are no counters."),
    "reset_accumulated_memory_stats": ("device=None", None, "Do nothing: there are no counters."),
}

#: what is taken -> (a function that takes it, in words, in an example); _TYPES are those of arguments
_TAKING = {
    "": (lambda make: lambda: make(), "", ""),
    "device=None": (lambda make: lambda device=None: make(), "device: the number of a device, which is not read.", ""),
    "device": (lambda make: lambda device: make(), "device: the number of a device, which is not read.", "0"),
    "obj": (lambda make: lambda obj: make(), "obj: a tensor, which is not read.", "torch.ones(2)"),
    "stream": (lambda make: lambda stream: make(), "stream: the stream, which is not read.", "None"),
    "seed": (lambda make: lambda seed: make(), "seed: a number, which is not read.", "0"),
    "including_emulation=True": (
        lambda make: lambda including_emulation=True: make(),
        "including_emulation: whether conversion to float32 would count.",
        "",
    ),
}  # fmt: skip

_TYPES = {"device": "Device", "obj": "Any", "stream": "Any", "seed": "int", "including_emulation": "bool"}

#: which of them PyTorch has under each kind
_ANSWERED = {
    "mps": ("is_available", "device_count", "empty_cache", "manual_seed", "seed"),
    "mtia": (
        "is_available", "device_count", "empty_cache", "manual_seed", "seed", "is_initialized", "is_bf16_supported",
        "manual_seed_all", "seed_all", "stream", "device", "get_rng_state_all", "memory_allocated", "max_memory_allocated",
        "memory_reserved", "max_memory_reserved", "memory_stats", "reset_peak_memory_stats",
    ),
    "xpu": (
        "is_available", "device_count", "empty_cache", "manual_seed", "seed", "is_initialized", "is_bf16_supported",
        "is_tf32_supported", "manual_seed_all", "seed_all", "stream", "device", "device_of", "get_arch_list",
        "get_rng_state_all", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "memory_stats", "memory_stats_as_nested_dict", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    ),
}  # fmt: skip


def _answer(kind, name):
    takes, value, text = _ANSWERS[name]
    function, words, example = _TAKING[takes]
    answer = function(value if callable(value) else lambda: value)
    answer.__name__ = answer.__qualname__ = name
    answer.__module__ = f"facula.{kind}"
    answer.__annotations__ = {word: _TYPES[word] for word in (takes.partition("=")[0],) if word}
    call = f"torch.{kind}.{name}({example})"
    shown = f">>> with {call}:\n...     torch.ones(1)\ntensor([1.])" if value is contextlib.nullcontext else f">>> {call}"
    if value is not None and value is not contextlib.nullcontext:
        shown += f"\n{value() if callable(value) else value!r}"
    answer.__doc__ = "\n\n".join([text, *([f"Args:\n    {words}"] if words else []), shown])
    return answer


def names_of(kind: str) -> dict:
    """Return what the module of a kind holds."""
    module = f"torch.{kind}"
    found = {name: _answer(kind, name) for name in _ANSWERED[kind]}
    names = sorted(found.keys() | placeholders.not_here.MODULES[module].keys())
    return {**found, "__all__": names, "__getattr__": lambda name: placeholders.member(module, name)}
