"""The fast path of multi-head attention in evaluation."""

_fastpath = True


def get_fastpath_enabled():
    """Whether the fast path may be taken."""
    return _fastpath


def set_fastpath_enabled(value):
    """Allows or forbids the fast path."""
    global _fastpath
    _fastpath = bool(value)
