"""Apple GPUs."""


def is_available():
    """False: Facula computes on no Apple GPU.

    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_built():
    """False: no build has kernels for Apple GPUs.

    >>> torch.backends.mps.is_built()
    False
    """
    return False


def is_macos13_or_newer(*version):
    """False: what asks wants to know about Apple GPUs.

    Args:
        version: the number behind 13, which is not read.

    >>> torch.backends.mps.is_macos13_or_newer()
    False
    """
    return False


is_macos_or_newer = is_macos13_or_newer
