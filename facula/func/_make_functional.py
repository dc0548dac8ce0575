"""Convert modules to functions of their parameters, as functorch did before `func.functional_call`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import facula
from facula import nn
from facula.func import functional_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "make_functional",
    "make_functional_with_buffers",
]  # fmt: skip


def _split(model, disable_autograd_tracking):
    """Return (a copy of the model on the meta device, names and values of parameters, names and values of buffers)."""
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    for value in parameters.values():
        if not isinstance(value, facula.Tensor) or isinstance(value, nn.parameter.UninitializedParameter):
            raise RuntimeError(f"make_functional: parameters must have values, got {type(value).__name__}")
    stateless = copy.deepcopy(model).to("meta")
    _tie(stateless, model.named_parameters(remove_duplicate=False), "_parameters")
    _tie(stateless, model.named_buffers(remove_duplicate=False), "_buffers")
    values = tuple(value.detach() if disable_autograd_tracking else value for value in parameters.values())
    return stateless, tuple(parameters), values, tuple(buffers), tuple(buffers.values())


def _tie(stateless, named, kind):
    # The copy's values are one wherever the model's are: moving a module to another device makes several of them.
    first = {}
    for name, value in named:
        path, _, attribute = name.rpartition(".")
        held = getattr(stateless.get_submodule(path), kind)
        held[attribute] = first.setdefault(id(value), held[attribute])


class FunctionalModule(nn.Module):
    """Call a module as a function: ``model(params, *args, **kwargs)``.

    Args:
        stateless_model: a module whose parameters are not read.
        param_names: names of the parameters, in the order in which they are given.
    """

    def __init__(self, stateless_model: nn.Module, param_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model, self.param_names = stateless_model, param_names

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Return what the module gives with these parameters."""
        values = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, values, args, kwargs)


class FunctionalModuleWithBuffers(nn.Module):
    """Call a module as a function: ``model(params, buffers, *args, **kwargs)``.

    Args:
        stateless_model: a module whose parameters and buffers are not read.
        param_names, buffer_names: names, in the order in which values are given.
    """

    def __init__(self, stateless_model: nn.Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Return what the module gives with these parameters and buffers."""
        values = dict(zip(self.param_names, params, strict=True))
        values.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, values, args, kwargs)


def make_functional(model: nn.Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """Return (the module as a function of its parameters, the parameters).

    Args:
        model: a module without buffers.
        disable_autograd_tracking: whether the parameters are given without their history.

    Errors: RuntimeError for a module with buffers: see `make_functional_with_buffers`.
    """
    stateless, names, values, buffer_names, _ = _split(model, disable_autograd_tracking)
    if buffer_names:
        raise RuntimeError(
            f"make_functional: a model without buffers, see make_functional_with_buffers; got buffers {list(buffer_names)}"
        )
    return FunctionalModule(stateless, names), values


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """Return (the module as a function of parameters and buffers, the parameters, the buffers).

    Args:
        model: a module.
        disable_autograd_tracking: whether the parameters are given without their history.
    """
    stateless, names, values, buffer_names, buffers = _split(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(stateless, names, buffer_names), values, buffers


def combine_state_for_ensemble(models: Sequence[nn.Module]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return (one of the modules as a function, parameters and buffers of all, stacked): for an ensemble run by vmap.

    Args:
        models: modules of one class, all training or all not.

    Errors: RuntimeError for no models, and for models of several classes or modes.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: expected at least one model, got none")
    if len({(type(model), model.training) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: models are of one class and mode, got several")
    functions, parameters, buffers = zip(*map(make_functional_with_buffers, models))
    stack = lambda rows: tuple(facula.stack(column).detach().requires_grad_(column[0].requires_grad) for column in zip(*rows))  # noqa: E731
    return functions[0], stack(parameters), stack(buffers)


def _ensemble(model_class, ensemble_shape, device, args, kwargs):
    """Return (the class's module as a function, parameters and buffers of as many modules as the shape says)."""
    if len(ensemble_shape) > 1:
        raise ValueError(f"functional_init: expected ensemble_shape of at most 1 element, got {tuple(ensemble_shape)}")
    if len(ensemble_shape) == 1 and ensemble_shape[0] <= 0:
        raise ValueError(f"functional_init: ensemble_shape must be positive, got {tuple(ensemble_shape)}")
    models = [model_class(*args, **kwargs).to(device) for _ in range(ensemble_shape[0] if ensemble_shape else 1)]
    functions, parameters, buffers = zip(*map(make_functional_with_buffers, models))
    if not ensemble_shape:
        return functions[0], parameters[0], buffers[0]
    stack = lambda rows: tuple(facula.stack(column).detach() for column in zip(*rows))  # noqa: E731
    return functions[0], stack(parameters), stack(buffers)


def functional_init(
    model_class: type[nn.Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """Return a function of the class's arguments that gives (parameters, ``fn(parameters, inputs)``, names of parameters).

    Args:
        model_class: a class of modules without buffers.
        ensemble_shape: how many modules' parameters are stacked; () for those of one.
        device: where they lie.
    """

    def init(*args, **kwargs):
        function, parameters, _ = _ensemble(model_class, ensemble_shape, device, args, kwargs)
        return parameters, lambda values, inputs: function(values, (), *inputs), function.param_names

    return init


def functional_init_with_buffers(
    model_class: type[nn.Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """Return what `functional_init` does, for modules with buffers.

    It gives (parameters, buffers, ``fn(parameters, buffers, inputs)``, names of parameters, names of buffers).

    Args:
        model_class: a class of modules.
        ensemble_shape: how many modules' parameters and buffers are stacked; () for those of one.
        device: where they lie.
    """

    def init(*args, **kwargs):
        function, parameters, buffers = _ensemble(model_class, ensemble_shape, device, args, kwargs)
        run = lambda values, more, inputs: function(values, more, *inputs)  # noqa: E731
        return parameters, buffers, run, function.param_names, function.buffer_names

    return init
