"""XNNPACK."""


def is_available():
    """False: there is no XNNPACK.

    >>> torch.backends.xnnpack.is_available()
    False
    """
    return False
