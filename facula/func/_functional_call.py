"""Call modules with parameters from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    from facula import Tensor
    from facula.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)


def functional_call(module: Module, parameter_and_buffer_dicts: Sequence[dict[str, Any]] | dict[str, Tensor], args: Any = None,
                    kwargs: Any = None, *, tie_weights: bool = True, strict: bool = False) -> Tensor:  # fmt: skip
    """Return ``module(*args, **kwargs)`` with the given tensors in place of its parameters and buffers of those names.

    Args:
        module: the module, which is the same afterwards.
        parameter_and_buffer_dicts: a dict from dotted names to tensors, or a sequence of such dicts with distinct
            names.
        args: the arguments, a tuple; a single one need not be in one.
        kwargs: the arguments by name, a dict.
        tie_weights: a tensor given for one name stands for all names that share the parameter.
        strict: names must match those of the module exactly.

    Errors: ValueError for a name in several dicts, RuntimeError for names that strict does not allow.

    >>> layer = nn.Linear(2, 1)
    >>> weights = {"weight": torch.tensor([[1., 2.]]), "bias": torch.tensor([10.])}
    >>> torch.func.functional_call(layer, weights, (torch.tensor([3., 4.]),))
    tensor([21.])
    """
    from ..nn.utils import stateless

    if isinstance(parameter_and_buffer_dicts, dict):
        values = parameter_and_buffer_dicts
    else:
        values = {}
        for part in parameter_and_buffer_dicts:
            doubled = values.keys() & part.keys()
            if doubled:
                raise ValueError(f"functional_call: names may appear in one dict only, got {sorted(doubled)} twice")
            values.update(part)
    return stateless._functional_call(module, values, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[Any, Any]]:
    """Return the parameters and buffers of models of one architecture, stacked along a new first dimension: for ensembles with
    vmap.

    Args:
        models: a list of modules of one class, all in training or all in evaluation.

    Returns: two dicts from names to tensors; parameters that require gradients become leaves that do.

    Errors: RuntimeError for no models, models of different classes, and of different modes.

    >>> models = [nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = torch.func.stack_module_state(models)
    >>> {name: tuple(p.shape) for name, p in params.items()}
    {'weight': (4, 3, 2), 'bias': (4, 3)}
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model, got 0")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError(
            f"stack_module_state: expected models of one class, got {sorted({type(m).__name__ for m in models})}"
        )
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: all models must be in one mode, training or evaluation, got both")
    parameters = {
        name: _stacked([dict(m.named_parameters())[name] for m in models]) for name, _ in models[0].named_parameters()
    }
    buffers = {name: _stacked([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return parameters, buffers


def _stacked(tensors):
    flags = {t.requires_grad for t in tensors}
    if len(flags) > 1:
        raise RuntimeError("stack_module_state: parameters of one name must agree in requires_grad, got both")
    return _C.stack([t.detach() for t in tensors]).requires_grad_(flags.pop())


def replace_all_batch_norm_modules_(root: _M) -> _M:
    """Make the batch normalizations in a module normalize by the batch at hand in training and evaluation alike.

    They keep no running statistics then, which vmap could not write.

    Args:
        root: the module, itself included; it is changed and given back.

    Returns: the module.

    >>> net = torch.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
    >>> net[0].running_mean is None
    True
    """
    from ..nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
