"""XNNPACK."""


def is_available():
    """False."""
    return False
