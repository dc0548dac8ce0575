"""Marks on functions that PyTorch promises to keep."""

import textwrap  # noqa: F401

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """A decorator that notes whether what it decorates stays as it is."""

    def mark(fn):
        _MARKED_WITH_COMPATIBILITY.setdefault(fn, None)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn, None)
        return fn

    return mark
