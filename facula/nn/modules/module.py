"""Module: the base class of everything that has parameters, buffers, submodules and a forward method.

Calls, registration, conversion and traversal are here; hooks are in `_hooks`, state dicts in `_state`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import facula
from facula import _C

from .. import parameter as _parameter
from ..parameter import Buffer, Parameter, is_lazy
from ._hooks import (
    _global_buffer_registration_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _HookMethods,
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

if TYPE_CHECKING:
    from typing_extensions import Self

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


def _addindent(text: str, spaces: int) -> str:
    """Indent every line but the first."""
    return text.replace("\n", "\n" + " " * spaces)


def _forward_unimplemented(self, *input: Any) -> None:
    """Compute the result; every subclass defines its own."""
    raise NotImplementedError(
        f"{type(self).__name__}: the class must define forward(), got a call without it"
    )


def _parse_to(*args, device=None, dtype=None, non_blocking=False, memory_format=None):
    """Arguments of ``to``: (device), (dtype), (device, dtype) or (tensor), then non_blocking; keywords as
    well.
    """
    rest = list(args)
    if rest and isinstance(rest[0], facula.Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    elif rest and isinstance(rest[0], facula.dtype):
        dtype = rest.pop(0)
    elif rest:
        first = rest.pop(0)
        device = None if first is None else facula.device(first)
        if rest and (rest[0] is None or isinstance(rest[0], facula.dtype)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        rest.pop(0)  # `copy` means nothing for a module
    if rest:
        raise TypeError(f"Module.to: takes (device), (dtype), (device, dtype) or (tensor), got {args!r}")
    device = facula.device(device) if device is not None else None
    return device, dtype, non_blocking, memory_format


class Module(_HookMethods, _StateMethods):
    """Base class of neural network modules.

    A Parameter, Buffer or Module assigned to an attribute is registered under that name and is then found by
    `parameters`, `state_dict`, `to` and the other methods. Subclasses call ``super().__init__()`` first and
    define ``forward``; calling the module runs the hooks and ``forward``.
    """

    dump_patches: bool = False
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, facula.Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    call_super_init: bool = False
    # True on an instance (or on Module itself) once a hook has been registered; see _hooks.py.
    _hooked: bool = False
    _compiled_call_impl: Callable | None = None

    def __init__(self, *args, **kwargs) -> None:
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

    def __call__(self, *args, **kwargs):
        # The core calls modules as this does, unless a class has a __call__ of its own.
        if self._hooked:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        return Module.__call__(self, *args, **kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, *args, **kwargs):
        """Return the module itself, which runs eagerly; the arguments are checked as in `facula.compile`."""
        facula.compile(self, *args, **kwargs)
        return self

    # -- registration
    # --------------------------------------------------------------------------------------------

    def _check_new_name(self, method: str, name, known: dict) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{method}: {type(self).__name__} must call super().__init__() first, got {name!r}"
            )
        if not isinstance(name, str):
            raise TypeError(f"{method}: name must be a string, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{method}: name must not contain ".", got {name!r}')
        if name == "":
            raise KeyError(f'{method}: name must not be empty, got ""')
        if name not in known and hasattr(self, name):
            raise KeyError(
                f"{method}: {type(self).__name__} already has an attribute of this name, got {name!r}"
            )

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter, as the running mean of batch norm.

        Args:
            name: the attribute under which it is found.
            tensor: the values, or None: then the name exists and is left out of the state dict.
            persistent: whether it is part of the state dict.
        """
        self._check_new_name("register_buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, facula.Tensor):
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

    def register_parameter(self, name: str, param) -> None:
        """Add a Parameter (or None: the name exists and is left out of the state dict)."""
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

    def add_module(self, name: str, module) -> None:
        """Add a submodule (or None) under ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} must be a Module or None, got {type(module).__name__}")
        self._check_new_name("add_module", name, self.__dict__.get("_modules", {}))
        self._set_module(name, module)

    def register_module(self, name: str, module) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _set_module(self, name: str, module) -> None:
        for hook in _global_module_registration_hooks.values():
            replacement = hook(self, name, module)
            module = module if replacement is None else replacement
        self._modules[name] = module

    # -- attributes
    # ----------------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs) -> None:
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
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name)

    def __setattr__(self, name: str, value) -> None:
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
        if value is not None and not isinstance(value, facula.Tensor):
            raise TypeError(
                f"{type(self).__name__}: {name!r} is a buffer and takes a Tensor or None, got "
                f"{type(value).__name__}"
            )
        if self._is_new_buffer(value):
            self._forget(name, "_modules")
            self.register_buffer(name, value, getattr(value, "persistent", True))
        else:
            self._set_buffer(name, value, name not in self._non_persistent_buffers_set)

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

    def __dir__(self):
        names = set(dir(type(self))) | set(self.__dict__)
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict) -> None:
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

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses; one line or several."""
        return ""

    # -- lookup by dotted name
    # -----------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule with the dotted name ``target``; the module itself for an empty name.

        Raises:
            AttributeError: a part of the name does not exist or is not a Module.
        """
        module: Module = self
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
        """Put ``module`` at the dotted name ``target``.

        Args:
            strict: the name must exist already. Otherwise only its parent must.
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
        """The parameter with the dotted name ``target``."""
        return self._get_entry("get_parameter", target, lambda m, n: isinstance(getattr(m, n), Parameter))

    def get_buffer(self, target: str) -> facula.Tensor:
        """The buffer with the dotted name ``target``."""
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

    # -- traversal
    # -----------------------------------------------------------------------------------------------

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate: bool = True):
        """(dotted name, member) of every module; ``get_members_fn(module)`` gives a module's own (name,
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
        """All parameters, each once; with ``recurse=False`` only this module's own."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """(dotted name, parameter) pairs.

        Args:
            prefix: put before every name, with a dot.
            recurse: include those of submodules.
            remove_duplicate: give a shared parameter once, under its first name.
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[facula.Tensor]:
        """All buffers, each once; with ``recurse=False`` only this module's own."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """(dotted name, buffer) pairs; arguments as in `named_parameters`."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, direct submodule) pairs, each submodule once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, depth first, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True):
        """(dotted name, module) pairs of this module and all below it, depth first."""
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
        """Call ``fn`` on every submodule, children first, and on the module itself; return the module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- modes and gradients
    # -------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` here and below; dropout, batch norm and others look at it."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {type(mode).__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: to None, or to zeros in place."""
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

    # -- conversion
    # ----------------------------------------------------------------------------------------------

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by ``fn`` of it; Parameter objects stay the same
        objects.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with facula.no_grad():
                new = fn(param)
            # A meta tensor has no memory that could be exchanged in place.
            in_place = param.is_meta == new.is_meta
            grad = param.grad
            if in_place:
                param.data = new
                kept = param
            else:
                kept = Parameter(new, param.requires_grad)
                self._parameters[name] = kept
            if grad is not None:
                with facula.no_grad():
                    new_grad = fn(grad)
                kept.grad = None
                kept.grad = new_grad.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs) -> Self:
        """Move and convert parameters and buffers in place: ``to(device)``, ``to(dtype)``, ``to(device,
        dtype)``, ``to(tensor)``, ``to(memory_format=channels_last)``.

        Only floating-point and complex entries change their dtype; a memory format applies to those of 4 or 5
        dimensions.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be floating-point or complex, got {dtype}")

        def convert(t):
            new_dtype = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and not is_lazy(t) and t.dim() in (4, 5):
                return t.to(device, new_dtype, non_blocking, memory_format=memory_format)
            return t.to(device, new_dtype, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device, recurse: bool = True) -> Self:
        """Give parameters and buffers new, uninitialised memory on ``device``; leaves a meta device this
        way.
        """
        return self._apply(lambda t: facula.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type) -> Self:
        """Convert all parameters and buffers to ``dst_type``, integer ones included."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._cast(facula.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._cast(facula.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._cast(facula.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._cast(facula.bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None) -> Self:
        """Move to a CUDA device (default: the current one)."""
        return self._apply(lambda t: t.cuda(device))

    def _to_device_type(self, name: str, device) -> Self:
        index = "" if device is None else f":{getattr(device, 'index', device)}"
        return self.to(facula.device(name + index))

    def xpu(self, device=None) -> Self:
        """Move to an XPU device."""
        return self._to_device_type("xpu", device)

    def ipu(self, device=None) -> Self:
        """Move to an IPU device."""
        return self._to_device_type("ipu", device)

    def mtia(self, device=None) -> Self:
        """Move to an MTIA device."""
        return self._to_device_type("mtia", device)

    def share_memory(self) -> Self:
        """Move parameters and buffers to shared memory, for other processes."""
        return self._apply(lambda t: t.share_memory_())

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
