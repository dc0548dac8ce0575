"""Define the base class of optimizers: parameter groups, state, hooks and (de)serialization.

Long because PyTorch has the class and its hooks in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import facula
from facula import Tensor
from facula._C import _watching
from facula.autograd.profiler import record_function
from facula.utils.hooks import RemovableHandle, add_hook

from ._arguments import (  # noqa: F401  (PyTorch has the private ones here)
    _default_to_fused_or_foreach,
    _get_capturable_supported_devices,
    _use_grad_for_differentiable,
    check_flags,
)

if TYPE_CHECKING:
    from facula.types import Device

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]


_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)

_global_pre_hooks: dict[int, Callable] = OrderedDict()
_global_post_hooks: dict[int, Callable] = OrderedDict()


# ---- Hooks around the steps and state dicts of optimizers


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    Args:
        hook: the function; it returns None, or new (args, kwargs) for the step, where the optimizer is the first of args.

    Returns: a handle, whose ``remove()`` removes the hook.

    >>> from torch.optim.optimizer import register_optimizer_step_pre_hook
    >>> def tell(optimizer, args, kwargs):
    ...     print("before a step of", type(optimizer).__name__)
    >>> handle = register_optimizer_step_pre_hook(tell)
    >>> torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()
    before a step of SGD
    >>> handle.remove()
    """
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Args:
        hook: the function; its result is not used.

    Returns: a handle, whose ``remove()`` removes the hook.

    >>> from torch.optim.optimizer import register_optimizer_step_post_hook
    >>> def tell(optimizer, args, kwargs):
    ...     print("after a step of", type(optimizer).__name__)
    >>> handle = register_optimizer_step_post_hook(tell)
    >>> torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()
    after a step of SGD
    >>> handle.remove()
    """
    return _register(_global_post_hooks, hook)


def _register(hooks: dict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    add_hook(hooks, handle, hook, prepend)
    return handle


def _call_pre_hooks(hooks, optimizer, args, kwargs):
    for hook in list(hooks):
        result = hook(optimizer, args, kwargs)
        if result is None:
            continue
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(f"step: a pre-hook returns None or (args, kwargs), got {result!r}")
        args, kwargs = result
    return args, kwargs


def _with_hooks(step):
    """Return ``step`` between the hooks of the instance and those of all optimizers, which run once for the step that was
    called, not again for one that it calls by ``super().step()``."""

    def inside(self, *args, **kwargs):
        state = self.__dict__
        if not (self._has_step_hooks() or _global_pre_hooks or _global_post_hooks) or "_inside_step" in state:
            return step(self, *args, **kwargs)
        # A step that calls super().step() must not run the hooks twice.
        state["_inside_step"] = True
        try:
            return between_hooks(self, *args, **kwargs)
        finally:
            del state["_inside_step"]

    def between_hooks(self, *args, **kwargs):
        self._make_hooks()
        pre = chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values())
        args, kwargs = _call_pre_hooks(pre, self, (self, *args), kwargs)
        result = step(*args, **kwargs)
        # A list, because a hook may remove itself.
        for hook in [*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        if not _watching():
            return inside(self, *args, **kwargs)
        with record_function(f"Optimizer.step#{type(self).__name__}.step"):
            return inside(self, *args, **kwargs)

    hooked.hooked = True
    return hooked


ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]


class _RequiredParameter:
    """Mark an option that every group must state."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Any = _RequiredParameter()


def step_counter(device: Device = None) -> Tensor:
    """Return a new ``step`` state: 0-d, float32 (float64 when that is the default dtype)."""
    wide = facula.get_default_dtype() == facula.float64
    return facula.tensor(0.0, dtype=facula.float64 if wide else facula.float32, device=device or "cpu")


