"""NNPACK."""


def is_available():
    """False."""
    return False


def set_flags(_enabled):
    """Nothing to set; gives the previous flags."""
    return (False,)
