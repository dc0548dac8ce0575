"""Optimizers that are given gradients, by the class of plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._functional import functional_optim_map as functional_optim_map

if TYPE_CHECKING:
    from typing import Any


__all__ = ["as_functional_optim", "register_functional_optim"]


def register_functional_optim(key: Any, optim: type) -> None:
    """Lets `as_functional_optim(key)` make an `optim`; what is known already stays.

    Args:
        key: a class, or whatever a program calls it.
        optim: a class whose instances take parameters, and `_allow_empty_param_list`.

    >>> from torch.distributed.optim.utils import as_functional_optim, register_functional_optim
    >>> class Descent:
    ...     def __init__(self, params, rate, _allow_empty_param_list=False):
    ...         self.rate = rate
    >>> register_functional_optim("descent", Descent)
    >>> as_functional_optim("descent", rate=0.5).rate
    0.5
    """
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """An optimizer without parameters, whose `step_param(parameter, gradient)` steps one.

    Args:
        optim_cls: Adadelta, Adagrad, Adam, Adamax, AdamW, RMSprop, Rprop or SGD of `facula.optim`, or what was registered;
            ValueError for anything else.
        args, kwargs: what it takes beside parameters.

    >>> from torch.distributed.optim import as_functional_optim
    >>> weight = nn.Parameter(torch.ones(2))
    >>> as_functional_optim(torch.optim.SGD, lr=0.5).step_param(weight, torch.ones(2))
    >>> weight.detach()
    tensor([0.5000, 0.5000])
    """
    if optim_cls not in functional_optim_map:
        raise ValueError(f"as_functional_optim: there is no functional form of {optim_cls}")
    return functional_optim_map[optim_cls]([], *args, **kwargs, _allow_empty_param_list=True)
