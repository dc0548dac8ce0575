"""Call several modules, each with its own arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """Return the first tensor in a nest of lists, tuples and dicts; None when there is none.

    Args:
        obj: the nest.

    >>> from torch.nn.parallel.parallel_apply import get_a_var
    >>> get_a_var({"a": [1, torch.ones(2)]})
    tensor([1., 1.])
    """
    if isinstance(obj, Tensor):
        return obj
    items = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((found for item in items if (found := get_a_var(item)) is not None), None)


def parallel_apply(modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
                   devices: Sequence[Any] | None = None) -> list[Any]:  # fmt: skip
    """Call each module with its inputs, one after the other, and return the list of results.

    Args:
        modules: the modules.
        inputs: a tuple of arguments (or one argument) for each.
        kwargs_tup: a dict of arguments by name for each, or None.
        devices: the device of each, or None; calls on different devices overlap by themselves.

    Returns: a list of results.

    Errors: AssertionError for other numbers of inputs, dicts or devices.

    >>> nn.parallel.parallel_apply([nn.Identity(), nn.ReLU()], [torch.tensor([-1.0]), torch.tensor([-1.0])])
    [tensor([-1.]), tensor([0.])]
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"parallel_apply: needs as many inputs as modules ({len(modules)}), got {len(inputs)}"
        )
    kwargs_tup = kwargs_tup if kwargs_tup is not None else ({},) * len(modules)
    if len(kwargs_tup) != len(modules):
        raise AssertionError(
            f"parallel_apply: needs as many kwargs as modules ({len(modules)}), got {len(kwargs_tup)}"
        )
    if devices is not None and len(devices) != len(modules):
        raise AssertionError(
            f"parallel_apply: needs as many devices as modules ({len(modules)}), got {len(devices)}"
        )
    results = []
    for module, args, kwargs in zip(modules, inputs, kwargs_tup):
        args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
        results.append(module(*args, **kwargs))
    return results
