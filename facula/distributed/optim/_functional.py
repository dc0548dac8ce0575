"""Optimizers that are given gradients, in the place of `.grad`, which other threads may be writing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from facula import optim

if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


class _Functional:
    """An optimizer whose steps are given gradients.

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
        """Steps one parameter.

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
        """Steps all parameters, each with its gradient.

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
