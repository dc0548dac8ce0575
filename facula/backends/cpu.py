"""Report the CPU's instruction sets."""

from __future__ import annotations

from facula._C import _isa_level

_NAMES = {"v4": "AVX512", "v3": "AVX2"}


def get_cpu_capability() -> str:
    """Return the instruction set of the kernels in use: "AVX512", "AVX2" or "DEFAULT".

    The best that the processor has, unless the environment variable ``FACULA_ISA`` (``v4``, ``v3`` or ``v2``) chose another.

    >>> torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    True
    """
    return _NAMES.get(_isa_level(), "DEFAULT")
