"""Define an optimizer of parameters of several workers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from facula.distributed import autograd, rpc
from facula.futures import wait_all

if TYPE_CHECKING:
    from typing import Any

__all__ = ["DistributedOptimizer"]

_one_at_a_time = threading.Lock()  # several programs may step the same parameters


class _LocalOptimizer:
    """Step the parameters of one worker."""

    def __init__(self, optimizer_class, rrefs, arguments, options):
        self.parameters = [rref.local_value() for rref in rrefs]
        self.optimizer = optimizer_class(self.parameters, *arguments, **options)

    def step(self, context_id):
        gradients = autograd.get_gradients(context_id)
        with _one_at_a_time:
            before = [p.grad for p in self.parameters]
            try:
                for parameter in self.parameters:
                    parameter.grad = gradients.get(parameter)
                self.optimizer.step()
            finally:
                for parameter, grad in zip(self.parameters, before):
                    parameter.grad = grad


def _made(optimizer_class, rrefs, arguments, options):
    return rpc.RRef(_LocalOptimizer(optimizer_class, rrefs, arguments, options))


class DistributedOptimizer:
    """Step parameters on the workers that own them, with the gradients of a context of `distributed.autograd`.

    Steps of one worker's parameters come one after another; steps that several workers make are not ordered.

    Args:
        optimizer_class: the class of optimizers, one of which each owner makes.
        params_rref: RRefs of the parameters; ValueError without any.
        args, kwargs: what else the class takes.

    >>> from torch.distributed import autograd, optim, rpc
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> weight = torch.ones(2, requires_grad=True)
    >>> optimizer = optim.DistributedOptimizer(torch.optim.SGD, [rpc.RRef(weight)], lr=0.5)
    >>> with autograd.context() as context_id:
    ...     autograd.backward(context_id, [rpc.rpc_sync("me", torch.mul, (weight, 3)).sum()])
    ...     optimizer.step(context_id)
    >>> weight.detach()
    tensor([-0.5000, -0.5000])
    >>> rpc.shutdown()
    """

    def __init__(self, optimizer_class: Any, params_rref: Any, *args: Any, **kwargs: Any) -> None:
        owners = {}
        for rref in params_rref:
            owners.setdefault(rref.owner(), []).append(rref)
        if not owners:
            raise ValueError("DistributedOptimizer: expected at least one RRef of a parameter, got none")
        made = [rpc.rpc_async(owner, _made, (optimizer_class, rrefs, args, kwargs)) for owner, rrefs in owners.items()]
        self.remote_optimizers: list[int] = wait_all(made)
        self.is_functional_optim = False

    def step(self, context_id: int) -> None:
        """Step all parameters, on all their owners at once; those without a gradient in the context stay.

        Args:
            context_id: the number of the context. RuntimeError where there is none of it.
        """
        autograd._is_valid_context(context_id)
        wait_all([optimizer.rpc_async().step(context_id) for optimizer in self.remote_optimizers])
