"""Random states of CUDA devices: names of `facula.cuda`."""

from facula.cuda import (  # noqa: F401
    get_rng_state_all,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state_all,
)


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.random", name)
