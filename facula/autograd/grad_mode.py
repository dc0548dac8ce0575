"""Context managers and decorators that switch recording."""

from __future__ import annotations

import functools
import inspect

from .. import _C


class _Switch:
    """Base of the modes: a context manager that also decorates functions, generators and, for classes, nothing."""

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                inner = function(*args, **kwargs)
                value = None
                try:
                    while True:
                        with self.clone():
                            item = inner.send(value)
                        value = yield item
                except StopIteration as stop:
                    return stop.value
                finally:
                    inner.close()

            return generator

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def clone(self):
        """Another context manager of the same kind and mode."""
        return type(self)()


class no_grad(_Switch):
    """Within it, ops are not recorded and results do not require gradients."""

    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __enter__(self):
        self.before = _C._set_grad_enabled(False)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before)


class enable_grad(_Switch):
    """Within it, ops are recorded again, also inside no_grad."""

    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __enter__(self):
        self.before = _C._set_grad_enabled(True)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before)


class set_grad_enabled(_Switch):
    """Switches recording at once; as a context manager, back at the end."""

    def __init__(self, mode: bool):
        self.mode = bool(mode)
        self.before = _C._set_grad_enabled(self.mode)

    def __call__(self, function):
        _C._set_grad_enabled(self.before)
        return super().__call__(function)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before)

    def clone(self):
        """Another context manager of the same kind and mode."""
        return type(self)(self.mode)


class inference_mode(_Switch):
    """As no_grad; tensors made within it never take part in recording."""

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = mode
        return self

    def __init__(self, mode: bool = True):
        if not callable(mode):
            self.mode = bool(mode)

    def __enter__(self):
        self.before = (_C._set_grad_enabled(not self.mode and _C.is_grad_enabled()), _C._set_inference_mode(self.mode))

    def __exit__(self, *exception):
        _C._set_grad_enabled(self.before[0])
        _C._set_inference_mode(self.before[1])

    def clone(self):
        """Another context manager of the same kind and mode."""
        return type(self)(self.mode)


class set_multithreading_enabled(_Switch):
    """Accepted for compatibility: CPU nodes always run on the calling thread."""

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return None

    def clone(self):
        """Another context manager of the same kind and mode."""
        return type(self)(self.mode)


class _force_original_view_tracking(set_multithreading_enabled):
    """Accepted for compatibility: views are always tracked through their base."""
