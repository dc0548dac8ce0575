"""Make optimizers that receive gradients as arguments from the classes of plain ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from facula import optim

if TYPE_CHECKING:
    from typing import Any

__all__ = ["as_functional_optim", "register_functional_optim"]


# ---- Optimizers that are given gradients, in the place of `.grad`, which other threads may be writing


class _Functional:
    """Step parameters with gradients that are passed as arguments.

    Args:
        params: the parameters of `step`.
        args, kwargs: as the class in `_optimizer` takes them.
        _allow_empty_param_list: whether there need not be any, for `step_param`.
    """

    _optimizer: type

    def __init__(self, params, *args, _allow_empty_param_list: bool = False, **kwargs) -> None:
        params = list(params)
        if not params and not _allow_empty_param_list:
            raise ValueError(f"{type(self).__name__}: optimizer got an empty parameter list")
        self._options, self._each, self._lock = (args, kwargs), {}, threading.Lock()
        self.param_group = {"params": params}
        self.state: dict[Any, Any] = {}

    def _of(self, param):
        if param not in self._each:
            args, kwargs = self._options
            made = self._optimizer([param], *args, **kwargs)
            self._each[param], self.state[param] = made, made.state[param]
        return self._each[param]

    def step_param(self, param, grad) -> None:
        """Step one parameter.

        Args:
            param: the parameter.
            grad: its gradient; None is no gradient.
        """
        with self._lock:
            optimizer, before = self._of(param), param.grad
            try:
                param.grad = grad
                optimizer.step()
            finally:
                param.grad = before

    def step(self, gradients) -> None:
        """Step all parameters, each with its gradient.

        Args:
            gradients: one for each parameter; ValueError for another number.
        """
        params, gradients = self.param_group["params"], list(gradients)
        if len(params) != len(gradients):
            raise ValueError(f"{type(self).__name__}.step: expected {len(params)} gradients, got {len(gradients)}")
        for param, grad in zip(params, gradients):
            self.step_param(param, grad)


def _functional(optimizer):
    return type(f"_Functional{optimizer.__name__}", (_Functional,), {"_optimizer": optimizer, "__doc__": _Functional.__doc__})


functional_optim_map: dict[Any, Any] = {
    kind: _functional(kind)
    for kind in (
        optim.Adadelta, optim.Adagrad, optim.Adam, optim.Adamax, optim.AdamW, optim.RMSprop, optim.Rprop, optim.SGD,
    )
}  # fmt: skip


def register_functional_optim(key: Any, optim: type) -> None:
    """Let `as_functional_optim(key)` make an `optim`; what is known already stays.

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
    """Return an optimizer without parameters, whose `step_param(parameter, gradient)` steps one.

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
