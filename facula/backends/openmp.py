"""OpenMP."""


def is_available():
    """True."""
    return True
