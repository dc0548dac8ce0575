"""Differentiate through remote calls: several workers record them, and one backward pass goes through all of them.

    with distributed.autograd.context() as context_id:
        loss = rpc.rpc_sync("other", forward, args=(x,)).sum()
        distributed.autograd.backward(context_id, [loss])
        gradients = distributed.autograd.get_gradients(context_id)  # of the leaves on this worker

`_context.py` opens with how.
"""

from __future__ import annotations

from ._context import (
    DistAutogradContext,
    _current_context,
    _get_debug_info,
    _is_valid_context,
    _new_context,
    _release_context,
    _retrieve_context,
    backward,
    get_gradients,
)

__all__ = ["backward", "context", "get_gradients", "is_available"]


def is_available() -> bool:
    """Return True.

    >>> torch.distributed.autograd.is_available()
    True
    """
    return True


class context:
    """Record remote calls in a block. Its number, which `with` returns, identifies the records on all workers.

    At the end all workers forget it.

    >>> from torch.distributed import autograd, rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> with autograd.context() as context_id:
    ...     loss = rpc.rpc_sync("me", torch.mul, (x, 3)).sum()
    ...     autograd.backward(context_id, [loss])
    ...     autograd.get_gradients(context_id)[x]
    tensor([3., 3.])
    >>> rpc.shutdown()
    """

    def __enter__(self) -> int:
        self._context = _new_context()
        return self._context._context_id()

    def __exit__(self, *exception: object) -> None:
        _release_context(self._context._context_id())
