"""Intel MKL."""


def is_available():
    """False."""
    return False
