"""Random numbers of CUDA devices: each has a generator of its own.

`facula.manual_seed` seeds them, too; without a device these do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

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
    from facula import cuda

    return _C._default_generator(facula.device("cuda", cuda._index(device, name)))


def _generators():
    if _C._cuda_is_in_bad_fork():
        return []  # a worker that seeds all there is does not mean CUDA
    return [_generator(i, "default_generators") for i in range(_C._cuda_device_count())]


def get_rng_state(device: Device = "cuda") -> Any:
    """The state of the device's generator: uint8 on the CPU."""
    return _generator(device, "get_rng_state").get_state()


def set_rng_state(new_state: Any, device: Device = "cuda") -> None:
    """Puts a state back."""
    _generator(device, "set_rng_state").set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of all devices."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: Any) -> None:
    """Puts the states of all devices back."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    if _C._cuda_device_count() and not _C._cuda_is_in_bad_fork():
        _generator(None, "manual_seed").manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator from the system's entropy."""
    if _C._cuda_device_count() and not _C._cuda_is_in_bad_fork():
        _generator(None, "seed").seed()


def seed_all() -> None:
    """Seeds all devices' generators with one number from the system's entropy."""
    generators = _generators()
    if generators:
        number = generators[0].seed()
        for generator in generators:
            generator.manual_seed(number)


def initial_seed() -> Any:
    """The seed of the current device's generator."""
    return _generator(None, "initial_seed").initial_seed()


def __getattr__(name: str) -> Any:
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.random", name)
