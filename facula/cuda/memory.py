"""Memory statistics of CUDA devices: names of `facula.cuda`."""

from facula.cuda import (  # noqa: F401
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.memory", name)
