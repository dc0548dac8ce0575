"""Make placeholders for names of PyTorch that programs import and Facula lacks: they exist, and raise an error when
they are used.

A class or function that is missing (not_here.py) is an `Unsupported` class: it may stand in annotations, isinstance checks
and base class lists; calling it raises NotImplementedError with its name, the reason and what was received. A few functions
have a harmless answer (`ANSWERS`) or are decorators that hand back what they get (`DECORATORS`).

Whatever is missing says so through `refuse`, and `refuse` only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import sys
import types
from typing import TYPE_CHECKING

from facula._shared.near_names import no_attribute
from facula.compat import not_here
from facula.compat.names import ANSWERS, DECORATORS, ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_PARENTS = frozenset(name[:at] for name in not_here.MODULES for at, letter in enumerate(name) if letter == ".")


class NoDeviceError(NotImplementedError, AssertionError):
    """Report that a device is needed that does not exist. PyTorch raises AssertionError in some of these places and
    RuntimeError in others, so this error is both.
    """


def _described(value):
    """Return a value of a call in a few words."""
    if not isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"
    return type(value).__name__


def refuse(full_name: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Raise NotImplementedError: `full_name`, why Facula does not have it, and what was received."""
    given = [*map(_described, args), *(f"{key}={_described(value)}" for key, value in (kwargs or {}).items())]
    error = NoDeviceError if not_here.reason_of(full_name) in not_here.NO_DEVICE else NotImplementedError
    raise error(f"{not_here.text(full_name)}, got {', '.join(given) or 'no arguments'}")


class Unsupported(type):
    """Create placeholders; this is their class."""

    def __call__(cls, *args: Any, **kwargs: Any) -> None:
        # a subclass defined by the program counts as a use of the base it stands on
        base = next(base for base in cls.__mro__ if "_facula_missing" in vars(base))
        refuse(base._facula_missing, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name == "_facula_missing":
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return placeholder(f"{cls._facula_missing}.{name}")

    def __repr__(cls) -> str:
        return f"<{cls._facula_missing}, not supported by Facula>"


def placeholder(full_name: str) -> type:
    """Return the placeholder for `full_name`, such as "torch.package.PackageImporter"."""
    module, _, name = full_name.rpartition(".")
    body = {
        "_facula_missing": full_name,
        "__doc__": f"{not_here.text(full_name)}.",
        "__module__": module,
        "__class_getitem__": classmethod(lambda cls, _: cls),
    }
    return Unsupported(name, (), body)


def _identity_decorator(full_name):
    """Return a decorator that changes nothing, used plainly or with arguments."""

    def decorate(*args, **kwargs):
        if len(args) == 1 and not kwargs and (callable(args[0]) or args[0] is None):
            return args[0] if args[0] is not None else decorate
        return lambda target: target

    decorate.__name__ = decorate.__qualname__ = full_name.rpartition(".")[2]
    return decorate


def _constant(full_name, answer):
    def answer_always(*args, **kwargs):
        return answer

    answer_always.__name__ = answer_always.__qualname__ = full_name.rpartition(".")[2]
    return answer_always


def attribute(module: str, name: str) -> Callable[..., Any] | type:
    """Return what stands for `module.name`; AttributeError where PyTorch's programs are not known to ask for it."""
    full_name = f"{module}.{name}"
    if full_name in ELSEWHERE:
        home, _, own_name = ELSEWHERE[full_name].rpartition(".")
        return getattr(importlib.import_module(home), own_name) if home else importlib.import_module(own_name)
    if full_name in DECORATORS:
        return _identity_decorator(full_name)
    if full_name in ANSWERS:
        return _constant(full_name, ANSWERS[full_name])
    if name in not_here.MODULES.get(module, ()) or full_name in not_here.REMOVED:
        return placeholder(full_name)
    raise no_attribute(module, name)


def member(module: str, name: str) -> Any:
    """Return `module.name`, a module of placeholders or what `attribute` gives."""
    full_name = f"{module}.{name}"
    return _known_module(full_name) if is_known_module(full_name) else attribute(module, name)


@functools.cache
def _known_module(name):
    """Import a module through the import system where `torch` is Facula; where it is not, `torch.x` would be another
    library's."""
    root = sys.modules.get("torch")
    if root is not None and root is sys.modules["facula"]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            return make_module(name)  # below a module that is no package
    own = "facula" + name.removeprefix("torch")
    with contextlib.suppress(ModuleNotFoundError):  # the parent is no package
        if importlib.util.find_spec(own) is not None:
            return complete_module(importlib.import_module(own), name)
    return make_module(name)


def is_known_module(name: str) -> bool:
    """Return whether PyTorch has a module of this name."""
    return (name in not_here.MODULES or name in _PARENTS) and name != "torch.Tensor"


def make_module(name: str) -> ModuleType:
    """Return a module that holds nothing but placeholders."""
    module = types.ModuleType(name, f"Not supported by Facula; see {__name__}.")
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    return complete_module(module, name)


def complete_module(module: Any, name: str) -> Any:
    """Let `module` answer for the known names it lacks; one file may stand for several of PyTorch's modules."""
    if name in _PARENTS and not hasattr(module, "__path__"):
        module.__path__ = []  # PyTorch has modules below it
    own = module.__dict__.get("__getattr__")
    names: list[str] = getattr(own, "_facula_names", [])
    if names:
        if name not in names:
            names.append(name)
        return module
    names = [name]

    def __getattr__(wanted):
        refused = None
        if own is not None:
            try:
                value = own(wanted)
            except AttributeError as error:
                if error.name not in (None, wanted):  # not this name, but one in code that ran for it
                    raise
                refused = error
            else:
                if len(sys.modules) != _completed:  # some may have been loaded just now
                    complete_loaded()
                return value
        if wanted.startswith("__"):
            raise refused or AttributeError(f"module {name!r} has no attribute {wanted!r}")
        for known in list(names):
            try:
                found = member(known, wanted)
            except AttributeError as error:
                refused = refused or error
            else:
                setattr(sys.modules.get(known, module), wanted, found)  # the same object each time
                return found
        raise refused from None

    __getattr__._facula_names = names
    module.__getattr__ = __getattr__
    return module


_completed = 0  # how many modules there were when complete_loaded() last went through them


def complete_loaded() -> None:
    """Call `complete_module` for every module of Facula that is loaded, whichever way a program reached it."""
    global _completed
    _completed = len(sys.modules)
    for name, module in list(sys.modules.items()):
        if (name == "facula" or name.startswith("facula.")) and not name.startswith("facula.compat"):
            if isinstance(module, types.ModuleType):
                complete_module(module, "torch" + name[len("facula") :])
