"""Define `__torch_function__`: classes and modes that override calls on tensors.

A class takes part if it defines the class method `__torch_function__(cls, func, types, args, kwargs)`. `func` is the
public function (`facula.add`) or method (`facula.Tensor.add`, `facula.Tensor.shape.__get__`) that was called. A mode
receives every call within its `with` block.

Long because the signatures of what can be overridden are one list.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import threading
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula._tensor.overrides_off import DisableTorchFunctionSubclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from facula import Tensor

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "resolve_name",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "wrap_torch_function",
    "redispatch_function",
    "enable_reentrant_dispatch",
    "TorchFunctionMode",
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
]

_disabled_torch_function_impl = _C._disabled_torch_function_impl
has_torch_function_variadic = _C._has_torch_function_variadic
has_torch_function_unary = _C._has_torch_function_variadic


def has_torch_function(relevant_args: Sequence[Tensor | int]) -> bool:
    """Return whether a call with these arguments goes to an override or to a mode.

    Args:
        relevant_args: a sequence of the arguments that may define __torch_function__.

    >>> torch.overrides.has_torch_function((torch.ones(2), 1))
    False
    >>> class Logged(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return super().__torch_function__(func, types, args, kwargs)
    >>> torch.overrides.has_torch_function((torch.ones(2).as_subclass(Logged),))
    True
    """
    return _C._has_torch_function_variadic(*relevant_args)


# Dispatch


def _has_override(value):
    method = getattr(type(value), "__torch_function__", None)
    return method is not None and method is not _disabled_torch_function_impl and type(value) is not _C.Tensor


def _overloaded(values, takes_part=_has_override):
    """Return the arguments of distinct classes that take part, subclasses before their bases, else in the order of the call."""
    found = []
    for value in values:
        kind = type(value)
        if not takes_part(value) or any(kind is type(other) for other in found):
            continue
        at = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


def _candidates(args, kwargs):
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


@functools.cache
def _resolve(name, method):
    """Return the public object of a call that the core names."""
    if method:  # properties come as "T.__get__"
        return functools.reduce(getattr, _METHODS.get(name, name).split("."), _C.Tensor)
    # ops of the submodules are named after them: functional_relu, linalg_inv; or only live there: linear
    for prefix, module in _OP_PREFIXES.items():
        if name.startswith(prefix):
            found = getattr(_module(module), name[len(prefix) :], None)
            if found is not None:
                return found
    for module in _OVERRIDABLE_MODULES:
        found = getattr(_module(module), name, None)
        if found is not None:
            return found
    for home in (_C.nn_functional, _C, _C._ops):  # parts of layers and of functions, which no one calls by name
        if hasattr(home, _PARTS.get(name, name)):
            return getattr(home, _PARTS.get(name, name))
    raise AttributeError(f"overrides: no public function belongs to this op, got {name!r}")


#: methods whose op is called otherwise
_METHODS = {"linalg_householder_product": "orgqr"}
#: parts of functions whose op is called otherwise
_PARTS = {"_unique": "_unique_sorted", "_unique_consecutive": "_unique_runs"}
_OP_PREFIXES = {"functional_": "nn.functional", "linalg_": "linalg", "fft_": "fft", "special_": "special"}


def _module(path):
    return importlib.import_module(f"facula.{path}" if path else "facula")


_REDUCTIONS = ("none", "mean", "sum")


@functools.cache
def _core_of(name):
    """Return the op of the core behind a function of nn.functional that is written in Python, and the signature of each."""
    name = name.removeprefix("functional_")
    core, public = getattr(_C.nn_functional, name, None), getattr(_module("nn.functional"), name, None)
    if not isinstance(core, BuiltinFunctionType) or not isinstance(public, FunctionType):
        return None
    return core, inspect.signature(core), inspect.signature(public)


def _as_public(name, func, args, kwargs):
    """Return (function, args, kwargs): the call of an op as one of the function that users know, which may take other arguments
    than the op does (`reduction` is a word), and gives what the op gives; else as one of the op."""
    found = _core_of(name)
    if found is None:
        return func, args, kwargs
    core, own, public = found
    given = own.bind(*args, **kwargs).arguments
    parameters = public.parameters.values()
    if any(n not in public.parameters for n in given) or any(p.default is p.empty and p.name not in given for p in parameters):
        return core, args, kwargs
    if isinstance(given.get("reduction"), int):
        given["reduction"] = _REDUCTIONS[given["reduction"]]
    if "return_indices" in public.parameters and "return_indices" not in own.parameters:
        given["return_indices"] = True
    positional = [given.pop(p.name) for p in parameters if p.default is p.empty]
    return func, tuple(positional), given


def _dispatch(name, method, args, kwargs):
    """Answer a call that some argument or mode may take over: the core calls this."""
    func = _resolve(name, method)
    candidates = list(_candidates(args, kwargs))
    if isinstance(func, FunctionType):
        func, args, kwargs = _as_public(name, func, args, kwargs)
    return _call_overrides(func, candidates, args, kwargs)


def _call_overrides(func, candidates, args, kwargs):
    overloaded = [] if _C._overrides_disabled() else _overloaded(candidates)
    types = tuple(map(type, overloaded))
    if _stack():
        with _without_top_mode() as mode:
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    with _first_run(_call_overrides, func, args) as first:
        for value in overloaded if first else ():
            result = value.__torch_function__(func, types, args, kwargs)
            if result is not NotImplemented:
                return result
    if not overloaded and not _stack():
        return func(*args, **kwargs)
    name = getattr(func, "__qualname__", getattr(func, "__name__", repr(func)))
    raise TypeError(
        f"{name}: no implementation found: every __torch_function__ answered NotImplemented, "
        f"got {[kind.__name__ for kind in types]}"
    )


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Sequence[Any], *args: Any,
                          **kwargs: Any) -> Tensor | None:  # fmt: skip
    """Call the override of a function written in Python: that of a mode, else those of the arguments, subclasses first.

    Args:
        public_api: the function as its users know it.
        relevant_args: the arguments that may define __torch_function__.
        args, kwargs: all arguments of the call.

    Errors: TypeError where every override answers NotImplemented.

    >>> class Meters:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of {len(args)}"
    >>> torch.overrides.handle_torch_function(torch.add, (Meters(),), Meters(), 1)
    'add of 2'
    """
    return _call_overrides(public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher: Any) -> Any:
    """Return a decorator that makes a function of Python overridable.

    Args:
        dispatcher: takes the function's arguments and gives those that may define __torch_function__.

    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def twice(x):
    ...     return 2 * x
    >>> class Meters:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of meters"
    >>> twice(3), twice(Meters())
    (6, 'twice of meters')
    """

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# The default of Tensor: results become the subclass


def _convert(result, cls):
    if cls is _C.Tensor:
        return result
    if isinstance(result, _C.Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and not isinstance(result, facula.Size):
        return type(result)([_convert(part, cls) for part in result])
    return result


_PLAIN_PROPERTIES = ("_base", "grad", "_grad")


@functools.cache
def get_default_nowrap_functions():
    """Return the functions whose results keep their class."""
    return frozenset(getattr(_C.Tensor, name).__get__ for name in _PLAIN_PROPERTIES)


def default_torch_function(cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run the function and give its results the subclass: `Tensor.__torch_function__`."""
    with _first_run(cls, func, args) as first:
        if not first or not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        _C._change_override_disabled(1)
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            _C._change_override_disabled(-1)
    return result if func in get_default_nowrap_functions() else _convert(result, cls)


# Modes


class _Modes(threading.local):
    def __init__(self):
        self.stack = []
        self.running = set()


_modes = _Modes()


@contextlib.contextmanager
def _first_run(asked, func, args):
    """Tell whether this very call is not being answered already: another library's handler may just repeat it."""
    call = (asked, func, *map(id, args))
    first = call not in _modes.running
    _modes.running.add(call)
    try:
        yield first
    finally:
        if first:
            _modes.running.discard(call)


def _stack():
    return _modes.stack


def _push(mode):
    _modes.stack.append(mode)
    _C._set_function_mode_active(True)


def _pop():
    mode = _modes.stack.pop()
    _C._set_function_mode_active(bool(_modes.stack))
    return mode


@contextlib.contextmanager
def _without_top_mode():
    mode = _pop()
    try:
        yield mode
    finally:
        _push(mode)


class TorchFunctionMode:
    """Pass every call on tensors within a block to `__torch_function__(self, func, types, args, kwargs)` of a subclass.

    Within the method the mode itself is off, so that it can call `func`. Derived classes define the method; modes nest, the
    innermost sees a call first.

    Errors: NotImplementedError from a mode that does not define it.

    >>> class Count(torch.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Count.push() as count:
    ...     y = torch.add(x, x) * 2
    >>> count.calls
    2
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a mode defines __torch_function__, got {func}")

    def __enter__(self) -> Self:
        _push(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _pop()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new mode, to be entered by `with`.

        Args:
            args, kwargs: what the class is called with.
        """
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """Call every function unchanged, as a base of other modes.

    >>> with torch.overrides.BaseTorchFunctionMode():
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    return _modes.stack[-1] if _modes.stack else None


def _get_current_function_mode_stack():
    return list(_modes.stack)


def _len_torch_function_stack():
    return len(_modes.stack)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Stop classes and modes from overriding calls in a block; results are plain tensors.

    >>> class Named(torch.Tensor):
    ...     pass
    >>> x = torch.ones(2).as_subclass(Named)
    >>> with torch.overrides.DisableTorchFunction():
    ...     type(x + 1) is torch.Tensor
    True
    """

    suspended: Any

    def __enter__(self) -> Self:
        self.suspended, _modes.stack = _modes.stack, []
        _C._set_function_mode_active(False)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        _modes.stack = self.suspended
        _C._set_function_mode_active(bool(self.suspended))


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Call a function as it is, past one level of overrides: from a __torch_function__ that wants to see the calls within.

    Args:
        func, types, args, kwargs: what the __torch_function__ was given; ``kwargs`` may be None.

    A function of the program that asks `has_torch_function` gets the answer False once, and what it calls goes to overrides
    again. Functions of the library run to their end, and their results are plain tensors.

    Errors: what ``func`` raises.

    >>> class Logged(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> def scaled(a, b):
    ...     if torch.overrides.has_torch_function((a, b)):
    ...         return torch.overrides.handle_torch_function(scaled, (a, b), a, b)
    ...     return torch.mul(a, b) + 1
    >>> scaled(torch.ones(1).as_subclass(Logged), 2)
    scaled
    mul
    tensor([3.])
    """
    home = getattr(func, "__module__", None) or ""
    if home.partition(".")[0] in ("facula", "torch") or not isinstance(func, FunctionType):
        with DisableTorchFunction():
            return func(*args, **(kwargs or {}))
    before = _C._answer_no_override_once(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._answer_no_override_once(before)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Return a context that changes nothing: in PyTorch it lets __torch_dispatch__ call itself, which stays off here.

    >>> with torch.overrides.enable_reentrant_dispatch():
    ...     torch.ones(1)
    tensor([1.])
    """
    yield


# Questions


def is_tensor_like(inp: Tensor | float) -> bool:
    """Return whether something is a tensor or takes over functions of tensors by __torch_function__.

    Args:
        inp: anything.

    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like(1)
    (True, False)
    """
    return type(inp) is _C.Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function handed to __torch_function__ is a method or property of Tensor.

    Args:
        func: the function.

    >>> question = torch.overrides.is_tensor_method_or_property
    >>> question(torch.Tensor.add), question(torch.Tensor.shape.__get__), question(torch.add)
    (True, True, False)
    """
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return True
    return getattr(_C.Tensor, name, None) is func


_OVERRIDABLE_MODULES = ("", "nn.functional", "nn.init", "linalg", "fft", "special")
_IGNORED = """
    typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state
    get_rng_state manual_seed initial_seed seed save load set_printoptions get_printoptions fork set_num_threads
    get_num_threads set_num_interop_threads get_num_interop_threads set_default_dtype get_default_dtype
    set_grad_enabled is_grad_enabled no_grad enable_grad inference_mode is_inference_mode_enabled
    set_flush_denormal use_deterministic_algorithms are_deterministic_algorithms_enabled
    is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode get_deterministic_debug_mode
    set_float32_matmul_precision get_float32_matmul_precision tensor as_tensor from_numpy frombuffer asarray
    arange empty empty_strided eye full linspace logspace ones rand randint randn randperm range zeros
    tril_indices triu_indices can_cast promote_types result_type finfo iinfo compile vmap is_warn_always_enabled
    set_warn_always from_dlpack to_dlpack broadcast_shapes
    """.split()


@functools.cache
def get_ignored_functions():
    """Return the set of public functions that are not overridable: they take no tensor.

    >>> torch.manual_seed in torch.overrides.get_ignored_functions()
    True
    """
    found = (getattr(facula, name, None) for name in _IGNORED)
    return {function for function in found if function is not None}


@functools.cache
def get_overridable_functions():
    """Return the public functions and Tensor methods that can be overridden, in lists by the module or class that they belong
    to.

    >>> torch.add in torch.overrides.get_overridable_functions()[torch]
    True
    """
    ignored = get_ignored_functions()
    result = {}
    for path in _OVERRIDABLE_MODULES:
        module = facula
        for part in path.split("."):
            module = getattr(module, part, None) if part else module
        if module is None:
            continue
        names = [name for name in list(vars(module)) if not name.startswith("_")]
        functions = [getattr(module, name) for name in names]
        functions = [f for f in functions if callable(f) and getattr(f, "__hash__", None) and not isinstance(f, type)]
        result[module] = [f for f in functions if f not in ignored]
    result[_C.Tensor] = list(_tensor_functions())
    return result


def _tensor_functions():
    for name, value in vars(_C.Tensor).items():
        if name in ("__new__", "__init__", "__dict__", "__weakref__", "__hash__", "__doc__", "__torch_function__"):
            continue
        if callable(value):
            yield getattr(_C.Tensor, name)
        elif hasattr(value, "__get__") and not isinstance(value, (staticmethod, classmethod)):
            yield value.__get__


@functools.cache
def _names():
    table = {}
    for place, functions in get_overridable_functions().items():
        prefix = "torch.Tensor" if place is _C.Tensor else place.__name__.replace("facula", "torch", 1)
        for function in functions:
            name = getattr(function, "__name__", None)
            if name == "__get__":
                owner = function.__self__  # a descriptor of the core, or a property written in Python
                name = f"{getattr(owner, 'fget', owner).__name__}.__get__"
            table.setdefault(function, f"{prefix}.{name}")
    return table


def resolve_name(f: Callable[..., Any]) -> str:
    """Return the dotted public name of a function that can be overridden, None for another one.

    Args:
        f: the function or method, as __torch_function__ is handed it.

    >>> torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(len)
    ('torch.Tensor.add', None)
    """
    return _names().get(f)


def get_testing_overrides() -> Any:
    """Return {overridable function: a function of any arguments that returns -1}, for tests that try them all.

    >>> torch.overrides.get_testing_overrides()[torch.add](1, 2)
    -1
    """
    return {f: (lambda *args, **kwargs: -1) for group in get_overridable_functions().values() for f in group}
