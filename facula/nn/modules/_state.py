"""Module.state_dict and Module.load_state_dict."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING

import facula
from facula import __future__ as _future
from facula import overrides

from ..parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from typing import Any

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """Result of ``load_state_dict``: keys the module wanted, and keys it did not know."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _swap_in(param, value, assign: bool) -> None:
    """Exchange a parameter or buffer for what ``param.module_load(value)`` gives."""
    new = param.module_load(value, assign=assign)
    if new is value or new is param:
        raise RuntimeError(
            "load_state_dict: module_load must give a tensor of its own (detach() does), got one of its arguments"
        )
    if isinstance(param, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(param.requires_grad)
        else:
            new = Parameter(new, requires_grad=param.requires_grad)
    facula.utils.swap_tensors(param, new)


class _StateMethods:
    """The part of Module that writes and reads state dicts."""

    # Format version of a class's own entries; stored in the metadata and handed to _load_from_state_dict.
    _version: int = 1

    def get_extra_state(self) -> Any:
        """What else a subclass wants in its state dict, beside tensors; to be defined together with `set_extra_state`.

        Returns: anything that can be saved.

        Errors: RuntimeError where the class does not define it.

        >>> class Counter(nn.Module):
        ...     calls = 3
        ...     def get_extra_state(self):
        ...         return {"calls": self.calls}
        ...     def set_extra_state(self, state):
        ...         self.calls = state["calls"]
        >>> Counter().state_dict()["_extra_state"]
        {'calls': 3}
        """
        raise RuntimeError(
            f"get_extra_state: {type(self).__name__} does not define it; got a call all the same"
        )

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take back what `get_extra_state` gave, when a state dict is loaded.

        Args:
            state: that.

        Errors: RuntimeError where the class does not define it.

        >>> class Counter(nn.Module):
        ...     calls = 3
        ...     def get_extra_state(self):
        ...         return {"calls": self.calls}
        ...     def set_extra_state(self, state):
        ...         self.calls = state["calls"]
        >>> counter = Counter()
        >>> _ = counter.load_state_dict({"_extra_state": {"calls": 5}})
        >>> counter.calls
        5
        """
        raise RuntimeError(
            f"set_extra_state: {type(self).__name__} does not define it, got {type(state).__name__}"
        )

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(_StateMethods, name)

    def _save_to_state_dict(self, destination, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters and persistent buffers, without those of its children."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:  # fmt: skip
        """All parameters and persistent buffers by their dotted names, in the order of their registration. They share the
        module's memory.

        Args:
            args: destination, prefix and keep_vars by position; a warning asks for keywords.
            destination: the dict to fill. Default: a new OrderedDict, with versions of the classes in ``_metadata``.
            prefix: put before every name.
            keep_vars: whether the tensors themselves are given, which record gradients, or detached ones.

        Returns: destination.

        >>> {name: tuple(t.shape) for name, t in nn.Sequential(nn.Linear(2, 3)).state_dict().items()}
        {'0.weight': (3, 2), '0.bias': (3,)}
        """
        if args:
            warnings.warn(
                "Module.state_dict: destination, prefix and keep_vars are keyword arguments, got "
                "positional ones",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            result = hook(self, destination, prefix, local_metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError(
                    f"state_dict: a post-hook of {type(self).__name__} must return None, got "
                    f"{type(result).__name__}"
                )
            destination = result
        return destination

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Copy this module's own entries from ``state_dict``; problems are appended to the three lists.

        Args:
            state_dict: all entries; only those that begin with ``prefix`` are looked at.
            local_metadata: ``version`` of the saved entries and ``assign_to_params_buffers``.
            strict: whether to report missing and unexpected keys.
        """
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        wanted = {k: v for k, v in (*self._parameters.items(), *persistent.items()) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in wanted.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_entry(name, param, key, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._overrides("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, _, rest = key[len(prefix) :].partition(".")
                    if first not in (self._modules if rest else wanted):
                        unexpected_keys.append(key)

    def _load_entry(self, name: str, param, key: str, value, assign: bool) -> str | None:
        """Copy or assign one entry; return what is wrong with it, or None."""
        if not overrides.is_tensor_like(value):
            return f"{key}: expected a Tensor or something like one, got {type(value).__name__}"
        lazy = is_lazy(param)
        if not lazy and len(param.shape) == 0 and len(value.shape) == 1 and value.shape[0] == 1:
            value = value[0]  # files of very old versions store scalars as one-element vectors
        if not lazy and value.shape != param.shape:
            return f"size mismatch for {key}: the module has {tuple(param.shape)}, got {tuple(value.shape)}"
        if param.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"load_state_dict: {key} is on the meta device, so copying into it does nothing; use "
                "assign=True",
                stacklevel=2,
            )
        try:
            with facula.no_grad():
                if _future.get_swap_module_params_on_conversion():
                    _swap_in(param, value, assign)
                    return None
                if not assign:
                    param.copy_(value)
                    return None
                if isinstance(param, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(param.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            shape = "unknown" if lazy else tuple(param.shape)
            return (
                f"{key}: copying a tensor of shape {tuple(value.shape)} into one of shape {shape} failed "
                "with "
                f"{type(error).__name__}: {error}"
            )
        return None

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy parameters and buffers from a state dict into this module and those below it.

        Args:
            state_dict: dotted names to tensors.
            strict: whether missing and unknown names are errors.
            assign: whether the given tensors themselves are put into the module; then they keep their dtype and device.

        Returns: a named tuple (missing_keys, unexpected_keys).

        Errors: RuntimeError where names (with strict), shapes or types do not fit; its text lists all of them. TypeError
        for what is no mapping.

        >>> layer = nn.Linear(2, 1)
        >>> layer.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
        <All keys matched successfully>
        >>> layer(torch.ones(2)).tolist()
        [2.0]
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: Expected state_dict to be dict-like, got {type(state_dict).__name__}")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, entries, prefix=""):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                entries, prefix, local_metadata, True, missing_keys, unexpected_keys, error_msgs
            )
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = prefix + name + "."
                    load(
                        child, {k: v for k, v in entries.items() if k.startswith(child_prefix)}, child_prefix
                    )
            incompatible = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        f"load_state_dict: a post-hook of {type(module).__name__} must return None and "
                        "change the lists "
                        f"in place, got a result from {hook!r}"
                    )

        load(self, state_dict)
        load = None  # it refers to itself, and to the tensors
        if strict and unexpected_keys:
            error_msgs.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected_keys))
        if strict and missing_keys:
            error_msgs.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing_keys))
        if error_msgs:
            lines = "".join(f"\n    {message}" for message in error_msgs)
            raise RuntimeError(f"load_state_dict: the entries do not fit {type(self).__name__}:{lines}")
        return _IncompatibleKeys(missing_keys, unexpected_keys)
