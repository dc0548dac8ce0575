"""What pickles of the core's constants and types name to find them again."""

from __future__ import annotations

import copyreg

from facula import _C


def constant(name):
    """Return a dtype, layout, memory format or class of the core by its name."""
    return getattr(_C, name)


def size(*sizes):
    """Return a Size."""
    return _C.Size(sizes)


def device(*parts):
    """Return a device by its type and, perhaps, index."""
    return _C.device(*parts)


def _reduce_class(cls):
    return (constant, ("Tensor",)) if cls is _C.Tensor else cls.__qualname__


copyreg.pickle(_C._TensorMeta, _reduce_class)