class Optimizer:
    """Hold parameters in groups with options of their own, and the state that `step` stores for each. It is the base
    class of optimizers.

    A subclass defines `step`, which must take a closure.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        defaults: the options of groups that do not state them.

    Attributes:
        param_groups: a list of dicts.
        state: a dict from parameters to dicts.

    Errors: TypeError for a tensor instead of an iterable; ValueError for no parameters, one that is in two groups, or one
    that is not a leaf.

    >>> class SignDescent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad.sign()
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = SignDescent([weight])
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _state_names: tuple[str, ...] = ()
    _later_options: dict[str, Any] = {}  # options that came after the class: checkpoints made before them have none
    _counters: tuple[str, ...] = ()  # states that are 0-d tensors, numbers in checkpoints of PyTorch before 1.12

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if callable(step) and not hasattr(step, "hooked"):
            cls.step = _with_hooks(step)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params is an iterable of Tensors or dicts, "
                "got one Tensor"
            )
        check_flags(type(self).__name__, defaults)
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: params must not be empty, got none")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
        for values in self.state.values():
            for name in self._counters:
                if isinstance(values.get(name), (int, float)):
                    values[name] = step_counter().fill_(values[name])

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, such as those of layers that are trained only from now on.

        Args:
            param_group: a dict with ``params`` (a tensor, tensors, or (name, tensor) pairs) and options; those left out are the
                defaults.

        Errors: TypeError for something other than a dict, a set of parameters, or parameters that are not tensors; ValueError
        for a parameter that the optimizer has already or that is not a leaf, and for names in some groups only.

        >>> optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
        >>> optimizer.add_param_group({"params": torch.zeros(3, requires_grad=True), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: param_group must be a dict, got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(f"{name}: params must be an ordered collection, got a set")
        params = [params] if isinstance(params, Tensor) else list(params)
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueError(f"{name}: either all parameters of a group have names or none, got a mixture")
        if any(named):
            param_group["param_names"] = [p[0] for p in params]
            params = [p[1] for p in params]
        param_group["params"] = params
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: parameters must be tensors, got {type(p)}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError(f"{name}: parameters must be leaf tensors, got the result of an operation")
        self._complete_group(name, param_group)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if len({id(p) for p in params}) < len(params):
            warnings.warn(
                f"{name}: got a parameter group with duplicate parameters, each of which is stepped as often as it comes",
                UserWarning,
                stacklevel=3,
            )
        if any(id(p) in known for p in params):
            raise ValueError(f"{name}: a parameter may appear in one group only, got one that is in several")
        self.param_groups.append(param_group)

    def _complete_group(self, name: str, group: dict[str, Any]) -> None:
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{name}: either all groups have named parameters or none, got a mixture")
        for option, default in self.defaults.items():
            if default is required and option not in group:
                raise ValueError(f"{name}: group option '{option}' has no default, got a group without it")
            group.setdefault(option, default)
        check_flags(name, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of all parameters.

        Args:
            set_to_none: if False, fill them with zeros: then the next step changes parameters that get no gradient, too (by
                momentum).

        >>> weight = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight])
        >>> weight.sum().backward()
        >>> optimizer.zero_grad()
        >>> weight.grad is None
        True
        """
        if not _watching():
            self._remove_gradients(set_to_none)
            return
        with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            self._remove_gradients(set_to_none)

    def _remove_gradients(self, set_to_none):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.detach_() if p.grad.grad_fn is not None else p.grad.requires_grad_(False)
                    p.grad.zero_()

    # -- steps

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: a function that evaluates the model again and returns the loss, or None.

        Returns:
            The loss of the closure, or None.

        Errors: NotImplementedError of the base class.

        >>> weight = torch.tensor([3.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight], lr=0.5)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (weight**2).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item(), weight.item()
        (9.0, 0.0)
        """
        raise NotImplementedError(f"{type(self).__name__}: step is not implemented, got a call")

    def _evaluate(self, closure):
        if closure is None:
            return None
        with facula.enable_grad():
            return closure()

    def _start(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return the first state of a parameter: a step counter and zeros like it for each of `_state_names`."""
        state = self.state[param]
        state["step"] = step_counter(param.device if group.get("capturable") else None)
        for name in self._state_names:
            state[name] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    # -- state dicts

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False):
        """Return {(device, dtype) of tensors of the first list: (those of all lists, their places)}."""
        found: dict[Any, Any] = {}
        for place, first in enumerate(tensorlistlist[0]):
            lists, places = found.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
            for group, tensors in zip(lists, tensorlistlist, strict=True):
                group.extend(tensors[place : place + 1])
            places.extend([place] if with_indices else [])
        return found

    def state_dict(self) -> StateDict:
        """Return ``{"state": {number: ...}, "param_groups": [...]}``, with parameters replaced by their numbers: what a
        checkpoint holds.

        The tensors are those of the optimizer, not copies.

        >>> optimizer = torch.optim.SGD([("w", torch.ones(2, requires_grad=True))], lr=0.1, momentum=0.9)
        >>> saved = optimizer.state_dict()
        >>> saved["state"], saved["param_groups"][0]["params"], saved["param_groups"][0]["param_names"]
        ({}, [0], ['w'])
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}

        def packed(group: dict[str, Any]) -> dict[str, Any]:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            rest = {key: value for key, value in group.items() if key != "params"}
            rest["params"] = [numbers[id(p)] for p in group["params"]]
            return rest

        groups = [packed(group) for group in self.param_groups]
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore options and state that `state_dict` returned. Parameters are matched by their places, not by names.

        Args:
            state_dict: the state dict of an optimizer with groups of the same sizes; its tensors are moved and cast to their
                parameter, except ``step``, and copied only where that needs it.

        Errors: ValueError for other groups.

        >>> optimizer = torch.optim.Adam([torch.ones(2, requires_grad=True)], lr=0.1)
        >>> other = torch.optim.Adam([torch.ones(2, requires_grad=True)], lr=0.5)
        >>> optimizer.load_state_dict(other.state_dict())
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        # The groups become the optimizer's own, and changing them must not change the caller's dict.
        saved_groups = deepcopy(state_dict["param_groups"])
        _check_groups(type(self).__name__, self.param_groups, saved_groups)
        params = {
            number: (p, group)
            for group, saved in zip(self.param_groups, saved_groups, strict=True)
            for number, p in zip(saved["params"], group["params"], strict=True)
        }
        state: defaultdict[Tensor, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                p, group = params[key]
                state[p] = _cast(p, value, group=group)
            else:
                state[key] = value
        groups = []
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
            groups.append(saved)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _make_hooks(self) -> None:
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())

    def _has_step_hooks(self) -> bool:
        # a wrapper around another optimizer may derive from Optimizer without initializing it
        tables = self.__dict__
        return bool(tables.get("_optimizer_step_pre_hooks") or tables.get("_optimizer_step_post_hooks"))

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step.

        Args:
            hook: the function; it returns None, or new (args, kwargs) for the step, where the optimizer is the first of args.

        Returns: a handle, whose ``remove()`` removes the hook.

        Errors: RuntimeError, at a step, for a hook that gives something else.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        >>> def tell(optimizer, args, kwargs):
        ...     print("lr", optimizer.param_groups[0]["lr"])
        >>> handle = optimizer.register_step_pre_hook(tell)
        >>> optimizer.step()
        lr 0.1
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step.

        Args:
            hook: the function; its result is not used.

        Returns: a handle, whose ``remove()`` removes the hook.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("stepped"))
        >>> optimizer.step()
        stepped
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`.

        Args:
            hook: the function; its result is not used.
            prepend: if True, call it before the hooks that are there.

        Returns: a handle, whose ``remove()`` removes the hook.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
        >>> _ = optimizer.state_dict()
        saving
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`.

        Args:
            hook: the function; it returns None, or what `state_dict` shall return instead.
            prepend: if True, call it before the hooks that are there.

        Returns: a handle, whose ``remove()`` removes the hook.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state_dict: {**state_dict, "version": 2})
        >>> optimizer.state_dict()["version"]
        2
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`.

        Args:
            hook: the function; it returns None, or the state dict to load instead; its argument is a shallow copy.
            prepend: if True, call it before the hooks that are there.

        Returns: a handle, whose ``remove()`` removes the hook.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, state_dict: print(sorted(state_dict)))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        ['param_groups', 'state']
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`.

        Args:
            hook: the function; its result is not used.
            prepend: if True, call it before the hooks that are there.

        Returns: a handle, whose ``remove()`` removes the hook.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

def _check_groups(name: str, groups, saved_groups) -> None:
    if len(groups) != len(saved_groups):
        raise ValueError(f"{name}: load_state_dict needs {len(groups)} parameter groups, got {len(saved_groups)}")
    for i, (group, saved) in enumerate(zip(groups, saved_groups, strict=True)):
        if len(group["params"]) != len(saved["params"]):
            raise ValueError(
                f"{name}: load_state_dict needs {len(group['params'])} parameters in group {i}, got "
                f"{len(saved['params'])}"
            )


def _cast(param: Tensor, value, key: str | None = None, group: Mapping[str, Any] | None = None):
    """Return the state loaded for ``param``, with tensors in its dtype and on its device."""
    if isinstance(value, Tensor):
        if key == "step":
            on_device = group is not None and (group.get("capturable") or group.get("fused"))
            # Step counters stay in float32 on the CPU, whatever the parameter is: in bfloat16 they would stop at 256.
            return value.to(dtype=facula.float32, device=param.device) if on_device else value
        return value.to(dtype=param.dtype, device=param.device) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, k, group) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(param, v, group=group) for v in value)
    return value
