"""Hooks of modules: the global registries, and the methods of Module that register and run hooks.

A module (or, with a global hook, the class Module) that has ever had a hook carries ``_hooked = True``; a
call tests this one flag and reaches this file only when it is set.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict

import facula
from facula.utils.hooks import BackwardHook, RemovableHandle, add_hook, hook_items

_global_backward_pre_hooks: dict = OrderedDict()
_global_backward_hooks: dict = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: dict = OrderedDict()
_global_forward_hooks: dict = OrderedDict()
_global_forward_hooks_always_called: dict = OrderedDict()
_global_forward_hooks_with_kwargs: dict = OrderedDict()
_global_buffer_registration_hooks: dict = OrderedDict()
_global_module_registration_hooks: dict = OrderedDict()
_global_parameter_registration_hooks: dict = OrderedDict()


def _add(hooks: dict, hook, prepend: bool = False, **flags: dict) -> RemovableHandle:
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


def register_module_buffer_registration_hook(hook):
    """Call ``hook(module, name, buffer)`` at every buffer registration; a result that is not None replaces
    the buffer.
    """
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Call ``hook(module, name, submodule)`` at every registration of a submodule; a result replaces the
    submodule.
    """
    return _add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Call ``hook(module, name, param)`` at every registration of a parameter; a result replaces the
    parameter.
    """
    return _add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Call ``hook(module, args)`` before every module's forward; a result replaces the arguments."""
    _enable_global_hooks()
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs: bool = False, always_call: bool = False):
    """Call ``hook(module, args, output)`` after every module's forward; a result replaces the output.

    Args:
        with_kwargs: call ``hook(module, args, kwargs, output)``.
        always_call: call the hook also when forward raises (output is then None).
    """
    _enable_global_hooks()
    flags = {}
    if with_kwargs:
        flags["with_kwargs"] = _global_forward_hooks_with_kwargs
    if always_call:
        flags["always_call"] = _global_forward_hooks_always_called
    return _add(_global_forward_hooks, hook, **flags)


def register_module_backward_hook(hook):
    """Old form of `register_module_full_backward_hook`: sees the gradients of the last operation only."""
    _set_global_backward_kind(full=False)
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """Call ``hook(module, grad_output)`` before the gradients of any module are computed."""
    _enable_global_hooks()
    return _add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """Call ``hook(module, grad_input, grad_output)`` once the gradients of a module's inputs are known."""
    _set_global_backward_kind(full=True)
    return _add(_global_backward_hooks, hook)


def _set_global_backward_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "register_module_backward_hook: old and full backward hooks cannot be mixed as global hooks, "
            f"got a {'full' if full else 'old'} one"
        )
    _global_is_full_backward_hook = full
    _enable_global_hooks()


class _WrappedHook:
    """A load_state_dict pre-hook, with its module as first argument when asked for."""

    def __init__(self, hook, module=None) -> None:
        self.hook = hook
        self.module = module
        self.with_module = module is not None
        functools.update_wrapper(self, hook)

    def __call__(self, *args, **kwargs):
        if self.with_module:
            return self.hook(self.module, *args, **kwargs)
        return self.hook(*args, **kwargs)


class _HookMethods:
    """The part of Module that registers and runs hooks."""

    def register_forward_pre_hook(self, hook, *, prepend: bool = False, with_kwargs: bool = False):
        """Call ``hook(module, args)`` before forward; a result that is not None replaces the arguments.

        Args:
            prepend: run before the hooks registered earlier.
            with_kwargs: call ``hook(module, args, kwargs)``, which returns None or ``(args, kwargs)``.
        """
        self._hooked = True
        flags = {"with_kwargs": self._forward_pre_hooks_with_kwargs} if with_kwargs else {}
        return _add(self._forward_pre_hooks, hook, prepend, **flags)

    def register_forward_hook(
        self, hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ):
        """Call ``hook(module, args, output)`` after forward; a result that is not None replaces the output.

        Args:
            prepend: run before the hooks registered earlier.
            with_kwargs: call ``hook(module, args, kwargs, output)``.
            always_call: call the hook also when forward raises (output is then None).
        """
        self._hooked = True
        flags = {}
        if with_kwargs:
            flags["with_kwargs"] = self._forward_hooks_with_kwargs
        if always_call:
            flags["always_call"] = self._forward_hooks_always_called
        return _add(self._forward_hooks, hook, prepend, **flags)

    def register_full_backward_pre_hook(self, hook, prepend: bool = False):
        """Call ``hook(module, grad_output)`` before the gradients of the inputs are computed.

        A result (a tuple, one entry per output) replaces ``grad_output``.
        """
        self._hooked = True
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend: bool = False):
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known.

        A result (a tuple, one entry per positional input) replaces ``grad_input``.
        """
        self._set_backward_kind(full=True)
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """Old form of `register_full_backward_hook`: sees the gradients of the module's last operation
        only.
        """
        self._set_backward_kind(full=False)
        return _add(self._backward_hooks, hook)

    def _set_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                f"{type(self).__name__}: old and full backward hooks cannot be mixed on one module, "
                f"got a {'full' if full else 'old'} one"
            )
        self._is_full_backward_hook = full
        self._hooked = True

    def register_state_dict_pre_hook(self, hook):
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` collects this module."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after collection; it may change the dict
        in place.
        """
        hook._from_public_api = True
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                f"{type(self).__name__}: this hook was registered by register_state_dict_post_hook before, "
                f"got {hook!r}"
            )
        return _add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`` before this module's entries are loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module: bool = False):
        return _add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook):
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists in place."""
        return _add(self._load_state_dict_post_hooks, hook)

    # -- running
    # -------------------------------------------------------------------------------------------------

    def _get_backward_hooks(self) -> tuple[list, list]:
        """(full backward hooks, old ones) that apply to this module, global ones first."""
        full, old = [], []
        (full if _global_is_full_backward_hook is True else old).extend(_hooks_in(_global_backward_hooks))
        (full if self._is_full_backward_hook is True else old).extend(_hooks_in(self._backward_hooks))
        return full, old

    def _get_backward_pre_hooks(self) -> list:
        return [*_hooks_in(_global_backward_pre_hooks), *_hooks_in(self._backward_pre_hooks)]

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
            self._attach_old_backward_hooks(old_hooks, result)
        return result

    def _run_forward_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        with_kwargs = self._forward_pre_hooks_with_kwargs
        rows = [(hook, False) for hook in _hooks_in(_global_forward_pre_hooks)]
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
        rows = [
            (i, hook, i in _global_forward_hooks_with_kwargs, i in _global_forward_hooks_always_called)
            for i, hook in hook_items(_global_forward_hooks)
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

    def _attach_old_backward_hooks(self, hooks: list, result) -> None:
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
        for hook in hooks:
            node.register_hook(functools.update_wrapper(functools.partial(hook, self), hook))
