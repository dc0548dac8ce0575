"""Methods of Module that register hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._hooks import _add, _RunHooks, _WrappedHook

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.utils.hooks import RemovableHandle


class _HookMethods(_RunHooks):
    """The part of Module that registers hooks."""

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:  # fmt: skip
        """Have a function called before each call of forward.

        Args:
            hook: ``hook(module, args)``; a result that is not None replaces the arguments.
            prepend: whether it comes before the hooks registered earlier.
            with_kwargs: whether it is called as ``hook(module, args, kwargs)`` and returns None or (args, kwargs).

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(torch.zeros(2))
        tensor([1., 1.])
        """
        self._hooked = True
        flags = {"with_kwargs": self._forward_pre_hooks_with_kwargs} if with_kwargs else {}
        return _add(self._forward_pre_hooks, hook, prepend, **flags)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Have a function called after each call of forward.

        Args:
            hook: ``hook(module, args, output)``; a result that is not None replaces the output.
            prepend: whether it comes before the hooks registered earlier.
            with_kwargs: whether it is called as ``hook(module, args, kwargs, output)``.
            always_call: whether it is called also where forward fails, with None for the output.

        Returns: a handle, whose ``remove()`` ends it.

        >>> shapes = []
        >>> layer = nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
        >>> _ = layer(torch.zeros(4, 2))
        >>> handle.remove()
        >>> shapes
        [(4, 3)]
        """
        self._hooked = True
        flags = {}
        if with_kwargs:
            flags["with_kwargs"] = self._forward_hooks_with_kwargs
        if always_call:
            flags["always_call"] = self._forward_hooks_always_called
        return _add(self._forward_hooks, hook, prepend, **flags)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have a function called before the gradients of the module's inputs are computed.

        Args:
            hook: ``hook(module, grad_output)``; a tuple with an entry for each output replaces grad_output.
            prepend: whether it comes before the hooks registered earlier.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Identity()
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
        >>> x = torch.ones(2, requires_grad=True)
        >>> layer(x).sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        self._hooked = True
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have a function called when the gradients of the module's inputs are known.

        Args:
            hook: ``hook(module, grad_input, grad_output)``; a tuple with an entry for each positional argument replaces
                grad_input.
            prepend: whether it comes before the hooks registered earlier.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] + 1,))
        >>> x = torch.tensor([-1.0, 1.0], requires_grad=True)
        >>> layer(x).sum().backward()
        >>> x.grad
        tensor([1., 2.])
        """
        self._set_backward_kind(full=True)
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The old form of `register_full_backward_hook`: it sees the gradients of the module's last operation only.

        Args:
            hook: ``hook(module, grad_input, grad_output)``.

        Returns: a handle, whose ``remove()`` ends it.

        Errors: RuntimeError on a module that has full backward hooks.

        >>> calls = []
        >>> layer = nn.ReLU()
        >>> handle = layer.register_backward_hook(lambda module, grad_input, grad_output: calls.append(len(grad_output)))
        >>> layer(torch.ones(2, requires_grad=True)).sum().backward()
        >>> calls
        [1]
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

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have a function called before `state_dict` collects this module.

        Args:
            hook: ``hook(module, prefix, keep_vars)``.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Linear(1, 1)
        >>> handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: print("saving", prefix))
        >>> _ = nn.Sequential(layer).state_dict()
        saving 0.
        """
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have a function called after `state_dict` has collected this module and those below it.

        Args:
            hook: ``hook(module, state_dict, prefix, local_metadata)``; it may change the dict in place and returns None.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Linear(1, 1)
        >>> def without_bias(module, state_dict, prefix, local_metadata):
        ...     del state_dict[prefix + "bias"]
        >>> handle = layer.register_state_dict_post_hook(without_bias)
        >>> list(layer.state_dict())
        ['weight']
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

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have a function called before the entries of this module are loaded: it may rename or add them.

        Args:
            hook: ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``,
                which changes state_dict in place.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Linear(1, 1, bias=False)
        >>> def rename(module, state_dict, prefix, *others):
        ...     state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        >>> handle = layer.register_load_state_dict_pre_hook(rename)
        >>> layer.load_state_dict({"w": torch.ones(1, 1)})
        <All keys matched successfully>
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module: bool = False):
        return _add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have a function called after a state dict was loaded.

        Args:
            hook: ``hook(module, incompatible_keys)``; it may change the two lists, missing_keys and unexpected_keys, in
                place.

        Returns: a handle, whose ``remove()`` ends it.

        >>> layer = nn.Linear(1, 1)
        >>> handle = layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        >>> layer.load_state_dict({"weight": torch.ones(1, 1)})
        <All keys matched successfully>
        """
        return _add(self._load_state_dict_post_hooks, hook)
