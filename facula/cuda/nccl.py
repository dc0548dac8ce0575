"""NCCL, which a build without CUDA does not use."""


def is_available(tensors=()):
    """False."""
    return False


def version():
    """Raises: there is no NCCL."""
    raise AssertionError("cuda.nccl.version: there is no NCCL without CUDA")
