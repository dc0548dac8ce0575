"""NCCL, by which `facula.distributed` moves tensors between devices."""

from facula import _C


def is_available(tensors=()):
    """Whether there is NCCL, and all tensors are contiguous ones of different CUDA devices."""
    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or not tensor.is_cuda or tensor.device in devices:
            return False
        devices.add(tensor.device)
    return not _C._dist_why_no_nccl()


def version():
    """(major, minor, patch). DistBackendError without NCCL."""
    number = _C._dist_nccl_version()
    return number // 10000, number % 10000 // 100, number % 100


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.nccl", name)
