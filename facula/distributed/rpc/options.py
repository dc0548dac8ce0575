"""Define the options of init_rpc."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from . import constants

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["TensorPipeRpcBackendOptions"]


def _device(value):
    device = facula.device(value)
    if device.type == "cpu" or device.index is None:
        raise ValueError(f"TensorPipeRpcBackendOptions: device maps are for GPUs with their number, got {device}")
    return device


class TensorPipeRpcBackendOptions:
    """Hold the options of calls between workers; pass it to `init_rpc`.

    Args:
        num_worker_threads: how many calls of others run at the same time.
        rpc_timeout: seconds that a call may take, where it says nothing itself; 0 is for ever.
        init_method: how workers find each other, as for init_process_group.
        device_maps: for each worker's name, to which of its GPUs tensors on GPUs of this one go. Tensors on GPUs travel by
            the memory of the host; without an entry, sending one is an error.
        devices: the GPUs that are used; all where none is named.

    Errors: ValueError for less than one thread, a negative timeout, the CPU in a map, and two devices that go to one.

    >>> from torch.distributed import rpc
    >>> options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=30)
    >>> options.set_device_map("trainer", {0: 1})
    >>> options.set_devices([0, 1])
    >>> options.device_maps
    {'trainer': {device(type='cuda', index=0): device(type='cuda', index=1)}}
    >>> rpc.init_rpc("me", rank=0, world_size=1, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=30))
    >>> rpc.get_rpc_timeout()
    30.0
    >>> rpc.shutdown()
    """

    def __init__(self, *, num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
                 rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC, init_method: str = constants.DEFAULT_INIT_METHOD,
                 device_maps: Any = None, devices: Sequence[Any] | None = None, _transports: Any = None,
                 _channels: Any = None) -> None:  # fmt: skip
        if int(num_worker_threads) < 1:
            raise ValueError(f"TensorPipeRpcBackendOptions: num_worker_threads must be positive, got {num_worker_threads}")
        if rpc_timeout < 0:
            raise ValueError(f"TensorPipeRpcBackendOptions: rpc_timeout must not be negative, got {rpc_timeout}")
        self.num_worker_threads: int = int(num_worker_threads)
        self.rpc_timeout: float = float(rpc_timeout)
        self.init_method = init_method
        self.device_maps: dict[Any, Any] = {}
        for worker, places in (device_maps or {}).items():
            self.set_device_map(worker, places)
        self.set_devices(devices or [])

    def set_device_map(self, to: Any, device_map: Any) -> None:
        """Add to which GPUs of another worker tensors on GPUs of this one go.

        Args:
            to: the name of the worker.
            device_map: {device here: device there}. ValueError for one that goes elsewhere already, and for two that go to one.
        """
        places = self.device_maps.setdefault(to, {})
        for here, there in device_map.items():
            here, there = _device(here), _device(there)
            if places.get(here, there) != there:
                raise ValueError(f"set_device_map: {here} goes to {places[here]} of {to} already, got {there}")
            if any(place == there and other != here for other, place in places.items()):
                raise ValueError(f"set_device_map: two devices cannot go to one, got {there} of {to} twice")
            places[here] = there

    _set_device_map = set_device_map

    def set_devices(self, devices: Sequence[Any]) -> None:
        """Say which GPUs are used.

        Args:
            devices: a list of them; ValueError for the CPU.
        """
        self.devices: list[facula.device] = [_device(d) for d in devices]
