"""Replace functions and methods that become nodes while a program is traced, and restore them at the end."""

from __future__ import annotations

import builtins
import functools
import inspect
import threading
import types

import facula
from facula._operators.namespaces import OpOverload, OpOverloadPacket
from facula.fx import _public
from facula.fx.node import map_aggregate
from facula.fx.proxy import Proxy

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_orig_module_call = facula.nn.Module.__call__
_orig_module_getattr = facula.nn.Module.__getattr__


def _proxies_in(arguments):
    found = []

    def note(value):
        if isinstance(value, Proxy):
            found.append(value)
        return value

    map_aggregate(arguments, note)
    return found


class _Patcher:
    """Replace attributes and items, and restore them at the end."""

    def __init__(self):
        self._undo, self.visited = [], set()

    def patch_method(self, cls, name, new):
        """Replace an attribute."""
        # `self` marks a missing attribute. vars() instead of getattr: an inherited attribute must not be restored as
        # the class's own.
        before = vars(cls).get(name, self)
        setattr(cls, name, new)
        self._undo.append((delattr, cls, name, None) if before is self else (setattr, cls, name, before))

    def patch(self, frame_dict, name, new):
        """Replace an item."""
        before = frame_dict.get(name, self)
        frame_dict[name] = new
        if before is self:
            self._undo.append((lambda d, key, _: d.pop(key, None), frame_dict, name, None))
        else:
            self._undo.append((dict.__setitem__, frame_dict, name, before))

    def visit_once(self, thing):
        """Return whether this is asked for the first time."""
        if id(thing) in self.visited:
            return False
        self.visited.add(id(thing))
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        # In reverse order, because an attribute may have been replaced twice.
        for how, where, name, value in reversed(self._undo):
            how(where, name) if how is delattr else how(where, name, value)
        self._undo.clear()
        self.visited.clear()


def _new_patcher():
    return _Patcher()


_wrapped_fns_to_patch = {}
_wrapped_methods_to_patch = []


def _find_proxy(*objects):
    """Return the first proxy in arguments, or None."""
    found = _proxies_in(objects)
    return found[0] if found else None


def _create_wrapped_func(orig_fn):
    """Return a function that becomes a node when it is given a proxy."""

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _create_library_func(orig_fn):
    """Return the same for a function of Facula, which is written down in PyTorch's way."""

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        target, args, kwargs = _public.written_call(orig_fn, args, kwargs)
        return proxy.tracer.create_proxy("call_function", target, args, kwargs)

    return wrapped


def _create_method_func(name):
    """Return a function that calls a method of its argument."""

    def called(input, *args, **kwargs):
        return getattr(input, name)(*args, **kwargs)

    return called


def _create_op_call(call):
    """Return `__call__` of ops by their own names, `torch.ops.aten.relu.default`, which stay what they are in the graph."""

    def called(op, *args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return call(op, *args, **kwargs)
        return proxy.tracer.create_proxy("call_function", op, args, kwargs)

    return called


def _create_wrapped_method(cls, name):
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


def _patch_wrapped_functions(patcher):
    for (_, name), frame_dict in list(_wrapped_fns_to_patch.items()):
        if name not in frame_dict and hasattr(builtins, name):
            original = getattr(builtins, name)
        elif name not in frame_dict:
            continue  # its module has let go of it
        else:
            original = frame_dict[name]
        patcher.patch(frame_dict, name, _create_wrapped_func(original))
    for cls, name in list(_wrapped_methods_to_patch):
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


_LIBRARY_HOMES = ("", ".functional", ".nn.functional", ".nn.init", ".linalg", ".fft", ".special")


@functools.cache
def _library_wrappers():
    found = {key: _create_library_func(function) for key, function in _public.interceptable().items()}
    found.update((key, _create_method_func(name)) for key, name in _public.METHODS.items())
    return found


def _patch_library(patcher, wrappers):
    """Patch functions of Facula in Python, where programs find them."""
    homes = [facula if not path else getattr(facula, path.split(".")[1]) for path in ("", ".functional", ".linalg")]
    homes += [facula.nn.functional, facula.nn.init, facula.special, facula.fft]
    for home in homes:
        _patch_globals(patcher, vars(home), wrappers)


def _patch_globals(patcher, scope, wrappers):
    for name, value in list(scope.items()):
        wrapper = wrappers.get(id(value))
        if wrapper is not None:
            patcher.patch(scope, name, wrapper)


def _autowrap_check(patcher, frame_dict, function_ids, wrappers=None):
    """Replace in the globals of a program what is wrapped automatically."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if name.startswith("_") and wrappers is None or not callable(value):
            continue
        key = id(value)
        if key in function_ids:
            patcher.patch(frame_dict, name, _create_wrapped_func(value))
        elif wrappers is not None and key in wrappers:
            patcher.patch(frame_dict, name, wrappers[key])


def _by_keyword(fn, names):
    """Return `fn`, whose last parameters are given by keyword only, with all of them positional."""

    @functools.wraps(fn)
    def positional(*args):
        return fn(*args[: len(args) - len(names)], **dict(zip(names, args[len(args) - len(names) :])))

    return positional


def _patch_function(fn, nargs):
    """Return `fn` with all its parameters positional, those with stars too, which get what a proxy stands for."""
    code = fn.__code__.replace(
        co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF
    )
    return types.FunctionType(code, fn.__globals__, fn.__name__, None, fn.__closure__)


def _patch_program(tracer, patcher, scope):
    """Patch modules, functions of Facula and wrapped functions, for as long as the program is traced."""
    proxies, wrappers = {}, _library_wrappers()
    thread = threading.get_ident()  # others go on with their modules

    @functools.wraps(_orig_module_getattr)
    def module_getattr(mod, attr):
        if threading.get_ident() != thread:
            return _orig_module_getattr(mod, attr)
        return tracer.getattr(attr, _orig_module_getattr(mod, attr), proxies)

    @functools.wraps(_orig_module_call)
    def module_call(mod, *args, **kwargs):
        if threading.get_ident() != thread:
            return _orig_module_call(mod, *args, **kwargs)
        forward = lambda *a, **k: _orig_module_call(mod, *a, **k)
        home = getattr(getattr(mod, "forward", mod), "__globals__", {})
        if home and not home.get("__name__", "").startswith("facula."):
            _autowrap_check(patcher, home, tracer._autowrap_function_ids, wrappers)
        return tracer.call_module(mod, forward, args, kwargs)

    for kind in (OpOverload, OpOverloadPacket):
        patcher.patch_method(kind, "__call__", _create_op_call(kind.__call__))
    patcher.patch_method(facula.nn.Module, "__getattr__", module_getattr)
    patcher.patch_method(facula.nn.Module, "__call__", module_call)
    _patch_library(patcher, wrappers)
    _patch_wrapped_functions(patcher)
    # The program's own module, where functions may have been imported by name; files of Facula are patched as a whole above.
    if not scope.get("__name__", "").startswith("facula."):
        _autowrap_check(patcher, scope, tracer._autowrap_function_ids, wrappers)
    for module in tracer._autowrap_search:
        _autowrap_check(patcher, vars(module), tracer._autowrap_function_ids)
