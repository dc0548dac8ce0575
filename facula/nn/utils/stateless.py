"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import facula

from ..modules.module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["functional_call"]


def _tied_names(module: Module) -> dict[str, set[str]]:
    """For every name of a tensor that has several: all of its names."""
    names_of: dict[int, set[str]] = {}
    entries = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    for name, tensor in entries:
        names_of.setdefault(id(tensor), set()).add(name)
    return {name: names for names in names_of.values() if len(names) > 1 for name in names}


def _with_tied(module: Module, values: dict) -> dict:
    """``values`` extended to all names of tied tensors."""
    result = dict(values)
    for name, names in _tied_names(module).items():
        if name not in values:
            continue
        for other in names:
            if other in values and values[other] is not values[name]:
                raise ValueError(
                    f"functional_call: tied tensors need one value, got different ones for {sorted(names)}"
                )
            result.setdefault(other, values[name])
    return result


def _owner(module: Module, name: str):
    """(submodule, the dict of it that holds the tensor, last part of the name); the dict may be None."""
    path, _, leaf = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return None, None, leaf
    for registry in (owner._parameters, owner._buffers):
        if leaf in registry:
            return owner, registry, leaf
    return owner, None, leaf


def _check_names(module: Module, values: dict, strict: bool) -> None:
    unexpected = []
    for name in values:
        owner, registry, leaf = _owner(module, name)
        if registry is None and not (owner is not None and leaf in owner.__dict__):
            unexpected.append(name)
    own = {n for n, _ in module.named_parameters(remove_duplicate=False)}
    own |= {n for n, _ in module.named_buffers(remove_duplicate=False)}
    missing = sorted(own - values.keys()) if strict else []
    problems = []
    if unexpected and strict:
        problems.append(f"unexpected key(s): {', '.join(unexpected)}")
    if missing:
        problems.append(f"missing key(s): {', '.join(missing)}")
    if problems:
        raise RuntimeError(
            f"functional_call: {type(module).__name__} does not fit, got " + "; ".join(problems)
        )


@contextlib.contextmanager
def _reparametrize_module(module: Module, values: dict, *, tie_weights: bool = False, strict: bool = False):
    """Put ``values`` in place of the module's own tensors; afterwards put the own ones back.

    What a forward pass assigns to a replaced buffer goes into ``values``.
    """
    inserted = _with_tied(module, values) if tie_weights else dict(values)
    _check_names(module, inserted, strict)
    saved = []
    try:
        for name, value in inserted.items():
            owner, registry, leaf = _owner(module, name)
            if registry is None:
                registry = owner.__dict__ if owner is not None else None
            if registry is None:
                raise AttributeError(f"functional_call: there is no such tensor, got {name!r}")
            saved.append((registry, leaf, registry.get(leaf), name))
            registry[leaf] = value
        yield
    finally:
        for registry, leaf, original, name in reversed(saved):
            if name in values:
                values[name] = registry[leaf]
            registry[leaf] = original


def functional_call(
    module: Module,
    parameters_and_buffers: dict[Any, Any],
    args: Any = None,
    kwargs: dict[Any, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Tensor:
    """``module(*args, **kwargs)`` with the given tensors in the place of its parameters and buffers.

    Deprecated, and warns: the same is ``torch.func.functional_call``.

    Args:
        module: is as before afterwards.
        parameters_and_buffers: dotted names to tensors; others stay the module's own.
        args: a tuple, or one argument.
        kwargs: a dict, or None.
        tie_weights: whether a value for one name of a shared tensor counts for all of its names.
        strict: whether the names must be all of the module's.

    Errors: TypeError for values that are not tensors; RuntimeError, when strict, for missing or unexpected names.

    >>> import warnings
    >>> from torch.nn.utils.stateless import functional_call
    >>> values = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     functional_call(nn.Linear(1, 1), values, torch.tensor([3.0]))
    tensor([7.])
    """
    warnings.warn(
        "nn.utils.stateless.functional_call: deprecated, use facula.func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    if not all(isinstance(value, facula.Tensor) for value in parameters_and_buffers.values()):
        raise TypeError("functional_call: parameters_and_buffers must hold Tensors only, got something else")
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
