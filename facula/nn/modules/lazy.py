"""Define LazyModuleMixin, the base of modules whose parameters get their shapes from the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parameter import is_lazy

if TYPE_CHECKING:
    from typing import Any

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Make a module wait for its first input before its parameters have shapes; it stands before the Module class
    among the bases.

    A subclass registers `UninitializedParameter` and `UninitializedBuffer` objects in its constructor and defines
    ``initialize_parameters``, which gets the arguments of the first call and gives them their shapes. After that call the
    object's class becomes ``cls_to_become``, if that is set.

    Args:
        args, kwargs: passed to the constructor of the next class.

    Errors: RuntimeError, at the first call, where a parameter is still without a shape after initialize_parameters.

    >>> class LazyScale(nn.modules.lazy.LazyModuleMixin, nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = nn.UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.weight.materialize((x.shape[-1],))
    ...         nn.init.ones_(self.weight)
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> LazyScale()(torch.randn(2, 3)).shape
    torch.Size([2, 3])
    """

    cls_to_become = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        # Uninitialized entries are saved as they are: they have no values to detach.
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if is_lazy(param) or keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Take the shapes of uninitialized entries from the state dict that is being loaded."""
        for name, param in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if param is not None and value is not None and is_lazy(param) and not is_lazy(value):
                # Loading happens under no_grad; the values follow in _load_from_state_dict.
                param.materialize(value.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes; every subclass defines its own.

        Args:
            args, kwargs: those of the first call.

        Errors: NotImplementedError where the class does not define it.

        >>> layer = nn.LazyLinear(2)
        >>> layer.initialize_parameters(torch.randn(5, 3))
        >>> layer.weight.shape
        torch.Size([2, 3])
        """
        raise NotImplementedError(
            f"initialize_parameters: {type(self).__name__} must define it, got a call without it"
        )

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer still waits for its shape.

        >>> layer = nn.LazyLinear(2)
        >>> before = layer.has_uninitialized_params()
        >>> _ = layer(torch.randn(1, 3))
        >>> before, isinstance(layer, nn.LazyLinear)
        (True, False)
        """
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{self._get_name()}: some parameters are uninitialized after initialize_parameters, got "
                f"{module!r}"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            f"DataParallel: lazy modules must run once before they are replicated, got {type(self).__name__}"
        )
