"""Module: the base class of everything that has parameters, buffers, submodules and a forward method.

Calls, registration and attributes are here; hooks are in `_hooks`, state dicts in `_state`, finding what belongs to a
module in `_traverse`, modes and conversions in `_convert`.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import facula
from facula import _C

from .. import parameter as _parameter
from ..parameter import Buffer, Parameter
from ._convert import _ConvertMethods
from ._hook_methods import _HookMethods
from ._hooks import (  # noqa: F401  (programs look for the registries of hooks here)
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_is_full_backward_hook,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._hooks import (
    _WrappedHook as _WrappedHook,
)
from ._state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from ._state import _IncompatibleKeys as _IncompatibleKeys
from ._state import _StateMethods
from ._traverse import _TraverseMethods

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor

__all__ = [
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_backward_hook",
    "register_module_full_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "Module",
]

_grad_t = tuple[facula.Tensor, ...] | facula.Tensor

_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
# The dicts whose replacement as a whole may bring hooks that a call must run.
_CALL_HOOK_DICTS = frozenset(
    ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
)


_NAMED = {"register_buffer": "buffer", "register_parameter": "parameter", "add_module": "module"}


def _addindent(text: str, spaces: int) -> str:
    """Indent every line but the first."""
    return text.replace("\n", "\n" + " " * spaces)


def _forward_unimplemented(self, *input: Any) -> None:
    """Compute the result; every subclass defines its own.

    Args:
        input: what the module is called with.

    Errors: NotImplementedError where the class does not define it.

    >>> nn.Identity().forward(torch.ones(2))
    tensor([1., 1.])
    """
    raise NotImplementedError(
        f"{type(self).__name__}: the class must define forward(), got a call without it"
    )


_forward_unimplemented.__qualname__ = "Module.forward"  # what errors of its arguments begin with


class Module(_HookMethods, _StateMethods, _TraverseMethods, _ConvertMethods):
    """The base class of everything that has parameters and a forward method.

    A `Parameter`, `Buffer` or Module that is assigned to an attribute is registered under that name: `parameters`,
    `state_dict`, `to` and the other methods find it. A subclass calls ``super().__init__()`` first and defines
    ``forward``; calling the module calls forward, between the hooks.

    Args:
        args, kwargs: for classes with ``call_super_init``, handed on to the next class; otherwise there are none.

    Errors: TypeError for arguments; NotImplementedError where a class without forward is called; AttributeError where a
    parameter or module is assigned before ``super().__init__()``.

    >>> class Scale(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.weight = nn.Parameter(torch.full((size,), 2.0))
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> scale = Scale(3)
    >>> scale(torch.ones(3)).tolist(), list(scale.state_dict())
    ([2.0, 2.0, 2.0], ['weight'])
    """

    __constants__: ClassVar[list[str]]
    dump_patches: bool = False
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, facula.Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    call_super_init: bool = False
    # True on an instance (or on Module itself) once a hook has been registered; see _hooks.py.
    _hooked: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.call_super_init is False and (args or kwargs):
            got = f"{len(args)} positional, keywords {sorted(kwargs)}"
            raise TypeError(f"{type(self).__name__}.__init__: takes no arguments, got {got}")
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_is_full_backward_hook"] = None
        for name in _HOOK_DICTS:
            state[name] = OrderedDict()
        state["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The core calls modules as this does, unless a class has a __call__ of its own.
        if self._hooked:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        return Module.__call__(self, *args, **kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, *args: Any, **kwargs: Any) -> Self:
        """Ask that calls of the module be compiled. Facula runs them as they are, so this checks the arguments only.

        Args:
            args, kwargs: those of `compile`.

        Returns: the module.

        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.compile()
        >>> layer(torch.ones(2)).shape
        torch.Size([2])
        """
        facula.compile(self, *args, **kwargs)
        return self

    def _check_new_name(self, method: str, name, known: dict) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{method}: {type(self).__name__} must call super().__init__() first, got {name!r}"
            )
        if not isinstance(name, str):
            raise TypeError(f"{method}: {_NAMED[method]} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{method}: name must not contain ".", got {name!r}')
        if name == "":
            raise KeyError(f'{method}: name must not be empty, got ""')
        if name not in known and hasattr(self, name):
            raise KeyError(
                f"{method}: {type(self).__name__} already has an attribute of this name, got {name!r}"
            )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state, but not learned, like the running mean of batch normalisation.

        Args:
            name: the attribute under which it is found.
            tensor: the values, or None: then the name exists and is left out of the state dict.
            persistent: whether it is part of the state dict.

        Errors: TypeError for what is no tensor, KeyError for a name that exists, is empty or has a dot, AttributeError
        before ``super().__init__()``.

        >>> module = nn.Module()
        >>> module.register_buffer("mean", torch.zeros(2))
        >>> module.mean, list(module.state_dict())
        (tensor([0., 0.]), ['mean'])
        """
        self._check_new_name("register_buffer", name, self.__dict__.get("_buffers", {}))
        if not (tensor is None or isinstance(tensor, facula.Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(
                f"register_buffer: {name!r} must be a Tensor or None, got {type(tensor).__name__}"
            )
        self._set_buffer(name, tensor, persistent)

    def _set_buffer(self, name: str, tensor, persistent: bool) -> None:
        for hook in _global_buffer_registration_hooks.values():
            replacement = hook(self, name, tensor)
            tensor = tensor if replacement is None else replacement
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Add a parameter; the same as an assignment, but None is possible, too.

        Args:
            name: the attribute under which it is found.
            param: the parameter, or None: then the name exists and is left out of the state dict.

        Errors: TypeError for what is no `Parameter`, ValueError for the result of a computation, KeyError for a name that
        exists, is empty or has a dot.

        >>> module = nn.Module()
        >>> module.register_parameter("bias", None)
        >>> module.register_parameter("weight", nn.Parameter(torch.zeros(2)))
        >>> module.bias, len(list(module.parameters()))
        (None, 1)
        """
        self._check_new_name("register_parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter: {name!r} must be a Parameter or None, got {type(param).__name__}"
            )
        if param is not None and param.grad_fn:
            raise ValueError(
                f"register_parameter: {name!r} must be a leaf, got a result of "
                f"{type(param.grad_fn).__name__}; "
                "compute such values in forward()"
            )
        for hook in _global_parameter_registration_hooks.values():
            replacement = hook(self, name, param)
            param = param if replacement is None else replacement
        self._parameters[name] = param

    def add_module(self, name: str, module: Module) -> None:
        """Add a submodule; the same as an assignment, but the name can be computed, and None is possible, too.

        Args:
            name: the attribute under which it is found.
            module: the submodule, or None.

        Errors: TypeError for what is no Module, KeyError for a name that exists, is empty or has a dot.

        >>> module = nn.Module()
        >>> module.add_module("layer0", nn.Linear(2, 3))
        >>> module.layer0
        Linear(in_features=2, out_features=3, bias=True)
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} must be a Module or None, got {type(module).__name__}")
        self._check_new_name("add_module", name, self.__dict__.get("_modules", {}))
        self._set_module(name, module)

    def register_module(self, name: str, module: Module) -> None:
        """Another name of `add_module`.

        Args:
            name: the attribute under which it is found.
            module: the submodule, or None.

        Errors: TypeError for what is no Module, KeyError for a name that exists, is empty or has a dot.

        >>> module = nn.Module()
        >>> module.register_module("layer0", nn.Linear(2, 3))
        >>> module.layer0
        Linear(in_features=2, out_features=3, bias=True)
        """
        self.add_module(name, module)

    def _set_module(self, name: str, module) -> None:
        for hook in _global_module_registration_hooks.values():
            replacement = hook(self, name, module)
            module = module if replacement is None else replacement
        self._modules[name] = module

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _C._use_module_lookup(cls)

    def __getattr__(self, name: str) -> Any:
        # The core looks parameters, buffers and submodules up as this does, and calls it only where there is
        # no such name; subclasses with a __getattr__ of their own come here with super().__getattr__(name).
        state = self.__dict__
        if "_parameters" in state:
            found = state["_parameters"]
            if name in found:
                return found[name]
            found = state["_modules"]
            if name in found:
                return found[name]
            found = state["_buffers"]
            if name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        params = state.get("_parameters")
        if isinstance(value, facula.Tensor) and isinstance(value, Parameter):
            if params is None:
                raise AttributeError(
                    f"{type(self).__name__}: call super().__init__() before assigning {name!r}"
                )
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}: {name!r} is a parameter and takes a Parameter or None, "
                    f"got {type(value).__name__}"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if params is None:
                raise AttributeError(
                    f"{type(self).__name__}: call super().__init__() before assigning {name!r}"
                )
            self._forget(name, "_parameters", "_buffers")
            self._set_module(name, value)
        elif params is not None and name in state["_modules"]:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}: {name!r} is a submodule and takes a Module or None, "
                    f"got {type(value).__name__}"
                )
            self._set_module(name, value)
        elif params is not None and (name in state["_buffers"] or self._is_new_buffer(value)):
            self._assign_buffer(name, value)
        else:
            if name in _CALL_HOOK_DICTS and value:
                state["_hooked"] = True
            object.__setattr__(self, name, value)

    @staticmethod
    def _is_new_buffer(value) -> bool:
        return isinstance(value, facula.Tensor) and isinstance(
            value, (Buffer, _parameter.UninitializedBuffer)
        )

    def _assign_buffer(self, name: str, value) -> None:
        if not (value is None or isinstance(value, facula.Tensor) or hasattr(value, "__torch_function__")):
            raise TypeError(
                f"{type(self).__name__}: {name!r} is a buffer and takes a Tensor or None, got "
                f"{type(value).__name__}"
            )
        if self._is_new_buffer(value):
            self._register_assigned(name, value, getattr(value, "persistent", True))
        else:
            self._set_buffer(name, value, name not in self._non_persistent_buffers_set)

    def _register_assigned(self, name: str, value, persistent: bool) -> None:
        """Register a buffer through `register_buffer`, which a subclass may have defined without `persistent`."""
        own = type(self).register_buffer
        if own is Module.register_buffer or "persistent" in inspect.signature(own).parameters:
            self.register_buffer(name, value, persistent)
            return
        if not persistent:
            raise RuntimeError(
                f"{type(self).__name__}: register_buffer takes no argument persistent, got a buffer {name!r} that is not"
            )
        self.register_buffer(name, value)

    def _forget(self, name: str, *registries: str) -> None:
        """Drop a plain attribute and entries of other kinds of the same name."""
        self.__dict__.pop(name, None)
        for registry in registries:
            self.__dict__[registry].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[Any, Any]) -> None:
        self.__dict__.update(state)
        # Pickles of older versions lack some of the dicts.
        for name in _HOOK_DICTS:
            if name not in self.__dict__:
                self.__dict__[name] = OrderedDict()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
        if any(self.__dict__[name] for name in _CALL_HOOK_DICTS):
            self.__dict__["_hooked"] = True

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_addindent(repr(child), 2)}" for name, child in self._modules.items()]
        head = self._get_name() + "("
        if len(extra_lines) == 1 and not child_lines:
            return head + extra_lines[0] + ")"
        lines = extra_lines + child_lines
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from facula._html import module_html

        return module_html(self)

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses, in one line or several; for subclasses to define.

        >>> nn.Linear(2, 3).extra_repr()
        'in_features=2, out_features=3, bias=True'
        """
        return ""

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica


_C._set_module_lookup(Module.__getattr__, Module.__call__)
_C._use_module_lookup(Module)
