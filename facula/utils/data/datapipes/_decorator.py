"""Define decorators for classes of data pipes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from typing import TYPE_CHECKING

from .datapipe import IterDataPipe, MapDataPipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_settings = {"deterministic": False, "validates": True}


class functional_datapipe:
    """Decorate a class of pipes: all pipes get a method `name`, which makes a pipe of that class from them.

    Args:
        name: of the function.
        enable_df_api_tracing: must be False.

    Errors: TypeError for what is no class of pipes, RuntimeError for a name that is taken, NotImplementedError for tracing.

    >>> @torch.utils.data.functional_datapipe("every_second_of_them")
    ... class EverySecond(torch.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (x for i, x in enumerate(self.source) if i % 2)
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2, 3, 4]).every_second_of_them())
    [2, 4]
    >>> del torch.utils.data.IterDataPipe.functions["every_second_of_them"]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        kinds = [kind for kind in (IterDataPipe, MapDataPipe) if inspect.isclass(cls) and issubclass(cls, kind)]
        if not kinds and not isinstance(cls, non_deterministic):
            raise TypeError(f"functional_datapipe: a class of IterDataPipe or MapDataPipe is expected, got {cls!r}")
        kind = kinds[0] if kinds else IterDataPipe
        kind.register_datapipe_as_function(self.name, cls, enable_df_api_tracing=self.enable_df_api_tracing)
        return cls


class guaranteed_datapipes_determinism(contextlib.ContextDecorator):
    """Forbid classes that are `non_deterministic`, in a block or from the construction of this object on.

    Args:
        mode: False allows them again.

    >>> with torch.utils.data.guaranteed_datapipes_determinism():
    ...     pipe = torch.utils.data.datapipes.iter.IterableWrapper([1, 2])
    >>> list(pipe)
    [1, 2]
    """

    def __init__(self, mode: bool = True):
        self._before, _settings["deterministic"] = _settings["deterministic"], bool(mode)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _settings["deterministic"] = self._before


class non_deterministic:
    """Decorate a class of streams whose order is not always the same.

    Args:
        arg: the class, or a function of an instance that says whether it is.

    Errors: TypeError for what is neither, and for making an instance within guaranteed_datapipes_determinism.

    >>> @torch.utils.data.non_deterministic
    ... class Anyhow(torch.utils.data.IterDataPipe):
    ...     def __iter__(self):
    ...         return iter({1})
    >>> list(Anyhow())
    [1]
    """

    def __init__(self, arg: Any):
        whole = inspect.isclass(arg)
        if not whole and not callable(arg) or whole and not issubclass(arg, IterDataPipe):
            raise TypeError(f"non_deterministic: a class of IterDataPipe or a function is expected, got {arg!r}")
        self._cls, self._asks = (arg, lambda pipe: True) if whole else (None, arg)
        functools.update_wrapper(self, arg)

    def __call__(self, *args, **kwargs):
        if self._cls is None:
            if len(args) != 1 or not inspect.isclass(args[0]) or not issubclass(args[0], IterDataPipe):
                raise TypeError(f"non_deterministic: a class of IterDataPipe is expected, got {args!r}")
            self._cls = args[0]
            return self
        made = self._cls(*args, **kwargs)
        if _settings["deterministic"] and self._asks(made):
            raise TypeError(f"{self._cls.__name__}: it is not deterministic, which guaranteed_datapipes_determinism forbids")
        return made


def _fits(value, hint):
    if isinstance(hint, type):
        return isinstance(value, hint)
    origin = typing.get_origin(hint)
    return not isinstance(origin, type) or isinstance(value, origin)


def argument_validation(f: Callable[..., Any]):
    """Decorate an `__init__` or `__iter__`: arguments must be of the classes that their annotations name.

    Args:
        f: the function.

    Errors: TypeError, when it is called, for an argument of another class.

    >>> @torch.utils.data.argument_validation
    ... def double(x: int):
    ...     return 2 * x
    >>> double(4)
    8
    """
    signature = inspect.signature(f)
    hints = typing.get_type_hints(f)

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in hints and not _fits(value, hints[name]):
                raise TypeError(f"argument_validation: {name} must be of type {hints[name]}, got {type(value)}")
        return f(*args, **kwargs)

    return checked


class runtime_validation_disabled(contextlib.ContextDecorator):
    """Switch the checks of `runtime_validation` off in a block.

    >>> with torch.utils.data.runtime_validation_disabled():
    ...     pass
    """

    def __init__(self):
        self._before = _settings["validates"]
        _settings["validates"] = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _settings["validates"] = self._before


def runtime_validation(f: Callable[..., Any]):
    """Decorate an `__iter__`: what it gives must be of the class that its annotation, `Iterator[C]`, names.

    Args:
        f: the function.

    Errors: RuntimeError, when it is iterated, for an instance of another class.

    >>> from typing import Iterator
    >>> class Numbers(torch.utils.data.IterDataPipe):
    ...     @torch.utils.data.runtime_validation
    ...     def __iter__(self) -> Iterator[int]:
    ...         return iter([1, 2])
    >>> list(Numbers())
    [1, 2]
    """
    hints = typing.get_args(typing.get_type_hints(f).get("return"))

    @functools.wraps(f)
    def checked(self):
        for value in f(self):
            if hints and _settings["validates"] and not _fits(value, hints[0]):
                raise RuntimeError(f"runtime_validation: items of type {hints[0]} are expected, got {value!r} ({type(value)})")
            yield value

    return checked
