"""Define Module, the base class of everything that has parameters, buffers, submodules and a forward method.

A module (or, with a global hook, the class Module) that has ever had a hook carries ``_hooked = True``; a call tests this
one flag. Long because one class has all these methods, and one file has what programs look for in it: the registries of
hooks for all modules first, then Module by topic (calls and attributes, hooks, state dicts, members, conversions).
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import facula
from facula import _C, overrides
from facula import __future__ as _future
from facula.utils._python_dispatch import is_traceable_wrapper_subclass
from facula.utils.hooks import BackwardHook, RemovableHandle, add_hook, hook_items

from .. import parameter as _parameter
from ..parameter import Buffer, Parameter, is_lazy

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.types import Device

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


# ---- hooks of all modules


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
    return _add(_global_buffer_registration_hooks, hook)


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
    return _add(_global_module_registration_hooks, hook)


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
    return _add(_global_parameter_registration_hooks, hook)


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
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:  # fmt: skip
    """Have a function called after forward of every module there is.

    Args:
        hook: ``hook(module, args, output)``; a result that is not None replaces the output.
        with_kwargs: if True, call it as ``hook(module, args, kwargs, output)``.
        always_call: if True, call it also where forward fails, with None for the output.

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
        flags["with_kwargs"] = _global_forward_hooks_with_kwargs
    if always_call:
        flags["always_call"] = _global_forward_hooks_always_called
    return _add(_global_forward_hooks, hook, **flags)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook, the old form of `register_module_full_backward_hook`: it sees the gradients of each module's last
    operation only.

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
    return _add(_global_backward_hooks, hook)


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
    return _add(_global_backward_pre_hooks, hook)


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
    """Call a load_state_dict pre-hook, with the module as first argument where the hook was registered so."""

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


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


