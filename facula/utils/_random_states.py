"""Random states of all devices, which the second computation of a checkpoint needs as they were at the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C
from ._selective_checkpoint import _flat_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["DefaultDeviceType", "get_device_states", "set_device_states"]


class DefaultDeviceType:
    """The device type whose random state is kept besides the CPU's.

    >>> torch.utils.checkpoint.DefaultDeviceType.set_device_type("cuda")
    >>> torch.utils.checkpoint.DefaultDeviceType.get_device_type()
    'cuda'
    """

    _type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Chooses the device type, `device`."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """The device type chosen."""
        return DefaultDeviceType._type


def _states_of(indices, kind):
    """Return the random states of the devices of a kind with the given numbers."""
    module = _device_module(kind)
    return [module.get_rng_state(index) for index in indices]


def get_device_states(*args: Any) -> tuple[list[Any], list[Any]]:
    """Return the numbers of the accelerators that hold the tensors in `args`, and their random states.

    Accelerators are those of the type that `DefaultDeviceType` names; nested lists, tuples and dicts are looked into.

    >>> torch.utils.checkpoint.get_device_states(torch.ones(2))
    ([], [])
    """
    kind = DefaultDeviceType.get_device_type()
    found = {t.device.index or 0 for t in _flat_tensors(args) if t.device.type == kind and kind not in ("cpu", "meta")}
    indices = sorted(found)
    return indices, _states_of(indices, kind)


def set_device_states(devices: Sequence[Any], states: Any, *, device_type: str | None = None) -> None:
    """Put back random states of accelerators.

    Args:
        devices, states: what get_device_states returned.
        device_type: the type of the devices. Default: that of `DefaultDeviceType`.

    >>> torch.utils.checkpoint.set_device_states(*torch.utils.checkpoint.get_device_states(torch.ones(2)))
    """
    kind = device_type or DefaultDeviceType.get_device_type()
    if kind in ("cpu", "meta"):
        return  # the CPU's generator is kept apart, and meta tensors draw nothing
    module = _device_module(kind)
    for device, state in zip(devices, states, strict=True):
        module.set_rng_state(state, device)


def _device_module(kind):
    """Return the module of a kind of device, such as facula.cuda."""
    from ..functions.device import get_device_module

    return get_device_module(kind)


def now():
    """Return the states of the CPU's generator and of every accelerator's."""
    kind = DefaultDeviceType.get_device_type()
    if kind in ("cpu", "meta"):
        return _C.default_generator.get_state(), kind, []
    module = _device_module(kind)
    if not module.is_available() or (kind == "cuda" and not module.is_initialized()):
        return _C.default_generator.get_state(), kind, []
    if kind == "cuda" and module.is_current_stream_capturing():
        raise RuntimeError(
            "checkpoint: expected preserve_rng_state=False while a CUDA graph is captured, since random states cannot be put "
            "back there, got preserve_rng_state=True"
        )
    return _C.default_generator.get_state(), kind, _states_of(range(module.device_count()), kind)


def put_back(states):
    state, kind, of_devices = states
    _C.default_generator.set_state(state)
    set_device_states(range(len(of_devices)), of_devices, device_type=kind)
