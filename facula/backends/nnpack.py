"""NNPACK."""


def is_available():
    """False: there is no NNPACK.

    >>> torch.backends.nnpack.is_available()
    False
    """
    return False


def set_flags(_enabled):
    """Sets nothing, as there is no NNPACK; gives the previous flags.

    Args:
        _enabled: not read.

    >>> torch.backends.nnpack.set_flags(True)
    (False,)
    """
    return (False,)
