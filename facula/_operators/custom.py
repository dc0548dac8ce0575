"""Implement operators that programs define: the choice of the kernel that a call runs.

A kernel may be registered before, after or without its schema. A call runs, in this order:

- inside an autocast region, a kernel under its key, "AutocastCPU" or the like, which leaves the region for the next by
  `torch._C._ExcludeDispatchKeyGuard`; or the rest outside of the region with cast inputs, where `register_autocast` said so;
- a kernel under "Autograd" or "AutogradCPU", except inside `torch._C._AutoDispatchBelowAutograd`, which it enters for the next;
- the kernel for the CPU or for all devices. Its own ops are not recorded, whatever they are, except those of a kernel under
  "CompositeImplicitAutograd": its derivative is what `register_autograd` gives, and without one backward raises RuntimeError.

The rule of `register_vmap` runs when an argument carries a batch; without one the kernel sees the batch as vmap shows it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._operators import native
from facula._shared import autocast
from facula.utils import _python_dispatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
_RECORDED = "CompositeImplicitAutograd"
_AUTOGRAD_KEYS = ("AutogradCPU", "Autograd")
_AUTOCAST_KEYS = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastXPU": "xpu", "AutocastMPS": "mps"}
_CPU_KEYS = ("CPU", "cpu", _RECORDED, "CompositeExplicitAutograd", "default", None)
_OTHER_KEYS = ("Meta", "meta", "CUDA", "cuda", "XPU", "xpu", "MPS", "mps", "HIP", "hip", "PrivateUse1")
_KEYS = {*_AUTOGRAD_KEYS, *_AUTOCAST_KEYS, *_CPU_KEYS, *_OTHER_KEYS}


class _Level(threading.local):
    below_autograd = 0


_level = _Level()


class AutoDispatchBelowAutograd:
    """Run the kernels below those registered under "Autograd" when an operator is called in a block."""

    def __enter__(self) -> Self:
        _level.below_autograd += 1
        return self

    def __exit__(self, *exception: object) -> None:
        _level.below_autograd -= 1


class ExcludeDispatchKeyGuard:
    """Leave out in a block what the given dispatch keys stand for: `torch._C._ExcludeDispatchKeyGuard`.

    Args:
        keys: a `DispatchKeySet` of keys of autocast, whose regions are left, and of autograd, below which operators run.
    """

    def __init__(self, keys: Any) -> None:
        names = {key.name for key in keys}
        if unknown := names - {*_AUTOCAST_KEYS, *_AUTOGRAD_KEYS}:
            raise NotImplementedError(f"_ExcludeDispatchKeyGuard: keys of autocast and autograd can be left out, got {unknown}")
        self._parts = contextlib.ExitStack()
        self._devices = tuple(_AUTOCAST_KEYS[name] for name in names if name in _AUTOCAST_KEYS)
        self._below = bool(names & {*_AUTOGRAD_KEYS})

    def __enter__(self) -> Self:
        self._parts.enter_context(autocast.paused(tuple(d for d in self._devices if d in ("cpu", "cuda"))))
        if self._below:
            self._parts.enter_context(AutoDispatchBelowAutograd())
        return self

    def __exit__(self, *exception: object) -> None:
        self._parts.__exit__(*exception)


#: the rules of `distributed.tensor.experimental.register_sharding`, by qualified names
_over_processes: dict[Any, Any] = {}
_run_over_processes: Any = None  # calls an op by them; distributed/tensor/_registered.py puts it here


class CustomOpDef:
    """Call the kernel of an operator that `custom_op` made, and register more kernels for it.

    Args:
        name: "namespace::name".
        fn: the kernel.
    """

    def __init__(self, name: str, fn: Callable[..., Any] | None = None, schema: Any = None) -> None:
        self._qualname, self._schema = name, schema
        self._namespace, _, self._name = name.partition("::")
        self._kernels = {}
        self._casts = {}
        self._native_keys = set()
        self._overloads = {}  # those declared in C++: overload -> "namespace::name.overload"
        self._fake = self._backward = self._setup_context = self._vmap = None
        if fn is not None:
            self._kernels[None] = fn
            functools.update_wrapper(self, fn)

    def _key(self):
        for key in _CPU_KEYS:
            if key in self._kernels:
                return key
        raise NotImplementedError(f"{self._qualname}: no kernel for the CPU is registered, got {list(self._kernels)}")

    def _kernel(self, args, kwargs):
        """Return what runs: of tensors without values the shape function, where there is one, else the kernel."""
        shapes = self._fake or self._kernels.get("Meta") or self._kernels.get("meta")
        if shapes is None and "Meta" not in self._native_keys and native.gives_nothing(self._overloads):
            shapes = _nothing
        if _stood_in(args, kwargs):
            return self._as_operator
        for x in _tensors(args, kwargs) if shapes else ():
            if hasattr(x, "fake_mode"):
                return functools.partial(_within, x.fake_mode, shapes)
            if x.is_meta:
                return shapes
        return self._kernels[self._key()]

    def _as_operator(self, *args, **kwargs):
        """Make the call that a mode or a class standing in for kernels sees: one operator, whatever it is made of."""
        namespace, _, name = self._qualname.partition("::")
        return _python_dispatch._dispatch(getattr(getattr(facula.ops, namespace), name).default, args, kwargs)

    def _set_native(self, key, below):
        """Put the kernels of C++ in the place of none; `below` autograd where there is one for it."""
        if isinstance(self._kernels.get(key), (native.Kernels, type(None))):
            self._kernels[key] = native.Kernels(self._overloads, below)

    def call_overload(self, overload: str, args: Any, kwargs: Any) -> Tensor:
        """Call `torch.ops.namespace.name.overload`."""
        if overload not in self._overloads:
            return self(*args, **kwargs)
        with native.asked_for(overload):
            return self(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor | Any:
        if self._overloads and _C._recording():
            name, values = native.Kernels(self._overloads, False).bind(args, kwargs)
            return _C._record_op(_C._boxed_op(name)["key"], values, lambda: self._run(args, kwargs), ())
        return self._run(args, kwargs)

    def _run(self, args, kwargs):
        if _over_processes and self._qualname in _over_processes:
            result = _run_over_processes(self._qualname, self, args, kwargs)
            if result is not NotImplemented:
                return result
        for key, device in _AUTOCAST_KEYS.items() if self._kernels and _C._autocasts() else ():
            if key in self._kernels and facula.is_autocast_enabled(device):
                return self._kernels[key](*args, **kwargs)
        for device in self._casts if self._casts and _C._autocasts() else ():
            if device in ("cpu", "cuda") and _C._is_autocast_enabled(device):
                return autocast.in_dtype(self._casts[device], (device,))(self)(*args, **kwargs)
        if not _level.below_autograd:
            for key in _AUTOGRAD_KEYS:
                if key in self._kernels:
                    return self._kernels[key](*args, **kwargs)
        key = self._key()
        if self._vmap is None and (key == _RECORDED and self._backward is None or not _records(args, kwargs)):
            return self._kernel(args, kwargs)(*args, **kwargs)
        is_native = isinstance(self._kernels[key], native.Kernels)
        if self._backward is None and self._vmap is None:
            return self._kernel(args, kwargs)(*args, **kwargs) if is_native else self._function.apply(*args, kwargs)
        # the derivative and the rule see every argument, given or not, by position
        if is_native:
            positional, keyword_only = self._kernels[key].split(args, kwargs)
            return self._function.apply(*positional, keyword_only)
        bound = inspect.signature(self._kernels[key]).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._function.apply(*bound.args, bound.kwargs)

    @functools.cached_property
    def _function(self):
        """The kernel with its derivative and its rule for vmap, as an autograd.Function of (*arguments, keywords)."""
        op = self

        def forward(*inputs):
            *args, keyword_only = inputs
            with AutoDispatchBelowAutograd():
                return op._kernel(args, keyword_only)(*args, **keyword_only)

        def setup_context(ctx, inputs, output):
            *args, keyword_only = inputs
            if op._setup_context is not None:
                extra = {"keyword_only_inputs": keyword_only} if keyword_only else {}
                op._setup_context(ctx, inputs=tuple(args), output=output, **extra)

        def backward(ctx, *gradients):
            if op._backward is None:
                raise RuntimeError(
                    f"{op._qualname}: backward needs a derivative and none is registered (library.register_autograd), "
                    f"got {len(gradients)} gradients"
                )
            results = op._backward(ctx, *gradients)
            return (*(results if isinstance(results, (list, tuple)) else (results,)), None)

        def vmap(info, in_dims, *inputs):
            *args, keyword_only = inputs
            return op._vmap(info, in_dims[:-1], *args, **keyword_only)

        body = {"forward": forward, "setup_context": setup_context, "backward": backward}
        if self._vmap is not None:
            body["vmap"] = vmap
        return type(self._name, (facula.autograd.Function,), {name: staticmethod(f) for name, f in body.items()})

    def register_kernel(self, device_types: str, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """Register (or as a decorator) the kernel for these device types."""
        kinds = (
            (device_types,) if device_types is None or isinstance(device_types, str) else tuple(device_types)
        )

        if self._qualname.partition("::")[0] in ("aten", "prims"):
            raise NotImplementedError(
                "library: kernels of PyTorch's own operators are not replaced (use a TorchDispatchMode, or an operator in a "
                f"namespace of your own), got {self._qualname}"
            )
        unknown = [kind for kind in kinds if kind not in _KEYS]
        if unknown:
            raise NotImplementedError(f"{self._qualname}: kernels are kept for {sorted(map(str, _KEYS))}, got {unknown}")

        def register(kernel):
            self._kernels.update(dict.fromkeys(kinds, kernel))
            return kernel

        return register if func is None else register(func)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register what runs for tensors without values: fake ones, and those on the meta device."""
        self._fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Register the backward: (ctx, *gradients) -> gradients of the inputs that can be given by position.

        `setup_context(ctx, inputs, output)` also gets `keyword_only_inputs` where the kernel has such parameters.
        """
        self._backward, self._setup_context = backward, setup_context
        self.__dict__.pop("_function", None)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """Register (or as a decorator) the rule (info, in_dims, *arguments) -> (output, out_dims) for batches."""

        def register(rule):
            self._vmap = rule
            self.__dict__.pop("_function", None)
            return rule

        return register if func is None else register(func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Hand `fn` back. It is never called: tensors of classes with `__torch_dispatch__` cannot be made."""
        return fn if fn is not None else lambda fn: fn

    def register_autocast(self, device_type: str, cast_inputs: facula.dtype) -> None:
        """Register that inside an autocast region of `device_type`, floating-point arguments come in the dtype
        `cast_inputs`."""
        if not isinstance(device_type, str):
            raise ValueError(f"library.register_autocast: device_type is a str, got {type(device_type).__name__}")
        self._casts[device_type] = cast_inputs

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _tensors(args, kwargs):
    """Return the arguments that are tensors, and those in lists of tensors."""
    values = [*args, *kwargs.values()]
    values += [item for value in values if isinstance(value, (list, tuple)) for item in value]
    return [value for value in values if isinstance(value, _C.Tensor)]


_LOOK_INSIDE = (
    "facula._tensor.fake", "facula._tensor.quantized", "facula.fx", "facula.nested", "facula.distributed", "facula.masked",
)  # fmt: skip


def _stood_in(args, kwargs):
    """Return whether a mode or a class stands in for kernels; fake tensors and graphs look at what an operator is made of."""
    kinds = [type(mode) for mode in _python_dispatch._modes.stack[-1:]]
    if not kinds:
        kinds = [kind for kind in {type(x) for x in _tensors(args, kwargs)} if _python_dispatch.has_dispatch(kind)]
    return any(not kind.__module__.startswith(_LOOK_INSIDE) for kind in kinds)


def _records(args, kwargs):
    """Return whether an argument, or one in a list of tensors, requires a gradient that is being recorded."""
    return _C.is_grad_enabled() and any(x.requires_grad for x in _tensors(args, kwargs))


def _within(mode, function, *args, **kwargs):
    with mode:
        return function(*args, **kwargs)


def _nothing(*args, **kwargs):
    """Return what an operator without results gives for tensors without values."""
