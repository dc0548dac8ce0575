"""cuDNN's flags. Without a GPU they are kept and have no effect."""

import sys

from facula.backends import _flags

enabled = True
deterministic = False
benchmark = False
benchmark_limit = 10
allow_tf32 = True
fp32_precision = "none"


def is_available():
    """False: there is no GPU."""
    return False


def version():
    """None: cuDNN is not loaded."""


def is_acceptable(tensor):
    """False: cuDNN does not work on CPU tensors."""
    return False


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None):
    """Sets the flags that are not None; gives the previous ones."""
    module = sys.modules[__name__]
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    before = tuple(getattr(module, name) for name in names)
    for name, value in zip(names, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)):
        if value is not None:
            setattr(module, name, value)
    return before


def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True):
    """Context: these flags inside."""
    return _flags.held(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
    )
