"""The fast path of multi-head attention in evaluation."""

_fastpath = True


def get_fastpath_enabled():
    """Whether the fast path of multi-head attention may be taken in evaluation: True at the start.

    >>> torch.backends.mha.get_fastpath_enabled()
    True
    """
    return _fastpath


def set_fastpath_enabled(value):
    """Allows or forbids the fast path.

    Args:
        value: whether it may be taken.

    >>> torch.backends.mha.set_fastpath_enabled(False)
    >>> torch.backends.mha.get_fastpath_enabled()
    False
    >>> torch.backends.mha.set_fastpath_enabled(True)
    """
    global _fastpath
    _fastpath = bool(value)
