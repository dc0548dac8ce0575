"""Intel MKL."""


def is_available():
    """False: matrix products are OpenBLAS's, oneDNN's and our own.

    >>> torch.backends.mkl.is_available()
    False
    """
    return False
