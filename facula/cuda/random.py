"""Control the random numbers of CUDA devices; each device has a generator of its own.

`facula.manual_seed` seeds them, too; without a device these do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.on_demand import _on_demand

from ._device import _index

if TYPE_CHECKING:
    from typing import Any

    from facula.types import Device

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "set_rng_state",
    "set_rng_state_all",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
]


def _generator(device, name):
    return _C._default_generator(facula.device("cuda", _index(device, name)))


def _generators():
    if _C._cuda_is_in_bad_fork():
        return []  # a worker that seeds all there is does not mean CUDA
    return [_generator(i, "default_generators") for i in range(_C._cuda_device_count())]


def get_rng_state(device: Device = "cuda") -> Any:
    """Return the state of the device's generator: a uint8 tensor on the CPU.

    Args:
        device: its number or name; "cuda": the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     state = torch.cuda.get_rng_state()
    ...     x = torch.rand(2, device="cuda")
    ...     torch.cuda.set_rng_state(state)
    ...     assert torch.equal(x, torch.rand(2, device="cuda"))
    """
    return _generator(device, "get_rng_state").get_state()


def set_rng_state(new_state: Any, device: Device = "cuda") -> None:
    """Put a state of the device's generator back.

    Args:
        new_state: what get_rng_state() gave.
        device: its number or name; "cuda": the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    """
    _generator(device, "set_rng_state").set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """Return the states of the generators of all devices: a list, empty without a device.

    >>> len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    True
    """
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: Any) -> None:
    """Put the states of the generators of all devices back.

    Args:
        new_states: what get_rng_state_all() gave.

    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; nothing to do without a device.

    Args:
        seed: an integer.

    >>> torch.cuda.manual_seed(0)
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.initial_seed() == 0
    """
    if _C._cuda_device_count() and not _C._cuda_is_in_bad_fork():
        _generator(None, "manual_seed").manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; nothing to do without a device. `torch.manual_seed` does so, too.

    Args:
        seed: an integer.

    >>> torch.cuda.manual_seed_all(0)
    """
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator from the system's entropy; nothing to do without a device.

    >>> torch.cuda.seed()
    """
    if _C._cuda_device_count() and not _C._cuda_is_in_bad_fork():
        _generator(None, "seed").seed()


def seed_all() -> None:
    """Seed all devices' generators with one number from the system's entropy; nothing to do without a device.

    >>> torch.cuda.seed_all()
    """
    generators = _generators()
    if generators:
        number = generators[0].seed()
        for generator in generators:
            generator.manual_seed(number)


def initial_seed() -> Any:
    """Return the seed of the current device's generator.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     generator = torch.manual_seed(7)
    ...     assert torch.cuda.initial_seed() == 7
    """
    return _generator(None, "initial_seed").initial_seed()

__getattr__ = _on_demand(__name__)
