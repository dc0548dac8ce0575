"""Replace the parameters of an optimizer for the length of a block."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

    from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
):
    """Return a context manager in which an optimizer acts on other parameters with another state.

    Args:
        optimizer: an optimizer that has a state already.
        swapin_parameters: a dict of tensors, in the order of the optimizer's parameters.
        swapin_optim_state: a state dict of an optimizer; its tensors are used themselves, so writes to them stay.

    Errors: RuntimeError when the optimizer has no state or the numbers of parameters or groups differ.

    >>> from torch.optim import SGD, swap_in_optimizer_params_and_state
    >>> weight, other = (torch.ones(1, requires_grad=True) for _ in range(2))
    >>> optimizer = SGD([weight], lr=0.5, momentum=0.9)
    >>> weight.grad, other.grad = torch.ones(1), torch.ones(1)
    >>> optimizer.step()
    >>> saved = optimizer.state_dict()
    >>> with swap_in_optimizer_params_and_state(optimizer, {"weight": other}, {**saved, "state": {}}):
    ...     optimizer.step()
    >>> weight.item(), other.item()
    (0.5, 0.5)
    """
    name = "swap_in_optimizer_params_and_state"
    groups, state = optimizer.param_groups, optimizer.state
    new = list(swapin_parameters.values())
    count = sum(len(group["params"]) for group in groups)
    if not state:
        raise RuntimeError(f"{name}: the optimizer has no state yet, got a {type(optimizer).__name__} before its first step")
    if len(new) != count:
        raise RuntimeError(f"{name}: expected {count} parameters, got {len(new)}")
    saved_groups = swapin_optim_state["param_groups"]
    sizes = [len(group["params"]) for group in groups]
    if [len(group["params"]) for group in saved_groups] != sizes:
        raise RuntimeError(
            f"{name}: expected parameter groups of sizes {sizes}, got {[len(g['params']) for g in saved_groups]}"
        )
    remaining = iter(new)
    # A state dict names parameters by numbers, which map to the new parameters in order.
    by_number, new_groups = {}, []
    for saved in saved_groups:
        params = [next(remaining) for _ in saved["params"]]
        by_number.update(zip(saved["params"], params))
        new_groups.append({**saved, "params": params})
    new_state = {
        by_number.get(key, key): dict(value) if isinstance(value, dict) else value
        for key, value in swapin_optim_state["state"].items()
    }
    optimizer.param_groups, optimizer.state = new_groups, defaultdict(dict, new_state)
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
