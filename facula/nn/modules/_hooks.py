"""Hooks of modules: the global registries, and the methods of Module that run hooks; those that register them are in
`_hook_methods`.

A module (or, with a global hook, the class Module) that has ever had a hook carries ``_hooked = True``; a
call tests this one flag and reaches this file only when it is set.
"""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

import facula
from facula.utils.hooks import BackwardHook, RemovableHandle, add_hook, hook_items

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_global_backward_pre_hooks: dict[Any, Any] = OrderedDict()
_global_backward_hooks: dict[Any, Any] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: dict[Any, Any] = OrderedDict()
_global_forward_hooks: dict[Any, Any] = OrderedDict()
_global_forward_hooks_always_called: dict[Any, Any] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[Any, Any] = OrderedDict()
_global_buffer_registration_hooks: dict[Any, Any] = OrderedDict()
_global_module_registration_hooks: dict[Any, Any] = OrderedDict()
_global_parameter_registration_hooks: dict[Any, Any] = OrderedDict()


_HOME = "facula.nn.modules.module"


def _registry(name: str) -> Any:
    """A registry as it stands in the module where programs find it; some put another dict in its place."""
    return getattr(sys.modules[_HOME], name)


def _add(hooks: dict[Any, Any], hook: Callable[..., Any], prepend: bool = False, **flags: dict[Any, Any]) -> RemovableHandle:
    """Put ``hook`` into ``hooks`` and its id into every dict of ``flags``; return the handle."""
    handle = RemovableHandle(hooks, extra_dict=list(flags.values()))
    for flag in flags.values():
        add_hook(flag, handle, True)
    add_hook(hooks, handle, hook, prepend)
    return handle


def _hooks_in(hooks: dict) -> list:
    return [hook for _, hook in hook_items(hooks)] if hooks else []