# ---- Module.state_dict and Module.load_state_dict


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """Hold the result of ``load_state_dict``: keys that the module needs and did not find, and keys that it does not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _common_prefix(longer, shorter):
    """Return the prefix that all of `longer` have before the names of `shorter`, such as "module.", or ""."""
    prefix = min((key[: -len(name)] for key in longer[:1] for name in shorter if key.endswith("." + name)), key=len, default="")
    return prefix if prefix and all(key.startswith(prefix) for key in longer) else ""


def _remedy(missing, unexpected) -> str:
    """Return what to do about keys that do not fit, or "" where no reason is found."""
    if prefix := _common_prefix(unexpected, missing):
        return (
            f"The entries have the prefix {prefix!r} before the module's names, as those of a wrapper (DataParallel, "
            f"DistributedDataParallel, compile) have. Remove it: "
            f"load_state_dict({{k.removeprefix({prefix!r}): v for k, v in state_dict.items()}})"
        )
    if prefix := _common_prefix(missing, unexpected):
        return (
            f"The module's names have the prefix {prefix!r} before those of the entries, as in a wrapper. Load them into the "
            f"module within: model.get_submodule({prefix.rstrip('.')!r}).load_state_dict(state_dict)"
        )
    near = [(key, meant) for key in unexpected[:100] if (meant := _C._near_name(key, missing))]
    return "Did you mean: " + ", ".join(f"{meant!r} for {key!r}" for key, meant in near[:5]) + "?" if near else ""


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


# ---- What changes a module and all below it: modes, gradients, devices and dtypes


def _is_swapped(new) -> bool:
    return _future.get_swap_module_params_on_conversion() or is_traceable_wrapper_subclass(new)


def _takes_data_of(tensor, new) -> bool:
    """Return whether ``tensor.data = new`` is how a conversion is done."""
    if _future.get_overwrite_module_params_on_conversion():
        return False
    # a meta tensor has no memory that could be exchanged in place, and a layout belongs to the kind of tensor
    return tensor.is_meta == new.is_meta and tensor.layout == new.layout


def _exchange(tensor, new, module) -> None:
    try:
        facula.utils.swap_tensors(tensor, new)
    except Exception as error:
        raise RuntimeError(
            f"{type(module).__name__}: a parameter or gradient could not be swapped for the converted one ({error}), got "
            f"one of shape {tuple(tensor.shape)}"
        ) from error


def _swapped(param, new, module):
    # The gradient is taken off, as it does not fit the converted parameter; `_set_grad` attaches its conversion.
    grad, param.grad = param.grad, None
    try:
        _exchange(param, Parameter(new, requires_grad=param.requires_grad), module)
    except RuntimeError:
        param.grad = grad
        raise
    return param


def _converted(param, new):
    if _takes_data_of(param, new):
        param.data = new
        return param
    return Parameter(new, param.requires_grad)


def _set_grad(param, grad, new, swapped: bool, module) -> None:
    """Convert the gradient as the parameter was; ``new`` is what the conversion made of it."""
    if swapped:
        new.requires_grad_(grad.requires_grad)
        _exchange(grad, new, module)
        new = grad
    elif _takes_data_of(grad, new):
        grad.data = new
        new = grad
    else:
        new = new.requires_grad_(grad.requires_grad)
    param.grad = None
    param.grad = new


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


class Module:
    """Define a layer or a model: everything that has parameters and a forward method. It is the base class of both.

    A `Parameter`, `Buffer` or Module that is assigned to an attribute is registered under that name: `parameters`,
    `state_dict`, `to` and the other methods find it. A subclass calls ``super().__init__()`` first and defines
    ``forward``; calling the module calls forward, between the hooks.

    Args:
        args, kwargs: for classes with ``call_super_init``, passed to the next class; otherwise there are none.

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
    # Format version of a class's own entries; stored in the metadata and handed to _load_from_state_dict.
    _version: int = 1
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, facula.Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    call_super_init: bool = False
    # True on an instance (or on Module itself) once a hook has been registered; a call tests it. "compiled": by compile() only.
    _hooked: bool | str = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.call_super_init is False and (args or kwargs):
            got = f"{len(args)} positional, keywords {sorted(kwargs)}"
            raise TypeError(f"{type(self).__name__}.__init__: takes no arguments, got {got}")
        # Through the dict: __setattr__ needs the registries that are made here.
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
        if self._hooked is True or Module._hooked:
            return self._call_with_its_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, *args: Any, **kwargs: Any) -> Self:
        """Compile calls of the module, hooks included, in place: it stays what it is, and so do the names of its parameters.

        Args:
            args, kwargs: those of `torch.compile`, without the model.

        Returns: the module.

        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.compile()
        >>> layer(torch.ones(2)).shape
        torch.Size([2])
        """
        # a function of its own for each module: functions with the same code share their recordings
        compiled = facula.compile(functools.partial(type(self)._call_impl, self), *args, **kwargs)
        self.__dict__.update(_compiled_call_impl=compiled, _hooked=self.__dict__.get("_hooked") or "compiled")
        return self

    def _check_new_name(self, method: str, name, known: dict) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{method}: {type(self).__name__} must call super().__init__() first, got {name!r}"
            )
        if not isinstance(name, str):
            raise TypeError(f"{method}: {_NAMED[method]} name must be a string, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{method}: name must not contain ".", got {name!r}')
        if name == "":
            raise KeyError(f'{method}: name must not be empty, got ""')
        if name not in known and hasattr(self, name):
            raise KeyError(
                f"{method}: {type(self).__name__} already has an attribute of this name, got {name!r}"
            )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state, but not learned, like the running mean of batch normalization.

        Args:
            name: the attribute under which it is found.
            tensor: the values, or None: then the name exists and is left out of the state dict.
            persistent: if True, it is part of the state dict.

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
        """Call `add_module`, of which this is another name.

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
        # Tensor first: what is no tensor, as most values are, does not pay for the check of Parameter's metaclass.
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
        # Submodules with numbers as names are no attributes that completion could offer.
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if state.pop("_compiled_call_impl", None) is not None and state["_hooked"] is not True:
            del state["_hooked"]  # copies are not compiled
        return state

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
        from ._html import module_html

        return module_html(self)

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses, in one line or several; for subclasses to define.

        >>> nn.Linear(2, 3).extra_repr()
        'in_features=2, out_features=3, bias=True'
        """
        return ""

    def _replicate_for_data_parallel(self):
        # Without `__init__`, which would make new parameters.
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica


    # Hooks: registration.

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:  # fmt: skip
        """Have a function called before each call of forward.

        Args:
            hook: ``hook(module, args)``; a result that is not None replaces the arguments.
            prepend: if True, call it before the hooks registered earlier.
            with_kwargs: if True, call it as ``hook(module, args, kwargs)``; it returns None or (args, kwargs).

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
            prepend: if True, call it before the hooks registered earlier.
            with_kwargs: if True, call it as ``hook(module, args, kwargs, output)``.
            always_call: if True, call it also where forward fails, with None for the output.

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
            prepend: if True, call it before the hooks registered earlier.

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
            prepend: if True, call it before the hooks registered earlier.

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
        """Register a hook, the old form of `register_full_backward_hook`: it sees the gradients of the module's last operation
        only.

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

    # Hooks: running.

    def _get_backward_hooks(self) -> tuple[list, list]:
        """Return (full backward hooks, old ones) that apply to this module, global ones first."""
        full, old = [], []
        for_all = _hooks_in(_global_backward_hooks)
        (full if _global_is_full_backward_hook is True else old).extend(for_all)
        (full if self._is_full_backward_hook is True else old).extend(_hooks_in(self._backward_hooks))
        return full, old

    def _get_backward_pre_hooks(self) -> list:
        return [*_hooks_in(_global_backward_pre_hooks), *_hooks_in(self._backward_pre_hooks)]

    def _call_with_hooks(self, args: tuple, kwargs: dict):
        compiled = self._compiled_call_impl
        return self._call_with_its_hooks(args, kwargs) if compiled is None else compiled(*args, **kwargs)

    def _call_with_its_hooks(self, args: tuple, kwargs: dict):
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
            # Noted before the call, so that a hook which raises is not called again.
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
        """Return (id, hook, whether it takes kwargs, whether it is always called), global hooks first."""
        for_all_with_kwargs = _global_forward_hooks_with_kwargs
        for_all_always = _global_forward_hooks_always_called
        rows = [
            (i, hook, i in for_all_with_kwargs, i in for_all_always)
            for i, hook in hook_items(_global_forward_hooks)
        ]
        rows += [
            (i, hook, i in self._forward_hooks_with_kwargs, i in self._forward_hooks_always_called)
            for i, hook in hook_items(self._forward_hooks)
        ]
        return rows

    def _run_always_called_hooks(self, args: tuple, kwargs: dict, called: set[int]) -> None:
        """Run, after an error in forward, the always-called hooks that have not run; their own errors only
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

    # State dicts.

    def get_extra_state(self) -> Any:
        """Return what else a subclass wants in its state dict, beside tensors; to be defined together with `set_extra_state`.

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
        return getattr(type(self), name) is not getattr(Module, name)

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
        """Return all parameters and persistent buffers by their dotted names, in the order of their registration. They share
        the module's memory.

        Args:
            args: destination, prefix and keep_vars by position; a warning asks for keywords.
            destination: the dict to fill. Default: a new OrderedDict, with versions of the classes in ``_metadata``.
            prefix: put before every name.
            keep_vars: if True, return the tensors themselves, which record gradients, otherwise detached ones.

        Returns: destination.

        Errors: RuntimeError for a post-hook that returns anything but None.

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
        # A copy, because a hook may remove itself or others; the same holds below.
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
            strict: if True, report missing and unexpected keys.
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
                    # A key with another dot belongs to a submodule, which checks what follows the dot.
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
            strict: if True, raise an error for missing and unknown names.
            assign: if True, put the given tensors themselves into the module, with their dtype and device.

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
            raise TypeError(f"load_state_dict: expected a mapping of names to tensors, got {type(state_dict).__name__}")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)  # a copy, since hooks may add, rename and drop entries
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
                        # Only the child's entries: every module searches all that it gets for unexpected keys.
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
        if strict and missing_keys and unexpected_keys and (remedy := _remedy(missing_keys, unexpected_keys)):
            error_msgs.append(remedy)
        if error_msgs:
            lines = "".join(f"\n    {message}" for message in error_msgs)
            raise RuntimeError(f"load_state_dict: the entries do not fit {type(self).__name__}:{lines}")
        return _IncompatibleKeys(missing_keys, unexpected_keys)

    # Submodules, parameters and buffers: by dotted names, and one after the other.

    def get_submodule(self, target: str) -> Module:
        """Return the submodule of a dotted name.

        Args:
            target: the name; an empty one stands for the module itself.

        Errors: AttributeError where a part of the name does not exist or is no Module.

        >>> net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
        >>> net.get_submodule("0.1")
        ReLU()
        """
        module = self
        if target == "":
            return module
        for part in target.split("."):
            if not hasattr(module, part):
                raise AttributeError(
                    f"get_submodule: {type(module).__name__} has no attribute {part!r}, got {target!r}"
                )
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(
                    f"get_submodule: {part!r} is a {type(module).__name__}, no Module, got {target!r}"
                )
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of another, or at a new name.

        Args:
            target: the dotted name.
            module: what comes there.
            strict: if True, the name must exist, otherwise only its parent.

        Errors: ValueError for an empty name and for what is no Module, AttributeError where the parent, or with strict
        the name, does not exist or is no Module.

        >>> net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
        >>> net.set_submodule("0.1", nn.Tanh())
        >>> net.get_submodule("0.1")
        Tanh()
        """
        if target == "":
            raise ValueError('set_submodule: target must name a submodule, got ""')
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: module must be a Module, got {type(module).__name__}")
        parent_name, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_name)
        if strict and not hasattr(parent, name):
            raise AttributeError(
                f"set_submodule: {type(parent).__name__} has no attribute {name!r}, got {target!r}"
            )
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"set_submodule: {name!r} exists and is no Module, got {target!r}")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of a dotted name.

        Args:
            target: the name.

        Errors: AttributeError where a part of the name does not exist or the last is no `Parameter`.

        >>> nn.Sequential(nn.Linear(2, 3)).get_parameter("0.weight").shape
        torch.Size([3, 2])
        """
        return self._get_entry("get_parameter", target, lambda m, n: isinstance(getattr(m, n), Parameter))

    def get_buffer(self, target: str) -> facula.Tensor:
        """Return the buffer of a dotted name.

        Args:
            target: the name.

        Returns: the tensor itself, of the shape that it has in the module.

        Errors: AttributeError where a part of the name does not exist or the last is no buffer.

        >>> nn.Sequential(nn.BatchNorm1d(3)).get_buffer("0.running_mean")
        tensor([0., 0., 0.])
        """
        return self._get_entry("get_buffer", target, lambda m, n: n in m._buffers)

    def _get_entry(self, method: str, target: str, is_right: Callable) -> Any:
        module_name, _, name = target.rpartition(".")
        module = self.get_submodule(module_name)
        if not hasattr(module, name):
            raise AttributeError(
                f"{method}: {type(module).__name__} has no attribute {name!r}, got {target!r}"
            )
        if not is_right(module, name):
            raise AttributeError(f"{method}: {name!r} is not a {method[4:]}, got {target!r}")
        return getattr(module, name)

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate: bool = True):
        """Yield (dotted name, member) of every module; ``get_members_fn(module)`` gives a module's own (name,
        member) pairs.
        """
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (module_prefix + "." if module_prefix else "") + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield all parameters, each once: what an optimizer is given.

        Args:
            recurse: if True, include those of submodules.

        Returns: an iterator.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> sum(p.numel() for p in net.parameters())
        13
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:  # fmt: skip
        """Yield all parameters with their dotted names.

        Args:
            prefix: put before every name, with a dot.
            recurse: if True, include those of submodules.
            remove_duplicate: if True, yield a shared parameter once, under its first name.

        Returns: an iterator of (name, parameter).

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [(name, tuple(p.shape)) for name, p in net.named_parameters(prefix="net")]
        [('net.0.weight', (3, 2)), ('net.0.bias', (3,))]
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[facula.Tensor]:
        """Yield all buffers, each once.

        Args:
            recurse: if True, include those of submodules.

        Returns: an iterator.

        Each is a tensor of any shape.

        >>> len(list(nn.Sequential(nn.BatchNorm1d(3)).buffers()))
        3
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
        """Yield all buffers with their dotted names.

        Args:
            prefix: put before every name, with a dot.
            recurse: if True, include those of submodules.
            remove_duplicate: if True, yield a shared buffer once, under its first name.

        Returns: an iterator of (name, buffer).

        >>> [name for name, _ in nn.Sequential(nn.BatchNorm1d(3)).named_buffers()]
        ['0.running_mean', '0.running_var', '0.num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once.

        Returns: an iterator.

        >>> list(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).children())
        [Linear(in_features=2, out_features=3, bias=True), ReLU()]
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each once.

        Returns: an iterator of (name, module).

        >>> dict(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).named_children())
        {'0': Linear(in_features=2, out_features=3, bias=True), '1': ReLU()}
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, depth first.

        Args:
            remove_duplicate: if True, yield a shared module once.

        Returns: an iterator.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
        >>> [type(module).__name__ for module in net.modules()]
        ['Sequential', 'Linear', 'Sequential', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:  # fmt: skip
        """Yield this module and all below it with their dotted names, depth first.

        Args:
            memo: a set of modules to leave out, which is added to.
            prefix: the name of this module.
            remove_duplicate: if True, yield a shared module once, under its first name.

        Returns: an iterator of (name, module).

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
        >>> [name for name, _ in net.named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, prefix + ("." if prefix else "") + name, remove_duplicate
                )

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call a function on every module below this one, those below first, and on the module itself.

        Args:
            fn: takes a module; what it returns is not used.

        Returns: the module.

        >>> def zero_biases(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.bias)
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).apply(zero_biases)
        >>> net[0].bias.tolist()
        [0.0, 0.0, 0.0]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes, gradients, devices and dtypes.

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` of this module and all below it: dropout, batch normalization and some others do in training
        what they do not in evaluation.

        Args:
            mode: True for training, False for evaluation.

        Returns: the module.

        Errors: ValueError for what is no bool.

        >>> net = nn.Sequential(nn.Dropout(0.5))
        >>> net.train(False).training, net[0].training
        (False, False)
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {type(mode).__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set this module and all below it to evaluation, as ``train(False)`` does. It does not switch gradients off:
        `no_grad` does.

        Returns: the module.

        >>> nn.Dropout(0.5).eval()(torch.ones(3))
        tensor([1., 1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of all parameters whether gradients are recorded.

        Args:
            requires_grad: if False, record no gradients, which freezes the module.

        Returns: the module.

        >>> layer = nn.Linear(2, 3).requires_grad_(False)
        >>> layer.weight.requires_grad
        False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: if True, set them to None, which saves memory, otherwise to zeros in place.

        >>> layer = nn.Linear(2, 1)
        >>> layer(torch.ones(2)).backward()
        >>> layer.zero_grad(set_to_none=False)
        >>> layer.weight.grad
        tensor([[0., 0.]])
        """
        if getattr(self, "_is_replica", False):
            import warnings

            warnings.warn(
                "zero_grad: a replica made by DataParallel shares its parameters with the original, whose "
                "gradients stay",
                stacklevel=2,
            )
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by ``fn`` of it; Parameter objects stay the same objects, unless
        `torch.__future__` says otherwise or the result is a tensor of another kind.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with facula.no_grad():
                new = fn(param)
            grad = param.grad
            swapped = _is_swapped(new)
            kept = _swapped(param, new, self) if swapped else _converted(param, new)
            self._parameters[name] = kept
            if grad is not None:
                with facula.no_grad():
                    new_grad = fn(grad)
                _set_grad(kept, grad, new_grad, swapped, self)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert parameters and buffers, in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``,
        ``to(tensor)`` or ``to(memory_format=channels_last)``. Integers keep their dtype; a memory format is for what has
        4 or 5 dimensions.

        Args:
            args, kwargs: ``device``, ``dtype``, ``non_blocking`` (whether copies from pinned memory may go on behind the
                caller) and ``memory_format``, or a tensor that has the device and dtype.

        Returns: the module.

        Errors: TypeError for a dtype that is neither floating-point nor complex.

        >>> layer = nn.Linear(2, 3).to(torch.float64)
        >>> layer.weight.dtype
        torch.float64
        """
        device, dtype, non_blocking, memory_format = facula._C._parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be floating-point or complex, got {dtype}")

        def convert(t):
            new_dtype = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and not is_lazy(t) and t.dim() in (4, 5):
                return t.to(device, new_dtype, non_blocking, memory_format=memory_format)
            return t.to(device, new_dtype, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Give parameters and buffers new memory on a device, without values: so a module that was made on the device
        'meta' becomes a real one.

        Args:
            device: where.
            recurse: if True, change submodules, too.

        Returns: the module.

        >>> layer = nn.Linear(2, 3, device="meta").to_empty(device="cpu")
        >>> layer.weight.device, layer.weight.shape
        (device(type='cpu'), torch.Size([3, 2]))
        """
        return self._apply(lambda t: facula.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, integers among them.

        Args:
            dst_type: a dtype, or the name of a tensor type.

        Returns: the module.

        >>> nn.Linear(2, 3).type(torch.float64).weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32.

        Returns: the module.

        >>> nn.Linear(2, 3, dtype=torch.float64).float().weight.dtype
        torch.float32
        """
        return self._cast(facula.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64.

        Returns: the module.

        >>> nn.Linear(2, 3).double().weight.dtype
        torch.float64
        """
        return self._cast(facula.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16.

        Returns: the module.

        >>> nn.Linear(2, 3).half().weight.dtype
        torch.float16
        """
        return self._cast(facula.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16.

        Returns: the module.

        >>> nn.Linear(2, 3).bfloat16().weight.dtype
        torch.bfloat16
        """
        return self._cast(facula.bfloat16)

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU.

        Returns: the module.

        >>> nn.Linear(2, 3).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Device = None) -> Self:
        """Move parameters and buffers to a CUDA device. Make the optimizer afterwards.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError or AssertionError where there is no such device.

        >>> layer = nn.Linear(2, 3)
        >>> if torch.cuda.is_available():
        ...     layer = layer.cuda()
        >>> layer.weight.is_cuda == torch.cuda.is_available()
        True
        """
        return self._apply(lambda t: t.cuda(device))

    def _to_device_type(self, name: str, device) -> Self:
        index = "" if device is None else f":{getattr(device, 'index', device)}"
        return self.to(facula.device(name + index))

    def xpu(self, device: Device = None) -> Self:
        """Move parameters and buffers to an XPU.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).xpu()
        ... except RuntimeError:
        ...     print("no XPU")
        no XPU
        """
        return self._to_device_type("xpu", device)

    def ipu(self, device: Device = None) -> Self:
        """Move parameters and buffers to an IPU.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError or NotImplementedError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).ipu()
        ... except (RuntimeError, NotImplementedError):
        ...     print("no IPU")
        no IPU
        """
        return self._to_device_type("ipu", device)

    def mtia(self, device: Device = None) -> Self:
        """Move parameters and buffers to an MTIA accelerator.

        Args:
            device: its number. Default: the current device.

        Returns: the module.

        Errors: RuntimeError where there is none.

        >>> try:
        ...     nn.Linear(2, 3).mtia()
        ... except RuntimeError:
        ...     print("no MTIA")
        no MTIA
        """
        return self._to_device_type("mtia", device)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes can see, in place.

        Returns: the module.

        >>> nn.Linear(2, 3).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda t: t.share_memory_())


_C._set_module_lookup(Module.__getattr__, Module.__call__)
_C._use_module_lookup(Module)
