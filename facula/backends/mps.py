"""Apple GPUs."""


def is_available():
    """False."""
    return False


def is_built():
    """False."""
    return False


def is_macos13_or_newer(*version):
    """False."""
    return False


is_macos_or_newer = is_macos13_or_newer