def _enable_global_hooks() -> None:
    from .module import Module

    Module._hooked = True


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called whenever a buffer is registered in any module.

    Args:
        hook: ``hook(module, name, buffer)``; a result that is not None replaces the buffer.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_buffer_registration_hook(lambda m, name, buffer: names.append(name))
    >>> _ = nn.BatchNorm1d(2)
    >>> handle.remove()
    >>> names
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    return _add(_registry("_global_buffer_registration_hooks"), hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called whenever a submodule is registered in any module.

    Args:
        hook: ``hook(module, name, submodule)``; a result that is not None replaces the submodule.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_module_registration_hook(lambda m, name, child: names.append(name))
    >>> _ = nn.Sequential(nn.ReLU(), nn.Tanh())
    >>> handle.remove()
    >>> names
    ['0', '1']
    """
    return _add(_registry("_global_module_registration_hooks"), hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called whenever a parameter is registered in any module.

    Args:
        hook: ``hook(module, name, param)``; a result that is not None replaces the parameter.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_parameter_registration_hook(lambda m, name, param: names.append(name))
    >>> _ = nn.Linear(2, 3)
    >>> handle.remove()
    >>> names
    ['weight', 'bias']
    """
    return _add(_registry("_global_parameter_registration_hooks"), hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called before forward of every module there is.

    Args:
        hook: ``hook(module, args)``; a result that is not None replaces the arguments.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_forward_pre_hook(lambda m, args: names.append(type(m).__name__))
    >>> _ = nn.Sequential(nn.ReLU())(torch.ones(1))
    >>> handle.remove()
    >>> names
    ['Sequential', 'ReLU']
    """
    _enable_global_hooks()
    return _add(_registry("_global_forward_pre_hooks"), hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:  # fmt: skip
    """Have a function called after forward of every module there is.

    Args:
        hook: ``hook(module, args, output)``; a result that is not None replaces the output.
        with_kwargs: whether it is called as ``hook(module, args, kwargs, output)``.
        always_call: whether it is called also where forward fails, with None for the output.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_forward_hook(lambda m, args, output: names.append(type(m).__name__))
    >>> _ = nn.Sequential(nn.ReLU())(torch.ones(1))
    >>> handle.remove()
    >>> names
    ['ReLU', 'Sequential']
    """
    _enable_global_hooks()
    flags = {}
    if with_kwargs:
        flags["with_kwargs"] = _registry("_global_forward_hooks_with_kwargs")
    if always_call:
        flags["always_call"] = _registry("_global_forward_hooks_always_called")
    return _add(_registry("_global_forward_hooks"), hook, **flags)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The old form of `register_module_full_backward_hook`: it sees the gradients of each module's last operation only.

    Args:
        hook: ``hook(module, grad_input, grad_output)``.

    Returns: a handle, whose ``remove()`` ends it.

    Errors: RuntimeError where a full hook for all modules was registered before: a program uses one kind.

    >>> handle = nn.modules.module.register_module_full_backward_hook(lambda module, grad_input, grad_output: None)
    >>> handle.remove()
    >>> try:
    ...     nn.modules.module.register_module_backward_hook(lambda module, grad_input, grad_output: None)
    ... except RuntimeError:
    ...     print("one kind only")
    one kind only
    """
    _set_global_backward_kind(full=False)
    return _add(_registry("_global_backward_hooks"), hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called before the gradients of the inputs of any module are computed.

    Args:
        hook: ``hook(module, grad_output)``; a tuple with an entry for each output replaces grad_output.

    Returns: a handle, whose ``remove()`` ends it.

    >>> names = []
    >>> handle = nn.modules.module.register_module_full_backward_pre_hook(lambda m, grads: names.append(type(m).__name__))
    >>> nn.ReLU()(torch.ones(1, requires_grad=True)).backward()
    >>> handle.remove()
    >>> names
    ['ReLU']
    """
    _enable_global_hooks()
    return _add(_registry("_global_backward_pre_hooks"), hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have a function called when the gradients of the inputs of any module are known.

    Args:
        hook: ``hook(module, grad_input, grad_output)``; a tuple with an entry for each positional argument replaces
            grad_input.

    Returns: a handle, whose ``remove()`` ends it.

    Errors: RuntimeError where an old hook for all modules was registered before.

    >>> names = []
    >>> handle = nn.modules.module.register_module_full_backward_hook(lambda m, gi, go: names.append(type(m).__name__))
    >>> nn.ReLU()(torch.ones(1, requires_grad=True)).backward()
    >>> handle.remove()
    >>> names
    ['ReLU']
    """
    _set_global_backward_kind(full=True)
    return _add(_registry("_global_backward_hooks"), hook)


def _set_global_backward_kind(full: bool) -> None:
    if _registry("_global_is_full_backward_hook") is (not full):
        raise RuntimeError(
            "register_module_backward_hook: old and full backward hooks cannot be mixed as global hooks, "
            f"got a {'full' if full else 'old'} one"
        )
    sys.modules[_HOME]._global_is_full_backward_hook = full
    _enable_global_hooks()


class _WrappedHook:
    """A load_state_dict pre-hook, with its module as first argument when asked for."""

    def __init__(self, hook, module=None) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)  # which holds the hook
        self.with_module = module is not None
        functools.update_wrapper(self, hook)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("load_state_dict: the module of this hook is gone, got a call of its hook")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        return {**self.__dict__, "module": self.module() if self.with_module else None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.with_module:
            self.module = weakref.ref(state["module"])


class _RunHooks:
    """The part of Module that runs hooks."""

    def _get_backward_hooks(self) -> tuple[list, list]:
        """(full backward hooks, old ones) that apply to this module, global ones first."""
        full, old = [], []
        for_all = _hooks_in(_registry("_global_backward_hooks"))
        (full if _registry("_global_is_full_backward_hook") is True else old).extend(for_all)
        (full if self._is_full_backward_hook is True else old).extend(_hooks_in(self._backward_hooks))
        return full, old

    def _get_backward_pre_hooks(self) -> list:
        return [*_hooks_in(_registry("_global_backward_pre_hooks")), *_hooks_in(self._backward_pre_hooks)]

    def _call_with_hooks(self, args: tuple, kwargs: dict):
        called: set[int] = set()
        try:
            return self._run_with_hooks(args, kwargs, called)
        except Exception:
            self._run_always_called_hooks(args, kwargs, called)
            raise

    def _run_with_hooks(self, args: tuple, kwargs: dict, called: set[int]):
        full_hooks, old_hooks = self._get_backward_hooks()
        pre_hooks = self._get_backward_pre_hooks()
        args, kwargs = self._run_forward_pre_hooks(args, kwargs)
        boundary = BackwardHook(self, full_hooks, pre_hooks) if full_hooks or pre_hooks else None
        if boundary is not None:
            args = boundary.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for hook_id, hook, with_kwargs, _ in self._forward_hook_rows():
            called.add(hook_id)
            new = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if new is not None:
                result = new
        if boundary is not None:
            if not isinstance(result, (facula.Tensor, tuple)):
                warnings.warn(
                    f"{type(self).__name__}: backward hooks need a Tensor or a tuple of Tensors as the "
                    "output, "
                    f"got {type(result).__name__}",
                    stacklevel=4,
                )
            result = boundary.setup_output_hook(result)
        if old_hooks:
            self._attach_old_backward_hooks(old_hooks, args, result)
        return result

    def _run_forward_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        with_kwargs = self._forward_pre_hooks_with_kwargs
        rows = [(hook, False) for hook in _hooks_in(_registry("_global_forward_pre_hooks"))]
        rows += [(hook, hook_id in with_kwargs) for hook_id, hook in hook_items(self._forward_pre_hooks)]
        for hook, wants_kwargs in rows:
            if not wants_kwargs:
                result = hook(self, args)
                if result is not None:
                    args = result if isinstance(result, tuple) else (result,)
                continue
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{type(self).__name__}: a forward pre-hook with kwargs must return None or (args, "
                    "kwargs), "
                    f"got {result!r}"
                )
            args, kwargs = result
        return args, kwargs

    def _forward_hook_rows(self) -> list[tuple]:
        """(id, hook, whether it takes kwargs, whether it is always called), global hooks first."""
        for_all_with_kwargs = _registry("_global_forward_hooks_with_kwargs")
        for_all_always = _registry("_global_forward_hooks_always_called")
        rows = [
            (i, hook, i in for_all_with_kwargs, i in for_all_always)
            for i, hook in hook_items(_registry("_global_forward_hooks"))
        ]
        rows += [
            (i, hook, i in self._forward_hooks_with_kwargs, i in self._forward_hooks_always_called)
            for i, hook in hook_items(self._forward_hooks)
        ]
        return rows

    def _run_always_called_hooks(self, args: tuple, kwargs: dict, called: set[int]) -> None:
        """After an error in forward: run the always-called hooks that have not run; their own errors only
        warn.
        """
        for hook_id, hook, with_kwargs, always in self._forward_hook_rows():
            if not always or hook_id in called:
                continue
            try:
                _ = hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            except Exception as error:
                warnings.warn(
                    f"{type(self).__name__}: forward failed, and then the always-called forward hook too: "
                    f"{error}",
                    stacklevel=4,
                )

    def _attach_old_backward_hooks(self, hooks: list, args: tuple, result) -> None:
        first = result
        while not isinstance(first, facula.Tensor):
            first = (
                next(v for v in first.values() if isinstance(v, facula.Tensor))
                if isinstance(first, dict)
                else first[0]
            )
        node = first.grad_fn
        if node is None:
            return
        self._warn_of_old_hooks(args, result, node)
        for hook in hooks:
            node.register_hook(functools.update_wrapper(functools.partial(hook, self), hook))

    def _warn_of_old_hooks(self, args: tuple, result, node) -> None:
        """Warn where the gradients that an old backward hook sees are not those of the module's inputs and outputs."""
        outputs = result if isinstance(result, tuple) else (result,)
        nodes = {t.grad_fn for t in outputs if isinstance(t, facula.Tensor)} - {None}
        why = None
        if not all(isinstance(t, facula.Tensor) for t in outputs):
            why = "does not return a Tensor or a tuple of Tensors"
        elif not all(isinstance(t, facula.Tensor) for t in args):
            why = "does not take Tensors only"
        elif len(nodes) > 1:
            why = "has outputs that different operations made"
        else:
            before = {t.grad_fn for t in args} - {None}
            inner = {n for n, _ in node.next_functions if n is not None and not hasattr(n, "variable")}
            if nodes != {node} or before != inner:
                why = "does several operations, of which the hook sees the last"
        if why:
            warnings.warn(
                f"{type(self).__name__}: register_backward_hook is for modules of one operation (use "
                f"register_full_backward_hook); this one {why}",
                FutureWarning,
                stacklevel=5,
            )
