"""OpenMP."""


def is_available():
    """True: work is divided among threads in any build.

    >>> torch.backends.openmp.is_available()
    True
    """
    return True
