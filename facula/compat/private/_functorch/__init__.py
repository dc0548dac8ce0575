"""Provide what programs import from PyTorch's package of this name; the functions themselves are those of `facula.func`."""

from facula._shared.on_demand import _on_demand

__getattr__ = _on_demand(
    __name__,
    (
        "aot_autograd",
        "apis",
        "batch_norm_replacement",
        "config",
        "eager_transforms",
        "functional_call",
        "make_functional",
        "partitioners",
        "vmap",
    ),  # fmt: skip
)
