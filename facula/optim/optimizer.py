"""The base class of optimizers: parameter groups, state, hooks and (de)serialisation."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import facula
from facula import _C, Tensor
from facula._C import _watching
from facula.autograd.profiler import record_function
from facula.nn.parameter import Parameter
from facula.utils.hooks import RemovableHandle, add_hook

from . import _rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula.types import Device

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]


class _RequiredParameter:
    """Marks an option that every group must state."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Any = _RequiredParameter()

_global_pre_hooks: dict[int, Callable[..., Any]] = OrderedDict()
_global_post_hooks: dict[int, Callable[..., Any]] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before every step of every optimizer; it may return new (args,
    kwargs).
    """
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
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
    """``step`` between the hooks of the instance and those of all optimizers, which run once for the step that was
    called, not again for one that it calls by ``super().step()``."""

    def with_hooks(self, *args, **kwargs):
        state = self.__dict__
        if not (self._has_step_hooks() or _global_pre_hooks or _global_post_hooks) or "_inside_step" in state:
            return step(self, *args, **kwargs)
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
        for hook in [*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        if not _watching():
            return with_hooks(self, *args, **kwargs)
        with record_function(f"Optimizer.step#{type(self).__name__}.step"):
            return with_hooks(self, *args, **kwargs)

    hooked.hooked = True
    return hooked


def check_non_negative(name: str, **options: Any) -> None:
    """Raises ValueError naming the optimizer for the first option below 0 (or NaN)."""
    for option, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"{name}: {option} must be at least 0, got {value}")


def check_rates(name: str, betas: tuple[float, float]) -> None:
    """Raises ValueError for decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"{name}: betas[{i}] must be in [0, 1), got {beta}")


