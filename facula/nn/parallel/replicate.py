"""Copy a module to several devices; gradients flow through the copies back to the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["replicate"]


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Return a replica of a module for each device, with copies of its parameters and buffers, through which gradients flow
    back to it.

    Args:
        network: the module.
        devices: the devices.
        detach: if True, cut the copies off from the gradients of the original.

    >>> network = nn.Linear(2, 1, bias=False)
    >>> replicas = nn.parallel.replicate(network, ["cpu", "cpu"])
    >>> sum(replica(torch.ones(2)) for replica in replicas).backward()
    >>> network.weight.grad
    tensor([[2., 2.]])
    """
    return [_replica(network, device, detach, {}) for device in devices]


def _replica(module, device, detach: bool, done: dict):
    if module in done:
        return done[module]
    replica = module._replicate_for_data_parallel()
    done[module] = replica
    for name, child in module._modules.items():
        replica._modules[name] = None if child is None else _replica(child, device, detach, done)
    # The copies are results of operations, not leaves, so they are plain attributes.
    for name, param in module._parameters.items():
        if param is None:
            replica._parameters[name] = None
        else:
            copy = param.to(device)
            object.__setattr__(replica, name, copy.detach() if detach else copy)
    for name, buffer in module._buffers.items():
        replica._buffers[name] = None if buffer is None else buffer.to(device)
    return replica
