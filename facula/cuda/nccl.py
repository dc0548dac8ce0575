"""NCCL, which a build without CUDA does not use."""


def is_available(tensors=()):
    """False."""
    return False


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.nccl", name)
