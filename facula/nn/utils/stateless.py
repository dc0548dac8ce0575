"""Call a module with other parameters and buffers than its own."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import TYPE_CHECKING

import facula

from ..modules.module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["functional_call"]


def _tied_names(module: Module) -> dict[str, set[str]]:
    """Return for every name of a tensor that has several: all of its names."""
    names_of: dict[int, set[str]] = {}
    entries = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    for name, tensor in entries:
        names_of.setdefault(id(tensor), set()).add(name)
    return {name: names for names in names_of.values() if len(names) > 1 for name in names}


def _with_tied(module: Module, values: dict) -> dict:
    """Return ``values`` extended to all names of tied tensors."""
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
    """Return (submodule, the dict of it that holds the tensor, last part of the name); the dict may be None."""
    path, _, leaf = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return None, None, leaf
    for registry in (owner._parameters, owner._buffers):
        if leaf in registry:
            return owner, registry, leaf
    return owner, None, leaf


def _check_names(module: Module, values: dict) -> None:
    """Report names that the module has not, and names of it that are not given."""
    unexpected = []
    for name in values:
        owner, registry, leaf = _owner(module, name)
        if registry is None and not (owner is not None and leaf in owner.__dict__):
            unexpected.append(name)
    own = {n for n, _ in module.named_parameters(remove_duplicate=False)}
    own |= {n for n, _ in module.named_buffers(remove_duplicate=False)}
    missing = sorted(own - values.keys())
    problems = []
    if unexpected:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        raise RuntimeError(
            f"functional_call: {type(module).__name__} does not fit, got " + " ".join(problems)
        )


_ABSENT = object()


def _place(module: Module, name: str, value):
    """Put a value at a name of a module, or take the name away for `_ABSENT`; return what was there."""
    for registry in (module._parameters, module._buffers):
        if name in registry:
            before = registry[name]
            if value is _ABSENT:
                del registry[name]
            else:
                registry[name] = value
            return before
    before = getattr(module, name, _ABSENT)
    if before is not _ABSENT and not _is_value(before):
        raise TypeError(
            f"functional_call: {name!r} of {type(module).__name__} is not a Tensor, got {type(before).__name__}"
        )
    if value is not _ABSENT:
        setattr(module, name, value)
    elif before is not _ABSENT:
        delattr(module, name)
    return before


def _is_value(value) -> bool:
    return value is None or isinstance(value, facula.Tensor)


@contextlib.contextmanager
def _reparametrize_module(module: Module, values: dict, *, tie_weights: bool = False, strict: bool = False):
    """Put ``values`` in place of the module's own tensors; afterwards put the own ones back.

    What a forward pass assigns to a replaced buffer goes into ``values``. Names that the module has not exist for the call.
    """
    inserted = _with_tied(module, values) if tie_weights else dict(values)
    if strict:
        _check_names(module, inserted)
    saved = []
    try:
        for name, value in inserted.items():
            owner, _, leaf = _owner(module, name)
            if owner is None:
                raise AttributeError(f"functional_call: there is no such tensor, got {name!r}")
            saved.append((owner, leaf, _place(owner, leaf, value), name))
        yield
    finally:
        # In reverse, so that a place that was changed twice gets back what it had first.
        for owner, leaf, original, name in reversed(saved):
            last = _place(owner, leaf, original)
            if name in values:
                values[name] = last


def functional_call(
    module: Module,
    parameters_and_buffers: dict[Any, Any],
    args: Any = None,
    kwargs: dict[Any, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Tensor:
    """Return ``module(*args, **kwargs)`` with the given tensors instead of its parameters and buffers.

    Deprecated, and warns: the same is ``torch.func.functional_call``.

    Args:
        module: the module, which is as before afterwards.
        parameters_and_buffers: a dict from dotted names to tensors; others stay the module's own.
        args: a tuple, or one argument.
        kwargs: a dict, or None.
        tie_weights: if True, a value for one name of a shared tensor counts for all of its names.
        strict: if True, require all names of the module, and no others.

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
    for name, value in parameters_and_buffers.items():
        if not _is_value(value):
            raise TypeError(
                f"functional_call: parameters_and_buffers must hold Tensors or None, and {value!r} is not an instance of "
                f"torch.Tensor, got {type(value).__name__} at {name!r}"
            )
    compiled = sys.modules.get("facula.jit")
    if compiled is not None and isinstance(module, compiled.ScriptModule):
        raise RuntimeError(f"functional_call: modules of torch.jit keep their parameters, got {type(module).__name__}")
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