def check_lr(name: str, lr: Tensor | float, foreach: bool | None = None, capturable: bool = True) -> None:
    """Raises ValueError for a negative learning rate, or a tensor that is not one number."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"{name}: a learning rate in a tensor is one element, got {lr.numel()}")
        if foreach and not capturable:
            raise ValueError(f"{name}: lr as a tensor does not go with foreach=True and capturable=False, got {lr}")
    if not 0.0 <= lr:
        raise ValueError(f"{name}: lr must be at least 0, got {lr}")


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Kinds of devices on which a captured graph may have a step."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(params, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """(whether one kernel makes a step, whether ops on lists do) where the program does not say it."""
    if differentiable:
        return False, False
    fused = use_fused and all(p is None or type(p) in (Tensor, Parameter) and p.is_floating_point() for p in params)
    return fused, not fused and all(p is None or p.device.type == "cuda" for p in params)


def _use_grad_for_differentiable(step):
    """Lets a step be recorded for gradients where the optimizer is `differentiable`, and only there."""

    @functools.wraps(step)
    def recorded(self, *args, **kwargs):
        with facula.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return recorded


def step_counter(device: Device = None) -> Tensor:
    """A new ``step`` state: 0-d, float32 (float64 when that is the default dtype)."""
    wide = facula.get_default_dtype() == facula.float64
    return facula.tensor(0.0, dtype=facula.float64 if wide else facula.float32, device=device or "cpu")


class Optimizer:
    """Holds parameters in groups with options of their own, and what `step` remembers about each.

    Args:
        params: tensors, or (name, tensor) pairs, or dicts with ``params`` and options of that group.
        defaults: options of groups that do not state them.

    Attributes:
        param_groups: list of dicts. state: parameter -> dict.
    """

    _state_names: tuple[str, ...] = ()
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
            raise TypeError(f"{type(self).__name__}: params must be an iterable of tensors or dicts, got a Tensor")
        _check_flags(type(self).__name__, defaults)
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: params must not be empty, got none")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())

    def _has_step_hooks(self) -> bool:
        # a wrapper around another optimizer may derive from Optimizer without initializing it
        tables = self.__dict__
        return bool(tables.get("_optimizer_step_pre_hooks") or tables.get("_optimizer_step_post_hooks"))

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self.defaults.items():
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
        """Adds a group: a dict with ``params`` and options; options left out are the defaults."""
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: param_group must be a dict, got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(f"{name}: params must be an ordered collection, got a set")
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and all(isinstance(p, tuple) for p in params):
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
        if len({id(p) for p in params}) < len(params) or any(id(p) in known for p in params):
            raise ValueError(f"{name}: a parameter may appear only once in all groups, got a duplicate")
        self.param_groups.append(param_group)

    def _complete_group(self, name: str, group: dict[str, Any]) -> None:
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{name}: either all groups have named parameters or none, got a mixture")
        for option, default in self.defaults.items():
            if default is required and option not in group:
                raise ValueError(f"{name}: group option '{option}' has no default, got a group without it")
            group.setdefault(option, default)
        _check_flags(name, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes all gradients, or (with ``set_to_none=False``) fills them with zeros."""
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
        """Updates all parameters that have a gradient.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            The loss of the closure, or None.
        """
        raise NotImplementedError(f"{type(self).__name__}: step is not implemented, got a call")

    def _evaluate(self, closure):
        if closure is None:
            return None
        with facula.enable_grad():
            return closure()

    def _start(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """The first state of a parameter: a step counter and zeros like it for each of `_state_names`."""
        state = self.state[param]
        state["step"] = step_counter(param.device if group.get("capturable") else None)
        for name in self._state_names:
            state[name] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    # -- state dicts

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False):
        """{(device, dtype) of tensors of the first list: (those of all lists, their places)}."""
        found: dict[Any, Any] = {}
        for place, first in enumerate(tensorlistlist[0]):
            lists, places = found.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
            for group, tensors in zip(lists, tensorlistlist, strict=True):
                group.extend(tensors[place : place + 1])
            places.extend([place] if with_indices else [])
        return found

    def state_dict(self) -> StateDict:
        """``{"state": {index: ...}, "param_groups": [...]}`` with parameters replaced by their numbers."""
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
        """Restores what `state_dict` gave; tensors are moved and cast to their parameter, except ``step``."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
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

    # -- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after `state_dict`; it may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another one."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after `load_state_dict`."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class RuleOptimizer(Optimizer):
    """An optimizer whose step treats each parameter by itself, in one pass of the core (on a device with a queue many in
    one launch), or in ops: with ``differentiable``, which records them, and with ``capturable``, where step counters and
    what follows from them are on the device, so that a graph can replay it."""

    _counters = ("step",)

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Updates all parameters that have a gradient; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        self._check_capture()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _check_capture(self) -> None:
        """Raises where a graph is captured and its replays would all be the same step."""
        for group in self.param_groups:
            on_device = not group.get("capturable", True) and any(p.is_cuda for p in group["params"])
            if on_device and _C._cuda_captures_here():
                raise RuntimeError(
                    f"{type(self).__name__}: capturable=True, since a graph is captured and its replays are to count steps, "
                    "got capturable=False"
                )

    def _step_group(self, group) -> None:
        """Parameter by parameter; what has been prepared is run also when a later one raises."""
        check_step(type(self).__name__, group, group["params"])
        steps = []
        try:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.layout is not facula.strided:
                    self._update_sparse(group, param, grad)
                    continue
                state = self.state[param] or self._start(group, param)
                state["step"] += 1
                steps.append(self._update(group, param, grad, state, counted(group, state["step"])))
        finally:
            run_steps(steps)

    def _update_sparse(self, group, param, grad):
        """A step with a sparse gradient, where the rule has one."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients, got layout {grad.layout}")

    def _update(self, group, param, grad, state, step):
        """Prepares or does one step of one parameter: gives what `_run` gave. ``step`` counts from 1."""
        raise NotImplementedError(f"{type(self).__name__}: _update is not implemented, got a call")

    @staticmethod
    def _run(rule: str, group, param, grad, states, numbers, decay=None):
        """A step of a rule, for run_steps(), or None where it was done, in ops; ``decay`` is the L2 weight decay, by default
        the group's."""
        sign = -1.0 if group["maximize"] else 1.0
        decay = group["weight_decay"] if decay is None else decay
        step = (rule, param, grad, states, (sign, decay, *numbers))
        on_device = group.get("capturable") and any(isinstance(n, Tensor) for n in numbers)
        if not (group["differentiable"] or on_device):
            return step
        with facula.set_grad_enabled(facula.is_grad_enabled() and bool(group["differentiable"])):
            _rules.apply(*step)
        return None


def counted(group: Mapping[str, Any], step: Tensor) -> float:
    """A step counter's value: a number, or itself where the host must not ask for it."""
    return step if group.get("capturable") else step.item()


def run_steps(steps: Sequence[tuple[Tensor | str | tuple[Any, ...], ...] | None]) -> None:
    """Runs what `_run` has prepared: those of a device together."""
    _C._optim_steps([step for step in steps if step])


def _check_flags(name: str, options: Mapping[str, Any]) -> None:
    for other in ("differentiable", "foreach"):
        if options.get("fused") and options.get(other):
            raise RuntimeError(f"{name}: fused and {other} exclude each other, got both")


def check_step(name: str, group: Mapping[str, Any], params: Any) -> None:
    """Raises AssertionError for options that a step of these parameters cannot have."""
    if group.get("capturable"):
        for param in params:
            if not param.is_cuda:
                place = str(param.device).upper()
                raise AssertionError(f"{name}: capturable=True is for parameters on an accelerator, got a step on the {place}")
    if group.get("foreach") and group.get("differentiable") and name != "SGD":
        raise AssertionError(f"{name}: a foreach step has no derivative, got foreach=True and differentiable=True")


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
    """State loaded for ``param``, with tensors in its dtype and on its device."""
    if isinstance(value, Tensor):
        if key == "step":
            on_device = group is not None and (group.get("capturable") or group.get("fused"))
            return value.to(dtype=facula.float32, device=param.device) if on_device else value
        return value.to(dtype=param.dtype, device=param.device) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, k, group) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(param, v, group=group) for v in value)
    return value
