"""Hooks around the steps and state dicts of optimizers."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from itertools import chain

from facula._C import _watching
from facula.autograd.profiler import record_function
from facula.utils.hooks import RemovableHandle, add_hook

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


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    Args:
        hook: gives None, or new (args, kwargs) for the step; the optimizer is the first of args.

    Returns a handle, whose ``remove()`` takes the hook away.

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
    """Calls ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Args:
        hook: what it gives is not looked at.

    Returns a handle, whose ``remove()`` takes the hook away.

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


def with_hooks(step):
    """``step`` between the hooks of the instance and those of all optimizers, which run once for the step that was
    called, not again for one that it calls by ``super().step()``."""

    def inside(self, *args, **kwargs):
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
            return inside(self, *args, **kwargs)
        with record_function(f"Optimizer.step#{type(self).__name__}.step"):
            return inside(self, *args, **kwargs)

    hooked.hooked = True
    return hooked


class _HookMethods:
    """The methods of an optimizer that register its hooks."""

    def _make_hooks(self) -> None:
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())

    def _has_step_hooks(self) -> bool:
        # a wrapper around another optimizer may derive from Optimizer without initializing it
        tables = self.__dict__
        return bool(tables.get("_optimizer_step_pre_hooks") or tables.get("_optimizer_step_post_hooks"))

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step.

        Args:
            hook: gives None, or new (args, kwargs) for the step; the optimizer is the first of args.

        Returns a handle, whose ``remove()`` takes the hook away.

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
        """Calls ``hook(optimizer, args, kwargs)`` after each step.

        Args:
            hook: what it gives is not looked at.

        Returns a handle, whose ``remove()`` takes the hook away.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("stepped"))
        >>> optimizer.step()
        stepped
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before `state_dict`.

        Args:
            hook: what it gives is not looked at.
            prepend: whether it comes before the hooks that are there.

        Returns a handle, whose ``remove()`` takes the hook away.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
        >>> _ = optimizer.state_dict()
        saving
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after `state_dict`.

        Args:
            hook: gives None, or what `state_dict` shall give instead.
            prepend: whether it comes before the hooks that are there.

        Returns a handle, whose ``remove()`` takes the hook away.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state_dict: {**state_dict, "version": 2})
        >>> optimizer.state_dict()["version"]
        2
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before `load_state_dict`.

        Args:
            hook: gives None, or the state dict to load instead; what it is given is a shallow copy.
            prepend: whether it comes before the hooks that are there.

        Returns a handle, whose ``remove()`` takes the hook away.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, state_dict: print(sorted(state_dict)))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        ['param_groups', 'state']
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after `load_state_dict`.

        Args:
            hook: what it gives is not looked at.
            prepend: whether it comes before the hooks that are there.

        Returns a handle, whose ``remove()`` takes the hook away.

        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)
