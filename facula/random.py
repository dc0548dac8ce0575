"""Control the default generator of random numbers: seeds and states."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from . import _C

if TYPE_CHECKING:
    from typing import Any

    from facula import Generator, Tensor

default_generator: Generator = _C.default_generator
_standard_gamma, _sample_dirichlet = _C._ops._standard_gamma, _C._ops._sample_dirichlet
_standard_gamma_grad, _dirichlet_grad = _C._ops._standard_gamma_grad, _C._ops._dirichlet_grad

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def manual_seed(seed: int) -> Generator:
    """Restart the default generators of all devices from a seed.

    Args:
        seed: an integer of 64 bits; negative ones wrap around.

    Returns: the CPU's generator.

    Errors: ValueError or RuntimeError for a seed that 64 bits do not hold.

    >>> generator = torch.manual_seed(0)
    >>> a = torch.rand(2)
    >>> generator = torch.manual_seed(0)
    >>> torch.equal(torch.rand(2), a)
    True
    """
    default_generator.manual_seed(int(seed))
    _C._seed_other_devices(int(seed))
    return default_generator


def seed() -> int:
    """Restart the CPU's default generator from the system's entropy; return the seed.

    >>> torch.seed() == torch.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed from which the CPU's default generator was restarted last.

    >>> generator = torch.manual_seed(7)
    >>> torch.initial_seed()
    7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the CPU's default generator, a uint8 tensor.

    Returns: a vector of uint8, as set_rng_state takes it.

    >>> state = torch.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(2), a)
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the CPU's default generator continue from a state that get_rng_state gave.

    Args:
        new_state: a uint8 tensor.

    Errors: RuntimeError or TypeError for a tensor that is no such state.

    >>> state = torch.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(2), a)
    True
    """
    default_generator.set_state(new_state)


def _states_of_all():
    """Return the default generators of all devices that are in use, each with its state."""
    import facula

    generators = [default_generator]
    if facula.cuda.is_initialized():
        generators += facula.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]


def _put_back(states):
    """Set generators to the states that `_states_of_all` returned."""
    for generator, state in states:
        generator.set_state(state)


def thread_safe_generator() -> None:
    """Return None: the default generator may be used from every thread.

    >>> torch.random.thread_safe_generator() is None
    True
    """
    return None


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
             device_type: str | None = None):  # fmt: skip
    """Put the default generators back, at the end of the block, to what they were at its beginning.

    Args:
        devices: accelerators whose generators are kept beside the CPU's. Default: all.
        enabled: False changes nothing.
        device_type: their kind.

    >>> state = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     x = torch.rand(2)
    >>> torch.equal(torch.get_rng_state(), state)
    True
    """
    if device_type == "meta" or not enabled:
        yield
        return
    import facula

    module = facula.get_device_module(device_type or "cuda")
    count = module.device_count() if module is not facula.cpu else 0
    devices = list(range(count) if devices is None else devices)
    if devices and not count:
        raise AssertionError(f"{_caller}: this machine has no {device_type or 'cuda'} device, got {_devices_kw}={devices}")
    state = get_rng_state()
    device_states = [module.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for device, device_state in zip(devices, device_states):
            module.set_rng_state(device_state, device)


def _rebuild_generator(state, device="cpu"):
    return _C.Generator(device).set_state(state)
