"""Call the kernels of operators that C++ libraries register with `TORCH_LIBRARY`; `facula.library` uses them.

One object stands for all kernels of an operator: which of them is for the arguments' device is decided in C++
(src/program/custom.h). Arguments are bound by the schema.
"""

import contextlib
import threading

from facula import _C


class _Level(threading.local):
    overload = None  # the one that was asked for by its name


_level = _Level()


@contextlib.contextmanager
def asked_for(overload):
    """Let calls within it be of this overload."""
    before, _level.overload = _level.overload, overload
    try:
        yield
    finally:
        _level.overload = before


class Kernels:
    """Call the C++ kernels of an operator: of several overloads, the first one that accepts the arguments."""

    def __init__(self, names, below):
        self._names, self._below = names, below

    def _name(self, args, kwargs):
        if len(self._names) == 1:
            return next(iter(self._names.values()))
        if _level.overload is not None:
            return self._names[_level.overload]
        errors = []
        for name in self._names.values():
            try:
                _C._custom_bind(name, args, kwargs)
                return name
            except TypeError as error:
                errors.append(str(error))
        raise TypeError("\n".join(errors))

    def __call__(self, *args, **kwargs):
        return _C._custom_call(self._name(args, kwargs), self._below, args, kwargs)

    def bind(self, args, kwargs):
        """Return the name of the overload, and every argument by position."""
        name = self._name(args, kwargs)
        return name, _C._custom_bind(name, args, kwargs)

    def split(self, args, kwargs):
        """Return the arguments by position, and those by keyword only."""
        name, values = self.bind(args, kwargs)
        positional, keyword_only = [], {}
        for (argument, _, by_keyword, *_), value in zip(_C._boxed_op(name)["arguments"], values):
            if by_keyword:
                keyword_only[argument] = value
            else:
                positional.append(value)
        return positional, keyword_only


def gives_nothing(overloads):
    """Return whether there are overloads, none of which has a result."""
    return bool(overloads) and not any(_C._boxed_op(name)["results"] for name in overloads.values())


#: how many registrations are taken over
_taken = 0


def take_over(tell):
    """Call `tell(name, schema, keys)` where there are new ones; a RuntimeError says what was wrong with one."""
    global _taken
    if (count := _C._custom_count()) != _taken:
        for name, schema, keys in _C._custom_ops():
            tell(name, schema, keys)
        _taken = count
    if error := _C._custom_error():
        raise RuntimeError(error)
